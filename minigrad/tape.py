"""The tape: which operation made which value, and the one walk back over it.

Every value that needs a gradient has a `Node`, where its gradient arrives: an `Op` if an operation made the value, a leaf
if the user did. An `Op` points to the nodes of its inputs; nothing points the other way, so a graph that is no longer
used is freed at once, without the garbage collector.

This file knows no Tensor and no kernel. Gradients are arrays, or anything that adds like arrays; the `runner` that is
passed to `walk` computes with them, see runner.py.
"""
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import Any

import numpy as np

from .arrays import float_errors, versions


class Node:
    """Where the gradient of one value arrives; it has the value's shape and dtype, and the time when it was made."""

    is_leaf: bool = True
    parents: tuple["Node | None", ...] = ()
    grad: Any = None  # the accumulated gradient of a leaf, or of any node after retain_grad()
    retains_grad: bool = False
    hooks: tuple[Callable[[Any], Any], ...] = ()  # called with the whole gradient before it goes on; what they return does
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

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    is_leaf = False
    saved: Any = ()  # a tuple, empty if nothing is kept; None once backward has freed it
    identities: tuple[int | None, ...]  # of the inputs and the output, if something is saved
    options: dict[str, Any]  # of forward
    saved_for: tuple[tuple[int, ...], ...] | None = None  # per saved array: the inputs whose gradients need it; None: all
    is_in_order: bool = False  # the output is in C order, whatever the layout of the inputs
    adds_onto: bool = False  # backward can add the first input's gradient to an array, `onto`; then it returns that one

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

    def input_gradients(self, dout: Any, runner: Any, retain_graph: bool, onto: Any = None) -> tuple[Any, ...]:
        """One gradient per input, from backward; unless the graph is retained, what was saved for it is freed."""
        if self.saved is None:
            raise RuntimeError(f"Trying to backward through the graph a second time: {self.title} has freed its saved "
                               "arrays. Call backward(retain_graph=True) the first time, or compute the loss again.")
        if versions.latest > self.order:  # something was written to since: one of these?
            versions.check_unchanged(self.title, self.saved, self.order)
        gradients = runner.backward(self, dout, onto)
        if len(gradients) != len(self.parents):
            raise RuntimeError(f"{self.title}.backward returned {len(gradients)} gradients for {len(self.parents)} inputs")
        if self.saved and not retain_graph:
            self.saved = None
        return gradients

    @property
    def title(self) -> str:
        """The name that errors and graphs show."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.title}>"


def uses(roots: Iterable[Node], within: set[Node] | None = None) -> dict[Node, int]:
    """For each node that the roots lead to, how many uses of its value do; if only nodes `within` are entered."""
    counts = dict.fromkeys(roots, 0)
    unvisited = list(counts)
    while unvisited:
        for parent in unvisited.pop().parents:
            if parent in counts:
                counts[parent] += 1
            elif parent is not None and (within is None or parent in within):
                counts[parent] = 1
                unvisited.append(parent)
    return counts


def walk(roots: Mapping[Any, Any], runner: Any, retain_graph: bool, found: dict[Node, Any] | None = None,
         within: set[Node] | None = None) -> None:
    """Send gradients back from the roots, each with its own, and accumulate them in the leaves (and after retain_grad()).

    Each use of a value sends it a part of its gradient, and it passes the sum on once all parts have come. With h = x * x
    and c = h * (h + h), h gets one part from c and two from h + h; had it gone on after the first, x would lack the rest.
    One array may be a part for several nodes, as those two are: only sums made here are written to.

    With `found`, no `grad` changes: the gradient of each visited node is put there. Only nodes `within` are visited.
    """
    waits = uses(roots, within)  # from how many uses of a value nothing has come yet, be it a part or none
    sums = dict(roots)  # of the parts that have come
    ours: set[Node] = set()  # nodes whose sum was made here
    ready: list[Any] = list(filterfalse(waits.get, roots))
    while ready:
        node, top = ready.pop(), len(ready)
        if node in sums:
            dout = runner.run_hooks(node, sums.pop(node)) if node.hooks else sums.pop(node)
            if found is not None:
                found[node] = dout
            elif node.is_leaf or node.retains_grad:
                runner.accumulate(node, dout)
            if node.is_leaf:
                continue
            onto = sums[node.parents[0]] if node.adds_onto and node.parents[0] in ours else None
            parts = node.input_gradients(dout, runner, retain_graph, onto)
        else:  # no gradient has come, so none goes on
            parts, onto = [None] * len(node.parents), None
        for i, (parent, part) in enumerate(zip(node.parents, parts)):
            if parent in waits:
                if part is not None and part is not onto:  # which has this part already
                    if part.shape != parent.shape or part.dtype is not parent.dtype:  # of which there is one object each
                        part = runner.fit(part, parent, node, i)
                    if parent in sums:
                        part = runner.add(sums[parent], part, parent in ours)
                        ours.add(parent)
                    sums[parent] = part
                waits[parent] -= 1
                if not waits[parent]:  # leaves come next, so that each has its gradient as soon as it can
                    ready.insert(len(ready) if parent.is_leaf else top, parent)


@float_errors.ignored
def gradients(roots: dict[Node, Any], wanted: Sequence[Node], runner: Any, retain_graph: bool) -> list[Any]:
    """The gradients of sum(value * gradient), over the roots, at the wanted nodes; None where no path leads there.

    No `grad` changes, and only nodes that lead to a wanted one are visited.
    """
    leading = set(wanted)
    for node in sorted(uses(roots), key=lambda node: node.order):  # parents before the nodes made from them
        if not leading.isdisjoint(node.parents):
            leading.add(node)
    found: dict[Node, Any] = {}
    walk({root: gradient for root, gradient in roots.items() if root in leading}, runner, retain_graph, found, leading)
    return [found.get(node) for node in wanted]
