"""What depends on what: every leak is found, and nothing else is called a leak."""
import random as python_random

import numpy as np
import pytest

import minigrad as mg
import models
import nn
from minigrad.gradcheck import depends, is_causal

T, C = 5, 3


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def leaf(*shape):
    return mg.tensor(drawn(*shape), requires_grad=True)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class Straight(mg.Function):
    """Rounds, with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return mg.tensor(np.round(x.data))

    @staticmethod
    def backward(ctx, dout):
        return dout


class LooksAhead(mg.Function):
    """The identity, with a backward that is one token off."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, dout):
        return mg.tensor(np.roll(dout.data, 1, -2))


EYE, ALL, NONE = np.eye(4), np.ones((4, 4)), np.zeros((4, 4))
DEPENDS = {  # function of 4 numbers: what it depends on by moving, and by gradient
    "identity": (lambda x: x, EYE, EYE),
    "softmax": (lambda x: x.softmax(-1), ALL, ALL),
    "cumsum": (lambda x: x.cumsum(-1), np.tril(ALL), np.tril(ALL)),
    "constant": (lambda x: mg.ones(4, dtype="float64"), NONE, NONE),
    "a row": (lambda x: x[1] * mg.ones(4, dtype="float64"), ALL * (np.arange(4) == 1), ALL * (np.arange(4) == 1)),
    "negative relu": (lambda x: (x - 30).relu(), EYE, NONE),  # the gradient is that of points around
    "saturated": (lambda x: (60 * x).tanh() * 1e-3, EYE, None),
    "zero factor": (lambda x: x * (x[0] - x.detach()[0]) * 0, NONE, NONE),
    "a lucky zero": (lambda x: (x - x0) * (x[0] - x0[0]), np.maximum(EYE, np.arange(4) == 0), np.maximum(EYE, np.arange(4) == 0)),
    "cancelled": (lambda x: x.cumsum(-1)[3] - x.flip(0).cumsum(-1)[3] + x, EYE, EYE),
    "sums to 1": (lambda x: x.softmax(-1).sum() + 0 * mg.ones(4, dtype="float64"), NONE, NONE),
    "detached": (lambda x: x.detach() * 2, EYE, NONE),
    "half detached": (lambda x: x.detach() * 2 + x[0], np.maximum(EYE, np.arange(4) == 0), ALL * (np.arange(4) == 0)),
    "straight-through": (lambda x: Straight.apply(x * 1e-9), None, EYE),
    "steps": (lambda x: mg.tensor(np.round(x.data)), EYE, NONE),
    "tiny": (lambda x: 1e-20 * x, EYE, EYE),
    "far": (lambda x: 1e6 + x, EYE, EYE),
    "leak of 1e-12": (lambda x: x + 1e-12 * x.sum(), ALL, ALL),
    "infinite elsewhere": (lambda x: mg.cat([x[:2], mg.tensor([np.inf, -np.inf])]), np.diag([1, 1, 0, 0]), np.diag([1, 1, 0, 0])),
    "NaN elsewhere": (lambda x: mg.cat([x[:2], mg.tensor([np.nan, np.nan])]), np.diag([1, 1, 0, 0]), np.diag([1, 1, 0, 0])),
    "NaN for some": (lambda x: x.sqrt(), EYE, None),
}
x0 = mg.tensor(drawn(4))


@pytest.mark.parametrize("name", DEPENDS)
def test_what_depends_on_what(name):
    fn, *expected = DEPENDS[name]
    for seed in range(3):
        found = depends(fn, mg.tensor(drawn(4)), seed=seed)
        for matrix, wanted in zip((found.by_moving, found.by_gradient), expected):
            assert wanted is None or np.array_equal(matrix, wanted > 0)
        assert np.all(found.matrix == found.by_moving | found.by_gradient)
        assert np.all(found.has_gradient) or name == "NaN for some" and not np.any(found.only_by_moving)


def test_disagreements_are_reported():
    text = str(depends(lambda x: x.detach() * 2 + x[0], mg.tensor(drawn(4))))
    assert "output[1] changes with x[1], but no gradient arrives: cut off (detach)" in text and "(3 such pairs)" in text
    text = str(depends(lambda x: Straight.apply(x * 1e-9), mg.tensor(drawn(4))))
    assert "output[0] has a gradient for x[0], but does not change with it: straight-through" in text
    assert "gradient" not in str(depends(lambda x: x * x, mg.tensor(drawn(4))))


def test_a_map_of_several_inputs_and_outputs():
    def fn(x, ids, scale):
        return {"rows": x[ids] * scale, "sum": [x.sum()]}

    found = depends(fn, mg.tensor(drawn(3, 2)), np.array([0, 2]), 2.0)
    assert [(part.name, part.shape) for part in found.inputs] == [("x", (3, 2)), ("ids", (2,))]
    assert [(part.name, part.shape) for part in found.outputs] == [("outputs[0]", (2, 2)), ("outputs[1]", ())]
    np.testing.assert_array_equal(found.fold(0, 0, output=0, input=1), np.eye(2))  # a row each
    assert found.fold((), 0, output=1, input=0).all() and not found.between(1, 1).any()
    assert not found.has_gradient[:, 6:].any() and found.has_gradient[:, :6].all()
    assert "outputs[0] (2, 2) on x (3, 2)" in str(found) and "outputs[1] () on ids (2,): 0 of 2 pairs\n   ..\n" in str(found) + "\n"


def test_a_large_map_is_folded_and_too_large_a_matrix_refused():
    assert all(len(line) < 200 for line in str(depends(lambda x: x * 2, drawn(3, 30))).splitlines()[:-1])
    assert str(depends(lambda x: x * 2, drawn(3, 30))).splitlines()[1:] == ["  [0] #..", "  [1] .#.", "  [2] ..#"]
    with pytest.raises(ValueError, match="20000 outputs and 20000 inputs make too many pairs"):
        depends(lambda x: x, np.zeros(20000))


def test_other_arrays_and_numpy_functions():
    for array in (np.array(2.0), np.array(True), np.array(3), np.zeros((0, 2)), np.array([2j]), np.array([np.inf])):
        assert depends(lambda x: x, array).matrix.all() and not depends(np.ones_like, array).matrix.any()
    found = depends(lambda x, keep: np.where(keep, x, 0.0), drawn(3), np.array([True, False, True]))
    np.testing.assert_array_equal(found.between(0, 0), np.diag([1, 0, 1]))
    np.testing.assert_array_equal(found.between(0, 1), np.eye(3))
    assert not found.has_gradient.any()


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
            assert verdict.pair == pair and verdict.dependence.notes == [], name
    assert is_causal(np.cumsum, np.zeros(4, int)) and not is_causal(lambda ids: ids + ids[-1], np.zeros(4, int))
    assert not is_causal(lambda ids: ids + ids[-1], np.full(4, 7))
    with pytest.raises(ValueError, match=r"token\[0\] could not be moved: IndexError: .* in line \d+ of test_dependence.py"):
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
    assert is_causal(model, np.array([3, 9, 2])) and is_causal(lambda ids: model(ids)[0], np.array([[3, 9, 2]]))


def test_attention_with_a_mask():
    layer = nn.MultiHeadAttention(8, 2).to("float64")
    hidden = np.triu(np.ones((T, T), bool), 1)

    def fn(x, hidden=hidden):
        return layer(x, attn_mask=mg.tensor(hidden))

    assert is_causal(fn, leaf(T, 8)) and is_causal(fn, leaf(2, T, 8))
    assert is_causal(lambda x: fn(x, but((1, 4))), leaf(2, T, 8)).pair == ((0, 1), (0, 4))
    assert not is_causal(layer, drawn(T, 8))


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


def test_torchs_functions(torch):
    mask = torch.nn.Transformer.generate_square_subsequent_mask(T)
    time_first = torch.nn.TransformerEncoderLayer(8, 2, 16).eval()
    assert is_causal(lambda x: time_first(x, src_mask=mask, is_causal=True), torch.tensor(drawn(T, 2, 8)).float(), axis=0)
    embedding = torch.nn.Embedding(6, 8)
    assert is_causal(lambda ids: embedding(ids).cumsum(1), torch.tensor(IDS)[None])
    assert is_causal(embedding, torch.tensor(IDS)) and is_causal(embedding, IDS)
    detached = depends(lambda x: x.detach() + x[0], torch.tensor(drawn(3)))
    np.testing.assert_array_equal(detached.only_by_moving, [[0, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert depends(torch.nn.Linear(3, 2).double(), drawn(3)).by_gradient.all()
    cut = depends(lambda x: torch.from_numpy(x.detach().numpy() * 2), torch.tensor(drawn(3)))
    np.testing.assert_array_equal(cut.only_by_moving, np.eye(3))
    lost = depends(lambda x: torch.nan_to_num(x.bfloat16()), torch.tensor(drawn(3)))
    np.testing.assert_array_equal(lost.matrix, np.eye(3))


def test_nothing_of_the_callers_changes_in_torch(torch):
    norm = torch.nn.BatchNorm1d(C).train()
    norm.weight.grad = torch.ones(C)
    x = torch.randn(4, C, requires_grad=True)
    x.grad = torch.ones(4, C)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    state = torch.get_rng_state()
    with torch.no_grad():
        assert is_causal(lambda x: norm(x), x).pair == (0, 1)  # over the batch, which stands for time here
        assert np.any(depends(norm, x).by_gradient)
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
        self.mean.array[...] += x.data.mean(0)
        noise = np.random.normal() + python_random.random()
        return nn.functional.dropout(x * self.weight + noise + self.mean, 0.1)


def test_nothing_of_the_callers_changes():
    module, x = Counting(), leaf(4, C)
    x.grad = mg.ones(4, C, dtype="float64")
    before = x.data.copy()
    states = mg.random.get_state(), np.random.get_state(), python_random.getstate()
    for function in (module, lambda x: module(x)):
        assert is_causal(function, x).pair == (0, 1)
        depends(function, x)
    assert np.all(module.mean.data == 0) and np.all(x.data == before) and np.all(x.grad.data == 1) and x.requires_grad
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
               "the same input gives another output, by up to .*: the function draws random numbers of its own"),
    "remembers": (remembering, RuntimeError, "or remembers earlier calls"),
    "shape": (lambda: lambda x: x[np.abs(x[:, 0]) < 3], ValueError, "the shape of the output depends on the input"),
    "one output": (lambda: lambda x: x[-1], ValueError, r"expected an output for each token, \(5, ...\), got \(3,\)"),
    "raises": (lambda: lambda x: x @ x, ValueError, "matmul"),
    "no tensor": (lambda: lambda x: None, TypeError, "returned no Tensor, array or number; got NoneType"),
}


def test_what_cannot_be_judged_is_an_error_that_says_why():
    for name, (make, error, said) in ERRORS.items():
        for judge in (is_causal, depends) if name in ("random", "remembers", "shape") else (is_causal,):
            with pytest.raises(error, match=said):
                judge(make(), drawn(T, C))
    with pytest.raises(TypeError, match="expected Tensors or arrays of numbers among the inputs, got float, str"):
        depends(lambda x, y: x, 1.0, "x")
    with pytest.raises(TypeError, match="got ndarray"):
        is_causal(lambda x: x, np.array(["a", "b"]))
    with pytest.raises(ValueError, match=r"expected tokens \(T,\)"):
        is_causal(lambda x: x, np.array(1.0))


def test_places_where_a_function_is_not_defined_are_noted():
    def arccos(x):
        if np.any(np.abs(x) > 1.05):
            raise ValueError("not a cosine")
        return np.arccos(np.clip(x, -1, 1))

    np.testing.assert_array_equal(depends(arccos, np.array([1.0, -1.0])).matrix, np.eye(2))

    def root(x):
        if np.any(x < -500):
            raise ValueError("too low")
        return np.sqrt(np.maximum(x, 0))

    found = depends(root, np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found.matrix, np.eye(2))
    assert "moves were not possible: ValueError: too low, in line" in str(found)
    nan = is_causal(CAUSAL["NaN where all is hidden"], drawn(T, C))
    assert "output is NaN in places" in str(nan)


def test_a_leak_through_padding_and_through_rows_of_zeros_is_seen():
    for leak in (lambda ids: np.cumsum(np.eye(9)[ids], 0) / (ids != 0).sum(),
                 lambda ids: np.cumsum(np.eye(9)[ids], 0) + (ids == 0).any()):
        assert not is_causal(leak, np.array([3, 1, 4, 1, 5]))
    x = drawn(5, 3)
    assert not is_causal(lambda x: np.cumsum(x, 0) / x.any(-1).sum(), x)
    assert is_causal(lambda x: np.cumsum(x, 0) / np.cumsum(x.any(-1))[:, None], x)
