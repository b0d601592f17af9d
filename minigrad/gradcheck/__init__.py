"""Is a gradient right? Backward against finite differences, in float64, with a random upstream gradient."""
from typing import Callable, Sequence

import numpy as np

from ..tape import enable_grad, no_grad
from ..tensor import Tensor
from .differences import Comparison, compare, derivative


def gradcheck(
    fn: Callable[..., Tensor | tuple[Tensor, ...]], inputs: Tensor | Sequence[Tensor], *,
    raise_exception: bool = True, seed: int = 0,
) -> bool:
    """Do the gradients of fn(*inputs) agree with central differences?

    The loss is sum(fn(*inputs) * upstream) with a random normal `upstream`. Never a plain sum: the gradient of
    softmax's sum is zero, for one, whatever its backward does. Inputs that require gradients must be float64; they and
    their gradients are left as they were. A mismatch raises a RuntimeError that says where, or gives False.

    >>> from minigrad import tensor, float64
    >>> gradcheck(lambda x: (x * x).tanh(), tensor([0.3, -0.8], dtype=float64, requires_grad=True))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck: none of the inputs requires a gradient")
    for i in checked:
        if inputs[i].dtype != np.float64:
            raise TypeError(f"gradcheck: input {i} is {inputs[i].dtype}; use .double(), differences need float64")
    arrays = [x.data.copy() if isinstance(x, Tensor) else None for x in inputs]
    copies = [x if a is None else Tensor(a, requires_grad=i in checked) for i, (x, a) in enumerate(zip(inputs, arrays))]
    random = np.random.default_rng(seed)

    def outputs() -> tuple[Tensor, ...]:
        result = fn(*copies)
        return (result,) if isinstance(result, Tensor) else tuple(result)

    with enable_grad():
        results = outputs()
    upstream = [random.standard_normal(out.shape) for out in results]
    for out, gradient in zip(results, upstream):
        if out.requires_grad:
            out.backward(Tensor(gradient), retain_graph=True)

    def loss() -> float:
        with no_grad():
            return float(sum(np.sum(out.data * gradient) for out, gradient in zip(outputs(), upstream)))

    for i in checked:
        gradient = np.zeros(arrays[i].shape) if copies[i].grad is None else copies[i].grad.data
        comparison = compare(loss, arrays[i], gradient, random)
        if not comparison.passed:
            if raise_exception:
                raise RuntimeError(
                    f"gradcheck: input {i}, {comparison.place}: backward gives {comparison.analytic:.9g}, differences "
                    f"{comparison.numeric:.9g} (relative error {comparison.relative_error:.1e}, seed {seed})"
                )
            return False
    return True
