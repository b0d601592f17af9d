"""Do the tests notice a change of the library? This script makes many, one at a time, and lists those that no test noticed.

    python tests/mutate.py [--count 300] [--seed 0] [--packages nn,by_hand] [--only WORD] [--minutes 60] [--jobs 1]

A mutant is the library with one expression or statement changed (see `variants`), or with one of the changes that no
generator makes (tests/by_hand.py). They are drawn at random, equally many from each package. Each is put into a copy of the
project, where the tests that mention it run, the nearest first (tests/nearness.py), for `--seconds` of CPU time. It is killed
if one fails, or if they hang. One that survives is equivalent, or shows a hole in the tests.

Results are lines of JSON in the file `--results`; an interrupted run continues from there, and `--report` prints it. To compare
two suites, judge the same mutants with the tests of another checkout, and list what only one noticed:

    python tests/mutate.py --results new.jsonl
    python tests/mutate.py --results old.jsonl --mutants new.jsonl --checkout ../old
    python tests/mutate.py --results new.jsonl --report --beside old.jsonl

A mutant may kill unrelated processes, unless it runs as `unshare --pid --fork --mount-proc python tests/mutate.py`.
"""
import argparse
import ast
import collections
import compileall
import contextlib
import importlib
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import py_compile
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import pytest

import by_hand
from nearness import Nearness

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = {  # a file belongs to the last that fits
    "engine": "minigrad", "ops": "minigrad/ops", "kernels": "minigrad/fast/kernels", "gradcheck": "minigrad/gradcheck",
    "nn": "nn", "models": "models", "study": "study", "mistakes": "study/mistakes", "exercises": "study/exercises",
    "page": "minigrad/tracing/page",
}
BY_HAND = "by_hand", "arrays"
AT_END = -1
LIBRARY = "minigrad", "nn", "models", "study"
USUAL = ",".join([*PACKAGES, *BY_HAND]).replace(",page", "")  # the page's tests need a browser
SURVIVED, KILLED, NO_END, NOT_MADE = "survived", "killed", "no end", "not made"
OPTIONS = "-q", "--tb=line", "-p", "no:cacheprovider", "--numprocesses=0", "--long"
MEMORY = 12 << 30  # bytes that a process may ask for
LIMIT = 4  # times `--seconds`: a process that takes more counts as hanging
COMPILING = 60  # additional seconds if a kernel has changed, as all are compiled again
STALLED = 60  # a process that uses no CPU for this many seconds hangs
SHARED_IMPORTS = "numba", "torch", "matplotlib.figure"  # imported once, for all processes
REPLACEMENTS = {  # of operators
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.FloorDiv: (ast.Div,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMMUTATIVE = ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor
UNTOUCHED = ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom  # their content; inside f-strings, places are unknown
UNTOUCHED_FIELDS = "annotation", "returns", "decorator_list"
OF_SCRIPTS = {  # in JavaScript: a regular expression, and what replaces it
    r" \+ ": " - ", r" - ": " + ", r" \* ": " / ", r" / ": " * ", r" && ": " || ", r" \|\| ": " && ", r" < ": " <= ",
    r" <= ": " < ", r" > ": " >= ", r" >= ": " > ", r" === ": " !== ", r" !== ": " === ", r" \+= ": " = ",
    r"\bif \(": "if (!", r"\breturn (?=\w)": "return void ", r"\bMath\.\w+(?=\()": "", r"\btrue\b": "false",
    r"\bfalse\b": "true", r"(?<![\w.])\d+\b": "9", r"^ +[\w.]+\(.*\);$": ";",
}


@dataclass(frozen=True)
class Mutant:
    """`new` for `old` in a file: the nth place where its owner has this change."""

    package: str
    path: str  # below the root
    owner: str  # class and function; of one that is made by hand, its name
    old: str
    new: str
    nth: int = 0  # AT_END: code by hand, added to the file

    def __str__(self):
        old, new = (textwrap.shorten(text, 120, placeholder=" ...") for text in (self.old, self.new))
        return f"{self.path} {self.owner}: {old}  ->  {new}" + f" (place {self.nth + 1})" * (self.nth > 0)

    def source(self, original: bytes) -> bytes:
        """The file with the change. LookupError if it has no such place."""
        if self.nth == AT_END:
            return original + f"\n{by_hand.code(self.old, self.new)}\n".encode()
        for place, (start, end) in places(self.path, original):
            if place == self:
                return original[:start] + self.new.encode() + original[end:]
        raise LookupError(f"{self}: no such place")


def variants(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(node to replace, replacement), at one node."""
    match node:
        case (ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test])
              ) if not isinstance(test, (ast.Compare, ast.UnaryOp)):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for other in REPLACEMENTS[type(op)]:
                    yield node, ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield from ((node, ast.BoolOp(other(), values)) for other in REPLACEMENTS[type(op)])
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield node, rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.BinOp(left, op, right):
            yield from ((node, term) for term in (left, right))  # the other is dropped
            yield from ((node, ast.BinOp(left, other(), right)) for other in REPLACEMENTS.get(type(op), ()))
            if not isinstance(op, COMMUTATIVE):
                yield node, ast.BinOp(right, op, left)
        case ast.UnaryOp(_, operand):
            yield node, operand
        case ast.Constant(bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, ast.Constant(value + 1)
        case ast.Call(function, arguments, keywords):
            for keyword in keywords:  # leaves its default; help is only wording
                if keyword.arg != "help":
                    yield node, ast.Call(function, arguments, [other for other in keywords if other is not keyword])
            match arguments:
                case [argument] if not keywords and not isinstance(argument, ast.Starred):
                    yield node, argument
                case [ast.Name() | ast.Attribute() as first, ast.Name() | ast.Attribute() as second, *rest]:
                    yield node, ast.Call(function, [second, first, *rest], keywords)
        case ast.Dict(keys, values):
            for i in range(len(keys)):
                yield node, ast.Dict([*keys[:i], *keys[i + 1 :]], [*values[:i], *values[i + 1 :]])
        case ast.Return(ast.AST() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield value, ast.Constant(None)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Expr(ast.Call()):
            yield node, ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue():
            yield node, ast.Pass()


def changes_of_python(content: bytes) -> Iterator[tuple[str, str, int, int]]:
    """(owner, new, the bytes that it replaces: start and end)"""
    starts = [0, *(i + 1 for i, byte in enumerate(content) if byte == 10)]

    def below(node: ast.AST, owner: str) -> Iterator[tuple[str, str, int, int]]:
        for replaced, by in variants(node):
            start, end = (starts[line - 1] + column for line, column in (
                (replaced.lineno, replaced.col_offset), (replaced.end_lineno, replaced.end_col_offset)))
            yield owner, ast.unparse(by) if isinstance(by, ast.stmt) else f"({ast.unparse(by)})", start, end
        if isinstance(node, UNTOUCHED):
            return
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            owner = f"{owner}.{node.name}".lstrip(".")
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and field not in UNTOUCHED_FIELDS:
                    yield from below(child, owner)

    yield from below(ast.parse(content), "")


def changes_of_script(content: bytes) -> Iterator[tuple[str, str, int, int]]:
    """The same; a line is its own owner."""
    start = 0
    for line in content.splitlines(keepends=True):
        if not line.lstrip().startswith((b"//", b"*", b"/*")):
            for pattern, new in OF_SCRIPTS.items():
                for found in re.finditer(pattern.encode(), line.rstrip(b"\n")):
                    yield line.decode().strip(), new, start + found.start(), start + found.end()
        start += len(line)


def places(path: str, content: bytes) -> Iterator[tuple[Mutant, tuple[int, int]]]:
    """All mutants of a file, and the bytes that they replace."""
    seen: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for owner, new, start, end in (changes_of_script if path.endswith(".js") else changes_of_python)(content):
        key = owner, content[start:end].decode(), new
        yield Mutant(package_of(path), path, *key, seen[key]), (start, end)
        seen[key] += 1


def package_of(path: str) -> str:
    return [name for name, folder in PACKAGES.items() if path.startswith(f"{folder}/")][-1]


def is_python(mutant: Mutant) -> bool:
    """Whether the mutant compiles without a warning, such as one about a number that is called."""
    with warnings.catch_warnings(action="error"):
        try:
            source = mutant.source((ROOT / mutant.path).read_bytes())
            return not mutant.path.endswith(".py") or bool(compile(source, "", "exec"))
        except SyntaxError:  # warnings too
            return False


def drawn(only: str, packages: list[str], count: int, seed: int) -> list[Mutant]:
    """Mutants at random, equally many from each package."""
    found = {package: [Mutant(package, *row, AT_END) for row in by_hand.rows(package)] for package in packages}
    files = sorted(file for folder in LIBRARY for file in (ROOT / folder).rglob("*.[pj]*"))
    for path in (file.relative_to(ROOT).as_posix() for file in files):
        if path.endswith((".py", ".js")) and package_of(path) in packages:
            found[package_of(path)] += [mutant for mutant, _ in places(path, (ROOT / path).read_bytes())]
    generator = random.Random(seed)
    for package, mutants in found.items():
        found[package] = [mutant for mutant in mutants if only in str(mutant)]
        generator.shuffle(found[package])
    rounds = (mutants[i] for i in range(max(map(len, found.values()))) for mutants in found.values() if i < len(mutants))
    return list(itertools.islice(filter(is_python, rounds), count or None))


class Chosen:
    """A pytest plugin: only the wanted tests, the nearest first, a few items of each before the rest, until time is up."""

    FEW = 6

    def __init__(self, wanted: list[tuple[str, str]], weights: dict[str, float], is_left_out: Callable[[str], bool],
                 seconds: float):
        self.places = {test: place for place, test in enumerate(wanted)}
        self.weights, self.is_left_out, self.seconds = weights, is_left_out, seconds
        self.found = {"failed": [], "why": "", "ran": 0}

    def place(self, item: pytest.Item | pytest.Collector, name: str) -> float | None:
        """A test's place among the wanted ones; None if it is not wanted. Doctests come last."""
        path = item.path.relative_to(item.config.rootpath).as_posix()
        return self.places.get((path, name)) if path.startswith("tests/") else math.inf

    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str) -> list | None:
        return [] if name.startswith("test") and self.place(collector, name) is None else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        places = {item: self.place(item, getattr(item, "originalname", item.name)) for item in items}
        items.sort(key=lambda item: (places[item], -self.weight(item)))
        of_file: dict[pathlib.Path, float] = {}  # the place of its first test
        of_test: collections.Counter[float] = collections.Counter()
        order = {}
        for item in items:
            of_test[places[item]] += 1
            order[item] = (of_test[places[item]] > self.FEW, of_file.setdefault(item.path, places[item]), places[item])
        items[:] = sorted((item for item in items if not self.is_left_out(item.nodeid)), key=order.get)

    def weight(self, item: pytest.Item) -> float:
        """How near the parameters of a test are to the mutant."""
        return max(self.weights.get(word, 0) for word in re.split(r"\W+", item.name.partition("[")[2]))

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if used() > self.seconds:
            item.session.shouldstop = "time is up"

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        self.found["ran"] += report.passed and getattr(report, "when", "") == "call"
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.found["failed"].append(report.nodeid)
            self.found["why"] = " ".join(str(crash.message if crash else report.longrepr).split())[:200]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.pytest_runtest_logreport(report)


def used() -> float:
    """CPU seconds of this process and of its finished children."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def used_by_session(leader: int) -> float:
    """CPU seconds of all processes in a session."""
    ticks = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Copy:
    """A copy of a checkout that holds one mutant at a time."""

    def __init__(self, checkout: pathlib.Path, folder: pathlib.Path):
        self.folder, self.nearness = folder, Nearness(checkout, LIBRARY)
        shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns(".*", "runs", "build", "__pycache__"))
        for part in LIBRARY:  # by content, as a mutant may have the original's time and size
            compileall.compile_dir(folder / part, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def run(self, arguments: list[str], plugin: Chosen, environment: dict[str, str]) -> dict:
        """What the plugin finds in a fork of this process, which has imported the libraries of others."""
        scratch = self.folder.with_suffix(".scratch")
        scratch.mkdir()
        environment = environment | {"PYTHONPATH": str(self.folder), "TMPDIR": str(scratch)}
        begin, process = time.monotonic(), os.fork()
        if not process:
            try:
                os.setsid()
                if not any("/test_page" in path for path in arguments):  # Chromium reserves terabytes
                    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                resource.setrlimit(resource.RLIMIT_CPU, (int(LIMIT * plugin.seconds),) * 2)
                for stream in (1, 2):
                    os.dup2(os.open(scratch / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
                os.chdir(self.folder)
                os.environ |= environment
                tempfile.tempdir = None
                sys.path[:] = [str(self.folder), *(path for path in sys.path if not path.startswith(str(ROOT)))]
                for name, module in [*sys.modules.items()]:  # the copy has its own
                    if name != "__main__" and str(getattr(module, "__file__", "")).startswith(f"{ROOT}/"):
                        del sys.modules[name]
                code = pytest.main([*OPTIONS, *arguments], plugins=[plugin])
                plugin.found["outcome"] = KILLED if plugin.found["failed"] or code in (3, 4) else SURVIVED
            except BaseException:  # noqa: BLE001  whatever it is: this process ends here
                plugin.found |= {"outcome": NOT_MADE, "why": traceback.format_exc()[-500:]}
            (scratch / "part").write_text(json.dumps(plugin.found))
            (scratch / "part").rename(scratch / "found.json")
            os._exit(0)
        had, since = 0.0, begin
        while not os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            time.sleep(min(1.0, 0.02 * (time.monotonic() - begin)))
            if time.monotonic() - since > STALLED:
                before, had, since = had, used_by_session(process), time.monotonic()
                if had == before or had > LIMIT * plugin.seconds:
                    os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # the children it left
        usage = os.wait4(process, 0)[2]
        path = scratch / "found.json"
        found = json.loads(path.read_text()) if path.exists() else {"outcome": NO_END}
        shutil.rmtree(scratch, ignore_errors=True)
        return found | {"seconds": round(usage.ru_utime + usage.ru_stime, 1)}

    def judge(self, mutant: Mutant, without: set[str], seconds: float) -> dict:
        path = self.folder / mutant.path
        original = path.read_bytes()
        try:
            path.write_bytes(mutant.source(original))
            is_left_out = without.__contains__
            if mutant.nth == AT_END:
                file, word = by_hand.tests(mutant.owner)
                wanted, weights = self.nearness.in_files(file), {}
                is_left_out = lambda nodeid: nodeid in without or not re.search(word, nodeid)  # noqa: E731
                if path.suffix == ".py" and (why := self.fails_to_import(mutant.path)):
                    return {"outcome": NOT_MADE, "why": why}
            elif path.suffix == ".js":
                wanted, weights = [test for folder in ("minigrad/tracing", "study") for test in
                                   self.nearness.in_files(f"tests/{folder}/test_page")], {}
            else:
                wanted = self.nearness.tests(mutant.path, mutant.owner)
                weights = self.nearness.weights(mutant.path, mutant.owner)
            files = dict.fromkeys(file for file, _ in wanted if file not in without)
            doctests = [mutant.path] * (mutant.nth != AT_END and path.suffix == ".py")
            environment = {}
            if mutant.package == "kernels":
                environment, seconds = {"NUMBA_CACHE_DIR": f"{self.folder}.scratch"}, seconds + COMPILING
            found = self.run(["-x", *files, *doctests], Chosen(wanted, weights, is_left_out, seconds), environment)
            needs = mutant.nth == AT_END or path.suffix == ".js"  # tests of its own
            is_tried = not needs or found.get("ran") or found["outcome"] != SURVIVED
            return found if is_tried else {"outcome": NOT_MADE, "why": "none of its tests ran"}
        except (OSError, LookupError) as error:
            return {"outcome": NOT_MADE, "why": str(error)}
        finally:
            path.write_bytes(original)

    def fails_to_import(self, path: str) -> str:
        """The error that importing a module raises, or an empty string."""
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        run = subprocess.run(
            [sys.executable, "-c", f"import {module}"], cwd=self.folder, capture_output=True, text=True, check=False)
        return run.stderr[-200:] if run.returncode else ""


class Results:
    """The file of results: a line for each mutant judged, and for each test that failed with one."""

    def __init__(self, path: pathlib.Path):
        self.path, self.mutants, self.passes = path, {}, {}
        for line in map(json.loads, path.read_text().splitlines() if path.exists() else []):
            if "mutant" in line:
                self.mutants[Mutant(**line["mutant"])] = line
            else:
                self.passes[line["test"]] = line["passes"]

    def add(self, **line) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def unchecked(self) -> set[str]:
        """Tests that failed with a mutant, and have not been run without."""
        return {line["failed"][0] for line in self.mutants.values() if line.get("failed")} - self.passes.keys()

    def is_known(self, mutant: Mutant) -> bool:
        """Whether it has been judged, not merely by a test that fails without it too."""
        line = self.mutants.get(mutant)
        return line is not None and all(self.passes.get(test, True) for test in line.get("failed", ()))

    def survivors(self) -> list[Mutant]:
        return [mutant for mutant, line in self.mutants.items() if line["outcome"] == SURVIVED]

    def report(self) -> str:
        """Rates by package, then the survivors."""
        rows = ["package    killed     of  CPU seconds each"]
        for package in [*PACKAGES, *BY_HAND, "all"]:
            lines = [line for mutant, line in self.mutants.items() if package in (mutant.package, "all")]
            lines = [line for line in lines if line["outcome"] != NOT_MADE]
            if lines:
                killed = sum(line["outcome"] != SURVIVED for line in lines)
                seconds = sum(line["seconds"] for line in lines) / len(lines)
                rows.append(f"{package:10} {killed:6} {len(lines):6}  {seconds:6.1f}  {killed / len(lines):.0%}")
        others = sorted((line["outcome"], str(mutant), line.get("why", "")) for mutant, line in self.mutants.items()
                        if line["outcome"] in (SURVIVED, NOT_MADE))
        return "\n".join(rows + [f"{outcome}: {mutant} {why}" for outcome, mutant, why in others])

    def beside(self, other: "Results") -> str:
        """The mutants that only the other's tests noticed."""
        lost = [mutant for mutant in self.survivors() if other.mutants.get(mutant, {}).get("outcome") in (KILLED, NO_END)]
        both = [m for m in self.mutants.keys() & other.mutants.keys()
                if NOT_MADE not in (self.mutants[m]["outcome"], other.mutants[m]["outcome"])]
        kills = [sum(results.mutants[m]["outcome"] != SURVIVED for m in both) for results in (self, other)]
        return "\n".join([f"of {len(both)} mutants in both: {kills[0]} killed here, {kills[1]} there; not here, but there:",
                          *(f"{mutant}\n    {' '.join(other.mutants[mutant].get('failed', ()))}" for mutant in lost)])


def work(mutants: list[Mutant], options: argparse.Namespace, folder: pathlib.Path) -> None:
    """Judge mutants until all are done or time is up. A test that notices one has to pass without it."""
    for name in SHARED_IMPORTS:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    copy = Copy(options.checkout, folder)

    def check(tests: set[str]) -> None:
        plugin = Chosen([], {}, lambda nodeid: False, seconds=10 * options.seconds)
        plugin.place = lambda item, name: 0
        failed = copy.run(["--continue-on-collection-errors", *sorted(tests)], plugin, {}).get("failed", tests)
        for test in tests:
            results.add(test=test, passes=test not in failed)

    while waiting := [mutant for mutant in mutants if not (results := Results(options.results)).is_known(mutant)]:
        for mutant in waiting:
            if time.monotonic() > options.end:
                break
            results = Results(options.results)
            found = copy.judge(mutant, {test for test, passes in results.passes.items() if not passes}, options.seconds)
            results.add(mutant=asdict(mutant), **found)
            print(f"{found['outcome']}: {mutant}", flush=True)
            if files := {test for test in found.get("failed", ()) if "::" not in test} - results.passes.keys():
                check(files)  # now, as it may fail for all that follow
        if tests := (results := Results(options.results)).unchecked():
            check(tests)
        if time.monotonic() > options.end:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="of mutants, 0 for all (default: 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="WORD", help="only mutants whose description contains this")
    parser.add_argument("--packages", default=USUAL, metavar="NAME,...",
                        help=f"of {', '.join([*PACKAGES, *BY_HAND])} (default: all but page)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no mutant after this time")
    parser.add_argument("--seconds", type=float, default=60, help="of CPU for the tests of each mutant (default: 60)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default: 1)")
    parser.add_argument("--results", type=pathlib.Path, default="mutants.jsonl", help="(default: mutants.jsonl)")
    parser.add_argument("--mutants", type=pathlib.Path, metavar="FILE", help="judge those in this file of results")
    parser.add_argument("--checkout", type=pathlib.Path, default=ROOT, help="of the library and the tests (default: this)")
    parser.add_argument("--report", action="store_true", help="print the file of results, run nothing")
    parser.add_argument("--beside", type=pathlib.Path, metavar="FILE", help="other results of the same mutants")
    parser.add_argument("--list", action="store_true", help="list the mutants, run nothing")
    options = parser.parse_args()
    if not options.report:
        chosen = ([*Results(options.mutants).mutants] if options.mutants else
                  drawn(options.only, options.packages.split(","), options.count, options.seed))
        if options.list:
            print(*chosen, f"{len(chosen)} mutants", sep="\n")
            return 0
        options.end = time.monotonic() + 60 * options.minutes
        with tempfile.TemporaryDirectory() as scratch:
            workers = [multiprocessing.get_context("fork").Process(
                target=work, args=(chosen[job :: options.jobs], options, pathlib.Path(scratch) / str(job)))
                for job in range(options.jobs)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    results = Results(options.results)
    print(results.beside(Results(options.beside)) if options.beside else results.report())
    return int(bool(results.survivors()))


if __name__ == "__main__":
    sys.exit(main())
