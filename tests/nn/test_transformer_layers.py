"""Transformer layers against the same sublayers, one after the other."""
import numpy as np
import pytest

import minigrad as mg
import nn
from nn import functional as F

B, T, S, C, H = 2, 3, 4, 6, 2
rng = np.random.default_rng(0)
X, MEMORY = mg.tensor(rng.normal(size=(B, T, C))), mg.tensor(rng.normal(size=(B, S, C)))
FUTURE, FUTURE_OF_MEMORY = (mg.tensor(np.triu(np.ones((T, keys), bool), 1)) for keys in (T, S))
FORBIDDEN = mg.tensor([[False, True, False], [False, False, True], [True, False, False]])
PADDED = mg.tensor([[False, False, True], [False, True, False]])
MEMORY_FORBIDDEN = mg.tensor([[True, False, False, False], [False, True, False, True], [False] * 4])
MEMORY_PADDED = mg.tensor([[False, False, False, True], [False, False, True, False]])


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(C, H, dim_feedforward=5, **{"dropout": 0.0, "batch_first": True, **options})


def decoder_layer(**options):
    return nn.TransformerDecoderLayer(C, H, dim_feedforward=5, **{"dropout": 0.0, "batch_first": True, **options})


both_layers = pytest.mark.parametrize("make, inputs", [(encoder_layer, [X]), (decoder_layer, [X, MEMORY])], ids=["encoder", "decoder"])


def randomised(layer):
    """In float64 and eval, all parameters random: biases, too."""
    mg.manual_seed(0)
    for parameter in layer.double().eval().parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def reference(layer, activation, x, memory=None, mask=None, padding=None, memory_mask=None, memory_padding=None):
    """A layer without dropout."""
    sublayers = [lambda x: layer.self_attn(x, x, x, padding, attn_mask=mask)[0]]
    if memory is not None:
        sublayers.append(lambda x: layer.multihead_attn(x, memory, memory, memory_padding, attn_mask=memory_mask)[0])
    sublayers.append(lambda x: layer.linear2(activation(layer.linear1(x))))
    for i, sublayer in enumerate(sublayers, start=1):
        norm = getattr(layer, f"norm{i}")
        x = x + sublayer(norm(x)) if layer.norm_first else norm(x + sublayer(x))
    return x


def assert_close(got, expected):
    np.testing.assert_allclose(got.data, expected.data, atol=1e-12)


@both_layers
@pytest.mark.parametrize("options, activation", [
    ({}, F.relu), ({"norm_first": True}, F.relu), ({"activation": "gelu"}, F.gelu), ({"activation": F.silu}, F.silu),
    ({"activation": nn.SiLU()}, F.silu), ({"dropout": 0.9, "norm_first": True}, F.relu),
], ids=["default", "norm_first", "gelu", "silu", "SiLU", "dropout"])
def test_layers_are_the_reference_with_every_option(make, inputs, options, activation):
    layer = randomised(make(**options))
    assert_close(layer(*inputs), reference(layer, activation, *inputs))
    assert options.get("activation") is None or activation.__name__ in repr(layer).lower()


@both_layers
def test_every_part_has_the_bias_and_every_norm_the_eps(make, inputs):
    layer = make(bias=False, layer_norm_eps=0.5)
    assert not [name for name, _ in layer.named_parameters() if "bias" in name]
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    assert [norm.eps for norm in norms] == [0.5] * (len(inputs) + 1)


@pytest.mark.parametrize("make, inputs, masks", [
    (encoder_layer, [X], {"src_mask": FORBIDDEN}), (encoder_layer, [X], {"src_key_padding_mask": PADDED}),
    (encoder_layer, [X], {"src_mask": mg.tensor(rng.normal(size=(T, T)))}),
    (encoder_layer, [X], {"src_mask": mg.tensor((rng.random((B * H, T, T)) < 0.4) & ~np.eye(T, dtype=bool))}),
    *((decoder_layer, [X, MEMORY], masks) for masks in (
        {"tgt_mask": FORBIDDEN}, {"tgt_key_padding_mask": PADDED}, {"memory_mask": MEMORY_FORBIDDEN},
        {"memory_key_padding_mask": MEMORY_PADDED})),
])
def test_layers_and_stacks_are_the_reference_with_every_mask(make, inputs, masks):
    """Each layer of a stack gets all masks, and a final norm nothing."""
    layer, stack = randomised(make()), {encoder_layer: nn.TransformerEncoder, decoder_layer: nn.TransformerDecoder}[make]
    names = {"src_mask": "mask", "tgt_mask": "mask", "src_key_padding_mask": "padding", "tgt_key_padding_mask": "padding",
             "memory_key_padding_mask": "memory_padding"}
    of_reference = {names.get(name, name): mask for name, mask in masks.items()}
    expected = reference(layer, F.relu, *inputs, **of_reference)
    assert_close(layer(*inputs, **masks), expected)
    assert not np.allclose(layer(*inputs).data, expected.data)
    x, *memory = inputs
    of_stack = {"mask" if name == "src_mask" else name: mask for name, mask in masks.items()}
    for norm in (None, nn.LayerNorm(C).double()):
        whole = randomised(stack(layer, 2, norm))
        expected = x
        for each in whole.layers:
            expected = reference(each, F.relu, expected, *memory, **of_reference)
        assert_close(whole(*inputs, **of_stack), expected if norm is None else norm(expected))


def test_is_causal_is_a_hint_about_the_mask():
    """With the causal mask in any form nothing changes; without a mask, or with another, it is an error."""
    encoder, decoder = randomised(encoder_layer()), randomised(decoder_layer())
    stacks = randomised(nn.TransformerEncoder(encoder, 2)), randomised(nn.TransformerDecoder(decoder, 2))
    for layer, inputs, mask_name, hint, mask in (
        (encoder, [X], "src_mask", "is_causal", FUTURE), (stacks[0], [X], "mask", "is_causal", FUTURE),
        *((layer, [X, MEMORY], f"{name}_mask", f"{name}_is_causal", mask) for layer in (decoder, stacks[1])
          for name, mask in (("tgt", FUTURE), ("memory", FUTURE_OF_MEMORY))),
    ):
        masked, array = layer(*inputs, **{mask_name: mask}), mask.numpy()
        for form in (array, np.where(array, -np.inf, 0.0), np.stack([array] * B * H)):
            assert_close(layer(*inputs, **{mask_name: mg.tensor(form), hint: True}), masked)
        with pytest.raises(ValueError, match="Need attn_mask if specifying the is_causal hint"):
            layer(*inputs, **{hint: True})
        with pytest.raises(ValueError, match="attn_mask is another"):
            layer(*inputs, **{mask_name: ~mask, hint: True})


@both_layers
def test_forms_of_the_input(make, inputs):
    """(T, B, C) is the default; unbatched, it is (T, C), and padding (T,)."""
    rows, columns = randomised(make()), randomised(make(batch_first=False))
    default = type(rows)(C, H)
    assert not default.batch_first and not default.norm_first and default.dropout.p == 0.1
    expected = rows(*inputs)
    assert_close(columns(*(x.transpose(0, 1) for x in inputs)), expected.transpose(0, 1))
    for layer in (rows, columns):
        assert_close(layer(*(x[1] for x in inputs)), expected[1])
    name = "tgt_key_padding_mask" if make is decoder_layer else "src_key_padding_mask"
    assert_close(rows(*(x[1] for x in inputs), **{name: PADDED[1]}), rows(*inputs, **{name: PADDED})[1])


def test_layers_of_a_stack_start_alike_and_are_trained_apart():
    layer = encoder_layer()
    first, second = nn.TransformerEncoder(layer, 2).layers
    assert len({layer, first, second}) == 3
    for own, other, model in zip(first.parameters(), second.parameters(), layer.parameters(), strict=True):
        np.testing.assert_array_equal(own.data, other.data)
        assert not np.shares_memory(own.array, other.array) and not np.shares_memory(own.array, model.array)


@both_layers
def test_dropout_acts_on_weights_after_the_activation_and_on_what_is_added(make, inputs):
    layer = make(dropout=0.25)
    assert [module.p for module in layer.modules() if isinstance(module, nn.Dropout)] == [0.25] * (len(inputs) + 2)
    attentions = [module for module in layer.modules() if isinstance(module, nn.MultiHeadAttention)]
    assert [module.dropout for module in attentions] == [0.25] * len(inputs)

    layer, expected = make(dropout=1.0).double(), inputs[0]
    for norm in [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]:
        nn.init.normal_(norm.weight)
        expected = norm(expected)
    np.testing.assert_array_equal(layer(*inputs).data, expected.data)
    layer.norm_first = True
    np.testing.assert_array_equal(layer(*inputs).data, X.data)

    layer = make(activation="sigmoid", norm_first=True, bias=False).double()
    layer.dropout.p = 1.0  # before the activation, it would leave sigmoid(0)
    layer.linear2.weight.data[...] = 1.0
    dropped = layer(*inputs)
    layer.linear2.weight.data[...] = 0.0
    np.testing.assert_array_equal(dropped.data, layer.eval()(*inputs).data)
