"""Note 004, "Self-Attention"."""
import numpy as np

import minigrad as mg
import nn
from models.encoder_decoder import Encoder
from models.config import TransformerConfig
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, check_gradients, heads_of, influence, largest, matrices, misprint, normal, over_seeds, require_causal,
    require_equal, softmax,
)
from study.notes.note_004.shared import ATTENTION, RNN, randn

claim = claims_of("004")


@claim("A46", "Self-Attention",
       formula="In self-attention, we are not limited to tokens/symbols only seen in the past.",
       ours="Attention(D), nn.RNN(D, D)", code=f"{ATTENTION}, {RNN}")
def attention_is_not_limited_to_the_past():
    """Recurrent networks map what they have seen so far to an output; self-attention maps sets to sets, in which all
    points interact."""
    mg.manual_seed(0)
    x = randn(1, 6, 4)
    rnn, attention = nn.RNN(4, 4, batch_first=True).double(), Attention(4).double()
    reach = influence(attention, x)
    require(bool(reach.all()), "some outputs of attention do not depend on all inputs")
    require_causal(influence(lambda x: rnn(x)[0], x))
    return dict(least_influence=reach.min())


@claim("A48", "Self-Attention", "true if an input is a whole image; along a sequence, a filter reads several inputs",
       formula="Convnets map single inputs to single outputs. In self-attention, we map sets of inputs to sets of outputs",
       ours="nn.patchify(images, 2), Attention(D)", code=f"nn/patches.py:patchify, {ATTENTION}")
def convnets_map_single_inputs():
    """Convnets map single inputs to single outputs; self-attention maps sets to sets, and captures, by design, the
    interaction between data points."""
    mg.manual_seed(0)
    images, points = randn(6, 1, 4, 4), randn(1, 6, 4)
    filters, attention = nn.Linear(4, 4).double(), Attention(4).double()
    taps = [randn(4, 4, seed=1 + seed) for seed in range(3)]

    def convnet(images):
        """(1, images, features)"""
        return filters(nn.patchify(images, 2)).relu().mean(1)[None]

    def along_the_sequence(x):
        return sum(x[:, place : place + 4] @ tap for place, tap in enumerate(taps))

    jacobian = np.abs(mg.jacobian(convnet, images).array).max(axis=(0, 2, 4, 5, 6))
    reach, of_filters = influence(attention, points), influence(along_the_sequence, points)
    require(np.array_equal(jacobian > 0, np.eye(6, dtype=bool)), "in a convnet, an image depends on another")
    require(bool(reach.all()), "in attention, a point does not depend on another")
    require(set((of_filters > 0).sum(axis=1)) == {3}, f"a filter of 3 taps reads {(of_filters > 0).sum(axis=1)} inputs")
    return dict(least_influence=reach.min())


@claim("E36", "Self-Attention", FALSE, formula="W_ij = exp w_ij / sum_j exp w_ij",
       ours='Attention(D, query_key="none", scale="none"), weights.softmax(-1)', code=ATTENTION)
def one_index_for_two_keys():
    """The weight of j for i is exp w_ij over the sum over j of exp w_ij, which normalises rows."""
    mg.manual_seed(0)
    x = randn(5, 4)
    layer = Attention(4, query_key="none", value=False, output_projection="none", scale="none").double()
    e = np.exp(x.array @ x.array.T)
    _, weights = layer(x, need_weights=True)
    literal = e / (5 * e)  # the sum over j adds the same number five times
    return misprint([(weights[0], e / e.sum(axis=1, keepdims=True))], [(weights[0], literal)])


@claim("A22", "Self-Attention", "true if there are neither positions nor a causal mask",
       formula="if I permute the order of x, the output of y is exactly the same, but permuted",
       ours='Encoder(TransformerConfig(positions="none"))', code=f"{ATTENTION}, models/encoder_decoder.py:Encoder",
       also=("000: Positional Encodings", "001: 1. Sequence order", "003: Positional encoding",
             "004: Transformers: Wrapup"))
def permuted_tokens_give_permuted_features():
    """Self-attention is permutation-equivariant: permuted tokens give the same outputs, permuted."""
    order = np.random.default_rng(0).permutation(7)
    x = randn(1, 7, 8)

    def violation(positions, is_causal=False):
        mg.manual_seed(0)
        encoder = Encoder(TransformerConfig(context=7, layers=1, width=8, heads=2, positions=positions)).double()
        encoder.blocks[0].is_causal = is_causal
        return largest(encoder(x[:, order]), encoder(x)[:, order])

    plain, positioned, causal = violation("none"), violation("sinusoidal"), violation("none", is_causal=True)
    require(plain < EXACT, f"an encoder is not equivariant: {plain:.0g}")
    require(min(positioned, causal) > 0.01, f"with positions {positioned:.0g}, causal {causal:.0g}")
    return dict(permuted=plain, with_positions=positioned, causal=causal)


@claim("A47", "Self-Attention", "true if the vectors are learned", formula="w_ij = x_i^T x_j",
       ours='Attention(D, query_key="none", value=False, output_projection="none", scale="none")', code=ATTENTION,
       measured="in sentences of 7 words, nouns and adjectives give their own kind 185 (2 to 478) times the weight of "
                "another kind if vectors were learned by predicting words from their neighbours, and random vectors 0.71 "
                "(0.018 to 2.4) times; 400 steps of Adam at 0.01, 5 seeds")
def dot_products_group_similar_words():
    """The dot product is a mechanism that groups similar words, such as the nouns of a sentence, automatically."""
    kinds = np.array([0, 1, 2, 0, 1, 2])
    same, other = np.equal.outer(kinds, kinds) & ~np.eye(6, dtype=bool), np.not_equal.outer(kinds, kinds)
    layer = Attention(16, query_key="none", value=False, output_projection="none", scale="none")

    def ratio(seed, shared):
        """How much more weight a word gives its own kind, if the vectors of a kind have so much in common."""
        words, of_kinds = normal(seed, 6, 16), normal(100 + seed, 3, 16)
        weights = layer(mg.tensor((words + shared * of_kinds[kinds]) / 2), need_weights=True)[1].array[0]
        return np.median(weights[same]) / np.median(weights[other])

    alike, random = (over_seeds(lambda seed, shared=shared: ratio(seed, shared), 20) for shared in (1, 0))
    require(alike.median > 5 and 0.3 < random.median < 3, f"vectors of a kind alike {alike:.2g}, random {random:.2g}")
    return dict(times_the_weight=alike, with_random_vectors=random)


@claim("A9", "Self-Attention",
       formula="q_i = W_q x_i, k_i = W_k x_i, v_i = W_v x_i, w_ij = q_i^T k_j / sqrt(d), y_i = sum_j W_ij v_j",
       ours='Attention(d, scale="d_model", output_projection="none")', code=ATTENTION)
def one_head_in_column_vectors():
    """Queries, keys and values are W_q x_i, W_k x_i and W_v x_i; values are weighted by the softmax of q . k over the
    square root of d."""
    mg.manual_seed(0)
    layer = Attention(6, scale="d_model", output_projection="none").double()
    x = randn(5, 6)
    found = require_equal(layer(x), heads_of(layer, x.array, scale=6**-0.5))
    Q, K, V = (x.array @ matrix for matrix in matrices(layer))
    in_rows = require_equal(layer(x), softmax(Q @ K.T / np.sqrt(6)) @ V)
    check_gradients(layer, x)
    return dict(difference=found, in_rows=in_rows)


def heads_of_note(each: int) -> Attention:
    """Three heads of this many features, from tokens of 6."""
    mg.manual_seed(0)
    return Attention(6, heads=3, key_size=each, value_size=each, scale="d_model").double()


@claim("A14", "Self-Attention", "true if heads are as wide as tokens; else sqrt(d) is too much",
       formula="w^r_ij = <q^r_i, k^r_j> / sqrt(d), y_i = W_y concat[y^1_i, y^2_i, ...]",
       ours='Attention(d, heads=h, key_size=d, value_size=d), or Attention(d, heads=h, scale="d_model")',
       code=ATTENTION)
def heads_whose_size_is_not_given():
    """Each head has its own three projections, products are divided by the square root of d for numerical reasons, and the
    outputs, concatenated, go through one linear layer W_y."""
    x, wide, narrow = randn(5, 6), heads_of_note(6), heads_of_note(2)
    found = 0.0
    for layer in (wide, narrow):
        found = max(found, require_equal(layer(x), heads_of(layer, x.array, scale=6**-0.5) @ layer.out.weight.array.T))
        check_gradients(layer, x)
    W_y = wide.out.weight.shape
    require(W_y == (6, 18), f"W_y is {W_y}")

    def by_the_root_of_d_k(layer):
        """How far the layer is from one whose scores are divided by sqrt(d_k)."""
        other = Attention(6, heads=3, key_size=layer.key_size, value_size=layer.value_size, scale="d_k").double()
        other.load_state_dict(layer.state_dict())
        return largest(layer(x), other(x)), layer.factor / other.factor

    (same, of_wide), (differs, of_narrow) = by_the_root_of_d_k(wide), by_the_root_of_d_k(narrow)
    require(same == 0 and of_wide == 1, f"heads of width d differ by {same:.0g}")
    require(differs > 1e-4 and abs(of_narrow - 3**-0.5) < EXACT, f"heads of width d / h differ by {differs:.0g}")
    return dict(difference=found, times_smaller=1 / of_narrow, outputs=differs)


@claim("E9", "Self-Attention", FALSE, formula="y^r_i = sum_j W^r_ij v_j",
       ours="Attention(d, heads=h): the values of head r are v^r_j", code=ATTENTION)
def values_without_their_head():
    """Head r weights v_j, a value without the index of a head."""
    x, mended, printed = randn(5, 6), [], []
    for each in (6, 2):
        layer = heads_of_note(each)
        _, weights = layer(x, need_weights=True)
        v = (x @ layer.value.weight.mT).array.reshape(5, 3, each)
        for of_head, pairs in ((lambda r: r, mended), (lambda r: 0, printed)):
            heads = np.concatenate([weights.array[r] @ v[:, of_head(r)] for r in range(3)], axis=1)
            pairs.append((layer(x), heads @ layer.out.weight.array.T))
    return misprint(mended, printed, [lambda: layer.out(mg.tensor(np.concatenate([x.array] * 3, axis=1)))], least=0.01)


@claim("A21", "Self-Attention", formula="every key in the database is matched to the query to some extent",
       ours='Attention(n, query_key="none", value_size=D, output_projection="none", scale=100.0)', code=ATTENTION,
       also=("003: Self-attention",))
def a_soft_dictionary():
    """Attention looks a query up among keys and returns values, but softly: each key matches to some extent."""
    n, size = 6, 3
    generator = np.random.default_rng(0)
    asked = generator.integers(0, n, 8)
    queries = mg.tensor(np.eye(n)[asked] + 0.3 * generator.random((8, n)))  # the right key leads by at least 0.7
    keys, table = mg.tensor(np.eye(n)), generator.normal(size=(n, size))
    errors = []
    for scale in (1.0, 10.0, 100.0):
        layer = Attention(n, query_key="none", value_size=size, output_projection="none", scale=scale).double()
        layer.value.weight.data = table.T.copy()
        found, weights = layer(queries, keys, need_weights=True)
        errors.append(largest(found, table[asked]))
        require(scale > 1 or weights.array.min() > 0.01, f"a key has weight {weights.array.min():.0g}")
    require(errors[0] > 0.1 and errors[-1] < EXACT, f"errors {errors}")
    return dict(errors=errors)


@claim("A19", "Self-Attention", formula="alpha_ij = W_1 tanh(W_2 [h_i, s_j]), followed by a softmax",
       ours="nn.AdditiveAttention(state_width, context_width, hidden)",
       code="nn/additive_attention.py:AdditiveAttention", also=("003: Attention",))
def alignment_by_a_small_network():
    """Early translators scored the match of a decoder state and an encoder state by a network with one tanh layer; the
    softmax of the scores weights the encoder states."""
    mg.manual_seed(0)
    layer = nn.AdditiveAttention(3, 4, hidden=5).double()
    nn.init.zeros_(layer.state.bias)  # the note has none
    s, h = randn(1, 2, 3), randn(1, 6, 4, seed=1)
    W_1, W_2 = layer.score.weight.array[0], np.hstack([layer.context.weight.array, layer.state.weight.array])
    c, weights = layer(s, h)
    found = 0.0
    for t in range(2):
        scores = np.array([W_1 @ np.tanh(W_2 @ np.concatenate([h.array[0, j], s.array[0, t]])) for j in range(6)])
        alpha = softmax(scores)
        found = max(found, require_equal(weights[0, t], alpha), require_equal(c[0, t], alpha @ h.array[0]))
    require_equal(layer(s, h, mg.tensor([[False] * 4 + [True] * 2]))[0], layer(s, h[:, :4])[0])
    check_gradients(layer, s, h)
    return dict(difference=found)


def scores_of(layer: nn.AdditiveAttention, of_row: np.ndarray, of_column: np.ndarray) -> np.ndarray:
    """W_1 tanh(W_2 [h, s]) for each (row, column), from the two parts of W_2 [h, s]."""
    return np.tanh(of_row[:, None] + of_column[None]) @ layer.score.weight.array[0]


def alignment(steps: int, states: int = 6):
    """(layer, s, h, W_s s, W_h h)"""
    mg.manual_seed(0)
    layer, s, h = nn.AdditiveAttention(3, 3, hidden=5).double(), randn(1, steps, 3), randn(1, states, 3, seed=1)
    of_s = s.array[0] @ layer.state.weight.array.T + layer.state.bias.array
    return layer, s, h, of_s, h.array[0] @ layer.context.weight.array.T


@claim("E10", "Self-Attention", FALSE, formula="c_i = sum_j alpha_ij h_j, alpha_ij from [h_i, s_j]",
       ours="nn.AdditiveAttention: alpha_ij from [h_j, s_i]", code="nn/additive_attention.py:AdditiveAttention")
def alignment_with_swapped_indices():
    """c_i is the sum over j of alpha_ij h_j, with alpha_ij from [h_i, s_j]."""
    layer, s, h, of_s, of_h = alignment(steps=2)
    mended = [(layer(s, h)[0][0], softmax(scores_of(layer, of_s, of_h)) @ h.array[0]),
              (layer(s, h, mg.tensor([[False] * 4 + [True] * 2]))[0], layer(s, h[:, :4])[0])]  # a mask is over j
    literal = softmax(scores_of(layer, of_h, of_s))
    require(literal.shape == (6, 2), f"literal weights have shape {literal.shape}")  # which do not multiply 6 states
    layer, s, h, of_s, of_h = alignment(steps=6)
    return misprint(mended, [(layer(s, h)[0][0], softmax(scores_of(layer, of_h, of_s)) @ h.array[0])], least=0.01)


@claim("E37", "Self-Attention", FALSE,
       formula="c_i = sum_j alpha_ij h_j, alpha_ij = W_1 tanh(...), followed by a softmax",
       ours="nn.AdditiveAttention(...)(s, h) -> c, weights", code="nn/additive_attention.py:AdditiveAttention")
def one_letter_for_scores_and_weights():
    """alpha are the alignment weights of the states, and alpha is what the network gives, before the softmax."""
    layer, s, h, of_s, of_h = alignment(steps=2)
    scores, (c, weights) = scores_of(layer, of_s, of_h), layer(s, h)
    return misprint([(c[0], softmax(scores) @ h.array[0]), (weights.sum(-1), 1.0)],
                    [(c[0], scores @ h.array[0]), (scores.sum(axis=1), 1.0)])
