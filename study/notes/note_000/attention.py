"""Note 000, "Attention" and "Self-Attention" with its boxes."""
import numpy as np

import minigrad as mg
import nn
from study.notes.claims import claims_of, require
from study.notes.helpers import (
    EXACT, attend, largest, normal, over_seeds, plain_attention, randn, require_equal, scrambled, size, states_of,
)

claim = claims_of("000")


@claim("A1", "Attention")
def attention_is_a_weighted_average():
    """Attention is just a weighted average, Y = A X, with non-negative weights that sum to 1 in each row. For
    autoregressive modelling A is causal: lower triangular.

    formula: Y = A X, sum_s A_ts = 1 for all t; causal: A_ts = 0 for all t < s
    here: Attention(6, causal=True)(x, need_weights=True)
    also in: 003: Attention coefficients; 004: Self-Attention
    """
    x, off = randn(7, 6, seed=1), 0.0
    for query_key in ("none", "shared", "separate"):
        for causal in (False, True):
            y, A = plain_attention(6, query_key=query_key, causal=causal)(x, need_weights=True)
            require(A.array.min() >= 0, f"{query_key}: a weight of {A.array.min()}")
            require(np.triu(A.array[0], 1).any() != causal, f"{query_key}, {causal}: is the future seen?")
            off = max(off, require_equal(A.sum(-1), 1.0), require_equal(y, A[0] @ x))
    return dict(off=off)


@claim("A2", "Self-Attention")
def similarity_of_tokens_needs_no_parameters():
    """The simplest attention weights are determined by the pairwise similarity of tokens: A_ts is proportional to
    exp(x_t . x_s).

    formula: A_ts = exp{x_t^T x_s} / sum_s' exp{x_t^T x_s'}
    here: Attention(D, query_key="none", value=False, output_projection=False, scale=1.0)
    also in: 002: Self-attention; 003: Self-attention; 004: Self-Attention
    """
    x = normal(2, 5, 4)
    attention = plain_attention(4, query_key="none")
    difference = require_equal(attention(mg.tensor(x)), attend(x, x, x))
    require(size(attention) == 0, f"{size(attention)} parameters")
    return dict(parameters=size(attention), difference=difference)


@claim("A24", "Self-Attention")
def plain_attention_depends_equally_on_all_dimensions():
    """With the similarity x_t . x_s attention depends equally on all D dimensions of the embedding, though some may be
    more relevant than others. A projection to a feature space allows for that.

    formula: A_ts = exp{x_t^T x_s} / sum_s' exp{x_t^T x_s'}: attention depends equally on all D dimensions
    here: Attention(D, query_key="none"), and query_key="shared", key_size=K
    also in: 003: Network parameters
    """
    x, (rotation, _) = normal(3, 5, 6), np.linalg.qr(normal(4, 6, 6))

    def change(layer, map):
        """Of the weights, if the dimensions are mixed."""
        return largest(*(layer(mg.tensor(tokens), need_weights=True)[1] for tokens in (x, x @ map)))

    plain = plain_attention(6, query_key="none")
    projected = plain_attention(6, query_key="shared", key_size=2)
    rotated = change(plain, rotation)
    stretched = change(plain, np.diag([3.0, 1, 1, 1, 1, 1]))
    of_projected = change(scrambled(projected), rotation)
    require(rotated < EXACT and stretched > 0.1 < of_projected, f"weights change by {rotated}, {stretched}, {of_projected}")
    return dict(rotated=rotated, rotated_and_projected=of_projected)


@claim("A3", "Self-Attention")
def one_projection_gives_a_symmetric_numerator():
    """Tokens are projected by one matrix U to K < D features before they are compared. Still, the numerator of the weight
    is symmetric in both tokens.

    formula: A_ts = exp{(U x_t)^T (U x_s)} / sum_s' exp{(U x_t)^T (U x_s')}, U in R^(K x D), K < D
    here: Attention(D, query_key="shared", key_size=K)
    also in: 002: Self-attention
    """
    x, differences = normal(0, 5, 8), []

    def asymmetry(seed):
        layer = scrambled(plain_attention(8, query_key="shared", key_size=4), seed=seed)
        projected = x @ layer.query.weight.array.T
        numerators = np.array([[np.exp(x_t @ x_s) for x_s in projected] for x_t in projected])
        require_equal(numerators / numerators.T, 1.0)
        weights = layer(mg.tensor(x), need_weights=True)[1][0]
        differences.append(require_equal(weights, numerators / numerators.sum(axis=1, keepdims=True)))
        return largest(weights, weights.T)

    asymmetries = over_seeds(asymmetry)
    require(asymmetries.median > 0.1, f"the weights are symmetric up to {asymmetries:.2g}")
    return dict(difference=max(differences), asymmetry=asymmetries)


@claim("A4", "Self-Attention")
def queries_and_keys_break_the_symmetry():
    """With queries U_q x_t and keys U_k x_s, token s can be relevant for updating t without the converse.

    formula: A_ts = exp{(U_q x_t)^T (U_k x_s)} / sum_s' exp{(U_q x_t)^T (U_k x_s')}, U_q, U_k in R^(K x D)
    here: Attention(D, query_key="separate", key_size=K)
    also in: 002: Self-attention
    """
    x = normal(3, 5, 6)
    layer = scrambled(plain_attention(6, key_size=3))
    q, k = (x @ projection.weight.array.T for projection in (layer.query, layer.key))
    difference = require_equal(layer(mg.tensor(x)), attend(q, k, x))
    separate, together = (largest(scores, scores.T) for scores in (q @ k.T, q @ q.T))
    require(separate > 0.1 and together < EXACT, f"scores asymmetric by {separate:.2g}, with U_q = U_k {together:.0e}")
    return dict(difference=difference, asymmetry=separate, with_equal_projections=together)


@claim("A5", "Causal attention", "true if the weights of the past do not underflow")
def zeroing_and_renormalising_is_masking():
    """To enforce causality, simply zero out the upper triangle of the attention matrix and renormalise the rows, whose
    sums then end at t.

    formula: A_ts = exp{(U_q x_t)^T (U_k x_s)} / sum_(s'=1)^t exp{(U_q x_t)^T (U_k x_s')} * I[t >= s]
    here: Attention(D)(x, need_weights=True)[1].tril(), renormalised, and Attention(D, causal=True)
    also in: 001: 3. Masking the future in self-attention
    """
    def both(x, **switches):
        """With a mask, and renormalised."""
        free, mask = (scrambled(plain_attention(x.shape[1], causal=causal, **switches)) for causal in (False, True))
        A = free(x, need_weights=True)[1][0].tril()
        return mask(x), A / A.sum(-1, keepdim=True) @ x

    difference = require_equal(*both(randn(6, 4), key_size=2))
    steep = mg.tensor(np.array([[1.0, 0.0], [1000.0, 0.0]]))  # for row 0, exp(1 - 1000) is 0 in floating point
    kept, lost = (y.array[0, 0] for y in both(steep, query_key="none"))
    require(kept == 1 and lost != 1, f"a score of 1000 in the future: {kept} and {lost}, where 1 is right")
    return dict(difference=difference, token_with_mask=kept, token_when_renormalised=lost)


@claim("G11", "Comparison to RNNs")
def causal_attention_reaches_any_past_token_directly():
    """An RNN propagates information about past tokens via a hidden state; with causal attention a transformer can
    directly attend to any one of the past tokens.

    formula: a transformer with causal attention can directly attend to any one of the past tokens
    here: Attention(D, causal=True), compared with nn.RNN(D, D)
    """
    T, x, copies = 6, np.eye(6), 0.0
    layer = plain_attention(T, causal=True)
    layer.key.weight.data[...] = x
    for distance in range(T):
        wanted = x[np.maximum(np.arange(T) - distance, 0)]  # the token that each one looks for
        layer.query.weight.data[...] = 100 * wanted.T
        y, A = layer(mg.tensor(x), need_weights=True)
        copies = max(copies, require_equal(y, wanted))
        require(largest(A[0].triu(1)) == 0, "a later token has a weight")

    rnn = nn.RNN(4, 4, batch_first=True).double()
    text = randn(1, T, 4)
    states = states_of(rnn)(text)
    at_once = require_equal(rnn(text[:, 3:], rnn(text[:, :3])[1])[0], states[:, 3:])
    forgotten = largest(rnn(text[:, 3:])[0], states[:, 3:])
    require(forgotten > 1e-3, f"without a state it goes on the same within {forgotten:.0e}")
    return dict(copies=copies, rnn_from_its_state=at_once, rnn_without_state=forgotten)


@claim("A20", "Connection to Convolutional Neural Networks (CNNs)")
def distance_only_attention_is_a_convolution():
    """If the weights depended on the distance t - s alone, A would be a Toeplitz matrix, and multiplying by it a discrete
    convolution. Attention generalises convolutions.

    formula: A_ts = a_(t-s)
    here: nn.MultiHeadAttention(D, 1, positions="relative"), with query and key zero
    also in: 002: Self-attention
    """
    T, x, filter = 9, normal(9, 9, 4), np.exp(2 * normal(10, 17))
    layer = nn.MultiHeadAttention(4, 1, positions="relative", max_distance=T - 1).double()
    nn.init.zeros_(layer.in_proj_weight)
    layer.relative_bias.data[0] = np.log(filter)

    def convolve(features):
        """With zero padding at the edges."""
        return np.stack([np.convolve(feature, filter)[T - 1 : 2 * T - 1] for feature in features.T], axis=1)

    def off_toeplitz(A):
        return max(np.ptp(np.diag(A, d)) for d in range(1 - T, T))

    A = layer(mg.tensor(x[None]), need_weights=True)[1].array[0]
    toeplitz = A * convolve(np.ones((T, 1)))  # times what the softmax divides rows by, which differs at the edges
    convolved = max(require_equal(toeplitz @ x, convolve(x)), require_equal(off_toeplitz(toeplitz), 0.0))
    require(off_toeplitz(A) > 0.1, f"Toeplitz within {off_toeplitz(A):.2g}, though rows are divided by other totals")
    return dict(convolution=convolved, off_toeplitz=off_toeplitz(A))
