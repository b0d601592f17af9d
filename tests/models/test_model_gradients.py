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
    assert report and all(entry.error < 1e-8 for entry in report.inputs)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-9)])
def test_against_pytorch(dtype, tolerance, bias):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from benchmarks.torch_gpt import TorchGPT, torch_name

    config = TransformerConfig(vocabulary_size=13, context=20, layers=2, heads=3, width=24, dtype=dtype, bias=bias)
    model, peer = CausalTransformer(config), TorchGPT(config)
    generator = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += 0.2 * generator.normal(size=parameter.shape)
    peer.copy_parameters({name: value.data for name, value in model.state_dict().items()})
    tokens, targets = generator.integers(13, size=(2, 3, 17))
    targets[1, :5] = -100

    loss = model(mg.tensor(tokens), mg.tensor(targets))[1]
    loss.backward()
    expected = peer(torch.tensor(tokens), torch.tensor(targets))[1]
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=tolerance)
    theirs = dict(peer.named_parameters())
    for name, parameter in model.named_parameters():
        gradient = theirs.pop(torch_name(name)).grad.numpy()
        error = np.abs(parameter.grad.numpy() - gradient).max() / np.abs(gradient).max()
        assert error < tolerance, name
    assert not theirs


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
