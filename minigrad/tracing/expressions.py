"""Arrays of expressions: numbers that know what they are made of.

An op's own forward and backward run on them as they stand: `Softmax.backward` then says of each number of dx that it is
P_20 * (dP_20 - (dP_20 * P_20 + dP_21 * P_21)). NumPy computes the values; a `Table` keeps the expressions, each once.

What NumPy does element by element, and its sums and maxima, become nodes of the table; what only moves elements moves
the nodes. Functions that read values to decide what to do next, and those not listed here, raise TypeError.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

MOVES = {  # functions that only move elements
    np.broadcast_to, np.concatenate, np.copy, np.expand_dims, np.flip, np.moveaxis, np.ravel, np.repeat, np.reshape,
    np.roll, np.squeeze, np.stack, np.swapaxes, np.take, np.take_along_axis, np.tile, np.transpose,
}
Node = tuple[Any, ...]  # ("multiply", 3, 7): a function of nodes; ("number", 0.5), ("input", name, place), ("cell", 4, ...)
ELEMENTWISE = frozenset(  # the functions that a table may hold, by NumPy's names
    "add subtract multiply divide negative square power reciprocal floor_divide remainder exp expm1 log log1p sqrt sin cos "
    "tanh erf erfc absolute sign floor ceil trunc rint maximum minimum logaddexp greater greater_equal less less_equal "
    "equal not_equal isfinite isnan isinf bitwise_and bitwise_or invert logical_not where".split())
add_up: Any = np.add.reduce
maximum_of: Any = np.maximum.reduce
REDUCED = frozenset("adds maximums minimums".split())  # of any number of nodes


class Table:
    """Expressions, each once, and after what it is made of."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Node, int] = {}

    def node(self, *node: Any) -> int:
        """The number of this node."""
        if (known := self._known.get(node)) is None:
            known = self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return known

    def named(self, name: Any, values: Any) -> Expressions:
        """Inputs: each number is a node of its own."""
        values = np.asarray(values)
        nodes = [self.node("input", name, place) for place in range(values.size)]
        return Expressions(self, np.array(nodes, int).reshape(values.shape), values)

    def constant(self, value: Any) -> Expressions:
        """Numbers, as they are."""
        if isinstance(value, Expressions):
            return value
        values = np.asarray(value)
        if values.dtype.kind not in "bif":
            raise TypeError(f"no expressions of {values.dtype}")
        nodes = [self.node("number", number) for number in values.ravel().tolist()]
        return Expressions(self, np.array(nodes, int).reshape(values.shape), values)

    def made(self, function: str, values: Any, *parts: np.ndarray) -> Expressions:
        """function(*parts), element by element, of arrays of nodes that broadcast."""
        if function not in ELEMENTWISE | REDUCED:
            raise TypeError(f"no expressions for {function}")
        values = np.asarray(values)
        columns = [np.broadcast_to(part, values.shape).ravel().tolist() for part in parts]
        nodes = [self.node(function, *row) for row in (zip(*columns) if columns else [()] * values.size)]
        return Expressions(self, np.array(nodes, int).reshape(values.shape), values)

    def reduced(self, function: str, values: Any, nodes: np.ndarray, axes: tuple[int, ...]) -> Expressions:
        """function(*nodes along the axes)"""
        kept = [axis for axis in range(nodes.ndim) if axis not in axes]
        rows = nodes.transpose(*axes, *kept).reshape(-1 if nodes.size else 0, *np.shape(values))
        return self.made(function, values, *rows)

    def as_dict(self, uses: Any) -> dict[str, Any]:
        """The nodes that `uses` needs, as lists, and `uses` itself with its Expressions as lists of nodes.

        `nodes` are runs of nodes of one function: the number of the function, how many nodes, of how many each is, how far
        before the first those are, and how much further on for each next one. `numbers` are those of the nodes that are
        numbers. Of Expressions there is the first node, and how far each other is from the one before.
        """
        needed = np.zeros(len(self.nodes), bool)
        for x in expressions_in(uses):
            needed[x.nodes] = True
        for i in range(len(needed) - 1, -1, -1):
            if needed[i]:
                needed[list(parts_of(self.nodes[i]))] = True
        place = np.cumsum(needed) - 1
        kept = [self.nodes[i] for i in np.flatnonzero(needed).tolist()]
        functions = list(dict.fromkeys(function for function, *_ in kept))
        nodes = [number for run in runs(kept, place.tolist()) for number in (functions.index(run[0]), *run[1:])]
        numbers = [node[1] for node in kept if node[0] == "number"]

        def as_lists(value: Any) -> Any:
            if isinstance(value, Expressions):
                return np.diff(place[value.nodes.ravel()], prepend=0).tolist()
            if isinstance(value, dict):
                return {key: as_lists(part) for key, part in value.items()}
            return [as_lists(part) for part in value] if isinstance(value, (list, tuple)) else value

        return {"functions": functions, "nodes": nodes, "numbers": numbers, **as_lists(uses)}


def runs(nodes: list[Node], place: list[int]) -> Iterator[tuple[Any, ...]]:
    """Nodes of one function whose parts move on by the same steps: (function, count, parts, how far before, steps)."""
    first: list[int] = []
    function, last, steps, start, count = "", first, first, 0, 0
    for i, node in enumerate([*nodes, ("", ())]):
        parts = [place[part] for part in parts_of(node)]
        moved = [after - before for after, before in zip(parts, last)]
        if node[0] == function and len(parts) == len(first) and (count == 1 or moved == steps):
            steps, last, count = moved, parts, count + 1
            continue
        if count:
            yield function, count, len(first), *(start - part for part in first), *(steps if count > 1 else ())
        function, first, last, steps, start, count = node[0], parts, parts, [], i, 1


def parts_of(node: Node) -> tuple[int, ...]:
    """The nodes that a node is of."""
    return () if node[0] in ("", "number", "input") else node[1:2] if node[0] == "cell" else node[1:]


def expressions_in(nest: Any) -> Iterator[Expressions]:
    if isinstance(nest, Expressions):
        yield nest
    elif isinstance(nest, (dict, list, tuple)):
        for part in nest.values() if isinstance(nest, dict) else nest:
            yield from expressions_in(part)


class Expressions(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of expressions, with their values: its nodes in a table."""

    def __init__(self, table: Table, nodes: np.ndarray, values: np.ndarray) -> None:
        self.table, self.nodes, self.values = table, nodes, values

    shape = property(lambda self: self.values.shape)
    ndim = property(lambda self: self.values.ndim)
    size = property(lambda self: self.values.size)
    dtype = property(lambda self: self.values.dtype)
    flags = property(lambda self: self.values.flags)
    strides = property(lambda self: self.values.strides)
    T = property(lambda self: self.moved(np.transpose))

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        raise TypeError("an expression decides what comes next, so an edit could not change it")

    def __array__(self, *given: Any, **options: Any) -> np.ndarray:
        raise TypeError("expressions are no array of NumPy's")

    def __getitem__(self, index: Any) -> Expressions:
        if isinstance(self.values[index], np.generic):  # of one element too, a view
            index = (*index, ...) if isinstance(index, tuple) else (index, ...)
        return Expressions(self.table, self.nodes[index], self.values[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        value = self.table.constant(value)
        self.nodes[index], self.values[index] = value.nodes, value.values

    def moved(self, function: Callable[..., Any], *given: Any, **options: Any) -> Expressions:
        """A function that only moves elements."""
        nodes, values = (np.asarray(function(x, *given, **options)) for x in (self.nodes, self.values))
        return Expressions(self.table, nodes, values)

    def reshape(self, *shape: Any) -> Expressions:
        return self.moved(np.ndarray.reshape, *shape)

    def transpose(self, *axes: Any) -> Expressions:
        return self.moved(np.ndarray.transpose, *axes)

    def swapaxes(self, a: int, b: int) -> Expressions:
        return self.moved(np.swapaxes, a, b)

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> Expressions:
        if self.dtype.kind == "f" and np.dtype(dtype).kind != "f":
            raise TypeError(f"no expressions for {dtype} of floats")
        return Expressions(self.table, self.nodes, self.values.astype(dtype))

    def diagonal(self, *given: int) -> Expressions:
        found = self.moved(np.ndarray.diagonal, *given)
        found.nodes.flags.writeable = found.values.flags.writeable = True  # NumPy's are read-only
        return found

    def sum(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        return add_up(self, axis=axis, keepdims=keepdims)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        name = ufunc.__name__.split()[0]
        if ufunc is np.matmul and method == "__call__":
            return into(out, product_of_matrices(*map(self.table.constant, inputs)))
        if ufunc.signature or ufunc.nout > 1:
            raise TypeError(f"no expressions for {name}")
        parts = [self.table.constant(value) for value in inputs[: ufunc.nin]]
        values = getattr(ufunc, method)(*[part.values for part in parts], *inputs[ufunc.nin :], **options)
        if method == "__call__":
            return into(out, self.table.made(name, values, *[part.nodes for part in parts]))
        (x,) = parts
        if method != "reduce" or options.get("where", True) is not True:
            raise TypeError(f"no expressions for {name}.{method}")
        axis = options.get("axis", inputs[1] if len(inputs) > 1 else 0)
        axes = tuple(range(x.ndim)) if axis is None else tuple(i % x.ndim for i in np.atleast_1d(axis).tolist())
        first = options.get("initial")
        nodes = x.nodes
        if first is not None and first not in (0, -math.inf):
            raise TypeError(f"no expressions for {name}.{method} from {first}")
        return into(out, self.table.reduced(f"{name}s", values, nodes, axes))

    def __array_function__(self, function: Any, types: Any, given: Sequence[Any], options: dict[str, Any]) -> Any:
        if function in FUNCTIONS:
            return FUNCTIONS[function](self.table, *given, **options)
        if function not in MOVES:
            raise TypeError(f"no expressions for {function.__name__}")
        first, *rest = given
        if isinstance(first, (tuple, list)):
            parts = [self.table.constant(x) for x in first]
            nodes, values = (function([getattr(x, name) for x in parts], *rest, **options) for name in ("nodes", "values"))
            return Expressions(self.table, nodes, values)
        return first.moved(function, *rest, **options)


def into(out: tuple[Any, ...], made: Expressions) -> Expressions:
    """The result, written to `out` if there is one."""
    for target in out:
        target[...] = made
        return target
    return made


def product_of_matrices(a: Any, b: Any) -> Any:
    """out_ij = sum_k a_ik b_kj"""
    return add_up(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def where(table: Table, condition: Any, a: Any, b: Any) -> Any:
    a, b = table.constant(a), table.constant(b)
    if not isinstance(condition, Expressions):  # no edit changes it
        return Expressions(table, np.where(condition, a.nodes, b.nodes), np.where(condition, a.values, b.values))
    made = table.made("where", np.where(condition.values, a.values, b.values), condition.nodes, a.nodes, b.nodes)
    made.nodes[...] = np.where(a.nodes == b.nodes, a.nodes, made.nodes)
    return made


def mean(table: Table, x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    total = add_up(x, axis=axis, keepdims=keepdims)
    return total / (x.size // max(total.size, 1))


def cumsum(table: Table, x: Any, *, axis: int, dtype: Any = None) -> Any:
    out = np.moveaxis(np.copy(x), axis, 0)
    for i in range(1, len(out)):
        out[i] = out[i - 1] + out[i]
    return np.moveaxis(out, 0, axis)


def bincount(table: Table, places: np.ndarray, weights: Any, minlength: int) -> Any:
    out = table.constant(np.zeros(minlength))
    for place in np.unique(places).tolist():
        out[place] = add_up(weights[places == place])
    return out


def einsum(table: Table, subscripts: str, *factors: Any, optimize: Any = False) -> Any:
    inputs, output = subscripts.split("->")
    labels = output + "".join(sorted(set(inputs) - {*output, ","}))
    product: Any = None
    for names, factor in zip(inputs.split(","), map(table.constant, factors)):
        ordered = np.transpose(factor, [names.index(label) for label in labels if label in names])
        ordered = ordered[tuple(slice(None) if label in names else None for label in labels)]
        product = ordered if product is None else product * ordered
    return add_up(product, axis=tuple(range(len(output), len(labels))))


def triangle(x: Any, k: int) -> np.ndarray:
    rows, columns = x.shape[-2:]
    return np.tri(rows, columns, k, dtype=bool)


FUNCTIONS: dict[Callable, Callable] = {  # what stands for others of NumPy's
    np.where: where, np.mean: mean, np.cumsum: cumsum, np.bincount: bincount, np.einsum: einsum,
    np.sum: lambda table, x, axis=None, **options: add_up(x, axis=axis, **options),
    np.max: lambda table, x, axis=None, **options: maximum_of(x, axis=axis, **options),
    np.tril: lambda table, x, k=0: np.where(triangle(x, k), x, 0.0),
    np.triu: lambda table, x, k=0: np.where(triangle(x, k - 1), 0.0, x),
    np.clip: lambda table, x, low, high: np.minimum(np.maximum(x, low), high),
    np.zeros: lambda table, shape, dtype=None: table.constant(np.zeros(shape)),
    np.full: lambda table, shape, value, dtype=None, **options: table.constant(np.full(shape, value)),
    np.zeros_like: lambda table, x: table.constant(np.zeros(x.shape)),
    np.ndim: lambda table, x: x.ndim, np.shape: lambda table, x: x.shape, np.size: lambda table, x: x.size,
}
