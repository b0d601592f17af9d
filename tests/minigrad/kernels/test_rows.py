"""Kernels over rows: the same bits, wherever in memory the arrays lie."""
import numpy as np
import pytest

from minigrad.kernels import layer_norm, softmax


@pytest.mark.parametrize("width", [5, 8, 9, 16])
def test_softmax_does_not_depend_on_where_its_arrays_lie(width, random):
    """Arrays that lie close together make LLVM take a loop that is not vectorised."""
    memory = np.zeros(300, np.float32)
    row = memory[150 : 150 + width].reshape(1, -1)
    for _ in range(20):
        row[...] = random.standard_normal(width)
        results = set()
        for distance in range(width, width + 40):
            for start in (150 + distance, 150 - distance):
                out = memory[start : start + width].reshape(1, -1)
                softmax.log_softmax_forward(row, out)
                results.add(out.tobytes())
        assert len(results) == 1


@pytest.mark.parametrize("width", [5, 8, 9, 16])
def test_layer_norm_does_not_depend_on_where_its_arrays_lie(width, random):
    memory = np.zeros(300, np.float32)
    x = memory[150 : 150 + width].reshape(1, -1)
    mean, rstd = np.array([0.1]), np.array([1.1])
    dout, weight = random.standard_normal((2, 1, width)).astype(np.float32)
    dweight, dbias = np.empty((2, width), np.float32)
    for _ in range(20):
        x[...] = random.standard_normal(width)
        results = set()
        for distance in range(width, width + 40):
            for start in (150 + distance, 150 - distance):
                dx = memory[start : start + width].reshape(1, -1)
                layer_norm.layer_norm_backward(dout, x, weight[0], mean, rstd, dx, dweight, dbias)
                results.add(dx.tobytes())
        assert len(results) == 1
