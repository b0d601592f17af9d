"""Losses as modules against their formulas, element by element."""
import math

import numpy as np
import pytest

import minigrad as mg
import nn
from nn import functional as F

rng = np.random.default_rng(0)
N, V = 4, 3
X, Y = rng.normal(size=(N, V)), rng.normal(size=(N, V))
P, T = rng.uniform(0.05, 0.95, (N, V)), rng.uniform(0, 1, (N, V))
LOG_P = np.log(P / P.sum(1, keepdims=True))
IDS = np.array([0, 2, 1, 2])
WEIGHT, POS_WEIGHT = rng.uniform(0.5, 2, V), rng.uniform(0.5, 2, V)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def huber(d, delta):
    return d * d / 2 if abs(d) <= delta else delta * (abs(d) - delta / 2)


def each(function, *arrays):
    """function of single elements, for all of them."""
    return np.array([function(*values) for values in zip(*(a.ravel() for a in np.broadcast_arrays(*arrays)))]).reshape(N, V)


def logistic(t, x, weight=1.0, pos_weight=1.0):
    p = 1 / (1 + math.exp(-x))
    return -weight * (pos_weight * t * math.log(p) + (1 - t) * math.log(1 - p))


def picked(log_p, weight, ignore_index=-100):
    """The losses of IDS, and what each counts in the mean."""
    counts = np.array([0.0 if i == ignore_index else weight[i] for i in IDS])
    return -np.array([log_p[n, i] for n, i in enumerate(IDS)]) * counts, counts


def smoothed(log_p, weight, ignore_index, smoothing):
    """The same with a part of each target spread over all classes."""
    losses, counts = picked(log_p, weight, ignore_index)
    of_all = np.where(IDS == ignore_index, 0.0, -(weight * log_p).sum(1))
    return (1 - smoothing) * losses + smoothing / V * of_all, counts


# name: constructor, prediction, target, losses (and what they count in the mean) by the formula
LOSSES = {
    "MSELoss": (lambda **o: nn.MSELoss(**o), X, Y, (X - Y) ** 2),
    "L1Loss": (lambda **o: nn.L1Loss(**o), X, Y, abs(X - Y)),
    "HuberLoss": (lambda **o: nn.HuberLoss(delta=0.4, **o), X, Y, each(lambda x, y: huber(x - y, 0.4), X, Y)),
    "SmoothL1Loss": (lambda **o: nn.SmoothL1Loss(beta=0.4, **o), X, Y,
                     each(lambda x, y: huber(x - y, 0.4) / 0.4, X, Y)),
    "CrossEntropyLoss": (lambda **o: nn.CrossEntropyLoss(**o), X, IDS, picked(log_softmax(X), np.ones(V))),
    "CrossEntropyLoss weight": (
        lambda **o: nn.CrossEntropyLoss(mg.tensor(WEIGHT), **o), X, IDS, picked(log_softmax(X), WEIGHT)),
    "CrossEntropyLoss ignore_index": (
        lambda **o: nn.CrossEntropyLoss(ignore_index=2, **o), X, IDS, picked(log_softmax(X), np.ones(V), 2)),
    "CrossEntropyLoss label_smoothing": (
        lambda **o: nn.CrossEntropyLoss(label_smoothing=0.3, **o), X, IDS,
        0.7 * picked(log_softmax(X), np.ones(V))[0] - 0.1 * log_softmax(X).sum(1)),
    "CrossEntropyLoss options": (
        lambda **o: nn.CrossEntropyLoss(mg.tensor(WEIGHT), ignore_index=2, label_smoothing=0.3, **o), X, IDS,
        smoothed(log_softmax(X), WEIGHT, 2, 0.3)),
    "NLLLoss": (lambda **o: nn.NLLLoss(**o), LOG_P, IDS, picked(LOG_P, np.ones(V))),
    "NLLLoss options": (
        lambda **o: nn.NLLLoss(mg.tensor(WEIGHT), ignore_index=2, **o), LOG_P, IDS, picked(LOG_P, WEIGHT, 2)),
    "BCELoss": (lambda **o: nn.BCELoss(**o), P, T, -(T * np.log(P) + (1 - T) * np.log(1 - P))),
    "BCELoss weight": (
        lambda **o: nn.BCELoss(mg.tensor(WEIGHT), **o), P, T, -WEIGHT * (T * np.log(P) + (1 - T) * np.log(1 - P))),
    "BCEWithLogitsLoss": (lambda **o: nn.BCEWithLogitsLoss(**o), X, T, each(logistic, T, X)),
    "BCEWithLogitsLoss weights": (
        lambda **o: nn.BCEWithLogitsLoss(mg.tensor(WEIGHT), pos_weight=mg.tensor(POS_WEIGHT), **o), X, T,
        each(logistic, T, X, WEIGHT, POS_WEIGHT)),
    "KLDivLoss": (lambda **o: nn.KLDivLoss(**o), LOG_P, T, T * (np.log(T) - LOG_P)),
    "KLDivLoss log_target": (lambda **o: nn.KLDivLoss(log_target=True, **o), LOG_P, Y, np.exp(Y) * (Y - LOG_P)),
}
@pytest.mark.parametrize("make, prediction, target, losses", LOSSES.values(), ids=LOSSES)
def test_loss_is_the_formula_and_its_gradient_the_derivative(make, prediction, target, losses):
    losses, counts = losses if isinstance(losses, tuple) else (losses, np.ones(losses.shape))
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / counts.sum()}
    x, target = mg.tensor(prediction, requires_grad=True), mg.tensor(target)
    np.testing.assert_allclose(make()(x, target).item(), expected["mean"], rtol=1e-12)
    for reduction, value in expected.items():
        criterion = make(reduction=reduction)
        np.testing.assert_allclose(criterion(x, target).detach().numpy(), value, rtol=1e-12, atol=1e-15)
        assert mg.gradcheck(lambda x, criterion=criterion: criterion(x, target), x)
        assert f"reduction='{reduction}'" in repr(criterion)


def test_batchmean():
    loss = nn.KLDivLoss(reduction="batchmean")(mg.tensor(LOG_P), mg.tensor(T))
    assert loss.item() == pytest.approx((T * (np.log(T) - LOG_P)).sum() / N)


def test_weights_are_buffers():
    criterion = nn.BCEWithLogitsLoss(mg.tensor(WEIGHT, dtype=mg.float32), pos_weight=mg.tensor(POS_WEIGHT))
    assert not list(criterion.parameters()) and list(criterion.state_dict()) == ["weight", "pos_weight"]
    assert criterion.to(mg.float64).weight.dtype == mg.float64
    other = nn.BCEWithLogitsLoss(mg.ones(V, dtype=mg.float64), pos_weight=mg.ones(V, dtype=mg.float64))
    other.load_state_dict(criterion.state_dict())
    assert other(mg.tensor(X), mg.tensor(T)).item() == criterion(mg.tensor(X), mg.tensor(T)).item()
    assert not nn.CrossEntropyLoss().state_dict()


@pytest.mark.parametrize("dtype, tiny", [(mg.float32, 1e-45), (mg.float64, 5e-324)])
def test_certain_probabilities_cost_100_and_have_a_gradient_towards_the_target(dtype, tiny):
    p = mg.tensor([0.0, 1.0, 0.0, 1.0, tiny], dtype=dtype, requires_grad=True)
    target = mg.tensor([1.0, 0.0, 0.0, 1.0, 1.0], dtype=dtype)
    losses = F.binary_cross_entropy(p, target, reduction="none")
    np.testing.assert_array_equal(losses.detach().numpy(), [100, 100, 0, 0, 100])
    losses.backward(mg.full((5,), 0.5, dtype=dtype))
    np.testing.assert_allclose(p.grad.numpy(), [-0.5e12, 0.5e12, 0, 0, -0.5e12], rtol=1e-6)
    assert losses.dtype == p.grad.dtype == dtype
    torch = pytest.importorskip("torch")
    p_torch = torch.tensor(p.detach().numpy(), requires_grad=True)
    wanted = torch.nn.functional.binary_cross_entropy(p_torch, torch.tensor(target.numpy()), reduction="none")
    wanted.backward(torch.full((5,), 0.5, dtype=p_torch.dtype))
    np.testing.assert_array_equal(losses.detach().numpy(), wanted.detach().numpy())
    np.testing.assert_allclose(p.grad.numpy(), p_torch.grad.numpy(), rtol=1e-6)


def test_small_probabilities_keep_their_digits():
    losses = F.binary_cross_entropy(mg.tensor([1e-10]), mg.tensor([0.0]), reduction="none")
    assert losses.item() == pytest.approx(1e-10, rel=1e-6)


def test_a_probability_out_of_range_is_seen_in_a_replay():
    step = mg.compile(lambda p: F.binary_cross_entropy(p, mg.zeros(2)))
    step(mg.tensor([0.5, 0.5]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        step(mg.tensor([0.5, 2.0]))
