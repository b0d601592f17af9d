"""A function of minigrad, PyTorch or NumPy as one of plain arrays: evaluated and differentiated without leaving a trace."""
import contextlib
import random as python_random
import sys
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .. import random
from ..autograd.functional import grad
from ..autograd.grad_mode import enable_grad, no_grad
from ..fast.compiling.surroundings import Surroundings
from ..tensor import Tensor
from .problem import input_names, mapped

Arrays = list[np.ndarray]


class ArrayFunction:
    """fn(*inputs), with other arrays in place of those inputs that are Tensors or arrays; the rest stays.

    Each call starts from the same buffers, and from random states that `seed` decides: those of minigrad, NumPy (the
    global one), Python and PyTorch. A module that is given NumPy arrays gets them as tensors of its own kind.
    """

    def __init__(self, fn: Callable, inputs: Sequence[Any], library: "NumPy | Minigrad | Torch | None" = None):
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
        """The outputs: all Tensors, arrays and numbers of what fn returns, however nested."""
        self._start(seed)
        with self.library.without_gradients():
            return [array_of(out) for out in self._outputs(self._arguments(arrays, ()))]

    def gradients(self, arrays: Arrays, seed: int, upstreams: Callable[[int, np.ndarray], Iterator[np.ndarray]]
                  ) -> list[list[list[np.ndarray | None]] | None]:
        """For each output, by each of its `upstreams(k, output)`: the gradients of all inputs, None for integers.

        None for an output whose gradient is not known: it is no floating-point tensor.
        """
        self._start(seed)
        with self.library.with_gradients():
            is_float = [array.dtype.kind == "f" for array in arrays]
            arguments = self._arguments(arrays, [i for i, is_one in zip(self.varied, is_float) if is_one])
            leaves = [arguments[i] for i, is_one in zip(self.varied, is_float) if is_one]
            found = []
            for k, out in enumerate(self._outputs(arguments)):
                if not (self.library.is_tensor(out) and array_of(out).dtype.kind == "f" and leaves):
                    found.append(None)
                    continue
                rows = []
                for upstream in upstreams(k, array_of(out)):
                    given = iter(self.library.gradients(out, leaves, upstream))
                    rows.append([next(given) if is_one else None for is_one in is_float])
                found.append(rows)
        return found

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, buffers and random states are afterwards what they were."""
        torch = sys.modules.get("torch")
        states = random.get_state(), np.random.get_state(), python_random.getstate(), torch and torch.get_rng_state()
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            self._restore_buffers()
            random.set_state(states[0])
            np.random.set_state(states[1])
            python_random.setstate(states[2])
            if torch:
                torch.set_rng_state(states[3])

    def _start(self, seed: int) -> None:
        self._restore_buffers()
        random.manual_seed(seed)
        np.random.seed(seed)
        python_random.seed(seed)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)

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

    def _outputs(self, arguments: list) -> list:
        return outputs_of(self.fn(*arguments))


def outputs_of(result: Any) -> list:
    """The tensors, arrays and numbers of what a function returned, however nested; TypeError if there are none."""
    items = []
    mapped(result, lambda item, _: items.append(item), "")
    found = [item for item in items if isinstance(item, (Tensor, np.ndarray, np.generic, float, int)) or is_torch(item)]
    if not found:
        raise TypeError(f"the function returned no Tensor, array or number; got {type(result).__name__}")
    return found


class NumPy:
    """Functions of arrays. Their gradients are not known."""

    without_gradients = with_gradients = contextlib.nullcontext

    @staticmethod
    def tensor(array: np.ndarray, like: Any, is_leaf: bool) -> np.ndarray:
        return array

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return False


class Minigrad:
    """Functions and modules of Tensors."""

    without_gradients, with_gradients = no_grad, enable_grad

    @staticmethod
    def tensor(array: np.ndarray, like: Any, is_leaf: bool) -> Tensor:
        return Tensor(array, requires_grad=is_leaf)

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return isinstance(value, Tensor)

    @staticmethod
    def gradients(out: Tensor, leaves: list[Tensor], upstream: np.ndarray) -> list[np.ndarray]:
        if not out.requires_grad:
            return [np.zeros(leaf.shape) for leaf in leaves]
        found = grad(out, leaves, Tensor(upstream.astype(out.dtype)), retain_graph=True, allow_unused=True)
        return [np.zeros(leaf.shape) if g is None else g.array.copy() for leaf, g in zip(leaves, found)]


class Torch:
    """Functions and modules of PyTorch, which is there if this is asked for."""

    def without_gradients(self):
        return sys.modules["torch"].no_grad()

    def with_gradients(self):
        return sys.modules["torch"].enable_grad()

    @staticmethod
    def tensor(array: np.ndarray, like: Any, is_leaf: bool):
        made = sys.modules["torch"].from_numpy(array)
        made = made.to(like.device, like.dtype) if is_torch(like) else made
        return made.requires_grad_(is_leaf)

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return is_torch(value)

    @staticmethod
    def gradients(out, leaves: list, upstream: np.ndarray) -> list[np.ndarray]:
        torch = sys.modules["torch"]
        if not out.requires_grad:
            return [np.zeros(tuple(leaf.shape)) for leaf in leaves]
        given = torch.from_numpy(upstream).to(out.device, out.dtype)
        found = torch.autograd.grad(out, leaves, given, retain_graph=True, allow_unused=True)
        return [np.zeros(tuple(leaf.shape)) if g is None else array_of(g) for leaf, g in zip(leaves, found)]


def library_of(fn: Callable, inputs: Sequence[Any]) -> NumPy | Minigrad | Torch:
    """Whose tensors fn takes: those among the inputs, or those of the module that it is."""
    torch = sys.modules.get("torch")
    if any(map(is_torch, inputs)) or torch and isinstance(fn, torch.nn.Module):
        return Torch()
    if any(isinstance(x, Tensor) for x in inputs) or hasattr(fn, "named_parameters"):
        return Minigrad()
    return NumPy()


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of(value: Any) -> np.ndarray:
    """A copy of what is in a Tensor, an array or a number."""
    if is_torch(value):
        value = value.detach().cpu()
        value = value.float() if value.dtype is sys.modules["torch"].bfloat16 else value
        return np.array(value.numpy())
    return np.array(value.array if isinstance(value, Tensor) else value)


def modules_of(fn: Callable) -> list:
    """The modules whose buffers a call may change: fn itself, or what its code reads."""
    reached = [fn, getattr(fn, "__self__", None), *Surroundings(fn).known.values()]
    return [module for i, module in enumerate(reached)
            if hasattr(type(module), "named_parameters") and not any(module is other for other in reached[:i])]
