"""Note 001, "Barriers and solutions for self-attention as a building block"."""
import math

import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.encoder_decoder import Encoder
from models.transformer import MLP
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    heads_of, influence, largest, matrices, misprint, normal, randn, refusal, require_causal, require_equal, scrambled,
    size, softmax,
)

claim = claims_of("001")


@claim("P3", "Learned absolute position representations")
def learned_positions_end_where_their_table_ends():
    """Let all position vectors be parameters, one for each index. This is flexible, as each position can be fit to the
    data; but it cannot extrapolate beyond index n.

    formula: p in R^(d x n), each p_i a column of that matrix
    here: nn.PositionEncoding("learned", d, size=n)
    also in: 004: Transformers: Wrapup
    """
    encoding = nn.PositionEncoding("learned", 4, size=6).double()
    x = randn(4, 4)
    upstream = randn(4, 4, seed=1)
    y = encoding(x)
    y.backward(upstream)
    gradient = require_equal(encoding.weight.grad, np.vstack([upstream.array, np.zeros((2, 4))]))
    message = refusal(encoding, randn(7, 4))
    require("size 6" in message and "position 6" in message, f"7 tokens with 6 positions: {message!r}")
    encoder = Encoder(TransformerConfig(context=6, layers=1, heads=1, width=4)).double()
    refusal(encoder, randn(1, 7, 4))
    require_equal(encoder.embed(x[None]), x + encoder.position_embedding.weight[:4])
    return dict(difference=require_equal(y, x + encoding.weight[:4]), gradient=gradient)


@claim("E27", "Learned absolute position representations", "true if p is transposed")
def positions_are_columns_and_tokens_are_rows():
    """The position vectors are the columns of a d x n matrix, and are added to the inputs, which elsewhere are the rows
    of an n x d matrix.

    formula: p in R^(d x n), x̄_i = x_i + p_i; X in R^(n x d)
    here: nn.PositionEncoding(...).weight, which is n x d
    """
    X = randn(5, 3)
    encoding = nn.PositionEncoding("learned", 3, size=5).double()
    p = encoding.weight.mT.detach()
    one_by_one = np.array([X.array[i] + p.array[:, i] for i in range(5)])
    return misprint([(encoding(X), one_by_one), (X + p.mT, one_by_one)], refused=[lambda: X + p])


def stacked_attention(X: np.ndarray) -> tuple:
    """Two layers without read-out; their output for X; their weights A, and their matrices V."""
    layers = [scrambled(Attention(X.shape[1], output_projection=False), seed=seed) for seed in range(2)]
    y, weights = mg.tensor(X), []
    for layer in layers:
        y, A = layer(y, need_weights=True)
        weights.append(A.array[0])
    return layers, y.array, weights, [matrices(layer)[2] for layer in layers]


@claim("M3", "2. Adding non-linearities", "true if the weights are held fixed")
def two_attention_layers_without_nonlinearity_are_one():
    """Attention has no elementwise nonlinearities: two stacked layers look a lot like a single one, a linear combination
    of a linear transformation of the input.

    formula: o_i = sum_k alpha*_ij V* x_k
    here: Attention(8, output_projection=False), twice
    also in: 003: Transformer layers
    """
    X, moved = normal(0, 6, 8), normal(1, 6, 8)
    (first, second), y, (A_1, A_2), (V_1, V_2) = stacked_attention(X)
    frozen = require_equal(y, (A_2 @ A_1) @ X @ (V_1 @ V_2))
    live = largest(second(first(mg.tensor(moved))), (A_2 @ A_1) @ moved @ (V_1 @ V_2))
    twice = largest(first(mg.tensor(2 * X)), 2 * first(mg.tensor(X)))
    require(min(live, twice) > 0.1, f"the function is nearly linear: {live:.0e}, {twice:.0e}")
    return dict(of_fixed_weights=frozen, of_another_x=live, doubled=twice)


@claim("E5", "2. Adding non-linearities", FALSE)
def stacked_weights_are_a_product_with_sums_of_columns():
    """Two stacked layers have the weights alpha*_ij, which are alpha_jk times the sum of alpha_ij over i.

    formula: sum_k (alpha_jk sum_i alpha_ij) V^(2) V^(1) x_k = sum_k alpha*_ij V* x_k
    here: Attention(8, output_projection=False), twice
    """
    X = normal(0, 6, 8)
    _, y, (A_1, A_2), (V_1, V_2) = stacked_attention(X)
    as_printed = A_1 * A_2.sum(axis=0)[:, None]  # row j, which the left side does not have
    return misprint([(y, A_2 @ A_1 @ X @ V_1 @ V_2)],
                    [(y, as_printed @ X @ V_1 @ V_2), (as_printed.sum(axis=1), 1.0)], least=0.01)


@claim("M2", "2. Adding non-linearities")
def the_feed_forward_network_is_two_layers_with_a_wide_relu_between():
    """A feed-forward network is applied to each token independently. Its hidden layer is much wider than the model, often
    5 d.

    formula: h_FF = W_2 ReLU(W_1 h_self-attention + b_1) + b_2
    here: MLP(TransformerConfig(activation="relu", mlp_ratio=5))
    """
    d, tokens, counts, differences = 4, normal(0, 3, 4), [], []
    for ratio in (5, 4):
        mlp = MLP(TransformerConfig(width=d, heads=1, activation="relu", mlp_ratio=ratio)).double()
        W_1, b_1, W_2, b_2 = (parameter.array for parameter in mlp.parameters())
        expected = np.array([W_2 @ np.maximum(W_1 @ h + b_1, 0) + b_2 for h in tokens])
        differences.append(require_equal(mlp(mg.tensor(tokens)), expected))
        counts.append(size(mlp))
        require(counts[-1] == 2 * ratio * d * d + ratio * d + d, f"there are {counts} parameters")
    return dict(difference=max(differences), parameters=counts[0], of_attention=size(Attention(d)))


@claim("E6", "2. Adding non-linearities", FALSE)
def both_matrices_of_the_feed_forward_network_have_the_same_shape():
    """W_1 and W_2 of the feed-forward network are both of shape 5d x d.

    formula: W_1 in R^(5d x d), W_2 in R^(5d x d)
    here: expand.weight and project.weight of MLP(config)
    """
    d, h = 4, randn(4)
    mlp = MLP(TransformerConfig(width=d, heads=1, activation="relu", mlp_ratio=5)).double()
    inner, W_2 = mlp.expand(h), mlp.project.weight
    require(mlp.expand.weight.shape == (5 * d, d) and W_2.shape == (d, 5 * d), "the shapes differ")
    return misprint([(mlp(h), W_2 @ inner + mlp.project.bias)], refused=[lambda: randn(5 * d, d) @ inner])


@claim("A34", "3. Masking the future in self-attention", "true if keys and values are meant")
def keys_of_the_past_only_can_be_given_at_each_step():
    """At every timestep the set of keys and queries could be changed to include only past words; that is
    inefficient.

    formula: change the set of keys and queries to include only past words (Inefficient !!!)
    here: Attention(D)(x[:, t : t + 1], x[:, : t + 1]) for each t
    """
    n, x, (layer, masked) = 32, randn(1, 32, 16), (
        scrambled(Attention(16, heads=2, causal=causal)) for causal in (False, True))
    with mg.count_flops() as at_once:
        expected = masked(x)
    with mg.count_flops() as last_only:
        rows = mg.cat([layer(x[:, t : t + 1], x[:, : t + 1]) for t in range(n)], dim=1)
    with mg.count_flops() as anew:
        for t in range(n):
            layer(x[:, : t + 1])
    difference = require_equal(rows, expected)
    ratios = [count.total / at_once.total for count in (last_only, anew)]
    require(1 < ratios[0] < ratios[1], f"the multiply-adds are {ratios} times those with a mask")
    return dict(difference=difference, multiply_adds=ratios)


@claim("E7", "3. Masking the future in self-attention", FALSE)
def scores_of_zero_hide_the_future():
    """Attention to future words is masked out by setting attention scores to zero.

    formula: e_ij = -inf for j > i
    here: Attention(8, causal=True)
    """
    x = normal(0, 6, 8)
    layer = Attention(8, causal=True).double()
    past = np.tri(6)
    Q, K, _ = matrices(layer)
    scores = (x @ Q) @ (x @ K).T / math.sqrt(8)
    literal = softmax(scores * past)
    weights = layer(mg.tensor(x), need_weights=True)[1][0].array
    of_the_future = [each[past == 0].sum() / 6 for each in (literal, weights)]
    require(of_the_future[0] > 0.1 and of_the_future[1] == 0, f"the future has {of_the_future} of the weight")
    return misprint([(weights, softmax(np.where(past, scores, -math.inf)))], [(weights, literal)]) | dict(
        weight_of_the_future=of_the_future)


@claim("A6", "3. Masking the future in self-attention")
def scores_of_minus_infinity_hide_the_future():
    """To parallelise, attention to future words is masked out: their scores are set to minus infinity.

    formula: e_ij = q_i^T k_j if j <= i, -inf if j > i
    here: Attention(8, heads=2, causal=True)
    """
    x = normal(0, 6, 8)
    layer = scrambled(Attention(8, heads=2, causal=True))
    least = require_causal(influence(layer, mg.tensor(x[None])))
    return dict(difference=require_equal(layer(mg.tensor(x)), heads_of(layer, x) @ layer.out.weight.array.T),
                least_influence_of_the_past=least)


