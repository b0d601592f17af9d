"""Greedy and beam search: against each other, against all possible answers, and on scripted models."""
import itertools

import numpy as np
import pytest

import minigrad as mg
from models.encoder_decoder import PAD, START, STOP, EncoderDecoder, Seq2Seq
from models.recurrent import RecurrentSeq2Seq
from models.config import TransformerConfig
from models.translate import beam_search, greedy
from refusals import all_refused

TINY = TransformerConfig(vocabulary_size=5, context=8, layers=1, heads=2, width=8, dtype="float64")
MODELS = {"encoder-decoder": EncoderDecoder, "rnn": lambda config: RecurrentSeq2Seq(config, attends=False),
          "rnn-attention": lambda config: RecurrentSeq2Seq(config, attends=True)}


def make_model(name: str = "encoder-decoder", seed: int = 0) -> Seq2Seq:
    """With parameters large enough for clear preferences."""
    mg.manual_seed(seed)
    model, generator = MODELS[name](TINY), np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data[...] += generator.standard_normal(parameter.shape)
    return model.eval()


def log_probability(model: Seq2Seq, source: np.ndarray, answer: tuple[int, ...]) -> float:
    """log p(answer | source), one token after the other."""
    total, said = 0.0, [START]
    for token in answer:
        with mg.no_grad():
            logits, _ = model(mg.tensor(source[None]), mg.tensor([said]))
        last = logits.array[0, -1]
        total += last[token] - np.log(np.exp(last).sum())
        said.append(token)
    return total


def all_answers(most: int) -> list[tuple[int, ...]]:
    """All answers that end with STOP, and those of `most` tokens without it."""
    tokens = [token for token in range(TINY.vocabulary_size) if token != STOP]
    stopped = [answer + (STOP,) for n in range(most) for answer in itertools.product(tokens, repeat=n)]
    return stopped + list(itertools.product(tokens, repeat=most))


class Scripted(Seq2Seq):
    """Repeats the source, whatever came before."""

    def encode(self, source):
        return source

    def decode(self, memory, padding, inputs, weights=None):
        assert not mg.is_grad_enabled()
        said = memory.array[:, :inputs.shape[1]]
        return mg.tensor(np.eye(12)[said])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_a_beam_of_width_1_is_greedy(name, seed):
    model = make_model(name, seed)
    sources = np.random.default_rng(seed).integers(3, 5, (5, 4))
    for source, answer in zip(sources, greedy(model, sources, most=6)):
        ((tokens, total),) = beam_search(model, source, most=6, width=1)
        assert tokens.tolist() == answer[:len(tokens)].tolist() and not answer[len(tokens):].any()
        assert total == pytest.approx(log_probability(model, source, tuple(tokens)), abs=1e-9)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_of_all_answers_finds_the_best(seed, length_penalty):
    model, source, most = make_model(seed=seed), np.array([3, 4, 3]), 3
    answers = {answer: log_probability(model, source, answer) for answer in all_answers(most)}
    found = beam_search(model, source, most, width=TINY.vocabulary_size**most, length_penalty=length_penalty)
    assert len(found) == len(answers)
    ranked = sorted(answers, key=lambda answer: answers[answer] / len(answer) ** length_penalty, reverse=True)
    assert tuple(found[0][0]) == ranked[0]
    assert {tuple(tokens): total for tokens, total in found} == pytest.approx(answers, abs=1e-9)
    assert sum(np.exp(total) for _, total in found) == pytest.approx(1)


def test_the_width_of_the_beam_is_4_by_default():
    model, source = make_model(), np.array([3, 4])
    assert [len(beam_search(model, source, 3, width=width)) for width in (1, 2, 3)] == [1, 2, 3]
    four, by_default = beam_search(model, source, 3, width=4), beam_search(model, source, 3)
    assert [tokens.tolist() for tokens, _ in by_default] == [tokens.tolist() for tokens, _ in four] and len(four) == 4


def test_greedy_stops_each_row_at_its_own_stop():
    sources = np.array([[5, 6, STOP, 7, 8, 9], [5, STOP, 6, 6, 6, 6], [5, 6, 7, 8, STOP, 9]])
    expected = [[5, 6, STOP, PAD, PAD], [5, STOP, PAD, PAD, PAD], [5, 6, 7, 8, STOP]]
    assert greedy(Scripted(), sources, most=6).tolist() == expected
    assert greedy(Scripted(), sources, most=3).tolist() == [row[:3] for row in expected]
    assert greedy(Scripted(), sources[1:2], most=6).tolist() == [[5, STOP]]


def test_beam_search_stops_at_stop():
    source = np.array([5, 6, STOP, 7, 8, 9])
    assert beam_search(Scripted(), source, most=6, width=1)[0][0].tolist() == [5, 6, STOP]
    assert beam_search(Scripted(), source, most=2, width=1)[0][0].tolist() == [5, 6]
    for tokens, _ in beam_search(Scripted(), source, most=6, width=20):
        assert STOP not in tokens[:-1]


def test_padding_of_the_source_changes_nothing():
    for seed in range(4):
        model, source = make_model(seed=seed), np.array([[3, 4, 4]])
        padded = np.pad(source, ((0, 0), (0, 3)))
        assert greedy(model, padded, most=6).tolist() == greedy(model, source, most=6).tolist()
        for (tokens, total), (expected, of_expected) in zip(beam_search(model, padded[0], most=4),
                                                            beam_search(model, source[0], most=4)):
            assert tokens.tolist() == expected.tolist() and total == pytest.approx(of_expected, abs=1e-9)


def test_bad_arguments():
    all_refused(lambda arguments: beam_search(make_model(), np.array([3, 4]), **arguments), [
        (arguments, "must be a whole number from 1") for arguments in (dict(most=0), dict(most=3, width=0), dict(most=-1))])
    all_refused(lambda most: greedy(make_model(), np.array([[3, 4]]), most), [
        (most, "most must be a whole number from 1") for most in (0, -1, 2.5)])
