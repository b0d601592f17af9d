"""The state of each Python thread, `this_thread`, and blocks in which it differs."""
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

Function = TypeVar("Function", bound=Callable)


class _PerThread(threading.local):
    grad_enabled: bool = True  # are operations put on the tape?
    is_textbook: bool = False  # do ops run as `minigrad.ops` defines them, rather than an implementation?
    rounds_products: bool = False  # do products take operands in bfloat16, see fast/autocast.py?
    runner: Any  # what runs operations, see runner.py

    def __init__(self) -> None:
        self.identity: object = object()  # the system reuses its own thread numbers, this one is unique


this_thread: Final = _PerThread()


def initially(**state: Any) -> None:
    """Give attributes of `this_thread` the values that they have in each thread until it sets them."""
    for name, value in state.items():
        setattr(_PerThread, name, value)


class Block:
    """A `with` block or a decorator of functions and generators, inside which an attribute of `this_thread` has a value."""

    def __init__(self, attribute: str, value: bool) -> None:
        self._attribute = attribute
        self._value = value
        self._before: list[bool] = []  # a stack, so that one object can be entered twice

    def __enter__(self) -> Self:
        self._before.append(getattr(this_thread, self._attribute))
        setattr(this_thread, self._attribute, self._value)
        return self

    def __exit__(self, *exception: object) -> None:
        setattr(this_thread, self._attribute, self._before.pop())

    def __call__(self, function: Function) -> Function:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{type(self).__name__}: cannot decorate an async function, since other tasks of this thread "
                            "run in between; write a with block inside it, around code without await")
        new = functools.partial(Block, self._attribute, self._value)  # for each call: threads may run it at the same time

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with new():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def wrapped_generator(*args, **kwargs):  # the value holds while the generator runs, not while it is suspended
            generator = function(*args, **kwargs)
            resume, sent = generator.send, None
            while True:
                with new():
                    try:
                        value = resume(sent)
                    except StopIteration as stop:
                        return stop.value
                    finally:
                        sent = None  # or an exception would keep its frames alive
                try:
                    resume, sent = generator.send, (yield value)
                except GeneratorExit:
                    with new():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001  the generator handles it
                    resume, sent = generator.throw, error

        return wrapped_generator if inspect.isgeneratorfunction(function) else wrapped  # type: ignore[return-value]
