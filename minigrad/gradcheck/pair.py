"""A forward and a backward in NumPy, as a library of one function."""
import inspect
from typing import Any, Callable, Sequence

import numpy as np

from .arguments import described, input_names, items_of, title_of
from .blame import spare
from .contract import contract
from .fit import fitted
from .libraries import Flat, Leaves, Library, Pullback, Values

spare(__file__)


class Pair(Library):
    """forward(*inputs) -> out with backward(dout, *inputs), or forward(*inputs) -> (out, cache) with backward(dout, cache).

    Several outputs are a tuple, and backward gets an upstream gradient for each. It returns a gradient for each input, or
    for each array of floats among them, in order.

    >>> from minigrad.gradcheck import gradcheck
    >>> gradcheck((np.tanh, lambda dout, x: dout * (1 - np.tanh(x) ** 2)), np.array([0.3, -0.8]))
    True
    """

    needs = "give a pair (forward, backward) an array of floats for each argument"
    copies = False

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any]):
        self.forward = forward
        self.backward = backward
        self.last: tuple[Any, Any, Any] = ((), (), ())  # the last call's arguments, what backward gets of it, and outputs

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def is_leaf(self, value: Any) -> bool:
        return self.is_tensor(value) and value.dtype.kind in "fc"

    def unsupported(self, tensor: Any) -> str:
        if not self.is_leaf(tensor) or tensor.dtype in (np.float64, np.float32):
            return ""
        return f"does not fit: a pair (forward, backward) takes float64 and float32; got {described(tensor)}"

    def tensor(self, array: np.ndarray, like: Any, is_leaf: bool = False) -> np.ndarray:
        return array if like is None else array.astype(like.dtype, copy=False)

    def call(self, fn: Callable[..., Any], arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
        outputs, kept = fn(*arguments), arguments
        if isinstance(outputs, tuple) and len(outputs) == 2 and self.takes_cache:
            outputs, cache = outputs
            kept = [cache]
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        is_array = [isinstance(out, (np.ndarray, np.generic, float)) for out in outputs]
        if not all(is_array) or not any(np.asarray(out).dtype.kind == "f" for out in outputs):
            came = ", ".join(map(described, outputs))
            raise TypeError(f"gradcheck: {self.title(title_of(fn))} must return an array of floats, or a tuple of arrays; "
                            f"got {came}")
        self.last = arguments, kept, list(map(np.asarray, outputs))
        return self.last[-1]

    def functions(self) -> list[Callable[..., Any]]:
        return [self.backward]

    def record(self, function: Flat, leaves: Leaves) -> tuple[Values, Pullback]:
        values = function(leaves)
        arguments, kept, outputs = self.last
        learned = list(map(self.is_leaf, arguments))

        def pullback(upstreams):
            given = iter(upstreams)
            douts = [np.asarray(next(given) if out.dtype.kind == "f" else np.zeros(out.shape), out.dtype)
                     for out in outputs]
            found = self.backward(*douts, *kept)
            found = found if isinstance(found, tuple) else (found,)
            gradients = fitted(found, arguments, input_names(self.forward, arguments), learned, learned)
            return [g for g, is_one in zip(gradients, learned) if is_one]

        return values, pullback

    def derivative(self, function: Flat, count: int) -> Flat:
        raise RuntimeError(f"{self.title(title_of(self.forward))}: a backward in NumPy cannot itself be differentiated "
                           "(create_graph=True)")

    @property
    def takes_cache(self) -> bool:
        """Is backward's second and last argument all that forward kept?"""
        try:
            kinds = [p.kind for p in inspect.signature(self.backward).parameters.values() if p.default is p.empty]
        except (TypeError, ValueError):  # built-in functions may have none
            return False
        return len(kinds) == 2 and all(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                       for kind in kinds)

    def side_checks(self, record: Any) -> dict[str, Callable[[], str | None]]:
        return {"each op keeps the contract": lambda: self.contract(record)}

    def contract(self, record: Any) -> str:
        if len(record.tensors) > 1:
            return ""
        if not record.subject.is_repeatable:
            record.record()
        arrays = [x for x in items_of(self.last[1]) if isinstance(x, np.ndarray)]
        before = [x.copy() for x in arrays]
        (dout,) = record.parts(record.upstream)
        dout = dout.astype(record.tensors[0].dtype)
        detail = contract(lambda dout: record.pulled([dout]), dout, [dout.dtype] * len(record.leaves), arrays, before,
                          record.rounding)
        return type(detail)(f"{self.title(title_of(self.forward))}.backward {detail}") if detail else ""
