"""Layers with parameters against their formulas, and initialisation."""
import math

import numpy as np
import pytest

import minigrad as mg
import naive
import nn
from nn import functional as F
from nn import init

X = np.random.default_rng(0).normal(size=(2, 5, 6))

ACTIVATIONS = {"gelu": naive.gelu, "gelu_tanh": naive.gelu_tanh, "relu": lambda x: max(x, 0), "tanh": math.tanh,
               "sigmoid": naive.sigmoid, "silu": lambda x: x * naive.sigmoid(x)}


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_an_activation_follows_a_linear_layer(activation):
    layer = nn.Linear(6, 4, activation=activation).double()
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    expected = naive.elementwise(ACTIVATIONS.get(activation, lambda x: x))(X @ weight.T + bias)
    np.testing.assert_allclose(layer(mg.tensor(X)).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("bias", [True, False])
def test_an_mlp_is_two_linear_layers(activation, bias):
    layers = [nn.Linear(6, 4, bias, activation=activation).double(), nn.Linear(4, 3, bias).double()]
    parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
    expected = layers[1](layers[0](mg.tensor(X))).detach().numpy()
    np.testing.assert_allclose(F.mlp(mg.tensor(X), *parameters, activation).detach().numpy(), expected, atol=1e-12)


DENOMINATORS = {
    "inside": lambda variance, eps: math.sqrt(variance + eps),
    "outside": lambda variance, eps: math.sqrt(variance) + eps,
    "double_root": lambda variance, eps: variance**0.25 + eps,
}


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"elementwise_affine": False}], ids=str)
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("eps_at", DENOMINATORS)
def test_layer_norm_with_another_denominator(eps_at, unbiased, options):
    layer = nn.LayerNorm(6, eps=0.1, eps_at=eps_at, unbiased=unbiased, **options).double()
    for parameter in layer.parameters():
        init.normal_(parameter)
    expected = np.array([[naive.normalized(row, lambda v: DENOMINATORS[eps_at](v, 0.1), int(unbiased)) for row in rows]
                         for rows in X])
    for name, parameter in layer.named_parameters():
        expected = expected * parameter.array if name == "weight" else expected + parameter.array
    assert len(list(layer.parameters())) == {"bias": 1, "elementwise_affine": 0}.get(next(iter(options), None), 2)
    np.testing.assert_allclose(layer(mg.tensor(X)).detach().numpy(), expected, atol=1e-12)


REPRS = [
    "Linear(in_features=2, out_features=3, bias=True, activation='relu')", "Dropout(p=0.5)",
    "Embedding(5, 4, padding_idx=1)", "Embedding(5, 4)", "GELU(approximate='tanh')", "Softmax(dim=-1)",
    "LayerNorm((4,), eps=1e-05, elementwise_affine=True)", "RMSNorm((4,), eps=0.5, elementwise_affine=True)",
    "Flatten(start_dim=0, end_dim=2)", "MSELoss(reduction='sum')", "LeakyReLU(negative_slope=0.5)",
    "Softplus(beta=2.0, threshold=1.0)",
]


def test_identity_takes_the_arguments_of_the_layer_that_it_replaces():
    x = mg.ones(2)
    assert nn.Identity()(x) is nn.Identity(54, bias=False)(x) is x and not list(nn.Identity(54).parameters())


@pytest.mark.parametrize("text", REPRS)
def test_repr_is_the_call(text):
    assert repr(eval(text, vars(nn))) == text


@pytest.mark.parametrize("with_positions", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 0, 2, -1])
def test_embedding_and_its_padding(padding_idx, with_positions):
    """Padding starts as zeros, and gets no gradient."""
    table = nn.Embedding(4, 3, padding_idx=padding_idx).double()
    row = [] if padding_idx is None else padding_idx % 4
    assert table.padding_idx == (row if row != [] else None) and not table.weight.array[row].any()
    assert np.delete(table.weight.array, row, 0).all()
    ids = np.array([[0, 1, 2], [3, 2, 0]])
    positions = mg.randn(5, 3, dtype=mg.float64, requires_grad=True) if with_positions else None
    table.weight.data[row] = 7.0  # what is put there comes out
    upstream = np.random.default_rng(0).normal(size=(2, 3, 3))
    y = table(mg.tensor(ids), positions)
    y.backward(mg.tensor(upstream))
    expected = np.zeros((4, 3))
    np.add.at(expected, ids, upstream)
    expected[row] = 0
    np.testing.assert_allclose(table.weight.grad.numpy(), expected, atol=1e-15)
    added = np.zeros((5, 3)) if positions is None else positions.detach().numpy()
    np.testing.assert_array_equal(y.detach().numpy(), table.weight.array[ids] + added[:3])
    if with_positions:
        np.testing.assert_allclose(positions.grad.numpy()[:3], upstream.sum(0), atol=1e-15)


@pytest.mark.parametrize("options", [{}, {"freeze": False}, {"padding_idx": 1, "freeze": False}], ids=str)
def test_a_pretrained_embedding_is_pytorchs(options):
    torch = pytest.importorskip("torch")
    weight, ids = X[0, :3], [[0, 1], [2, 1]]
    found = []
    for library, names in ((mg, nn), (torch, torch.nn)):
        layer = names.Embedding.from_pretrained(library.tensor(weight), **options)
        y = layer(library.tensor(ids))
        assert layer.weight.requires_grad == y.requires_grad == (options.get("freeze") is False)
        if y.requires_grad:
            (y * y).sum().backward()
        found.append([layer.num_embeddings, layer.embedding_dim, layer.padding_idx, y.tolist(),
                      layer.weight.grad if layer.weight.grad is None else layer.weight.grad.tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("text, draws", [
    ("LayerNorm(3)", False), ("LayerNorm((2, 3), bias=False)", False), ("RMSNorm(3)", False),
    ("RNN(2, 3)", True), ("GRU(2, 3, bias=False)", True), ("LSTM(2, 3, 2)", True),
    ("LayerNorm(3, elementwise_affine=False)", False), ("Linear(2, 3)", True), ("Embedding(4, 2, padding_idx=1)", True),
])
def test_reset_parameters_starts_anew(text, draws):
    mg.manual_seed(0)
    layer = eval(f"nn.{text}")
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    for parameter in layer.parameters():
        parameter.data[...] = 9.0
    mg.manual_seed(0)
    layer.reset_parameters()
    assert all(value.equal(before[name]) for name, value in layer.state_dict().items())
    if draws:
        layer.reset_parameters()
        assert not any(value.equal(before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("fill, mean, std, low, high", [
    ("zeros_(t)", 0, 0, 0, 0),
    ("ones_(t)", 1, 0, 1, 1),
    ("constant_(t, 0.5)", 0.5, 0, 0.5, 0.5),
    ("uniform_(t, -1, 3)", 1, 4 / math.sqrt(12), -1, 3),
    ("normal_(t, 2, 0.5)", 2, 0.5, -2, 6),
    ("trunc_normal_(t, std=1, a=-1, b=1)", 0, 0.54, -1, 1),
    ("trunc_normal_(t, mean=1, std=0.5, a=0.5, b=3)", 1.144, 0.397, 0.5, 3),
    ("trunc_normal_(t, mean=1, std=0.5, a=-9, b=1.5)", 0.856, 0.397, -9, 1.5),
    ("xavier_uniform_(t, gain=3)", 0, 3 * math.sqrt(2 / 300), -3 * math.sqrt(6 / 300), 3 * math.sqrt(6 / 300)),
    ("kaiming_uniform_(t, mode='fan_out')", 0, 0.1, -math.sqrt(6 / 200), math.sqrt(6 / 200)),
    ("kaiming_uniform_(t, nonlinearity='tanh')", 0, 1 / 6, -math.sqrt(3) / 6, math.sqrt(3) / 6),
    ("xavier_uniform_(t)", 0, math.sqrt(2 / 300), -math.sqrt(6 / 300), math.sqrt(6 / 300)),
    ("xavier_normal_(t, gain=2)", 0, 2 * math.sqrt(2 / 300), -1, 1),
    ("kaiming_uniform_(t, a=5 ** 0.5)", 0, math.sqrt(1 / 300), -0.1, 0.1),
    ("kaiming_normal_(t, mode='fan_out', nonlinearity='relu')", 0, 0.1, -1, 1),
])
def test_init(fill, mean, std, low, high):
    mg.manual_seed(0)
    tensor = nn.Parameter(mg.full((200, 100), 9.0))
    array = tensor.array
    assert eval(f"init.{fill}", {"init": init, "t": tensor}) is tensor and tensor.array is array and tensor.dtype == mg.float32
    assert abs(array.mean() - mean) < 0.03 and abs(array.std() - std) < 0.03 * max(std, 0.1)
    assert array.min() >= low - 1e-6 and array.max() <= high + 1e-6


def test_gains_are_pytorchs():
    torch = pytest.importorskip("torch")
    for arguments in (["linear"], ["sigmoid"], ["tanh"], ["relu"], ["leaky_relu"], ["leaky_relu", 0.3]):
        assert init.calculate_gain(*arguments) == pytest.approx(torch.nn.init.calculate_gain(*arguments))


def test_further_axes_count_in_both_fans():
    weight = init.kaiming_normal_(mg.zeros(40, 30, 5, 2), nonlinearity="linear")
    assert weight.array.std() == pytest.approx(1 / math.sqrt(300), rel=0.05)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 2)])
def test_orthogonal_rows_or_columns(shape):
    found = init.orthogonal_(mg.zeros(*shape, dtype=mg.float64), gain=2.0).numpy().reshape(shape[0], -1)
    product = found @ found.T if found.shape[0] <= found.shape[1] else found.T @ found
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-14)
    draws = np.array([init.orthogonal_(mg.zeros(2, 2)).numpy()[0] for _ in range(400)])
    assert np.abs(draws.mean(0)).max() < 0.2 and (draws > 0).mean(0).min() > 0.35  # each direction alike


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # PyTorch's
@pytest.mark.parametrize("text", [
    "Linear(400, 300)", "Embedding(300, 400)", "LayerNorm(30)", "MultiheadAttention(300, 3)", "MultiheadAttention(300, 3, kdim=200)",
    "Embedding(300, 400, padding_idx=0)", "RMSNorm(30)", "TransformerEncoderLayer(150, 3, 100, bias=False)",
    "TransformerDecoderLayer(150, 3, 100, bias=False)", "Transformer(150, 3, 1, 1, 100, bias=False)",
])
def test_default_inits_are_pytorchs(text):
    torch = pytest.importorskip("torch")
    mg.manual_seed(0)
    torch.manual_seed(0)
    layer, their_layer = (eval(text, vars(library)) for library in (nn, torch.nn))
    for (name, ours), theirs in zip(layer.named_parameters(), their_layer.parameters(), strict=True):
        ours, theirs = ours.array, theirs.detach().numpy()
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        for quantile in (0.01, 0.2, 0.5, 0.8, 0.99):
            np.testing.assert_allclose(*(np.quantile(values, quantile) for values in (ours, theirs)), err_msg=name,
                                       atol=0.2 * ours.std())
