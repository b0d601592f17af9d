"""What a rule for derivatives in JAX must do apart from giving the right numbers. A row of CHECKS for each mistake.

A check returns what is wrong, "" if nothing is, and None where it does not apply or cannot run.
"""
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .blame import told
from .problem import CANCELLED, Point, split
from .side_checks import RELATIVE, difference
from .sizes import shortened, wrong_slopes

MANY = 8  # of more inputs, only the first are tried one by one
ELSEWHERE = 0.9  # times the inputs: other inputs, at which most functions are defined, too


def compiled_quickly(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """By jit, without XLA's optimizations, which halves the time."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


class Case:
    """The function and the point of a check, as JAX sees them: `function(leaves)` returns a list of arrays."""

    def __init__(self, bridge: Any, point: Point):
        self.bridge = bridge
        self.jax: Any = bridge.library.jax
        self.is_rule: bool = isinstance(bridge.fn, (self.jax.custom_vjp, self.jax.custom_jvp))
        self.names: list[str] = point.names
        self.expected: list[np.ndarray] = point.gradients
        self.rounding: float = CANCELLED * point.terms
        self.arrays: list[np.ndarray] = [leaf.array.copy() for leaf in point.problem.leaves.values()]
        self.leaves: list[Any] = [bridge.library.tensor(array, like) for array, like in zip(self.arrays, bridge.likes)]
        self.others: list[Any] = [leaf * ELSEWHERE for leaf in self.leaves]
        self.upstreams: list[Any] = list(map(self.jax.numpy.asarray, split(point.upstream, point.outputs)))
        self.outputs: list[Any] = self.function(self.leaves)

    def function(self, leaves: Sequence[Any]) -> list[Any]:
        return self.bridge.outputs(self.bridge.values, leaves)

    def gradients(self, leaves: Sequence[Any], upstreams: Sequence[Any],
                  function: Callable[..., Any] | None = None) -> list[Any]:
        return self.jax.vjp(function or self.function, leaves)[1](upstreams)[0]

    def differs(self, got: Sequence[Any], expected: Sequence[Any] | None = None) -> str:
        """The name of the first gradient that is not as expected, and by how much; "" if there is none."""
        return difference(self.names, self.expected if expected is None else expected, got, self.rounding)

    def outputs_differ(self, got: Sequence[Any], expected: Sequence[Any] | None = None) -> str:
        names = [f"output {k}" if len(self.outputs) > 1 else "it" for k in range(len(self.outputs))]
        return difference(names, self.outputs if expected is None else expected, got, 1e-12)

    def stacked(self, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        return list(map(self.jax.numpy.stack, zip(first, second)))

    @functools.cached_property
    def is_traceable(self) -> bool:
        try:
            self.jax.make_jaxpr(self.function)(self.leaves)
        except Exception:  # noqa: BLE001
            return False
        return True

    def value(self, function: Callable[..., Any], upstreams: Sequence[Any], arrays: Sequence[np.ndarray]) -> float:
        """sum(outputs * upstreams)"""
        return sum(np.sum(np.asarray(out) * np.asarray(u)) for out, u in zip(function(arrays), upstreams))

    @functools.cached_property
    def wrong_at_full_size(self) -> set[int]:
        value = functools.partial(self.value, self.compiled(self.function), self.upstreams)
        return wrong_slopes(value, self.arrays, self.expected)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """If the function runs under jit: compiling once takes less time than compiling each operation."""
        return compiled_quickly(self.jax, function) if self.is_traceable else function


def has_one_output(case: Case) -> str:
    found, _ = case.jax.vjp(case.function, case.leaves)
    detail = case.outputs_differ(found)
    return f"under jax.grad and jax.vjp, the rule computes another output than the function: {detail}" if detail else ""


def runs_under_jit(case: Case) -> str | None:
    """If the function does. Traced once and called elsewhere, it must not know the inputs that it was traced with."""
    if not case.is_traceable:
        return None
    forward, backward = case.compiled(case.function), case.compiled(case.gradients)
    if detail := case.outputs_differ(forward(case.leaves)) or case.outputs_differ(
            forward(case.others), case.function(case.others)):
        return f"another output under jit: {detail}"
    try:
        got = backward(case.leaves, case.upstreams)
    except Exception as error:  # noqa: BLE001
        return f"it runs under jit, but its gradient raises: {told(error)}"
    detail = case.differs(got) or case.differs(
        backward(case.others, case.upstreams), case.gradients(case.others, case.upstreams))
    return f"another gradient under jit: {detail}" if detail else ""


def runs_under_vmap(case: Case) -> str | None:
    """If the function does."""
    batch = case.stacked(case.leaves, case.others)
    try:
        mapped = case.compiled(case.jax.vmap(case.function))(batch)
    except Exception:  # noqa: BLE001  it cannot
        return None
    if detail := case.outputs_differ(mapped, case.stacked(case.outputs, case.function(case.others))):
        return f"another output under vmap: {detail}"
    try:
        got = case.compiled(case.jax.vmap(case.gradients))(batch, case.stacked(case.upstreams, case.upstreams))
    except Exception as error:  # noqa: BLE001
        return f"it runs under vmap, but its gradient raises: {told(error)}"
    detail = case.differs(got, case.stacked(case.expected, case.gradients(case.others, case.upstreams)))
    return f"another gradient under vmap: {detail}" if detail else ""


def keeps_calls_apart(case: Case) -> str:
    _, pullback = case.jax.vjp(case.function, case.leaves)
    case.gradients(case.others, case.upstreams)
    detail = case.differs(pullback(case.upstreams)[0])
    return f"another gradient after a second call: {detail}; return what backward needs as residuals" if detail else ""


def differentiates_each_input_alone(case: Case) -> str | None:
    if len(case.names) == 1:
        return None
    for i, name in list(enumerate(case.names))[:MANY]:
        def of_one(leaf, i=i):
            return case.function([leaf if j == i else other for j, other in enumerate(case.leaves)])

        try:
            got = case.jax.vjp(of_one, case.leaves[i])[1](case.upstreams)[0]
        except Exception as error:  # noqa: BLE001
            return f"it raises if only {name} is differentiated: {told(error)}"
        if detail := case.differs([got if j == i else g for j, g in enumerate(case.expected)]):
            return f"another gradient if only {name} is differentiated: {detail}"
    return ""


def differentiates_each_output_alone(case: Case) -> str | None:
    """The upstreams of the others are symbolic zeros then."""
    if len(case.outputs) == 1:
        return None
    total = [np.zeros(array.shape) for array in case.arrays]
    for k, upstream in enumerate(case.upstreams):
        try:
            (got,) = case.jax.vjp(lambda leaves, k=k: case.function(leaves)[k], case.leaves)[1](upstream)
        except Exception as error:  # noqa: BLE001
            return f"it raises if only output {k} is used: {told(error)}"
        total = [a + b for a, b in zip(total, got)]
    detail = case.differs(total)
    return f"another gradient if outputs are used one by one: {detail}" if detail else ""


def agrees_in_forward_mode(case: Case) -> str | None:
    """If the function has it, which a custom_vjp has not."""
    tangents = [np.random.default_rng(i).normal(size=x.shape) for i, x in enumerate(case.arrays)]

    slopes = case.compiled(lambda tangents: case.jax.jvp(case.function, (case.leaves,), (tangents,))[1])
    try:
        found, zeros = slopes(tangents), slopes([0 * t for t in tangents])
    except Exception:  # noqa: BLE001  it has none
        return None
    if any(np.any(np.asarray(zero)[np.isfinite(slope)] != 0) for zero, slope in zip(zeros, found)):
        return "the tangent of the output is not 0 where those of the inputs are: a rule must be linear in the tangents"
    terms = [g * t for g, t in zip(case.expected, tangents)]
    slope = sum(np.sum(np.asarray(u) * np.asarray(s)) for u, s in zip(case.upstreams, found))
    detail = difference(["the slope"], [sum(map(np.sum, terms))], [slope],
                        case.rounding + RELATIVE * sum(np.sum(np.abs(term)) for term in terms))
    return f"jax.jvp is not the transpose of jax.vjp: {detail}" if detail else ""


def takes_sizes_of_1_and_0(case: Case) -> str | None:
    """Of gradients that are right at full size."""
    found = None
    for n, size, where, arrays, values in shortened(case.names, case.arrays, case.bridge.values) if case.is_rule else ():
        plain = functools.partial(case.bridge.outputs, values)
        function = case.compiled(plain)
        try:
            outputs = function(arrays)
            if not all(n not in out.shape and np.all(np.isfinite(out)) for out in outputs):
                continue
        except Exception:  # noqa: BLE001  it may need more
            continue
        upstreams = [np.random.default_rng(0).normal(size=out.shape) for out in outputs]
        try:
            got = case.compiled(functools.partial(case.gradients, function=plain))(arrays, upstreams)
        except Exception as error:  # noqa: BLE001
            return f"its gradient raises if {where}: {told(error)}"
        found = ""
        if not size:
            continue
        wrong = wrong_slopes(functools.partial(case.value, function, upstreams), arrays, got)
        if wrong and (new := sorted(wrong - case.wrong_at_full_size)):
            return f"a wrong gradient if {where}: {'; '.join(f'the slope by {case.names[i]} differs' for i in new)}"
    return found


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "the rule's output is the function's": has_one_output,
    "jit": runs_under_jit,
    "vmap": runs_under_vmap,
    "calls are kept apart": keeps_calls_apart,
    "each input alone may be differentiated": differentiates_each_input_alone,
    "outputs may go unused": differentiates_each_output_alone,
    "forward mode": agrees_in_forward_mode,
    "sizes of 1 and 0": takes_sizes_of_1_and_0,
}


def checks_of(bridge: Any, point: Point) -> dict[str, Callable[[], str | None]]:
    case = Case(bridge, point)
    return {name: functools.partial(look, case) for name, look in CHECKS.items()}
