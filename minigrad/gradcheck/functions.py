"""`gradcheck` and `gradgradcheck`, with PyTorch's signatures, and the same check for float32."""
import warnings
from typing import Any, Callable, Sequence

import numpy as np

from .. import random, tape
from ..functional import grad
from ..tensor import Tensor
from .check import Options, check, leaf_copies
from .differences import FAIL, PASS, STEP
from .problem import Problem, floats, generator_for
from .report import GradcheckReport, InputReport

UNSUPPORTED = ("check_batched_grad", "check_batched_forward_grad", "check_forward_ad", "masked")
ALWAYS = ("check_grad_dtypes", "check_backward_ad", "gen_non_contig_grad_outputs")  # checked without being asked


class VacuousGradcheckWarning(UserWarning):
    """The true gradient is zero: the check proves nothing."""


def gradcheck_report(
    fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = STEP, atol: float | None = None,
    rtol: float = 1e-7, nondet_tol: float = 0.0, check_undefined_grad: bool = True, fast_mode: bool = False,
    directions: int = 3, seed: int = 0, **torch_options: Any,
) -> GradcheckReport:
    """What `gradcheck` finds, as a `GradcheckReport`: print it, or plot it.

    >>> x = Tensor([0.3, -0.8], dtype="float64", requires_grad=True)
    >>> print(gradcheck_report(lambda x: x.tanh(), x))
    gradcheck of Tanh: PASS (seed 0, ... evaluations)
    ...
    """
    for name, value in torch_options.items():
        if name not in UNSUPPORTED + ALWAYS:
            raise TypeError(f"gradcheck: unexpected keyword argument {name!r}")
        if name in UNSUPPORTED and value:
            raise ValueError(f"gradcheck: {name} is not supported: minigrad has reverse mode on dense tensors only")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    copies, leaves = leaf_copies(inputs)
    if not leaves:
        raise ValueError("gradcheck: none of the inputs requires a gradient")
    name = getattr(fn, "__name__", None) or getattr(fn, "name", type(fn).__name__)
    problem = Problem("" if name == "<lambda>" else name, lambda: fn(*copies), leaves)
    options = Options(eps, atol, rtol, nondet_tol, check_undefined_grad, fast_mode, directions, seed)
    return check(problem, options, [x for x in inputs if not (isinstance(x, Tensor) and x.requires_grad)])


def gradcheck(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, raise_exception: bool = True, **options: Any
              ) -> bool:
    """Are the gradients of fn(*inputs) the derivatives? Against central differences, in float64.

    The upstream gradient is random, never a plain sum: the gradient of softmax's sum is zero whatever backward does.
    Inputs that require gradients must be float64; nothing of the caller's is changed. A wrong gradient, or one that
    could not be judged, raises a GradcheckError (a RuntimeError) whose text is the report, or gives False. If the true
    gradient is zero, so that any check would pass, a VacuousGradcheckWarning says so.

    Options as in PyTorch: eps, atol, rtol, nondet_tol, check_undefined_grad, fast_mode; besides, directions and seed.
    A derivative passes within atol + rtol * |numeric|, by default 1e-9 of the largest + 1e-7 of itself.

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
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if grad_outputs is None:
        generator = generator_for(options.get("seed", 0) + 1)
        state = random.get_state()
        with tape.enable_grad():
            shapes = [out.shape for out in floats(fn(*inputs))]
        random.set_state(state)
        grad_outputs = [Tensor(generator.standard_normal(shape), requires_grad=True) for shape in shapes]
    upstreams = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def backward(*arguments: Any) -> tuple[Tensor, ...]:
        point, upstream = arguments[:len(inputs)], arguments[len(inputs):]
        with tape.enable_grad():
            pairs = [(out, u) for out, u in zip(floats(fn(*point)), upstream) if out.requires_grad]
            outputs, gradients = zip(*pairs)
            return grad(outputs, [point[i] for i in wanted], gradients, create_graph=True, allow_unused=True,
                        materialize_grads=True)

    backward.__name__ = f"the backward of {getattr(fn, '__name__', type(fn).__name__)}".replace("<lambda>", "fn")
    return conclude(gradcheck_report(backward, inputs + upstreams, **options), raise_exception)


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
    either dtype; a float64 tensor that fn itself holds makes it all float64.

    >>> bool(compare_float32(lambda x: x.softmax(-1), Tensor(np.eye(3), requires_grad=True)))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    state = random.get_state()
    gradients = []
    for dtype in (np.float32, np.float64):
        random.set_state(state)
        copies = [Tensor(np.array(x.array, np.float32).astype(dtype), x.requires_grad)
                  if isinstance(x, Tensor) and x.dtype.kind == "f" else x for x in inputs]
        leaves = {f"input {i}": x for i, x in enumerate(copies) if isinstance(x, Tensor) and x.requires_grad}
        with tape.enable_grad():
            outputs = floats(fn(*copies))
        generator = generator_for(seed)
        upstreams = [Tensor(generator.standard_normal(out.shape), dtype=out.dtype) for out in outputs]
        gradients.append(grad(outputs, tuple(leaves.values()), upstreams, allow_unused=True, materialize_grads=True))
    random.set_state(state)
    reports = []
    for (name, leaf), single, double in zip(leaves.items(), *gradients):
        analytic, numeric = (g.array.astype(np.float64).reshape(1, -1) for g in (single, double))
        bound = np.full(numeric.shape, rtol * np.max(np.abs(numeric), initial=0.0))
        columns = [f"entry {tuple(int(i) for i in index)}" for index in np.ndindex(leaf.shape)]
        verdicts = np.where(np.abs(analytic - numeric) <= bound, PASS, FAIL)
        reports.append(InputReport(name, leaf.shape, analytic, numeric, bound, verdicts, ["sum(outputs * upstream)"],
                                   columns, f"all {leaf.numel()} entries", reference="float64"))
    title = f"{getattr(fn, '__name__', type(fn).__name__)} in float32"
    return GradcheckReport(title, reports, [], [], False, seed, 0)
