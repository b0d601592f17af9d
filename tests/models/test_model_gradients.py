"""Every gradient of the whole model: against finite differences, and against PyTorch where it is installed."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
from models import PRESETS, CausalTransformer, TransformerConfig
from models.gradcheck import CONFIG, check_model


def test_against_finite_differences():
    report = check_model(seed=1)
    names = [name for name, _ in CausalTransformer(CONFIG).named_parameters()]
    assert [entry.name for entry in report.inputs] == names
    assert report and all(entry.error < 1e-8 and entry.analytic.any() for entry in report.inputs)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-9)])
def test_against_pytorch(dtype, tolerance, bias):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    config = TransformerConfig(vocabulary_size=13, context=20, layers=2, heads=3, width=24, dtype=dtype, bias=bias)
    model = CausalTransformer(config)
    generator = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += 0.2 * generator.normal(size=parameter.shape)
    tokens, targets = generator.integers(13, size=(2, 3, 17))
    targets[1, :5] = -100

    loss = model(mg.tensor(tokens), mg.tensor(targets))[1]
    loss.backward()
    theirs = {name: torch.tensor(parameter.data, requires_grad=True) for name, parameter in model.named_parameters()}
    expected = torch_loss(theirs, config, torch.tensor(tokens), torch.tensor(targets))
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=tolerance)
    for name, parameter in model.named_parameters():
        gradient = theirs[name].grad.numpy()
        assert np.abs(parameter.grad.numpy() - gradient).max() < tolerance * np.abs(gradient).max(), name


def torch_loss(parameters, config, tokens, targets):
    """The loss of the model in PyTorch, as a function of the parameters by their names here."""
    from torch.nn import functional as F

    def linear(x, name):
        return F.linear(x, parameters[f"{name}weight"], parameters.get(f"{name}bias"))

    def layer_norm(x, name):
        return F.layer_norm(x, (config.width,), parameters[f"{name}weight"], parameters.get(f"{name}bias"))

    x = parameters["token_embedding.weight"][tokens] + parameters["position_embedding.weight"][: tokens.shape[1]]
    for block in (f"blocks.{i}." for i in range(config.layers)):
        packed = linear(layer_norm(x, f"{block}ln_1."), f"{block}attention.in_proj_")
        q, k, v = (part.unflatten(-1, (config.heads, -1)).transpose(1, 2) for part in packed.chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(y, f"{block}attention.out_proj.")
        x = x + linear(F.gelu(linear(layer_norm(x, f"{block}ln_2."), f"{block}mlp.expand.")), f"{block}mlp.project.")
    logits = F.linear(layer_norm(x, "ln_f."), parameters["token_embedding.weight"])
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_float32_of_nano_is_close_to_float64():
    config, batch_size = PRESETS["nano"].config, PRESETS["nano"].batch_size
    tokens, targets = np.random.default_rng(0).integers(config.vocabulary_size, size=(2, batch_size, config.context))
    gradients = []
    for dtype in ("float64", "float32"):
        mg.manual_seed(0)
        model = CausalTransformer(dataclasses.replace(config, dtype="float32")).to(dtype)
        model(mg.tensor(tokens), mg.tensor(targets))[1].backward()
        gradients.append({name: parameter.grad.numpy() for name, parameter in model.named_parameters()})
    exact, rounded = gradients
    for name in exact:
        assert np.abs(rounded[name] - exact[name]).max() < 1e-4 * np.abs(exact[name]).max(), name
