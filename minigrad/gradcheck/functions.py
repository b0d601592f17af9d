"""`gradcheck` and `gradgradcheck`, with PyTorch's signatures, and the same check for float32."""
import dataclasses
import warnings
from typing import Any, Callable, Sequence

import numpy as np

from .. import random
from ..derivatives import grad
from ..grad_mode import enable_grad
from ..tape import Op
from ..tensor import Tensor
from .check import Options, check, leaf_copies
from .differences import FAIL, PASS
from .problem import Problem, as_inputs, floats, generator_for, mapped, nodes_below
from .report import GradcheckReport, InputReport, SideCheck
from .side_checks import recorded_from

UNSUPPORTED = ("check_batched_grad", "check_batched_forward_grad", "check_forward_ad", "masked")
FLOAT32_ROUNDING = 1e-6  # of the largest gradient of all inputs: what may remain where another one cancels
ALWAYS = ("check_grad_dtypes", "check_backward_ad", "gen_non_contig_grad_outputs")  # checked without being asked


class VacuousGradcheckWarning(UserWarning):
    """The true gradient is zero: the check proves nothing."""


def options_from(given: dict[str, Any]) -> Options:
    """The options of a check, PyTorch's among them; TypeError for one that there is not."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name, value in given.items():
        if name in UNSUPPORTED and value:
            raise ValueError(f"gradcheck: {name} is not supported: minigrad has reverse mode on dense tensors only")
        if name not in (*known, *UNSUPPORTED, *ALWAYS):
            raise TypeError(f"gradcheck: unexpected keyword argument {name!r}; there are {', '.join(known)}")
    return Options(**{name: value for name, value in given.items() if name in known})


def name_of(fn: Callable) -> str:
    return getattr(fn, "__name__", None) or getattr(fn, "name", type(fn).__name__)


def gradcheck_report(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], **options: Any) -> GradcheckReport:
    """What `gradcheck` finds, as a `GradcheckReport`: print it, or plot it. It has the same options.

    >>> x = Tensor([0.3, -0.8], dtype="float64", requires_grad=True)
    >>> print(gradcheck_report(lambda x: x.tanh(), x))
    gradcheck of Tanh: PASS (seed 0, ... evaluations)
    ...
    """
    options = options_from(options)
    copies, leaves, constants = leaf_copies(as_inputs(inputs))
    name = name_of(fn)
    problem = Problem("" if name == "<lambda>" else name, lambda: fn(*copies), leaves, constants)
    return check(problem, options)


def gradcheck(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, raise_exception: bool = True, **options: Any
              ) -> bool:
    """Are the gradients of fn(*inputs) the derivatives? Against central differences, in float64.

    The upstream gradient is random, never a plain sum: the gradient of softmax's sum is zero whatever backward does.
    Inputs that require gradients must be float64; nothing of the caller's is changed. A wrong gradient, or one that
    could not be judged, raises a GradcheckError (a RuntimeError) whose text is the report, or gives False. If the true
    gradient is zero, so that any check would pass, a VacuousGradcheckWarning says so.

    Options as in PyTorch: eps, atol, rtol, nondet_tol, check_undefined_grad, fast_mode; besides, directions and seed.
    A derivative passes within atol + rtol * |numeric|, by default 1e-11 of the largest in its row + 1e-9 of itself,
    besides the rounding of differences. Inputs and outputs may be nested in tuples, lists and dicts.

    >>> gradcheck(lambda x: (x * x).tanh(), Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    True
    """
    return conclude(gradcheck_report(fn, inputs, **options), raise_exception)


def gradgradcheck(
    fn: Callable[..., Any], inputs: Tensor | Sequence[Any], grad_outputs: Tensor | Sequence[Tensor] | None = None, *,
    raise_exception: bool = True, **options: Any,
) -> bool:
    """Are the gradients of the gradients right? `gradcheck` of backward, in the inputs and the upstream gradients.

    >>> gradgradcheck(lambda x: x.exp(), Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    True
    """
    inputs = as_inputs(inputs)
    seed = options_from(options).seed
    copies, leaves, constants = leaf_copies(inputs)
    problem = Problem("", lambda: fn(*copies), leaves, constants)
    with problem.preserved():
        outputs = problem.outputs()
        shapes = [out.shape for out in outputs if out.requires_grad]
        detail = recorded_from(problem, outputs, generator_for(seed))
    if not shapes:
        raise ValueError("gradgradcheck: no output depends on an input that requires a gradient")
    if grad_outputs is None:
        generator = generator_for(seed + 1)
        grad_outputs = [Tensor(generator.standard_normal(shape), requires_grad=True) for shape in shapes]
    upstreams = as_inputs(grad_outputs)
    if len(upstreams) != len(shapes):
        raise ValueError(f"gradgradcheck: {len(shapes)} outputs need as many grad_outputs, got {len(upstreams)}")

    def backward(*arguments: Any) -> tuple[Tensor, ...]:
        point, upstream = arguments[: len(inputs)], arguments[len(inputs) :]
        wanted: list[Tensor] = []
        mapped(list(point), lambda x, _: wanted.append(x) if isinstance(x, Tensor) and x.requires_grad else None, "")
        with enable_grad():
            outputs = [out for out in floats(fn(*point)) if out.requires_grad]
            return grad(outputs, wanted, upstream, create_graph=True, allow_unused=True, materialize_grads=True)

    backward.__name__ = f"the backward of {name_of(fn)}".replace("<lambda>", "fn")
    report = gradcheck_report(backward, inputs + upstreams, **options)
    report.side_checks.append(SideCheck("it is the backward without create_graph", not detail, detail))
    return conclude(report, raise_exception)


def conclude(report: GradcheckReport, raise_exception: bool) -> bool:
    if report.is_vacuous and report:
        reason = f"gradcheck of {report.title} proves nothing: {'; '.join(report.warnings)}"
        warnings.warn(reason, VacuousGradcheckWarning, stacklevel=3)
    if raise_exception:
        report.raise_if_wrong()
    return bool(report)


def compare_float32(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, rtol: float = 1e-4, seed: int = 0
                    ) -> GradcheckReport:
    """Are the float32 gradients of fn(*inputs) those of float64, up to `rtol` of the largest?

    The kernels for float32 are compiled separately, and differences are too rough to check them. Inputs may be of
    either dtype; a float64 tensor that fn itself holds would make it all float64, and is refused.

    >>> bool(compare_float32(lambda x: x.softmax(-1), Tensor(np.eye(3), requires_grad=True)))
    True
    """
    inputs = as_inputs(inputs)
    state = random.get_state()
    try:
        single, double = (_gradients_in(np.dtype(dtype), fn, inputs, state, seed) for dtype in (np.float32, np.float64))
    finally:
        random.set_state(state)
    largest = max((np.max(np.abs(g), initial=0.0) for _, g in double.values()), default=0.0)
    reports, warnings_found = [], []
    for name, (node, numeric) in double.items():
        analytic = single[name][1]
        bound = np.full(numeric.shape, rtol * np.max(np.abs(numeric), initial=0.0) + FLOAT32_ROUNDING * largest)
        columns = [f"entry {tuple(int(i) for i in index)}" for index in np.ndindex(node.shape)]
        verdicts = np.where(np.abs(analytic - numeric) <= bound, PASS, FAIL)
        reports.append(InputReport(name, node.shape, analytic, numeric, bound, verdicts, ["sum(outputs * upstream)"],
                                   columns, f"all {numeric.size} entries", reference="float64"))
        if np.all(np.abs(numeric) <= bound):
            warnings_found.append(f"the gradient of {name} is zero, or nearly, so its float32 digits are rounding")
    return GradcheckReport(f"{name_of(fn)} in float32", reports, [], warnings_found, False, seed, 0)


def _gradients_in(dtype: np.dtype, fn: Callable, inputs: tuple, state: Any, seed: int) -> dict[str, tuple]:
    """{name: (node, gradient in float64)} of fn's inputs, with all of them in this dtype."""
    leaves: dict[str, Tensor] = {}

    def convert(x: Any, name: str) -> Any:
        if not isinstance(x, Tensor) or x.dtype.kind != "f":
            return x
        copy = Tensor(x.array.astype(np.float32), x.requires_grad, dtype)
        return leaves.setdefault(name, copy) if x.requires_grad else copy

    copies = [mapped(x, convert, f"input {i}") for i, x in enumerate(inputs)]
    if not leaves:
        raise ValueError("compare_float32: none of the inputs requires a gradient; make them with requires_grad=True")
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
