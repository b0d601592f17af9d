"""Note 004, "Motivation": encoders and decoders, and what attention adds."""
import dataclasses

import numpy as np

import minigrad as mg
from models.architectures import make_model
from models.config import TransformerConfig
from models.encoder_decoder import PAD
from models.task import FIRST
from models.tasks import TASKS
from study.notes.claims import claims_of, require
from study.notes.helpers import largest, operations_in_a_row, require_equal

claim = claims_of("004")


REVERSE = dataclasses.replace(TASKS["reverse"], lengths=(1, 4))


@claim("G6", "Motivation", "true if training is short, or sequences longer than in training")
def the_last_state_takes_long_to_learn():
    """The decoder gets only the encoder's last state, which captures the overall context poorly.

    formula: Attempt 3: low ability of final state to capture overall context
    here: make_model(task, "rnn", config)
    measured: of words of 2, 3, 4, 5 letters, 99%, 38% (12% to 46%), 0% (0% to 2%), 0% are written backwards after 150
        steps, and 100%, 100%, 94% (90% to 96%), 4% (2% to 8%) after 800; training has up to 4 letters; AdamW at 0.005,
        5 seeds
    """
    changes = {}
    for name in ("rnn", "rnn-attention"):
        model = make_model(REVERSE, name, TransformerConfig(width=48), seed=0)
        inputs = mg.tensor([[FIRST]])
        words = [[[FIRST + first] + [FIRST] * (length - 1) for first in (0, 1)] for length in (2, 8, 32)]
        changes[name] = [largest(*(model(mg.tensor([word]), inputs)[0] for word in pair)) for pair in words]
    state, all_states = changes.values()
    require(state[2] < 1e-4 * state[0] and all_states[2] > 1e-3 * all_states[0], f"changes by the first symbol: {changes}")
    return dict(change_by_the_first_of_2_8_and_32_symbols=state, with_all_states=all_states)


@claim("G7", "Motivation")
def all_states_and_attention():
    """Keep all states of the encoder, and let the decoder weight them; the weights show which parts influenced which.

    formula: Attempt 4: take all intermediate encoder states
    here: make_model(task, "rnn-attention", config), model.attention_map(source, inputs)
    also in: 003: Attention; 004: Self-Attention
    measured: of words of 2, 3, 4, 5 letters, 100%, 100%, 100% (98% to 100%), 62% (32% to 89%) are written backwards,
        and each letter that is written attends most to the one that it copies: the anti-diagonal; 200 steps of AdamW
        at 0.005, 5 seeds
    """
    model = make_model(REVERSE, "rnn-attention", TransformerConfig(width=48, dtype="float64"), seed=0)
    source, target = (mg.tensor(ids) for ids in REVERSE.make(np.random.default_rng(1), 2, 4))
    weights = model.attention_map(source, target)
    states, last = model.encode(source)
    require(weights.shape == (*target.shape, 4), f"the weights are {weights.shape}")
    require(np.ptp(weights, axis=2).min() > 1e-6, "all states have the same weight")
    context, shown = model.attention(last[0][:, None], states, source == PAD)
    return dict(sums=require_equal(weights.sum(axis=2), 1.0), context=require_equal(context, shown @ states))


@claim("G25", "Self-Attention", "true if training is short and its rate small; real translation is not measured")
def attention_is_enough_without_recurrence():
    """Self-attention is enough, without recurrence. In note 003's words, eliminating the recurrence improves performance
    significantly.

    formula: "Attention is all you need" ... showed that self-attention is enough
    here: make_model(translation, "encoder-decoder" or "rnn-attention", config)
    also in: 003: Attention
    measured: sentences right without recurrence, and with recurrence and attention: 99% (79% to 100%) and 2% (1% to
        5%) after 60 steps of AdamW at 0.002, 100% and 100% after 160, and after 100 at 0.006; 5 seeds
    """
    small = TransformerConfig(context=16, layers=1, heads=2, width=48)
    chains = []
    for name in ("encoder-decoder", "rnn-attention"):
        model = make_model(TASKS["translation"], name, small, seed=0)
        ids = (mg.tensor([[FIRST] * length]) for length in (2, 4, 8))
        chains.append([operations_in_a_row(model(words, words)[0]) for words in ids])
    require(len(set(chains[0])) == 1 and chains[1][2] - chains[1][1] > 4, f"operations in a row: {chains}")
    return dict(in_a_row_in_attention=chains[0], in_recurrent_networks=chains[1])


@claim("G9", "Motivation")
def classification_and_translation():
    """Sequences are classified, and translated into a language with another order and number of words.

    formula: sequence classification; neural machine translation (7 words to 6)
    here: make_model(sentiment, "encoder", config), make_model(translation, "encoder-decoder", config)
    also in: 000: Preliminaries; 001: Putting them both together
    measured: an encoder judges 100% of 16 opinions, half of them with "not", and an encoder-decoder translates 100% of
        sentences of 7 words into 6; 200 steps of AdamW at 0.005, 5 seeds
    """
    small = TransformerConfig(context=16, layers=1, heads=2, width=8)
    shapes = []
    for name, task in (("encoder", TASKS["sentiment"]), ("encoder-decoder", TASKS["translation"])):
        source, target = task.make(np.random.default_rng(0), 1, 3)
        model = make_model(task, name, small, seed=0)
        logits, _ = model(*map(mg.tensor, (source,) if name == "encoder" else (source, target)))
        shapes.append((source.shape[1], *logits.shape[1:-1]))
    require(shapes == [(3,), (7, 6)], f"words read and written: {shapes}")
    return dict(read_to_classify=shapes[0], read_and_written_to_translate=shapes[1])
