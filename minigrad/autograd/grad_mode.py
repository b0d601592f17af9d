"""Whether a Python thread puts operations on the tape: `no_grad`, `enable_grad`, `inference_mode`, `set_grad_enabled`."""
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from ..per_thread import this_thread

Function = TypeVar("Function", bound=Callable)


def is_grad_enabled() -> bool:
    """Are operations of this Python thread put on the tape?"""
    return this_thread.grad_enabled


class _GradModeBlock:
    """A `with` block or a decorator of functions and generators, inside which the mode is `self.mode`."""

    mode: bool

    @overload
    def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]
    @overload
    def __new__(cls, mode: bool | None = None) -> Self: ...
    def __new__(cls, function: Any = None, **options: Any) -> Any:  # type: ignore[misc]
        """Called with a function, decorate it: @no_grad is @no_grad()."""
        return cls()(function) if callable(function) else super().__new__(cls)

    def __init__(self) -> None:
        self._before: list[bool] = []  # a stack, so that one object can be entered twice

    def __enter__(self) -> Self:
        self._before.append(this_thread.grad_enabled)
        this_thread.grad_enabled = self.mode
        return self

    def __exit__(self, *exception: object) -> None:
        this_thread.grad_enabled = self._before.pop()

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with BLOCKS[self.mode]():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def wrapped_generator(*args, **kwargs):  # the mode holds while the generator runs, not while it is suspended
            generator = function(*args, **kwargs)
            resume, sent = generator.send, None
            while True:
                with BLOCKS[self.mode]():
                    try:
                        value = resume(sent)
                    except StopIteration as stop:
                        return stop.value
                    finally:
                        sent = None  # or an exception would keep its frames alive
                try:
                    resume, sent = generator.send, (yield value)
                except GeneratorExit:
                    with BLOCKS[self.mode]():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001  the generator handles it
                    resume, sent = generator.throw, error

        return wrapped_generator if inspect.isgeneratorfunction(function) else wrapped  # type: ignore[return-value]


class no_grad(_GradModeBlock):
    """Inside, operations are not put on the tape: they are faster, and keep nothing for backward.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """

    mode = False


class enable_grad(_GradModeBlock):
    """Inside, operations are put on the tape, even within `no_grad`."""

    mode = True


BLOCKS: dict[bool, type[_GradModeBlock]] = {False: no_grad, True: enable_grad}


class inference_mode(_GradModeBlock):
    """Like `no_grad`; inference_mode(False) is like `enable_grad`. Tensors made inside can be used for training later."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode: bool = not mode


class set_grad_enabled(_GradModeBlock):
    """Put operations on the tape or not, in this thread: from now on, or in a `with` block or a decorated function."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode: bool = bool(mode)
        super().__enter__()

    def __enter__(self) -> Self:
        return self

    def __call__(self, function: Function) -> Function:
        self.__exit__()
        return super().__call__(function)
