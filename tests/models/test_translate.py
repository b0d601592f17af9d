"""Greedy decoding: against whole forwards, and on a scripted model."""
import numpy as np
import pytest

import minigrad as mg
from models.encoder_decoder import PAD, START, STOP, EncoderDecoder, Seq2Seq
from models.recurrent import RecurrentSeq2Seq
from models.config import TransformerConfig
from models.translate import greedy
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


def likeliest(model: Seq2Seq, source: np.ndarray, most: int) -> list[int]:
    """The likeliest token after those before it, up to STOP: a whole forward for each."""
    said = [START]
    while len(said) <= most and said[-1] != STOP:
        with mg.no_grad():
            logits, _ = model(mg.tensor(source[None]), mg.tensor([said]))
        said.append(int(logits.array[0, -1].argmax()))
    return said[1:]


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
def test_greedy_takes_the_likeliest_token(name, seed):
    model = make_model(name, seed)
    sources = np.random.default_rng(seed).integers(3, 5, (5, 4))
    for source, answer in zip(sources, greedy(model, sources, most=6)):
        expected = likeliest(model, source, most=6)
        assert answer[:len(expected)].tolist() == expected and not answer[len(expected):].any()


def test_greedy_stops_each_row_at_its_own_stop():
    sources = np.array([[5, 6, STOP, 7, 8, 9], [5, STOP, 6, 6, 6, 6], [5, 6, 7, 8, STOP, 9]])
    expected = [[5, 6, STOP, PAD, PAD], [5, STOP, PAD, PAD, PAD], [5, 6, 7, 8, STOP]]
    assert greedy(Scripted(), sources, most=6).tolist() == expected
    assert greedy(Scripted(), sources, most=3).tolist() == [row[:3] for row in expected]
    assert greedy(Scripted(), sources[1:2], most=6).tolist() == [[5, STOP]]


def test_padding_of_the_source_changes_nothing():
    for seed in range(4):
        model, source = make_model(seed=seed), np.array([[3, 4, 4]])
        padded = np.pad(source, ((0, 0), (0, 3)))
        assert greedy(model, padded, most=6).tolist() == greedy(model, source, most=6).tolist()


def test_bad_arguments():
    all_refused(lambda most: greedy(make_model(), np.array([[3, 4]]), most), [
        (most, "most must be a whole number from 1") for most in (0, -1, 2.5)])
