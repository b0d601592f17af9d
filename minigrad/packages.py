"""What packages above minigrad register with it, by the entry points of setup.cfg: it names none of them.

The group "minigrad.packages" has what can be reached through minigrad: `minigrad.nn` is `nn`, and files written for PyTorch
import `minigrad.nn.functional`. A checkout that is not installed has no entry points: there, setup.cfg itself is read.
"""
import configparser
import functools
import importlib.util
import os
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = "minigrad.packages"
FOLDER = os.path.dirname(os.path.realpath(__file__))
BESIDE = os.path.dirname(FOLDER)
LIBRARIES = {"minigrad"}  # their code is not the user's; one that is built on minigrad adds itself
COMPILED: set[str] = set()  # packages that compile a step of their own: they are the user's, even if they are installed


@functools.cache
def registered(group: str) -> dict[str, str]:
    """{name: what is registered}, a module or `module:attribute`."""
    checkout = configparser.ConfigParser()
    checkout.read(os.path.join(BESIDE, "setup.cfg"), encoding="utf-8")
    lines = checkout.get("options.entry_points", group, fallback="").strip().splitlines()
    found = dict(line.replace(" ", "").split("=") for line in lines)
    return found | {point.name: point.value for point in metadata.entry_points(group=group)}


@functools.cache
def is_users(module: str | None) -> bool:
    """Is a module of this name the user's: neither Python's, nor NumPy's, nor one of `LIBRARIES`, nor installed?"""
    package = str(module).partition(".")[0]
    if package in {"numpy", "numba", *LIBRARIES} or package in sys.stdlib_module_names:
        return False
    file = str(getattr(sys.modules.get(package), "__file__", None))
    return package in COMPILED | {"__main__"} or not ("site-packages" in file or "dist-packages" in file)


def users_line() -> tuple[str, int]:
    """The file and line of the user's code that is running."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and not is_users(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def reached(module: str, name: str) -> Any:
    """What a module's `__getattr__` finds: a registered module, imported now; AttributeError if there is none."""
    path = f"{module}.{name}"
    if path.removeprefix("minigrad.") not in registered(PACKAGES):
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
    return importlib.import_module(path)


class Registered:
    """Imports `minigrad.nn.functional` as `nn.functional`: the same module."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        outer, _, inner = name.partition(".")
        own = os.path.join(FOLDER, *inner.split("."))
        if outer != "minigrad" or not inner or os.path.exists(f"{own}.py") or os.path.isdir(own):
            return None
        return ModuleSpec(name, cls) if registered_as(inner) else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None: ...

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        name = registered_as(module.__name__.removeprefix("minigrad."))
        refuse_shadows(name.split(".")[0])
        sys.modules[module.__name__] = importlib.import_module(name)


sys.meta_path.insert(0, Registered)  # type: ignore[arg-type]  # or Python would load the package's files a second time


def registered_as(inner: str) -> str:
    """The module that minigrad.<inner> stands for; "" if it is none, or only inside one."""
    for name, module in registered(PACKAGES).items():
        if f"{inner}.".startswith(f"{name}."):
            return module + inner.removeprefix(name)
    return ""


def refuse_shadows(package: str) -> None:
    """ImportError if Python finds another file or folder than the one beside minigrad under the name of this package.

    Packages import each other by these names, so another module of that name cannot be loaded beside them.
    """
    spec = importlib.util.find_spec(package)
    found = spec.origin or str(*spec.submodule_search_locations or ()) if spec else None
    if found and os.path.realpath(found) != os.path.join(BESIDE, package, "__init__.py"):
        raise ImportError(f"{found} shadows minigrad's package {package!r}; rename it, or start Python in another folder")
