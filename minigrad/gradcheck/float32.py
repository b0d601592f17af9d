"""The same check for float32, whose rounding is too rough for differences: against the gradients in float64."""
from typing import Any, Callable, Sequence

import numpy as np

from .. import random
from ..autograd.functional import grad
from ..autograd.grad_mode import enable_grad
from ..tape import Op
from ..tensor import Tensor
from .differences import FAIL, PASS
from .problem import as_inputs, floats, generator_for, input_names, mapped, nodes_below, title_of, unused
from .report import PROJECTED, GradcheckReport, InputReport, index_of

ROUNDING = 1e-6  # of the largest gradient of all inputs: what may remain where another one cancels


def compare_float32(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, rtol: float = 1e-4, seed: int = 0
                    ) -> GradcheckReport:
    """Are the float32 gradients of fn(*inputs) those of float64, up to `rtol` of the largest?

    The kernels for float32 are compiled separately, and differences are too rough to check them. Inputs may have
    either dtype; a float64 tensor that fn itself holds would turn all of it into float64, and is refused.

    >>> bool(compare_float32(lambda x: x.softmax(-1), Tensor(np.eye(3), requires_grad=True)))
    True
    """
    inputs = as_inputs(inputs)
    state = random.get_state()
    try:
        single, double = (gradients_in(np.dtype(dtype), fn, inputs, state, seed) for dtype in (np.float32, np.float64))
    finally:
        random.set_state(state)
    largest = max((np.max(np.abs(g), initial=0.0) for _, g in double.values()), default=0.0)
    reports, warnings_found = [], []
    for name, (node, numeric) in double.items():
        analytic = single[name][1]
        bound = np.full(numeric.shape, rtol * np.max(np.abs(numeric), initial=0.0) + ROUNDING * largest)
        columns = [index_of(k, node.shape) for k in range(numeric.size)]
        verdicts = np.where(np.abs(analytic - numeric) <= bound, PASS, FAIL)
        reports.append(InputReport(name, node.shape, analytic, numeric, bound, verdicts, [PROJECTED], columns,
                                   f"all {numeric.size} entries", reference="float64"))
        if np.all(np.abs(numeric) <= bound):
            warnings_found.append(f"the gradient of {name} is zero, or nearly, so its float32 digits are rounding")
    return GradcheckReport(f"{title_of(fn) or 'fn'} in float32", reports, [], warnings_found, False, seed)


def gradients_in(dtype: np.dtype, fn: Callable, inputs: tuple, state: Any, seed: int) -> dict[str, tuple]:
    """{name: (node, gradient in float64)} of fn's inputs, with all of them in this dtype."""
    leaves: dict[str, Tensor] = {}

    def convert(x: Any, name: str) -> Any:
        if not isinstance(x, Tensor) or x.dtype.kind != "f":
            return x
        copy = Tensor(x.array.astype(np.float32), x.requires_grad, dtype)
        return leaves.setdefault(unused(name, leaves), copy) if x.requires_grad else copy

    copies = [mapped(x, convert, name) for x, name in zip(inputs, input_names(fn, inputs))]
    if not leaves:
        raise ValueError("compare_float32: no input requires a gradient; make one with requires_grad=True")
    random.set_state(state)
    with enable_grad():
        outputs = [out for out in floats(fn(*copies)) if out.requires_grad]
    if not outputs:
        raise ValueError("compare_float32: no output depends on an input that requires a gradient")
    wide = next((node for node in nodes_below(outputs) if isinstance(node, Op) and node.dtype != dtype), None)
    if wide is not None:
        raise TypeError(
            f"compare_float32: {wide.title} is computed in {wide.dtype} though all inputs are {dtype}: the function "
            "holds a tensor of that dtype; pass it as an input, or convert it with .to(x.dtype)"
        )
    generator = generator_for(seed)
    upstreams = [Tensor(generator.standard_normal(out.shape), dtype=out.dtype) for out in outputs]
    found = grad(outputs, tuple(leaves.values()), upstreams, allow_unused=True, materialize_grads=True)
    return {name: (leaf.node, g.array.astype(np.float64).reshape(1, -1))
            for (name, leaf), g in zip(leaves.items(), found)}
