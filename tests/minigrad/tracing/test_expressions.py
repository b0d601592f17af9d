"""Every op's own forward and backward run on expressions, and each number knows what it is made of."""
import math

import numpy as np
import pytest

from cases import rows_of_each_op
from minigrad.implementations import textbook
from minigrad.tape import Node
from minigrad.tracing.expressions import Expressions, Table


def is_float(x) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def upstream(shape) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def run(case, arrays: list, seed) -> list:
    """The output of an op and its gradients, by its own lines."""
    op = object.__new__(case.op)
    op.parents = tuple(Node(x.shape, x.dtype) if isinstance(x, (np.ndarray, Expressions)) else None for x in arrays)
    out = op.forward(*arrays, **case.options)
    gradients = op.backward(seed(out.shape), *op.saved)
    return [out, *(gradients if isinstance(gradients, tuple) else (gradients,))]


OTHERS = {"adds": lambda *x: math.fsum(x), "maximums": lambda *x: np.max(x), "minimums": lambda *x: np.min(x), "erf": math.erf,
          "erfc": math.erfc, "where": lambda condition, a, b: a if condition else b}


def evaluated(table: Table, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The number of each node, by NumPy."""
    found = []
    for function, *parts in table.nodes:
        if function == "number":
            found.append(parts[0])
        elif function == "input":
            found.append(inputs[parts[0]].flat[parts[1]])
        else:
            found.append(OTHERS.get(function, getattr(np, function, None))(*(found[part] for part in parts)))
    return np.array(found, float)


@rows_of_each_op()
def test_every_op_runs_on_expressions(case):
    """Their values are NumPy's, and so are those that their nodes say."""
    if any(np.size(x) > 400 for x in case.inputs):
        return
    table, arrays = Table(), [x.astype(float) if is_float(x) else x for x in case.inputs]
    with textbook(), np.errstate(all="ignore"):
        expected = run(case, arrays, upstream)
        inputs = [table.named(str(i), x) if is_float(x) else x for i, x in enumerate(arrays)]
        found = run(case, inputs, lambda shape: table.named("dout", upstream(shape)))
        by_nodes = evaluated(table, {"dout": upstream(np.shape(expected[0])), **{str(i): x for i, x in enumerate(arrays)}})
    for x, y in zip(found, expected, strict=True):
        if y is not None:
            x = table.constant(x)
            for values in (x.values, by_nodes[x.nodes]):
                np.testing.assert_allclose(values, y, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_what_reads_values_is_refused():
    x = Table().named("x", np.ones(3))
    for reads in (lambda: bool(x[0] > 0), lambda: np.argsort(x), lambda: np.asarray(x), lambda: x.astype(int), lambda: np.linalg.norm(x)):
        with pytest.raises(TypeError, match="expression"):
            reads()


def test_writes_through_views_are_writes():
    table = Table()
    x, out = table.named("x", np.arange(4.0)), table.constant(np.zeros(4))
    out[1:][::2] += x[:2]
    out[0] = x[3]
    assert out.values.tolist() == [3, 0, 0, 1] and [table.nodes[node][0] for node in out.nodes] == ["input", "add", "number", "add"]
