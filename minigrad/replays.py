"""What a step does outside of ops. A replay of it (`compile`) does the same again, or is refused."""
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .runner import current

Function = TypeVar("Function", bound=Callable)
READS, WRITES, SWITCHES = "reads a tensor", "writes to a tensor in place", "changes whether a tensor requires a gradient"


def opaque(function: Function) -> Function:
    """Decorate a function that reads and writes Tensors by itself: each replay calls it."""

    @functools.wraps(function)
    def wrapper(*arguments, **options):
        return current().opaque(function, arguments, options)

    return wrapper  # type: ignore[return-value]


def notice(deed: str, tensor: Any = None, instead: str | None = None) -> None:
    """Tell the runner of this Python thread what Python does outside of ops."""
    current().notice(deed, tensor, instead)


generation: int = 0  # counts changes that captured steps cannot detect, as when a module's attribute is set


def outdate() -> None:
    """Make all captured steps be captured again."""
    global generation
    generation += 1


def changes() -> int:
    """How often `outdate` was called, as by setting an attribute of a module or adding a hook."""
    return generation
