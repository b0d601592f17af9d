"""What is no product of vectors keeps its reshapes."""
import numpy as np
import pytest

from minigrad.tracing.steps import folded
from minigrad.tracing.steps import Step, TracedTensor


def step(op, *inputs, shape):
    return Step(op, "", "", list(inputs), {}, TracedTensor(np.zeros(shape), "result", None))


@pytest.mark.parametrize("a, as_matrix, b, out, after", [
    ((2, 3, 5), (2, 3, 1, 5), (2, 3, 5, 4), (2, 3, 1, 4), (2, 3, 4)),  # many rows: leading axes would not match
    ((3, 5), (3, 1, 5), (3, 5, 4), (3, 1, 4), (3, 4)),
    ((3, 1), (3,), (3, 4), (4,), (1, 4)),  # it drops the axis
])
def test_it_stays_if_the_product_would_have_another_shape(a, as_matrix, b, out, after):
    x, y = TracedTensor(np.zeros(a), "input", None), TracedTensor(np.zeros(b), "input", None)
    before = step("Reshape", x, shape=as_matrix)
    product = step("MatMul", before.output, y, shape=out)
    steps = [before, product, step("Reshape", product.output, shape=after)]
    assert folded(steps, dict.fromkeys(steps, 1)) == steps
