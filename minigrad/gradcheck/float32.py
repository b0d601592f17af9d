"""The check for float32, whose rounding is too coarse for differences: against the gradients in float64."""
from typing import Any, Callable, Sequence

import numpy as np

from ..tape import Op
from ..tensor import Tensor
from .arguments import as_inputs, generator_for, mapped, title_of
from .differences import FAIL, PASS
from .libraries import MINIGRAD, library_of, nodes_below
from .report import PROJECTED, GradcheckReport, InputReport, index_of
from .subject import Record, Subject

ROUNDING = 1e-6  # what may remain where a gradient cancels, relative to the largest of all inputs


def compare_float32(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, rtol: float = 1e-4, seed: int = 0
                    ) -> GradcheckReport:
    """Are the float32 gradients of fn(*inputs) those of float64, within `rtol` of the largest?

    The kernels for float32 are compiled separately, and differences are too coarse to check them. Inputs may have either
    dtype; a float64 tensor that fn itself holds would turn everything into float64, and is refused.

    >>> bool(compare_float32(lambda x: x.softmax(-1), Tensor(np.eye(3), requires_grad=True)))
    True
    """
    inputs, library = as_inputs(inputs), library_of(fn, as_inputs(inputs))
    if library is not MINIGRAD or not callable(fn):
        raise TypeError("compare_float32: expected a minigrad function; for other libraries, gradcheck compares the "
                        "gradients of float32 inputs with float64's")
    single, double = (point_in(np.dtype(dtype), fn, inputs, seed) for dtype in (np.float32, np.float64))
    largest = max(np.max(np.abs(g), initial=0.0) for g in double.gradients)
    reports, warnings_found = [], []
    for name, *both in zip(double.names, single.gradients, double.gradients):
        analytic, numeric = (g.astype(np.float64).reshape(1, -1) for g in both)
        bound = np.full(numeric.shape, rtol * np.max(np.abs(numeric), initial=0.0) + ROUNDING * largest)
        shape = both[1].shape
        columns = [index_of(k, shape) for k in range(numeric.size)]
        verdicts = np.where(np.abs(analytic - numeric) <= bound, PASS, FAIL)
        reports.append(InputReport(name, shape, analytic, numeric, bound, verdicts, [PROJECTED], columns,
                                   f"all {numeric.size} entries", reference="float64"))
        if np.all(np.abs(numeric) <= bound):
            warnings_found.append(f"the gradient of {name} is zero, or nearly, so its float32 digits are rounding")
    return GradcheckReport(f"{title_of(fn) or 'fn'} in float32", reports, [], warnings_found, False, seed)


def point_in(dtype: np.dtype, fn: Callable[..., Any], inputs: tuple[Any, ...], seed: int) -> Record:
    """fn and its gradients at these inputs, all converted to this dtype."""
    def convert(x: Any, _: str) -> Any:
        if not (isinstance(x, Tensor) and x.dtype.kind == "f"):
            return x
        made = Tensor(x.array.astype(np.float32), requires_grad=x.requires_grad, dtype=dtype)
        made.name = x.name or ""
        return made

    subject = Subject(fn, [mapped(x, convert, "") for x in inputs], MINIGRAD, dtype=dtype)
    with subject.preserved():
        point = Record(subject)
        if not any(point.is_known):
            raise ValueError("compare_float32: no output depends on an input that requires a gradient")
        wide = next((node for node in nodes_below(point.tensors) if isinstance(node, Op) and node.dtype != dtype), None)
        if wide is not None:
            raise TypeError(
                f"compare_float32: {wide.title} is computed in {wide.dtype} though all inputs are {dtype}: the function "
                "holds a tensor of that dtype; pass it as an input, or convert it with .to(x.dtype)"
            )
        return point.differentiate(generator_for(seed))
