"""Comparisons with PyTorch that its own samples (test_pytorch_samples.py) leave out: kinks, special numbers, empty tensors,
first and second derivatives of assigning items, and errors. Skipped where PyTorch is not installed."""
import math

import numpy as np
import pytest

from oracle import F, assert_same, mg, torch

random = np.random.default_rng(5)


def normal(*shape):
    return random.standard_normal(shape)


x34, y34, x234, x44 = normal(3, 4), normal(3, 4), normal(2, 3, 4), normal(4, 4)


def set_items(x, index, value):
    """A copy of x after copy[index] = value."""
    copy = x.clone()
    copy[index] = value
    return copy


# Each expression gets the library (minigrad or torch), its functional module, and the inputs as tensors.
EXPRESSIONS = {
    "set one item": (lambda m, F, a: set_items(a, (0, 1), a[2, :1] * 2.0), x34),
    "set items": (lambda m, F, a: set_items(a, (slice(None), 1, slice(1, 3)), a[:, 0, :2]), x234),
    "set items after integer": (lambda m, F, a: set_items(a, (0, slice(None), [1, 2]), a[1, :, 2:]), x234),
    "set items integer apart": (lambda m, F, a: set_items(a, (slice(None), m.tensor([0, 2]), 1), a[0, :2, :2]), x234),
    "set items where": (lambda m, F, a: set_items(a, a > 0, a[0, 0, 0] * 2.0), x234),
    "index numpy integer": (lambda m, F, a: a[np.int64(0), :, [1, 2]] * a[0, :, (1, 3)], x234),
    "set items with leading axes": (lambda m, F, a: set_items(a, 0, a[1:] * 2.0), x234),
    "tril of booleans": (lambda m, F, a: m.where((a > 0).tril() | (a < 0).triu(1), a, a * 2.0), x34),
    "index mask and slice": (lambda m, F, a: a[:, m.tensor([True, False, True]), 1:], x234),
    "einsum ellipsis": (lambda m, F, a, b: m.einsum("...ij,...j->...i", a, b) + m.einsum("b...j,j->b...", a, b[0]), x234, normal(2, 4)),
    "attention over broadcast batches": (
        lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v), normal(2, 3, 4, 6), normal(1, 3, 5, 6), normal(2, 1, 5, 6)),
    "attention over fewer axes": (lambda m, F, q, k, v, b: F.scaled_dot_product_attention(q, k, v, b.detach()),
                                  normal(4, 6), normal(2, 3, 5, 6), normal(3, 5, 6), normal(2, 1, 4, 5)),
    "attention without features": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v),
                                   normal(2, 3, 0), normal(2, 5, 0), normal(2, 5, 4)),
    "attention of nothing": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v),
                             normal(2, 3, 0), normal(2, 5, 0), normal(2, 5, 0)),
    "attention learned mask": (lambda m, F, q, k, v, b: F.scaled_dot_product_attention(q, k, v, b), x34, x44, normal(4, 4), y34),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_gradients_are_pytorchs(name):
    function, *arrays = EXPRESSIONS[name]
    for dtype in ("float64", "float32"):
        assert_same(function, arrays, dtype)


def special(library):
    return library.tensor([math.inf, math.nan, 1.0, -math.inf])


DTYPES = {
    "int // int": lambda m: m.tensor([7, -7]) // 2,
    "float // int": lambda m: m.tensor([7.5, -7.5]) // m.tensor(2),
    "int clamp by float": lambda m: m.tensor([1, 2, 3]).clamp(1.5),
    "sort indices": lambda m: m.tensor([3.0, 1.0, 3.0, math.nan, 2.0]).sort(stable=True).indices,
    "sort descending indices": lambda m: m.tensor([3.0, 1.0, 3.0, math.nan, 2.0]).sort(descending=True, stable=True).indices,
    "erfc far out": lambda m: m.erfc(m.tensor([9.0, -9.0, 5.0])),
    "index_select of a number": lambda m: m.tensor(3.0).index_select(0, m.tensor([0])),
    "trace of nothing": lambda m: m.zeros(0, 2).trace(),
    "repeat_interleave of nothing": lambda m: m.zeros(0, 2).repeat_interleave(3, 0),
}


@pytest.mark.parametrize("expression", DTYPES.values(), ids=DTYPES)
def test_dtypes_are_pytorchs(expression):
    got, wanted = expression(mg), expression(torch)
    assert str(got.dtype) == str(wanted.dtype).removeprefix("torch.")
    assert got.shape == tuple(wanted.shape)
    np.testing.assert_allclose(got.array, wanted.numpy(), rtol=1e-6)


ERRORS = {
    "unflatten": lambda m, F: m.zeros(2, 6).unflatten(1, (4, 2)),
    "repeat": lambda m, F: m.zeros(2, 3).repeat(2),
    "pad negative": lambda m, F: F.pad(m.zeros(2), (-2, -2)),
    "topk": lambda m, F: m.zeros(3).topk(4),
    "repeat_interleave numbers": lambda m, F: m.zeros(2).repeat_interleave(m.tensor([1, 2, 3])),
    "repeat_interleave floats": lambda m, F: m.zeros(2).repeat_interleave(m.tensor([1.0, 2.0])),
    "mm": lambda m, F: m.mm(m.zeros(1, 2, 3), m.zeros(3, 2)),
    "bmm": lambda m, F: m.bmm(m.zeros(1, 2, 3), m.zeros(2, 3, 2)),
    "outer": lambda m, F: m.outer(m.zeros(2, 2), m.zeros(3)),
    "einsum lengths": lambda m, F: m.einsum("ij,jk->ik", m.zeros(2, 3), m.zeros(4, 2)),
    "einsum axes": lambda m, F: m.einsum("ijk->i", m.zeros(2, 3)),
    "einsum operands": lambda m, F: m.einsum("ij,jk->ik", m.zeros(2, 3)),
    "einsum output": lambda m, F: m.einsum("ij->k", m.zeros(2, 3)),
    "einsum diagonal": lambda m, F: m.einsum("ii->i", m.zeros(2, 3)),
    "clamp": lambda m, F: m.zeros(2).clamp(),
    "one_hot": lambda m, F: F.one_hot(m.tensor([3]), 3),
    "class weights": lambda m, F: F.cross_entropy(m.zeros(2, 3), m.tensor([0, 1]), m.ones(2)),
    "smoothing": lambda m, F: F.cross_entropy(m.zeros(2, 3), m.tensor([0, 1]), label_smoothing=1.5),
    "embedding of a vector": lambda m, F: F.embedding(m.tensor([0]), m.zeros(2)),
}


@pytest.mark.parametrize("expression", ERRORS.values(), ids=ERRORS)
def test_what_pytorch_refuses_is_refused(expression):
    with pytest.raises((ValueError, IndexError, TypeError)):
        expression(mg, F)
    with pytest.raises((RuntimeError, ValueError, IndexError, AssertionError)):
        expression(torch, torch.nn.functional)
