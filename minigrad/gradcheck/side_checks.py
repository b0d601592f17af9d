"""What a right backward does besides giving the right numbers: it is linear, repeatable, and changes nothing."""
from typing import Callable, Iterator, Sequence

import numpy as np

from .. import tape
from ..tape import Node, Op
from ..tensor import Tensor
from .problem import Problem, roots
from .report import SideCheck

RELATIVE = 1e-9  # rounding may differ between two ways to the same gradient
CANCELLED = 1e-12  # what may remain of terms that cancel; upstream gradients are about 1


def side_checks(
    problem: Problem, outputs: Sequence[Tensor], upstream: np.ndarray, generator: np.random.Generator,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True,
) -> list[SideCheck]:
    """All of them, at the point where the leaves are."""
    leaves = list(problem.leaves.values())
    inputs_before = [leaf.array.copy() for leaf in leaves]
    values = problem.values()

    def gradient(u: np.ndarray) -> list[np.ndarray]:
        found = problem.gradients(outputs, u)
        return [np.zeros(leaf.shape) if g is None else np.array(g) for leaf, g in zip(leaves, found)]

    first = gradient(upstream)
    other = generator.standard_normal(upstream.shape)
    checks = {
        "forward twice gives the same": lambda: same_values(values, problem.values()),
        "backward twice gives the same": lambda: same(first, gradient(upstream), nondet_tol),
        "zero upstream gives exact zeros": lambda: all_zero(gradient(np.zeros_like(upstream))),
        "linear in the upstream": lambda: linear(gradient, first, upstream, other),
        "any layout of the upstream": lambda: close(first, gradient(strided(upstream))),
        "each op keeps the contract": lambda: contract(outputs, upstream),
        "float64 throughout": lambda: full_precision(first),
        "inputs are left as they were": lambda: same(inputs_before, [leaf.array for leaf in leaves]),
    }
    if check_undefined_grad and len(outputs) > 1:
        checks["outputs one by one"] = lambda: one_by_one(gradient, first, outputs, upstream)
    return [SideCheck(name, not detail, detail) for name, detail in ((name, run()) for name, run in checks.items())]


def same(a: list[np.ndarray], b: list[np.ndarray], tolerance: float = 0.0) -> str:
    """A sentence on the difference; "" if there is none. So all of these checks answer."""
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if not np.allclose(x, y, rtol=0.0, atol=tolerance, equal_nan=True):
            return f"input {i}: they differ by up to {np.max(np.abs(x - y)):.3g}"
    return ""


def same_values(a: np.ndarray, b: np.ndarray) -> str:
    if not same([a], [b]):
        return ""
    return ("the function is not deterministic, so it has no derivative to check; draw random numbers from "
            "minigrad.random only (gradcheck holds that still)")


def close(expected: list[np.ndarray], got: list[np.ndarray]) -> str:
    for i, (x, y) in enumerate(zip(expected, got, strict=True)):
        scale = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
        if not np.allclose(x, y, rtol=RELATIVE, atol=RELATIVE * scale + CANCELLED, equal_nan=True):
            return f"input {i}: they differ by up to {np.nanmax(np.abs(x - y)):.3g} of {scale:.3g}"
    return ""


def all_zero(gradients: list[np.ndarray]) -> str:
    for i, gradient in enumerate(gradients):
        if np.any(gradient != 0):
            return f"input {i}: up to {np.max(np.abs(gradient)):.3g} comes out where nothing went in"
    return ""


def linear(gradient: Callable, first: list[np.ndarray], upstream: np.ndarray, other: np.ndarray) -> str:
    """backward(c u) = c backward(u) for a large and a small c, and backward(u + w) = backward(u) + backward(w)."""
    for factor in (2.0**12, 2.0**-20):
        detail = close(first, [g / factor for g in gradient(factor * upstream)])
        if detail:
            return f"backward({factor:g} u) is not {factor:g} backward(u); {detail}"
    parts = [a + b for a, b in zip(first, gradient(other))]
    detail = close(parts, gradient(upstream + other))
    return f"backward(u + w) is not backward(u) + backward(w); {detail}" if detail else ""


def strided(vector: np.ndarray) -> np.ndarray:
    """The same numbers, every second place in memory, from the end."""
    return np.repeat(vector[::-1], 2)[::-2]


def full_precision(gradients: list[np.ndarray]) -> str:
    """Random float64 numbers, all of which float32 can hold exactly, have been through float32."""
    for i, gradient in enumerate(gradients):
        nonzero = gradient[gradient != 0]
        if nonzero.size and np.all(nonzero == nonzero.astype(np.float32)):
            return f"input {i}: the gradient has been rounded to float32"
    return ""


def one_by_one(gradient: Callable, together: list[np.ndarray], outputs: Sequence[Tensor], upstream: np.ndarray) -> str:
    total = [np.zeros_like(g) for g in together]
    start = 0
    for out in outputs:
        part = np.zeros_like(upstream)
        part[start:start + out.numel()] = upstream[start:start + out.numel()]
        start += out.numel()
        total = [a + b for a, b in zip(total, gradient(part))]
    return close(together, total)


def contract(outputs: Sequence[Tensor], upstream: np.ndarray) -> str:
    """Each op on the way: its backward changes no array, hands out none that it keeps, and has the right dtype."""
    ops = [node for node in nodes_below(outputs) if isinstance(node, Op)]
    for op, dout in zip(ops, tape.gradients(roots(outputs, upstream), ops, True)):
        detail = "" if dout is None else op_contract(op, np.array(dout))
        if detail:
            return f"{op.title}.backward {detail}"
    return ""


def op_contract(op: Op, dout: np.ndarray) -> str:
    saved = [array for array in op.saved if isinstance(array, np.ndarray)]
    before = [array.copy() for array in [dout] + saved]
    shares = op.input_gradients(dout)
    if not np.array_equal(dout, before[0], equal_nan=True):
        return "changes the upstream gradient that it is given"
    if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(saved, before[1:])):
        return "changes an array that forward saved"
    given = [(parent, g) for parent, g in zip(op.parents, shares) if parent is not None and g is not None]
    for i, (parent, gradient) in enumerate(given):
        if gradient.dtype != parent.dtype == dout.dtype:
            return f"gives a gradient of {gradient.dtype} for an input of {parent.dtype}"
        if any(np.shares_memory(gradient, array) for array in saved):
            return "hands out an array that forward saved: whoever adds to it changes the next backward"
        others = [dout] + [g for _, g in given[:i]]
        if op.fresh_gradients and any(np.shares_memory(gradient, array) for array in others):
            return "promises fresh gradients, but one shares memory with the upstream or another gradient"
    return ""


def nodes_below(outputs: Sequence[Tensor]) -> Iterator[Node]:
    """All nodes of a graph, each once."""
    waiting = [out.node for out in outputs if out.node is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for parent in node.parents if isinstance(node, Op) else ():
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)
