"""Do the tests notice a change of the library? This script makes many, one at a time, and names those that nobody noticed.

    python tests/mutate.py [--count 300] [--seed 0] [--only WORD] [--minutes 60] [--jobs 1] [--results FILE]

A mutant is the library with one expression or statement changed (see `variants`). Mutants are drawn at random, as many of
each package; `--count 0` takes all. Each is put into a copy of the project, where the tests that speak of its file run, as
many as `--seconds` allow, the nearest first (see `nearness`). It is killed if one fails, or if they do not end. One that
survives is equivalent, or shows a hole in the tests.

What is found is a line of JSON in the file of results; a run that was interrupted goes on from there, and `--report` prints
what is known. Some of the library ends processes: `unshare --pid --fork --mount-proc python tests/mutate.py` sees to it
that no mutant ends those of others.
"""
import argparse
import ast
import collections
import compileall
import concurrent.futures
import functools
import itertools
import json
import os
import pathlib
import py_compile
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = {  # a file is of the last that fits
    "engine": "minigrad", "ops": "minigrad/ops", "gradcheck": "minigrad/gradcheck", "kernels": "minigrad/fast/kernels",
    "nn": "nn", "models": "models", "mistakes": "study/mistakes", "exercises": "study/exercises",
}
USUAL = "engine,ops,gradcheck,nn,models,mistakes,exercises"  # a changed kernel has all of them compiled again
SURVIVED, KILLED, NO_END = "survived", "killed", "no end"
MEMORY = 12 << 30  # bytes that a process may ask for
OTHERS = {  # operators, and what may stand for them
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.FloorDiv: (ast.Div,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMMUTATIVE = ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor
UNTOUCHED = ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom  # what is below; inside of f-strings, places are unknown
UNTOUCHED_FIELDS = "annotation", "returns", "decorator_list"


@dataclass(frozen=True)
class Mutant:
    path: str  # below the root
    line: int
    owner: str  # class and function
    old: str
    new: str
    start: int  # the bytes of the file that `new` stands for
    end: int

    def __str__(self):
        old, new = (textwrap.shorten(text, 120, placeholder=" ...") for text in (self.old, self.new))
        return f"{self.path}:{self.line} {self.owner}: {old}  ->  {new}"

    @property
    def package(self) -> str:
        return [name for name, folder in PACKAGES.items() if self.path.startswith(f"{folder}/")][-1]

    def source(self, original: bytes) -> bytes:
        return original[: self.start] + self.new.encode() + original[self.end :]


def variants(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(what is replaced, by what) of one node."""
    match node:
        case (ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test])
              ) if not isinstance(test, (ast.Compare, ast.UnaryOp)):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for other in OTHERS[type(op)]:
                    yield node, ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield from ((node, ast.BoolOp(other(), values)) for other in OTHERS[type(op)])
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield node, rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.BinOp(left, op, right):
            yield from ((node, term) for term in (left, right))  # the other is dropped
            yield from ((node, ast.BinOp(left, other(), right)) for other in OTHERS.get(type(op), ()))
            if not isinstance(op, COMMUTATIVE):
                yield node, ast.BinOp(right, op, left)
        case ast.UnaryOp(_, operand):
            yield node, operand
        case ast.Constant(bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, ast.Constant(value + 1)
        case ast.Call(function, arguments, keywords):
            for keyword in keywords:  # its default instead
                yield node, ast.Call(function, arguments, [other for other in keywords if other is not keyword])
            if len(arguments) == 1 and not keywords and not isinstance(arguments[0], ast.Starred):
                yield node, arguments[0]
        case ast.Return(ast.AST() as value):
            yield value, ast.Constant(None)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Expr(ast.Call()):
            yield node, ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue():
            yield node, ast.Pass()


def mutants_of(path: str) -> Iterator[Mutant]:
    content = (ROOT / path).read_bytes()
    starts = [0, *(i + 1 for i, byte in enumerate(content) if byte == 10)]

    def below(node: ast.AST, owner: str) -> Iterator[Mutant]:
        for replaced, by in variants(node):
            start, end = (starts[line - 1] + column for line, column in (
                (replaced.lineno, replaced.col_offset), (replaced.end_lineno, replaced.end_col_offset)))
            new = ast.unparse(by) if isinstance(by, ast.stmt) else f"({ast.unparse(by)})"
            yield Mutant(path, replaced.lineno, owner, content[start:end].decode(), new, start, end)
        if isinstance(node, UNTOUCHED):
            return
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            owner = f"{owner}.{node.name}".lstrip(".")
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and field not in UNTOUCHED_FIELDS:
                    yield from below(child, owner)

    yield from below(ast.parse(content), "")


def is_python(mutant: Mutant) -> bool:
    """And nothing that Python warns of, as of a number that is called."""
    with warnings.catch_warnings(action="error"):
        try:
            return bool(compile(mutant.source((ROOT / mutant.path).read_bytes()), "", "exec"))
        except SyntaxError:  # warnings too
            return False


def sources(packages: Iterable[str] = PACKAGES) -> list[str]:
    paths = {path.relative_to(ROOT).as_posix() for package in packages for path in (ROOT / PACKAGES[package]).rglob("*.py")}
    return sorted(path for path in paths if Mutant(path, 0, "", "", "", 0, 0).package in packages)


# ---- which tests speak of a file ----

@functools.cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@functools.cache
def defined(path: str) -> frozenset[str]:
    """Names of what a file of the library defines."""
    return frozenset(name for node in ast.walk(tree(path)) for name in (
        [node.name] if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else
        [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Assign) else []))


@functools.cache
def mentioned(path: str) -> frozenset[str]:
    """Names that a file of tests uses, itself or in the helpers that it imports."""
    found, modules = set(), set()
    for node in ast.walk(tree(path)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(str(name)):
                found.add(name)
            case ast.ImportFrom(module=module, names=names):
                modules.add(module)
                found |= {alias.name for alias in names}
            case ast.Import(names=names):
                modules |= {alias.name for alias in names}
    helpers = (f"tests/{module.replace('.', '/')}.py" for module in modules)
    return frozenset(found).union(*(mentioned(helper) for helper in helpers if (ROOT / helper).exists()))


@functools.cache
def rareness() -> dict[str, float]:
    """1 / the number of files of the library that define a name."""
    counts = collections.Counter(name for path in sources() for name in defined(path))
    return {name: 1 / count for name, count in counts.items()}


def nearness(test: str, mutant: Mutant) -> float:
    """How much a file of tests speaks of the mutant's: names of it that it uses, rare ones above all, those of the mutant's
    own class and function three times; and whether it stands in the folder of its package, and is called as the file or the
    file's folder is (tests/nn/test_optim.py)."""
    names, path = mentioned(test), pathlib.PurePath(mutant.path)
    own = set(mutant.owner.split(".")) & names
    alike = pathlib.PurePath(test).stem in {f"test_{part}" for part in (*path.parts[:-1], path.stem)}
    weights = rareness()
    return (sum(weights[name] for name in defined(mutant.path) & names) + 3 * sum(weights.get(name, 0) for name in own)
            + (1 + 5 * alike) * test.startswith(f"tests/{path.parts[0]}/"))


class Copy:
    """A copy of the project, in which one mutant lives at a time."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "runs", "build", "__pycache__"))
        # By content: a mutant of the same second and size must not run as what it was.
        compileall.compile_dir(folder, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def run(self, tests: list[str], seconds: float) -> tuple[str, str]:
        """How they end, and the first failure."""
        scratch = self.folder.with_suffix(".scratch")
        scratch.mkdir(exist_ok=True)
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch)}
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "--numprocesses=0", "--long",
             *tests], cwd=self.folder,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)), errors="replace")
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return NO_END, ""
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # and what it has left behind
            except ProcessLookupError:
                pass
            process.communicate()
            shutil.rmtree(scratch, ignore_errors=True)
        lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        outcome = KILLED if process.returncode else SURVIVED
        return outcome, lines[0][:200] if lines else output[-200:] * (outcome == KILLED)

    def judge(self, mutant: Mutant, tests: list[str], seconds: float) -> tuple[str, str]:
        path = self.folder / mutant.path
        original = path.read_bytes()
        path.write_bytes(mutant.source(original))
        try:
            return self.run(tests, seconds)
        finally:
            path.write_bytes(original)


class Results:
    """The file of results: one line for each file of tests as things are, and for each mutant."""

    def __init__(self, path: pathlib.Path):
        self.path, self.seconds, self.mutants = path, {}, {}
        for line in path.read_text().splitlines() if path.exists() else []:
            self._know(json.loads(line))

    def _know(self, line: dict) -> None:
        if "mutant" in line:
            self.mutants[Mutant(**line["mutant"])] = line["outcome"]
        else:
            self.seconds[line["test"]] = line["seconds"]

    def add(self, **line) -> None:
        self._know(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def report(self) -> str:
        """Rates by package, then the survivors."""
        found = {name: {m: outcome for m, outcome in self.mutants.items() if m.package == name} for name in PACKAGES}
        survivors = {name: [m for m, outcome in of_it.items() if outcome == SURVIVED] for name, of_it in found.items()}
        rates = [f"{name}: {len(of_it) - len(survivors[name])} of {len(of_it)} killed"
                 for name, of_it in found.items() if of_it]
        return "\n".join(rates + [f"{SURVIVED}: {mutant}" for mutants in survivors.values() for mutant in mutants])


def tests_for(mutant: Mutant, copy: Copy, results: Results, seconds: float) -> tuple[list[str], float]:
    """Files of tests, the nearest first, and the doctests of its own; and how long they take as things are."""
    tests = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    chosen, left = [], seconds
    for test in sorted(tests, key=lambda test: -nearness(test, mutant)):
        if left < 0.1 * seconds or not nearness(test, mutant):
            break
        if test not in results.seconds:
            begin = time.monotonic()
            outcome, failure = copy.run([test], seconds)
            needed = round(time.monotonic() - begin, 1) if outcome == SURVIVED else None  # of no use
            results.add(test=test, seconds=needed, failure=failure)
        if (needed := results.seconds[test]) is not None and needed <= left:
            chosen.append(test)
            left -= needed
    return [*chosen, mutant.path], seconds - left


def drawn(only: str, packages: list[str], count: int, seed: int) -> list[Mutant]:
    """As many of each package, in a random order."""
    found: dict[str, list[Mutant]] = {package: [] for package in packages}
    for path in sources(packages):
        for mutant in mutants_of(path):
            if only in str(mutant):
                found[mutant.package].append(mutant)
    generator = random.Random(seed)
    for mutants in found.values():
        generator.shuffle(mutants)
    rounds = (mutants[i] for i in range(max(map(len, found.values()))) for mutants in found.values() if i < len(mutants))
    return list(itertools.islice(filter(is_python, rounds), count or None))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="how many in all, 0 for all that there are (default: 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="WORD", help="mutants whose line contains this")
    parser.add_argument("--packages", default=USUAL, help=f"of {','.join(PACKAGES)} (default: {USUAL})")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after this time")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for each mutant (default: 120)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default: 1)")
    parser.add_argument("--results", type=pathlib.Path, default="mutants.jsonl", help="(default: mutants.jsonl)")
    parser.add_argument("--report", action="store_true", help="print what is in the file of results, run nothing")
    parser.add_argument("--list", action="store_true", help="list the mutants, run nothing")
    options = parser.parse_args()
    results = Results(options.results)
    if options.report:
        print(results.report())
        return 0
    chosen = drawn(options.only, options.packages.split(","), options.count, options.seed)
    if options.list:
        print(*chosen, f"{len(chosen)} mutants", sep="\n")
        return 0
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for job in range(options.jobs):
            copies.put(Copy(pathlib.Path(scratch) / str(job)))

        def judge(mutant: Mutant) -> None:
            if mutant in results.mutants or time.monotonic() > end:
                return
            copy = copies.get()
            try:
                tests, seconds = tests_for(mutant, copy, results, options.seconds)
                outcome, failure = copy.judge(mutant, tests, 60 + 3 * seconds)
                results.add(mutant=asdict(mutant), outcome=outcome, failure=failure, tests=tests)
                print(f"{outcome}: {mutant}", flush=True)
            finally:
                copies.put(copy)

        for _ in pool.map(judge, chosen):
            pass
    print(results.report())
    return any(results.mutants.get(mutant) == SURVIVED for mutant in chosen)


if __name__ == "__main__":
    sys.exit(main())
