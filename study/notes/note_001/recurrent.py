"""Note 001, "Premise" to "Attention: The savior": recurrent networks, and how attention improves on them."""
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from study.notes.attention import Attention
from study.notes.claims import claims_of, require
from study.notes.helpers import influence, largest, longest_chain, normal, over_seeds, require_equal

claim = claims_of("001")


@claim("L6", "Premise", formula="Before 2017, Recurrent Neural Networks (RNNs) and Word2Vec models",
       ours="nn.Embedding(6, 4), then .requires_grad_(False)", code="nn/embedding.py:Embedding",
       measured="vectors trained to predict the neighbours of a word have a cosine of 0.83 (0.80 to 0.86) if words are "
                "used alike, and 0.30 (0.26 to 0.31) otherwise; from the frozen vectors, a classifier finds the class of "
                "100% of new words, from random vectors 33% (8% to 42%); 300 steps of Adam at 0.05, 5 seeds")
def word_vectors_were_used_to_understand_text():
    """Before 2017, recurrent neural networks and Word2Vec models were used to understand text with deep learning."""
    mg.manual_seed(0)
    vectors, predict = nn.Embedding(6, 4).double(), nn.Linear(4, 6, bias=False).double()
    nn.init.zeros_(vectors.weight)
    words, neighbours = mg.tensor([0, 0, 1, 1, 2, 2]), mg.tensor([3, 4, 3, 4, 4, 5])  # 0 and 1 are used alike
    F.cross_entropy(predict(vectors(words)), neighbours).backward()
    step = vectors.weight.grad.array
    alike, unlike = require_equal(step[0], step[1]), largest(step[0], step[2])
    require(unlike > 0.01, f"words that are used differently move apart by {unlike:.0e}")

    vectors.zero_grad()
    vectors.requires_grad_(False)
    F.cross_entropy(predict(vectors(words)), neighbours).backward()
    require(vectors.weight.grad is None, "a frozen vector has a gradient")
    return dict(apart_if_used_alike=alike, otherwise=unlike)


def first_to_last(layer: Callable[[Tensor], Tensor], x: np.ndarray) -> tuple[np.ndarray, int]:
    """d out_T / d x_1, and the longest chain of operations in between; x (1, T, D)."""
    rest = mg.tensor(x[:, 1:])

    def last(first):
        return layer(mg.cat([first, rest], dim=1))[:, -1]

    first = mg.tensor(x[:, :1], requires_grad=True)
    return mg.jacobian(last, first).array[0, :, 0, 0], longest_chain(last(first))


def states_of(rnn: nn.RNN) -> Callable[[Tensor], Tensor]:
    return lambda x: rnn(x)[0]


def recurrent_network(gain: float | None = None) -> nn.RNN:
    """With recurrent weights of standard deviation gain / sqrt(H), or with the default initialization."""
    rnn = nn.RNN(8, 32, batch_first=True).double()
    if gain is not None:
        nn.init.normal_(rnn.weight_hh_l0, std=gain / rnn.hidden_size**0.5)
    return rnn


@claim("C7", "Linear Interaction Distance",
       formula="RNNs: O(sequence length) steps; attention: maximum interaction distance O(1)",
       ours="nn.RNN(8, 8), Attention(8, heads=2)", code="nn/recurrent.py:RNN, study/notes/attention.py:Attention",
       also=("001: Attention: The savior", "004: Transformers"))
def distant_words_interact_after_many_steps_or_one():
    """Distant words take O(sequence length) steps to interact in a recurrent network. With attention the maximum
    interaction distance is O(1), since all words interact at every layer."""
    mg.manual_seed(0)
    T, lengths = 12, (4, 16, 64)
    attention, rnn = Attention(8, heads=2).double(), nn.RNN(8, 8, batch_first=True).double()
    reach = influence(attention, normal(0, 1, T, 8))
    require(bool((reach > 1e-6).all()), f"the smallest influence in a layer of attention is {reach.min():.0e}")
    chains = {name: [first_to_last(layer, normal(0, 1, n, 8))[1] for n in lengths]
              for name, layer in (("attention", attention), ("RNN", states_of(rnn)))}
    each = np.diff(chains["RNN"]) / np.diff(lengths)
    require(each[0] == each[1] >= 1 and len(set(chains["attention"])) == 1, f"operations in a row: {chains}")
    return dict(in_a_row_in_an_rnn=chains["RNN"], in_attention=chains["attention"], least_influence=reach.min())


def norm_over(make: Callable[[], Callable[[Tensor], Tensor]], T: int) -> Callable[[int], float]:
    """{seed: |d out_T / d x_1|}, as a function, for the layers that `make` makes."""
    return lambda seed: np.linalg.norm(first_to_last(make(), 0.1 * normal(seed, 1, T, 8))[0])


@claim("G8", "Linear Interaction Distance", formula="RNN gradient problems", ours="nn.RNN(8, 32)",
       code="nn/recurrent.py:RNN", also=("004: Motivation",))
def gradients_of_an_rnn_vanish_or_explode_with_distance():
    """Recurrent networks have gradient problems over long distances."""
    rnn, x = recurrent_network(), normal(4, 1, 4, 8)
    W_ih, W_hh = rnn.weight_ih_l0.array, rnn.weight_hh_l0.array
    states = rnn(mg.tensor(x))[0].array[0]
    expected = np.diag(1 - states[0] ** 2) @ W_ih
    for state in states[1:]:
        expected = np.diag(1 - state**2) @ W_hh @ expected
    require_equal(first_to_last(states_of(rnn), x)[0], expected)
    require_equal(first_to_last(lambda x: rnn(x[:, 2:], rnn(x[:, :2])[1])[0], x)[0], expected)  # through the state alone

    lengths = 4, 16, 64
    makers = {"as it starts": lambda: states_of(recurrent_network()), "larger": lambda: states_of(recurrent_network(3)),
              "attention": lambda: Attention(8).double()}
    found = {name: [over_seeds(norm_over(make, T)) for T in lengths] for name, make in makers.items()}
    small, large, attention = found.values()
    require(small[2].median < 1e-6 * small[0].median, f"with small weights: {small}")
    require(large[2].median > 1e3 * large[0].median, f"with large weights: {large}")
    require(1 / 64 < attention[2].median / attention[0].median < 4 / 16, f"in attention: {attention}")
    return dict(in_an_rnn=[spread.median for spread in small], with_larger_weights=[spread.median for spread in large],
                in_attention=[spread.median for spread in attention])


def nearness(layer: Callable[[Tensor], Tensor], T: int = 12, D: int = 8) -> np.ndarray:
    """How much the last output depends on each input, the nearest first: norms of derivatives over their sum."""
    x = mg.tensor(0.1 * normal(0, 1, T, D))
    jacobian = mg.jacobian(lambda x: layer(x)[:, -1], x).array[0, :, 0]
    norms = np.linalg.norm(jacobian, axis=(0, 2))[::-1]
    return norms / norms.sum()


@claim("G23", "Linear Interaction Distance",
       formula="linear locality, so nearby words often affect each other's decisions",
       ours="nn.RNN(8, 32), Attention(8)", code="nn/recurrent.py:RNN, study/notes/attention.py:Attention")
def recurrent_networks_encode_locality():
    """Recurrent networks are unrolled left to right, which encodes linear locality: nearby words often affect each other's
    decisions."""
    def of_nearest_and_farthest(make):
        return (over_seeds(lambda seed, words=words: nearness(make())[words].sum()) for words in (slice(3), slice(9, 12)))

    close, far = of_nearest_and_farthest(lambda: states_of(recurrent_network()))
    close_in_attention, far_in_attention = of_nearest_and_farthest(lambda: Attention(8).double())
    require(close.median > 0.7 > 0.1 > far.median > 0, f"RNN: {close:.2f} of the nearest, {far:.2f} of the farthest")
    require(abs(far_in_attention.median - 0.25) < 0.1, f"attention: {far_in_attention:.2f} of the farthest")
    return dict(nearest=close, farthest=far, nearest_in_attention=close_in_attention,
                farthest_in_attention=far_in_attention)


@claim("G24", "Linear Interaction Distance", "true of the network; what suits sentences is not measured here",
       formula='Linear order of words is "baked in"',
       ours="nn.RNN(8, 32), Attention(8)", code="nn/recurrent.py:RNN, study/notes/attention.py:Attention")
def linear_order_is_baked_in():
    """The linear order of words is baked into a recurrent network, but is not the right way to think about sentences."""
    mg.manual_seed(0)
    x, rnn, attention = normal(0, 1, 6, 8), states_of(recurrent_network()), Attention(8).double()
    moved = x[:, [3, 0, 4, 2, 1, 5]]  # the last word stays the last
    changes = [largest(layer(mg.tensor(moved))[:, -1], layer(mg.tensor(x))[:, -1]) for layer in (rnn, attention)]
    require(changes[0] > 0.1 and changes[1] < 1e-12, f"another order changes the last output by {changes}")
    return dict(rnn=changes[0], attention=changes[1])


@claim("G22", "Linear Interaction Distance", "true if the learning rate is small, or the distance large",
       formula="Long distance dependencies are difficult to learn",
       ours='nn.RNN(32, 32), Attention(32, causal="mask")', code="nn/recurrent.py:RNN, study/notes/attention.py:Attention",
       measured="which of 8 symbols came first: an RNN of 32 units knows for 4 tokens after 200 steps at 0.003 or 0.01 "
                "(100%); for 12 after 600 steps 14% (11% to 15%) at 0.003 and 75% (25% to 100%) at 0.01, for 24 at 0.01 "
                "12% (9% to 87%); attention knows for 24 after 200 steps at either rate (100%); Adam, 5 seeds")
def an_rnn_hardly_learns_from_far_away():
    """Long-distance dependencies are difficult to learn, because of the gradient problems of recurrent networks."""
    def share_of_the_first(make):
        return [over_seeds(lambda seed, T=T: nearness(make(), T)[-1]).median for T in (4, 12, 24)]

    rnn = share_of_the_first(lambda: states_of(recurrent_network()))
    attention = share_of_the_first(lambda: Attention(8).double())
    require(rnn[2] < 1e-3 * rnn[0] and attention[2] > 0.5 / 24, f"shares of the first token: {rnn}, {attention}")
    return dict(share_of_the_first_of_4_12_and_24_tokens=rnn, in_attention=attention)
