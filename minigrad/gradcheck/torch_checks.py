"""What a backward in PyTorch must do apart from giving the right numbers. A row of CHECKS for each mistake.

A check returns what is wrong, "" if nothing is, and None where it does not apply or cannot run.
"""
import contextlib
import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .blame import told
from .contract import RELATIVE, Remark

MANY = 8  # of more inputs, only the first are tried one by one
STEP, ROUGH = 1e-5, 1e-4  # of plain differences, and how far they may be off
WIDER, OTHER = 3, 0.3  # how many other numbers lie between an array's rows, and their value
WRAPPERS = "torch._dynamo", "torch._functorch", "torch._higher_order_ops", "torch.utils"  # around users' functions


class Case:
    """The function and the point of a check, as PyTorch sees them: `subject` has the function, `leaves` are what moves."""

    def __init__(self, record: Any):
        self.subject = record.subject
        self.torch: Any = record.library.torch
        self.names: list[str] = record.names
        self.expected: list[np.ndarray] = record.gradients
        self.device: Any = self.subject.likes[0].device
        self.arrays: list[np.ndarray] = [array.copy() for array in self.subject.leaves.values()]
        self.upstreams: list[Any] = list(map(self.tensor, record.parts(record.upstream)))
        self.record = record

    def tensor(self, array: np.ndarray) -> Any:
        return self.torch.from_numpy(np.array(array, order="C")).to(self.device)

    def leaves(self, only: Sequence[int] | None = None) -> list[Any]:
        """New ones, which all require a gradient, or `only` these do."""
        return [self.tensor(array).requires_grad_(only is None or i in only) for i, array in enumerate(self.arrays)]

    def call(self, leaves: Sequence[Any], items: Sequence[Any] | None = None, seed: int | None = None) -> list[Any]:
        """The outputs; `items` replace the other inputs, and a `seed` the random numbers."""
        with self.torch.enable_grad():
            return self.subject.call(leaves, items, seed)

    def gradients(self, outputs: Sequence[Any], leaves: Sequence[Any], upstreams: Sequence[Any] | None = None) -> list[Any]:
        """As they arrive at the leaves: None, or tensors that may lie in memory which the function uses again. Without
        `upstreams`, for copies of the point's."""
        upstreams = [u.clone() for u in self.upstreams] if upstreams is None else upstreams
        return self.subject.library.pulled(outputs, leaves, upstreams, retain_graph=True)

    def backward(self, outputs: Sequence[Any], leaves: Sequence[Any], upstreams: Sequence[Any] | None = None
                 ) -> list[np.ndarray]:
        """The gradients as arrays, zeros where none arrives."""
        return list(map(self.numbers, leaves, self.gradients(outputs, leaves, upstreams)))

    def numbers(self, leaf: Any, gradient: Any) -> np.ndarray:
        return np.zeros(tuple(leaf.shape)) if gradient is None else self.subject.library.array(gradient)

    def fresh(self, upstreams: Sequence[Any] | None = None) -> list[np.ndarray]:
        """The gradients from a call of its own: no backward has run before that may have written to what it kept."""
        leaves = self.leaves()
        return self.backward(self.call(leaves), leaves, upstreams)

    def nearly_equal(self, a: Any, b: Any) -> bool:
        return a.shape == b.shape and self.torch.allclose(a, b, rtol=RELATIVE, atol=1e-12, equal_nan=True)

    def value(self, values: Sequence[Any], upstreams: Sequence[Any], arrays: Sequence[np.ndarray]) -> float:
        """sum(outputs * upstreams)"""
        with self.torch.no_grad():
            outputs = self.subject.call(list(map(self.tensor, arrays)), values)
            return sum(float((out * u).sum()) for out, u in zip(outputs, upstreams))

    @functools.cached_property
    def wrong_at_full_size(self) -> set[int]:
        return wrong_slopes(functools.partial(self.value, self.subject.items, self.upstreams), self.arrays, self.expected)

    @functools.cached_property
    def is_random(self) -> bool:
        """Does the function draw random numbers? Then they are others where memory is laid out otherwise."""
        self.call(self.leaves())
        after = self.torch.get_rng_state()
        self.subject.state.restore()
        return not self.torch.equal(after, self.torch.get_rng_state())

    @functools.cached_property
    def has_function(self) -> bool:
        """Is a torch.autograd.Function of the user's among what computes the outputs?"""
        nodes = nodes_below(self.call(self.leaves()))
        return any(isinstance(node, self.torch.autograd.function.BackwardCFunction)
                   and not node._forward_cls.__module__.startswith(WRAPPERS) for node in nodes)


def nodes_below(outputs: Sequence[Any]) -> Iterator[Any]:
    """Of PyTorch's graph."""
    waiting, seen = [out.grad_fn for out in outputs], {None}
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            waiting += [below for below, _ in node.next_functions]


def unchecked(torch: Any, fn: Callable[..., Any], outputs: Sequence[Any], leaves: Sequence[Any]) -> str:
    """A sentence on tensors that get a gradient from the outputs and are no inputs, as what a lambda closes over."""
    try:
        variables = inspect.getclosurevars(fn)
        scope: dict[str, Any] = {**variables.globals, **variables.nonlocals, "self": getattr(fn, "__self__", None)}
    except (TypeError, ValueError):  # not written in Python
        scope = {}
    scope |= {f"{name}.{own}": x for name, value in scope.items() if isinstance(value, torch.nn.Module)
              for own, x in value.named_parameters()}
    named = {id(value): name for name, value in scope.items()}
    reached = {id(node.variable): node.variable for node in nodes_below(outputs) if hasattr(node, "variable")}
    for leaf in leaves:
        for own in (leaf, getattr(leaf, "owner", leaf)):  # whichever the module has used
            reached.pop(id(own), None)
    names = sorted(named.get(key, f"a tensor of shape {tuple(x.shape)}") for key, x in reached.items())
    if not names:
        return ""
    names = names if len(names) <= MANY else [*names[:MANY], f"{len(names) - MANY} more"]
    are = "require gradients but are not inputs" if len(names) > 1 else "requires a gradient but is not an input"
    return f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))} {are}: unchecked"


def keeps_the_upstream(case: Case) -> str:
    leaves, given = case.leaves(), [u.clone() for u in case.upstreams]
    case.backward(case.call(leaves), leaves, given)
    changed = not all(map(case.torch.equal, given, case.upstreams))
    return "backward overwrites the upstream gradient, which other functions get too: clone it first" if changed else ""


def takes_any_layout(case: Case) -> str:
    for name, lay_out in OF_UPSTREAMS.items():
        laid_out = [lay_out(u.clone()) for u in case.upstreams]
        expected = case.fresh([u.clone(memory_format=case.torch.contiguous_format) for u in laid_out])
        try:
            got = case.fresh(laid_out)
        except Exception as error:  # noqa: BLE001
            return f"backward raises if the upstream gradient is {name}: {told(error)}"
        if detail := case.record.differs(got, expected):
            return f"another gradient if the upstream gradient is {name}: {detail}; call dout.contiguous() first"
    return ""


def backwards(u: Any) -> Any:
    return u.permute(list(range(u.ndim))[::-1])


def first_row(x: Any) -> Any:
    return x[:1].expand(x.shape) if x.ndim else x


def part_of_wider(x: Any) -> Any:
    """With other numbers between its rows."""
    if not x.ndim:
        return x
    return x.new_full((*x.shape[:-1], x.shape[-1] + WIDER), OTHER)[..., :-WIDER].copy_(x)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed in memory": lambda x: backwards(backwards(x).contiguous()),
    "a slice with gaps": lambda x: x.repeat_interleave(2, -1)[..., ::2] if x.ndim else x,
}
OF_UPSTREAMS: dict[str, Callable[[Any], Any]] = {
    "expanded, as that of a sum": lambda x: x.new_tensor(0.7).expand(x.shape), **LAYOUTS,
    "its first row, expanded, as under sum(0)": first_row, "part of a wider array, as under cat": part_of_wider,
}
OF_INPUTS: dict[str, Callable[[Any], Any]] = {
    **LAYOUTS, "its first row, expanded": first_row, "part of a wider array": part_of_wider,
}


def takes_inputs_of_any_layout(case: Case) -> str | None:
    """A forward that raises says that it cannot."""
    found = None
    for name, lay_out in OF_INPUTS.items() if case.has_function and not case.is_random else ():
        leaves = [lay_out(leaf).requires_grad_() for leaf in case.leaves(only=[])]
        plain = [leaf.detach().clone(memory_format=case.torch.contiguous_format).requires_grad_() for leaf in leaves]
        try:
            expected = case.call(plain)
            right, outputs = case.backward(expected, plain), case.call(leaves)
        except Exception:  # noqa: BLE001
            continue
        if not all(map(case.nearly_equal, outputs, expected)):
            return f"another output if each input is {name}; call contiguous() first"
        try:
            got = case.backward(outputs, leaves)
        except Exception as error:  # noqa: BLE001
            return f"backward raises if each input is {name}: {told(error)}"
        if detail := case.record.differs(got, right):
            return f"another gradient if each input is {name}: {detail}; call contiguous() first"
        found = ""
    return found


def gives_each_input_alone(case: Case) -> str | None:
    if len(case.arrays) < 2:
        return None
    for i, name in list(enumerate(case.names))[:MANY]:
        leaves = case.leaves(only=[i])
        try:
            (got,) = case.backward(case.call(leaves), [leaves[i]])
        except Exception as error:  # noqa: BLE001
            return Remark(f"backward raises if only {name} requires a gradient: {told(error)}; see ctx.needs_input_grad")
        if detail := case.record.differs([got if j == i else g for j, g in enumerate(case.expected)]):
            if name in case.subject.parameters and not np.any(got):  # of a module that runs a part of itself again
                return Remark(f"{name} gets no gradient if no input requires one")
            return f"another gradient if only {name} requires one: {detail}; see ctx.needs_input_grad"
    return ""


def gives_each_output_alone(case: Case) -> str | None:
    total = [np.zeros(array.shape) for array in case.arrays]
    if len(case.upstreams) == 1:
        return None
    for k, upstream in enumerate(case.upstreams):
        leaves = case.leaves()
        out = case.call(leaves)[k]
        try:
            total = [a + b for a, b in zip(total, case.backward([out], leaves, [upstream.clone()]))]
        except Exception as error:  # noqa: BLE001
            return Remark(f"backward raises if only output {k} is used, and others' upstreams are zero or None: "
                          f"{told(error)}")
    detail = case.record.differs(total)
    return f"another gradient if outputs are used one by one: {detail}" if detail else ""


def keeps_calls_apart(case: Case) -> str | None:
    """Something saved on the class instead of ctx is that of the last call, and so is memory that is used again."""
    leaves, others = case.leaves(), case.leaves()
    with case.torch.no_grad():
        for other in others[len(case.subject.parameters):]:  # a module's own stay
            other.mul_(0.9)
    outputs = case.call(leaves)
    before = [out.detach().clone() for out in outputs]
    try:
        of_others = case.call(others, seed=1)
        case.backward(of_others, others)
    except Exception:  # noqa: BLE001  the function may not be defined there
        return None
    for k, (out, values) in enumerate(zip(outputs, before)):
        if not case.nearly_equal(out, values):
            return f"a second call overwrites the first one's output {k}: return new memory"
    try:
        found = case.gradients(outputs, leaves)
    except Exception as error:  # noqa: BLE001
        return f"backward raises after a second call: {told(error)}; keep what backward needs in ctx"
    if detail := case.record.differs(list(map(case.numbers, leaves, found))):
        return f"another gradient after a second call: {detail}; keep what backward needs in ctx"
    gradients = [g.to_dense() for g in found if g is not None]
    before = [g.clone() for g in gradients]
    for again in (lambda: case.gradients(outputs, leaves, [-u for u in case.upstreams]), lambda: case.fresh(
            [-u for u in case.upstreams])):
        with contextlib.suppress(Exception):  # a second backward may be refused
            again()
    are_kept = all(map(case.nearly_equal, gradients, before))
    return "" if are_kept else "a second backward overwrites the first one's gradients: return new memory"


def gives_no_none(case: Case) -> str | None:
    leaves = case.leaves()
    outputs = case.call(leaves)
    if not any(out.requires_grad for out in outputs):
        return None
    for i, (name, gradient) in enumerate(zip(case.names, case.gradients(outputs, leaves))):
        if gradient is None and i in case.wrong_at_full_size:
            return f"{name} gets None for a gradient, though the output depends on it"
    return ""


def shortened(case: Case) -> Iterator[tuple[int, str, list[np.ndarray], list[Any]]]:
    """All axes of a length in turn cut to 1 and to 0; to 0 only if no last axis, which has features, has this length.

    (The length, a sentence, the inputs that move, the other values)
    """
    axes: dict[int, str] = {}
    for name, array in zip(case.names, case.arrays):
        for axis, n in enumerate(array.shape):
            axes.setdefault(n, f"axis {axis} of {name}")
    features = {array.shape[-1] for array in case.arrays if array.ndim > 1}
    for n, size in itertools.product(axes, (1, 0)):
        if n > size and (size or n not in features):
            values = [cut(value, n, size) if isinstance(value, np.ndarray) else value for value in case.subject.items]
            yield n, f"{axes[n]} has size {size}", [cut(array, n, size) for array in case.arrays], values


def cut(value: np.ndarray, n: int, size: int) -> np.ndarray:
    return value[tuple(slice(size if length == n else None) for length in value.shape)]


def wrong_slopes(value: Callable[[list[np.ndarray]], float], arrays: Sequence[np.ndarray], gradients: Sequence[Any]
                 ) -> set[int]:
    """The arrays along which value(arrays) has another slope than its gradients say, each in a random direction."""
    directions = [np.random.default_rng(i).normal(size=array.shape) for i, array in enumerate(arrays)]

    def is_wrong(moving: Sequence[int]) -> bool:
        def moved(t: float) -> list[np.ndarray]:
            return [array + t * directions[i] if i in moving else array for i, array in enumerate(arrays)]

        near, far = ((value(moved(t)) - value(moved(-t))) / (2 * t) for t in (STEP, 3 * STEP))
        is_known = abs(near - far) <= ROUGH * max(abs(near), abs(far), 1e-3)
        expected = sum(np.sum(np.asarray(gradients[i]) * directions[i]) for i in moving)
        return is_known and abs(near - expected) > ROUGH * max(abs(near), 1e-3)

    everything = range(len(arrays))
    return {i for i in everything if is_wrong([i])} if is_wrong(everything) else set()


def takes_sizes_of_1_and_0(case: Case) -> str | None:
    if not case.has_function or case.record.precision:  # plain differences would show its rounding
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [wrong_at_size(case, *shorter) for shorter in shortened(case)]
    ran = [detail for detail in found if detail is not None]
    return max(ran, key=lambda detail: (bool(detail), not isinstance(detail, Remark)), default=None)


def wrong_at_size(case: Case, n: int, where: str, arrays: Sequence[np.ndarray], values: Sequence[Any]) -> str | None:
    """Of gradients that are right at full size. The function must do with these sizes, and not broadcast them back."""
    leaves = [case.tensor(array).requires_grad_() for array in arrays]
    try:
        outputs = case.call(leaves, values)
    except Exception:  # noqa: BLE001  it may need more
        return None
    if not all(n not in out.shape and case.torch.isfinite(out).all() for out in outputs):
        return None
    upstreams = [u.new_tensor(np.random.default_rng(0).normal(size=tuple(out.shape)))
                 for out, u in zip(outputs, case.upstreams)]
    try:
        got = case.backward(outputs, leaves, [u.clone() for u in upstreams])
    except Exception as error:  # noqa: BLE001
        return Remark(f"backward raises if {where}: {told(error)}")
    wrong = wrong_slopes(functools.partial(case.value, values, upstreams), arrays, got)
    names = [case.names[i] for i in sorted(wrong and wrong - case.wrong_at_full_size)]
    return f"a wrong gradient if {where}: {'; '.join(f'the slope by {name} differs' for name in names)}" if names else ""


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "leaves the upstream as it is": keeps_the_upstream,
    "takes an upstream of any layout": takes_any_layout,
    "each input alone may need a gradient": gives_each_input_alone,
    "outputs may go unused": gives_each_output_alone,
    "no gradient is None": gives_no_none,
    "calls are kept apart": keeps_calls_apart,
    # If a torch.autograd.Function is called: PyTorch's own get these right, or crash on a size that they do not expect.
    "takes inputs of any layout": takes_inputs_of_any_layout,
    "sizes of 1 and 0": takes_sizes_of_1_and_0,
}
