"""PyTorch's part in benchmarks/to_a_loss.py is the same model with the same training as here."""
import contextlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.torch_gpt import torch_name  # noqa: E402
from benchmarks.torch_training import PRESETS as THEIR_PRESETS  # noqa: E402
from benchmarks.torch_training import RECIPES as THEIRS  # noqa: E402
from benchmarks.torch_training import as_ids, make_model, make_optimizers, share_of_rate, train  # noqa: E402
from models.data import Corpus  # noqa: E402
from models.recipes import RECIPES  # noqa: E402
from models.tokenizers import Vocabulary  # noqa: E402
from models.train import Trainer  # noqa: E402
from models.training_config import TrainingConfig  # noqa: E402
from models.config import TransformerConfig  # noqa: E402
from models.recipes import PRESETS, SIZES  # noqa: E402
from models.transformer import CausalTransformer  # noqa: E402

V = 11
SMALL = dict(layers=2, heads=2, width=32, context=16, batch_size=3)


def both_models(recipe: str) -> tuple[CausalTransformer, torch.nn.Module]:
    """The models, with the same parameters: larger than at first, so that attention and gates matter, and gains not 1."""
    random = np.random.default_rng(0)
    config = TransformerConfig(**{name: SMALL[name] for name in SIZES}, vocabulary_size=V, **RECIPES[recipe].model)
    ours, theirs = CausalTransformer(config), make_model(THEIRS[recipe], SMALL, V)
    for parameter in ours.parameters():
        parameter.data[...] += 0.1 * random.standard_normal(parameter.shape)
    theirs.load_state_dict({torch_name(name): torch.tensor(p.numpy()) for name, p in ours.state_dict().items()})
    return ours, theirs


@pytest.mark.parametrize("recipe", THEIRS)
def test_training(recipe, random):
    """Three steps on a text of one window, so that all batches are the same. The gradient of the keys' bias is only rounding,
    which AdamW scales up to a full step, so biases of attention are left out."""
    ours, theirs = both_models(recipe)
    text = random.integers(0, V, SMALL["context"] + 1)
    config = TrainingConfig(**RECIPES[recipe].training | {"steps": 3, "batch_size": SMALL["batch_size"], "precision": "float32"})
    trainer = Trainer(ours, Corpus(None, Vocabulary("abcdefghijk"), text, text, "", len(text)), config)
    for _ in range(3):
        trainer.train_step()
    optimizers = make_optimizers(theirs, THEIRS[recipe], torch.float32)
    assert optimizers[0].defaults["betas"] == (config.beta1, config.beta2)
    train(theirs, optimizers, THEIRS[recipe], torch.tensor(text), SMALL, 3, contextlib.nullcontext())
    for name, parameter in ours.named_parameters():
        if name.endswith("in_proj_bias"):
            continue
        np.testing.assert_allclose(parameter.array, theirs.get_parameter(torch_name(name)).detach().numpy(), rtol=0,
                                   atol=1e-4, err_msg=name)


@pytest.mark.parametrize("recipe", THEIRS)
def test_rates(recipe):
    config = TrainingConfig(**RECIPES[recipe].training)
    assert THEIRS[recipe].steps == config.steps
    for step in range(config.steps):
        rate = THEIRS[recipe].lr * share_of_rate(THEIRS[recipe], config.steps, step)
        assert rate == pytest.approx(config.learning_rate_at(step), rel=1e-12)


@pytest.mark.parametrize("preset", THEIR_PRESETS)
def test_sizes(preset):
    config = PRESETS[preset].config
    assert THEIR_PRESETS[preset] == {name: getattr(config, name) for name in SIZES} | {"batch_size": PRESETS[preset].batch_size}


def test_ids():
    ids, count = as_ids("cabbage ü")
    assert (ids.tolist(), count) == ([3, 1, 2, 2, 1, 5, 4, 0, 6], 7)
