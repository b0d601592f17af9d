"""The tape: which operation made which value, and the one walk back over it.

Every value that needs a gradient has a `Node`, the place where its gradient arrives: an `Op` if an operation made it, a
leaf if the user did. An `Op` points to the nodes of its inputs; nothing points the other way, so a graph that is no
longer used is freed at once, without the garbage collector.

This file knows no Tensor and no kernel. Gradients are arrays here, or whatever adds like arrays, and who computes with
them is the `runner` that `walk` is given; see runner.py.
"""
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy import ndarray

from .arrays import float_errors, versions
from .backend import is_tensor
from .per_thread import this_thread


class Node:
    """Where the gradient of one value arrives: the value's shape and dtype, and its age on the tape."""

    is_leaf = True
    parents: tuple["Node | None", ...] = ()
    grad = None  # what has accumulated here, for leaves and after retain_grad()
    retains_grad = False
    hooks: tuple[Callable, ...] = ()  # called with the whole gradient before it goes on; may replace it
    accumulation_hooks: tuple[Callable, ...] = ()  # of a leaf: called when `grad` has been added to
    grad_is_lent = False  # of a leaf: somebody will write to `grad`'s memory again, so who looks at it gets a copy
    name: str | None = None
    traced: Any = None  # what mg.trace has kept of the value here

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        self.shape = shape
        self.dtype = dtype
        self.order = versions.tick()

    def __lt__(self, other: "Node") -> bool:
        return self.order > other.order  # of two that may come at once, the younger one does

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, order=versions.tick())  # what was pickled is as young as its copy


class Op(Node):
    """One application of a differentiable function: forward makes the output, backward the gradients of the inputs.

    A subclass writes, in NumPy's notation,

    - `forward(self, *arrays, **options)`: the output array. It calls `self.save(...)` with the arrays that backward
      needs, and keeps options as attributes. Inputs may also be Python scalars.
    - `backward(self, dout, *saved)`: one gradient per input, or None. A gradient may have the broadcast shape: the
      tape sums it. It may be `dout` or a view of it, but never a saved array. Where a gradient is expensive, ask
      `self.needs(i)` first.

    A primitive's backward runs on arrays and, to be differentiated itself, on Tensors: dout is one then, and so is each
    saved array that is an input or the output. An op that is several primitives in one is a subclass of `Fused`.

    Other code may do the same for some arrays: an implementation, see `implements`.
    """

    textbook: "type[Op] | None" = None  # the op that this is an implementation of
    implementation: "type[Op] | None" = None  # of this very op, see `implements`

    is_leaf = False
    saved: tuple | None = ()
    saved_for: tuple[tuple[int, ...], ...] | None = None  # per saved array: the inputs whose gradients need it; None: all
    made_at: str | None = None  # the line of the user's code, noted under detect_anomaly()
    fresh_gradients = False  # True: backward always returns new arrays, so they can be kept without a copy
    passes_gradient = False  # True: backward returns dout itself, or views of parts that are apart: new if dout is
    is_in_order = False  # True: the output lies in C order, however the inputs lie; as what works along axes gives it
    accumulates_into: int | None = None  # the input whose gradient so far backward takes as `accumulated`, and adds to
    accumulates_in_place = False  # True: it writes to `accumulated`, and returns that

    def __init_subclass__(cls) -> None:
        cls.implementation = None

    def forward(self, *arrays, **options) -> np.ndarray:
        raise NotImplementedError

    def backward(self, dout, *saved) -> tuple:
        raise NotImplementedError

    def save(self, *arrays) -> None:
        """Keep arrays for backward, but those that no wanted gradient needs; they are freed when backward has run."""
        if self.saved_for is not None and None in self.parents:
            arrays = self._only_needed(arrays)
        self.saved = arrays

    def _only_needed(self, arrays: Sequence) -> tuple:
        kept, parents = [], self.parents
        for array, inputs in zip(arrays, self.saved_for):
            for i in inputs:
                if parents[i] is not None:
                    break
            else:
                array = None
            kept.append(array)
        return tuple(kept)

    def needs(self, i: int) -> bool:
        """Does input i need a gradient?"""
        return self.parents[i] is not None

    def record(self, values: Sequence, options: dict, output: np.ndarray) -> None:
        """Put this application on the tape: its output will be differentiated. `values` are forward's inputs and result."""
        self.shape = output.shape
        self.dtype = output.dtype
        self.order = versions.tick()
        self.options = options
        if self.saved:  # to know the inputs and the output again among the saved arrays
            self.identities = tuple(map(id, values))

    def __reduce__(self) -> tuple:
        """An implementation is pickled as the op that it is one of: where that is loaded, it may be missing."""
        op = vars(type(self)).get("textbook")
        runs_again = op is not None and getattr(self, "saves_inputs", False)  # to save what the op's own backward needs
        return _blank_again, (op or type(self), op is not None), self.__getstate__() | {"runs_again": runs_again}

    def __getstate__(self) -> dict:
        """Identities hold in this process, so which of the saved arrays they are of takes their place in a copy."""
        saved = list(map(id, self.saved or ()))
        found = [saved.index(own) if own in saved else None for own in getattr(self, "identities", ())]
        return {**self.__dict__, "identities": found}

    def __setstate__(self, state: dict) -> None:
        runs_again = state.pop("runs_again") and self.textbook is None
        super().__setstate__(state)
        self.identities = tuple(None if i is None else id(self.saved[i]) for i in self.identities)
        if runs_again and self.saved:
            with np.errstate(all="ignore"):
                self.forward(*self.saved[: len(self.parents)], **self.options)

    @classmethod
    def call(cls, *inputs, **options):
        """Apply the operation inside a formula: to arrays, or to Tensors, on the tape."""
        for value in inputs:
            if is_tensor(value):
                return value.apply_op(cls, *inputs, **options)
        return chosen(cls, inputs).blank().forward(*inputs, **options)

    @classmethod
    def blank(cls) -> "Op":
        """An application to be: a Node in the making, that `record` completes if a gradient is wanted."""
        return cls.__new__(cls)

    @classmethod
    def takes(cls, arrays: Sequence) -> bool:
        """Of an implementation: does it run for these inputs?"""
        return True

    def input_gradients(self, dout, runner, sums: Mapping = MappingProxyType({})) -> tuple:
        """One gradient per input, from backward. `sums`: what has arrived at other nodes, see `taken`."""
        if self.saved is None:
            raise RuntimeError(
                f"Trying to backward through the graph a second time: {self.title} has freed its saved arrays. Call "
                "backward(retain_graph=True) the first time, or compute the loss again."
            )
        if versions.latest > self.order:
            self._check_saved()
        gradients = runner.backward(self, dout, sums)
        if len(gradients) != len(self.parents):
            raise RuntimeError(
                f"{self.title}.backward returned {len(gradients)} gradients for {len(self.parents)} inputs"
            )
        return gradients

    def owns(self, gradient, owns_dout: bool) -> bool:
        """May this gradient from backward be added to in place: is it no array, and no view of one, that others hold?"""
        if self.fresh_gradients:
            return type(gradient) is ndarray and gradient.flags.writeable  # a broadcast array is not
        return owns_dout and self.passes_gradient and type(gradient) is ndarray and gradient.flags.carray

    def _check_saved(self) -> None:
        for array in self.saved:
            if isinstance(array, np.ndarray) and versions.last_write(array)[0] > self.order:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"{self.title} has saved an array of shape {array.shape} that was written to afterwards; clone() it "
                    "before, or compute it again"
                )

    def described(self) -> tuple:
        """What forward is given beside its arguments, by which one application differs from another."""
        return ()

    @property
    def title(self) -> str:
        return type(self).__name__

    def __repr__(self):
        return f"<{self.title}>"


class Fused(Op):
    """An op that is several primitives in one. Its forward and its backward run on arrays and on Tensors, in primitives.

    With `saves_inputs`, forward saves all inputs first, in order, and then what else backward needs of what it has made on
    the way. To differentiate backward, forward is run again on Tensors, which makes that anew.
    """

    fresh_gradients = is_in_order = True
    saves_inputs = False

    @classmethod
    def definition(cls, *inputs, **options):
        """What is computed, in primitives: forward, and on the tape if Tensors are given."""
        return (cls.textbook or cls).blank().forward(*inputs, **options)


def _blank_again(op: type[Op], by_implementation: bool) -> Op:
    """An application that was pickled, before it is filled in."""
    return (op.implementation or op if by_implementation else op).blank()


def implements(op: type[Op]) -> Callable:
    """Decorate a subclass of an op, of the same name, which does the same in another way for arrays that it `takes`.

    It is never the only description of what it computes: the op's own forward and backward are run where it does not take
    the arrays, on Tensors, and inside `textbook`.
    """

    def install(implementation: type[Op]) -> type[Op]:
        if implementation.__name__ != op.__name__:
            raise TypeError(f"an implementation of {op.__name__} has its name, got {implementation.__name__}")
        implementation.textbook, op.implementation = op, implementation
        implementation.is_in_order = False  # it sees to that itself
        implementation.__doc__ = implementation.__doc__ or op.__doc__
        return implementation

    return install


def chosen(op: type[Op], inputs: Sequence) -> type[Op]:
    """Who runs an op for these inputs: an implementation that takes them, or the op itself."""
    other = op.implementation
    return op if other is None or this_thread.is_textbook or not other.takes(inputs) else other


def walk(roots: dict[Node, Any], runner, retain_graph: bool, found: dict | None = None, within: set | None = None) -> None:
    """Send gradients back from the roots, and let them accumulate in the leaves (and where retain_grad() asks for it).

    A node passes its gradient on when all of it has arrived. With b = a + a and c = a * b, what c sends to a is not all: b
    still owes it a part. A node is made after its inputs, so from the youngest to the oldest is such an order, and a heap
    of the nodes reached so far gives it. Leaves are the oldest: they come last, or when `runner.early` says.

    Two gradients that meet are added, in place if the walk owns the first: if nobody else holds that array.

    With `found`, nothing accumulates; it is filled with the gradients of all nodes visited, which are those in `within`.
    The caller ignores NumPy's errors.
    """
    sums: dict[Node, tuple[Any, bool]] = {}  # what has arrived so far: (gradient, is it owned?)
    waiting: list[tuple[int, Node]] = []
    early = runner.early(roots) if found is None else {}

    def arrive(node: Node, gradient, is_owned: bool) -> None:
        known = sums.get(node)
        if known is None:
            heappush(waiting, (-(early[node] if node in early else node.order), node))
        else:
            gradient, is_owned = runner.add(known[0], gradient, known[1]), True
        sums[node] = gradient, is_owned

    for node, gradient in roots.items():
        arrive(node, gradient, False)
    while waiting:
        _, node = heappop(waiting)
        if node not in sums:
            continue  # it has come already: its sum was taken out and put back, see `taken`
        dout, is_owned = sums.pop(node)
        if node.hooks:
            dout, is_owned = runner.run_hooks(node, dout), False
        if found is not None:
            found[node], is_owned = dout, False
        elif node.is_leaf or node.retains_grad:
            runner.accumulate(node, dout, is_owned and node.is_leaf)
        if node.is_leaf:
            continue
        for i, (parent, gradient) in enumerate(zip(node.parents, node.input_gradients(dout, runner, sums))):
            if parent is None or gradient is None or within is not None and parent not in within:
                continue
            is_new = node.owns(gradient, is_owned)
            if gradient.shape != parent.shape or gradient.dtype is not parent.dtype:
                gradient, before = runner.fit(gradient, parent, node, i), gradient
                is_new = is_new or gradient is not before
            arrive(parent, gradient, is_new)
        if not retain_graph and node.saved:
            node.saved = None


def taken(op: Op, sums: dict) -> np.ndarray | None:
    """What has arrived for the input that op accumulates into, if backward can add to it: op has it then."""
    parent = op.parents[op.accumulates_into]
    total, is_owned = sums.get(parent, (None, False))
    if not isinstance(total, np.ndarray) or not total.flags.carray or op.accumulates_in_place and not is_owned:
        return None
    del sums[parent]
    return total


@float_errors.ignored
def gradients(roots: dict[Node, Any], wanted: Sequence[Node], runner, retain_graph: bool) -> list:
    """The gradients of sum(value * gradient), over the roots, at the wanted nodes; None where nothing leads there.

    No `grad` is touched, and only nodes that lead to a wanted one are visited.
    """
    within = leading_to(wanted, roots)
    found = {}
    walk({root: gradient for root, gradient in roots.items() if root in within}, runner, retain_graph, found, within)
    return [found.get(node) for node in wanted]


def leading_to(wanted: Sequence[Node], roots: Iterable[Node]) -> set[Node]:
    """The nodes between the roots and the wanted ones, both included: parents are older, so the oldest are judged first."""
    oldest = min((node.order for node in wanted), default=0)
    reached, waiting = set(roots), list(roots)
    while waiting:
        node = waiting.pop()
        for parent in node.parents:
            if parent is not None and parent not in reached and parent.order >= oldest:
                reached.add(parent)
                waiting.append(parent)
    leading = set(wanted)
    for node in sorted(reached, key=lambda node: node.order):
        if any(parent in leading for parent in node.parents):
            leading.add(node)
    return leading
