"""Transformer layers: hints, copies and dropout. (Their formula is in tests/layers.py, masks and forms in test_pytorch_calls.py.)"""
import numpy as np
import pytest

import minigrad as mg
import nn

B, T, S, C, H = 2, 3, 4, 6, 2
rng = np.random.default_rng(0)
X, MEMORY = mg.tensor(rng.normal(size=(B, T, C))), mg.tensor(rng.normal(size=(B, S, C)))
FUTURE, FUTURE_OF_MEMORY = (mg.tensor(np.triu(np.ones((T, keys), bool), 1)) for keys in (T, S))
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


def assert_close(got, expected):
    np.testing.assert_allclose(got.array, expected.array, atol=1e-12)


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


def test_layers_of_a_stack_start_alike_and_are_trained_apart():
    layer = encoder_layer()
    first, second = nn.TransformerEncoder(layer, 2).layers
    assert len({layer, first, second}) == 3
    for own, other, model in zip(first.parameters(), second.parameters(), layer.parameters(), strict=True):
        np.testing.assert_array_equal(own.array, other.array)
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
    np.testing.assert_array_equal(layer(*inputs).array, expected.array)
    layer.norm_first = True
    np.testing.assert_array_equal(layer(*inputs).array, X.array)

    layer = make(activation="sigmoid", norm_first=True, bias=False).double()
    layer.dropout.p = 1.0  # before the activation, it would leave sigmoid(0)
    layer.linear2.weight.data[...] = 1.0
    dropped = layer(*inputs)
    layer.linear2.weight.data[...] = 0.0
    np.testing.assert_array_equal(dropped.array, layer.eval()(*inputs).array)
