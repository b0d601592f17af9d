"""Do the tests notice a wrong backward? This script makes them wrong, one formula at a time, and names the survivors.

    python tests/mutate_backward.py [--jobs 2] [--only softmax] [--list]

It copies the project, changes one place in a backward of `minigrad/ops` or `minigrad/kernels`, or in what they share (a
sign, a factor, a dropped term, another axis, a comparison), and runs the rows of tests/cases.py that use the operation,
with a kernel cache of the copy's own. A mutant is killed if a test fails; one that survives is either equivalent, and
then stands in EQUIVALENT with the reason, or shows a hole in the tests.
"""
import argparse
import ast
import concurrent.futures
import copy
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[1]
SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.MatMult: None}
COMPARED = {ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.GtE: ast.Lt, ast.LtE: ast.Gt}
TESTS = (
    "tests/minigrad/test_ops.py", "tests/minigrad/test_derivatives.py", "tests/minigrad/test_numbers.py",
    "tests/minigrad/kernels/test_attention.py",
)  # fmt: skip
FILES = "tape.py", "ops/*.py", "kernels/*.py", "kernels/formulas/*.py"
SHARED = {  # what backwards are made of
    "unbroadcast", "add_at", "add_to", "add_blocks", "carried_back", "sum_rows_forward", "_sum_over_keys",
}

POINTERS = "pointer", "pointers", "shift", "shift_each", "consecutive"  # functions that return some

SLOWER = "another way to the same sums"

# (file, function, mutation as printed): why no test can tell it from the original
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("minigrad/ops/arithmetic.py", "Step", "return value 0 doubled"): "twice zero",
    ("minigrad/ops/arithmetic.py", "FloorDivide", "return value 0 doubled"): "twice zero",
    ("minigrad/ops/arithmetic.py", "FloorDivide", "return value 1 doubled"): "twice zero",
    ("minigrad/ops/indexing.py", "add_at", "part.dtype.kind == 'i'  ->  part.dtype.kind != 'i'"): SLOWER,
    ("minigrad/ops/indexing.py", "add_at", "len(parts) == 1  ->  len(parts) != 1"): SLOWER,
    ("minigrad/ops/indexing.py", "add_at", "x.dtype.kind == 'f'  ->  x.dtype.kind != 'f'"): SLOWER,
}


@dataclass
class Mutant:
    path: pathlib.Path  # below the root
    owner: str  # the class or kernel
    line: int
    change: str
    source: str

    def __str__(self):
        return f"{self.path}:{self.line} {self.owner}: {self.change}"


def backward_functions(tree: ast.Module):
    """(name of the class or kernel, function) of all backwards in a file, rows of elementary functions among them."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from ((node.name, f) for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "backward")
        elif isinstance(node, ast.FunctionDef) and ("backward" in node.name or node.name in SHARED):
            yield node.name, node
        elif isinstance(node, ast.Assign) and getattr(getattr(node.value, "func", None), "id", "") == "elementary":
            yield node.targets[0].id, node.value.args[2]


def variants(node: ast.AST):
    """(description, replacement) of one node of a formula."""
    text = ast.unparse(node)
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        if swapped := SWAPPED[type(node.op)]:
            other = ast.BinOp(node.left, swapped(), node.right)
            yield f"{text}  ->  {ast.unparse(other)}", other
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            yield f"{text}  ->  {ast.unparse(node.left)}", node.left
    elif isinstance(node, ast.AugAssign) and type(node.op) in SWAPPED:
        swapped = ast.AugAssign(node.target, SWAPPED[type(node.op)](), node.value)
        for other in (swapped, ast.Assign([node.target], node.value)):
            yield f"{text}  ->  {ast.unparse(ast.fix_missing_locations(other))}", other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield f"{text}  ->  {ast.unparse(node.operand)}", node.operand
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        other = ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators)
        yield f"{text}  ->  {ast.unparse(other)}", other
    elif isinstance(node, ast.keyword) and node.arg in ("axis", "dim"):
        yield f"{text}  ->  {node.arg}=0", ast.keyword(node.arg, ast.Constant(0))
    elif isinstance(node, ast.Return) and node.value is not None:
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for i, part in enumerate(parts):
            if isinstance(part, ast.Constant):
                continue
            doubled = [ast.BinOp(ast.Constant(2), ast.Mult(), p) if i == j else p for j, p in enumerate(parts)]
            value = ast.Tuple(doubled, ast.Load()) if isinstance(node.value, ast.Tuple) else doubled[0]
            yield f"return value {i} doubled", ast.Return(value)


def mutants() -> list[Mutant]:
    found = []
    for path in (path for pattern in FILES for path in sorted((ROOT / "minigrad").glob(pattern))):
        tree = ast.parse(path.read_text())
        for owner, function in backward_functions(tree):
            for parent, field, value, i, child in formula_nodes(function):
                found += _mutate(path, tree, owner, parent, field, value, i, child)
    return found


def formula_nodes(parent: ast.AST):
    """Each node of the formulas below, and where it stands.

    Indices, bounds of loops and pointers are skipped: a wrong one reads other memory.
    """
    is_pointer = isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in POINTERS
    for field, value in ast.iter_fields(parent):
        if is_pointer or field == "slice" or isinstance(parent, ast.For) and field == "iter":
            continue
        for i, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                yield parent, field, value, i, child
                yield from formula_nodes(child)


def _mutate(path, tree, owner, parent, field, value, i, child) -> list[Mutant]:
    made = []
    for change, replacement in variants(child):
        before = copy.copy(value) if isinstance(value, list) else value
        if isinstance(value, list):
            value[i] = replacement
        else:
            setattr(parent, field, replacement)
        source = ast.unparse(ast.fix_missing_locations(tree))
        if isinstance(value, list):
            value[:] = before
        else:
            setattr(parent, field, before)
        made.append(Mutant(path.relative_to(ROOT), owner, getattr(child, "lineno", 0), change, source))
    return made


def selected_tests(mutant: Mutant) -> list[str]:
    """The rows of the operation; for a kernel, those of all families that use its file, and the kernels' own tests."""
    if mutant.owner in SHARED or mutant.path.name == "tape.py":
        return []
    if mutant.path.parts[1] == "ops":
        return ["-k", f"{mutant.owner}- or numbers"]
    family = mutant.path.stem
    sources = [path.read_text() for path in (ROOT / "minigrad/ops").glob("*.py")]
    users = [source for source in sources if re.search(rf"from \.\.kernels(\.| import (.*, )?){family}\b", source)]
    an_op = re.compile(r"^(?:class )?(\w+)(?:\((?:Op|Fused)| = elementary)", re.MULTILINE)
    operations = [name for source in users for name in an_op.findall(source)]
    return ["-k", " or ".join([f"test_{family}"] + [f"{name}-" for name in operations])] if operations else []


def survives(mutant: Mutant, folder: pathlib.Path) -> bool:
    """Run the tests in a copy of the project with the mutant in it."""
    target = folder / mutant.path
    original = target.read_text()
    target.write_text(mutant.source)
    try:
        return tests_pass(folder, selected_tests(mutant))
    except subprocess.TimeoutExpired:
        return False
    finally:
        target.write_text(original)


def tests_pass(folder: pathlib.Path, selection: Sequence[str] = ()) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS, *selection]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=600, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--only", default="", help="mutants whose line of output contains this")
    parser.add_argument("--list", action="store_true", help="list them, run nothing")
    options = parser.parse_args()
    everything = mutants()
    known = {(str(mutant.path), mutant.owner, mutant.change) for mutant in everything}
    if stale := EQUIVALENT.keys() - known:
        print("these entries of EQUIVALENT match no mutant; has the formula moved?", *stale, sep="\n", file=sys.stderr)
        return 1
    chosen = [mutant for mutant in everything if options.only in str(mutant)]
    if options.list:
        print(*chosen, f"{len(chosen)} mutants", sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folders = [pathlib.Path(scratch) / str(job) for job in range(options.jobs)]
        for folder in folders:
            shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", "runs", "build"))
        if not all(pool.map(tests_pass, folders)):
            print("the tests fail without any change", file=sys.stderr)
            return 1
        free = list(folders)

        def judge(mutant: Mutant) -> tuple[Mutant, bool]:
            folder = free.pop()
            try:
                return mutant, survives(mutant, folder)
            finally:
                free.append(folder)

        survivors = unexplained = 0
        for done, (mutant, alive) in enumerate(pool.map(judge, chosen), 1):
            if alive:
                survivors += 1
                reason = EQUIVALENT.get((str(mutant.path), mutant.owner, mutant.change))
                unexplained += reason is None
                print(f"survived: {mutant}" + (f"  (equivalent: {reason})" if reason else ""), flush=True)
            if done % 25 == 0:
                print(f"{done} of {len(chosen)} mutants judged", file=sys.stderr, flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants killed, {survivors - unexplained} equivalent, "
          f"{unexplained} survived")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
