"""The packages nn, models and study, which stand beside minigrad under names that a user's own file may have."""
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = "nn", "models", "study"  # each imports those before it
ABOVE = {"nn": "nn", "optim": "nn.optim", "utils": "nn.utils", "models": "models", "study": "study"}  # as minigrad's
BESIDE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Above:
    """Imports `minigrad.nn.functional`, which files written for PyTorch ask for, as `nn.functional`: the same module.

    The packages are built on minigrad, so nothing in it may import or use them: `import minigrad` must work without them
    and be just as fast.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        outer, _, inner = name.partition(".")
        return ModuleSpec(name, cls) if outer == "minigrad" and inner.split(".")[0] in ABOVE else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None: ...

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        _, package, *inner = module.__name__.split(".")
        name = ".".join((ABOVE[package], *inner))
        refuse_shadows(name.split(".")[0])
        sys.modules[module.__name__] = importlib.import_module(name)


sys.meta_path.insert(0, Above)  # type: ignore[arg-type]  # or Python would load the package's files a second time


def refuse_shadows(package: str) -> None:
    """ImportError if Python finds another file or folder under the name of this package or of one that it imports.

    They import each other by these names, so another module of that name cannot be loaded beside them.
    """
    for name in PACKAGES[: PACKAGES.index(package) + 1]:
        spec = importlib.util.find_spec(name)
        found = spec.origin or str(*spec.submodule_search_locations or ()) if spec else None
        if found and os.path.realpath(found) != os.path.join(BESIDE, name, "__init__.py"):
            raise ImportError(f"{found} shadows minigrad's package {name!r}; rename it, or start Python in another folder")
