"""The causal transformer: its config, its shape, and what it must and must not see."""
import dataclasses
import math

import numpy as np
import pytest

import minigrad as mg
import nn
from models import PRESETS, CausalTransformer, TransformerConfig

SMALL = TransformerConfig(vocabulary_size=11, context=8, layers=2, heads=2, width=16)


@pytest.mark.parametrize("fields, says", [
    (dict(width=0), "width must be a whole number from 1 to 1000000000, got 0"),
    (dict(layers=-1), "layers must be a whole number"),
    (dict(context=2.5), "context must be a whole number"),
    (dict(heads=True), "heads must be a whole number"),
    (dict(vocabulary_size=10 ** 10), "vocabulary_size must be a whole number"),
    (dict(width=float("nan")), "width must be a whole number"),
    (dict(heads=3, width=16), "heads must divide width, got heads 3 and width 16; change one of them"),
    (dict(dropout=1.0), "dropout must be at least 0 and less than 1, got 1.0"),
    (dict(dropout=-0.1), "dropout must be"),
    (dict(dropout=float("nan")), "dropout must be"),
    (dict(dropout="a"), "dropout must be"),
    (dict(bias=1), "bias must be True or False, got 1"),
    (dict(positions="rotary", heads=16), "positions 'rotary' rotates pairs of features, so width / heads must be even"),
    (dict(positions="cosine"), "positions must be one of learned, none, sinusoidal"),
    (dict(placement="last"), "placement must be one of pre, post, residual"),
    (dict(activation="elu"), "activation must be one of gelu, gelu_tanh, relu"),
    (dict(positions="rotary", head_size=3), "or head_size if it is given, got 3"),
    (dict(norm="batch_norm"), "norm must be one of layer_norm, rms_norm, got 'batch_norm'"),
    (dict(norm_eps=0.0), "norm_eps must be a number between 0 and 1, got 0.0"),
    (dict(norm_eps=float("nan")), "norm_eps must be"),
    (dict(norm_eps="a"), "norm_eps must be"),
    (dict(norm_eps=True), "norm_eps must be"),
    (dict(key_value_heads=0), "key_value_heads must be a whole number from 1"),
    (dict(heads=4, key_value_heads=3), "key_value_heads must divide heads, got 3 and 4; change one of them"),
    (dict(key_value_heads=4), "key_value_heads must divide heads, got 4 and 2"),
    (dict(head_size=0), "head_size must be a whole number from 1"),
    (dict(hidden_width=2.5), "hidden_width must be a whole number from 1"),
    (dict(tied=None), "tied must be True or False, got None"),
    (dict(rotary_base=5.0), "rotary_base is of positions 'rotary', got positions 'learned'; leave rotary_base out"),
    (dict(rotary_scaling="linear:2"), "rotary_scaling is of positions 'rotary', got positions 'learned'"),
    (dict(positions="rotary", rotary_base=0.0), "rotary_base must be a number between 0 and 1e+12, got 0.0"),
    (dict(positions="rotary", rotary_scaling="yarn:4"), "rotary_scaling must be 'none', 'linear:FACTOR' or 'llama3:"),
    (dict(dtype="float16"), "dtype must be float32 or float64, got 'float16'"),
])
def test_bad_config(fields, says):
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(SMALL, **fields)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_presets():
    table = {name: (p.config.layers, p.config.heads, p.config.width, p.config.context, p.batch_size)
             for name, p in PRESETS.items()}
    assert table == {"micro": (2, 2, 32, 32, 4), "nano": (4, 4, 128, 64, 12), "small": (4, 4, 256, 128, 16),
                     "long": (2, 4, 128, 1024, 2), "baby": (6, 6, 384, 256, 16)}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parameters_and_logits(bias, dtype):
    config = dataclasses.replace(SMALL, bias=bias, dtype=dtype)
    model = CausalTransformer(config)
    assert sum(p.numel() for p in model.parameters()) == config.parameter_count()
    assert {p.dtype for p in model.parameters()} == {np.dtype(dtype)}
    logits, loss = model(mg.zeros(3, 5, dtype=mg.int64))
    assert logits.shape == (3, 5, 11) and logits.dtype == dtype and loss is None
    assert model(mg.zeros(3, 5, dtype=mg.int64), mg.zeros(3, 5, dtype=mg.int64))[1].dtype == dtype


@pytest.mark.parametrize("dtype, itemsize", [("float32", 4), ("float64", 8)])
def test_memory_of_a_training_step(dtype, itemsize):
    """That of parameters, gradients and two moments, and what a batch adds to it."""
    config = dataclasses.replace(SMALL, dtype=dtype)
    one, two, four = map(config.training_bytes, (1, 2, 4))
    assert two - one == (four - two) / 2 > itemsize * config.context * config.layers * 10 * config.width
    assert one - (two - one) == 4 * itemsize * config.parameter_count()


def test_initialisation():
    mg.manual_seed(0)
    config = dataclasses.replace(SMALL, width=64, layers=8)
    for name, parameter in CausalTransformer(config).named_parameters():
        values = parameter.detach().numpy()
        if parameter.ndim == 2:
            to_residual = "out_proj" in name or "project" in name
            assert values.std() == pytest.approx(0.02 / math.sqrt(16) if to_residual else 0.02, rel=0.1), name
        else:
            assert (values == float(name.endswith("weight"))).all(), name


def test_loss_at_the_start_is_that_of_guessing():
    mg.manual_seed(0)
    tokens, targets = map(mg.tensor, np.random.default_rng(0).integers(11, size=(2, 4, 8)))
    assert CausalTransformer(SMALL)(tokens, targets)[1].item() == pytest.approx(math.log(11), rel=0.05)


def test_loss_ignores_minus_100():
    model = CausalTransformer(SMALL)
    tokens, targets = np.random.default_rng(0).integers(11, size=(2, 2, 8))
    targets[:, 3:] = -100
    logits, loss = model(mg.tensor(tokens), mg.tensor(targets))
    first = nn.functional.cross_entropy(logits[:, :3].reshape(-1, 11), mg.tensor(targets[:, :3].reshape(-1)))
    assert loss.item() == pytest.approx(first.item(), rel=1e-6)


@pytest.mark.parametrize("shape", [(8,), (2, 9), (2, 0), (1, 2, 3)])
def test_bad_shape_of_tokens(shape):
    with pytest.raises(ValueError, match="expected tokens .B, T. with 1 <= T <= 8"):
        CausalTransformer(SMALL)(mg.zeros(*shape, dtype=mg.int64))


def test_texts_without_an_end():
    """Positions that are not in a table: only no tokens at all are refused."""
    model = CausalTransformer(dataclasses.replace(SMALL, positions="rotary"))
    assert model(mg.zeros(2, 30, dtype=mg.int64))[0].shape == (2, 30, 11)
    with pytest.raises(ValueError, match=r"expected tokens \(B, T\) with 1 <= T, got \(2, 0\)"):
        model(mg.zeros(2, 0, dtype=mg.int64))


@pytest.mark.parametrize("token", [-1, 11])
def test_unknown_token(token):
    with pytest.raises(IndexError, match=str(token)):
        CausalTransformer(SMALL)(mg.tensor([[0, token]]))


def test_a_future_token_changes_no_earlier_logit():
    mg.manual_seed(0)
    model = CausalTransformer(SMALL).eval()
    tokens = np.random.default_rng(0).integers(11, size=(2, 8))
    before = model(mg.tensor(tokens))[0].detach().numpy()
    for t in range(1, 8):
        changed = tokens.copy()
        changed[:, t] = (changed[:, t] + 1) % 11
        after = model(mg.tensor(changed))[0].detach().numpy()
        assert after[:, :t].tobytes() == before[:, :t].tobytes()
        assert (after[:, t:] != before[:, t:]).any(axis=-1).all()


def test_one_batch_is_learned_by_heart():
    mg.manual_seed(0)
    model = CausalTransformer(SMALL)
    tokens, targets = map(mg.tensor, np.random.default_rng(0).integers(11, size=(2, 4, 8)))
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(tokens, targets)[1]
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_dropout_only_while_training():
    mg.manual_seed(0)
    model = CausalTransformer(dataclasses.replace(SMALL, dropout=0.5))
    tokens = mg.zeros(2, 8, dtype=mg.int64)
    one, two = (model(tokens)[0].detach().numpy() for _ in range(2))
    assert (one != two).any()
    model.eval()
    one, two = (model(tokens)[0].detach().numpy() for _ in range(2))
    assert (one == two).all()


@pytest.mark.parametrize("name, width, activation", [
    ("token_embedding", 32, "gelu"), ("blocks.0.mlp.expand", 128, "gelu"), ("blocks.1.mlp.project", 32, "gelu"),
    ("blocks.0.mlp.gate", 128, "swiglu"),
])
def test_hooks_of_parts_that_are_fused_are_called(name, width, activation):
    model, seen = CausalTransformer(dataclasses.replace(PRESETS["micro"].config, activation=activation)), []
    tokens = mg.zeros(2, 5, dtype=mg.int64)
    expected, _ = model(tokens)
    dict(model.named_modules())[name].register_forward_hook(lambda module, args, out: seen.append(out.shape))
    logits, _ = model(tokens)
    assert seen == [(2, 5, width)]
    np.testing.assert_allclose(logits.detach().numpy(), expected.detach().numpy(), rtol=0, atol=1e-6)
