"""Functions composed of other operations: NumPy's of Tensors, names, and sampling. (PyTorch's are in test_pytorch_samples.py.)"""
import numpy as np
import pytest

import minigrad as mg
from cases import ELEMENTARY
from minigrad import gradcheck

random = np.random.default_rng(7)


NUMPYS = [  # NumPy's own functions, of Tensors and of arrays
    ("dot of vectors", np.dot, (3,), (3,)),
    ("dot of a number", np.dot, (), (2, 3)),
    ("dot of matrices", np.dot, (2, 3), (3, 4)),
    ("dot of a stack and a vector", np.dot, (2, 3, 4), (4,)),
    ("outer", np.outer, (2, 2), (3,)),
    ("split in equal parts", lambda x: np.concatenate(np.split(x, 2, axis=1)), (2, 4)),
    ("split at positions", lambda x: np.concatenate(np.split(x, [1, 3], axis=-1)[::-1], axis=1), (2, 4)),
    ("std", np.std, (3, 4)),
    ("std of columns", lambda x: np.std(x, axis=0, keepdims=True), (3, 4)),
    ("var of a sample", lambda x: np.var(x, 1, ddof=1), (3, 4)),
    ("diag of a matrix", lambda x: np.diag(x, k=1), (3, 4)),
    ("diag of a vector", np.diag, (3,)),
    ("repeat", lambda x: np.repeat(x, [2, 0, 1], axis=1), (2, 3)),
    ("repeat of all", lambda x: np.repeat(x, 2), (2, 3)),
    ("pad", lambda x: np.pad(x, ((1, 0), (2, 3)), constant_values=0.5), (2, 3)),
    ("pad alike", lambda x: np.pad(x, 1), (2, 3)),
    *[(function.__name__, function, (3, 3)) for function in (np.cos, np.trace)],
    ("maximum", np.maximum, (2, 3), (3,)),
    ("outer with an array", lambda x: np.outer(np.float32([1, 2]), x), (3,)),
]


@pytest.mark.parametrize("function, shapes", [(function, shapes) for _, function, *shapes in NUMPYS], ids=[row[0] for row in NUMPYS])
def test_numpys_functions_of_tensors(function, shapes):
    arrays = [random.uniform(0.2, 0.8, shape) for shape in shapes]
    leaves, expected = [mg.tensor(array, requires_grad=True) for array in arrays], function(*arrays)
    np.testing.assert_allclose(function(*leaves).detach().numpy(), expected, atol=1e-12, strict=True)
    single = function(*[mg.tensor(array, dtype=mg.float32) for array in arrays])
    np.testing.assert_allclose(single.numpy(), np.float32(expected), atol=1e-5, strict=True)
    assert gradcheck(function, leaves)


@pytest.mark.parametrize("op", ELEMENTARY, ids=lambda op: op.__name__)
def test_elementary_functions_have_numpys_and_pytorchs_names(op):
    function = op.function
    x = np.array([0.2, 0.4])
    out = getattr(mg, function.__name__)(mg.tensor(x, requires_grad=True))
    assert out.grad_fn.title.lower() == function.__name__  # its name in errors and graphs


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
