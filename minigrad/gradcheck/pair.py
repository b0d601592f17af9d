"""A forward and a backward in NumPy, as a function of Tensors."""
import inspect
from typing import Any, Callable, Sequence

import numpy as np

from ..autograd.function import Function
from ..autograd.grad_mode import is_grad_enabled
from ..creation import tensor
from ..tensor import Tensor, wrap
from .blame import spare
from .fit import fitted
from .problem import described, input_names, items_of, title_of

spare(__file__)


class Pair:
    """forward(*inputs) -> out with backward(dout, *inputs), or forward(*inputs) -> (out, cache) with backward(dout, cache).

    Several outputs are a tuple, and backward gets an upstream gradient for each. It returns a gradient for each input, or
    for each array of floats among them, in order.

    >>> from minigrad.gradcheck import gradcheck
    >>> gradcheck((np.tanh, lambda dout, x: dout * (1 - np.tanh(x) ** 2)), np.array([0.3, -0.8]))
    True
    """

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any]):
        self.forward = forward
        self.backward = backward
        self.name: str = title_of(forward) or "the function"
        self.function: Any = type(self.name, (Handwritten,), {})

    def __call__(self, *inputs: Any) -> Any:
        return self.function.apply(self, input_names(self.forward, inputs), *inputs)

    @property
    def takes_cache(self) -> bool:
        """Is backward's second and last argument all that forward kept?"""
        try:
            kinds = [p.kind for p in inspect.signature(self.backward).parameters.values() if p.default is p.empty]
        except (TypeError, ValueError):  # built-in functions may have none
            return False
        return len(kinds) == 2 and all(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                       for kind in kinds)


class Handwritten(Function):
    """out = forward(*inputs):  dx = backward(dout, *inputs), both in NumPy"""

    @staticmethod
    def forward(ctx: Any, pair: Pair, names: Sequence[str], *inputs: Any) -> Any:
        arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
        outputs, kept = pair.forward(*arrays), arrays
        if isinstance(outputs, tuple) and len(outputs) == 2 and pair.takes_cache:
            outputs, cache = outputs
            kept = [cache]
        ctx.pair, ctx.names, ctx.arrays, ctx.kept = pair, names, arrays, kept
        ctx.save_for_backward(*(wrap(array) for array in items_of(kept) if isinstance(array, np.ndarray)))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        is_array = [isinstance(out, (np.ndarray, np.generic, float)) for out in outputs]
        if not all(is_array) or not any(np.asarray(out).dtype.kind == "f" for out in outputs):
            came = ", ".join(map(described, outputs))
            raise TypeError(f"gradcheck: {pair.name} must return an array of floats, or a tuple of arrays; got {came}")
        outputs = [wrap(np.asarray(out)) for out in outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
        if is_grad_enabled():
            raise RuntimeError(f"{ctx.pair.name}: a backward in NumPy cannot itself be differentiated "
                               "(create_graph=True)")
        found = ctx.pair.backward(*(dout.array for dout in douts), *ctx.kept)
        found = found if isinstance(found, tuple) else (found,)
        learned = ctx.needs_input_grad[2:]
        gradients = fitted(found, ctx.arrays, ctx.names, learned, learned)
        return None, None, *(g if g is None else wrap(g) for g in gradients)


def leaves_of(inputs: tuple[Any, ...]) -> list[Any]:
    """Arrays of floats as Tensors that require gradients; anything else as it is."""
    def leaf(x):
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
            return x
        if x.dtype not in (np.float64, np.float32):
            raise TypeError(f"gradcheck: a pair (forward, backward) takes float64 and float32; got {described(x)}")
        return tensor(x, requires_grad=True)

    leaves = list(map(leaf, inputs))
    if not any(isinstance(x, Tensor) for x in leaves):
        raise ValueError("gradcheck: no input requires a gradient; give a pair (forward, backward) an array of floats for "
                         f"each argument; got {', '.join(map(described, inputs)) or 'nothing'}")
    return leaves
