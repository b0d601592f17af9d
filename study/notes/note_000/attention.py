"""Note 000, "Attention" and "Self-Attention" with its boxes."""
import math

import numpy as np

import minigrad as mg
import nn
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    EXACT, attend, check_gradients, influence, largest, normal, over_seeds, plain_attention, require_equal,
)
from study.notes.note_000.shared import ATTENTION

claim = claims_of("000")


@claim("A1", "Attention", formula="Y = A X, sum_s A_ts = 1 for all t; causal: A_ts = 0 for all t < s",
       ours='Attention(6, causal=False | "mask" | "renormalise")(x, need_weights=True)', code=ATTENTION,
       also=("003: Attention coefficients", "004: Self-Attention"))
def attention_is_a_weighted_average():
    """Attention is just a weighted average, Y = A X, with non-negative weights that sum to 1 in each row. For
    autoregressive modelling A is causal: lower triangular."""
    x, worst = normal(1, 7, 6), 0.0
    for query_key in ("none", "shared", "separate"):
        for causal in (False, "mask", "renormalise"):
            mg.manual_seed(0)
            y, weights = plain_attention(6, query_key=query_key, causal=causal)(mg.tensor(x), need_weights=True)
            A = weights.array[0]
            require(A.min() >= 0, f"{query_key}: a weight of {A.min()}")
            require(bool(causal) != bool(np.triu(A, 1).any()), f"{query_key}, {causal}: is the future seen?")
            seen = [x[: t + 1] if causal else x for t in range(7)]
            outside = max(np.maximum(rows.min(0) - y_t, y_t - rows.max(0)).max() for y_t, rows in zip(y.array, seen))
            worst = max(worst, abs(A.sum(1) - 1).max(), largest(y, A @ x), outside)
    require(worst < EXACT, f"off by {worst:.0e}")
    return dict(off=worst)


@claim("A2", "Self-Attention", formula="A_ts = exp{x_t^T x_s} / sum_s' exp{x_t^T x_s'}",
       ours='Attention(D, query_key="none", value=False, output_projection="none", scale="none")', code=ATTENTION,
       also=("002: Self-attention", "003: Self-attention", "004: Self-Attention"))
def similarity_of_tokens_needs_no_parameters():
    """The simplest attention weights are determined by the pairwise similarity of tokens: A_ts is proportional to
    exp(x_t . x_s)."""
    x = normal(2, 5, 4)
    attention = plain_attention(4, query_key="none")
    count = sum(p.numel() for p in attention.parameters())
    difference = require_equal(attention(mg.tensor(x)), attend(x, x, x))
    require(count == 0, f"{count} parameters")
    mg.gradcheck(attention, mg.tensor(x, requires_grad=True))
    return dict(parameters=count, difference=difference)


@claim("A24", "Self-Attention",
       formula="A_ts = exp{x_t^T x_s} / sum_s' exp{x_t^T x_s'}: attention depends equally on all D dimensions",
       ours='Attention(D, query_key="none"), and query_key="shared", key_size=K', code=ATTENTION,
       also=("003: Network parameters",))
def plain_attention_depends_equally_on_all_dimensions():
    """With the similarity x_t . x_s attention depends equally on all D dimensions of the embedding, though some may be
    more relevant than others. A projection to a feature space allows for that."""
    D, x = 6, normal(3, 5, 6)
    rotation, _ = np.linalg.qr(normal(4, D, D))
    stretch = np.diag([3.0, *np.ones(D - 1)])
    moved = {}
    for name, layer in (("plain", plain_attention(D, query_key="none")),
                        ("projected", plain_attention(D, query_key="shared", key_size=2))):
        for parameter in layer.parameters():
            parameter.data[...] = normal(5, *parameter.shape)
        A, rotated, stretched = (layer(mg.tensor(x @ R), need_weights=True)[1] for R in (np.eye(D), rotation, stretch))
        moved[name] = largest(rotated, A), largest(stretched, A)
    (plain, stretched), (projected, _) = moved["plain"], moved["projected"]
    require(plain < EXACT, f"X R has weights that differ by {plain:.0e}")
    require(stretched > 0.1 and projected > 0.1, f"stretched {stretched:.2g}, projected and rotated {projected:.2g}")
    return dict(rotated=plain, rotated_and_projected=projected)


@claim("A3", "Self-Attention",
       formula="A_ts = exp{(U x_t)^T (U x_s)} / sum_s' exp{(U x_t)^T (U x_s')}, U in R^(K x D), K < D",
       ours='Attention(D, query_key="shared", key_size=K)', code=ATTENTION, also=("002: Self-attention",))
def one_projection_gives_a_symmetric_numerator():
    """Tokens are projected by one matrix U to K < D features before they are compared. Still, the numerator of the weight
    is symmetric in both tokens."""
    D, K, x = 8, 4, normal(0, 5, 8)
    layer, differences = plain_attention(D, query_key="shared", key_size=K), []

    def asymmetry(seed):
        nn.init.normal_(layer.query.weight, std=0.5)
        U = layer.query.weight.array
        numerators = np.array([[math.exp((U @ x[t]) @ (U @ x[s])) for s in range(5)] for t in range(5)])
        require_equal(numerators / numerators.T, np.ones((5, 5)))
        A = numerators / numerators.sum(axis=1, keepdims=True)
        y, weights = layer(mg.tensor(x), need_weights=True)
        differences.append(max(require_equal(weights[0], A), require_equal(y, A @ x)))
        return largest(weights[0], weights[0].mT)

    asymmetries = over_seeds(asymmetry)
    require(asymmetries.median > 0.1, f"the weights are symmetric up to {asymmetries:.2g}")
    check_gradients(layer, x)
    return dict(difference=max(differences), asymmetry=asymmetries)


@claim("A4", "Self-Attention",
       formula="A_ts = exp{(U_q x_t)^T (U_k x_s)} / sum_s' exp{(U_q x_t)^T (U_k x_s')}, U_q, U_k in R^(K x D)",
       ours='Attention(D, query_key="separate", key_size=K)', code=ATTENTION, also=("002: Self-attention",))
def queries_and_keys_break_the_symmetry():
    """With queries U_q x_t and keys U_k x_s, token s can be relevant for updating t without the converse."""
    x, U_q, U_k = normal(3, 5, 6), normal(4, 3, 6) / 2, normal(5, 3, 6) / 2
    layer, shared = (plain_attention(6, key_size=3, query_key=query_key) for query_key in ("separate", "shared"))
    layer.query.weight.data[...], layer.key.weight.data[...] = U_q, U_k
    difference = require_equal(layer(mg.tensor(x)), attend(x @ U_q.T, x @ U_k.T, x))
    check_gradients(layer, x)

    def asymmetry():
        scores = layer.query(mg.tensor(x)) @ layer.key(mg.tensor(x)).mT
        return largest(scores, scores.mT)

    separate = asymmetry()
    for weight in (shared.query.weight, layer.key.weight):
        weight.data[...] = U_q
    require_equal(layer(mg.tensor(x)), shared(mg.tensor(x)))
    together = asymmetry()
    require(separate > 0.1 and together < EXACT, f"scores asymmetric by {separate:.2g}, with U_q = U_k {together:.0e}")

    square = plain_attention(6, key_size=6)
    for projection in (square.query, square.key):
        projection.weight.data[...] = np.eye(6)
    require_equal(square(mg.tensor(x)), plain_attention(6, query_key="none")(mg.tensor(x)))
    return dict(difference=difference, asymmetry=separate, with_equal_projections=together)


@claim("A5", "Causal attention", "true if the weights of the past do not underflow",
       formula="A_ts = exp{(U_q x_t)^T (U_k x_s)} / sum_(s'=1)^t exp{(U_q x_t)^T (U_k x_s')} * I[t >= s]",
       ours='Attention(D, causal="renormalise") and Attention(D, causal="mask")', code=ATTENTION,
       also=("001: 3. Masking the future in self-attention",))
def zeroing_and_renormalising_is_masking():
    """To enforce causality, simply zero out the upper triangle of the attention matrix and renormalise the rows, whose
    sums then end at t."""
    x = normal(4, 6, 4)
    mask, renormalise = (plain_attention(4, key_size=2, causal=causal) for causal in ("mask", "renormalise"))
    for layer in (mask, renormalise):
        layer.query.weight.data[...], layer.key.weight.data[...] = normal(5, 2, 4), normal(6, 2, 4)
    difference = require_equal(mask(mg.tensor(x)), renormalise(mg.tensor(x)))
    require_equal(mask(mg.tensor(x)), attend(x @ normal(5, 2, 4).T, x @ normal(6, 2, 4).T, x, is_causal=True))
    leaks = [np.triu(influence(layer, x[None]), 1).max() for layer in (mask, renormalise)]
    require(leaks[0] == 0 and leaks[1] < EXACT, f"dy_t / dx_s is {leaks[0]} and {leaks[1]:.0e} for s > t")
    for layer in (mask, renormalise):
        check_gradients(layer, x)

    steep = mg.tensor(np.array([[1.0, 0.0], [1000.0, 0.0]]))  # for row 0, exp(1 - 1000) is 0 in floating point
    kept, lost = (plain_attention(2, query_key="none", causal=causal)(steep).array[0, 0]
                  for causal in ("mask", "renormalise"))
    require(kept == 1 and lost != 1, f"a score of 1000 in the future: {kept} and {lost}, where 1 is right")
    return dict(difference=difference, leaks_when_renormalised=leaks[1], token_with_mask=kept,
                token_when_renormalised=lost)


@claim("G11", "Comparison to RNNs",
       formula="a transformer with causal attention can directly attend to any one of the past tokens",
       ours='Attention(D, causal="mask"), compared with nn.RNN(D, D)', code=f"{ATTENTION}, nn/recurrent.py:RNN")
def causal_attention_reaches_any_past_token_directly():
    """An RNN propagates information about past tokens via a hidden state; with causal attention a transformer can
    directly attend to any one of the past tokens."""
    T, x, worst = 6, np.eye(6), 0.0
    layer = plain_attention(T, causal="mask")
    layer.key.weight.data[...] = np.eye(T)
    for distance in range(1 - T, T):
        wanted = np.clip(np.arange(T) - distance, 0, T - 1)  # the token that each one looks for
        layer.query.weight.data[...] = 100 * x[wanted].T
        y, weights = layer(mg.tensor(x), need_weights=True)
        is_past = wanted <= np.arange(T)
        worst = max(worst, require_equal(weights[0].array[is_past], x[wanted][is_past]),
                    require_equal(y.array[is_past], x[wanted][is_past]))
        hidden = weights[0].array[np.arange(T), wanted][~is_past]
        require(not hidden.any(), f"a later token has the weight {hidden.max(initial=0):.0e}")

    mg.manual_seed(0)
    rnn, text = nn.RNN(4, 4, batch_first=True).double(), mg.tensor(normal(34, 1, T, 4), requires_grad=True)
    states, _ = rnn(text)
    _, state = rnn(text[:, :3])
    at_once = require_equal(rnn(text[:, 3:], state)[0], states[:, 3:])
    forgotten = largest(rnn(text[:, 3:])[0], states[:, 3:])
    require(forgotten > 1e-3, f"without a state it goes on the same within {forgotten:.0e}")
    return dict(copies=worst, rnn_from_its_state=at_once, rnn_without_state=forgotten)


@claim("A20", "Connection to Convolutional Neural Networks (CNNs)", formula="A_ts = a_(t-s)",
       ours='Attention(D, positions="relative"), with query and key zero', code=ATTENTION,
       also=("002: Self-attention",))
def distance_only_attention_is_a_convolution():
    """If the weights depended on the distance t - s alone, A would be a Toeplitz matrix, and multiplying by it a discrete
    convolution. Attention generalises convolutions."""
    T, x = 9, normal(9, 9, 4)

    def convolve(features, filter):
        """With zero padding at the edges."""
        return np.stack([np.convolve(feature, filter)[T - 1 : 2 * T - 1] for feature in features.T], axis=1)

    def off_toeplitz(A):
        return max(np.ptp(np.diag(A, d)) for d in range(1 - len(A), len(A)))

    bias = 2 * normal(10, 2 * T - 1)
    layer = plain_attention(4, positions="relative", max_distance=T - 1)
    for projection in (layer.query, layer.key):
        nn.init.zeros_(projection.weight)
    layer.relative_bias.data[0] = bias
    y, weights = layer(mg.tensor(x), need_weights=True)
    y, A = y.array, weights.array[0]
    totals = convolve(np.ones((T, 1)), np.exp(bias))  # what the softmax divides rows by
    convolved = max(require_equal(y * totals, convolve(x, np.exp(bias))), require_equal(off_toeplitz(A * totals), 0.0))
    divided = off_toeplitz(A)
    require(divided > 0.1, f"Toeplitz within {divided:.2g}, though rows are divided by totals that differ")

    return dict(convolution=convolved, off_toeplitz=divided)
