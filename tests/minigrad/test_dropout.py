"""Dropout's masks: the generator and its statistics, and that kernels and textbook agree."""
import numpy as np
import pytest

import minigrad as mg
import naive
import nn
from minigrad import random as textbook
from minigrad.fast.kernels import dropout as kernels
from nn import functional as F

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89)


@pytest.mark.parametrize("counter, key, rounds, expected", [
    ((0,) * 4, (0,) * 4, 13, "531c7e4f 39491ee5 2c855a92 3d6abf9a"),
    (*PI, 13, "4aa71d8f 734738c2 431fc6a8 ae6debf1"),
    ((0,) * 4, (0,) * 4, 20, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
])
def test_reference_and_textbook_are_threefry(counter, key, rounds, expected):
    """By the known answers published by the generator's authors."""
    assert " ".join(f"{word:08x}" for word in naive.threefry(counter, key, rounds)) == expected
    if rounds == textbook.ROUNDS:
        counter, key = ([np.array([word], np.uint32) for word in words] for words in (counter, key))
        assert " ".join(f"{word[0]:08x}" for word in textbook.threefry(counter, key)) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (127,), (3, 43), (129,), (5, 1000), (20_000,)], ids=str)
def test_kernels_and_textbook_make_the_same_masks(shape, dtype):
    for key, position in (0, 0), (1, 1), (-1, 127), (2**63 - 1, 128), (-2**63, 2**36 - 60), (12345678901, 2**40 + 5):
        for p in 1e-9, 2.0**-16, 0.1, 0.5, 1 - 1e-4, 1.0:
            arguments = shape, np.array([key, position]), p, np.dtype(dtype)
            found, expected = kernels.factors(*arguments), textbook.factors(*arguments)
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_array_equal(found, expected, f"{key} {position} {p}")


SHAPE = 512, 16, 8, 16  # rows, groups, slots, lanes


def dropped(p, key=1, position=0):
    """1 where an element is dropped, else 0."""
    return (kernels.dropout(np.ones(SHAPE, np.float32), np.array([key, position]), p) == 0).astype(np.float64)


NEIGHBOURS = {
    "elements": lambda m, p: (m[..., :-1], m[..., 1:]),
    "halves of a word": lambda m, p: (m[:, :, ::2], m[:, :, 1::2]),
    "words of a counter": lambda m, p: (m[:, :, :-2], m[:, :, 2:]),
    "groups": lambda m, p: (m[:, :-1], m[:, 1:]),
    "rows": lambda m, p: (m[:-1], m[1:]),
    "keys in turn": lambda m, p: (m, dropped(p, key=2)),
    "keys that differ in a high bit": lambda m, p: (m, dropped(p, key=1 + 2**62)),
    "positions 2**35 apart": lambda m, p: (m, dropped(p, position=2**35)),  # the counter's second word differs
}


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_masks_are_independent(p):
    """A million elements: their mean, and their products with neighbours of several kinds."""
    m = dropped(p)
    errors = {"mean": (m.mean() - p) / np.sqrt(p * (1 - p))}
    for name, neighbours in NEIGHBOURS.items():
        a, b = neighbours(m, p)
        errors[name] = ((a - p) * (b - p)).mean() / (p * (1 - p))
    standard = {name: error * np.sqrt(m.size) for name, error in errors.items()}
    assert max(map(abs, standard.values())) < 4, standard  # standard errors
    counts = m.reshape(-1, SHAPE[1] * 128).sum(1)  # of a row: binomial
    assert abs(counts.var() / (SHAPE[1] * 128 * p * (1 - p)) - 1) < 4 * np.sqrt(2 / SHAPE[0])


def test_masks_differ_between_calls_and_heads():
    mg.manual_seed(0)
    first, second = (F.drop_weights(mg.ones(2, 4, 64, 64), 0.5).numpy() for _ in range(2))
    masks = [head for mask in (first, second) for head in mask.reshape(8, -1) - 1]  # 1 or -1
    apart = np.array(masks) @ np.array(masks).T - 4096 * np.eye(16)
    assert abs(apart).max() < 4.5 * 64


@pytest.mark.parametrize("dtype", [mg.float32, mg.float64])
def test_extreme_probabilities(dtype):
    x = mg.ones(100_000, dtype=dtype)
    assert F.dropout(x, 0.0) is F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 1.0).numpy().max() == 0
    assert F.dropout(x, 1e-12).numpy().min() >= 1
    mg.manual_seed(0)
    few = np.count_nonzero(F.dropout(mg.ones(1 << 20, dtype=dtype), 2.0**-16).numpy() == 0)
    assert 2 <= few <= 35  # 16 are expected
    few = np.count_nonzero(F.dropout(x, 1 - 1e-4).numpy())
    assert 1 <= few <= 25  # 10
    for weights in (F.packed_attention(mg.ones(2, 3, 12, dtype=dtype), 2, dropout_p=1.0), F.drop_weights(x[None], 1.0)):
        assert weights.numpy().max() == 0


@pytest.mark.parametrize("a, b", [((3, 50), (3, 50)), ((50,), (3, 50)), ((3, 50), (50,))])
def test_only_the_second_term_is_dropped(a, b):
    a, b = mg.randn(*a), mg.randn(*b)
    for p, training in ((0.5, True), (0.5, False), (0.0, True), (1.0, True)):
        mg.manual_seed(0)
        out = F.add_dropped(a, b, p, training)
        mg.manual_seed(0)
        np.testing.assert_allclose(out.numpy(), (a + F.dropout(b, p, training)).numpy(), atol=1e-6)
    assert F.add_dropped(mg.ones(3, dtype=mg.int64), mg.ones(3), 0.0).dtype == mg.float32


def test_integers_become_floats():
    out = F.dropout(mg.ones(50, dtype=mg.int64), 0.4)
    assert out.dtype == mg.float32 and set(out.tolist()) == {0.0, np.float32(1 / 0.6).item()}


@pytest.mark.parametrize("options", [{}, {"need_weights": True}, {"attn_mask": mg.zeros(3, 3)}, {"is_causal": True}], ids=str)
def test_every_path_of_a_layer_drops_weights(options):
    out = nn.MultiHeadAttention(8, 2, dropout=1.0, bias=False)(mg.randn(2, 3, 8), **options)
    assert ((out[0] if type(out) is tuple else out).detach().numpy() == 0).all()
    q = mg.randn(1, 2, 3, 4)
    assert (F.scaled_dot_product_attention(q, q, q[..., :2], dropout_p=1.0).numpy() == 0).all()  # spelled out


def test_nan_stays_where_it_is_dropped():
    x = np.full(1000, np.nan, np.float32)
    assert np.isnan(F.dropout(mg.tensor(x), 0.5).numpy()).all()


@pytest.mark.parametrize("call", [
    lambda p: F.dropout(mg.ones(2), p), lambda p: F.drop_weights(mg.ones(2, 2), p),
    lambda p: F.add_dropped(mg.ones(2), mg.ones(2), p),
    lambda p: F.packed_attention(mg.ones(1, 2, 3), 1, dropout_p=p),
    lambda p: F.scaled_dot_product_attention(*[mg.ones(1, 1, 2, 2)] * 3, dropout_p=p),
])
@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_probabilities_outside_0_to_1_are_refused(call, p):
    with pytest.raises(ValueError, match=f"p must be a probability, from 0 to 1, got {p}"):
        call(p)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape, is_causal", [((2, 3, 70, 8), True), ((1, 2, 1100, 8), True), ((2, 2, 40, 130), False)])
def test_fused_attention_drops_the_same_weights_as_its_primitives(threads, shape, is_causal):
    """Tiles, blocks and spans; the kernel's backward uses the mask of its forward."""
    threads_before, (B, H, T, D) = mg.get_num_threads(), shape
    values = [mg.randn(B, H, T, D, dtype=mg.float64) for _ in range(4)]
    mg.set_num_threads(min(threads, threads_before))
    results = []
    for attend in (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, None, 0.3, is_causal),
                   lambda q, k, v: F.drop_weights(F.attention_weights(q, k, is_causal=is_causal), 0.3) @ v):
        mg.manual_seed(4)
        q, k, v = (x.clone().requires_grad_() for x in values[:3])
        out = attend(q, k, v)
        results.append([x.numpy() for x in (out.detach(), *mg.grad(out, [q, k, v], values[3]))])
    mg.set_num_threads(threads_before)
    for fused, spelled_out in zip(*results):
        np.testing.assert_allclose(fused, spelled_out, atol=1e-11)
