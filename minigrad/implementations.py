"""Other code that computes the same as an op, such as kernels: for which arrays it runs."""
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from .per_thread import this_thread
from .replays import notice
from .tape import Op

Kind = TypeVar("Kind", bound=type[Op])

implementations: dict[type[Op], Any] = {}  # by op: what computes the same in another way
textbooks: dict[type[Op], type[Op]] = {}  # by implementation: the op


def implements(op: type[Op]) -> Callable[[Kind], Kind]:
    """Decorate a subclass of an op, with the same name, that computes the same in another way: for all arrays, or for those
    that its class method `takes`. The op itself runs for others, for Tensors, and inside `textbook`."""

    def install(implementation: Kind) -> Kind:
        if implementation.__name__ != op.__name__:
            raise TypeError(f"an implementation of {op.__name__} must have the same name, got {implementation.__name__}")
        implementations[op], textbooks[implementation] = implementation, op
        implementation.is_in_order = False  # it takes care of that itself
        implementation.__doc__ = implementation.__doc__ or op.__doc__
        return implementation

    return install


def chosen(op: type[Op], inputs: Sequence[Any]) -> type[Op]:
    """The class that runs an op for these inputs: an implementation that takes them, or the op itself."""
    other = implementations.get(op)
    if other is None or this_thread.is_textbook or hasattr(other, "takes") and not other.takes(inputs):
        return op
    return other


def definition(op: type[Op], *inputs: Any, **options: Any) -> Any:
    """The output as the textbook computes it: of a `Fused` op, by primitives, on the tape if Tensors are given."""
    return object.__new__(textbooks.get(op, op)).forward(*inputs, **options)


@contextlib.contextmanager
def textbook() -> Iterator[None]:
    """Inside, in this Python thread, ops run as `minigrad.ops` defines them: in NumPy, without kernels.

    An op keeps the backward that it was applied with, so put the whole step inside to have both in NumPy.

    >>> import minigrad as mg
    >>> with mg.textbook():
    ...     print(mg.tensor([0.0, 0.0]).softmax(0))
    tensor([0.5, 0.5])
    """
    notice("enters or leaves textbook()")
    before, this_thread.is_textbook = this_thread.is_textbook, True
    try:
        yield
    finally:
        this_thread.is_textbook = before
