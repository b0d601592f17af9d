"""Sampling: seeds, temperature, top-k, top-p, and the window that the model sees."""
import types

import numpy as np
import pytest

import minigrad as mg
import nn
from models import generate
from models.generate import draw


class Successor(nn.Module):
    """A model with context 4 and 5 tokens that is sure: after token i comes i + 1; it notes what it was shown."""

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(context=4)
        self.seen = []

    def forward(self, tokens):
        self.seen.append(tokens.tolist()[0])
        assert not self.training and not mg.is_grad_enabled()
        return mg.tensor(10 * np.eye(5, dtype=np.float32)[(tokens.numpy() + 1) % 5]), None


def test_greedy_crops_to_the_context():
    model = Successor()
    assert list(generate(model, [0, 1, 2], 4, temperature=0)) == [3, 4, 0, 1]
    assert model.seen == [[0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 0]]
    assert model.training


def test_seed():
    one, two, other = (list(generate(Successor(), [0], 30, temperature=9.0, seed=seed)) for seed in (1, 1, 2))
    assert one == two != other


def frequencies(logits, count=4000, **options) -> np.ndarray:
    generator = np.random.default_rng(0)
    options = dict(temperature=1.0, top_k=None, top_p=None) | options
    drawn = [draw(np.log(logits, dtype=np.float32), generator=generator, **options) for _ in range(count)]
    return np.bincount(drawn, minlength=len(logits)) / count


@pytest.mark.parametrize("options, expected", [
    (dict(), [0.1, 0.4, 0.2, 0.3]),
    (dict(temperature=0), [0, 1, 0, 0]),
    (dict(temperature=1e-300), [0, 1, 0, 0]),
    (dict(temperature=0.5), np.array([1, 16, 4, 9]) / 30),
    (dict(top_k=1), [0, 1, 0, 0]),
    (dict(top_k=2), [0, 4 / 7, 0, 3 / 7]),
    (dict(top_k=99), [0.1, 0.4, 0.2, 0.3]),
    (dict(top_p=0.3), [0, 1, 0, 0]),
    (dict(top_p=0.5), [0, 4 / 7, 0, 3 / 7]),
    (dict(top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
    (dict(top_p=1.0), [0.1, 0.4, 0.2, 0.3]),
    (dict(top_k=3, top_p=0.5), [0, 4 / 7, 0, 3 / 7]),
])
def test_draw(options, expected):
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(frequencies([0.1, 0.4, 0.2, 0.3], **options), expected, atol=0.03)


@pytest.mark.parametrize("options, says", [
    (dict(count=0), "tokens must be"),
    (dict(temperature=-1.0), "temperature must be 0"),
    (dict(temperature=float("nan")), "temperature must be"),
    (dict(temperature=float("inf")), "temperature must be"),
    (dict(top_k=0), "top_k must be"),
    (dict(top_p=0.0), "top_p must be more than 0 and at most 1"),
    (dict(top_p=1.5), "top_p must be"),
    (dict(prompt=[]), "the prompt is empty"),
])
def test_bad_arguments(options, says):
    with pytest.raises(ValueError, match=says):
        generate(Successor(), **dict(prompt=[0], count=1) | options)
