"""What packages on top of minigrad know about wrong gradients. They are found by name, and imported when asked.

A check finds that a gradient is wrong; others may know which mistake that is.
"""
import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .report import InputReport
from .subject import Record

EXPLAINERS: list[str] = []  # names of modules, in the order in which they are asked


def explain_with(module: str) -> None:
    """Whenever a check has failed, also ask the module with this name. It is imported then, if it is installed.

    Its consultations(point, reports, seed) returns a list for the report to keep, and leaves the subject unchanged. Each
    item has a method `diagnosis()`, called when the report is read. Its result is true if the mistake is known, and has
    `.names`, `.mistake`, `.facts`, `.sentence` and `.is_right`.
    """
    EXPLAINERS.append(module)


def consultations(point: Record, reports: list[InputReport], seed: int) -> list[Any]:
    """What the registered modules, if installed, have to say about a failed check."""
    modules = filter(None, map(installed, EXPLAINERS))
    return [asked for module in modules for asked in module.consultations(point, reports, seed)]


def installed(name: str) -> ModuleType | None:
    """The module; None if its package is missing, or hidden by a user's own file of that name, which must not run."""
    package = importlib.util.find_spec(name.partition(".")[0])
    if package is None or package.submodule_search_locations is None:
        return None
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return None
        raise


def handed_on(name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module that offers the names of another, higher one."""
    def module() -> ModuleType:
        if found := installed(name):
            return found
        raise ModuleNotFoundError(f"there is no {name}: minigrad's package {name.partition('.')[0]!r} is not installed, or "
                                  "hidden by a file or folder of that name")

    def get(attribute: str) -> Any:
        if attribute == "__path__":  # or its submodules could be imported under two names
            raise AttributeError(attribute)
        return getattr(module(), attribute)

    return get, lambda: dir(module())
