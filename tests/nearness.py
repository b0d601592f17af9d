"""Which tests are near to a place in the library? Judged by the names they mention: no test is run or imported."""
import ast
import collections
import functools
import math
import pathlib
from collections.abc import Iterator

MOST, MOST_FILES = 80, 12  # tests for one mutant: importing a file of them takes as long as running some
HOME = 0.006  # for a test in the folder of the package that mentions nothing of it
STEPS = 4  # from a function to those that call it, to those that call these, ...
Names = frozenset[str]


def mentioned(node: ast.AST) -> Names:
    """Names, attributes, arguments and short strings."""
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Constant(str(text)) if len(text) < 100:
                found.update(text.split()[:4])
            case ast.ImportFrom(names=names):
                found.update(alias.name for alias in names)
    return frozenset(found)


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(name, what defines it) of the functions, classes and variables of a module, methods too."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name, node
    for node in tree.body:
        match node:
            case ast.Assign(targets=targets):
                yield from ((target.id, node.value) for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.AST() as value):
                yield name, value


class Nearness:
    """Of a checkout's tests to its library."""

    def __init__(self, checkout: pathlib.Path, library: tuple[str, ...]):
        self.root = checkout
        self.defined: dict[str, Names] = {}  # by file of the library
        self.definers: collections.Counter[str] = collections.Counter()  # how many define a name
        self.callers: dict[str, set[str]] = collections.defaultdict(set)  # of a name: the definitions that mention it
        for path in sorted(file for folder in library for file in (checkout / folder).rglob("*.py")):
            found = list(definitions(ast.parse(path.read_bytes())))
            self.defined[path.relative_to(checkout).as_posix()] = frozenset(name for name, _ in found)
            self.definers.update(name for name, _ in found)
            for name, node in found:
                for other in mentioned(node) - {name}:
                    self.callers[other].add(name)
                for decorator in getattr(node, "decorator_list", ()):  # keeps or calls what it decorates
                    called = decorator.func if isinstance(decorator, ast.Call) else decorator
                    self.callers[name] |= mentioned(called)
        self.of_tests = {test: names for file in sorted((checkout / "tests").rglob("test_*.py"))
                         for test, names in self._tests(file.relative_to(checkout).as_posix())}
        self.mentions = collections.Counter(name for names in self.of_tests.values() for name in names)

    # ---- what a test mentions ----

    @functools.cache  # noqa: B019  there are one or two instances
    def _module(self, path: str) -> tuple[dict[str, Names], tuple[str, ...]]:
        """The names in each definition of a test file, and the helper files it imports."""
        tree, own, modules = ast.parse((self.root / path).read_bytes()), collections.defaultdict(frozenset), []
        for name, node in definitions(tree):
            own[name] |= mentioned(node)
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module)):
                    modules.append(module)
                case ast.Import(names=names):
                    modules += [alias.name for alias in names]
        folders = pathlib.PurePath(path).parents
        near = [f"{folder}/conftest.py" for folder in folders]
        near += [f"tests/{module.replace('.', '/')}.py" for module in modules]
        return own, tuple(file for file in near if file != path and (self.root / file).exists())

    def _mentioned(self, path: str, name: str, seen: set[tuple[str, str]]) -> Names:
        """The names that a definition mentions, directly or in definitions of tests and helpers."""
        own, near = self._module(path)
        if (path, name) in seen:
            return frozenset()
        seen.add((path, name))
        if name in own:
            return own[name].union(*(self._mentioned(path, other, seen) for other in own[name] - {name}))
        return frozenset().union(*(self._mentioned(file, name, seen) for file in near if name in self._module(file)[0]))

    def _tests(self, path: str) -> Iterator[tuple[tuple[str, str], Names]]:
        for name in self._module(path)[0]:
            if name.startswith("test"):
                yield (path, name), self._mentioned(path, name, set())

    # ---- the nearest ----

    def weights(self, path: str, owner: str) -> dict[str, float]:
        """How near each name is to a place in the library: its function, its class, their callers, and least the rest of its
        file. A name with many definitions counts little."""
        stem = pathlib.PurePath(path).stem
        found = {name: 0.1 / self.definers[name] for name in self.defined.get(path, ())} | {stem: 0.3}
        found |= {name: 1 / self.definers[name] for name in owner.split(".") if name in self.definers}
        front = {name: found[name] for name in (*owner.split("."), stem) if name in found} if owner else {**found}
        for _ in range(STEPS):
            after: dict[str, float] = {}
            for name, weight in front.items():
                callers = [caller for caller in self.callers[name] if self.definers[caller]]
                for caller in callers:
                    new = 0.7 * weight / self.definers[caller] ** 0.7 / (1 + math.log(len(callers)))
                    if new > max(found.get(caller, 0), 0.002):
                        found[caller] = after[caller] = new
            front = after
        return found

    def tests(self, path: str, owner: str) -> list[tuple[str, str]]:
        """(file, function) of the tests near a place, the nearest first."""
        weights, parts = self.weights(path, owner), pathlib.PurePath(path).with_suffix("").parts
        alike = {f"test_{part}" for part in parts}

        def near(test: tuple[str, str]) -> float:
            names, file = self.of_tests[test], pathlib.PurePath(test[0])
            weight = sum(weights[name] / (1 + math.log(self.mentions[name])) for name in names & weights.keys())
            home = sum(a == b for a, b in zip(file.parts[1:], parts))
            return (weight + HOME * home) * (1 + 0.5 * home) * (1 + (file.stem in alike)) / (30 + len(names)) ** 0.4

        found = sorted((test for test in self.of_tests if near(test) > 0), key=near, reverse=True)[:MOST]
        files = [*dict.fromkeys(file for file, _ in found)][:MOST_FILES]
        return [test for test in found if test[0] in files]

    def in_files(self, beginning: str) -> list[tuple[str, str]]:
        return [test for test in self.of_tests if test[0].startswith(beginning)]
