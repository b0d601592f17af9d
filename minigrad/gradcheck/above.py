"""What packages on top of minigrad know about wrong gradients.

A check finds that a gradient is wrong; others may know which mistake that is.
"""
import importlib
import importlib.util
from types import ModuleType
from typing import Any

from ..packages import registered
from .report import InputReport
from .subject import Record

EXPLAINERS = "minigrad.explainers"  # the group of entry points by which modules register


def consultations(point: Record, reports: list[InputReport], seed: int) -> list[Any]:
    """What the registered modules, imported now, have to say about a failed check: a list for the report to keep.

    Each module's consultations(point, reports, seed) returns a list, and leaves the subject unchanged. Each item has a
    method `diagnosis()`, called when the report is read. Its result is true if the mistake is known, and has `.names`,
    `.mistake`, `.facts`, `.sentence` and `.is_right`.
    """
    modules = filter(None, map(installed, registered(EXPLAINERS).values()))
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
