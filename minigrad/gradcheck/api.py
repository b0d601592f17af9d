"""`gradcheck` and `gradgradcheck`, with PyTorch's signatures, for functions of any library."""
import dataclasses
import warnings
from typing import Any, Callable, Sequence, TypeAlias

from ..autograd.functional import grad
from ..autograd.grad_mode import enable_grad
from ..tensor import Tensor, wrap
from .bridge import Given
from .check import Options, check
from .libraries import array_of
from .narrow import check_narrow
from .problem import as_inputs, floats, generator_for, items_of, problem_of
from .report import GradcheckReport
from .side_checks import recorded_from, run

# A function or module of any library, or a pair (forward, backward) in NumPy.
Checked: TypeAlias = Callable[..., Any] | tuple[Callable[..., Any], Callable[..., Any]]

UNSUPPORTED = ("check_batched_grad", "check_batched_forward_grad", "check_forward_ad", "masked")
ALWAYS = ("check_grad_dtypes", "check_backward_ad", "gen_non_contig_grad_outputs")  # always checked


class VacuousGradcheckWarning(UserWarning):
    """The true gradient is zero: the check proves nothing."""


def options_from(given: dict[str, Any]) -> Options:
    """The options of a check, including PyTorch's; TypeError for an unknown one."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name, value in given.items():
        if name in UNSUPPORTED and value:
            raise ValueError(f"gradcheck: {name} is not supported: minigrad has reverse mode on dense tensors only")
        if name not in (*known, *UNSUPPORTED, *ALWAYS):
            raise TypeError(f"gradcheck: unexpected keyword argument {name!r}; the options are {', '.join(known)}")
    return Options(**{name: value for name, value in given.items() if name in known})


def refuse(others: Sequence[Any]) -> None:
    """TypeError for positional arguments after the inputs."""
    if others:
        raise TypeError("gradcheck: give the inputs as a tuple, as gradcheck(fn, (x, y)), and options by name")


def gradcheck_report(fn: Checked, inputs: Any, *others: Any, **options: Any) -> GradcheckReport:
    """What `gradcheck` finds, as a `GradcheckReport` to print or plot. Takes the same functions and options.

    >>> wrong = lambda x: x * x.detach()  # the square, and half of its gradient
    >>> gradcheck_report(wrong, Tensor([1.0, 2.0, 3.0], dtype="float64", requires_grad=True))
    gradcheck of Mul: FAIL (seed 0)
      input  shape  checked            error  backward  differences  ratio  verdict
      x      (3,)   3 x 3 derivatives  5e-01  3         6            0.5    fail
      d output[2] / d x[2]: backward gives 3, differences 6 +- ...; 3 of 9 derivatives are wrong
      backward / differences is 0.5 everywhere: 1/2
      side checks: all 8 pass
      diagnosis: this is square: dx is multiplied by 1/2
    """
    refuse(others)
    chosen = options_from(options)
    given = Given.of(fn, inputs)
    if given.is_narrow:
        return check_narrow(given, chosen)
    with given.as_tensors() as (fn, inputs, details):
        return check(problem_of(fn, inputs, **details), chosen)


def gradcheck(fn: Checked, inputs: Any, *others: Any, raise_exception: bool = True, **options: Any) -> bool:
    """Are the gradients of fn(*inputs) the derivatives? Against central differences, in float64.

    The upstream gradient is random, never a plain sum: the gradient of softmax's sum is zero whatever backward does.
    Inputs that require gradients must be float64; nothing the caller owns is changed. A wrong gradient, or one that
    could not be judged, raises a GradcheckError (a RuntimeError) whose text is the report, or returns False with
    raise_exception=False. If the true gradient is zero, so that zeros would pass, a VacuousGradcheckWarning says so.

    `fn` may also be a function or module of PyTorch, a function of JAX, or a pair (forward, backward) in NumPy, with inputs
    of that library; those in narrower dtypes are judged by what their rounding allows. See docs/gradcheck.md.

    Options as in PyTorch: eps, atol, rtol, nondet_tol, check_undefined_grad, fast_mode; also directions and seed. A
    derivative passes within atol + rtol * |numeric|, by default 1e-11 of the largest in its row + 1e-9 of itself, plus the
    rounding of differences. Inputs are a tensor, a tuple of arguments, or a dict of them by name; they and outputs may be
    nested in tuples, lists and dicts.

    >>> gradcheck(lambda x: (x * x).tanh(), Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    True
    """
    return conclude(gradcheck_report(fn, inputs, *others, **options), raise_exception)


def assert_gradients(fn: Checked, inputs: Any, *others: Any, **options: Any) -> None:
    """For a test: AssertionError, whose text is the report, unless the gradients are right and the check proves something.

    >>> assert_gradients(lambda x: x.tanh(), Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    """
    __tracebackhide__ = True  # pytest then points at the test
    report = gradcheck_report(fn, inputs, *others, **options)
    if not report.is_proof:
        raise AssertionError(str(report))


def gradgradcheck(
    fn: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *others: Any, raise_exception: bool = True,
    **options: Any,
) -> bool:
    """Are the gradients of the gradients right? `gradcheck` of backward, in the inputs and the upstream gradients.

    >>> gradgradcheck(lambda x: x.exp(), Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    True
    """
    refuse(others)
    chosen = options_from(options)
    with Given.of(fn, inputs).as_float64() as (fn, inputs, details):
        report = check_backward(fn, inputs, grad_outputs, chosen, **details)
    return conclude(report, raise_exception)


def check_backward(fn: Callable[..., Any], inputs: Sequence[Any], grad_outputs: Any, options: Options, title: str,
                   names: Sequence[str], parameters: dict[str, Tensor] | None = None) -> GradcheckReport:
    """The report of `gradgradcheck`."""
    seed = options.seed
    problem = problem_of(fn, inputs, title, names, parameters)
    with problem.preserved():
        outputs = problem.outputs()
        shapes = [out.shape for out in outputs if out.requires_grad]
        detail = recorded_from(problem, outputs, generator_for(seed))
    if not shapes:
        raise ValueError("gradgradcheck: no output depends on an input that requires a gradient")
    if grad_outputs is None:
        generator = generator_for(seed + 1)
        grad_outputs = [wrap(generator.standard_normal(shape)).requires_grad_() for shape in shapes]
    upstreams = tuple(x if isinstance(x, Tensor) else wrap(array_of(x)).requires_grad_()
                      for x in as_inputs(grad_outputs))
    if len(upstreams) != len(shapes):
        raise ValueError(f"gradgradcheck: expected a grad_output for each of {len(shapes)} outputs, got {len(upstreams)}")

    def backward(*arguments: Any) -> tuple[Tensor, ...]:
        point, upstream = arguments[: len(inputs)], arguments[len(inputs) :]
        wanted = [x for x in [*items_of(point), *(parameters or {}).values()] if isinstance(x, Tensor) and x.requires_grad]
        with enable_grad():
            outputs = [out for out in floats(fn(*point)) if out.requires_grad]
            return grad(outputs, wanted, upstream, create_graph=True, materialize_grads=True)

    names = [*names, *(f"grad_outputs[{k}]" for k in range(len(upstreams)))]
    title = f"the backward of {title or 'fn'}"
    report = check(problem_of(backward, [*inputs, *upstreams], title, names, parameters), options)
    report.side_checks += run({"it is the backward without create_graph": lambda: detail})
    return report


def conclude(report: GradcheckReport, raise_exception: bool) -> bool:
    if report and not report.is_proof:
        reason = f"gradcheck of {report.title} proves nothing: {'; '.join(report.warnings)}"
        warnings.warn(reason, VacuousGradcheckWarning, stacklevel=3)
    if raise_exception:
        report.raise_if_wrong()
    return bool(report)
