"""`gradcheck` and `gradgradcheck`, with PyTorch's signatures, for functions of any library."""
import contextlib
import dataclasses
import warnings
from typing import Any, Callable, Sequence, TypeAlias

import numpy as np
from tqdm import tqdm

from ..tensor import Tensor
from .arguments import as_inputs, generator_for
from .check import Options, check
from .libraries import MINIGRAD, array_of
from .narrow import check_narrow
from .report import GradcheckReport
from .side_checks import recorded, run
from .subject import Given, Record, Subject

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
      diagnosis: this is square: the factor 2 is missing: x replaces 2 * x
    """
    refuse(others)
    chosen = options_from(options)
    given = Given.of(fn, inputs)
    if given.is_narrow:
        return check_narrow(given, chosen)
    return check(given.subject(), chosen)


def gradcheck(fn: Checked, inputs: Any, *others: Any, raise_exception: bool = True, **options: Any) -> bool:
    """Are the gradients of fn(*inputs) the derivatives? Against central differences, in float64.

    The upstream gradient is random, never a plain sum: the gradient of softmax's sum is zero whatever backward does.
    Inputs in narrower dtypes are judged in float64, and by what their rounding allows. Nothing the caller owns is changed.
    A wrong gradient, or one that could not be judged, raises a GradcheckError (a RuntimeError) whose text is the report, or
    returns False with raise_exception=False. If the true gradient is zero, so that zeros would pass, there is a
    VacuousGradcheckWarning.

    `fn` may also be a function or module of PyTorch, a function of JAX, or a pair (forward, backward) in NumPy, with inputs
    of that library. See docs/gradcheck.md.

    Options as in PyTorch: eps, atol, rtol, nondet_tol, check_undefined_grad, fast_mode; also directions, seed, time_limit.
    A derivative passes within atol + rtol * |numeric|, by default 1e-11 of the largest in its row + 1e-9 of itself, plus
    the rounding of differences. Inputs are a tensor, a tuple of arguments, or a dict of them by name; they and outputs may
    be nested in tuples, lists and dicts.

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


def gradcheck_module(
    module: Any, inputs: Tensor | Sequence[Any], *, select: Callable[[Any], Any] | None = None,
    raise_exception: bool = True, progress: bool | None = None, seed: int = 0, **options: Any,
) -> GradcheckReport:
    """`gradcheck` for every parameter of a float64 module, called as module(*inputs); returns the report.

    `select` picks the outputs to differentiate from what the module returns, by default all. Parameters are moved in
    place and restored; their `grad` is not touched. Random states are held fixed, so dropout may be on. `progress` shows a
    bar on stderr, by default only in a terminal.

    >>> import nn, minigrad as mg
    >>> layer = nn.Linear(3, 2).to("float64")
    >>> gradcheck_module(layer, mg.randn(5, 3, dtype="float64")).verdict
    'pass'
    """
    given = Given.of(module, inputs)
    own = dict(getattr(module, "named_parameters", dict)()) if given.library is MINIGRAD else None
    if given.is_narrow or any(map(given.library.is_narrow, (own or {}).values())):
        raise TypeError("the module or its inputs are not float64; use .double(), or gradcheck, which judges other dtypes "
                        "by what their rounding allows")
    subject = given.subject(parameters=own, select=select)
    names = list(subject.leaves)

    def bar(indices):
        shown = tqdm(indices, desc="gradcheck", unit="parameter", disable=None if progress is None else not progress)
        for i in shown:
            shown.set_postfix_str(names[i])
            yield i

    report = check(subject, options_from({"seed": seed, **options}), bar)
    if raise_exception:
        report.raise_if_wrong()
    return report


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
    given = Given.of(fn, inputs)
    with given.library.wide() if given.is_narrow else contextlib.nullcontext():
        subject = (given.widened() if given.is_narrow else given).subject()
        report = check_backward(subject, grad_outputs, chosen)
    return conclude(report, raise_exception)


def check_backward(subject: Subject, grad_outputs: Any, options: Options) -> GradcheckReport:
    """The report of `gradgradcheck`."""
    with subject.preserved():
        point = Record(subject)
        shapes = [out.shape for out, is_known in zip(point.outputs, point.is_known) if is_known]
        if not shapes:
            raise ValueError("gradgradcheck: no output depends on an input that requires a gradient")
        detail = None
        with contextlib.suppress(Exception):  # the check itself finds out
            detail = recorded(point.differentiate(generator_for(options.seed)))
        generator = generator_for(options.seed + 1)
        given = list(map(generator.standard_normal, shapes))
        if grad_outputs is not None:
            given = [array_of(x).astype(np.float64) for x in as_inputs(grad_outputs)]
        if len(given) != len(shapes):
            raise ValueError(f"gradgradcheck: expected a grad_output for each of {len(shapes)} outputs, got {len(given)}")
        remaining = iter(given)
        backward = subject.backward([next(remaining) if is_known else np.zeros(out.shape)
                                     for out, is_known in zip(point.outputs, point.is_known)])
    report = check(backward, options)
    report.side_checks += run({"it is the backward without create_graph": lambda: detail})
    return report


def conclude(report: GradcheckReport, raise_exception: bool) -> bool:
    if report and not report.is_proof:
        reason = f"gradcheck of {report.title} proves nothing: {'; '.join(report.warnings)}"
        warnings.warn(reason, VacuousGradcheckWarning, stacklevel=3)
    if raise_exception:
        report.raise_if_wrong()
    return bool(report)
