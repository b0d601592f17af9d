"""Formulas recorded from functions in NumPy's notation, and the kernels that apply them to arrays."""
import math
import operator

import numpy as np
import pytest

from minigrad.fast.elementwise import FORMULAS, elementwise, formula_of
from minigrad.fast.kernels import elementwise as kernels
from minigrad.fast.kernels.elementwise import Formula
from minigrad.fast.kernels.recorded import Recorded
from minigrad.ops import activations, arithmetic, elementary, losses
from minigrad.ops.losses import BinaryCrossEntropy, BinaryCrossEntropyWithLogits
from tables import one_in

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, 1e-40, -1e-40, 1e-20, 3e38, -3e38, math.inf, -math.inf, math.nan]
COUNTS = {operator.neg: 1, np.where: 3}  # of operands


def count_of(function):
    code = getattr(function, "__code__", None)
    return code.co_argcount if code else COUNTS.get(function) or getattr(function, "nin", 2)


def named(value):
    """The name of a test's parameter."""
    return value.__name__ if callable(value) else ""


def applied(function, *operands):
    return formula_of(function, len(operands)).of(*operands)


def sigmoid(x):
    return np.where(x > 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x)))


WIDE = np.concatenate([
    np.array(SPECIAL + [88.72, 88.73, 89.5, -87.4, -103.9, -105, 1e-8, -1e-8], np.float32),
    np.random.default_rng(0).normal(0, 3, 3000).astype(np.float32),
    np.random.default_rng(1).uniform(-104, 89, 2000).astype(np.float32),
    (10 ** np.random.default_rng(2).uniform(-38, 38, 2000)).astype(np.float32),
])
ACCURATE = {  # a reference in float64, and ulps
    "exp": (np.exp, 2), "expm1": (np.expm1, 2), "log": (np.log, 2), "log1p": (np.log1p, 2), "tanh": (np.tanh, 3),
    "sigmoid": (sigmoid, 3), "silu": (lambda x: x * sigmoid(x), 3),
    "logsigmoid": (lambda x: np.minimum(x, 0) - np.log1p(np.exp(-abs(x))), 3),
}
BY_NAME = {row.__name__.lower(): row.function for row in elementary.Elementary.__subclasses__()}
UNDERFLOW = "sigmoid", "silu"  # which are 0 where e^x, or e^-x, leaves float32


def pairs():
    """All pairs of special numbers; pairs of all sizes; and small whole numbers"""
    special = [axis.ravel() for axis in np.meshgrid(*[np.array(SPECIAL, np.float32)] * 2)]
    whole = np.random.default_rng(3).integers(-9, 9, (2, 300)).astype(np.float32)
    return [np.concatenate([x, y, z]) for x, y, z in zip(special, (WIDE, WIDE[::-1]), whole)]


@pytest.mark.parametrize("name", ACCURATE)
@np.errstate(all="ignore")
def test_functions_are_accurate_to_a_few_ulps(name):
    reference, ulps = ACCURATE[name]
    function = BY_NAME.get(name) or getattr(np, name)
    operands = (WIDE,) if count_of(function) == 1 else pairs()
    got, exact = applied(function, *operands), reference(*[x.astype(np.float64) for x in operands])
    expected = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    is_finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~is_finite], expected[~is_finite])
    least = np.float32(1e-29 if name in UNDERFLOW else 0)
    spacing = np.spacing(np.maximum(abs(expected[is_finite]), least))
    assert (abs(got[is_finite] - exact[is_finite]) / spacing).max() <= ulps


def losses_of_differences():
    """At their kinks and at infinity, too."""
    x, target = np.random.default_rng(5).standard_normal((2, 5000)).astype(np.float32)
    x[:9] = 0.75, -0.75, 0, math.nan, math.inf, -math.inf, math.inf, 1e30, 0
    target[:9] = 0, 0, 0, 0, 0, 0, math.inf, 0, 1e-40
    for op in (losses.SquaredError, losses.AbsoluteError):
        yield op.losses, (x, target)
        yield from ((op.gradient, (dout, x, target)) for dout in (x[::-1].copy(), np.float32(-3)))


BITS = [  # functions whose formulas have NumPy's bits, and operands if other than `pairs`
    *[(function, None) for function in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, np.abs, np.square, np.sign, np.sqrt,
        np.maximum, np.minimum, activations.Relu.function, elementary.Exp.gradient, elementary.Log.gradient,
        arithmetic.div_backward_b)],
    (np.where, (pairs()[0] > 0, *pairs())), *losses_of_differences(),
]
CHOICES = np.maximum, np.minimum, activations.Relu.function  # whose zero may be either of two


@pytest.mark.parametrize("function, operands", one_in(3, BITS), ids=named)
@np.errstate(all="ignore")
def test_formulas_of_one_rounding_have_numpys_bits(function, operands):
    operands = operands or (np.full_like(pairs()[0], 1.5), *pairs())[-count_of(function):]
    got, expected = applied(function, *operands), function(*operands)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    if function not in CHOICES:
        ok = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[ok], np.signbit(expected)[ok])


def gradients():
    """Functions of several operands, which begin with zeros, infinities, and both."""
    operands = np.random.default_rng(4).normal(0, 3, (2, 5000)).astype(np.float32)
    operands[:, :6] = [[0, 0, -np.inf, 2, 0, 1], [0, 2, -np.inf, 0, -1, 0]]
    yield np.logaddexp, operands, 2e-5, 1e-6


def binary_cross_entropies():
    """Where p is 0, nearly 0 or 1, too; and where logits are large and infinite: there the loss keeps its digits."""
    random = np.random.default_rng(5)
    of_p, of_logits = (random.uniform(0, 1, (3, 5000)).astype(np.float32), random.standard_normal((4, 5000)).astype(np.float32))
    of_p[1:, :8] = [[0, 1, 1e-30, 1e-44, math.nan, 0.5, 0, 1], [0, 1, 1, 1, 0, math.nan, 1, 0]]
    of_logits[1:3, :8] = [[-80, 80, -20, 20, math.nan, math.inf, -math.inf, 0], [0, 1, 0, 1, 0, 1, 0, 0]]
    for op, operands, error in ((BinaryCrossEntropyWithLogits, of_logits, 2e-7), (BinaryCrossEntropy, of_p, 1e-6)):
        for first, function in ((1, op.function), *((0, gradient) for gradient in op.gradients)):
            yield function, operands[first:], 1e-5, error
            if op is BinaryCrossEntropyWithLogits:
                yield function, operands[first:, :8], 1e-5, 1e-40


FINITE = WIDE[~np.isinf(WIDE)]
CLOSE = [*gradients(), *binary_cross_entropies()]  # a function, operands, relative and absolute error


@pytest.mark.parametrize("function, operands, relative, absolute", one_in(3, CLOSE), ids=named)
@np.errstate(all="ignore")
def test_formulas_of_several_operands_are_close_to_numpys(function, operands, relative, absolute):
    np.testing.assert_allclose(applied(function, *operands), function(*operands), relative, absolute)


def test_a_formula_has_no_branch():
    with pytest.raises(TypeError, match="no branch"):
        Recorded.of(lambda x: x if x > 0 else -x, 1)


def test_different_functions_have_kernels_of_different_names():
    """Which are their names in the cache."""
    names = {Formula(function, 2)._kernel("ee").__name__ for function in (
        lambda a, b: a + 2 * b, lambda a, b: a + 3 * b, lambda a, b: 2 * b + a, lambda a, b: 2.0 * b + a)}
    assert len(names) == 3


weighted = Formula(lambda a, b, c: a + np.float32(2) * b + np.float32(4) * c, 3)


def laid_out():
    """Operands in many layouts, which broadcast to (100, 1, 90), more than a block."""
    random = np.random.default_rng(0)
    full = random.standard_normal((3, 100, 1, 90), np.float32)
    row, column, wide = full[1, :1], full[2, :, :, :1], random.standard_normal((90, 1, 200), np.float32)
    for others in ((full[1], full[2]), (full[1], 2.0), (row, 2.0), (column, 2.0), (row, column), (full[1, 0, 0], np.float32(3)),
                   (wide.T[::2], row), (wide.T[::-2], column), (np.array(5, np.float32), full[1, ::-1])):
        for first in (full[0], wide.T[:100], full[0, :, :, ::-1], np.asfortranarray(full[0]), column if others[1] is row else row):
            yield first, *others
    for axes in 4, 6:  # as many as a kernel has loops, and more
        many = random.standard_normal((5,) * axes, np.float32)[:, *[slice(4)] * (axes - 1)]
        yield from ((many, many[::-1], 2.0), (many[:4].T, many[:1], many[:4]))
    apart = random.standard_normal((100, 20 * 90), np.float32)
    slices = [apart[:, ::step][:, :90] for step in (1, 2, -2, 3, 16, 20)]
    slices += [frozen(np.asfortranarray(slices[0])), *(np.broadcast_to(x, (100, 90)) for x in (apart[0, :90], apart[:, :1]))]
    slices += [np.repeat(slices[0], 2, 1)[:, ::2], np.repeat(slices[0], 2, 1)[::-1, ::-2], odd(slices[0]), frozen(slices[1])]
    for first in slices:
        for second in (slices[0], slices[1], slices[7], slices[9], slices[0][:, 0], first[:1], first[:, :1]):
            second = second[:, None] if second.ndim == 1 else second
            yield first, second, 2.0
            yield second, first, first


@pytest.fixture(autouse=True)
def no_cached_plan():
    kernels._plan.cache_clear()


def odd(x):
    """The same, at an unaligned address"""
    memory = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


def frozen(x):
    x = x.view()
    x.flags.writeable = False
    return x


def test_operands_may_have_any_layout():
    for operands in laid_out():
        where = str([getattr(x, "strides", x) for x in operands])
        expected = operands[0] + np.float32(2) * operands[1] + np.float32(4) * operands[2]
        before = [np.copy(x) for x in operands]
        got = weighted.of(*operands)
        np.testing.assert_array_equal(got, expected, where)
        assert all(np.array_equal(x, copy) for x, copy in zip(operands, before)), where
        assert not any(np.shares_memory(got, x) for x in operands if isinstance(x, np.ndarray)), where


def test_slices_are_read_in_place(monkeypatch):
    x = np.random.default_rng(3).standard_normal((100, 400), np.float32)
    operands = [(x[:, :100], x[:, 100:200]), (x[::2, :100], x[50:, 100:200]), (x[::-1, :100], x[0, :100])]
    expected = [weighted.of(a.copy(), b.copy(), 1.0) for a, b in operands]
    monkeypatch.setattr(kernels, "in_order", lambda view: view if view.size <= 100 else pytest.fail(f"copied: {view.shape}"))
    for (a, b), result in zip(operands, expected):
        np.testing.assert_array_equal(weighted.of(a, b, 1.0), result)


def test_the_result_keeps_the_order_of_axes_in_memory():
    silu, x = formula_of(activations.Silu.function, 1), np.ones((60, 90), np.float32)
    assert silu.of(x.T).strides == x.T.strides and silu.of(x).flags.c_contiguous


def test_numpy_computes_what_kernels_do_not_take():
    """Small arrays and other dtypes."""
    large = np.ones(kernels.LARGE, np.float32)
    function = lambda a, b: "NumPy" if isinstance(a, np.ndarray) else a  # noqa: E731
    for a, b in ((large[1:], 1.0), (large.astype(np.float64), 1.0), (large, np.float64(1)), (large, large > 0),
                 (large, np.ones(1)), (large.astype(int), 1)):
        assert elementwise(function, a, b) == "NumPy"
    np.testing.assert_array_equal(elementwise(function, large, 1.0), large)
    FORMULAS.pop(function)
