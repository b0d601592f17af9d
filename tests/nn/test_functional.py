"""Arguments of nn.functional that no layer passes on, against slow references."""
import math

import numpy as np
import pytest

import minigrad as mg
import naive
from nn import functional as F

LOGITS, TARGETS = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 2, 7, 1])
ROTATION = np.random.default_rng(1).normal(size=(5, 4))


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"is_causal": True}, {"is_causal": True, "scale": 0.3},
                                     {"rotation": mg.tensor(ROTATION)}], ids=list)
@pytest.mark.parametrize("value_size", [4, 5])
def test_attention(options, value_size, random):
    """Spelled out for values of another width, else fused."""
    q, k, v = (random.normal(size=(1, 2, 3, size)) for size in (4, 4, value_size))
    out = F.scaled_dot_product_attention(*map(mg.tensor, (q, k, v)), **options)
    expected = naive.attention(q, k, v, **options | ({"rotation": ROTATION} if "rotation" in options else {}))
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-12)


def test_attention_drops_weights(random):
    q, k = (mg.tensor(random.normal(size=(30, 30))) for _ in range(2))  # as wide as the values, as for the kernel
    weights = F.scaled_dot_product_attention(q, k, mg.eye(30, dtype=mg.float64)).numpy()
    dropped = F.scaled_dot_product_attention(q, k, mg.eye(30, dtype=mg.float64), dropout_p=0.25).numpy()
    assert 0.15 < (dropped == 0).mean() < 0.35
    np.testing.assert_allclose(dropped[dropped != 0], weights[dropped != 0] / 0.75)


def test_a_learned_mask_gets_its_gradient(random):
    """Without create_graph, too, where the kernel would compute the other gradients, and none for the mask."""
    q, k, v, mask = (mg.tensor(random.normal(size=shape), requires_grad=True) for shape in ((3, 4), (5, 4), (5, 4), (3, 5)))
    assert mg.gradcheck(F.scaled_dot_product_attention, [q, k, v, mask])


def test_a_learned_rotation_gets_its_gradient(random):
    q, rotation, packed = (mg.tensor(random.normal(size=shape), requires_grad=True) for shape in ((3, 4), (3, 4), (1, 3, 24)))
    assert mg.gradcheck(lambda q, r: F.scaled_dot_product_attention(q, 2 * q, q, rotation=r), [q, rotation])
    assert mg.gradcheck(lambda packed, r: F.packed_attention(packed, 2, True, rotation=r), [packed, rotation])


@pytest.mark.parametrize("shape, dtype, words", [
    ((2, 4), mg.float64, "expected a rotation (at least 3, 4), for an even number of features, got (2, 4)"),
    ((3, 2), mg.float64, "got (3, 2)"), ((4,), mg.float64, "got (4,)"), ((3, 4), mg.float32, "float32")])
def test_rotations_of_a_wrong_shape_or_dtype(shape, dtype, words):
    x, rotation = mg.zeros(1, 3, 24, dtype=mg.float64), mg.zeros(*shape, dtype=dtype)
    for call in (lambda: F.packed_attention(x, 2, rotation=rotation),
                 lambda: F.scaled_dot_product_attention(x[..., :4], x[:, :2, :4], x[:, :2, :4], rotation=rotation)):
        with pytest.raises((ValueError, TypeError)) as raised:
            call()
        assert words in str(raised.value)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_ignored_rows_have_no_gradient_even_from_infinite_ones(loss):
    for targets, reduction, dout in (([-100, -100], "mean", 1.0), ([1, -100], "none", [1.0, np.inf])):
        x = mg.tensor([[0.1, 0.2, 0.3], [1.0, -np.inf, 3.0]], requires_grad=True)
        loss(x, mg.tensor(targets), reduction=reduction).backward(mg.tensor(dout))
        assert x.grad[1].tolist() == [0.0, 0.0, 0.0] and x.grad.isfinite().all()


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("shape", [(3,), (4, 1), (), (1,)])
def test_targets_of_another_shape(loss, shape):
    with pytest.raises(ValueError, match=r"expected logits .* and targets .*, got \(4, 3\) and"):
        loss(mg.tensor(LOGITS), mg.zeros(*shape).long())


@pytest.mark.parametrize("size", [21.0, 60.0])
def test_large_logits_lose_no_digits(size):
    x = mg.tensor([-size, size], dtype=mg.float64)
    small = math.log1p(math.exp(-size))
    np.testing.assert_allclose(F.logsigmoid(x).numpy(), [-size - small, -small], rtol=1e-14)
    for target, expected in (([0.0, 1.0], [small, small]), ([1.0, 0.0], [size + small, size + small])):
        losses = F.binary_cross_entropy_with_logits(x, mg.tensor(target, dtype=mg.float64), reduction="none")
        np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-14)
