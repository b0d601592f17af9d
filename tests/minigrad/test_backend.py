"""What takes the place of a function of `backend` does the same, for few elements and for many, in which kernels differ."""
import numpy as np
import pytest

import minigrad as mg
from minigrad import backend

random = np.random.default_rng(0)
SHAPES = (), (7,), (0, 3), (5, 7), (63, 65), (64, 65), (3, 40, 50), (127, 129), (128, 129), (30_000, 1)


def numbers(shape, dtype=np.float32):
    """Of floats, some are equal, 0 or -0, and some are NaN."""
    x = random.integers(-9, 10, shape) * np.where(random.random(shape) < 0.5, -1.0, 1.0)
    return np.asarray(x if dtype == np.int64 else np.where(random.random(shape) < 0.02, np.nan, x)).astype(dtype)


def different(shape, dtype):
    return random.permutation(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)


def indices_of(shape):
    """Of every kind: of elements, slices, both, and masks; some take an element twice."""
    rows, columns = (random.integers(-n, n, 20) for n in shape[:2])
    return [np.arange(shape[0]), rows, rows[:1], (rows, columns), (rows[:, None], columns), (slice(None), columns), (..., 0),
            (..., columns % shape[-1]), (slice(1, None), np.arange(shape[1])), random.random(shape) < 0.5, random.random(shape[0]) < 0.5]


def added(shape, dtype, index):
    out = random.standard_normal(shape).astype(dtype)
    return out, index, random.standard_normal(out[index].shape).astype(dtype)


def add_at(out, index, x):
    out = out.copy()
    backend.add_at(out, index, x)
    return out


PLANES = [shape for shape in SHAPES if len(shape) > 1 and 0 not in shape]
ROWS = [  # a function and its arguments
    *[(add_at, added(shape, dtype, index)) for shape in PLANES for dtype in (np.float32, np.float64)
      for index in indices_of(shape)],
    *[(backend.argsort, (x, axis, descending, *part)) for shape in SHAPES for dtype in (np.float32, np.float64, np.int64)
      for axis in range(len(shape)) for n in shape[axis : axis + 1] for descending in (False, True)
      for part in ((), (0, 1), (0, min(9, n)), (0, n), (0, 0), (n // 2, n // 2 + 1))
      for x in (different(shape, dtype), numbers(shape, dtype)) if part[1:] <= (n,)],
    *[(backend.sum_of_products, (subscripts, *[random.standard_normal(shape) for shape in shapes])) for subscripts, *shapes in (
        ("ij->ji", (3, 4)), ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk->ik", (1, 4), (4, 1)), ("ij,jk->ik", (3, 1), (4, 5)), ("i,i->", (3,), (3,)),
        ("bij,bkj->ikb", (2, 3, 4), (2, 5, 4)), ("ij,ij->ji", (3, 4), (3, 4)), ("ij,jk,k->i", (3, 4), (4, 5), (5,)))],
]


@pytest.mark.parametrize("name", sorted({function.__name__ for function, _ in ROWS}))
def test_it_does_what_numpy_does(name):
    for function, arguments in ROWS:
        if function.__name__ == name:
            got = function(*arguments)
            with mg.textbook():
                expected = function(*arguments)
            for a, b in zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]:
                a, b = np.asarray(a), np.asarray(b)
                assert a.shape == b.shape and a.dtype.kind == b.dtype.kind and a.flags.c_contiguous >= b.flags.c_contiguous
                np.testing.assert_allclose(a, b, 1e-6, 1e-6, err_msg=str(arguments))
