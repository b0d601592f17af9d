"""The tape: which operation made which value, and the one walk back over it.

Every value that needs a gradient has a `Node`, where its gradient arrives: an `Op` if an operation made the value, a leaf
if the user did. An `Op` points to the nodes of its inputs; nothing points the other way, so a graph that is no longer
used is freed at once, without the garbage collector.

This file knows no Tensor and no kernel. Gradients are arrays, or anything that adds like arrays; the `runner` that is
passed to `walk` computes with them, see runner.py.
"""
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import float_errors, versions


class Node:
    """Where the gradient of one value arrives; it has the value's shape and dtype, and its age on the tape."""

    is_leaf: bool = True
    parents: tuple["Node | None", ...] = ()
    grad: Any = None  # the accumulated gradient of a leaf, or of any node after retain_grad()
    retains_grad: bool = False
    hooks: tuple[Callable[[Any], Any], ...] = ()  # called with the whole gradient before it goes on; may replace it
    accumulation_hooks: tuple[Callable[[], None], ...] = ()  # of a leaf: called after a gradient has been added to `grad`
    name: str | None = None
    traced: Any = None  # what mg.trace has recorded of the value

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype = dtype
        self.order: int = versions.tick()


class Op(Node):
    """One application of a differentiable function. A subclass writes, in NumPy's notation,

    - `forward(self, *arrays, **options)`: the output array. It calls `self.save(...)` with the arrays that backward
      needs, and keeps options as attributes. Inputs may also be Python scalars.
    - `backward(self, dout, *saved)`: one gradient per input, or None. A gradient may have the broadcast shape: the
      tape sums it. It may be `dout` or a view of it, but never a saved array. `self.needs(i)`: is it wanted?

    Backward runs on arrays and, to be differentiated itself, on Tensors: then dout is one, and so is each saved array that
    is an input or the output. Ops that combine several primitives are `Fused`, see ops/kinds.py.
    """

    is_leaf = False
    saved: Any = ()  # a tuple; None once backward has freed it
    identities: tuple[int | None, ...]  # of the inputs and the output, if something is saved
    options: dict[str, Any]  # of forward
    saved_for: tuple[tuple[int, ...], ...] | None = None  # per saved array: the inputs whose gradients need it; None: all
    is_in_order: bool = False  # the output is in C order, whatever the layout of the inputs
    adds_onto: bool = False  # backward takes what has arrived for the first input so far, as `onto`, and adds to that

    def forward(self, *arrays: Any, **options: Any) -> Any:
        """The output; see above."""
        raise NotImplementedError

    def backward(self, dout: Any, *saved: Any, **options: Any) -> Any:
        """The gradients of the inputs; see above."""
        raise NotImplementedError

    def save(self, *arrays: Any) -> None:
        """Keep for backward the arrays that wanted gradients need; they are freed once backward has run."""
        if self.saved_for is not None and None in self.parents:
            arrays = tuple([array if any(map(self.needs, inputs)) else None
                            for array, inputs in zip(arrays, self.saved_for)])
        self.saved = arrays

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

    def input_gradients(self, dout: Any, runner: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        """One gradient per input, from backward."""
        if self.saved is None:
            raise RuntimeError(f"Trying to backward through the graph a second time: {self.title} has freed its saved "
                               "arrays. Call backward(retain_graph=True) the first time, or compute the loss again.")
        if versions.latest > self.order:
            versions.check_unchanged(self.title, self.saved, self.order)
        gradients = runner.backward(self, dout, onto)
        if len(gradients) != len(self.parents):
            raise RuntimeError(f"{self.title}.backward returned {len(gradients)} gradients for {len(self.parents)} inputs")
        return gradients

    @property
    def title(self) -> str:
        """The name that errors and graphs show."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.title}>"


def uses(roots: Iterable[Node], within: set[Node] | None = None) -> dict[Node, int]:
    """For each node below the roots, how often its value is used there. With `within`, only those nodes count."""
    counts = dict.fromkeys(roots, 0)
    waiting = list(counts)
    while waiting:
        for parent in waiting.pop().parents:
            if parent in counts:
                counts[parent] += 1
            elif parent is not None and (within is None or parent in within):
                counts[parent] = 1
                waiting.append(parent)
    return counts


def walk(roots: Mapping[Any, Any], runner: Any, retain_graph: bool, found: dict[Node, Any] | None = None,
         within: set[Node] | None = None) -> None:
    """Send gradients back from the roots, and accumulate them in the leaves (and where retain_grad() was called).

    Each use of a value sends it a part of its gradient, and it passes the sum on once all parts have arrived. With
    b = a + a and c = a * b, c sends a part to a and one to b, and b, which then has all of its own, sends two more to a.

    With `found`, nothing accumulates: it receives the gradients of all nodes that the walk visits, those `within`.
    """
    waits = uses(roots, within)  # how many parts have yet to arrive at each node
    sums = dict(roots)  # of the parts that have arrived
    added: set[Node] = set()  # nodes whose sum was made here: no one else holds that array, so it may be added to
    ready = [root for root in roots if not waits[root]]
    while ready:
        node = ready.pop()
        if node in sums:  # else no gradient leads there, and none leads on
            dout = runner.run_hooks(node, sums.pop(node)) if node.hooks else sums.pop(node)
            if found is not None:
                found[node] = dout
            elif node.is_leaf or node.retains_grad:
                runner.accumulate(node, dout)
            if node.is_leaf:
                continue
            onto = sums[node.parents[0]] if node.adds_onto and node.parents[0] in added else None
            for i, (parent, part) in enumerate(zip(node.parents, node.input_gradients(dout, runner, onto))):
                if parent in waits and part is not None and part is not onto:
                    if part.shape != parent.shape or part.dtype is not parent.dtype:
                        part = runner.fit(part, parent, node, i)
                    if parent in sums:
                        part = runner.add(sums[parent], part, parent in added)
                        added.add(parent)
                    sums[parent] = part
            if not retain_graph and node.saved:
                node.saved = None
        top = len(ready)
        for parent in node.parents:
            if parent in waits:
                waits[parent] -= 1
                if not waits[parent]:  # leaves go first, so that each has its gradient as soon as it can
                    ready.insert(len(ready) if parent.is_leaf else top, parent)


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
