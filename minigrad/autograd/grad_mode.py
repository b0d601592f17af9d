"""Whether a Python thread puts operations on the tape: `no_grad`, `enable_grad`, `inference_mode`, `set_grad_enabled`."""
from typing import Any, Self, overload

from ..per_thread import Block, Function, this_thread


def is_grad_enabled() -> bool:
    """Are operations of this Python thread put on the tape?"""
    return this_thread.grad_enabled


class _GradModeBlock(Block):
    @overload
    def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]
    @overload
    def __new__(cls, mode: bool | None = None) -> Self: ...
    def __new__(cls, function: Any = None, **options: Any) -> Any:  # type: ignore[misc]
        """Called with a function, decorate it: @no_grad is @no_grad()."""
        return cls()(function) if callable(function) else super().__new__(cls)


class no_grad(_GradModeBlock):
    """Inside, operations are not put on the tape: they are faster, and keep nothing for backward.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """

    def __init__(self) -> None:
        super().__init__("grad_enabled", False)


class enable_grad(_GradModeBlock):
    """Inside, operations are put on the tape, even within `no_grad`."""

    def __init__(self) -> None:
        super().__init__("grad_enabled", True)


class inference_mode(_GradModeBlock):
    """Like `no_grad`; inference_mode(False) is like `enable_grad`. Tensors made inside can be used for training later."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__("grad_enabled", not mode)


class set_grad_enabled(_GradModeBlock):
    """Put operations on the tape or not, in this thread: from now on, or in a `with` block or a decorated function."""

    def __init__(self, mode: bool) -> None:
        super().__init__("grad_enabled", bool(mode))
        super().__enter__()

    def __enter__(self) -> Self:
        return self

    def __call__(self, function: Function) -> Function:
        self.__exit__()
        return super().__call__(function)
