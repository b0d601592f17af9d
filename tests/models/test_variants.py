"""The variants of the causal transformer: one field of the config each."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import nn.functional as F
from configs import random_config
from models import CausalTransformer
from models.generate import full_forward, generate
from models.gradcheck import CONFIG, check_model
from models.transformer import ATTENTION_POSITIONS, PLACEMENTS, TABLE_POSITIONS

SMALLER = dataclasses.replace(CONFIG, layers=1, width=8)
VARIANTS = (
    [dict(placement=placement) for placement in PLACEMENTS]
    + [dict(positions=positions) for positions in TABLE_POSITIONS + ATTENTION_POSITIONS]
    + [dict(activation=activation) for activation in F.ACTIVATIONS]
    + [dict(final_norm=False), dict(mlp_ratio=1), dict(layers=0), dict(placement="none", positions="none", bias=False)]
    + [dict(norm="rms_norm", norm_eps=0.1), dict(activation="swiglu"), dict(tied=False), dict(head_size=6),
       dict(heads=4, key_value_heads=2), dict(positions="relative", key_value_heads=1),
       dict(norm="rms_norm", activation="swiglu", hidden_width=7, positions="rotary", rotary_base=50.0,
            rotary_scaling="llama3:8:1:4:12", heads=4, key_value_heads=2, head_size=4, tied=False, bias=False)]
)


def name(changes):
    return ", ".join(f"{field}={value}" for field, value in changes.items())


@pytest.fixture(params=VARIANTS, ids=name)
def model(request):
    mg.manual_seed(0)
    return CausalTransformer(dataclasses.replace(SMALLER, **request.param))


def test_parameters_are_counted(model):
    assert sum(parameter.numel() for parameter in model.parameters()) == model.config.parameter_count()


def test_parameters_of_any_config_are_counted(random):
    for _ in range(200):
        config = random_config(random)
        counted = sum(parameter.numel() for parameter in CausalTransformer(config).parameters())
        assert counted == config.parameter_count(), config


def test_gradients(model):
    report = check_model(seed=1, model=model)
    assert report
    assert not [entry.name for entry in report.inputs if not entry.analytic.any()]  # of a part that never runs


def test_the_future_is_not_seen(model):
    tokens = np.random.default_rng(0).integers(CONFIG.vocabulary_size, size=(2, CONFIG.context))
    changed = tokens.copy()
    changed[:, 3:] = (changed[:, 3:] + 1) % CONFIG.vocabulary_size
    before, after = (model(mg.tensor(t))[0].detach().numpy() for t in (tokens, changed))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).any()


def test_generation_is_the_models_own(model):
    prompt = [1, 2, 3]
    likeliest = full_forward(model, np.array([prompt])).argmax()
    assert list(generate(model, prompt, 1, temperature=0)) == [likeliest]


def test_a_compiled_step_has_the_same_bits(model):
    tokens, targets = map(mg.tensor, np.random.default_rng(0).integers(CONFIG.vocabulary_size, size=(2, 2, 5)))

    def gradients(step):
        model.zero_grad()
        loss = step(tokens, targets)
        return [loss.item()] + [None if p.grad is None else p.grad.tolist() for p in model.parameters()]

    def step(tokens, targets):
        loss = model(tokens, targets)[1]
        loss.backward()
        return loss

    compiled = mg.compile(step)
    expected = gradients(step)
    assert gradients(compiled) == expected == gradients(compiled)
