"""Every leak is found, and nothing else is called a leak."""
import random as python_random

import numpy as np
import pytest

import minigrad as mg
import models
import nn
from minigrad.gradcheck import is_causal

T, C = 5, 3


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def leaf(*shape):
    return mg.tensor(drawn(*shape), requires_grad=True)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class LooksAhead(mg.Function):
    """The identity, with a backward that is one token off."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, dout):
        return mg.tensor(np.roll(dout.array, 1, -2))


def running_mean(x):
    return np.cumsum(x, -2) / np.arange(1, x.shape[-2] + 1)[:, None]


def attention(mask_value, hidden=None, stable=True, is_added=False):
    """Causal attention of x on itself. Masked scores become mask_value, or get it added if is_added; `hidden` is the mask."""

    def fn(x):
        n = x.shape[-2]
        is_hidden = np.triu(np.ones((n, n), bool), 1) if hidden is None else hidden
        products = x @ np.swapaxes(x, -1, -2)
        scores = np.where(is_hidden, mask_value + is_added * products, products)
        e = np.exp(scores - scores.max(-1, keepdims=True)) if stable else np.exp(scores.astype(float)) * ~is_hidden
        return e / e.sum(-1, keepdims=True) @ x

    return fn


def but(*shown):
    """The causal mask, with a few places shown that it should hide."""
    hidden = np.triu(np.ones((T, T), bool), 1)
    hidden[tuple(zip(*shown))] = False
    return hidden


def with_leak(leak):
    """A running mean to which leak(x) is added."""
    return lambda x: running_mean(x) + leak(x)


def at(t, values):
    out = np.zeros((T, C))
    out[t] = values
    return out


CAUSAL = {
    "running mean": running_mean,
    "-inf": attention(-np.inf),
    "-1e9": attention(-1e9),
    "-1e9 is added": attention(-1e9, is_added=True),
    "-100": attention(-100.0),  # e^-100 = 4e-44 of a token is no number's last digit
    "overflows, and is masked": attention(0.0, stable=False, is_added=True),
    "hides itself": attention(-np.inf, np.triu(np.ones((T, T), bool)) & (np.arange(T) > 0)),
    "NaN where all is hidden": attention(-np.inf, np.triu(np.ones((T, T), bool))),
    "a cumulative sum from the end": lambda x: x.sum(0) - np.cumsum(x[::-1], 0)[::-1] + x,
    "layer norm": lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
    "element by element": np.tanh,
    "convolution by FFT": lambda x: np.fft.irfft(np.fft.rfft(x, 2 * T, 0) * np.fft.rfft(drawn(T, 1), 2 * T, 0), 2 * T, 0)[:T],
    "relative to a maximum of all": lambda x: np.log(np.cumsum(np.exp(x / 1e3 - x.max() / 1e3), 0)) + x.max() / 1e3,
}
LEAKS = {  # function, the first pair that shows it
    "mean over time": (lambda x: x - x.mean(0), (0, 1)),
    "batch norm": (lambda x: (x - x.mean(0)) / x.std(0), (0, 1)),
    "from behind": (lambda x: running_mean(x[::-1])[::-1], (0, 1)),
    "one place of the mask": (attention(-np.inf, but((2, 3))), (2, 3)),
    "one place far away": (attention(-np.inf, but((0, T - 1))), (0, T - 1)),
    "one ahead": (attention(-np.inf, np.triu(np.ones((T, T), bool), 2)), (0, 1)),
    "no mask": (attention(-np.inf, np.zeros((T, T), bool)), (0, 1)),
    "-20": (attention(-20.0), (0, 1)),
    "-100 is added": (attention(-100.0, is_added=True), (0, 1)),
    "the last sees the last": (with_leak(lambda x: at(T - 2, x[T - 1])), (T - 2, T - 1)),
    "1e-12": (with_leak(lambda x: 1e-12 * at(1, x[3])), (1, 3)),
    "one channel": (with_leak(lambda x: at(1, [0, 0, x[3, 2]])), (1, 3)),
    "a dead relu": (with_leak(lambda x: at(1, np.maximum(x[3] - 20, 0))), (1, 3)),
    "a dead relu below": (with_leak(lambda x: at(1, np.minimum(x[3] + 20, 0))), (1, 3)),
    "a step": (with_leak(lambda x: at(1, np.floor(x[3] / 10))), (1, 3)),
    "NaN of the future": (with_leak(lambda x: at(1, np.sqrt(x[3]))), (1, 3)),
    "the largest of all": (lambda x: x + x.max(), (0, 1)),
}


@pytest.mark.parametrize("x", [drawn(T, C), 0.02 * drawn(T, C), np.ones((T, C)), drawn(T, C).astype("float32")],
                         ids=["normal", "small", "ones", "float32"])
def test_what_is_causal_and_what_leaks(x):
    with np.errstate(all="ignore"):
        for name, function in CAUSAL.items():
            verdict = is_causal(function, x + np.arange(C) if x.std() == 0 and name == "layer norm" else x)
            assert verdict and verdict.pair is None and str(verdict).startswith("causal: none of 5 outputs"), name
        for name, (function, pair) in LEAKS.items() if x.dtype == float and x.max() >= 1 else ():
            verdict = is_causal(function, x)
            assert not verdict and verdict.pair == pair, (name, verdict)
            assert str(verdict).startswith(f"not causal: output {pair[0]} changes with token {pair[1]}")


def test_a_batch():
    assert is_causal(running_mean, drawn(2, 3, C))
    leak = is_causal(attention(-np.inf, np.triu(np.ones((3, 3), bool), 2)), drawn(2, 3, C))
    assert leak.pair == ((0, 0), (0, 1)) and leak.mixed is None and "output (0, 0) changes with token (0, 1)" in str(leak)
    mixed = is_causal(lambda x: running_mean(x) + np.roll(running_mean(x), 1, 0), drawn(2, 3, C))
    assert mixed and mixed.mixed == ((0, 0), (1, 0)) and "sequences of the batch are mixed: output (0, 0)" in str(mixed)
    later = is_causal(lambda x: running_mean(x) + x[::-1].mean(1, keepdims=True), drawn(2, 3, C))
    assert later.pair == ((0, 0), (1, 1))


def test_time_may_be_another_axis():
    def fn(x):  # (T, B, C)
        return np.cumsum(x, 0)

    assert is_causal(fn, drawn(4, 2, C), axis=0) and not is_causal(lambda x: fn(x[::-1])[::-1], drawn(4, 2, C), axis=0)
    assert is_causal(fn, drawn(4, 2, C)).mixed  # read as (B, T, C)
    with pytest.raises(IndexError):
        is_causal(fn, drawn(4, 2, C), axis=2)


IDS = np.array([3, 1, 4, 1, 5])
OF_IDS = {
    "cumsum": (np.cumsum, None),
    "cumsum from behind": (lambda ids: np.cumsum(ids[::-1])[::-1], (0, 1)),
    "asks for one id": (lambda ids: np.cumsum(ids) + (np.roll(ids, -1) == 2) * (np.arange(T) == 1), (1, 2)),
    "asks for another": (lambda ids: np.eye(6)[ids] * (1.0 + (ids[3] == 5) * (np.arange(T) == 0)[:, None]), (0, 3)),
    "a table": (lambda ids: drawn(6, C)[ids], None),  # which has no row for the id 6
}


def test_ids_are_exchanged_for_others():
    for name, (fn, pair) in OF_IDS.items():
        for seed in range(5):
            verdict = is_causal(fn, IDS, seed=seed)
            assert verdict.pair == pair, name
    assert is_causal(np.cumsum, np.zeros(4, int)) and not is_causal(lambda ids: ids + ids[-1], np.zeros(4, int))
    assert not is_causal(lambda ids: ids + ids[-1], np.full(4, 7))
    with pytest.raises(IndexError):
        is_causal(lambda ids: np.ones((1, 2))[ids], np.zeros(4, int))


def test_a_leak_in_the_gradient_only():
    verdict = is_causal(LooksAhead.apply, leaf(T, C))
    assert verdict.pair == (0, 1) and str(verdict).startswith("not causal: output 0 has a gradient for token 1")
    assert is_causal(lambda x: x.detach().cumsum(0), leaf(T, C))
    assert not is_causal(lambda x: x.detach().flip(0).cumsum(0).flip(0), leaf(T, C))


@pytest.mark.parametrize("positions, dtype", [
    ("learned", "float64"), ("rotary", "float32"), ("relative", "float64"), ("none", "float32")])
def test_the_transformer_is_causal(positions, dtype):
    model = models.CausalTransformer(models.TransformerConfig(
        vocabulary_size=11, layers=2, heads=2, width=8, context=8, dtype=dtype, positions=positions, dropout=0.2))
    assert is_causal(model, mg.tensor(np.array([[1, 5, 2, 2, 7], [0, 3, 10, 4, 4]])))
    assert is_causal(model, np.array([[3, 9, 2]])) and is_causal(lambda ids: model(ids[None])[0][0], np.array([3, 9, 2]))


@pytest.mark.parametrize("training", [True, False])
def test_torchs_encoder_layer(torch, training):
    torch.manual_seed(0)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(T).double()
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double().train(training)

    def fn(x, mask=mask):
        return layer(x, src_mask=mask)

    x = torch.tensor(drawn(2, T, 8))
    assert is_causal(fn, x) and is_causal(fn, x[0])
    assert is_causal(layer, x[:, :2]).pair == ((0, 0), (0, 1))
    leaky = mask.clone()
    leaky[3, 4] = 0
    assert is_causal(lambda x: fn(x, leaky), x).pair == ((0, 3), (0, 4))
    assert layer.training is training


def test_nothing_of_the_callers_changes_in_torch(torch):
    norm = torch.nn.BatchNorm1d(C).train()
    norm.weight.grad = torch.ones(C)
    x = torch.randn(4, C, requires_grad=True)
    x.grad = torch.ones(4, C)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    state = torch.get_rng_state()
    with torch.no_grad():
        assert is_causal(lambda x: norm(x), x).pair == (0, 1)  # over the batch, which stands for time here
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert torch.equal(state, torch.get_rng_state()) and norm.training
    assert torch.equal(norm.weight.grad, torch.ones(C)) and torch.equal(x.grad, torch.ones(4, C)) and x.requires_grad


class Counting(nn.Module):
    """Has a buffer that each call changes, and draws random numbers of all kinds."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", mg.zeros(C, dtype="float64"))
        self.weight = nn.Parameter(mg.ones(C, dtype="float64"))

    def forward(self, x):
        self.mean.array[...] += x.array.mean(0)
        noise = np.random.normal() + python_random.random()
        return nn.functional.dropout(x * self.weight + noise + self.mean, 0.1)


def test_nothing_of_the_callers_changes():
    module, x = Counting(), leaf(4, C)
    x.grad = mg.ones(4, C, dtype="float64")
    before = x.array.copy()
    states = mg.random.get_state(), np.random.get_state(), python_random.getstate()
    for function in (module, lambda x: module(x)):
        assert is_causal(function, x).pair == (0, 1)
    assert np.all(module.mean.array == 0) and np.all(x.array == before) and np.all(x.grad.array == 1) and x.requires_grad
    assert module.weight.grad is None and module.training
    after = mg.random.get_state(), np.random.get_state(), python_random.getstate()
    assert states[0] == after[0] and states[2] == after[2] and np.all(states[1][1] == after[1][1]) and mg.is_grad_enabled()

    def writes(x):
        x *= 2
        return x

    array = drawn(3)
    assert is_causal(writes, array) and np.all(array == drawn(3))


def remembering():
    calls = []
    return lambda x: (calls.append(1), x + len(calls))[1]


ERRORS = {
    "random": (lambda: lambda x: x + np.random.default_rng().normal(), RuntimeError,
               "the same input gives another output: the function draws random numbers of its own"),
    "remembers": (remembering, RuntimeError, "or remembers earlier calls"),
    "shape": (lambda: lambda x: x[np.abs(x[:, 0]) < 3], ValueError, r"expected an output for each token, \(5, ...\), got \(4, 3\)"),
    "one output": (lambda: lambda x: x[-1], ValueError, r"expected an output for each token, \(5, ...\), got \(3,\)"),
    "raises": (lambda: lambda x: x @ x, ValueError, "matmul"),
    "no tensor": (lambda: lambda x: None, ValueError, r"expected an output for each token, \(5, ...\), got NoneType"),
}


def test_what_cannot_be_judged_is_an_error_that_says_why():
    for make, error, said in ERRORS.values():
        with pytest.raises(error, match=said):
            is_causal(make(), drawn(T, C))
    for tokens, came in ((np.array(["a", "b"]), "numpy.ndarray of <U1 of shape"), (np.array(1.0), "numpy.ndarray of float64 of shape")):
        with pytest.raises(TypeError, match=rf"expected ids \(T,\) or \(B, T\), or vectors of floats .* got {came}"):
            is_causal(lambda x: x, tokens)


def test_a_leak_through_padding_and_through_rows_of_zeros_is_seen():
    for leak in (lambda ids: np.cumsum(np.eye(9)[ids], 0) / (ids != 0).sum(),
                 lambda ids: np.cumsum(np.eye(9)[ids], 0) + (ids == 0).any()):
        assert not is_causal(leak, np.array([3, 1, 4, 1, 5]))
    x = drawn(5, 3)
    assert not is_causal(lambda x: np.cumsum(x, 0) / x.any(-1).sum(), x)
    assert is_causal(lambda x: np.cumsum(x, 0) / np.cumsum(x.any(-1))[:, None], x)
