import math

import numpy as np
import pytest

import minigrad as mg
import nn
from nn import functional as F

B, T, S, C, H = 2, 5, 7, 8, 2
rng = np.random.default_rng(0)

UNPADDED = np.zeros((B, S), bool)
PADDED = UNPADDED.copy()
PADDED[0, 4:] = PADDED[1, :2] = True
FORBIDDEN = rng.random((T, S)) < 0.4
FORBIDDEN[:, 3] = False
FORBIDDEN_BY_HEAD = rng.random((B * H, T, S)) < 0.4
FORBIDDEN_BY_HEAD[:, :, 3] = False
FUTURE = np.triu(np.ones((T, T), bool), 1)
ADDED = rng.normal(size=(T, S))
ADDED_BY_HEAD = rng.normal(size=(B * H, T, S))
MINUS_INFINITY = np.where(FORBIDDEN, -np.inf, ADDED)

# name: is it self-attention, constructor's options, masks
CASES = {
    "self": (True, {}, {}),
    "self without bias": (True, {"bias": False}, {}),
    "self, causal": (True, {}, {"attn_mask": FUTURE, "is_causal": True}),
    "self, causal and padded": (True, {}, {"attn_mask": FUTURE, "key_padding_mask": PADDED[:, 2:], "is_causal": True}),
    "cross": (False, {}, {}),
    "cross, other widths": (False, {"kdim": 6, "vdim": 3}, {}),
    "boolean mask": (False, {}, {"attn_mask": FORBIDDEN}),
    "boolean mask by head": (False, {}, {"attn_mask": FORBIDDEN_BY_HEAD}),
    "float mask": (False, {}, {"attn_mask": ADDED}),
    "float mask by head": (False, {}, {"attn_mask": ADDED_BY_HEAD}),
    "float mask with -inf": (False, {}, {"attn_mask": MINUS_INFINITY}),
    "padding": (False, {}, {"key_padding_mask": PADDED}),
    "float padding": (False, {}, {"key_padding_mask": np.where(PADDED, -np.inf, 0.5), "attn_mask": ADDED}),
    "rotary": (True, {"positions": "rotary"}, {"attn_mask": FUTURE, "is_causal": True}),
    "rotary, padded": (True, {"positions": "rotary", "rotary_base": 5.0}, {"key_padding_mask": PADDED[:, 2:]}),
    "rotary, cross": (False, {"positions": "rotary"}, {}),
    "both": (False, {"kdim": 6}, {"attn_mask": FORBIDDEN_BY_HEAD, "key_padding_mask": UNPADDED}),
}


def inputs_of(is_self, options):
    x = rng.normal(size=(B, T, C))
    if is_self:
        return (x,)
    return x, rng.normal(size=(B, S, options.get("kdim", C))), rng.normal(size=(B, S, options.get("vdim", C)))


def run(attention, make, arrays, masks, upstream, **options):
    """(output, weights or None, gradients of inputs, gradients of parameters); upstream for the output."""
    inputs = [make(array) for array in arrays]
    for x in inputs:
        x.requires_grad_()
    attention.zero_grad()
    result = attention(*(inputs * 3 if len(inputs) == 1 else inputs), **masks, **options)
    output, weights = result if isinstance(result, tuple) else (result, None)
    output.backward(make(upstream))
    return [output.detach().numpy(), weights if weights is None else weights.detach().numpy(),
            [x.grad.numpy() for x in inputs], [parameter.grad.numpy() for parameter in attention.parameters()]]


def assert_same(a, b, atol=1e-12):
    for x, y in zip([a[0], *a[2], *a[3]], [b[0], *b[2], *b[3]], strict=True):
        np.testing.assert_allclose(x, y, atol=atol)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_fused_is_spelled_out(case):
    is_self, options, masks = case
    ours = nn.MultiHeadAttention(C, H, **options).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    arrays, upstream = inputs_of(is_self, options), rng.normal(size=(B, T, C))
    tensors = {name: mask if isinstance(mask, bool) else mg.tensor(mask) for name, mask in masks.items()}
    fused = run(ours, mg.tensor, arrays, tensors, upstream)
    spelled_out = run(ours, mg.tensor, arrays, tensors, upstream, need_weights=True, average_attn_weights=False)
    assert_same(fused, spelled_out)
    assert spelled_out[1].shape == (B, H, T, T if is_self else S)
    np.testing.assert_allclose(spelled_out[1].sum(-1), 1)

    if is_self and masks.get("is_causal"):  # is_causal alone, or with padding, is that mask
        tensors.pop("attn_mask")
        assert_same(fused, run(ours, mg.tensor, arrays, tensors, upstream))
        assert_same(fused, run(ours, mg.tensor, arrays, tensors, upstream, need_weights=True))



def test_key_and_value_default_to_query_and_weights_are_averaged():
    attention, x = nn.MultiHeadAttention(C, H), mg.randn(B, T, C)
    for is_causal in (False, True):
        packed, separate = attention(x, is_causal=is_causal), attention(x, x.clone(), is_causal=is_causal)
        np.testing.assert_allclose(packed.detach().numpy(), separate.detach().numpy(), atol=1e-6)
    y = mg.randn(B, T, C)
    np.testing.assert_array_equal(attention(x, y).data, attention(x, y, y).data)
    assert (attention(x, y, x).data != attention(x, y).data).any()
    _, by_head = attention(x, need_weights=True, average_attn_weights=False)
    _, mean = attention(x, need_weights=True)
    np.testing.assert_allclose(mean.detach().numpy(), by_head.detach().numpy().mean(1), atol=1e-7)


@pytest.mark.parametrize("average", [False, True])
def test_weights_that_are_returned_have_a_gradient(average):
    """That of the mean is the sum of the heads' gradients; all other gradients are as without it."""
    attention = nn.MultiHeadAttention(C, H).double()
    arrays, upstream = inputs_of(False, {}), mg.tensor(rng.normal(size=(B, T, C)))
    gradients, outputs = [], []
    for is_average in (average, False):
        inputs = [mg.tensor(array, requires_grad=True) for array in arrays]
        attention.zero_grad()
        output, weights = attention(*inputs, need_weights=True, average_attn_weights=is_average)
        weights.retain_grad()
        output.backward(upstream)
        gradient = weights.grad.numpy()
        outputs.append(output.detach().numpy())
        gradients.append([gradient if is_average else gradient.sum(1), *(x.grad.numpy() for x in inputs),
                          *(p.grad.numpy() for p in attention.parameters())])
    np.testing.assert_array_equal(*outputs)
    for a, b in zip(*gradients, strict=True):
        assert a.any()
        np.testing.assert_allclose(a, b, atol=1e-12)


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
    np.testing.assert_array_equal(output.data[:, 1], np.tile(attention.out_proj.bias.data, (B, 1)))
    if need_weights:
        assert not result[1].data[:, 1].any()
    output.backward(mg.randn(B, T, C))
    assert np.isfinite(x.grad.data).all() and all(np.isfinite(p.grad.data).all() for p in attention.parameters())


def test_masks_that_require_gradients_get_them():
    attention = nn.MultiHeadAttention(4, 1).double()
    x, mask = mg.randn(1, 3, 4, dtype=mg.float64), mg.randn(3, 3, dtype=mg.float64)
    assert mg.gradcheck(lambda bias: attention(x, attn_mask=bias), [mask.requires_grad_()])


def test_spelled_out_gradients_and_the_opposite_meanings_of_boolean_masks():
    q, k, v = (mg.randn(1, 2, n, 3, dtype=mg.float64).requires_grad_() for n in (3, 4, 4))
    forbidden = mg.tensor(rng.random((3, 4)) < 0.3)
    mask = mg.zeros(3, 4, dtype=mg.float64).masked_fill(forbidden, -math.inf)
    assert mg.gradcheck(lambda q, k, v: F.attention_weights(q, k, mask) @ v, [q, k, v])
    spelled_out = F.attention_weights(q, k, mask) @ v
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=~forbidden)
    np.testing.assert_allclose(spelled_out.detach().numpy(), fused.detach().numpy(), atol=1e-12)


def test_weights_by_a_mask_and_causally():
    """A mask that hides the past leaves a causal query no key; for the others it is on top."""
    q, k = mg.randn(2, 3, 4), mg.randn(2, 3, 4)
    mask = mg.tensor([-math.inf, 0.0, 0.5])
    weights = F.attention_weights(q, k, mask, is_causal=True).data
    scores = np.exp((q @ k.mT).data / 2 + mask.data) * np.tri(3)
    np.testing.assert_allclose(weights[:, 1:], (scores / scores.sum(-1, keepdims=True).clip(1e-9))[:, 1:], atol=1e-6)
    assert not weights[:, 0].any()


def test_dropout_is_active_in_training_only():
    attention, x = nn.MultiHeadAttention(C, H, dropout=0.5), mg.randn(B, T, C)
    _, weights = attention(x, need_weights=True, average_attn_weights=False)
    assert 0.2 < (weights.data == 0).mean() < 0.8
    assert not np.array_equal(attention(x).data, attention(x).data)
    attention.eval()
    np.testing.assert_array_equal(attention(x).data, attention(x).data)


@pytest.mark.parametrize("rotary", [{}, {"rotary_base": 5.0}, {"rotary_scaling": "linear:2"}], ids=str)
def test_rotary_positions_are_those_of_nn_attention(rotary):
    packed = nn.MultiHeadAttention(C, H, positions="rotary", **rotary).double()
    apart = nn.Attention(C, H, bias=True, causal="mask", positions="rotary", **rotary).double()
    projections = zip((apart.query, apart.key, apart.value), packed.in_proj_weight.split(C), packed.in_proj_bias.split(C))
    for projection, weight, bias in (*projections, (apart.out, packed.out_proj.weight, packed.out_proj.bias)):
        projection.weight.data[...], projection.bias.data[...] = weight.data, bias.data
    x = mg.tensor(rng.normal(size=(B, T, C)))
    np.testing.assert_allclose(packed(x, is_causal=True).data, apart(x).data, atol=1e-12)


def test_repr():
    assert "dropout=0.0, positions='rotary'" in repr(nn.MultiHeadAttention(8, 2, positions="rotary"))
    text = repr(nn.MultiHeadAttention(8, 2, dropout=0.5))
    assert text.startswith("MultiHeadAttention(\n  embed_dim=8, num_heads=2, dropout=0.5\n  (out_proj): Linear(")
    assert "dropout=0.0, batch_first=True\n" in repr(nn.MultiheadAttention(8, 2, batch_first=True))
