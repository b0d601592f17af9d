"""Loops that run through several axes at once visit the elements of arrays in order."""
import itertools

import numpy as np
import pytest

from minigrad.fast.kernels.axes import Loops, runs

VIEWS = {  # of an array (2, 3, 4, 5): how many loops it takes
    "all": (lambda x: x, 1),
    "a slice": (lambda x: x[:, :2], 2),
    "steps": (lambda x: x[..., ::2], 2),
    "backwards": (lambda x: x[::-1, ::-1, ::-1, ::-1], 1),
    "one axis backwards": (lambda x: x[:, ::-1], 3),
    "transposed": (lambda x: x.T, 4),
    "broadcast": (lambda x: np.broadcast_to(x[:, :1], x.shape), 3),
    "an axis of 1": (lambda x: x[:, 1:2, 1:], 2),
    "nothing but axes of 1": (lambda x: x[:1, :1, :1, :1], 0),
}


@pytest.mark.parametrize("view, count", VIEWS.values(), ids=VIEWS)
def test_loops_visit_the_elements_of_both_arrays(view, count):
    x = np.arange(120.0).reshape(2, 3, 4, 5)
    x, out = view(x), np.arange(view(x).size, dtype=float).reshape(view(x).shape)
    long = [i for i, n in enumerate(x.shape) if n > 1]
    assert len(runs(x.shape, long, x.strides)) == count
    loops = Loops.of(runs(x.shape, long, x.strides, out.strides), x.shape, x.itemsize, x.strides, out.strides)
    places = np.array(list(itertools.product(*map(range, loops.shape))))
    first = x[(0,) * x.ndim]
    of_x, of_out = (places @ np.array(strides) for strides in loops.strides)
    assert (first + of_x).tolist() == x.ravel().tolist() and of_out.tolist() == out.ravel().tolist()


def test_more_than_four_loops_and_fractional_strides_give_none():
    x = np.empty((2,) * 10)[::1, 0, :, 0, :, 0, :, 0, :, 0]
    axes = runs(x.shape, range(x.ndim), x.strides)
    assert len(axes) == 5 and Loops.of(axes, x.shape, x.itemsize, x.strides) is None
    assert Loops.of([(0,)], (3,), 8, (12,)) is None
