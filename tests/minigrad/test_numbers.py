"""Extreme and special numbers: infinities, NaN, empty and masked rows, long sums."""
import contextlib
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast import IS_FAST
from nn import functional as F

by_kernels = pytest.mark.skipif(not IS_FAST, reason="about kernels")

inf, nan = math.inf, math.nan


def gradient(function, x, upstream=None):
    """The output and the gradient of function at x, an array."""
    leaf = mg.tensor(np.asarray(x), requires_grad=True)
    out = function(leaf)
    out.backward(None if upstream is None else mg.tensor(np.asarray(upstream, out.dtype)))
    return out.array, leaf.grad.array


FAR = [-inf, -1e20, -100, 100, 1e20, inf, nan]
EXTREME = {  # a function, an input, the upstream gradient, and what the output and the gradient are
    "softmax": (lambda x: x.softmax(1), [[1e4, 0, -1e4], [-inf, 0, -inf], [-inf, 2, 2]], [[1, 2, 3]] * 3,
                [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], [[0, 0, 0], [0, 0, 0], [0, -0.25, 0.25]]),
    "no softmax": (lambda x: x.softmax(1), [[-inf, -inf], [inf, 0], [nan, 0]], np.ones((3, 2)), [[nan, nan]] * 3, [[nan, nan]] * 3),
    "softmax of nothing": (lambda x: x.softmax(1) * 2.0, np.ones((2, 0)), np.ones((2, 0)), np.ones((2, 0)), np.ones((2, 0))),
    "log_softmax of very unlikely classes": (lambda x: x.log_softmax(0), [0, -500.0], [1, 1], [0, -500], [-1, 1]),
    **{f"gelu {approximate}": (lambda x, approximate=approximate: x.gelu(approximate), FAR, np.ones(7),
                               [0, 0, 0, 100, 1e20, inf, nan], [0, 0, 0, 1, 1, 1, nan]) for approximate in ("none", "tanh")},
    "layer_norm of a constant row": (lambda x: F.layer_norm(x, 4, bias=mg.ones(4, dtype=x.dtype)), [[3.0] * 4], [[1, 2, 3, 4]],
                                     [[1] * 4], np.array([[-1.5, -0.5, 0.5, 1.5]]) / math.sqrt(1e-5)),
    "cross_entropy of ignored targets": (lambda x: F.cross_entropy(x, mg.tensor([-100, -100])), np.ones((2, 3)), 1, nan, np.zeros((2, 3))),
    "cross_entropy without classes": (lambda x: F.cross_entropy(x, mg.tensor([-100, -100])), np.ones((2, 0)), 1, nan, np.ones((2, 0))),
    "cross_entropy of a confident mistake": (lambda x: F.cross_entropy(x, mg.tensor([1])), [[500.0, 0.0]], 1, 500, [[1, -1]]),
    "where": (lambda x: mg.where(x > 0, x.sqrt(), 0.0), [0.0, 4.0], [1, 1], [0, 2], [nan, 0.25]),  # nan is 0 * inf, as in PyTorch
    "masked_fill": (lambda x: x.log().masked_fill(x == 0, 1.0), [0.0, 4.0], [1, 1], [1, math.log(4)], [nan, 0.25]),
    "zero to a negative power": (lambda x: mg.tensor([0.0], dtype=x.dtype) ** x, [-1.0], [1], [inf], [-inf]),
    "mean of nothing": (lambda x: x.mean(), [], 1, nan, []),
    "sum of nothing": (lambda x: x.sum(), [], 1, 0, []),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXTREME)
def test_extreme_numbers(name, dtype):
    function, x, upstream, *expected = EXTREME[name]
    for block in (contextlib.nullcontext, mg.textbook):
        with block():
            found = gradient(function, np.array(x, dtype), upstream)
        for got, wanted in zip(found, expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype, hidden", [(np.float32, -1e9), (np.float32, -3.4e38), (np.float64, -1e300)])
@by_kernels
def test_queries_hidden_by_a_finite_mask_see_all_keys_alike(dtype, hidden, random):
    """As the scores vanish in the sum with the mask."""
    for keys in (5, 200):
        mask = np.zeros((70, keys), dtype)
        mask[[0, 3, 69]] = hidden
        inputs = [random.standard_normal((length, 8)).astype(dtype) for length in (70, keys, keys)]
        dout = mg.tensor(random.standard_normal((70, 8)).astype(dtype))
        found = []
        for block in (contextlib.nullcontext, mg.textbook):
            q, k, v = (mg.tensor(x, requires_grad=True) for x in inputs)
            with block():
                out = F.scaled_dot_product_attention(q, k, v, attn_mask=mg.tensor(mask))
                out.backward(dout)
            found.append([out.array, q.grad.array, k.grad.array, v.grad.array])
        for got, expected in zip(*found):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("bad", [-1, 3, 2**40, -(2**40)])
def test_ids_out_of_range_are_refused_by_name(bad):
    with pytest.raises(IndexError, match=f"targets: index {bad} is out of range; expected 0 to 2"):
        F.cross_entropy(mg.zeros(2, 3), mg.tensor([0, bad]))
    with pytest.raises(IndexError, match=f"ids: index {bad} is out of range; expected 0 to 2"):
        F.embedding(mg.tensor([[bad]]), mg.zeros(3, 2))


KINKS = [  # a function, an input and its gradient
    (lambda x: x.relu(), [0.0, -0.0, nan], [0, 0, 0]),
    (lambda x: x.abs(), [0.0, -2.0, 2.0], [0, -1, 1]),
    (lambda x: F.leaky_relu(x, 0.5), [0.0, -0.0, -2.0], [0.5, 0.5, 0.5]),
    (lambda x: x.max(), [3.0, 1.0, 3.0], [0.5, 0, 0.5]),
    (lambda x: x.max(0).values, [3.0, 1.0, 3.0], [1, 0, 0]),
    (lambda x: x.amin(0), [1.0, 1.0, 3.0], [0.5, 0.5, 0]),
    (lambda x: x.amax(0), [1.0, nan, nan], [0, 0.5, 0.5]),
    (lambda x: x.amin(1), [[1.0, nan], [2.0, 1.0]], [[0, 1], [0, 1]]),
    (lambda x: x.max(), [1.0, nan, 2.0], [0, 1, 0]),
    (lambda x: x.clamp(-1, 2), [-1.0, 2.0, 3.0], [1, 1, 0]),
    (lambda x: x.sign(), [0.0, -2.0, 2.0], [0, 0, 0]),
    (lambda x: x.norm(), [0.0, 0.0, 0.0], [0, 0, 0]),
    (lambda x: x.norm(p=3), [0.0, 0.0, 2.0], [0, 0, 1]),
    (lambda x: mg.grad(x.norm(), x, create_graph=True)[0][0], [0.0, 3.0, 4.0], [0.2, 0, 0]),
    (lambda x: x.norm(p=1), [0.0, -1.0, 2.0], [0, -1, 1]),
    (lambda x: x.std(), [2.0, 2.0, 2.0], [0, 0, 0]),
    (lambda x: x.logsumexp(0), [-inf, -inf, -inf], [0, 0, 0]),
    (lambda x: x.logsumexp(0), [-inf, 1.0, -inf], [0, 1, 0]),
    (lambda x: mg.tensor([0.0, 0.0, 2.0], dtype=mg.float64) ** x, [0.0, 2.0, 0.0], [0, 0, math.log(2)]),
    (lambda x: x ** mg.tensor([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0], [0, 1, 0]),
    (lambda x: x**2, [0.0, -1.0, 2.0], [0, -2, 4]),
    (lambda x: x**0, [0.0, -1.0, 2.0], [0, 0, 0]),
    (lambda x: x**1, [0.0, -1.0, 2.0], [1, 1, 1]),
    (lambda x: x.max(), [1.0, nan, 3.0, nan], [0, 0.5, 0, 0.5]),  # as in PyTorch, whose amin gives NaN to all
    (lambda x: x.amin(0), [1.0, nan, 3.0, nan], [0, 0.5, 0, 0.5]),
]  # fmt: skip


def test_kinks_ties_and_special_numbers_as_documented():
    for row, (function, x, expected) in enumerate(KINKS):
        x = np.array(x)
        _, dx = gradient(function, x, np.ones(np.shape(function(mg.tensor(x, requires_grad=True)).array)))
        np.testing.assert_array_equal(dx, expected, err_msg=f"row {row}, {x}")


SILENT = {  # function, a float32 input
    "exp": (lambda x: x.exp(), 89.0),
    "sqrt backward": (lambda x: x.sqrt(), 0.0),
    "pow backward": (lambda x: mg.tensor(-2.0) ** x, 1.5),
    "log": (lambda x: x.log(), 0.0),
    "divide": (lambda x: 1 / x, 0.0),
    "divide zero": (lambda x: x / x, 0.0),
    "remainder": (lambda x: x % 0.0 + x // 0.0, 1.0),
    "multiply": (lambda x: x * x, 1e30),
    "add": (lambda x: x + x, 3e38),
    "subtract": (lambda x: x - x, inf),
    "cast": (lambda x: (x.double() * 1e300).float(), 1.0),
    "norm": (lambda x: x.norm(3.0), 1e30),
    "var": (lambda x: x.reshape(1).var(), inf),
    "softplus": (lambda x: F.softplus(x, beta=1e30), 1e30),
    "sigmoid": (lambda x: x.sigmoid(), -100.0),
    "logsumexp": (lambda x: x.reshape(1).logsumexp(0), inf),
}  # fmt: skip


@pytest.mark.parametrize("function, x", SILENT.values(), ids=SILENT)
def test_infinity_and_nan_are_values_without_warning(function, x):
    x = mg.tensor(x, requires_grad=True)
    with np.errstate(all="raise"):
        y = function(x)
        mg.grad(y, x, create_graph=True)
        y.backward()
        step = mg.compile(lambda x: function(x))
        for _ in range(2):  # captured, replayed
            step(x.detach())
        with pytest.raises(FloatingPointError):
            np.exp(np.float32(89))  # the user's own NumPy is as it was


def test_numbers_too_large_for_a_dtype_are_converted_without_warning():
    with np.errstate(all="raise"):
        assert mg.tensor([1e300]).tolist() == [inf] == mg.tensor([1e300], dtype=mg.float64).float().tolist()
        assert mg.tensor([nan]).long().dtype == mg.int64
        x, large = mg.zeros(3), mg.tensor(1e300, dtype=mg.float64)
        x[0], x[1:] = large, [1e300, large]
        assert x.tolist() == 3 * [inf]


def test_an_operation_that_fails_leaves_numpys_warnings_on():
    with np.errstate(all="raise"):
        with pytest.raises(ValueError, match="broadcast"):
            mg.ones(2) + mg.ones(3)
        with pytest.raises(FloatingPointError):
            np.exp(np.float32(89))


def test_a_cast_casts_the_gradient_back():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    wide = x.double()
    third = np.array([1 / 3, 2 / 3])
    (dx,) = mg.grad(wide * wide, x, mg.tensor(third), create_graph=True)
    assert wide.dtype == mg.float64 and dx.dtype == mg.float32
    np.testing.assert_allclose(dx.array, third * [2, 4], rtol=1e-6)
    np.testing.assert_allclose(mg.grad(dx, x, mg.ones(2))[0].array, 2 * third, rtol=1e-6)


def test_the_logarithm_of_a_number_has_all_digits_on_the_tape():
    x = mg.tensor([0.5], dtype=mg.float64, requires_grad=True)
    (dx,) = mg.grad(3.0**x, x, mg.ones(1), create_graph=True)
    assert dx.item() == pytest.approx(3**0.5 * math.log(3), rel=1e-15)


def test_nan_as_a_bound_is_the_result():
    x, bound = mg.tensor([0.0, 2.0, nan]), mg.tensor([nan, 1.0, 1.0])
    for out in (x.clamp(nan), x.clamp(max=nan), x.clamp(nan, mg.ones(3)), mg.tensor([1, 2, 3]).clamp(max=mg.full((3,), nan))):
        assert out.dtype == mg.float32 and np.isnan(out.array).all()
    np.testing.assert_array_equal(x.clamp(bound).array, [nan, 2, nan])
    np.testing.assert_array_equal(x.clamp(max=bound).array, [nan, 1, nan])


def test_scalars_never_widen_float32():
    x = mg.tensor([1.0, 2.0])
    for scalar in (2, 2.0, np.float64(2), np.int64(2), np.array(2.0), True):
        for y in (x * scalar, scalar * x, x / scalar, scalar - x, x**scalar):
            assert y.dtype == mg.float32


@pytest.mark.parametrize("dtype, x", [(np.float32, [-10, -20, -80, 0, 20]), (np.float64, [-50, -700, 0, 40])])
def test_sigmoid_keeps_its_digits_far_out(dtype, x):
    x = np.array(x, dtype)
    exact = np.array([1 / (1 + math.exp(-v)) for v in x.astype(np.float64)])
    for function, expected in ((lambda x: x.sigmoid(), exact), (F.silu, x * exact)):
        np.testing.assert_allclose(function(mg.tensor(x)).array, expected, rtol=4 * np.finfo(dtype).eps)
    _, dx = gradient(F.softplus, x, np.ones(len(x)))
    np.testing.assert_allclose(dx[: -1], exact[:-1], rtol=4 * np.finfo(dtype).eps)


def test_booleans_stay_booleans():
    triangle = mg.ones(2, 2, dtype=mg.bool).tril()
    assert triangle.dtype == bool and triangle.masked_fill(triangle, 0).dtype == bool
    assert triangle.tolist() == [[True, False], [True, True]]


def test_numpy_scalars_as_options_never_widen_float32():
    x, number = mg.tensor([1.0, 2.0]), np.float64
    results = (F.softplus(x, number(2)), x.norm(number(3)), F.dropout(x, number(0.5)), x.var(correction=number(1)),
               mg.cat([mg.tensor([1]), x]), mg.stack([x, np.array([1, 2])]), mg.tensor([3, 4]).norm())
    assert all(result.dtype == mg.float32 for result in results)


def test_floor_division_is_that_of_python():
    assert (mg.tensor([1.0], dtype=mg.float64) // 0.1).item() == 1.0 // 0.1 == 9.0
    _, db = gradient(lambda b: mg.tensor([1.0], dtype=mg.float64) % b, [0.1], [1])
    assert db == -9
    for divide in (lambda x: x // 0, lambda x: x % mg.tensor([0])):
        with pytest.raises(ZeroDivisionError, match="integer division by zero"):
            divide(mg.tensor([1]))
        assert divide(mg.tensor([1])[:0]).shape == (0,)  # nothing is divided


def test_single_numbers_and_empty_tensors_have_softmax_attention_and_positions():
    x = mg.ones(2, 0, requires_grad=True)
    (dx,) = mg.grad(x.log_softmax(1), x, mg.ones(2, 0), create_graph=True)
    assert dx.shape == (2, 0)
    out = F.scaled_dot_product_attention(mg.ones(1, 3, 2), mg.ones(1, 0, 2), mg.ones(1, 0, 4))
    assert out.shape == (1, 3, 4) and not out.any()
    assert mg.tensor(1.0).scatter_add(0, mg.tensor([0, 0, 0]), mg.tensor([1.0, 2.0, 3.0])).item() == 7.0
    assert mg.tensor([1.0, 2.0]).gather(0, mg.tensor(1)).item() == 2.0


OF_A_DIM = {
    **{name: lambda x, dim, name=name: getattr(x, name)(dim=dim) for name in (
        "sum mean amax amin any all logsumexp var std argmax argmin max min softmax log_softmax "
        "cumsum sort argsort squeeze").split()},
    **{f"norm {p}": lambda x, dim, p=p: x.norm(p, dim) for p in (0, 1, 2, 3, inf)},
    "normalize": lambda x, dim: F.normalize(x, dim=dim),
    "flatten": lambda x, dim: x.flatten(dim), "sum of several": lambda x, dim: x.sum((dim,)),
}


def test_a_single_number_has_no_axis_1():
    x = mg.tensor(2.0)
    for function in OF_A_DIM.values():
        for dim in (0, -1):
            function(x, dim)
        for dim in (1, -2, 7):
            with pytest.raises(IndexError, match=rf"dim {dim} is out of range for a tensor of shape \(\)"):
                function(x, dim)


def test_arrays_are_accepted_as_constants():
    weight, ids = mg.eye(3), np.array([2, 0])
    assert F.embedding(ids, weight).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert F.cross_entropy(weight[:2], ids).item() == F.cross_entropy(weight[:2], mg.tensor(ids)).item()
    assert mg.zeros(2).copy_(ids).tolist() == [2, 0] and mg.tensor([1, 2]).copy_(mg.tensor([1.7, 2.2])).tolist() == [1, 2]


def test_numpy_integers_are_integers():
    x, one = mg.tensor([[1.0, 2.0], [3.0, 4.0]]), np.int64(1)
    assert x.sum(one).tolist() == [3, 7]
    assert len(x.split(one)) == 2 and x.movedim(one, np.int64(0)).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("approximate, activation", [("none", "gelu"), ("tanh", "gelu_tanh")])
@by_kernels
def test_gelu_and_its_gradient_are_never_subnormal(approximate, activation):
    """A matrix product with a few subnormal numbers took 5 times as long. In float64 these are not subnormal."""
    x = mg.tensor(np.linspace(-15, -5, 5000, dtype=np.float32), requires_grad=True)
    dout = mg.full((5000,), 1e-3)
    out = x.gelu(approximate)
    out.backward(dout)
    rows, one, zero = x.detach().reshape(-1, 1).requires_grad_(), mg.ones(1, 1), mg.zeros(1)
    F.mlp(rows, one, zero, one, zero, activation).backward(dout.reshape(-1, 1))
    for values in out.detach(), x.grad, rows.grad:
        sizes = np.abs(values.array)
        assert ((sizes == 0) | (sizes >= np.finfo(np.float32).tiny)).all() and np.count_nonzero(sizes) > 1000
    exact = mg.tensor(np.linspace(-15, -13.2 if approximate == "none" else -12, 9), dtype=mg.float64).gelu(approximate).array
    assert (exact < 0).all() and (exact > -np.finfo(np.float32).tiny).any()


def integers(function):
    """What function(x) does to x, two integers."""
    x = mg.zeros(2, dtype=mg.int64)
    function(x)
    return x


def words(*values):
    return np.array(values, np.uint64)


LARGE = 2**63
TOO_LARGE = {  # for int64
    "tensor": lambda: mg.tensor(LARGE), "a list": lambda: mg.tensor([LARGE]), "a list with others": lambda: mg.tensor([[LARGE, 1], [2, 3]]),
    "the least but one": lambda: mg.tensor([-LARGE - 1, 5]), "larger": lambda: mg.tensor(10**30), "with its dtype": lambda: mg.tensor([LARGE, 1], dtype=mg.int64),
    "uint64": lambda: mg.tensor(words(LARGE)), "a scalar of NumPy's": lambda: mg.tensor(np.uint64(LARGE)), "from_numpy": lambda: mg.from_numpy(words(1, LARGE)),
    "as_tensor": lambda: mg.as_tensor(words(LARGE)), "LongTensor": lambda: mg.LongTensor([LARGE]), "new_tensor": lambda: a_one.new_tensor([LARGE]),
    "full": lambda: mg.full((2,), LARGE), "full with its dtype": lambda: mg.full((2,), LARGE, dtype=mg.int64), "full_like": lambda: mg.full_like(a_one, LARGE),
    "new_full": lambda: a_one.new_full((2,), LARGE), "an item": lambda: integers(lambda x: x.__setitem__(0, LARGE)),
    "items": lambda: integers(lambda x: x.__setitem__(slice(None), [LARGE, 1])), "items of uint64": lambda: integers(lambda x: x.__setitem__(0, words(LARGE)[0])),
    "fill_": lambda: integers(lambda x: x.fill_(LARGE)), "copy_": lambda: integers(lambda x: x.copy_([LARGE, 1])),
    "data": lambda: integers(lambda x: setattr(x, "data", [LARGE, 1])), "add_": lambda: integers(lambda x: x.add_(LARGE)),
    "arange": lambda: mg.arange(LARGE), "arange from": lambda: mg.arange(LARGE, LARGE + 2), "arange with its dtype": lambda: mg.arange(0.0, 1e19, 1e18, dtype=mg.int64),
    "arange by": lambda: mg.arange(0, 1, LARGE), "linspace": lambda: mg.linspace(0, LARGE, 3, dtype=mg.int64),
    "+": lambda: a_one + LARGE, "-": lambda: LARGE - a_one, "*": lambda: a_one * LARGE, "**": lambda: a_one**LARGE, "//": lambda: a_one // LARGE,
    "+ of booleans": lambda: (a_one > 0) + LARGE, "+ a scalar of NumPy's": lambda: a_one + np.uint64(LARGE), "+ uint64": lambda: words(LARGE) + a_one,
    "maximum": lambda: a_one.maximum(LARGE), "where": lambda: mg.where(a_one > 0, LARGE, a_one), "where of two": lambda: mg.where(a_one > 0, 1, LARGE),
    "masked_fill": lambda: a_one.masked_fill(a_one > 0, LARGE), "scatter": lambda: a_one.scatter(0, mg.tensor([0]), LARGE),
    "pad": lambda: F.pad(a_one, (1, 1), value=LARGE), "clamp": lambda: a_one.clamp(LARGE),
}
a_one = mg.tensor([1])


@pytest.mark.parametrize("enter", TOO_LARGE.values(), ids=TOO_LARGE)
def test_integers_that_do_not_fit_are_refused(enter):
    with pytest.raises(OverflowError, match=r"^[\w ]+: (-?\d{19,31}|an integer of 100 bits) does not fit into int64, from -2\^63 to 2\^63 - 1; use floats$"):
        enter()


def test_large_numbers_that_fit():
    for got, expected, dtype in (
        (mg.tensor([LARGE - 1, -LARGE]), [LARGE - 1, -LARGE], mg.int64), (mg.tensor(words(LARGE - 1)), [LARGE - 1], mg.int64),
        (mg.tensor([LARGE, 1.5]), [2.0**63, 1.5], mg.float32), (mg.tensor([LARGE, 2], dtype=mg.float32), [2.0**63, 2], mg.float32),
        (mg.Tensor([2 * LARGE]), [2.0**64], mg.float32), (mg.full((1,), LARGE, dtype=mg.float64), [2.0**63], mg.float64),
        (mg.tensor([1e30]), [1e30], mg.float32), (mg.tensor([1.0]) + LARGE, [2.0**63], mg.float32), (a_one / LARGE, [2.0**-63], mg.float32),
        (a_one < LARGE, [True], mg.bool), (integers(lambda x: x.fill_(LARGE - 1)), [LARGE - 1] * 2, mg.int64),
        (mg.where(mg.tensor([True]), LARGE, mg.ones(1)), [2.0**63], mg.float32), (mg.arange(LARGE - 2, LARGE - 1), [LARGE - 2], mg.int64),
    ):
        assert got.dtype == dtype and got.tolist() == pytest.approx(expected, rel=1e-6 if dtype == mg.float32 else 0)
    x = mg.zeros(2)
    x[0], x[1:] = LARGE, [LARGE]
    assert x.tolist() == [2.0**63] * 2


def test_a_boolean_to_a_boolean_power_is_a_boolean():
    x, y = mg.tensor([True, False]), mg.tensor([[True], [False]])
    for got, expected in ((x**True, [True, False]), (True**x, [True, True]), (x**y, [[True, False], [True, True]])):
        assert got.tolist() == expected and got.dtype == mg.bool
    assert (x**2).tolist() == [1, 0] and (x**2).dtype == (x // True).dtype == mg.int64
