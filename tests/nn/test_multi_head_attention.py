"""nn.MultiHeadAttention: fused and spelled out are the same; its formula is in tests/layers.py, PyTorch's in test_pytorch_calls.py."""
import math

import numpy as np
import pytest

import minigrad as mg
import naive
import nn
from nn import functional as F

B, T, S, C, H = 2, 5, 7, 8, 2
rng = np.random.default_rng(0)

PADDED = np.zeros((B, S), bool)
PADDED[0, 4:] = PADDED[1, :2] = True
FORBIDDEN, FORBIDDEN_BY_HEAD = rng.random((T, S)) < 0.4, rng.random((B * H, T, S)) < 0.4
FORBIDDEN[:, 3] = FORBIDDEN_BY_HEAD[:, :, 3] = False
FUTURE = np.triu(np.ones((T, T), bool), 1)
ADDED, ADDED_BY_HEAD = rng.normal(size=(T, S)), rng.normal(size=(B * H, T, S))
CASES = {  # name: (is it self-attention, the constructor's options, masks)
    "self": (True, {}, {}),
    "self without bias": (True, {"bias": False}, {}),
    "self, causal": (True, {}, {"attn_mask": FUTURE, "is_causal": True}),
    "self, causal and padded": (True, {}, {"attn_mask": FUTURE, "key_padding_mask": PADDED[:, 2:], "is_causal": True}),
    "cross": (False, {}, {}),
    "cross, other widths": (False, {"kdim": 6, "vdim": 3}, {}),
    "boolean mask": (False, {}, {"attn_mask": FORBIDDEN}),
    "float mask": (False, {}, {"attn_mask": ADDED}),
    "float mask by head": (False, {}, {"attn_mask": ADDED_BY_HEAD}),
    "float mask with -inf": (False, {}, {"attn_mask": np.where(FORBIDDEN, -np.inf, ADDED)}),
    "padding": (False, {}, {"key_padding_mask": PADDED}),
    "float padding": (False, {}, {"key_padding_mask": np.where(PADDED, -np.inf, 0.5), "attn_mask": ADDED}),
    "rotary": (True, {"positions": "rotary"}, {"attn_mask": FUTURE, "is_causal": True}),
    "rotary, padded": (True, {"positions": "rotary", "rotary_base": 5.0}, {"key_padding_mask": PADDED[:, 2:]}),
    "rotary, cross": (False, {"positions": "rotary"}, {}),
    "relative": (True, {"positions": "relative", "max_distance": 2}, {}),
    "relative, causal": (True, {"positions": "relative", "max_distance": 2}, {"attn_mask": FUTURE, "is_causal": True}),
    "grouped": (True, {"key_value_heads": 1}, {"attn_mask": FUTURE, "is_causal": True}),
    "grouped, cross": (False, {"key_value_heads": 1, "head_size": 3, "kdim": 6}, {"attn_mask": FORBIDDEN}),
    "window": (True, {"window": 2}, {"attn_mask": FUTURE, "is_causal": True}),
    "window, padded": (True, {"window": 4, "positions": "rotary"},
                       {"attn_mask": FUTURE, "key_padding_mask": PADDED[:, 2:], "is_causal": True}),
    "both": (False, {"kdim": 6}, {"attn_mask": FORBIDDEN_BY_HEAD, "key_padding_mask": np.zeros((B, S), bool)}),
}


def run(attention, arrays, masks, upstream, **options):
    """({name: value} of the output, and of the gradients of inputs and parameters; weights or None)."""
    inputs = [mg.tensor(array, requires_grad=True) for array in arrays]
    attention.zero_grad()
    result = attention(*inputs, **masks, **options)
    output, weights = result if isinstance(result, tuple) else (result, None)
    if weights is not None:
        weights.retain_grad()
    output.backward(mg.tensor(upstream))
    gradients = {name: p.grad for name, p in [*enumerate(inputs), *attention.named_parameters()]}
    return {"output": output.detach(), **gradients}, weights


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value.array, expected[name].array, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_fused_is_spelled_out(case):
    """is_causal, alone or with padding, is the causal mask. Averaging weights changes no gradient; that of the mean is the sum
    of the heads' gradients."""
    is_self, options, masks = case
    attention = nn.MultiHeadAttention(C, H, **options).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=0.5)
    arrays = [rng.normal(size=(B, T, C))]
    arrays += [] if is_self else [rng.normal(size=(B, S, options.get(name, C))) for name in ("kdim", "vdim")]
    upstream, tensors = rng.normal(size=(B, T, C)), {n: m if isinstance(m, bool) else mg.tensor(m) for n, m in masks.items()}
    fused, none = run(attention, arrays, tensors, upstream)
    spelled_out, by_head = run(attention, arrays, tensors, upstream, need_weights=True, average_attn_weights=False)
    averaged, mean = run(attention, arrays, tensors, upstream, need_weights=True)
    assert_same(fused, spelled_out)
    assert_same(averaged, spelled_out)
    assert none is None and by_head.shape == (B, H, T, T if is_self else S)
    np.testing.assert_allclose(by_head.sum(-1).array, 1)
    np.testing.assert_allclose(mean.array, by_head.array.mean(1), atol=1e-15)
    assert by_head.grad.array.any()
    np.testing.assert_allclose(mean.grad.array, by_head.grad.array.sum(1), atol=1e-12)
    if masks.get("is_causal"):
        tensors.pop("attn_mask")
        for need_weights in (False, True):
            assert_same(fused, run(attention, arrays, tensors, upstream, need_weights=need_weights)[0])


def test_value_defaults_to_key():
    attention, x, y = nn.MultiHeadAttention(C, H), mg.randn(B, T, C), mg.randn(B, T, C)
    np.testing.assert_array_equal(attention(x, y).array, attention(x, y, y).array)
    assert (attention(x, y, x).array != attention(x, y).array).any()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("blind", [True, -math.inf])
def test_a_query_that_sees_no_key_gets_zeros_and_finite_gradients(blind, need_weights):
    attention = nn.MultiHeadAttention(C, H)
    nn.init.normal_(attention.out_proj.bias)
    mask = np.zeros((T, T), np.array(blind).dtype)
    mask[1] = blind
    x = mg.randn(B, T, C, requires_grad=True)
    result = attention(x, attn_mask=mg.tensor(mask), need_weights=need_weights)
    output = result[0] if need_weights else result
    np.testing.assert_array_equal(output.array[:, 1], np.tile(attention.out_proj.bias.array, (B, 1)))
    if need_weights:
        assert not result[1].array[:, 1].any()
    output.backward(mg.randn(B, T, C))
    assert np.isfinite(x.grad.array).all() and all(np.isfinite(p.grad.array).all() for p in attention.parameters())


def test_masks_that_require_gradients_get_them():
    attention = nn.MultiHeadAttention(4, 1).double()
    x, mask = mg.randn(1, 3, 4, dtype=mg.float64), mg.randn(3, 3, dtype=mg.float64)
    assert mg.gradcheck(lambda bias: attention(x, attn_mask=bias), [mask.requires_grad_()])


def test_spelled_out_gradients_and_the_opposite_meanings_of_boolean_masks():
    q, k, v = (mg.randn(1, 2, n, 3, dtype=mg.float64).requires_grad_() for n in (3, 4, 4))
    forbidden = mg.tensor(rng.random((3, 4)) < 0.3)
    mask = mg.zeros(3, 4, dtype=mg.float64).masked_fill(forbidden, -math.inf)
    assert mg.gradcheck(lambda q, k, v: F.attention_weights(q, k, mask) @ v, [q, k, v])
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=~forbidden)
    np.testing.assert_allclose((F.attention_weights(q, k, mask) @ v).array, fused.array, atol=1e-12)


def test_weights_by_a_mask_and_causally():
    """A mask that hides the past leaves a causal query no key; the others have both masks."""
    q, k = mg.randn(2, 3, 4), mg.randn(2, 3, 4)
    mask = mg.tensor([-math.inf, 0.0, 0.5])
    weights = F.attention_weights(q, k, mask, is_causal=True).array
    np.testing.assert_allclose(weights, naive.attention_weights(q.array, k.array, mask.array, is_causal=True), atol=1e-6)
    assert not weights[:, 0].any()


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_parts_from_a_position_on_are_those_of_the_whole(positions):
    """As a cache of keys and values needs them: the last queries, at their own positions."""
    attention = nn.MultiHeadAttention(C, 4, positions=positions, key_value_heads=2, max_distance=3).double().eval()
    if positions == "relative":
        nn.init.normal_(attention.relative_bias)
    x, start = mg.tensor(rng.normal(size=(B, T, C))), 3
    _, k, v = attention.project(x, x, x)
    q, _, _ = attention.project(x[:, start:], x, x)
    k, v = attention.for_each_query(attention.rotated(k)), attention.for_each_query(v)
    bias = attention.position_bias(T - start, T, start) if positions == "relative" else None
    out = attention.merge(F.attention_weights(attention.rotated(q, start), k, bias) @ v)
    np.testing.assert_allclose(out.array, attention(x)[:, start:].array, atol=1e-12)


def test_repr():
    assert repr(nn.MultiHeadAttention(8, 2, positions="rotary", key_value_heads=1, head_size=6, window=5)).splitlines()[1] == (
        "  embed_dim=8, num_heads=2, dropout=0.0, key_value_heads=1, head_size=6, window=5, positions='rotary'")
    text = repr(nn.MultiHeadAttention(8, 2, dropout=0.5))
    assert text.startswith("MultiHeadAttention(\n  embed_dim=8, num_heads=2, dropout=0.5\n  (out_proj): Linear(")
    assert "dropout=0.0, batch_first=True\n" in repr(nn.MultiheadAttention(8, 2, batch_first=True))
