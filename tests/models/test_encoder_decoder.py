"""Models that make one sequence of another, and the classifier."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
from minigrad.gradcheck import gradcheck_module
from models.encoder_decoder import PAD, START, Classifier, EncoderDecoder
from models.recurrent import RecurrentSeq2Seq
from models.architectures import CausalSeq2Seq
from models.transformer import ATTENTION_POSITIONS, PLACEMENTS, TABLE_POSITIONS, TransformerConfig

CONFIG = TransformerConfig(vocabulary_size=9, context=12, layers=1, heads=2, width=4, dtype="float64")
TRANSLATORS = {
    "encoder-decoder": lambda config: EncoderDecoder(config),
    "causal": lambda config: CausalSeq2Seq(config),
    "rnn": lambda config: RecurrentSeq2Seq(config, attends=False),
    "rnn-attention": lambda config: RecurrentSeq2Seq(config, attends=True),
}


def make(name, **changes):
    mg.manual_seed(0)
    return shaken(TRANSLATORS[name](dataclasses.replace(CONFIG, **changes)))


def shaken(model):
    """With parameters that are not small, so that no gradient goes unnoticed."""
    generator = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += 0.3 * generator.standard_normal(parameter.shape)
    return model.eval()


def examples(batch=3, length=5, steps=4):
    generator = np.random.default_rng(1)
    source, inputs, targets = (generator.integers(3, CONFIG.vocabulary_size, (batch, n)) for n in (length, steps, steps))
    source[0, -2:] = PAD
    inputs[:, 0] = START
    targets[1, -1] = PAD
    return [mg.tensor(array) for array in (source, inputs, targets)]


def assert_right_gradients(report):
    """And none of zeros alone: those of a part that never runs are, by backward and by differences."""
    assert report
    assert not [entry.name for entry in report.inputs if not entry.analytic.any()]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_gradients(name):
    assert_right_gradients(gradcheck_module(make(name), tuple(examples()), select=lambda result: result[1],
                                            raise_exception=False))


@pytest.mark.parametrize("changes", [dict(placement=p) for p in PLACEMENTS if p != "pre"]
                         + [dict(positions=p) for p in TABLE_POSITIONS + ATTENTION_POSITIONS if p != "learned"]
                         + [dict(final_norm=False), dict(activation="relu")], ids=str)
def test_gradients_of_variants(changes):
    """Along random directions, which no wrong gradient withstands; entry by entry it would take a minute."""
    model = make("encoder-decoder", **changes)
    assert_right_gradients(gradcheck_module(model, tuple(examples()), select=lambda result: result[1],
                                            raise_exception=False, fast_mode=True))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_decoder_does_not_see_what_it_is_to_say(name):
    model, (source, inputs, _) = make(name), examples()
    changed = inputs.detach().numpy().copy()
    changed[:, 2:] = 3
    before, after = (model(source, mg.tensor(x))[0].detach().numpy() for x in (inputs.detach().numpy(), changed))
    np.testing.assert_allclose(before[:, :2], after[:, :2], rtol=1e-12)
    assert np.abs(before[:, 2:] - after[:, 2:]).max() > 1e-3


def test_each_output_of_an_encoder_depends_on_all_tokens():
    model, source = make("encoder-decoder"), examples()[0].numpy()[1:]  # rows without padding
    before = model.encode(mg.tensor(source)).detach().numpy()
    for s in range(source.shape[1]):
        changed = source.copy()
        changed[:, s] = 3 + (changed[:, s] - 2) % 6  # another symbol
        assert (np.abs(model.encode(mg.tensor(changed)).detach().numpy() - before).max(axis=2) > 1e-6).all()


def test_an_encoder_sees_all_but_padding():
    model, (source, inputs, _) = make("encoder-decoder"), examples()
    longer = mg.tensor(np.pad(source.detach().numpy(), ((0, 0), (0, 3))))
    np.testing.assert_allclose(model(longer, inputs)[0].detach().numpy(), model(source, inputs)[0].detach().numpy(),
                               rtol=1e-9)
    changed = source.detach().numpy().copy()
    changed[1, -1] = 3 + (changed[1, -1] - 2) % 6  # another symbol
    difference = np.abs((model(mg.tensor(changed), inputs)[0] - model(source, inputs)[0]).detach().numpy())
    assert difference[1, 0].max() > 1e-6 and difference[0].max() == 0


@pytest.mark.parametrize("name", ["encoder-decoder", "rnn-attention"])
def test_an_attention_map_says_where_each_step_looks(name):
    model, (source, inputs, _) = make(name), examples()
    weights = model.attention_map(source, inputs)
    assert weights.shape == (3, 4, 5)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-12)
    np.testing.assert_allclose(weights[0, :, -2:], 0, atol=1e-12)


def test_loss_leaves_padding_out_and_can_be_smoothed():
    model, (source, inputs, targets) = make("encoder-decoder"), examples()
    logits = model(source, inputs)[0].detach().numpy()
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = targets.detach().numpy()
    for smoothing in (0.0, 0.1):
        rows = [(1 - smoothing) * log_p[b, t, wanted[b, t]] + smoothing * log_p[b, t].mean()
                for b, t in np.argwhere(wanted != PAD)]
        loss = model(source, inputs, targets, label_smoothing=smoothing)[1].item()
        assert loss == pytest.approx(-np.mean(rows), rel=1e-12)


@pytest.mark.parametrize("pooling", ["mean", "last"])
@pytest.mark.parametrize("attends", [True, False])
def test_classifier(pooling, attends):
    source, _, _ = examples()
    model = shaken(Classifier(CONFIG, 3, pooling, attends))
    labels = mg.tensor(np.array([0, 2, 1]))
    assert_right_gradients(gradcheck_module(model, (source, labels), select=lambda result: result[1],
                                            raise_exception=False))
    changed = source.detach().numpy().copy()
    changed[1, 0] = 3 + (changed[1, 0] - 2) % 6  # another symbol
    is_seen = np.abs((model(mg.tensor(changed))[0] - model(source)[0]).detach().numpy())[1].max() > 1e-9
    assert is_seen == (attends or pooling == "mean")


def test_a_classifier_reads_the_mean_or_the_last():
    with pytest.raises(ValueError, match="pooling must be 'mean' or 'last', got 'first'"):
        Classifier(CONFIG, 2, pooling="first")
