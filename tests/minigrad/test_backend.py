"""Functions that replace those of `backend` compute the same: in all layouts, for sizes on both sides of the thresholds.

Functions are looked up at each call, which decides whether the original or its replacement runs.
"""
import functools
import gc
import sys

import numpy as np
import pytest

import minigrad as mg
from layouts import LAYOUTS
from minigrad import backend

random = np.random.default_rng(0)
SHAPES = (), (7,), (0, 3), (5, 7), (63, 65), (64, 65), (3, 40, 50), (127, 129), (128, 129), (30_000, 1)


def numbers(shape, dtype=np.float32):
    """Some are equal, 0 or -0, and some floats are NaN."""
    x = random.integers(-9, 10, shape) * np.where(random.random(shape) < 0.5, -1.0, 1.0)
    return np.asarray(x if dtype == np.int64 else np.where(random.random(shape) < 0.02, np.nan, x)).astype(dtype)


def different(shape, dtype):
    return random.permutation(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)


def indices_of(shape):
    """Indices of every kind: of elements, slices, both, and masks; some take an element twice."""
    rows, columns = (random.integers(-n, n, 20) for n in shape[:2])
    return [np.arange(shape[0]), rows, rows[:1], (rows, columns), (rows[:, None], columns), (slice(None), columns), (..., 0),
            (..., columns % shape[-1]), (slice(1, None), np.arange(shape[1])), random.random(shape) < 0.5, random.random(shape[0]) < 0.5]


def added(shape, dtype, index):
    out = random.standard_normal(shape).astype(dtype)
    return out, index, random.standard_normal(out[index].shape).astype(dtype)


PLANES = [shape for shape in SHAPES if len(shape) > 1 and 0 not in shape]
ROWS = [  # the name of a function, and its arguments
    *[("add_at", added(shape, dtype, index)) for shape in PLANES for dtype in (np.float32, np.float64)
      for index in indices_of(shape)],
    *[("argsort", (x, axis, descending, *part)) for shape in SHAPES for dtype in (np.float32, np.float64, np.int64)
      for axis in range(len(shape)) for n in shape[axis : axis + 1] for descending in (False, True)
      for part in ((), (0, 1), (0, min(9, n)), (n // 4, n // 2), (0, n), (0, 0), (n // 2, n // 2 + 1))
      for x in (different(shape, dtype), numbers(shape, dtype)) if part[1:] <= (n,)],
    *[("sum_of_products", (subscripts, *[random.standard_normal(shape) for shape in shapes])) for subscripts, *shapes in (
        ("ij->ji", (3, 4)), ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk->ik", (1, 4), (4, 1)), ("ij,jk->ik", (3, 1), (4, 5)), ("i,i->", (3,), (3,)),
        ("bij,bkj->ikb", (2, 3, 4), (2, 5, 4)), ("ij,ij->ji", (3, 4), (3, 4)), ("ij,jk,k->i", (3, 4), (4, 5), (5,)))],
]


def result(name, *arguments):
    """The result of the function, which may be left in its first argument."""
    if name != "add_at":
        return getattr(backend, name)(*arguments)
    out = arguments[0].copy()
    backend.add_at(out, *arguments[1:])
    return out


@pytest.mark.parametrize("name", sorted({name for name, _ in ROWS}))
def test_a_replacement_does_what_numpy_does(name):
    for _, arguments in (row for row in ROWS if row[0] == name):
        got = np.asarray(result(name, *arguments))
        with mg.textbook():
            expected = np.asarray(result(name, *arguments))
        assert got.shape == expected.shape and got.dtype.kind == expected.dtype.kind
        assert got.flags.c_contiguous >= expected.flags.c_contiguous
        np.testing.assert_allclose(got, expected, 1e-6, 1e-6, err_msg=str(arguments))


OF_LAYOUTS = [(), (0, 3), (3, 5), (70, 60), (4, 50, 51), (300, 450)]  # shapes, on both sides of the thresholds
MOVES = {  # of x: exact
    "copied": lambda x: backend.copied(x),
    "copy": lambda x: copied_to(np.empty(x.shape, x.dtype), x),
    "copy to another order": lambda x: copied_to(np.empty(x.shape[::-1], x.dtype).T, x),
    "copy of a broadcast row": lambda x: copied_to(np.empty((20, *x.shape), x.dtype), x),
    **{f"astype {dtype}": lambda x, dtype=np.dtype(dtype): backend.astype(x, dtype, "K") for dtype in ("f4", "f8", "i8", "?")},
}
OF_AXES = {  # of x and axes, with keepdims or without
    "sum": lambda *arguments: backend.sum(*arguments), "wide_sum": lambda *arguments: backend.wide_sum(*arguments),
    "count_nonzero": lambda x, axes, _: backend.count_nonzero(x, axes),
}
OF_AN_AXIS = {
    "argmax": lambda *arguments: backend.argmax(*arguments), "argmin": lambda *arguments: backend.argmin(*arguments),
    "running_sum": lambda x, axis, reverse: backend.running_sum(x, 0 if axis is None else axis, reverse),
}


def copied_to(out, x):
    backend.copy(x, out)
    return out


def assert_same(function, *arguments):
    with np.errstate(invalid="ignore"):
        found = np.asarray(function(*arguments))
        with mg.textbook():
            expected = np.asarray(function(*arguments))
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    finite = np.isfinite(expected)
    x, tolerance = arguments[0], 1e-6 if found.dtype == np.float32 else 1e-12
    size = np.max(np.abs(x), initial=0, where=np.isfinite(x)) * x.size ** 0.5 if x.dtype.kind == "f" else 0
    np.testing.assert_allclose(found[finite], expected[finite], rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("dtype, is_finite", [("f4", True), ("f4", False), ("f8", True), ("f8", False), ("i8", True), ("?", True)])
@pytest.mark.parametrize("shape", OF_LAYOUTS, ids=str)
def test_a_replacement_does_so_in_all_layouts(shape, dtype, is_finite):
    values = (2 * np.random.default_rng(0).standard_normal(shape)).round(1)  # some are equal, some are 0
    values = np.asarray(values, dtype)
    if not is_finite:
        values.reshape(-1)[7::50], values.reshape(-1)[31::700] = np.inf, np.nan
    for layout in LAYOUTS.values():
        x = layout(values)
        for function in MOVES.values():
            assert_same(function, x)
        for axis in (None, *range(x.ndim)):
            for flag in (False, True):
                for function in OF_AXES.values():
                    assert_same(function, x, axis, flag)
                if x.ndim and x.size:
                    for function in OF_AN_AXIS.values():
                        assert_same(function, x, axis, flag)
        if x.ndim == 3:
            for function in OF_AXES.values():
                assert_same(function, x, (0, 2), True)


def test_no_module_keeps_a_function_that_was_replaced():
    """Ops must look it up at each call, or they would never use the kernels."""
    functions = vars(backend.in_numpy).values()
    gc.unfreeze()  # what is frozen is not searched
    holders = gc.get_referrers(*functions)
    gc.freeze()
    assert not [holder for holder in holders if isinstance(holder, functools.partial)]
    assert not [name for name, module in list(sys.modules.items()) if name.startswith("minigrad") and module is not backend
                and any(vars(module) is holder for holder in holders)]


def test_functions_take_the_same_arguments_inside_textbook():
    x = np.ones((2, 3), np.float32)
    outside = backend.sum(x, keepdims=True)
    with mg.textbook():
        np.testing.assert_array_equal(backend.sum(x, keepdims=True), outside)
    np.testing.assert_array_equal(backend.sum(x, keepdims=True), outside)


def test_replacing_a_function_inside_textbook_takes_effect_outside(monkeypatch):
    count_nonzero = backend.replacements["count_nonzero"]
    monkeypatch.setitem(vars(backend), "count_nonzero", backend.count_nonzero)
    monkeypatch.setitem(backend.replacements, "count_nonzero", count_nonzero)
    with mg.textbook():
        backend.replaced_by(count_nonzero=functools.wraps(count_nonzero)(lambda x, axis=None: 42))
        assert backend.count_nonzero(np.ones(3)) == 3
    assert backend.count_nonzero(np.ones(3)) == 42
