"""Note 004, "Motivation": recurrent networks, and what they lack."""
import numpy as np

import nn
from models.task import FIRST
from models.tasks import TASKS
from study.notes.attention import Attention
from study.notes.claims import claims_of, require
from study.notes.helpers import influence, randn, require_causal, require_equal, states_of

claim = claims_of("004")


def recurrent_states(x: np.ndarray, parameters: dict[str, np.ndarray], name: str) -> np.ndarray:
    """(T, inputs) -> (T, hidden), step by step."""
    states = np.zeros((len(x) + 1, len(parameters["bias_ih" + name])))
    for t, inputs in enumerate(x):
        states[t + 1] = np.tanh(parameters["weight_ih" + name] @ inputs + parameters["bias_ih" + name]
                                + parameters["weight_hh" + name] @ states[t] + parameters["bias_hh" + name])
    return states[1:]


@claim("G4", "Motivation")
def recurrent_networks_put_out_symbols():
    """Recurrent networks of several layers predict the next symbol of a sequence, and classify sequences, from what they
    have read so far.

    formula: next symbol/token prediction, sequence classification
    here: nn.RNN(D, D, num_layers=2), then nn.Linear
    measured: right: 100% of symbols that are the sum of the two before, and 100% of opinions, with and without "not";
        400 steps of Adam at 0.01, 5 seeds
    """
    layer = nn.RNN(3, 4, num_layers=2, batch_first=True).double()
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    below = recurrent_states(x.array[0], parameters, "_l0")
    (states, last), (_, state) = layer(x), layer(x[:, :3])
    found = max(require_equal(states[0], recurrent_states(below, parameters, "_l1")), require_equal(last[0, 0], below[-1]))
    require_equal(layer(x[:, 3:], state)[0], states[:, 3:])  # it continues from the state
    return dict(difference=found, least_influence=require_causal(influence(states_of(layer), x)))


@claim("G32", "Motivation", "true if a word is written for each word read, or training is short")
def recurrent_networks_and_misalignment():
    """Recurrent networks cannot handle misalignment, where the other language has another number and order of words, since
    they output symbols one after the other, from what they have read so far.

    formula: How do you like the weather today? / Wie finden sie das Wetter heute?
    here: make_model(TASKS["translation"], "rnn" or "rnn-attention", config)
    measured: a network that writes a word for each word that it reads gets 100% of sentences right if words keep their
        order, and 6% (4% to 8%) if nouns come before adjectives: two nouns of four must be guessed; 200 steps of Adam
        at 0.01; an encoder and a decoder that starts from its last state get 0%, and 100% if the decoder attends to
        all states; 100 steps of AdamW at 0.006, 5 seeds
    """
    require_causal(influence(states_of(nn.RNN(4, 4, batch_first=True).double()), randn(1, 6, 4)))
    source, target = TASKS["translation"].make(np.random.default_rng(99), 500, 3)
    require((source.shape[1], target.shape[1]) == (7, 6), f"{source.shape[1]} words, {target.shape[1]} words")
    ahead = []  # how many words later than it is written is a word read
    for column in target.T:
        ways = [len(set(zip(words, column))) == len(set(words)) == 4 for words in source.T]  # does it say which word?
        ahead += [place - len(ahead) for place, is_said in enumerate(ways) if is_said and len(set(column)) > 1]
    require(max(ahead) > 0, f"words are read {ahead} places later")
    return dict(read_later_than_written=ahead)


@claim("L27", "Motivation")
def sentences_as_tokens_are_too_many():
    """Tokens could be whole sentences; that is not feasible, as the number of possible sentences quickly becomes
    extremely large.

    formula: Attempt 1: model tokens as entire sentences, not words
    here: nn.Embedding(10**length, D)
    """
    known = []
    for length in (2, 4, 6, 8):
        seen, new = (TASKS["copy"].make(np.random.default_rng(seed), n, length)[0]
                     for seed, n in ((0, 100_000), (1, 1000)))
        numbers = [(sentences - FIRST) @ 10 ** np.arange(length) for sentences in (seen, new)]
        known.append(float(np.isin(numbers[1], numbers[0]).mean()))
    require(known[0] == 1 and known[-1] < 0.01, f"known: {known}")
    return dict(known=known)


@claim("G5", "Motivation")
def reading_in_both_directions():
    """Read the sequence forwards and backwards: two sets of hidden states, which are concatenated.

    formula: Attempt 2: bidirectional RNNs
    here: nn.RNN(D, D, bidirectional=True)
    also in: 001: Transformer Encoder
    """
    layer = nn.RNN(3, 4, batch_first=True, bidirectional=True).double()
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    forward = recurrent_states(x.array[0], parameters, "_l0")
    backward = recurrent_states(x.array[0, ::-1], parameters, "_l0_reverse")[::-1]
    least = influence(states_of(layer), x).min()
    require(least > 0, "some states do not depend on all inputs")
    return dict(difference=require_equal(layer(x)[0][0], np.hstack([forward, backward])), least_influence=least)


@claim("G33", "Motivation", "true if training is short")
def both_directions_miss_long_ranges():
    """Recurrent networks that read in both directions still do not capture very long-range dependencies.

    formula: This is fine, but still does not capture very long range dependencies.
    here: nn.RNN(D, D, bidirectional=True), Attention(D)
    measured: asked at one end for the token at the other: 100% of 4 tokens, 49% (23% to 76%) of 10, with attention
        100%; after three times the steps 70% (32% to 85%); by chance 25%; 250 steps of Adam at 0.005, 5 seeds
    """
    both = nn.RNN(4, 8, batch_first=True, bidirectional=True).double()
    attention = Attention(4).double()

    def from_end_to_end(layer):
        """Relative to the largest influence."""
        reach = [influence(layer, 0.1 * randn(1, T, 4)) for T in (4, 10, 20)]
        return [min(one[0, -1], one[-1, 0]) / one.max() for one in reach]

    of_rnn = from_end_to_end(states_of(both))
    of_attention = from_end_to_end(attention)
    require(of_rnn[2] < 1e-4 * of_rnn[0] and of_attention[2] > 0.5, f"influence: {of_rnn}, {of_attention}")
    return dict(influence_over_4_10_and_20_tokens=of_rnn, in_attention=of_attention)
