"""The tape: which operation made which value, and the one walk back over it.

Every value that needs a gradient has a `Node`, where its gradient arrives: an `Op` if an operation made the value, a leaf
if the user did. An `Op` points to the nodes of its inputs; nothing points the other way, so a graph that is no longer
used is freed at once, without the garbage collector.

This file knows no Tensor and no kernel. Gradients are arrays, or anything that adds like arrays; the `runner` that is
passed to `walk` computes with them, see runner.py.
"""
import operator
from typing import Any, Callable, Iterable, Mapping, NoReturn, Self, Sequence, TypeVar

import numpy as np
from numpy import ndarray

from .arrays import float_errors, versions
from .backend import is_tensor
from .per_thread import this_thread

Implementation = TypeVar("Implementation", bound="type[Op]")


class Node:
    """Where the gradient of one value arrives; it has the value's shape and dtype, and its age on the tape."""

    is_leaf: bool = True
    parents: tuple["Node | None", ...] = ()
    grad: Any = None  # the accumulated gradient of a leaf, or of any node after retain_grad()
    retains_grad: bool = False
    hooks: tuple[Callable[[Any], Any], ...] = ()  # called with the whole gradient before it goes on; may replace it
    accumulation_hooks: tuple[Callable[[], None], ...] = ()  # of a leaf: called after a gradient has been added to `grad`
    shows_leaf: bool = False  # the value is a view of a leaf
    name: str | None = None
    traced: Any = None  # what mg.trace has recorded of the value

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype = dtype
        self.order: int = versions.tick()


class Op(Node):
    """One application of a differentiable function: forward makes the output, backward the gradients of the inputs.

    A subclass writes, in NumPy's notation,

    - `forward(self, *arrays, **options)`: the output array. It calls `self.save(...)` with the arrays that backward
      needs, and keeps options as attributes. Inputs may also be Python scalars.
    - `backward(self, dout, *saved)`: one gradient per input, or None. A gradient may have the broadcast shape: the
      tape sums it. It may be `dout` or a view of it, but never a saved array. Where a gradient is expensive, check
      `self.needs(i)` first.

    A primitive's backward runs on arrays and, to be differentiated itself, on Tensors: then dout is a Tensor, and so is
    each saved array that is an input or the output. An op that combines several primitives is a subclass of `Fused`.

    For some arrays, other code may compute the same: an implementation, see `implements`.
    """

    textbook: "type[Op] | None" = None  # the op that this class implements
    implementation: "type[Op] | None" = None  # of exactly this op, see `implements`

    is_leaf = False
    saved: Any = ()  # a tuple; None once backward has freed it
    identities: tuple[int | None, ...]  # of the inputs and the output, if something is saved
    options: dict[str, Any]  # of forward
    saved_for: tuple[tuple[int, ...], ...] | None = None  # per saved array: the inputs whose gradients need it; None: all
    made_at: str | None = None  # the line of the user's code, set under detect_anomaly()
    is_in_order: bool = False  # the output is in C order, whatever the layout of the inputs
    adds_onto: bool = False  # backward takes `onto`, what has arrived for the first input so far, and adds to it in place

    def __init_subclass__(cls) -> None:
        cls.implementation = None

    def forward(self, *arrays: Any, **options: Any) -> Any:
        """The output; see above."""
        raise NotImplementedError

    def backward(self, dout: Any, *saved: Any, **options: Any) -> Any:
        """The gradients of the inputs; see above."""
        raise NotImplementedError

    def save(self, *arrays: Any) -> None:
        """Keep for backward the arrays that wanted gradients need; they are freed once backward has run."""
        if self.saved_for is not None and None in self.parents:
            arrays = self._only_needed(arrays)
        self.saved = arrays

    def _only_needed(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        kept, parents = [], self.parents
        for array, inputs in zip(arrays, self.saved_for):  # type: ignore[arg-type]
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

    def record(self, values: Sequence[Any], options: dict[str, Any], output: np.ndarray) -> None:
        """Put this application on the tape; `values` are forward's inputs and its result."""
        self.shape: tuple[int, ...] = output.shape
        self.dtype: np.dtype = output.dtype
        self.order: int = versions.tick()
        self.options = options
        if self.saved:  # to recognise the inputs and the output among the saved arrays
            self.identities = tuple(map(id, values))

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(f"only leaf tensors can be pickled, and this one was made by {self.title}; use detach()")

    @classmethod
    def call(cls, *inputs: Any, **options: Any) -> Any:
        """Apply the operation inside a formula: to arrays, or to Tensors, on the tape."""
        for value in inputs:
            if is_tensor(value):
                return value.apply_op(cls, *inputs, **options)
        return chosen(cls, inputs).blank().forward(*inputs, **options)

    @classmethod
    def blank(cls) -> Self:
        """A new application, which `record` completes if a gradient is wanted."""
        return cls.__new__(cls)

    @classmethod
    def takes(cls, arrays: Sequence[Any]) -> bool:
        """Does this implementation run for these inputs?"""
        return True

    def input_gradients(self, dout: Any, runner: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        """One gradient per input, from backward."""
        if self.saved is None:
            raise RuntimeError(
                f"Trying to backward through the graph a second time: {self.title} has freed its saved arrays. Call "
                "backward(retain_graph=True) the first time, or compute the loss again."
            )
        if versions.latest > self.order:
            self.check_unchanged(self.saved)
        gradients = runner.backward(self, dout, onto)
        if len(gradients) != len(self.parents):
            raise RuntimeError(
                f"{self.title}.backward returned {len(gradients)} gradients for {len(self.parents)} inputs"
            )
        return gradients

    def check_unchanged(self, arrays: Iterable[Any]) -> None:
        """RuntimeError if one of these, which were saved, was written to since."""
        for array in arrays:
            if isinstance(array, np.ndarray) and versions.last_write(array)[0] > self.order:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"{self.title} saved an array of shape {array.shape} that was written to afterwards; clone() it "
                    "before writing, or compute it again"
                )

    def described(self) -> tuple[Any, ...]:
        """What else forward uses, apart from its arguments, that distinguishes one application from another."""
        return ()

    @property
    def title(self) -> str:
        """The name that errors and graphs show."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.title}>"


class View(Op):
    """An op whose output may be a view of an input: who writes to it writes to that."""

    def record(self, values: Sequence[Any], options: dict[str, Any], output: np.ndarray) -> None:
        super().record(values, options, output)
        for parent, array in zip(self.parents, values):
            if parent is not None and (parent.is_leaf or parent.shows_leaf) and np.may_share_memory(array, output):
                self.shows_leaf = True


class Fused(Op):
    """An op that combines several primitives: both its forward and its backward run on arrays and on Tensors.

    With `saves_inputs`, forward saves all inputs first, in order, and then the intermediate results that backward needs.
    To differentiate backward, forward runs again on Tensors, which recomputes those.
    """

    is_in_order = True
    saves_inputs: bool = False

    @classmethod
    def definition(cls, *inputs: Any, **options: Any) -> Any:
        """The output computed by primitives, on the tape if Tensors are given."""
        return (cls.textbook or cls).blank().forward(*inputs, **options)


def implements(op: type[Op]) -> Callable[[Implementation], Implementation]:
    """Decorate a subclass of an op, with the same name, that computes the same in another way for the arrays it `takes`.

    It is never the only description of what it computes: the op's own forward and backward run for other arrays, for
    Tensors, and inside `textbook`.
    """

    def install(implementation: Implementation) -> Implementation:
        if implementation.__name__ != op.__name__:
            raise TypeError(f"an implementation of {op.__name__} must have the same name, got {implementation.__name__}")
        implementation.textbook, op.implementation = op, implementation
        implementation.is_in_order = False  # it takes care of that itself
        implementation.__doc__ = implementation.__doc__ or op.__doc__
        return implementation

    return install


def chosen(op: type[Op], inputs: Sequence[Any]) -> type[Op]:
    """The class that runs an op for these inputs: an implementation that takes them, or the op itself."""
    other = op.implementation
    return op if other is None or this_thread.is_textbook or not other.takes(inputs) else other


def uses(roots: Iterable[Node], within: set[Node] | None = None) -> dict[Node, int]:
    """How often each value below the roots is used there: so many gradients arrive at its node. Only nodes `within` count."""
    counts = dict.fromkeys(roots, 0)
    waiting = list(counts)
    while waiting:
        for parent in waiting.pop().parents:
            if parent is None or within is not None and parent not in within:
                continue
            if parent not in counts:
                counts[parent] = 0
                waiting.append(parent)
            counts[parent] += 1
    return counts


def walk(
    roots: Mapping[Any, Any], runner: Any, retain_graph: bool, found: dict[Node, Any] | None = None,
    within: set[Node] | None = None,
) -> None:
    """Send gradients back from the roots, and accumulate them in the leaves (and where retain_grad() was called).

    A node passes its gradient on once all of it has arrived. With b = a + a and c = a * b, the part that c sends to a is
    not all: b still has to send its own, twice. So a waits for three gradients, one for each use of its value.

    Gradients that arrive at the same node are added in a new array, since others may hold those that came.

    With `found`, nothing accumulates: it receives the gradients of all visited nodes, which are those in `within`.
    The caller turns NumPy's warnings off.
    """
    waits = uses(roots, within)
    sums = dict(roots)  # what has arrived so far
    added = set()  # the nodes whose sum was made here: no one else holds that array, so the next is added in place
    ready = [root for root in roots if not waits[root]]
    while ready:
        node = ready.pop()
        gradients: Sequence[Any] = (None,) * len(node.parents)  # if nothing has arrived, nothing is passed on
        dout, onto = sums.pop(node, None), None
        if dout is not None:
            if node.hooks:
                dout = runner.run_hooks(node, dout)
            if found is not None:
                found[node] = dout
            elif node.is_leaf or node.retains_grad:
                runner.accumulate(node, dout)
            if not node.is_leaf:
                if node.adds_onto and node.parents[0] in added:
                    onto = sums[node.parents[0]]
                gradients = node.input_gradients(dout, runner, onto)
                if not retain_graph and node.saved:
                    node.saved = None
        complete = []
        for i, (parent, gradient) in enumerate(zip(node.parents, gradients)):
            if parent not in waits:
                continue
            if gradient is not None and (gradient is not onto):
                if gradient.shape != parent.shape or gradient.dtype is not parent.dtype:
                    gradient = runner.fit(gradient, parent, node, i)
                if parent in sums:
                    sums[parent] = runner.add(sums[parent], gradient, parent in added)
                    added.add(parent)
                else:
                    sums[parent] = gradient
            waits[parent] -= 1
            if not waits[parent]:
                complete.append(parent)
        ready += sorted(complete, key=_is_leaf)  # leaves come next, so that each is complete as soon as it can be


_is_leaf = operator.attrgetter("is_leaf")


@float_errors.ignored
def gradients(roots: dict[Node, Any], wanted: Sequence[Node], runner: Any, retain_graph: bool) -> list[Any]:
    """The gradients of sum(value * gradient), over the roots, at the wanted nodes; None where no path leads there.

    No `grad` changes, and only nodes that lead to a wanted one are visited.
    """
    leading = set(wanted)
    for node in sorted(uses(roots), key=operator.attrgetter("order")):  # parents before the nodes made from them
        if not leading.isdisjoint(node.parents):
            leading.add(node)
    found: dict[Node, Any] = {}
    walk({root: gradient for root, gradient in roots.items() if root in leading}, runner, retain_graph, found, leading)
    return [found.get(node) for node in wanted]
