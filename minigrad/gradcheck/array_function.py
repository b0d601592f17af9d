"""A function of minigrad, PyTorch or NumPy as one of plain arrays, evaluated and differentiated without side effects."""
import contextlib
import random as python_random
import sys
from typing import Any, Callable, ContextManager, Iterator, NamedTuple, Sequence

import numpy as np

from .. import random
from ..autograd.functional import grad
from ..autograd.grad_mode import set_grad_enabled
from ..fast.compiling.surroundings import Surroundings
from ..tensor import Tensor
from .problem import input_names, items_of

Arrays = list[np.ndarray]


class ArrayFunction:
    """fn(*inputs) with other arrays in place of the inputs that are Tensors or arrays.

    Each call starts from the same buffers and from random states determined by `seed`: those of minigrad, NumPy (the global
    one), Python and PyTorch. A module given NumPy arrays gets them as tensors of its own library.
    """

    def __init__(self, fn: Callable, inputs: Sequence[Any], library: "Library | None" = None):
        self.fn = fn
        self.inputs = inputs
        self.library = library or library_of(fn, inputs)
        self.varied = [i for i, x in enumerate(inputs)
                       if (isinstance(x, (Tensor, np.ndarray)) or is_torch(x)) and array_of(x).dtype.kind in "fciub"]
        if not self.varied:
            came = ", ".join(type(x).__name__ for x in inputs) or "none"
            raise TypeError(f"expected Tensors or arrays of numbers among the inputs, got {came}")
        self.names = [input_names(fn, inputs)[i] for i in self.varied]
        self.arrays = [array_of(inputs[i]) for i in self.varied]
        self.buffers = [buffer for module in modules_of(fn) for buffer in module.buffers()]
        self.buffers_before = [array_of(buffer) for buffer in self.buffers]

    def __call__(self, arrays: Arrays, seed: int) -> Arrays:
        """The outputs: all Tensors, arrays and numbers that fn returns, however nested."""
        self._start(seed)
        with self.library.recording(False):
            return [array_of(out) for out in outputs_of(self.fn(*self._arguments(arrays, ())))]

    def gradients(self, arrays: Arrays, seed: int, upstreams: Callable[[int, np.ndarray], Iterator[np.ndarray]]
                  ) -> list[list[list[np.ndarray | None]] | None]:
        """For each output and each of its `upstreams(k, output)`, the gradients of all inputs, None for integers.

        None for an output without a known gradient, because it is not a floating-point tensor.
        """
        self._start(seed)
        with self.library.recording(True):
            is_float = [array.dtype.kind == "f" for array in arrays]
            arguments = self._arguments(arrays, [i for i, is_one in zip(self.varied, is_float) if is_one])
            leaves = [arguments[i] for i, is_one in zip(self.varied, is_float) if is_one]
            found = []
            for k, out in enumerate(outputs_of(self.fn(*arguments))):
                if not (self.library.is_tensor(out) and array_of(out).dtype.kind == "f" and leaves):
                    found.append(None)
                    continue
                rows = [iter(self._gradients(out, leaves, upstream)) for upstream in upstreams(k, array_of(out))]
                found.append([[next(row) if is_one else None for is_one in is_float] for row in rows])
        return found

    def _gradients(self, out: Any, leaves: list, upstream: np.ndarray) -> list[np.ndarray]:
        given, found = self.library.tensor(upstream.astype(array_of(out).dtype), out, False), [None] * len(leaves)
        if out.requires_grad:
            found = self.library.grad(out, leaves, given, retain_graph=True, allow_unused=True)
        return [np.zeros(tuple(leaf.shape)) if g is None else array_of(g) for leaf, g in zip(leaves, found)]

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, buffers and random states are restored afterwards."""
        states = [(put_back, state()) for state, put_back, _ in sources_of_chance()]
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            self._restore_buffers()
            for put_back, state in states:
                put_back(state)

    def _start(self, seed: int) -> None:
        self._restore_buffers()
        for *_, start in sources_of_chance():
            start(seed)

    def _restore_buffers(self) -> None:
        for buffer, before in zip(self.buffers, self.buffers_before):
            if is_torch(buffer):
                buffer.data.copy_(sys.modules["torch"].from_numpy(before))
            else:
                buffer.array[...] = before

    def _arguments(self, arrays: Arrays, leaves: Sequence[int]) -> list:
        arguments = list(self.inputs)
        for i, array in zip(self.varied, arrays):
            arguments[i] = self.library.tensor(array.copy(), self.inputs[i], i in leaves)
        return arguments


def sources_of_chance() -> list[tuple[Callable, Callable, Callable]]:
    """For each generator that a function may draw from: get its state, restore it, seed it."""
    torch = sys.modules.get("torch")
    return [
        (random.get_state, random.set_state, random.manual_seed),
        (np.random.get_state, np.random.set_state, np.random.seed),
        (python_random.getstate, python_random.setstate, python_random.seed),
    ] + ([(torch.get_rng_state, torch.set_rng_state, torch.manual_seed)] if torch else [])


def outputs_of(result: Any) -> list:
    """The tensors, arrays and numbers of what a function returned, however nested; TypeError if there are none."""
    found = [item for item in items_of(result)
             if isinstance(item, (Tensor, np.ndarray, np.generic, float, int)) or is_torch(item)]
    if not found:
        raise TypeError(f"the function returned no Tensor, array or number; got {type(result).__name__}")
    return found


class Library(NamedTuple):
    """The library whose tensors a function takes and returns."""

    is_tensor: Callable[[Any], bool]
    tensor: Callable[[np.ndarray, Any, bool], Any]  # (array, a tensor like it, is it a leaf?)
    recording: Callable[[bool], ContextManager]
    grad: Callable | None = None  # NumPy has none


NUMPY = Library(lambda value: False, lambda array, like, is_leaf: array, contextlib.nullcontext)
MINIGRAD = Library(lambda value: isinstance(value, Tensor),
                   lambda array, like, is_leaf: Tensor(array, requires_grad=is_leaf), set_grad_enabled, grad)


def library_of(fn: Callable, inputs: Sequence[Any]) -> Library:
    """The library of the tensors among the inputs, or of fn if that is a module."""
    torch = sys.modules.get("torch")
    if any(map(is_torch, inputs)) or torch and isinstance(fn, torch.nn.Module):
        return Library(is_torch, tensor_of_torch, torch.set_grad_enabled, torch.autograd.grad)
    return MINIGRAD if any(isinstance(x, Tensor) for x in inputs) or hasattr(fn, "named_parameters") else NUMPY


def tensor_of_torch(array: np.ndarray, like: Any, is_leaf: bool) -> Any:
    made = sys.modules["torch"].from_numpy(array)
    made = made.to(like.device, like.dtype) if is_torch(like) else made
    return made.requires_grad_(is_leaf)


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of(value: Any) -> np.ndarray:
    """A copy of a Tensor, array or number as an array."""
    if is_torch(value):
        value = value.detach().cpu()
        value = value.float() if value.dtype is sys.modules["torch"].bfloat16 else value
        return np.array(value.numpy())
    return np.array(value.array if isinstance(value, Tensor) else value)


def modules_of(fn: Callable) -> list:
    """The modules whose buffers a call may change: fn itself, or those that its code uses."""
    reached = [fn, getattr(fn, "__self__", None), *Surroundings(fn).known.values()]
    return [module for i, module in enumerate(reached)
            if hasattr(type(module), "named_parameters") and not any(module is other for other in reached[:i])]
