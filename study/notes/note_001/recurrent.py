"""Note 001, "Premise" to "Attention: The savior": recurrent networks, and how attention improves on them."""
import functools
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from study.notes.claims import claims_of, require
from study.notes.helpers import Spread, influence, longest_chain, normal, over_seeds, require_equal
from study.notes.training import after_fit, choices, fit

claim = claims_of("001")


WORD_CLASSES, WORDS_EACH, NEIGHBOURS_EACH = 3, 8, 4  # words of a class have the same neighbours
WORDS = np.arange(WORD_CLASSES * WORDS_EACH)
VOCABULARY_SIZE = len(WORDS) + WORD_CLASSES * NEIGHBOURS_EACH


def synthetic_corpus(generator: np.random.Generator, sentences: int) -> np.ndarray:
    """(sentences, 3): a word between two neighbours of its class; one neighbour in ten is of a random class."""
    words = generator.integers(0, len(WORDS), sentences)
    of_class = generator.integers(0, NEIGHBOURS_EACH, (2, sentences)) + words // WORDS_EACH * NEIGHBOURS_EACH
    of_any = generator.integers(0, WORD_CLASSES * NEIGHBOURS_EACH, (2, sentences))
    before, after = np.where(generator.random((2, sentences)) < 0.1, of_any, of_class) + len(WORDS)
    return np.stack([before, words, after], axis=1)


def skip_gram(seed: int) -> nn.Embedding:
    """Word vectors that predict a word's neighbours (Word2Vec's skip-gram)."""
    generator = np.random.default_rng(seed)
    sentences = synthetic_corpus(generator, 4000)
    centres = np.concatenate([sentences[:, i] for i in (0, 1, 1, 2)])
    neighbours = np.concatenate([sentences[:, i] for i in (1, 0, 2, 1)])
    vectors, predict = nn.Embedding(VOCABULARY_SIZE, 8), nn.Linear(8, VOCABULARY_SIZE, bias=False)

    def draw():
        batch = generator.integers(0, len(centres), 256)
        return centres[batch], neighbours[batch]

    fit(lambda centres, neighbours: F.cross_entropy(predict(vectors(centres)), neighbours),
        [*vectors.parameters(), *predict.parameters()], draw, steps=300, lr=0.05, seed=seed)
    return vectors


def mean_cosine(vectors: nn.Embedding, alike: bool) -> float:
    """Between the vectors of two words of the same class, or of different classes."""
    unit = F.normalize(vectors.weight[: len(WORDS)]).array
    is_alike = np.equal.outer(WORDS // WORDS_EACH, WORDS // WORDS_EACH)
    return float((unit @ unit.T)[is_alike & ~np.eye(len(unit), dtype=bool) if alike else ~is_alike].mean())


def told_from_frozen(vectors: nn.Embedding, seed: int) -> float:
    """The accuracy, on words with odd numbers, of a linear classifier trained on those with even numbers."""
    vectors.zero_grad()
    vectors.requires_grad_(False)
    before = vectors.weight.array.copy()
    seen, unseen = WORDS[::2], WORDS[1::2]
    classify = nn.Linear(vectors.embedding_dim, WORD_CLASSES)
    fit(lambda words, classes: F.cross_entropy(classify(vectors(words)), classes), classify.parameters(),
        lambda: (seen, seen // WORDS_EACH), steps=100, lr=0.1, seed=seed)
    require(vectors.weight.grad is None and np.array_equal(vectors.weight.array, before), "frozen vectors have moved")
    found = classify(vectors(mg.tensor(unseen))).array.argmax(axis=1)
    return float((found == unseen // WORDS_EACH).mean())


@claim("L6", "Premise", formula="Before 2017, Recurrent Neural Networks (RNNs) and Word2Vec models",
       ours="nn.Embedding(36, 8), then .requires_grad_(False)", code="nn/embedding.py:Embedding")
def word_vectors_were_used_to_understand_text():
    """Before 2017, recurrent neural networks and Word2Vec models were used to understand text with deep learning."""
    vectors = functools.cache(skip_gram)
    alike, unlike = (over_seeds(lambda seed, is_alike=is_alike: mean_cosine(vectors(seed), is_alike))
                     for is_alike in (True, False))
    told = over_seeds(lambda seed: told_from_frozen(vectors(seed), seed))
    by_chance = over_seeds(lambda seed: told_from_frozen(nn.Embedding(VOCABULARY_SIZE, 8), seed))
    require(alike.median > 0.7 and unlike.median < 0.4, f"cosine {alike:.2f} of words used alike, {unlike:.2f} of others")
    require(told.median > 0.95 > 0.7 > by_chance.median, f"right: {told:.0%}, from random vectors {by_chance:.0%}")
    return ("vectors trained to predict the neighbours of a word are similar for words with similar uses: their cosine is "
            f"{alike:.2f} within a class of words and {unlike:.2f} between classes; from the frozen vectors, a classifier "
            f"finds the class of {told:.0%} of the words that it was not trained on, from random vectors {by_chance:.0%} "
            "(300 steps, 5 seeds)")


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
       ours="nn.RNN(8, 8), nn.Attention(8, heads=2)", code="nn/recurrent.py:RNN, nn/attention.py:Attention",
       also=("001: Attention: The savior", "004: Transformers"))
def distant_words_interact_after_many_steps_or_one():
    """Distant words take O(sequence length) steps to interact in a recurrent network. With attention the maximum
    interaction distance is O(1), since all words interact at every layer."""
    mg.manual_seed(0)
    T, lengths = 12, (4, 16, 64)
    attention, rnn = nn.Attention(8, heads=2).double(), nn.RNN(8, 8, batch_first=True).double()
    reach = influence(attention, normal(0, 1, T, 8))
    require(bool((reach > 1e-6).all()), f"the smallest influence in a layer of attention is {reach.min():.0e}")
    chains = {name: [first_to_last(layer, normal(0, 1, n, 8))[1] for n in lengths]
              for name, layer in (("attention", attention), ("RNN", states_of(rnn)))}
    each = np.diff(chains["RNN"]) / np.diff(lengths)
    require(each[0] == each[1] >= 1 and len(set(chains["attention"])) == 1, f"operations in a row: {chains}")
    in_rnn, in_attention = (", ".join(map(str, chains[name])) for name in ("RNN", "attention"))
    return (f"from the first of 4, 16, 64 tokens to the last output there are {in_rnn} operations in a row in an RNN, "
            f"{each[0]:.0f} per token, and {in_attention} in attention; in one layer of attention all {T * T} pairs of {T} "
            f"tokens interact, with derivatives of at least {reach.min():.3f}")


def norm_over(make: Callable[[], Callable[[Tensor], Tensor]], T: int) -> Callable[[int], float]:
    """{seed: |d out_T / d x_1|}, as a function, for the layers that `make` makes."""
    return lambda seed: np.linalg.norm(first_to_last(make(), 0.1 * normal(seed, 1, T, 8))[0])


@claim("G8", "Linear Interaction Distance", formula="RNN gradient problems", ours="nn.RNN(8, 32)",
       code="nn/recurrent.py:RNN")
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
              "attention": lambda: nn.Attention(8).double()}
    found = {name: [over_seeds(norm_over(make, T)) for T in lengths] for name, make in makers.items()}
    shown = {name: ", ".join(f"{norm.median:.1g}" for norm in norms) for name, norms in found.items()}
    small, large, attention = found.values()
    require(small[2].median < 1e-6 * small[0].median, f"with small weights: {shown}")
    require(large[2].median > 1e3 * large[0].median, f"with large weights: {shown}")
    require(1 / 64 < attention[2].median / attention[0].median < 4 / 16, f"in attention: {shown}")
    return (f"in an RNN, d out_T / d x_1 is a product of T matrices; its norm at T = 4, 16, 64 is {shown['as it starts']} "
            f"with the initial weights (standard deviation 0.6 / sqrt(H)), and {shown['larger']} with 3 / sqrt(H); in "
            f"attention it is {shown['attention']}, as each token has a weight of about 1/T (medians of 5 seeds; at "
            f"T = 64 {small[2]:.0e}, {large[2]:.0e}, {attention[2]:.0e})")


class Recall(nn.Module):
    """Logits of the first token, from a layer's output at the last token."""

    def __init__(self, layer: nn.Module, symbols: int, width: int):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(symbols, width), nn.PositionEncoding("sinusoidal", width)
        self.layer, self.out = layer, nn.Linear(width, symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.positions(self.embedding(tokens))
        states = self.layer(x)[0] if isinstance(self.layer, nn.RNN) else self.layer(x)
        return self.out(states[:, -1])


def recalled(make_layer: Callable[[], nn.Module], T: int, steps: int, symbols: int = 8, width: int = 32) -> Spread:
    """How often the first of T random tokens is recalled after training."""

    def draw(generator: np.random.Generator, count: int = 32) -> tuple[np.ndarray, np.ndarray]:
        tokens = generator.integers(0, symbols, (count, T))
        return tokens, tokens[:, 0]

    def right(model: Recall, generator: np.random.Generator) -> float:
        tokens, first = draw(generator, 500)
        return (choices(model, tokens) == first).mean()

    return after_fit(lambda: Recall(make_layer(), symbols, width), draw, right, steps, lr=3e-3)


@claim("G22", "Linear Interaction Distance", formula="Long distance dependencies are difficult to learn",
       ours='nn.RNN(32, 32), nn.Attention(32, causal="mask")', code="nn/recurrent.py:RNN, nn/attention.py:Attention")
def an_rnn_hardly_learns_from_far_away():
    """Long-distance dependencies are difficult to learn, because of the gradient problems of recurrent networks."""
    rnn, attention = lambda: nn.RNN(32, 32, batch_first=True), lambda: nn.Attention(32, causal="mask")
    near, far = recalled(rnn, 4, 300), recalled(rnn, 16, 1200)
    of_attention = recalled(attention, 48, 300)
    require(near.median > 0.99 and of_attention.median > 0.99, f"RNN, 4 tokens: {near:.0%}; attention: {of_attention:.0%}")
    require(far.median < 0.3, f"an RNN recalls the first of 16 tokens: {far:.0%}")
    return (f"which of 8 symbols came first? An RNN of 32 units knows after 300 steps for 4 tokens ({near:.0%} right), but "
            f"not after 1200 steps for 16 ({far:.0%}; chance is 12%); attention knows after 300 steps for 48 tokens "
            f"({of_attention:.0%}; 5 seeds)")
