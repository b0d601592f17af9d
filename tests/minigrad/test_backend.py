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

EINSUMS = (
    ("ij->ji", (3, 4)), ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk->ik", (1, 4), (4, 1)), ("ij,jk->ik", (3, 1), (4, 5)), ("i,i->", (3,), (3,)),
    ("bij,bkj->ikb", (2, 3, 4), (2, 5, 4)), ("ij,ij->ji", (3, 4), (3, 4)), ("ij,jk,k->i", (3, 4), (4, 5), (5,)),
)


@pytest.mark.parametrize("subscripts, shapes", [(subscripts, shapes) for subscripts, *shapes in EINSUMS])
def test_products_are_numpys(subscripts, shapes, random):
    factors = [random.standard_normal(shape) for shape in shapes]
    np.testing.assert_allclose(backend.sum_of_products(subscripts, *factors), np.einsum(subscripts, *factors), 1e-6, 1e-6)


OF_LAYOUTS = [(), (0, 3), (3, 5), (70, 60), (4, 50, 51), (300, 450)]  # shapes, on both sides of the thresholds
MOVES = {  # of x: exact
    "copied": lambda x: backend.copied(x),
    **{f"astype {dtype}": lambda x, dtype=np.dtype(dtype): backend.astype(x, dtype, "K") for dtype in ("f4", "f8", "i8", "?")},
}


@pytest.mark.parametrize("dtype, is_finite", [("f4", True), ("f4", False), ("f8", True), ("f8", False), ("i8", True), ("?", True)])
@pytest.mark.parametrize("shape", OF_LAYOUTS, ids=str)
def test_a_replacement_does_what_numpy_does(shape, dtype, is_finite):
    values = (2 * np.random.default_rng(0).standard_normal(shape)).round(1)  # some are equal, some are 0
    values = np.asarray(values, dtype)
    if not is_finite:
        values.reshape(-1)[7::50], values.reshape(-1)[31::700] = np.inf, np.nan
    for layout in LAYOUTS.values():
        x = layout(values)
        for function in MOVES.values():
            with np.errstate(invalid="ignore"):
                found = function(x)
                with mg.textbook():
                    expected = function(x)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(found, expected)


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
    outside = backend.astype(x, dtype=np.dtype(int), order="C")
    with mg.textbook():
        np.testing.assert_array_equal(backend.astype(x, dtype=np.dtype(int), order="C"), outside)
    np.testing.assert_array_equal(backend.astype(x, dtype=np.dtype(int), order="C"), outside)


def test_replacing_a_function_inside_textbook_takes_effect_outside(monkeypatch):
    copied = backend.replacements["copied"]
    monkeypatch.setitem(vars(backend), "copied", backend.copied)
    monkeypatch.setitem(backend.replacements, "copied", copied)
    with mg.textbook():
        backend.replaced_by(copied=functools.wraps(copied)(lambda x: 42))
        assert backend.copied(np.ones(3)).tolist() == [1, 1, 1]
    assert backend.copied(np.ones(3)) == 42
