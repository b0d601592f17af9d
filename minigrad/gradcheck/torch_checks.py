"""What a backward in PyTorch must do apart from giving the right numbers. A row of CHECKS for each mistake."""
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .blame import told
from .problem import CANCELLED, Point, split

MANY = 8  # of more inputs, only the first are tried one by one
RELATIVE = 1e-9  # how far two ways of computing a gradient may be apart
STEP, ROUGH = 1e-5, 1e-4  # of plain differences, and how far they may be off


class Case:
    """The function and the point of a check, as PyTorch sees them: `bridge` has the function, `leaves` are what moves."""

    def __init__(self, bridge: Any, point: Point):
        self.bridge = bridge
        self.torch = bridge.library.torch
        # Code in C may crash on sizes that it does not expect.
        self.is_function = bridge.library.is_function(getattr(bridge.fn, "__self__", None))
        self.names = point.names
        self.expected = point.gradients
        self.rounding = CANCELLED * point.terms
        self.arrays = [leaf.array.copy() for leaf in point.problem.leaves.values()]
        self.upstreams = [self.tensor(part) for part in split(point.upstream, point.outputs)]

    def tensor(self, array: np.ndarray) -> Any:
        return self.torch.from_numpy(np.array(array, order="C"))

    def leaves(self, only: Sequence[int] | None = None) -> list[Any]:
        """New ones, which all require a gradient, or `only` these do."""
        return [self.tensor(array).requires_grad_(only is None or i in only) for i, array in enumerate(self.arrays)]

    def call(self, leaves: Sequence[Any], values: Sequence[Any] | None = None) -> list[Any]:
        """The outputs; `values` replace the other inputs."""
        with self.torch.enable_grad():
            return self.bridge.outputs(self.bridge.values if values is None else values, leaves)

    def backward(self, outputs: Sequence[Any], leaves: Sequence[Any], upstreams: Sequence[Any] | None = None
                 ) -> list[np.ndarray]:
        """The gradient of each leaf, zeros if none arrives. Without `upstreams`, copies of the point's."""
        upstreams = [u.clone() for u in self.upstreams] if upstreams is None else upstreams
        pairs = [(out, u) for out, u in zip(outputs, upstreams) if out.requires_grad]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        found = [None] * len(wanted)
        if pairs and wanted:
            outs, given = zip(*pairs)
            found = self.torch.autograd.grad(outs, wanted, given, retain_graph=True, allow_unused=True)
        found = iter(found)
        given = [next(found) if leaf.requires_grad else None for leaf in leaves]
        array = self.bridge.library.array
        return [np.zeros(tuple(leaf.shape)) if g is None else array(g) for leaf, g in zip(leaves, given)]

    def differs(self, got: Sequence[np.ndarray], expected: Sequence[np.ndarray] | None = None, tolerance: float = RELATIVE
                ) -> str:
        """The name of the first gradient that is not as expected, and by how much; "" if there is none."""
        for name, x, y in zip(self.names, self.expected if expected is None else expected, got):
            scale = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
            if not np.allclose(x, y, rtol=tolerance, atol=tolerance * scale + self.rounding, equal_nan=True):
                return f"{name} differs by up to {np.nanmax(np.abs(x - y)):.3g} of {scale:.3g}"
        return ""


def keeps_the_upstream(case: Case) -> str:
    leaves, given = case.leaves(), [u.clone() for u in case.upstreams]
    case.backward(case.call(leaves), leaves, given)
    changed = not all(map(case.torch.equal, given, case.upstreams))
    return "backward overwrites the upstream gradient, which other functions get too: clone it first" if changed else ""


def takes_any_layout(case: Case) -> str:
    leaves = case.leaves()
    outputs = case.call(leaves)
    for name, lay_out in LAYOUTS.items():
        laid_out = [lay_out(u.clone()) for u in case.upstreams]
        expected = case.backward(outputs, leaves, [u.clone(memory_format=case.torch.contiguous_format) for u in laid_out])
        try:
            got = case.backward(outputs, leaves, laid_out)
        except Exception as error:  # noqa: BLE001
            return f"backward raises if the upstream gradient is {name}: {told(error)}"
        if detail := case.differs(got, expected):
            return f"another gradient if the upstream gradient is {name}: {detail}; call dout.contiguous() first"
    return ""


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "expanded, as that of a sum": lambda u: u.new_tensor(0.7).expand(u.shape),
    "transposed in memory": lambda u: backwards(backwards(u).contiguous()),
    "a slice with gaps": lambda u: u.repeat_interleave(2, -1)[..., ::2] if u.ndim else u,
}


def backwards(u: Any) -> Any:
    return u.permute(list(range(u.ndim))[::-1])


def gives_each_input_alone(case: Case) -> str:
    if len(case.arrays) < 2:
        return ""
    for i, name in list(enumerate(case.names))[:MANY]:
        leaves = case.leaves(only=[i])
        try:
            got = case.backward(case.call(leaves), leaves)[i]
        except Exception as error:  # noqa: BLE001
            return f"backward raises if only {name} requires a gradient: {told(error)}; see ctx.needs_input_grad"
        if detail := case.differs([got if j == i else g for j, g in enumerate(case.expected)]):
            return f"another gradient if only {name} requires one: {detail}; see ctx.needs_input_grad"
    return ""


def gives_each_output_alone(case: Case) -> str:
    leaves = case.leaves()
    outputs = case.call(leaves)
    total = [np.zeros(array.shape) for array in case.arrays]
    for k, out in enumerate(outputs if len(outputs) > 1 else ()):
        try:
            total = [a + b for a, b in zip(total, case.backward([out], leaves, [case.upstreams[k].clone()]))]
        except Exception as error:  # noqa: BLE001
            return f"backward raises if only output {k} is used, and others' upstreams are zero or None: {told(error)}"
    detail = case.differs(total) if len(outputs) > 1 else ""
    return f"another gradient if outputs are used one by one: {detail}" if detail else ""


def keeps_calls_apart(case: Case) -> str:
    """Something saved on the class instead of ctx is that of the last call."""
    leaves = case.leaves()
    outputs = case.call(leaves)
    with case.torch.no_grad():
        others = [(leaf * 0.9).requires_grad_() for leaf in leaves]
    try:
        case.backward(case.call(others), others)
    except Exception:  # noqa: BLE001  the function may not be defined there
        return ""
    detail = case.differs(case.backward(outputs, leaves))
    return f"another gradient after a second call: {detail}; keep what backward needs in ctx" if detail else ""


def computes_the_same_without_gradients(case: Case) -> str:
    recorded = case.call(case.leaves())
    try:
        with case.torch.no_grad():
            plain = case.bridge.outputs(case.bridge.values, case.leaves(only=[]))
    except RuntimeError:  # it differentiates something itself
        return ""
    same = all(case.torch.allclose(a, b, rtol=RELATIVE, atol=1e-12, equal_nan=True) for a, b in zip(recorded, plain))
    return "" if same else "forward gives another output under no_grad"


def gives_no_none(case: Case) -> str:
    leaves = case.leaves()
    outputs = [out for out in case.call(leaves) if out.requires_grad]
    if not outputs:
        return ""
    found = case.torch.autograd.grad(outputs, leaves, list(map(case.torch.ones_like, outputs)), allow_unused=True)
    for i, (name, gradient) in enumerate(zip(case.names, found)):
        if gradient is None:
            def values(t, i=i):
                moved = case.leaves(only=[])
                moved[i] = moved[i] + t * case.tensor(np.random.default_rng(0).normal(size=case.arrays[i].shape))
                with case.torch.no_grad():
                    return case.bridge.outputs(case.bridge.values, moved)

            if not all(case.torch.allclose(a, b, equal_nan=True) for a, b in zip(values(ROUGH), values(-ROUGH))):
                return f"{name} gets None for a gradient, though the output depends on it"
    return ""


def takes_sizes_of_1_and_0(case: Case) -> str:
    """All tensors cut to this size along an axis, where the function can do without the rest. If the gradient is wrong
    without that, wrong numbers say nothing about the size."""
    if not case.is_function:
        return ""
    is_right = not case.differs(*slopes(case, case.arrays, case.bridge.values, case.upstreams, case.expected), ROUGH)
    for axis, size, arrays, values in shortened(case):
        leaves = [case.tensor(array).requires_grad_() for array in arrays]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs = case.call(leaves, values)
            if not all(case.torch.isfinite(out).all() for out in outputs):
                continue
        except Exception:  # noqa: BLE001  it may need more
            continue
        upstreams = [u.new_tensor(np.random.default_rng(0).normal(size=tuple(out.shape)))
                     for out, u in zip(outputs, case.upstreams)]
        where = f"axis {axis} has size {size}"
        try:
            got = case.backward(outputs, leaves, [u.clone() for u in upstreams])
        except Exception as error:  # noqa: BLE001
            return f"backward raises if {where}: {told(error)}"
        if size and is_right and (detail := case.differs(*slopes(case, arrays, values, upstreams, got), ROUGH)):
            return f"a wrong gradient if {where}: the slope by {detail}"
    return ""


def shortened(case: Case) -> Iterator[tuple[int, int, list[np.ndarray], list[Any]]]:
    """(axis, size, the leaves, the other inputs), with the first or last axis cut in each tensor that has its length."""
    first = case.arrays[0]
    for axis, size in ((0, 1), (0, 0), (first.ndim - 1, 1)) if first.ndim else ():
        def cut(value: Any, axis=axis, size=size) -> Any:
            if not isinstance(value, np.ndarray) or value.ndim <= axis or value.shape[axis] != first.shape[axis]:
                return value
            return value.take(range(size), axis)

        yield axis, size, [cut(array) for array in case.arrays], [cut(value) for value in case.bridge.values]


def slopes(case: Case, arrays: Sequence[np.ndarray], values: Sequence[Any], upstreams: Sequence[Any],
           got: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The slope along a random direction of each leaf, from backward and from differences; the former twice where
    differences cannot tell."""
    def value(i: int, t: float, direction: np.ndarray) -> float:
        with case.torch.no_grad():
            moved = [case.tensor(array + t * direction if j == i else array) for j, array in enumerate(arrays)]
            return sum(float((out * u).sum()) for out, u in zip(case.bridge.outputs(values, moved), upstreams))

    analytic, numeric = [], []
    for i, array in enumerate(arrays):
        direction = np.random.default_rng(i).normal(size=array.shape)
        slope = np.sum(got[i] * direction)
        near, far = ((value(i, t, direction) - value(i, -t, direction)) / (2 * t) for t in (STEP, 3 * STEP))
        is_known = abs(near - far) <= ROUGH * max(abs(near), abs(far), 1e-3)
        analytic.append(np.array([slope, 1e-3]))
        numeric.append(np.array([near if is_known else slope, 1e-3]))
    return analytic, numeric


def takes_vmap(case: Case) -> str:
    """If the function says that it can be mapped."""
    if not case.is_function:
        return ""
    batch = [case.torch.stack([leaf, leaf * 0.9]).requires_grad_() for leaf in case.leaves(only=[])]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mapped = case.torch.func.vmap(lambda *leaves: tuple(case.call(leaves)))(*batch)
    except Exception:  # noqa: BLE001  it cannot
        return ""
    try:
        got = case.backward(mapped, batch, [case.torch.stack([u, u]) for u in case.upstreams])
    except Exception as error:  # noqa: BLE001
        return f"forward runs under vmap, but backward raises: {told(error)}"
    same = all(case.torch.allclose(a[0], b, rtol=RELATIVE, atol=1e-12, equal_nan=True)
               for a, b in zip(mapped, case.call(case.leaves(only=[]))))
    detail = case.differs([g[0] for g in got])
    return "another output under vmap" if not same else f"another gradient under vmap: {detail}" if detail else ""


CHECKS: dict[str, Callable[[Case], str]] = {
    "leaves the upstream as it is": keeps_the_upstream,
    "takes an upstream of any layout": takes_any_layout,
    "each input alone may need a gradient": gives_each_input_alone,
    "outputs may go unused": gives_each_output_alone,
    "no gradient is None": gives_no_none,
    "calls are kept apart": keeps_calls_apart,
    "the same output under no_grad": computes_the_same_without_gradients,
    "sizes of 1 and 0": takes_sizes_of_1_and_0,
    "vmap": takes_vmap,
}


def checks_of(bridge: Any, point: Point) -> dict[str, Callable[[], str]]:
    case = Case(bridge, point)
    return {name: lambda look=look: look(case) for name, look in CHECKS.items()}
