"""What a backward in PyTorch must do apart from giving the right numbers. A row of CHECKS for each mistake.

A check returns what is wrong, "" if nothing is, and None where it does not apply or cannot run.
"""
import functools
import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .blame import told
from .problem import CANCELLED, Point, generator_for, split
from .side_checks import RELATIVE, difference
from .sizes import ROUGH, Shorter, shortened, wrong_slopes

MANY = 8  # of more inputs, only the first are tried one by one
PAIRS = 3  # as many are tried of two inputs that may be one tensor
WIDER, OTHER = 3, 0.3  # how many other numbers lie between an array's rows, and their value


WRAPPERS = "torch._dynamo", "torch._functorch", "torch._higher_order_ops", "torch.utils"  # around users' functions


class Case:
    """The function and the point of a check, as PyTorch sees them: `bridge` has the function, `leaves` are what moves."""

    def __init__(self, bridge: Any, point: Point):
        self.bridge = bridge
        self.point = point
        self.torch: Any = bridge.library.torch
        self.names: list[str] = point.names
        self.expected: list[np.ndarray] = point.gradients
        self.device: Any = bridge.likes[0].device
        self.arrays: list[np.ndarray] = [leaf.array.copy() for leaf in point.problem.leaves.values()]
        self.upstreams: list[Any] = [self.tensor(part) for part in split(point.upstream, point.outputs)]

    @functools.cached_property
    def rounding(self) -> float:
        return CANCELLED * self.point.terms

    def tensor(self, array: np.ndarray) -> Any:
        return self.torch.from_numpy(np.array(array, order="C")).to(self.device)

    def leaves(self, only: Sequence[int] | None = None) -> list[Any]:
        """New ones, which all require a gradient, or `only` these do."""
        return [self.tensor(array).requires_grad_(only is None or i in only) for i, array in enumerate(self.arrays)]

    def call(self, leaves: Sequence[Any], values: Sequence[Any] | None = None, seed: int | None = None) -> list[Any]:
        """The outputs; `values` replace the other inputs, and a `seed` the random numbers."""
        with self.torch.enable_grad():
            return self.bridge.outputs(self.bridge.values if values is None else values, leaves, seed)

    def gradients(self, outputs: Sequence[Any], leaves: Sequence[Any], upstreams: Sequence[Any] | None = None,
                  create_graph: bool = False) -> list[Any]:
        """As they arrive at the leaves: None, or tensors that may lie in memory which the function uses again. Without
        `upstreams`, for copies of the point's."""
        upstreams = [u.clone().requires_grad_(create_graph) for u in self.upstreams] if upstreams is None else upstreams
        pairs = [(out, u) for out, u in zip(outputs, upstreams) if out.requires_grad]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        found = iter([None] * len(wanted))
        if pairs and wanted:
            outs, given = zip(*pairs)
            found = iter(self.torch.autograd.grad(outs, wanted, given, True, create_graph, allow_unused=True))
        return [next(found) if leaf.requires_grad else None for leaf in leaves]

    def backward(self, outputs: Sequence[Any], leaves: Sequence[Any], upstreams: Sequence[Any] | None = None
                 ) -> list[np.ndarray]:
        """The gradients as arrays, zeros where none arrives."""
        return [np.zeros(tuple(leaf.shape)) if g is None else self.bridge.library.array(g)
                for leaf, g in zip(leaves, self.gradients(outputs, leaves, upstreams))]

    @functools.cached_property
    def outputs(self) -> list[Any]:
        """Those of a call whose graph stays as it is."""
        return self.call(self.leaves())

    def nearly_equal(self, a: Any, b: Any) -> bool:
        return a.shape == b.shape and self.torch.allclose(a, b, rtol=RELATIVE, atol=1e-12, equal_nan=True)

    def gives(self, outputs: Sequence[Any]) -> bool:
        """Are these the outputs?"""
        return all(map(self.nearly_equal, outputs, self.outputs))

    def value(self, values: Sequence[Any], upstreams: Sequence[Any], arrays: Sequence[np.ndarray]) -> float:
        """sum(outputs * upstreams)"""
        with self.torch.no_grad():
            outputs = self.bridge.outputs(values, list(map(self.tensor, arrays)))
            return sum(float((out * u).sum()) for out, u in zip(outputs, upstreams))

    @functools.cached_property
    def wrong_at_full_size(self) -> set[int]:
        return wrong_slopes(functools.partial(self.value, self.bridge.values, self.upstreams), self.arrays, self.expected)

    @functools.cached_property
    def is_random(self) -> bool:
        """Does the function draw random numbers? Then they are others where memory is laid out otherwise."""
        self.call(self.leaves())
        after = self.torch.get_rng_state()
        self.bridge.state.restore()
        return not self.torch.equal(after, self.torch.get_rng_state())

    @functools.cached_property
    def has_function(self) -> bool:
        """Is a torch.autograd.Function of the user's among what computes the outputs?"""
        return any(isinstance(node, self.torch.autograd.function.BackwardCFunction)
                   and not node._forward_cls.__module__.startswith(WRAPPERS) for node in nodes_below(self.outputs))

    def differs(self, got: Sequence[np.ndarray], expected: Sequence[np.ndarray] | None = None) -> str:
        """The name of the first gradient that is not as expected, and by how much; "" if there is none."""
        return difference(self.names, self.expected if expected is None else expected, got, self.rounding)


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
        reached.pop(id(leaf), None)
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


def leaves_grad_alone(case: Case) -> str:
    leaves = case.leaves()
    case.backward(case.call(leaves), leaves)
    name = next((name for name, leaf in zip(case.names, leaves) if leaf.grad is not None), "")
    return f"it writes to {name}.grad itself: return the gradient instead, and PyTorch adds it to .grad" if name else ""


def takes_any_layout(case: Case) -> str:
    leaves = case.leaves()
    outputs = case.call(leaves)
    for name, lay_out in OF_UPSTREAMS.items():
        laid_out = [lay_out(u.clone()) for u in case.upstreams]
        expected = case.backward(outputs, leaves, [u.clone(memory_format=case.torch.contiguous_format) for u in laid_out])
        try:
            got = case.backward(outputs, leaves, laid_out)
        except Exception as error:  # noqa: BLE001
            return f"backward raises if the upstream gradient is {name}: {told(error)}"
        if detail := case.differs(got, expected):
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
    for name, lay_out in OF_INPUTS.items() if not case.is_random else ():
        leaves = [lay_out(leaf).requires_grad_() for leaf in case.leaves(only=[])]
        plain = [leaf.detach().clone(memory_format=case.torch.contiguous_format).requires_grad_() for leaf in leaves]
        try:
            outputs, expected = case.call(leaves), case.call(plain)
            right = case.backward(expected, plain)
        except Exception:  # noqa: BLE001
            continue
        if not all(map(case.nearly_equal, outputs, expected)):
            return f"another output if each input is {name}; call contiguous() first"
        try:
            got = case.backward(outputs, leaves)
        except Exception as error:  # noqa: BLE001
            return f"backward raises if each input is {name}: {told(error)}"
        if detail := case.differs(got, right):
            return f"another gradient if each input is {name}: {detail}; call contiguous() first"
        found = ""
    return found


def takes_an_input_twice(case: Case) -> str | None:
    found = None
    pairs = [(i, j) for i, j in itertools.combinations(range(len(case.arrays)), 2)
             if case.arrays[i].shape == case.arrays[j].shape]
    for i, j in pairs[:PAIRS]:
        equal, tied = case.leaves(), case.leaves()
        equal[j] = equal[i].detach().clone().requires_grad_()
        tied[j] = tied[i]
        where = f"{case.names[i]} and {case.names[j]} are one tensor"
        try:
            expected = case.call(equal)
            apart = case.backward(expected, equal)
        except Exception:  # noqa: BLE001  the function may not be defined there
            continue
        try:
            outputs = case.call(tied)
            both = case.backward(outputs, tied)
        except Exception as error:  # noqa: BLE001
            return f"it raises if {where}: {told(error)}"
        if not all(map(case.nearly_equal, outputs, expected)):
            return f"another output if {where}"
        apart[i] = apart[j] = apart[i] + apart[j]
        if detail := case.differs(both, apart):
            return f"another gradient if {where}: {detail}"
        found = ""
    return found


def notices_a_write_after_forward(case: Case) -> str:
    """As by an optimizer's step, or by an operation in place on the output. A backward that raises has noticed."""
    for k in [*range(min(len(case.arrays), MANY)), *range(-len(case.upstreams), 0)]:
        leaves = case.leaves()
        outputs = case.call(leaves)
        written = [*leaves, *outputs][k]
        name = case.names[k] if k >= 0 else f"output {k + len(outputs)}"
        try:
            with case.torch.no_grad():
                written.copy_(case.tensor(generator_for(k % MANY).normal(size=tuple(written.shape))))
            got = case.backward(outputs, leaves)
        except Exception:  # noqa: BLE001
            continue
        if detail := case.differs(got):
            return f"another gradient if {name} is written to after forward: {detail}; keep it with ctx.save_for_backward"
    return ""


def keeps_the_graph(case: Case) -> str | None:
    leaves = case.leaves()
    outputs = case.call(leaves)
    try:
        found = case.gradients(outputs, leaves, create_graph=True)
    except Exception:  # noqa: BLE001
        return None
    for name, gradient in zip(case.names, found):
        if gradient is not None and not gradient.requires_grad and gradient.any():
            return (f"the gradient of {name} has no graph under create_graph=True, so gradients of gradients are silently "
                    "wrong: compute it by operations on tensors, or decorate backward with @once_differentiable")
    return ""


def gives_each_input_alone(case: Case) -> str | None:
    if len(case.arrays) < 2:
        return None
    for i, name in list(enumerate(case.names))[:MANY]:
        leaves = case.leaves(only=[i])
        try:
            got = case.backward(case.call(leaves), leaves)[i]
        except Exception as error:  # noqa: BLE001
            return f"backward raises if only {name} requires a gradient: {told(error)}; see ctx.needs_input_grad"
        if detail := case.differs([got if j == i else g for j, g in enumerate(case.expected)]):
            return f"another gradient if only {name} requires one: {detail}; see ctx.needs_input_grad"
    return ""


def gives_each_output_alone(case: Case) -> str | None:
    leaves = case.leaves()
    total = [np.zeros(array.shape) for array in case.arrays]
    if len(case.upstreams) == 1:
        return None
    for k, out in enumerate(case.call(leaves)):
        try:
            total = [a + b for a, b in zip(total, case.backward([out], leaves, [case.upstreams[k].clone()]))]
        except Exception as error:  # noqa: BLE001
            return f"backward raises if only output {k} is used, and others' upstreams are zero or None: {told(error)}"
    detail = case.differs(total)
    return f"another gradient if outputs are used one by one: {detail}" if detail else ""


def takes_an_undefined_upstream(case: Case) -> str:
    """As from a function that gives None for its gradient: None, if ctx.set_materialize_grads(False) asks for it."""
    leaves = case.leaves()

    def undefined(out: Any) -> Any:
        kind: Any = type("Undefined", (case.torch.autograd.Function,), {
            "forward": staticmethod(lambda ctx, x: x.clone()), "backward": staticmethod(lambda ctx, dout: None)})
        return kind.apply(out)

    try:
        got = case.backward([undefined(out) for out in case.call(leaves)], leaves)
    except Exception as error:  # noqa: BLE001
        return f"backward raises if the upstream is undefined: {told(error)}"
    detail = case.differs(got, [np.zeros(array.shape) for array in case.arrays])
    return f"a gradient though the upstream is undefined: {detail}" if detail else ""


def keeps_calls_apart(case: Case) -> str | None:
    """Something saved on the class instead of ctx is that of the last call, and so is memory that is used again."""
    leaves = case.leaves()
    outputs = case.call(leaves)
    tensors = [*outputs, *(g.to_dense() for g in case.gradients(outputs, leaves) if g is not None)]
    before = [tensor.detach().clone() for tensor in tensors]
    with case.torch.no_grad():
        others = [(leaf * 0.9).requires_grad_() for leaf in leaves]
    try:
        case.backward(case.call(others, seed=1), others)
    except Exception:  # noqa: BLE001  the function may not be defined there
        return None
    case.backward(outputs, leaves, [-u for u in case.upstreams])
    for k, (tensor, values) in enumerate(zip(tensors, before)):
        if not case.nearly_equal(tensor, values):
            what = f"call overwrites the first one's output {k}" if k < len(outputs) else (
                "backward overwrites the first one's gradients")
            return f"a second {what}: return new memory"
    detail = case.differs(case.backward(outputs, leaves))
    return f"another gradient after a second call: {detail}; keep what backward needs in ctx" if detail else ""


def computes_the_same_without_gradients(case: Case) -> str | None:
    try:
        with case.torch.no_grad():
            plain = case.bridge.outputs(case.bridge.values, case.leaves(only=[]))
    except RuntimeError:  # it differentiates something itself
        return None
    return "" if case.gives(plain) else "forward gives another output under no_grad"


def computes_the_same_compiled(case: Case) -> str | None:
    """Where something may have been compiled: the function itself or what it calls."""
    if "torch._dynamo" not in sys.modules or case.is_random:
        return None
    leaves = case.leaves()
    with case.torch.compiler.set_stance("force_eager"):
        outputs = case.call(leaves)
        expected = case.backward(outputs, leaves)
    if not case.gives(outputs):
        return "another output than without torch.compile"
    detail = case.differs(case.expected, expected)
    return f"another gradient than without torch.compile: {detail}" if detail else ""


def gives_no_none(case: Case) -> str | None:
    leaves = case.leaves()
    outputs = [out for out in case.call(leaves) if out.requires_grad]
    if not outputs:
        return None
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


def takes_sizes_of_1_and_0(case: Case) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = None
        for shorter in shortened(case.names, case.arrays, case.bridge.values):
            if detail := wrong_at_size(case, shorter):
                return detail
            found = detail if found is None else found
        return found


def wrong_at_size(case: Case, shorter: Shorter) -> str | None:
    """Of gradients that are right at full size. The function must do with these sizes, and not broadcast them back."""
    n, _, where, arrays, values = shorter
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
        return f"backward raises if {where}: {told(error)}"
    wrong = wrong_slopes(functools.partial(case.value, values, upstreams), arrays, got)
    names = [case.names[i] for i in sorted(wrong and wrong - case.wrong_at_full_size)]
    return f"a wrong gradient if {where}: {'; '.join(f'the slope by {name} differs' for name in names)}" if names else ""


def takes_vmap(case: Case) -> str | None:
    """If the function says that it can be mapped: all inputs along the first or the last axis, or the first input alone."""
    found = None
    for axis, only_first in ((0, False), (-1, False), (0, True)):
        leaves = case.leaves(only=[])
        batch = [leaf if i and only_first else case.torch.stack([leaf, leaf * 0.9], axis) for i, leaf in enumerate(leaves)]
        batch = [leaf.requires_grad_() for leaf in batch]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                in_dims = tuple(None if i and only_first else axis for i in range(len(batch)))
                mapped = case.torch.func.vmap(lambda *leaves: tuple(case.call(leaves)), in_dims)(*batch)
        except Exception:  # noqa: BLE001  it cannot
            return found
        where = "if only the first input is mapped" if only_first else f"along axis {axis}"
        if not case.gives([out[0] for out in mapped]):
            return f"another output under vmap {where}"
        try:
            got = case.backward(mapped, batch, [case.torch.stack([u, 0 * u]) for u in case.upstreams])
        except Exception as error:  # noqa: BLE001
            return f"forward runs under vmap, but backward raises {where}: {told(error)}"
        got = [g if i and only_first else g.take(0, axis) for i, g in enumerate(got)]
        if detail := case.differs(got):
            return f"another gradient under vmap {where}: {detail}"
        found = ""
    return found


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "the same under torch.compile": computes_the_same_compiled,
    "leaves the upstream as it is": keeps_the_upstream,
    "leaves .grad alone": leaves_grad_alone,
    "takes an upstream of any layout": takes_any_layout,
    "each input alone may need a gradient": gives_each_input_alone,
    "outputs may go unused": gives_each_output_alone,
    "no gradient is None": gives_no_none,
    "calls are kept apart": keeps_calls_apart,
    "the same output under no_grad": computes_the_same_without_gradients,
}
# Only if a torch.autograd.Function is called. PyTorch's own get these right, or crash on a size that they do not expect.
CHECKS_OF_FUNCTIONS: dict[str, Callable[[Case], str | None]] = {
    "takes inputs of any layout": takes_inputs_of_any_layout,
    "an input may be given twice": takes_an_input_twice,
    "a write after forward is noticed": notices_a_write_after_forward,
    "create_graph or once_differentiable": keeps_the_graph,
    "the upstream may be undefined": takes_an_undefined_upstream,
    "sizes of 1 and 0": takes_sizes_of_1_and_0,
    "vmap": takes_vmap,
}


def checks_of(bridge: Any, point: Point) -> dict[str, Callable[[], str | None]]:
    case = Case(bridge, point)

    def of_function(look: Callable[[Case], str | None]) -> str | None:
        return look(case) if case.has_function else None

    checks: dict[str, Callable[[], str | None]] = {name: functools.partial(look, case) for name, look in CHECKS.items()}
    return checks | {name: functools.partial(of_function, look) for name, look in CHECKS_OF_FUNCTIONS.items()}
