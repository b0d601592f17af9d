"""Note 004, "Self-Attention"."""
import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.encoder_decoder import Encoder
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, attend, heads_of, influence, largest, matrices, misprint, normal, over_seeds, plain_attention, randn,
    require_causal, require_equal, scrambled, softmax, states_of,
)

claim = claims_of("004")


@claim("A46", "Self-Attention")
def attention_is_not_limited_to_the_past():
    """Recurrent networks map what they have seen so far to an output; self-attention maps sets to sets, in which all
    points interact.

    formula: In self-attention, we are not limited to tokens/symbols only seen in the past.
    here: Attention(D), nn.RNN(D, D)
    """
    x = randn(1, 6, 4)
    rnn = nn.RNN(4, 4, batch_first=True).double()
    attention = Attention(4).double()
    least = influence(attention, x).min()
    require(least > 0, "some outputs of attention do not depend on all inputs")
    require_causal(influence(states_of(rnn), x))
    return dict(least_influence=least)


@claim("A48", "Self-Attention", "true if an input is a whole image; along a sequence, a filter reads several inputs")
def convnets_map_single_inputs():
    """Convnets map single inputs to single outputs; self-attention maps sets to sets, and captures, by design, the
    interaction between data points.

    formula: Convnets map single inputs to single outputs. In self-attention, we map sets of inputs to sets of outputs
    here: nn.patchify(images, 2), Attention(D)
    """
    x = randn(6, 4)
    filters = nn.Linear(4, 4).double()
    attention = Attention(4).double()
    taps = [randn(4, 4, seed=seed) for seed in range(3)]

    def convnet(images):
        """(1, images, features), of images of 4 x 4 pixels in a row."""
        return filters(nn.patchify(images.reshape(-1, 1, 4, 4), 2)).relu().mean(1)[None]

    def along_the_sequence(x):
        return sum(x[:, place : place + 4] @ tap for place, tap in enumerate(taps))

    of_images, of_points, of_filters = (influence(layer, points) > 0 for layer, points in (
        (convnet, randn(1, 6, 16)), (attention, x[None]), (along_the_sequence, x[None])))
    require(np.array_equal(of_images, np.eye(6)), "in a convnet, an image depends on another")
    require(of_points.all(), "in attention, a point does not depend on another")
    require((of_filters.sum(axis=1) == 3).all(), f"a filter of 3 taps reads {of_filters.sum(axis=1)} inputs")
    return dict(inputs_of_each_output=[int(reach[0].sum()) for reach in (of_images, of_points, of_filters)])


@claim("E36", "Self-Attention", FALSE)
def one_index_for_two_keys():
    """The weight of j for i is exp w_ij over the sum over j of exp w_ij, which normalises rows.

    formula: W_ij = exp w_ij / sum_j exp w_ij
    here: Attention(D, query_key="none", scale=1.0), weights.softmax(-1)
    """
    x, layer = randn(5, 4), plain_attention(4, query_key="none")
    e = np.exp(x.array @ x.array.T)
    _, weights = layer(x, need_weights=True)
    literal = e / (5 * e)  # the sum over j adds the same number five times
    return misprint([(weights[0], e / e.sum(axis=1, keepdims=True))], [(weights[0], literal)])


@claim("A22", "Self-Attention", "true if there are neither positions nor a causal mask")
def permuted_tokens_give_permuted_features():
    """Self-attention is permutation-equivariant: permuted tokens give the same outputs, permuted.

    formula: if I permute the order of x, the output of y is exactly the same, but permuted
    here: Encoder(TransformerConfig(positions="none"))
    also in: 000: Positional Encodings; 001: 1. Sequence order; 003: Positional encoding; 004: Transformers: Wrapup
    """
    order = np.random.default_rng(0).permutation(7)
    x = randn(1, 7, 8)

    def violation(positions, is_causal=False):
        config = TransformerConfig(context=7, layers=1, width=8, heads=2, positions=positions)
        encoder = scrambled(Encoder(config))
        encoder.blocks[0].is_causal = is_causal
        return largest(encoder(x[:, order]), encoder(x)[:, order])

    plain = violation("none")
    positioned = violation("sinusoidal")
    causal = violation("none", is_causal=True)
    require(plain < EXACT, f"an encoder is not equivariant: {plain:.0g}")
    require(min(positioned, causal) > 0.01, f"with positions {positioned:.0g}, causal {causal:.0g}")
    return dict(permuted=plain, with_positions=positioned, causal=causal)


@claim("A47", "Self-Attention", "true if the vectors are learned")
def dot_products_group_similar_words():
    """The dot product is a mechanism that groups similar words, such as the nouns of a sentence, automatically.

    formula: w_ij = x_i^T x_j
    here: Attention(D, query_key="none", value=False, output_projection=False, scale=1.0)
    measured: in sentences of 7 words, nouns and adjectives give their own kind 185 (2 to 478) times the weight of
        another kind if vectors were learned by predicting words from their neighbours, and random vectors 0.71 (0.018
        to 2.4) times; 400 steps of Adam at 0.01, 5 seeds
    """
    kinds = np.array([0, 1, 2, 0, 1, 2])
    same = np.equal.outer(kinds, kinds) & ~np.eye(6, dtype=bool)
    other = np.not_equal.outer(kinds, kinds)

    def ratio(seed, shared):
        """How much more weight a word gives its own kind, if the vectors of a kind have so much in common."""
        words = normal(seed, 6, 16)
        of_kinds = normal(100 + seed, 3, 16)
        x = mg.tensor((words + shared * of_kinds[kinds]) / 2)
        weights = plain_attention(16, query_key="none")(x, need_weights=True)[1].array[0]
        return np.median(weights[same]) / np.median(weights[other])

    alike, random = (over_seeds(ratio, shared, seeds=20) for shared in (1, 0))
    require(alike.median > 5 and 0.3 < random.median < 3, f"vectors of a kind alike {alike:.2g}, random {random:.2g}")
    return dict(times_the_weight=alike, with_random_vectors=random)


@claim("A9", "Self-Attention")
def one_head_in_column_vectors():
    """Queries, keys and values are W_q x_i, W_k x_i and W_v x_i; values are weighted by the softmax of q . k over the
    square root of d.

    formula: q_i = W_q x_i, k_i = W_k x_i, v_i = W_v x_i, w_ij = q_i^T k_j / sqrt(d), y_i = sum_j W_ij v_j
    here: Attention(d, output_projection=False)
    """
    layer = Attention(6, output_projection=False).double()
    x = normal(0, 5, 6)
    Q, K, V = (x @ matrix for matrix in matrices(layer))
    y = layer(mg.tensor(x))
    return dict(difference=require_equal(y, attend(Q / np.sqrt(6), K, V)),
                in_rows=require_equal(y, softmax(Q @ K.T / np.sqrt(6)) @ V))


def heads_of_note(each: int) -> Attention:
    """Three heads of this many features, from tokens of 6."""
    return Attention(6, heads=3, key_size=each, value_size=each, scale=6**-0.5).double()


@claim("A14", "Self-Attention", "true if heads are as wide as tokens; else sqrt(d) is too much")
def heads_whose_size_is_not_given():
    """Each head has its own three projections, products are divided by the square root of d for numerical reasons, and the
    outputs, concatenated, go through one linear layer W_y.

    formula: w^r_ij = <q^r_i, k^r_j> / sqrt(d), y_i = W_y concat[y^1_i, y^2_i, ...]
    here: Attention(d, heads=h, key_size=d, value_size=d), or Attention(d, heads=h, scale=d**-0.5)
    """
    x, differences, moved = normal(0, 5, 6), [], []
    for each in (6, 2):
        layer = heads_of_note(each)
        by_d_k = Attention(6, heads=3, key_size=each, value_size=each).double()
        by_d_k.load_state_dict(layer.state_dict())
        y = layer(mg.tensor(x))
        differences.append(require_equal(y, heads_of(layer, x) @ layer.out.weight.array.T))
        moved.append(largest(y, by_d_k(mg.tensor(x))))
        require(layer.out.weight.shape == (6, 3 * each), f"W_y is {layer.out.weight.shape}")
    require(moved[0] == 0 and moved[1] > 1e-4, f"divided by sqrt(d_k) instead, outputs differ by {moved}")
    return dict(difference=max(differences), times_smaller=by_d_k.scale / layer.scale, outputs=moved[1])


@claim("E9", "Self-Attention", FALSE)
def values_without_their_head():
    """Head r weights v_j, a value without the index of a head.

    formula: y^r_i = sum_j W^r_ij v_j
    here: Attention(d, heads=h): the values of head r are v^r_j
    """
    x, mended, printed = randn(5, 6), [], []
    for each in (6, 2):
        layer = heads_of_note(each)
        y, weights = layer(x, need_weights=True)
        v = np.split((x @ layer.value.weight.mT).array, 3, axis=1)
        for values, pairs in ((v, mended), (v[:1] * 3, printed)):
            heads = np.hstack([A @ of_head for A, of_head in zip(weights.array, values)])
            pairs.append((y, heads @ layer.out.weight.array.T))
    return misprint(mended, printed, [lambda: layer.out(mg.tensor(np.hstack([x.array] * 3)))], least=0.01)


@claim("A21", "Self-Attention")
def a_soft_dictionary():
    """Attention looks a query up among keys and returns values, but softly: each key matches to some extent.

    formula: every key in the database is matched to the query to some extent
    here: Attention(n, query_key="none", value_size=D, output_projection=False, scale=100.0)
    also in: 003: Self-attention
    """
    n, generator, errors = 6, np.random.default_rng(0), []
    asked = generator.integers(0, n, 8)
    table = generator.normal(size=(n, 3))
    queries = mg.tensor(np.eye(n)[asked] + 0.3 * generator.random((8, n)))  # the right key leads by at least 0.7
    for scale in (1.0, 10.0, 100.0):
        layer = Attention(n, query_key="none", value_size=3, output_projection=False, scale=scale).double()
        layer.value.weight.data[...] = table.T
        found, weights = layer(queries, mg.tensor(np.eye(n)), need_weights=True)
        errors.append(largest(found, table[asked]))
        require(scale > 1 or weights.array.min() > 0.01, f"a key has weight {weights.array.min():.0g}")
    require(errors[0] > 0.1 and errors[-1] < EXACT, f"errors {errors}")
    return dict(errors=errors)


def scores_of(layer: nn.AdditiveAttention, of_row: np.ndarray, of_column: np.ndarray) -> np.ndarray:
    """W_1 tanh(W_2 [h, s]) for each (row, column), from the two parts of W_2 [h, s]."""
    return np.tanh(of_row[:, None] + of_column[None]) @ layer.score.weight.array[0]


def alignment(steps: int, states: int = 6):
    """(layer, s, h, W_s s, W_h h)"""
    layer = nn.AdditiveAttention(3, 3, hidden=5).double()
    s = randn(1, steps, 3)
    h = randn(1, states, 3, seed=1)
    nn.init.zeros_(layer.state.bias)  # the note has none
    return layer, s, h, s.array[0] @ layer.state.weight.array.T, h.array[0] @ layer.context.weight.array.T


@claim("A19", "Self-Attention")
def alignment_by_a_small_network():
    """Early translators scored the match of a decoder state and an encoder state by a network with one tanh layer; the
    softmax of the scores weights the encoder states.

    formula: alpha_ij = W_1 tanh(W_2 [h_i, s_j]), followed by a softmax
    here: nn.AdditiveAttention(state_width, context_width, hidden)
    also in: 003: Attention
    """
    layer, s, h, _, _ = alignment(steps=2)
    W_1 = layer.score.weight.array[0]
    W_2 = np.hstack([layer.context.weight.array, layer.state.weight.array])
    scores = np.array([[W_1 @ np.tanh(W_2 @ np.hstack([h_j, s_i])) for h_j in h.array[0]] for s_i in s.array[0]])
    c, weights = layer(s, h)
    difference = max(require_equal(weights[0], softmax(scores)), require_equal(c[0], softmax(scores) @ h.array[0]))
    padded = layer(s, h, mg.tensor([[False] * 4 + [True] * 2]))[0]
    return dict(difference=difference, without_padding=require_equal(padded, layer(s, h[:, :4])[0]))


@claim("E10", "Self-Attention", FALSE)
def alignment_with_swapped_indices():
    """c_i is the sum over j of alpha_ij h_j, with alpha_ij from [h_i, s_j].

    formula: c_i = sum_j alpha_ij h_j, alpha_ij from [h_i, s_j]
    here: nn.AdditiveAttention: alpha_ij from [h_j, s_i]
    """
    layer, s, h, of_s, of_h = alignment(steps=2)
    mended = [(layer(s, h)[0][0], softmax(scores_of(layer, of_s, of_h)) @ h.array[0]),
              (layer(s, h, mg.tensor([[False] * 4 + [True] * 2]))[0], layer(s, h[:, :4])[0])]  # a mask is over j
    literal = softmax(scores_of(layer, of_h, of_s))
    require(literal.shape == (6, 2), f"literal weights have shape {literal.shape}")  # which do not multiply 6 states
    layer, s, h, of_s, of_h = alignment(steps=6)
    return misprint(mended, [(layer(s, h)[0][0], softmax(scores_of(layer, of_h, of_s)) @ h.array[0])], least=0.01)


@claim("E37", "Self-Attention", FALSE)
def one_letter_for_scores_and_weights():
    """alpha are the alignment weights of the states, and alpha is what the network gives, before the softmax.

    formula: c_i = sum_j alpha_ij h_j, alpha_ij = W_1 tanh(...), followed by a softmax
    here: nn.AdditiveAttention(...)(s, h) -> c, weights
    """
    layer, s, h, of_s, of_h = alignment(steps=2)
    scores, (c, weights) = scores_of(layer, of_s, of_h), layer(s, h)
    return misprint([(c[0], softmax(scores) @ h.array[0]), (weights.sum(-1), 1.0)],
                    [(c[0], scores @ h.array[0]), (scores.sum(axis=1), 1.0)])
