"""Losses at zero and one, their buffers and refusals. (Their formulas are in tests/layers.py, PyTorch's in test_pytorch_calls.py.)"""
import contextlib
import math

import numpy as np
import pytest

import minigrad as mg
import nn
from nn import functional as F
from tables import each

rng = np.random.default_rng(0)
N, V = 4, 3
X = rng.normal(size=(N, V))
P, T = rng.uniform(0.05, 0.95, (N, V)), rng.uniform(0, 1, (N, V))
LOG_P = np.log(P / P.sum(1, keepdims=True))
WEIGHT, POS_WEIGHT = rng.uniform(0.5, 2, V), rng.uniform(0.5, 2, V)


inf, LOG_2, SIGMOID_1 = math.inf, math.log(2), 1 / (1 + math.exp(-1))
HIDDEN = [[-inf, 0.0, 0.0]] * 3  # logits whose softmax is 0, 1/2, 1/2
AT_ZERO = [  # 0 log 0 = 0: (loss, x, targets, losses, their gradients by x, options)
    (F.cross_entropy, HIDDEN, [[0.0, 1, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]], [LOG_2, LOG_2, inf],
     [[0, -0.5, 0.5], [0, 0, 0], [-0.5, 0.5, 0]], {}),
    (F.cross_entropy, [[-inf, 0.0, -inf]] * 3, np.eye(3), [inf, 0, inf], [[-1, 1, 0], [0, 0, 0], [0, 1, -1]], {}),
    (F.cross_entropy, HIDDEN[:1], [[0.0, 0, 0]], [0], [[0, 0, 0]], {}),
    (F.cross_entropy, HIDDEN[:2], [[0.5, 0.5, 0], [0, 0.5, 0.5]], [LOG_2 / 2, 1.5 * LOG_2],
     [[0, -0.25, 0.25], [0, 0.25, -0.25]], dict(weight=[0.0, 1, 2])),
    (F.cross_entropy, HIDDEN[:1], [[0.0, 1, 0]], [inf], [[-0.1, -0.3, 0.4]], dict(label_smoothing=0.3)),
    (F.cross_entropy, HIDDEN[:1], [[1.0, 0, 0]], [0.3 * LOG_2], [[0, 0.05, -0.05]],
     dict(weight=[0.0, 1, 2], label_smoothing=0.3)),
    (F.cross_entropy, HIDDEN, [0, 1, 2], [inf, LOG_2, LOG_2], [[-1, 0.5, 0.5], [0, -0.5, 0.5], [0, 0.5, -0.5]], {}),
    (F.cross_entropy, HIDDEN[:2], [0, 1], [0, LOG_2], [[0, 0, 0], [0, -0.5, 0.5]], dict(ignore_index=0)),
    (F.cross_entropy, HIDDEN[:2], [0, 1], [inf, inf], [[-0.8, 0.4, 0.4], [-0.1, -0.3, 0.4]], dict(label_smoothing=0.3)),
    (F.cross_entropy, HIDDEN[:2], [0, 1], [inf, inf], [[-1 / 3, 1 / 6, 1 / 6]] * 2, dict(label_smoothing=1.0)),
    (F.cross_entropy, HIDDEN, [0, 1, 2], [0, LOG_2, 2 * LOG_2], [[0, 0, 0], [0, -0.5, 0.5], [0, 1, -1]],
     dict(weight=[0.0, 1, 2])),
    (F.cross_entropy, HIDDEN[:2], [0, 1], [0.3 * LOG_2, LOG_2], [[0, 0.05, -0.05], [0, -0.3, 0.3]],
     dict(weight=[0.0, 1, 2], label_smoothing=0.3)),
    (F.cross_entropy, HIDDEN[:2], [0, 1], [inf, inf], [[-2 / 3, 1 / 2, 1 / 6]] * 2,
     dict(weight=[2.0, 0, 1], label_smoothing=1.0)),
    (F.nll_loss, [[-inf, -1.0]] * 2, [0, 1], [inf, 1], [[-1, 0], [0, -1]], {}),
    (F.nll_loss, [[-inf, -1.0]] * 2, [0, 1], [0, 2], [[0, 0], [0, -2]], dict(weight=[0.0, 2])),
    (F.nll_loss, [[-inf, -1.0]] * 2, [0, 1], [0, 1], [[0, 0], [0, -1]], dict(weight=[2.0, 1], ignore_index=0)),
    (F.kl_div, [[-inf, -1.0, -inf, -1]], [[0, 0, 0.5, 0.5]], [[0, 0, inf, 0.5 - LOG_2 / 2]], [[0, 0, -0.5, -0.5]], {}),
    (F.kl_div, [[-inf, -1.0, -inf, -1, -inf]], [[-inf, -inf, 0, 0, -1e9]], [[0, 0, inf, 1, 0]], [[0, 0, -1, -1, 0]],
     dict(log_target=True)),
    (F.binary_cross_entropy, [[0.0, 0, 1, 1]], [[0, 0.5, 0.5, 1]], [[0, 50, 50, 0]], [[0, -0.5e12, 0.5e12, 0]], {}),
    (F.binary_cross_entropy_with_logits, [[-inf, -inf, inf, inf, -inf]], [[0, 1, 0, 1, 0.5]], [[0, inf, inf, 0, inf]],
     [[0, -1, 1, 0, -0.5]], {}),
    (F.binary_cross_entropy_with_logits, [[-inf, inf, -inf, 1]], [[1, 0, 0.5, 1]], [[0, inf, 0, 2 * math.log1p(math.exp(-1))]],
     [[0, 1, 0, 2 * SIGMOID_1 - 2]], dict(pos_weight=[0.0, 0, 0, 2])),
    (F.binary_cross_entropy_with_logits, [[-inf, inf, -inf]], [[1.0, 0, 1]], [[0, 0, inf]], [[0, 0, -2]],
     dict(weight=[0.0, 0, 2])),
]
WAYS = {"eager": contextlib.nullcontext, "compiled": contextlib.nullcontext, "textbook": mg.textbook,
        "autocast": lambda: mg.autocast("cpu", dtype=mg.bfloat16)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [mg.float32, mg.float64])
def test_zero_times_the_logarithm_of_zero_is_zero(way, dtype):
    def check(loss, x, target, losses, dx, options, times):  # many times, for kernels
        options = {name: mg.tensor(value, dtype=dtype) if isinstance(value, list) else value for name, value in options.items()}
        x, target, losses, dx = (mg.tensor(np.concatenate([value] * times)) for value in (x, target, losses, dx))
        dout = mg.tensor(rng.uniform(0.5, 2, losses.shape), dtype=dtype)

        def step():
            found = loss(x, target, **options, reduction="none")
            return found.detach(), *mg.grad(found, x, dout)

        step = mg.compile(step) if way == "compiled" else step
        x, target = x.to(dtype).requires_grad_(), target.to(dtype) if target.dtype.kind == "f" else target
        wanted = losses, dx * (dout if dout.ndim == dx.ndim else dout[:, None])
        with WAYS[way]():
            for found in (step(), step()):
                for ours, right in zip(found, wanted, strict=True):
                    assert ours.dtype == dtype
                    np.testing.assert_allclose(ours.numpy(), right.numpy(), rtol=1e-6, atol=1e-7)

    each([(row, times) for row in AT_ZERO for times in (1, 3000)], lambda case: check(*case[0], case[1]))


def test_batchmean():
    loss = F.kl_div(mg.tensor(LOG_P), mg.tensor(T), reduction="batchmean")
    assert loss.item() == pytest.approx((T * (np.log(T) - LOG_P)).sum() / N)


def test_weights_are_buffers():
    criterion = nn.BCEWithLogitsLoss(mg.tensor(WEIGHT, dtype=mg.float32), pos_weight=mg.tensor(POS_WEIGHT))
    assert not list(criterion.parameters()) and list(criterion.state_dict()) == ["weight", "pos_weight"]
    assert criterion.to(mg.float64).weight.dtype == mg.float64
    other = nn.BCEWithLogitsLoss(mg.ones(V, dtype=mg.float64), pos_weight=mg.ones(V, dtype=mg.float64))
    other.load_state_dict(criterion.state_dict())
    assert other(mg.tensor(X), mg.tensor(T)).item() == criterion(mg.tensor(X), mg.tensor(T)).item()
    assert not nn.CrossEntropyLoss().state_dict()


def test_small_probabilities_keep_their_digits():
    losses = F.binary_cross_entropy(mg.tensor([1e-10]), mg.tensor([0.0]), reduction="none")
    assert losses.item() == pytest.approx(1e-10, rel=1e-6)


def test_a_probability_out_of_range_is_refused_in_a_replay():
    step = mg.compile(lambda p: F.binary_cross_entropy(p, mg.zeros(2)))
    step(mg.tensor([0.5, 0.5]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        step(mg.tensor([0.5, 2.0]))


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, nn.MSELoss(), nn.L1Loss()])
def test_a_target_of_another_shape_is_broadcast_with_a_warning(loss):
    """As in PyTorch: predictions (n, 1) and targets (n,) make n^2 pairs."""
    x, y = mg.tensor([[1.0], [2.0]]), mg.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match=r"_loss: Using a target size \(2,\) that is different to the input size \(2, 1\)") as caught:
        assert loss(x, y).item() > 0
    assert caught[0].filename == __file__ or isinstance(loss, nn.Module)
    assert loss(y, y).item() == loss(x, x).item() == 0
