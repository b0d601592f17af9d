"""Arrows point one way, by what files import: study -> models -> nn -> minigrad.tensor -> ops -> kernels."""
import ast
import functools
import pathlib
import re
import subprocess
import sys

from minigrad.packages import registered

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = "study", "models", "nn", "minigrad"  # each may import those after it
ABOVE = registered("minigrad.packages")
PUBLIC = (  # apart from its names
    "minigrad.drawing", "minigrad.extend", "minigrad.gradcheck", "minigrad.ops", "minigrad.random", "minigrad.serialization",
    "minigrad.tracing",
)

BASE = "minigrad.fast.pool"  # memory and what each thread has of its own


def module_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@functools.cache
def imports(module: str) -> frozenset[str]:
    """The project's modules that this one imports itself, wherever in the file, also for type checkers only."""
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names}
    return frozenset(found & MODULES.keys() - {module})


def reached(module: str) -> set[str]:
    """What it imports itself or by others."""
    found, to_visit = set(), [module]
    while to_visit:
        new = imports(to_visit.pop()) - found
        found |= new
        to_visit += new
    return found


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_imports_point_one_way():
    """{rule: the imports (module, imported) against it}"""
    pairs = {(module, other) for module in MODULES for other in imports(module)}
    minigrad = {(module, other) for module, other in pairs if is_in(module, "minigrad")}
    breaches = {
        "packages import those below them": {
            (module, other) for module, other in pairs
            if PACKAGES.index(module.split(".")[0]) > PACKAGES.index(other.split(".")[0])},
        "libraries import what minigrad offers": {
            (module, other) for module, other in pairs - minigrad
            if other.startswith("minigrad.") and not any(is_in(other, name) for name in PUBLIC)},
        "the command imports nothing before it is asked": {
            (module, other) for module in ("study.command", "study.command.completion") for other in imports(module)},
        "kernels import kernels": {
            (module, other) for module, other in minigrad
            if is_in(module, "minigrad.fast.kernels") and not is_in(other, "minigrad.fast.kernels") and other != BASE},
        "the textbook does not know the engine room": {
            (module, other) for module, other in minigrad if is_in(other, "minigrad.fast") and module != "minigrad"
            and not any(is_in(module, f"minigrad.{name}") for name in ("extend", "fast", "gradcheck"))},
        "ops know no Tensor": {
            (module, "minigrad.tensor") for module in MODULES
            if is_in(module, "minigrad.ops") and "minigrad.tensor" in reached(module)},
        "the tape knows no kernel, no op and no Tensor": {
            ("minigrad.tape", name) for name in ("minigrad.fast.kernels", "minigrad.ops", "minigrad.tensor")
            if any(is_in(other, name) for other in reached("minigrad.tape"))},
    }
    assert {rule: against for rule, against in breaches.items() if against} == {}


def test_there_are_no_circles():
    assert {module for module in MODULES if module in reached(module)} == set()


BY_NAME = {  # files that import by a name which is not in the import statement, and what
    "study.command": "the command that is asked for, and what takes long",
    "minigrad.fast.kernels.ahead": "the kernels that training.txt names",
    "minigrad.gradcheck.above": "what explains a failed check, by the entry points",
    "minigrad.autograd": "gradient checks",
    "minigrad": "gradcheck, the names in minigrad._LATER, and what is registered, when they are asked for",
    "minigrad.packages": "what is registered, as minigrad.nn",
    "minigrad.drawing.figures": "matplotlib",
    "models.commands.gradcheck_file": "the module that a user names",
    "models.extras": "libraries of others that only some commands need",
}


IMPORTING = "import_module", "_import_module", "__import__"


def imports_by_name(module: str) -> bool:
    return any(isinstance(node, (ast.Attribute, ast.Name)) and getattr(node, "attr", getattr(node, "id", ""))
               in IMPORTING for node in ast.walk(tree(module)))


def test_no_other_file_imports_by_a_name_that_is_not_seen_here():
    assert {module for module in MODULES if imports_by_name(module)} == BY_NAME.keys()


def test_packages_above_are_attributes_that_importing_minigrad_does_not_import():
    script = f"""
import operator, sys, minigrad
assert not {{"nn", "models", "study"}} & sys.modules.keys(), sys.modules.keys()
for name, module in minigrad._LATER.items():
    assert "minigrad." + module not in sys.modules, module
for name, module in minigrad._LATER.items():
    assert getattr(minigrad, name) is getattr(sys.modules["minigrad." + module], name)
assert minigrad.gradgradcheck is minigrad.autograd.gradgradcheck is minigrad.gradcheck.gradgradcheck
assert not hasattr(minigrad, "nonsense")
for name, module in {ABOVE!r}.items():
    assert operator.attrgetter(name)(minigrad) is sys.modules[module]
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_imports_of_a_file_written_for_pytorch_find_each_module_once():
    script = """
import sys
import minigrad.nn.functional as F
import minigrad.optim.lr_scheduler as lr_scheduler
from minigrad.autograd import Variable
from minigrad.nn import init
from minigrad.utils.data import DataLoader
import minigrad, nn
assert minigrad.nn is nn and F is nn.functional and init is nn.init and lr_scheduler is nn.optim.lr_scheduler
assert DataLoader is nn.utils.data.DataLoader and Variable is minigrad.Tensor
loaded = [name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(nn.__path__[0])]
assert len(loaded) > len({sys.modules[name] for name in loaded}) == len({sys.modules[name].__file__ for name in loaded})
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_minigrad_names_no_package_above():
    """Not in a string either, unless it is one that users read."""
    name = re.compile(r"(nn|models|study)(\.\w+)*")
    assert {(module, node.value) for module in MODULES if is_in(module, "minigrad") for node in ast.walk(tree(module))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and name.fullmatch(node.value)} == set()


def test_nobody_below_asks_for_the_packages_above_by_attribute():
    for module in MODULES:
        if is_in(module, "minigrad"):
            asked = {node.attr for node in ast.walk(tree(module))
                     if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("mg", "minigrad")}
            assert not asked & ABOVE.keys(), module
