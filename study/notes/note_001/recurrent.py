"""Note 001, "Premise" to "Attention: The savior": recurrent networks, and how attention improves on them."""
import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from study.notes.attention import Attention
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    Layer, influence, largest, moved_by_order, operations_in_a_row, over_seeds, randn, require_equal, states_of,
)

claim = claims_of("001")


@claim("L6", "Premise")
def word_vectors_were_used_to_understand_text():
    """Before 2017, recurrent neural networks and Word2Vec models were used to understand text with deep learning.

    formula: Before 2017, Recurrent Neural Networks (RNNs) and Word2Vec models
    here: nn.Embedding(6, 4), then .requires_grad_(False)
    measured: vectors trained to predict the neighbours of a word have a cosine of 0.83 (0.80 to 0.86) if words are
        used alike, and 0.30 (0.26 to 0.31) otherwise; from the frozen vectors, a classifier finds the class of 100% of
        new words, from random vectors 33% (8% to 42%); 300 steps of Adam at 0.05, 5 seeds
    """
    vectors = nn.Embedding(6, 4).double()
    predict = nn.Linear(4, 6, bias=False).double()
    nn.init.zeros_(vectors.weight)
    words = mg.tensor([0, 0, 1, 1, 2, 2])
    neighbours = mg.tensor([3, 4, 3, 4, 4, 5])  # 0 and 1 are used alike
    F.cross_entropy(predict(vectors(words)), neighbours).backward()
    step = vectors.weight.grad.array
    alike = require_equal(step[0], step[1])
    unlike = largest(step[0], step[2])
    require(unlike > 0.01, f"words that are used differently move apart by {unlike:.0e}")
    return dict(apart_if_used_alike=alike, otherwise=unlike)


def small_attention() -> Layer:
    return Attention(8).double()


def recurrent_network(gain: float | None = None) -> Layer:
    """With recurrent weights of standard deviation gain / sqrt(H), or with the default initialization."""
    rnn = nn.RNN(8, 32, batch_first=True).double()
    if gain is not None:
        nn.init.normal_(rnn.weight_hh_l0, std=gain / rnn.hidden_size**0.5)
    return states_of(rnn)


def of_last(layer: Layer, x: Tensor) -> np.ndarray:
    """The derivatives (D, T, C) of the last output with respect to all inputs x (1, T, C)."""
    return mg.jacobian(lambda x: layer(x)[:, -1], x).array[0, :, 0]


def norms(layer: Layer, T: int) -> np.ndarray:
    """How much the last output depends on each of T small inputs, the nearest first."""
    return np.linalg.norm(of_last(layer, 0.1 * randn(1, T, 8)), axis=(0, 2))[::-1]


def nearness(layer: Layer, T: int) -> np.ndarray:
    """The same, over the sum."""
    return (found := norms(layer, T)) / found.sum()


@claim("C7", "Linear Interaction Distance")
def distant_words_interact_after_many_steps_or_one():
    """Distant words take O(sequence length) steps to interact in a recurrent network. With attention the maximum
    interaction distance is O(1), since all words interact at every layer.

    formula: RNNs: O(sequence length) steps; attention: maximum interaction distance O(1)
    here: nn.RNN(8, 8), Attention(8, heads=2)
    also in: 001: Attention: The savior; 004: Transformers
    """
    attention = Attention(8, heads=2).double()
    rnn = recurrent_network()
    lengths = (4, 16, 64)
    least = influence(attention, randn(1, 12, 8)).min()
    require(least > 1e-6, f"the smallest influence in a layer of attention is {least:.0e}")
    of_rnn, of_attention = ([operations_in_a_row(layer(randn(1, n, 8))) for n in lengths] for layer in (rnn, attention))
    each = np.diff(of_rnn) / np.diff(lengths)
    require(each[0] == each[1] >= 1 and len(set(of_attention)) == 1, f"operations in a row: {of_rnn}, {of_attention}")
    return dict(in_a_row_in_an_rnn=of_rnn, in_attention=of_attention, least_influence=least)


@claim("G8", "Linear Interaction Distance")
def gradients_of_an_rnn_vanish_or_explode_with_distance():
    """Recurrent networks have gradient problems over long distances.

    formula: RNN gradient problems
    here: nn.RNN(8, 32)
    also in: 004: Motivation
    """
    rnn, x = nn.RNN(8, 32, batch_first=True).double(), randn(1, 4, 8)
    expected = np.eye(8)
    for t, state in enumerate(states_of(rnn)(x).array[0]):
        W = rnn.weight_hh_l0.array if t else rnn.weight_ih_l0.array
        expected = np.diag(1 - state**2) @ W @ expected
    require_equal(of_last(states_of(rnn), x)[:, 0], expected)
    require_equal(of_last(lambda x: rnn(x[:, 2:], rnn(x[:, :2])[1])[0], x)[:, 0], expected)  # through the state alone

    makers = recurrent_network, lambda: recurrent_network(3), small_attention
    small, large, attention = ([over_seeds(lambda seed, make, T: norms(make(), T)[-1], make, T).median
                                for T in (4, 16, 64)] for make in makers)
    require(small[2] < 1e-6 * small[0] and large[2] > 1e3 * large[0], f"with small and large weights: {small}, {large}")
    require(1 / 64 < attention[2] / attention[0] < 4 / 16, f"in attention: {attention}")
    return dict(in_an_rnn=small, with_larger_weights=large, in_attention=attention)


@claim("G23", "Linear Interaction Distance")
def recurrent_networks_encode_locality():
    """Recurrent networks are unrolled left to right, which encodes linear locality: nearby words often affect each other's
    decisions.

    formula: linear locality, so nearby words often affect each other's decisions
    here: nn.RNN(8, 32), Attention(8)
    """
    def share(seed, make, words):
        return nearness(make(), 12)[words].sum()

    (close, far), (close_in_attention, far_in_attention) = (
        [over_seeds(share, make, words) for words in (slice(3), slice(9, 12))]
        for make in (recurrent_network, small_attention))
    require(close.median > 0.7 > 0.1 > far.median > 0, f"RNN: {close:.2f} of the nearest, {far:.2f} of the farthest")
    require(abs(far_in_attention.median - 0.25) < 0.1, f"attention: {far_in_attention:.2f} of the farthest")
    return dict(nearest=close, farthest=far, nearest_in_attention=close_in_attention,
                farthest_in_attention=far_in_attention)


@claim("G24", "Linear Interaction Distance", "true of the network; what suits sentences is not measured here")
def linear_order_is_baked_in():
    """The linear order of words is baked into a recurrent network, but is not the right way to think about sentences.

    formula: Linear order of words is "baked in"
    here: nn.RNN(8, 32), Attention(8)
    """
    rnn, attention = (moved_by_order(make(), randn(1, 6, 8), [3, 0, 4, 2, 1, 5])
                      for make in (recurrent_network, small_attention))
    require(rnn > 0.1 and attention < 1e-12, f"another order changes the last output by {rnn}, {attention}")
    return dict(rnn=rnn, attention=attention)


@claim("G22", "Linear Interaction Distance", "true if the learning rate is small, or the distance large")
def an_rnn_hardly_learns_from_far_away():
    """Long-distance dependencies are difficult to learn, because of the gradient problems of recurrent networks.

    formula: Long distance dependencies are difficult to learn
    here: nn.RNN(32, 32), Attention(32, causal=True)
    measured: which of 8 symbols came first: an RNN of 32 units knows for 4 tokens after 200 steps at 0.003 or 0.01
        (100%); for 12 after 600 steps 14% (11% to 15%) at 0.003 and 75% (25% to 100%) at 0.01, for 24 at 0.01 12% (9%
        to 87%); attention knows for 24 after 200 steps at either rate (100%); Adam, 5 seeds
    """
    rnn, attention = ([over_seeds(lambda seed, make, T: nearness(make(), T)[-1], make, T).median for T in (4, 12, 24)]
                      for make in (recurrent_network, small_attention))
    require(rnn[2] < 1e-3 * rnn[0] and attention[2] > 0.5 / 24, f"shares of the first token: {rnn}, {attention}")
    return dict(share_of_the_first_of_4_12_and_24_tokens=rnn, in_attention=attention)
