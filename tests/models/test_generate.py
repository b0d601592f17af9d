"""generate and draw: the window of the model, seeds, batches, temperature, top-k, top-p and bad arguments."""
import types

import numpy as np
import pytest

import minigrad as mg
import nn
from models import generate, generate_batch
from models.generate import draw
from refusals import all_refused


class Successor(nn.Module):
    """A model with context 4 and 5 tokens that puts i + 1 after i, and records its inputs."""

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(context=4)
        self.seen = []

    def forward(self, tokens):
        self.seen.append(tokens.tolist()[0])
        assert not self.training and not mg.is_grad_enabled()
        return mg.tensor(10 * np.eye(5, dtype=np.float32)[(tokens.numpy() + 1) % 5]), None


def test_the_model_sees_the_last_tokens_within_its_context():
    model = Successor()
    assert list(generate(model, [0, 1, 2], 4, temperature=0)) == [3, 4, 0, 1]
    assert model.seen == [[0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 0]]
    assert model.training
    assert list(generate(model.eval(), [0], 1, temperature=0)) == [1] and not model.training


def test_another_way_to_choose():
    given = []

    def choose(logits):
        given.append(logits.shape)
        return (logits.argmax(axis=-1) + 1) % 4

    assert list(generate(Successor(), [0, 1], 3, vocabulary=4, choose=choose)) == [3, 1, 3] and given == [(1, 4)] * 3


def test_a_chosen_context():
    model = Successor()
    assert list(generate(model, [0, 1, 2], 3, temperature=0, context=2)) == [3, 4, 0]
    assert model.seen == [[1, 2], [2, 3], [3, 4]]


class Plain(Successor):
    """The same without a config, returning logits alone."""

    def __init__(self):
        super().__init__()
        del self.config

    def forward(self, tokens):
        return super().forward(tokens)[0]


def test_a_model_without_a_context_sees_all_tokens():
    model = Plain()
    assert list(generate(model, [0, 1, 2, 3, 4], 3, temperature=0)) == [0, 1, 2]
    assert model.seen == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 0, 1]]


def test_the_seed_decides_the_text():
    one, two, other = (list(generate(Successor(), [0], 30, temperature=9.0, seed=seed)) for seed in (1, 1, 2))
    assert one == two != other


def test_without_a_seed_manual_seed_decides():
    drawn = []
    for seed in (3, 3, 4):
        mg.manual_seed(seed)
        drawn.append([list(generate(Successor(), [0], 30, temperature=9.0)) for _ in range(2)])
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][0] != drawn[0][1]


def test_a_batch_of_texts():
    model = Successor()
    texts = np.array(list(generate_batch(model, np.array([[0, 1], [3, 4]]), 4, temperature=0)))
    assert texts.T.tolist() == [[2, 3, 4, 0], [0, 1, 2, 3]]
    one, two = np.array(list(generate_batch(model, [[0], [0]], 50, temperature=9.0, seed=1))).T.tolist()
    assert one != two and one[:10] != two[:10]


@pytest.mark.parametrize("options", [dict(top_k=1), dict(top_p=0.1)])
def test_top_k_and_top_p_are_passed_on(options):
    assert list(generate(Successor(), [0], 9, temperature=9.0, seed=1, **options)) == [1, 2, 3, 4, 0, 1, 2, 3, 4]


def frequencies(probabilities, count=4000, **options) -> np.ndarray:
    options = dict(temperature=1.0, top_k=None, top_p=None) | options
    logits = np.tile(np.log(probabilities, dtype=np.float32), (count, 1))
    return np.bincount(draw(logits, generator=np.random.default_rng(0), **options), minlength=len(probabilities)) / count


def test_frequencies_of_drawn_tokens():
    for options, expected in [
        (dict(), [0.1, 0.4, 0.2, 0.3]), (dict(temperature=0), [0, 1, 0, 0]), (dict(temperature=1e-300), [0, 1, 0, 0]),
        (dict(temperature=0.5), np.array([1, 16, 4, 9]) / 30), (dict(top_k=1), [0, 1, 0, 0]),
        (dict(top_k=2), [0, 4 / 7, 0, 3 / 7]), (dict(top_k=99), [0.1, 0.4, 0.2, 0.3]), (dict(top_k=10**30), [0.1, 0.4, 0.2, 0.3]),
        (dict(top_p=0.3), [0, 1, 0, 0]), (dict(top_p=0.5), [0, 4 / 7, 0, 3 / 7]), (dict(top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
        (dict(top_p=1.0), [0.1, 0.4, 0.2, 0.3]), (dict(top_k=3, top_p=0.5), [0, 4 / 7, 0, 3 / 7]),
    ]:
        with np.errstate(all="raise", under="ignore"):
            np.testing.assert_allclose(frequencies([0.1, 0.4, 0.2, 0.3], **options), expected, atol=0.03, err_msg=str(options))


@pytest.mark.parametrize("options", [dict(), dict(temperature=0.7, top_k=9), dict(top_p=0.8), dict(top_k=30, top_p=0.5)])
def test_draw_is_a_choice_by_probability(options, random):
    temperature, top_k, top_p = (dict(temperature=1.0, top_k=None, top_p=None) | options).values()
    for seed in range(200):
        logits = random.standard_normal(40).astype(np.float32)
        order = np.argsort(-logits, kind="stable")[:top_k]
        weights = np.exp(logits[order].astype(np.float64) / temperature)
        if top_p is not None:
            reached = np.cumsum(weights / weights.sum()) >= top_p
            order, weights = order[:1 + np.argmax(reached)], weights[:1 + np.argmax(reached)]
        expected = np.random.default_rng(seed).choice(order, p=weights / weights.sum())
        assert draw(logits[None], temperature, top_k, top_p, np.random.default_rng(seed)) == [expected]


def test_equal_logits_are_ranked_in_their_order(random):
    logits = random.integers(-3, 3, size=(300, 23)).astype(np.float32)
    np.testing.assert_array_equal(draw(logits, 0, None, None, random), logits.argmax(axis=1))
    places = np.argsort(-logits, axis=1, kind="stable")
    for temperature in 1.0, 1e300:
        drawn = draw(logits, temperature, 23, None, np.random.default_rng(7))
        weights = np.exp(-np.sort(-logits, axis=1).astype(np.float64) / temperature)
        sums = weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)
        ranks = (sums > np.random.default_rng(7).random((300, 1))).argmax(axis=1)
        np.testing.assert_array_equal(drawn, places[np.arange(300), ranks])


class Highest:
    """A generator of the largest number below 1."""

    def random(self, count):
        return np.full(count, np.nextafter(1, 0))


def test_rounding_never_draws_a_token_of_probability_zero(random):
    """The sum of probabilities depends in its last digits on their order."""
    logits = random.standard_normal((200, 50)).astype(np.float32)
    logits[:, 30:] = -np.inf
    assert draw(logits, 0.7, None, None, Highest()).max() < 30


def test_temperature_zero_takes_no_random_numbers():
    draw(np.ones((2, 3), np.float32), 0, None, None, None)


def test_logits_of_other_dtypes_and_that_are_not_finite(random):
    for dtype in (np.float16, np.int64):
        assert draw(np.array([[0, 900, 0]], dtype), 1.0, None, None, random) == [1]
    for temperature in (0, 1.0):
        rows = [[[0.0, 1.0], row] for bad in (np.nan, np.inf) for row in ([0.0, bad], [bad, 0.0])] + [[[-np.inf, -np.inf]]]
        all_refused(lambda logits, temperature=temperature: draw(np.array(logits, np.float32), temperature, None, None, random),
                    [(row, "logits are not finite") for row in rows])
    logits = np.tile(np.array([0.0, -np.inf, 0.0], np.float32), (1000, 1))
    assert set(draw(logits, 1.0, None, None, random)) == {0, 2}, "never minus infinity"


def test_bad_arguments():
    all_refused(lambda options: generate(Successor(), **dict(prompt=[0], count=1) | options), [
        (dict(count=0), "count must be a whole number from 1"), (dict(temperature=-1.0), "temperature must be 0"),
        (dict(temperature=float("nan")), "temperature must be"), (dict(temperature=float("inf")), "temperature must be"),
        (dict(top_k=0), "top_k must be"), (dict(top_p=0.0), "top_p must be more than 0 and at most 1"),
        (dict(top_p=1.5), "top_p must be"), (dict(seed=-1), "seed must be a whole number from 0"),
        (dict(context=0), "context must be a whole number from 1"), (dict(prompt=[]), "the prompt is empty"),
    ])
    all_refused(lambda prompts: generate_batch(Successor(), prompts, 1), [
        (prompts, f"the prompts must have one length, at least 1, got the lengths {lengths}") for prompts, lengths in (
            ([], "[]"), ([[]], "[0]"), ([[1, 2], [3]], "[1, 2]"), ([[], [1]], "[0, 1]"))])
