"""A function of any library as one of plain arrays, evaluated and differentiated without side effects."""
from typing import Any, Callable, ContextManager, Iterator, Sequence

import numpy as np

from .bridge import function_of
from .libraries import Library, array_of, library_of, library_of_value
from .problem import input_names, items_of
from .state import State, all_generators

Arrays = list[np.ndarray]


class ArrayFunction:
    """fn(*inputs) with other arrays in place of the inputs that are Tensors or arrays.

    Each call starts from the same buffers and from random states determined by `seed`: those of minigrad, NumPy (the global
    one), Python and PyTorch. A module given NumPy arrays gets them as tensors of its own library.
    """

    def __init__(self, fn: Callable[..., Any], inputs: Sequence[Any], library: Library | None = None):
        self.library: Library = library or library_of(fn, inputs)
        self.fn: Callable[..., Any] = function_of(fn, self.library)
        self.inputs = inputs
        self.varied: list[int] = [i for i, x in enumerate(inputs) if (isinstance(x, np.ndarray) or library_of_value(x))
                                  and array_of(x).dtype.kind in "fciub"]
        if not self.varied:
            came = ", ".join(type(x).__name__ for x in inputs) or "none"
            raise TypeError(f"expected Tensors or arrays of numbers among the inputs, got {came}")
        self.names: list[str] = [input_names(self.fn, inputs)[i] for i in self.varied]
        self.arrays: list[np.ndarray] = [array_of(inputs[i]) for i in self.varied]
        self.state: State = State(self.fn, all_generators())
        self.preserved: Callable[[], ContextManager[None]] = self.state.preserved

    def __call__(self, arrays: Arrays, seed: int) -> Arrays:
        """The outputs: all Tensors, arrays and numbers that fn returns, however nested."""
        self.state.start(seed)
        return [array_of(out) for out in self.library.run(lambda _: self._outputs(arrays, {}), ())]

    def gradients(self, arrays: Arrays, seed: int, upstreams: Callable[[int, np.ndarray], Iterator[np.ndarray]]
                  ) -> list[list[list[np.ndarray | None]] | None]:
        """For each output and each of its `upstreams(k, output)`, the gradients of all inputs, None for integers.

        None for an output without a known gradient, because it is not a floating-point tensor.
        """
        self.state.start(seed)
        is_float = [array.dtype.kind == "f" for array in arrays]
        floats = [i for i, is_one in zip(self.varied, is_float) if is_one]
        leaves = [self._tensor(i, array, True) for i, array in zip(self.varied, arrays) if i in floats]
        outputs, pullback = self.library.record(lambda leaves: self._outputs(arrays, dict(zip(floats, leaves))), leaves)
        found: list[list[list[np.ndarray | None]] | None] = []
        for k, out in enumerate(outputs):
            array = array_of(out)
            if not (pullback and self.library.is_tensor(out) and array.dtype.kind == "f" and leaves):
                found.append(None)
                continue
            rows: list[list[np.ndarray | None]] = []
            for upstream in upstreams(k, array):
                given = [upstream.astype(array.dtype) if j == k else None for j in range(len(outputs))]
                row = iter([np.zeros(x.shape) if g is None else g for x, g in zip(leaves, pullback(given))])
                rows.append([next(row) if is_one else None for is_one in is_float])
            found.append(rows)
        return found

    def _outputs(self, arrays: Arrays, leaves: dict[int, Any]) -> list[Any]:
        arguments = list(self.inputs)
        for i, array in zip(self.varied, arrays):
            arguments[i] = leaves[i] if i in leaves else self._tensor(i, array)
        return outputs_of(self.fn(*arguments))

    def _tensor(self, i: int, array: np.ndarray, is_leaf: bool = False) -> Any:
        return self.library.tensor(array.copy(), self.inputs[i], is_leaf)


def outputs_of(result: Any) -> list[Any]:
    """The tensors, arrays and numbers of what a function returned, however nested; TypeError if there are none."""
    found = [item for item in items_of(result)
             if isinstance(item, (np.ndarray, np.generic, float, int)) or library_of_value(item)]
    if not found:
        raise TypeError(f"the function returned no Tensor, array or number; got {type(result).__name__}")
    return found
