"""What packages on top of minigrad know of wrong gradients. They are reached by name, and imported when they are asked.

A check finds that a gradient is wrong; which mistake that is, others may know.
"""
import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .problem import Point
from .report import InputReport

EXPLAINERS: list[str] = []  # modules, in the order in which they are asked


def explain_with(module: str) -> None:
    """Ask `module` too, by its name, whenever a check has failed. It is imported then, if it is installed.

    Its consultations(point, reports, seed) lists what the report is to keep, and leaves the problem as it was. Each has a
    method `diagnosis()`, called when the report is read: what it gives is true if the mistake is known, and has `.names`,
    `.mistake`, `.facts`, `.sentence` and `.is_right`.
    """
    EXPLAINERS.append(module)


def consultations(point: Point, reports: list[InputReport], seed: int) -> list[Any]:
    """What all that are registered, and installed, want to be asked about a check that has failed."""
    modules = filter(None, map(installed, EXPLAINERS))
    return [asked for module in modules for asked in module.consultations(point, reports, seed)]


def installed(name: str) -> ModuleType | None:
    """The module; None if its package is not there, or hidden by a user's own file of that name, which must not run."""
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
    """`__getattr__` and `__dir__` of a module that has the names of another, from above."""
    def module() -> ModuleType:
        if found := installed(name):
            return found
        raise ModuleNotFoundError(f"there is no {name}: minigrad's package {name.partition('.')[0]!r} is not installed, or "
                                  "hidden by a file or folder of that name")

    def get(attribute: str) -> Any:
        if attribute == "__path__":  # else what is below it would be imported twice, by two names
            raise AttributeError(attribute)
        return getattr(module(), attribute)

    return get, lambda: dir(module())
