"""Functions composed of other operations: against slow references, and their gradients against finite differences.

At the end sampling, which has no gradient.
"""
import math

import numpy as np
import pytest

import minigrad as mg
from cases import ELEMENTARY
from minigrad import gradcheck
from minigrad.ops.windows import windows_of

random = np.random.default_rng(7)


def normal(*shape):
    return random.standard_normal(shape)


def far_from_integers(*shape):
    return random.integers(-3, 3, shape) + random.uniform(0.2, 0.8, shape)


NUMPYS = [  # NumPy's own functions, of Tensors and of arrays
    ("dot of vectors", np.dot, (3,), (3,)),
    ("dot of a number", np.dot, (), (2, 3)),
    ("dot of matrices", np.dot, (2, 3), (3, 4)),
    ("dot of a stack and a vector", np.dot, (2, 3, 4), (4,)),
    ("dot of stacks", np.dot, (2, 3), (2, 3, 4)),
    ("outer", np.outer, (2, 2), (3,)),
    ("vstack", lambda x, y: np.vstack([x, y]), (3,), (2, 3)),
    ("hstack", lambda x, y: np.hstack((x, y)), (2, 3), (2, 1)),
    ("split in equal parts", lambda x: np.vstack(np.split(x, 2, axis=1)), (2, 4)),
    ("split at positions", lambda x: np.hstack(np.split(x, [1, 3], axis=-1)[::-1]), (2, 4)),
    ("std", np.std, (3, 4)),
    ("std of columns", lambda x: np.std(x, axis=0, keepdims=True), (3, 4)),
    ("var of a sample", lambda x: np.var(x, 1, ddof=1), (3, 4)),
    ("diag of a matrix", lambda x: np.diag(x, k=1), (3, 4)),
    ("diag of a vector", np.diag, (3,)),
    ("repeat", lambda x: np.repeat(x, [2, 0, 1], axis=1), (2, 3)),
    ("repeat of all", lambda x: np.repeat(x, 2), (2, 3)),
    ("tile", lambda x: np.tile(x, (2, 1, 3)), (2, 3)),
    ("tile by a number", lambda x: np.tile(x, 2), (2, 3)),
    ("pad", lambda x: np.pad(x, ((1, 0), (2, 3)), constant_values=0.5), (2, 3)),
    ("pad alike", lambda x: np.pad(x, 1), (2, 3)),
]
# A function of tensors, the same function of arrays, and the inputs.
COMPOSED = {
    "frac": (mg.frac, lambda x: x - np.trunc(x), far_from_integers(3, 4)),
    "nan_to_num": (
        lambda x: (x + mg.tensor([0, math.nan, math.inf, -math.inf], dtype=mg.float64)).nan_to_num(1.0, 2.0, -3.0),
        lambda x: np.stack([x[:, 0], 0 * x[:, 0] + 1, 0 * x[:, 0] + 2, 0 * x[:, 0] - 3], 1), normal(3, 4)),
    "cumprod of a middle axis": (
        lambda x: x.cumprod(-2), lambda x: np.stack([x[:, 0], x[:, 0] * x[:, 1], x[:, 0] * x[:, 1] * x[:, 2]], 1),
        normal(2, 3, 4)),
    "logcumsumexp of the first axis": (
        lambda x: x.logcumsumexp(0), lambda x: np.log([np.exp(x[: i + 1]).sum(0) for i in range(3)]), normal(3, 4)),
    "median(dim)": (lambda x: x.median(1).values, lambda x: np.array([sorted(row)[1] for row in x]), normal(3, 4)),
    "var_mean": (
        lambda x: mg.stack(mg.var_mean(x, axis=1, correction=0)), lambda x: np.stack([x.var(1), x.mean(1)]), normal(3, 4)),
    "std_mean": (
        lambda x: mg.stack(mg.std_mean(x)), lambda x: np.stack([x.std(ddof=1), x.mean()]), normal(3, 4)),
    "std_mean unbiased": (
        lambda x: mg.stack(mg.std_mean(x, False)), lambda x: np.stack([x.std(), x.mean()]), normal(3, 4)),
    "trace": (mg.Tensor.trace, lambda x: x[0, 0] + x[1, 1] + x[2, 2], normal(3, 4)),
    "index_add": (lambda x, y: x.index_add(-1, mg.tensor([2, 0, 2]), y, alpha=-0.5),
                  lambda x, y: x - 0.5 * np.stack([y[:, 1], 0 * y[:, 0], y[:, 0] + y[:, 2], 0 * y[:, 0]], 1), normal(2, 4), normal(2, 3)),
    "scatter": (lambda x, y: x.scatter(-1, mg.tensor([[3, 0], [1, 2]]), y),
                lambda x, y: np.array([[y[0, 1], x[0, 1], x[0, 2], y[0, 0]], [x[1, 0], y[1, 0], y[1, 1], x[1, 3]]]), normal(2, 4), normal(3, 3)),
    "scatter a number": (
        lambda x: mg.scatter(x, 0, mg.tensor([[1, 1]]), 2.5), lambda x: np.array([x[0], [2.5, 2.5, x[1, 2]]]), normal(2, 3)),
    "scatter of a single number": (
        lambda x, y: x.scatter(0, mg.tensor(0), y), lambda x, y: 0 * x + y, normal(), normal()),
    "take_along_dim of a single number": (lambda x: mg.take_along_dim(x, mg.tensor(0), 0), lambda x: x, normal()),
    "addcmul": (lambda a, b, c: mg.addcmul(a, b, c, value=-0.5), lambda a, b, c: a - 0.5 * b * c, *(normal(3, 1) for _ in "abc")),
    "addcdiv": (
        lambda a, b, c: a.addcdiv(b, c, value=3), lambda a, b, c: a + 3 * b / c, normal(3, 4), normal(4), far_from_integers(3, 1)),
    **{f"np.{name}": (function, function, *(normal(*shape) for shape in shapes)) for name, function, *shapes in NUMPYS},
    "hstack": (lambda a, b: mg.hstack([a, b]), lambda a, b: np.hstack([a, b]), normal(2, 3), normal(2, 1)),
    "hstack of vectors": (lambda a, b, c: mg.hstack([a, b, c]), lambda a, b, c: np.hstack([a, b, c]), normal(3), normal(), normal(1)),
    "vstack": (lambda a, b: mg.vstack((a, b)), lambda a, b: np.vstack([a, b]), normal(3), normal(2, 3)),
    "split of a negative axis": (
        lambda x: mg.cat(x.split([1, 3], -2)[::-1], 1), lambda x: np.concatenate([x[:, 1:], x[:, :1]], 1), normal(2, 4, 3)),
    "split by a size, of a negative axis": (
        lambda x: mg.cat(mg.split(x, 2, -1)[::-1], 1), lambda x: x[:, [4, 2, 3, 0, 1]], normal(2, 5)),
    "chunk of a negative axis": (
        lambda x: mg.stack(x.chunk(3, -2)), lambda x: np.stack([x[:, :2], x[:, 2:4], x[:, 4:]]), normal(2, 6, 3)),
    "ravel": (mg.ravel, np.ravel, normal(2, 3)),
    "repeat_interleave": (
        lambda x: x.repeat_interleave(mg.tensor([2, 0, 1]), -2), lambda x: np.stack([x[0], x[0], x[2]]), normal(3, 4)),
    "unfold": (lambda x: x.unfold(-1, 3, 2), lambda x: np.stack([x[:, 0:3], x[:, 2:5]], 1), normal(2, 6)),
    "meshgrid": (
        lambda x, y: mg.stack(mg.meshgrid(x, y)),
        lambda x, y: np.array([[[u for _ in y] for u in x], [list(y) for _ in x]]), normal(2), normal(3)),
    "meshgrid xy": (
        lambda x, y: mg.stack(mg.meshgrid(x, y, indexing="xy")),
        lambda x, y: np.array([[list(x) for _ in y], [[v for _ in x] for v in y]]), normal(2), normal(3)),
    "tensordot": (lambda a, b: mg.tensordot(a, b, ((-2, 2), (2, 0))), lambda a, b: np.einsum("ijk,knj->in", a, b), normal(3, 4, 5), normal(5, 2, 4)),
    "kron": (lambda a, b: mg.kron(a, mg.stack([b, b * 0])), lambda a, b: np.kron(a, np.stack([b, b * 0])), normal(2, 3), normal(4)),
    "unique": (mg.unique, lambda x: np.array(sorted(x.ravel())), normal(2, 3)),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_value_and_gradients(name):
    function, reference, *arrays = COMPOSED[name]
    leaves = [mg.tensor(array, requires_grad=True) for array in arrays]
    out = function(*leaves)
    expected = np.asarray(reference(*arrays))
    assert out.shape == expected.shape
    np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-12)
    single = function(*[mg.tensor(array, dtype=mg.float32) for array in arrays])
    assert single.dtype == (mg.float64 if name == "nan_to_num" else mg.float32)
    np.testing.assert_allclose(single.numpy(), expected, atol=1e-5)
    assert gradcheck(function, leaves)


@pytest.mark.parametrize("op", ELEMENTARY, ids=lambda op: op.__name__)
def test_elementary_functions_have_numpys_and_pytorchs_names(op):
    function = op.function
    x = np.array([1.2, 1.5]) if function is np.arccosh else np.array([0.2, 0.4])
    for name in (function.__name__, function.__name__.replace("arc", "a")):
        assert getattr(mg, name)(mg.tensor(x)).tolist() == function(x).tolist()
    out = getattr(mg, function.__name__)(mg.tensor(x, requires_grad=True))
    assert out.grad_fn.title.lower() == function.__name__  # its name in errors and graphs


def test_numpys_functions_know_tensors():
    x, y = mg.tensor([[0.2, 0.5], [0.3, 0.1]]), mg.tensor([0.4, 0.6])
    for function in (np.arctan, np.log2, np.cosh, np.nan_to_num, np.trace):
        assert function(x).numpy() == pytest.approx(function(x.numpy()))
    for function in (np.arctan2, np.logaddexp, np.kron):
        assert function(x, y).numpy() == pytest.approx(function(x.numpy(), y.numpy()))
        assert function(x.numpy(), y).numpy() == pytest.approx(function(x.numpy(), y.numpy()))
    assert np.cumprod(x, axis=1).numpy() == pytest.approx(np.cumprod(x.numpy(), axis=1))
    assert np.tensordot(x, y, axes=1).numpy() == pytest.approx(np.tensordot(x.numpy(), y.numpy(), axes=1))


def test_scatter_keeps_the_dtype():
    index = mg.tensor([1, 1])
    assert mg.arange(3).scatter(0, index, 7).tolist() == [0, 7, 2]
    assert mg.zeros(3).scatter_(0, index, 7).dtype == mg.float32
    assert mg.tensor([False] * 3).scatter(0, index, 1).tolist() == [False, True, False]


@pytest.mark.parametrize("shape, index", [((3,), (0,)), ((0,), (0,)), ((2, 3), (0, 3)), ((2, 3), (2, 0)), ((), (0,))])
def test_scatter_of_nothing_is_on_the_tape(shape, index):
    x, src = mg.ones(shape), mg.ones(index, requires_grad=True)
    out = x.scatter(-1 if index[-1:] == (0,) else 0, mg.zeros(index, dtype=mg.int64), src)
    (out * out).sum().backward()
    assert out.tolist() == x.tolist() and src.grad.shape == index


def test_many_windows_of_few_elements_are_a_view():
    x = np.ones(2000)
    assert np.shares_memory(windows_of(x, 1000, 1), x)


# ------------------------------------------------------------------------------------------------ sampling

WEIGHTS = np.array([0.5, 0.0, 1.5, 2.0])


def test_samples_come_as_often_as_their_weights_say():
    mg.manual_seed(0)
    drawn = mg.tensor(WEIGHTS).multinomial(20_000, replacement=True)
    assert (drawn.shape, drawn.dtype) == ((20_000,), mg.int64)
    shares = np.bincount(drawn.numpy(), minlength=4) / 20_000
    np.testing.assert_allclose(shares, WEIGHTS / 4, atol=0.015)  # four standard deviations
    assert shares[1] == 0


def test_the_lowest_draw_gives_the_first_position_with_a_weight(monkeypatch):
    class Lowest:
        random = staticmethod(np.zeros)

    monkeypatch.setattr(mg.random, "generator", lambda own: Lowest)
    assert mg.tensor([0.0, 1.0]).multinomial(2, replacement=True).tolist() == [1, 1]


def test_samples_without_replacement():
    """The first comes as often as its weight says, the second as often as its weight among those left; none comes twice."""
    mg.manual_seed(0)
    first, second = mg.tensor(WEIGHTS).expand(20_000, 4).multinomial(2).numpy().T
    assert (first != second).all()
    shares = np.zeros((4, 4))
    np.add.at(shares, (first, second), 1 / 20_000)
    p = WEIGHTS / 4
    np.testing.assert_allclose(shares, np.outer(p, p) / (1 - p[:, None]) * (1 - np.eye(4)), atol=0.015)
    everything = mg.tensor([[1e-300, 1.0, 1e-310, 1e300]], dtype=mg.float64).multinomial(4)
    assert sorted(everything[0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("replacement", [True, False])
def test_samples_of_rows_follow_the_seed(replacement):
    weights = mg.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    assert weights.multinomial(1, replacement).tolist() == [[1], [0]]
    draws = []
    for _ in range(2):
        mg.manual_seed(3)
        draws.append(mg.multinomial(mg.ones(5, 9), num_samples=4, replacement=replacement).tolist())
    assert draws[0] == draws[1] != mg.ones(5, 9).multinomial(4, replacement).tolist()


def test_randint_like():
    for x in (mg.zeros(40, 5), mg.zeros(40, 5, dtype=mg.int64)):
        drawn = mg.randint_like(x, 2, 5)
        assert (drawn.shape, drawn.dtype, set(drawn.numpy().ravel())) == ((40, 5), x.dtype, {2, 3, 4})
        for drawn in (mg.randint_like(x, 2), mg.randint_like(x, high=2)):
            assert set(drawn.numpy().ravel()) == {0, 1}
    assert mg.randint_like(x, 3, dtype=mg.float64).dtype == mg.float64
