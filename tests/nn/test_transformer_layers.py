"""Transformer layers against the same in NumPy, sublayer by sublayer and head by head."""
import math

import numpy as np
import pytest

import minigrad as mg
import naive
import nn
from nn import functional as F

B, T, S, C, H, WIDE = 2, 3, 4, 6, 2, 5
rng = np.random.default_rng(0)
X, MEMORY = rng.normal(size=(B, T, C)), rng.normal(size=(B, S, C))

FORBIDDEN = np.array([[False, True, False], [False, False, True], [True, False, False]])
BY_HEAD = rng.random((B * H, T, T)) < 0.4
BY_HEAD[:, :, 1] = False
ADDED = rng.normal(size=(T, T))
PADDED = np.array([[False, False, True], [False, True, False]])
MEMORY_FORBIDDEN = np.array([[True, False, False, False], [False, True, False, True], [False] * 4])
MEMORY_PADDED = np.array([[False, False, False, True], [False, False, True, False]])
CAUSAL = np.triu(np.ones((T, T), bool), 1)


def added(mask, keys):
    """A mask of PyTorch's as one that is added to scores (B, H, T, keys)."""
    mask = np.where(mask, -np.inf, 0.0) if mask.dtype == bool else mask
    return np.broadcast_to(mask.reshape(B, H, T, keys) if mask.ndim == 3 else mask, (B, H, T, keys))


def attention(layer, x, context, mask):
    """Multi-head attention in NumPy; `mask` (B, H, T, keys) is added to the scores."""
    weights = np.split(layer.in_proj_weight.data, 3)
    biases = [0.0] * 3 if layer.in_proj_bias is None else np.split(layer.in_proj_bias.data, 3)
    q, k, v = (source @ weight.T + bias for source, weight, bias in zip((x, context, context), weights, biases))
    out = np.zeros_like(x)
    for b, h in np.ndindex(B, H):
        of_head = slice(h * C // H, (h + 1) * C // H)
        scores = q[b][:, of_head] @ k[b][:, of_head].T / math.sqrt(C // H) + mask[b, h]
        out[b][:, of_head] = naive.softmax(scores, 1) @ v[b][:, of_head]
    return naive.linear(out, layer.out_proj.weight.data, None if layer.out_proj.bias is None else layer.out_proj.bias.data)


def reference(layer, activation, x, memory=None, mask=0.0, memory_mask=0.0, eps=1e-5):
    """A layer without dropout: `mask` and `memory_mask` are added to scores (B, H, T, T) and (B, H, T, S)."""
    def data(parameter):
        return None if parameter is None else parameter.data

    def norm(i, x):
        own = getattr(layer, f"norm{i}")
        return naive.layer_norm(x, data(own.weight), data(own.bias), eps)

    def feed_forward(x):
        hidden = naive.elementwise(activation)(naive.linear(x, data(layer.linear1.weight), data(layer.linear1.bias)))
        return naive.linear(hidden, data(layer.linear2.weight), data(layer.linear2.bias))

    full = [np.broadcast_to(m, (B, H, T, keys)) for m, keys in ((mask, T), (memory_mask, S))]
    sublayers = [lambda x: attention(layer.self_attn, x, x, full[0])]
    if memory is not None:
        sublayers.append(lambda x: attention(layer.multihead_attn, x, memory, full[1]))
    for i, sublayer in enumerate([*sublayers, feed_forward], start=1):
        x = x + sublayer(norm(i, x)) if layer.norm_first else norm(i, x + sublayer(x))
    return x


def randomised(layer):
    """In float64 and eval, all parameters random: biases, too."""
    mg.manual_seed(0)
    for parameter in layer.double().eval().parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def relu(x):
    return max(x, 0)


# name: options of the layer, activation of the reference, its eps
OPTIONS = {
    "default": ({}, relu, 1e-5),
    "norm_first": ({"norm_first": True}, relu, 1e-5),
    "gelu": ({"activation": "gelu"}, naive.gelu, 1e-5),
    "tanh": ({"activation": "tanh"}, math.tanh, 1e-5),
    "eps": ({"layer_norm_eps": 0.5}, relu, 0.5),
    "no bias": ({"bias": False}, relu, 1e-5),
    "dropout in eval": ({"dropout": 0.9, "norm_first": True}, relu, 1e-5),
}
# name: arguments of the encoder layer, mask of the reference
ENCODER_MASKS = {
    "none": ({}, 0.0),
    "forbidden": ({"src_mask": FORBIDDEN}, added(FORBIDDEN, T)),
    "by head": ({"src_mask": BY_HEAD}, added(BY_HEAD, T)),
    "added": ({"src_mask": ADDED}, added(ADDED, T)),
    "padding": ({"src_key_padding_mask": PADDED}, added(PADDED[:, None, None], T)),
    "causal": ({"src_mask": CAUSAL, "is_causal": True}, added(CAUSAL, T)),
}
DECODER_MASKS = {
    "none": ({}, 0.0, 0.0),
    "tgt_mask": ({"tgt_mask": FORBIDDEN}, added(FORBIDDEN, T), 0.0),
    "memory_mask": ({"memory_mask": MEMORY_FORBIDDEN}, 0.0, added(MEMORY_FORBIDDEN, S)),
    "tgt padding": ({"tgt_key_padding_mask": PADDED}, added(PADDED[:, None, None], T), 0.0),
    "memory padding": ({"memory_key_padding_mask": MEMORY_PADDED}, 0.0, added(MEMORY_PADDED[:, None, None], S)),
    "tgt causal": ({"tgt_mask": CAUSAL, "tgt_is_causal": True}, added(CAUSAL, T), 0.0),
}


def over(cases, names):
    return pytest.mark.parametrize(names, cases.values(), ids=cases)


def tensors(arguments):
    return {name: value if isinstance(value, bool) else mg.tensor(value) for name, value in arguments.items()}


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(C, H, dim_feedforward=WIDE, **{"dropout": 0.0, "batch_first": True, **options})


def decoder_layer(**options):
    return nn.TransformerDecoderLayer(C, H, dim_feedforward=WIDE, **{"dropout": 0.0, "batch_first": True, **options})


@over(OPTIONS, "options, activation, eps")
def test_layers_are_the_reference_with_every_option(options, activation, eps):
    encoder, decoder = randomised(encoder_layer(**options)), randomised(decoder_layer(**options))
    for got, expected in ((encoder(mg.tensor(X)), reference(encoder, activation, X, eps=eps)),
                          (decoder(mg.tensor(X), mg.tensor(MEMORY)), reference(decoder, activation, X, MEMORY, eps=eps))):
        np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-12)


@over(ENCODER_MASKS, "arguments, mask")
def test_encoder_layer_is_the_reference_with_every_mask(arguments, mask):
    layer = randomised(encoder_layer())
    got = layer(mg.tensor(X), **tensors(arguments))
    np.testing.assert_allclose(got.detach().numpy(), reference(layer, relu, X, mask=mask), atol=1e-12)


@over(DECODER_MASKS, "arguments, mask, memory_mask")
def test_decoder_layer_is_the_reference_with_every_mask(arguments, mask, memory_mask):
    layer = randomised(decoder_layer())
    got = layer(mg.tensor(X), mg.tensor(MEMORY), **tensors(arguments))
    np.testing.assert_allclose(got.detach().numpy(), reference(layer, relu, X, MEMORY, mask, memory_mask), atol=1e-12)


def test_is_causal_is_a_hint_about_the_mask():
    """With the causal mask nothing changes, in whichever form it is; without a mask, or with another, it is an error."""
    encoder, decoder = randomised(encoder_layer()), randomised(decoder_layer())
    stacks = randomised(nn.TransformerEncoder(encoder, 2)), randomised(nn.TransformerDecoder(decoder, 2))
    x, memory = mg.tensor(X), mg.tensor(MEMORY)
    future, of_memory = CAUSAL, np.triu(np.ones((T, S), bool), 1)
    for call, mask_name, hint, mask in (
        (lambda **o: encoder(x, **o), "src_mask", "is_causal", future),
        (lambda **o: decoder(x, memory, **o), "tgt_mask", "tgt_is_causal", future),
        (lambda **o: decoder(x, memory, **o), "memory_mask", "memory_is_causal", of_memory),
        (lambda **o: stacks[0](x, **o), "mask", "is_causal", future),
        (lambda **o: stacks[1](x, memory, **o), "tgt_mask", "tgt_is_causal", future),
        (lambda **o: stacks[1](x, memory, **o), "memory_mask", "memory_is_causal", of_memory),
    ):
        masked = call(**{mask_name: mg.tensor(mask)}).detach().numpy()
        for form in (mask, np.where(mask, -np.inf, 0.0), np.stack([mask] * B * H)):
            hinted = call(**{mask_name: mg.tensor(form), hint: True})
            np.testing.assert_allclose(hinted.detach().numpy(), masked, atol=1e-12)
        with pytest.raises(ValueError, match="Need attn_mask if specifying the is_causal hint"):
            call(**{hint: True})
        with pytest.raises(ValueError, match="attn_mask is another"):
            call(**{mask_name: mg.tensor(~mask), hint: True})


@pytest.mark.parametrize("make", [encoder_layer, decoder_layer])
def test_forms_of_the_input(make):
    """(T, B, C) is the default; without a batch, it is (T, C), and padding (T,)."""
    rows, columns = randomised(make()), randomised(make(batch_first=False))
    default = nn.TransformerEncoderLayer(C, H), nn.TransformerDecoderLayer(C, H)
    assert not any(layer.batch_first or layer.norm_first for layer in default)
    inputs = [mg.tensor(X), mg.tensor(MEMORY)][: 2 if make is decoder_layer else 1]
    expected = rows(*inputs).detach().numpy()
    turned = columns(*(x.transpose(0, 1) for x in inputs))
    np.testing.assert_allclose(turned.detach().numpy(), expected.transpose(1, 0, 2), atol=1e-12)
    for layer in (rows, columns):
        np.testing.assert_allclose(layer(*(x[1] for x in inputs)).detach().numpy(), expected[1], atol=1e-12)
    name = "tgt_key_padding_mask" if make is decoder_layer else "src_key_padding_mask"
    padded = rows(*inputs, **{name: mg.tensor(PADDED)})
    alone = rows(*(x[1] for x in inputs), **{name: mg.tensor(PADDED[1])})
    np.testing.assert_allclose(alone.detach().numpy(), padded.detach().numpy()[1], atol=1e-12)


def test_a_stack_is_its_layers_in_turn_with_the_same_masks():
    x, memory, final = mg.tensor(X), mg.tensor(MEMORY), nn.LayerNorm(C).double()
    encoder = randomised(nn.TransformerEncoder(encoder_layer(), 2, norm=final))
    arguments = {"mask": CAUSAL, "src_key_padding_mask": PADDED, "is_causal": True}
    first, second = encoder.layers
    given = list(tensors(arguments).values())
    expected = final(second(first(x, *given), *given))
    np.testing.assert_array_equal(encoder(x, **tensors(arguments)).data, expected.data)

    decoder = randomised(nn.TransformerDecoder(decoder_layer(), 2))
    first, second = decoder.layers
    for name, value in (("tgt_mask", FORBIDDEN), ("memory_mask", MEMORY_FORBIDDEN), ("tgt_key_padding_mask", PADDED),
                        ("memory_key_padding_mask", MEMORY_PADDED)):
        given = tensors({name: value})
        with_it = decoder(x, memory, **given).data
        np.testing.assert_array_equal(with_it, second(first(x, memory, **given), memory, **given).data)
        assert not np.allclose(with_it, decoder(x, memory).data), name


def test_layers_of_a_stack_start_alike_and_are_trained_apart():
    layer = encoder_layer()
    stack = nn.TransformerEncoder(layer, 2)
    first, second = stack.layers
    assert layer not in (first, second) and first is not second
    for own, other, model in zip(first.parameters(), second.parameters(), layer.parameters(), strict=True):
        np.testing.assert_array_equal(own.data, other.data)
        assert not np.shares_memory(own.array, other.array) and not np.shares_memory(own.array, model.array)


@pytest.mark.parametrize("make, places", [(encoder_layer, 3), (decoder_layer, 4)])
def test_dropout_reaches_every_place(make, places):
    """The attention weights, what the activation gives, and what each sublayer adds; by default it is 0.1."""
    layer = make(dropout=0.25)
    assert [module.p for module in layer.modules() if isinstance(module, nn.Dropout)] == [0.25] * places
    attentions = [module for module in layer.modules() if isinstance(module, nn.MultiHeadAttention)]
    assert [module.dropout for module in attentions] == [0.25] * (places - 2)
    assert type(layer)(C, H).dropout.p == 0.1


def test_what_is_dropped_is_not_added():
    x, memory = mg.tensor(X), mg.tensor(MEMORY)
    for layer, inputs in ((encoder_layer(dropout=1.0), [x]), (decoder_layer(dropout=1.0), [x, memory])):
        norms = [getattr(layer.double(), name) for name in ("norm1", "norm2", "norm3") if hasattr(layer, name)]
        for norm in norms:
            nn.init.normal_(norm.weight)
        expected = x
        for norm in norms:
            expected = norm(expected)
        np.testing.assert_array_equal(layer(*inputs).data, expected.data)
        layer.norm_first = True
        np.testing.assert_array_equal(layer(*inputs).data, X)


def test_dropout_acts_on_what_the_activation_gives():
    layer = encoder_layer(activation="sigmoid", norm_first=True, bias=False).double()
    layer.dropout.p = 1.0  # before the activation, it would leave sigmoid(0)
    x = mg.tensor(X)
    np.testing.assert_array_equal(layer(x).data, (x + layer.self_attn(*[layer.norm1(x)] * 3, need_weights=False)[0]).data)
    assert not np.array_equal(layer(x).data, layer.eval()(x).data)


def test_an_activation_is_a_function_a_name_or_a_module():
    for activation in (F.silu, "silu", nn.SiLU()):
        layer = randomised(encoder_layer(activation=activation))
        expected = reference(layer, lambda x: x / (1 + math.exp(-x)), X)
        np.testing.assert_allclose(layer(mg.tensor(X)).detach().numpy(), expected, atol=1e-12)
        assert "silu" in repr(layer).lower()
