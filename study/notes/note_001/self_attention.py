"""Note 001, "Barriers and solutions for self-attention as a building block"."""
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.encoder_decoder import Encoder
from models.config import TransformerConfig
from models.transformer import MLP, CausalTransformer
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    check_gradients, heads_of, influence, largest, matrices, misprint, normal, refusal, require_causal, require_equal,
    softmax,
)

claim = claims_of("001")


@claim("P3", "Learned absolute position representations", formula="p in R^(d x n), each p_i a column of that matrix",
       ours='nn.PositionEncoding("learned", d, size=n)', code="nn/position.py:PositionEncoding",
       also=("004: Transformers: Wrapup",))
def learned_positions_end_where_their_table_ends():
    """Let all position vectors be parameters, one for each index. This is flexible, as each position can be fit to the
    data; but it cannot extrapolate beyond index n."""
    mg.manual_seed(0)
    encoding = nn.PositionEncoding("learned", 4, size=6).double()
    x = normal(0, 2, 4, 4)
    difference = require_equal(encoding(mg.tensor(x)), x + encoding.weight.array[:4])
    check_gradients(encoding, x)
    (encoding(mg.tensor(x)) * mg.tensor(normal(1, 2, 4, 4))).sum().backward()
    gradient = encoding.weight.grad.array
    require(gradient[:4].all() and not gradient[4:].any(), "the gradient is not on the 4 rows that were used")
    message = refusal(encoding, mg.tensor(normal(0, 7, 4)))
    require("size 6" in message and "position 6" in message, f"7 tokens with 6 positions: {message!r}")
    config = TransformerConfig(vocabulary_size=5, context=6, layers=1, heads=1, width=4)
    model, encoder = CausalTransformer(config), Encoder(config).double()
    require("6 (the model's context)" in refusal(model, mg.zeros(1, 7, dtype=mg.int64)), "a model takes 7 tokens")
    require_equal(encoder.embed(mg.tensor(x)), x + encoder.position_embedding.weight.array[:4])
    return dict(difference=difference)


@claim("E27", "Learned absolute position representations", "true if p is transposed",
       formula="p in R^(d x n), x̄_i = x_i + p_i; X in R^(n x d)",
       ours="nn.PositionEncoding(...).weight, which is n x d", code="nn/position.py:PositionEncoding")
def positions_are_columns_and_tokens_are_rows():
    """The position vectors are the columns of a d x n matrix, and are added to the inputs, which elsewhere are the rows
    of an n x d matrix."""
    n, d = 5, 3
    X, encoding = mg.tensor(normal(0, n, d)), nn.PositionEncoding("learned", d, size=n).double()
    encoding.weight.data[...] = normal(1, n, d)
    p = encoding.weight.mT.detach()
    one_by_one = np.array([X.array[i] + p.array[:, i] for i in range(n)])
    return misprint([(encoding(X), one_by_one), (X + p.mT, one_by_one)], refused=[lambda: X + p])


def stacked_attention(X: np.ndarray) -> tuple:
    """Two layers without read-out; their output for X; their weights A, and their matrices V."""
    mg.manual_seed(0)
    layers = [Attention(X.shape[1], output_projection="none").double() for _ in range(2)]
    y, weights = mg.tensor(X), []
    for layer in layers:
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.6)  # otherwise the second layer's weights are nearly equal
        y, A = layer(y, need_weights=True)
        weights.append(A.array[0])
    return layers, y.array, weights, [matrices(layer)[2] for layer in layers]


@claim("M3", "2. Adding non-linearities", "true if the weights are held fixed",
       formula="o_i = sum_k alpha*_ij V* x_k", ours='Attention(8, output_projection="none"), twice',
       code="study/notes/attention.py:Attention", also=("003: Transformer layers",))
def two_attention_layers_without_nonlinearity_are_one():
    """Attention has no elementwise nonlinearities: two stacked layers look a lot like a single one, a linear combination
    of a linear transformation of the input."""
    X, moved = normal(0, 6, 8), normal(1, 6, 8)
    (first, second), y, (A_1, A_2), (V_1, V_2) = stacked_attention(X)
    frozen = require_equal(y, (A_2 @ A_1) @ X @ (V_1 @ V_2))
    live = largest(second(first(mg.tensor(moved))), (A_2 @ A_1) @ moved @ (V_1 @ V_2))
    twice = largest(first(mg.tensor(2 * X)), 2 * first(mg.tensor(X)))
    require(min(live, twice) > 0.1, f"the function is nearly linear: {live:.0e}, {twice:.0e}")
    return dict(of_fixed_weights=frozen, of_another_x=live, doubled=twice)


@claim("E5", "2. Adding non-linearities", FALSE,
       formula="sum_k (alpha_jk sum_i alpha_ij) V^(2) V^(1) x_k = sum_k alpha*_ij V* x_k",
       ours='Attention(8, output_projection="none"), twice', code="study/notes/attention.py:Attention")
def stacked_weights_are_a_product_with_sums_of_columns():
    """Two stacked layers have the weights alpha*_ij, which are alpha_jk times the sum of alpha_ij over i."""
    X = normal(0, 6, 8)
    _, y, (A_1, A_2), (V_1, V_2) = stacked_attention(X)
    as_printed = A_1 * A_2.sum(axis=0)[:, None]  # row j, which the left side does not have
    return misprint([(y, A_2 @ A_1 @ X @ V_1 @ V_2)],
                    [(y, as_printed @ X @ V_1 @ V_2), (as_printed.sum(axis=1), 1.0)], least=0.01)


@claim("M2", "2. Adding non-linearities", formula="h_FF = W_2 ReLU(W_1 h_self-attention + b_1) + b_2",
       ours='MLP(TransformerConfig(activation="relu", mlp_ratio=5))', code="models/transformer.py:MLP")
def the_feed_forward_network_is_two_layers_with_a_wide_relu_between():
    """A feed-forward network is applied to each token independently. Its hidden layer is much wider than the model, often
    5 d."""
    mg.manual_seed(0)
    d, counts, differences = 4, {}, []
    for ratio in (5, 4):
        mlp = MLP(TransformerConfig(width=d, heads=1, activation="relu", mlp_ratio=ratio)).double()
        W_1, b_1, W_2, b_2 = (parameter.array for parameter in mlp.parameters())
        tokens = normal(0, 200, d)
        inner = tokens @ W_1.T + b_1
        h = tokens[np.abs(inner).min(axis=1) > 0.02][:3]  # so that differences meet no kink
        expected = np.array([W_2 @ np.maximum(W_1 @ token + b_1, 0) + b_2 for token in h])
        differences.append(require_equal(mlp(mg.tensor(h)), expected))
        check_gradients(mlp, h)
        require_equal(mlp(mg.tensor(h[::-1].copy())), expected[::-1])
        counts[ratio] = sum(parameter.numel() for parameter in mlp.parameters())
        require(counts[ratio] == 2 * ratio * d * d + ratio * d + d, f"there are {counts[ratio]} parameters")
    attention = sum(parameter.numel() for parameter in Attention(d).parameters())
    return dict(difference=max(differences), parameters=counts[5], of_attention=attention)


@claim("E6", "2. Adding non-linearities", FALSE, formula="W_1 in R^(5d x d), W_2 in R^(5d x d)",
       ours="mlp.expand.weight, mlp.project.weight", code="models/transformer.py:MLP")
def both_matrices_of_the_feed_forward_network_have_the_same_shape():
    """W_1 and W_2 of the feed-forward network are both of shape 5d x d."""
    d, h = 4, mg.tensor(normal(0, 4))
    mlp = MLP(TransformerConfig(width=d, heads=1, activation="relu", mlp_ratio=5)).double()
    inner, W_2 = mlp.expand(h), mlp.project.weight
    require(mlp.expand.weight.shape == (5 * d, d) and W_2.shape == (d, 5 * d), "the shapes differ")
    return misprint([(mlp(h), W_2 @ inner + mlp.project.bias)], refused=[lambda: mg.tensor(normal(1, 5 * d, d)) @ inner])


@claim("A34", "3. Masking the future in self-attention", "true if keys and values are meant",
       formula="change the set of keys and queries to include only past words (Inefficient !!!)",
       ours="layer(x[:, t : t + 1], x[:, : t + 1]) for each t", code="study/notes/attention.py:Attention")
def keys_of_the_past_only_can_be_given_at_each_step():
    """At every timestep the set of keys and queries could be changed to include only past words; that is
    inefficient."""
    mg.manual_seed(0)
    n, d = 32, 16
    x, layer, masked = mg.tensor(normal(0, 1, n, d)), Attention(d, heads=2).double(), Attention(
        d, heads=2, causal="mask").double()
    masked.load_state_dict(layer.state_dict())
    with mg.count_flops() as at_once:
        expected = masked(x)
    with mg.count_flops() as last_only:
        rows = mg.cat([layer(x[:, t : t + 1], x[:, : t + 1]) for t in range(n)], dim=1)
    with mg.count_flops() as anew:
        for t in range(n):
            layer(x[:, : t + 1])
    difference = require_equal(rows, expected)
    require(largest(layer(x), expected) > 0.01, "the mask makes no difference")
    refusal(lambda: F.scaled_dot_product_attention(x[:, 3:4], x[:, :4], x))
    ratios = [count.forward_counts.total() / at_once.forward_counts.total() for count in (last_only, anew)]
    require(1 < ratios[0] < ratios[1], f"the multiply-adds are {ratios} times those with a mask")
    return dict(difference=difference, multiply_adds=ratios)


@claim("E7", "3. Masking the future in self-attention", FALSE, formula="e_ij = -inf for j > i",
       ours='Attention(8, causal="mask")', code="study/notes/attention.py:Attention")
def scores_of_zero_hide_the_future():
    """Attention to future words is masked out by setting attention scores to zero."""
    mg.manual_seed(0)
    T, x = 6, normal(0, 6, 8)
    layer = Attention(8, causal="mask").double()
    Q, K, _ = matrices(layer)
    scores, past = (x @ Q) @ (x @ K).T / math.sqrt(8), np.tri(T)
    literal, weights = softmax(scores * past), layer(mg.tensor(x), need_weights=True)[1][0].array
    of_the_future = [weights[past == 0].sum() / T for weights in (literal, weights)]
    require(of_the_future[0] > 0.1 and of_the_future[1] == 0, f"the future has {of_the_future} of the weight")
    return misprint([(weights, softmax(np.where(past, scores, -math.inf)))], [(weights, literal)]) | dict(
        weight_of_the_future=of_the_future)


@claim("A6", "3. Masking the future in self-attention", formula="e_ij = q_i^T k_j if j <= i, -inf if j > i",
       ours='Attention(8, heads=2, causal="mask")', code="study/notes/attention.py:Attention")
def scores_of_minus_infinity_hide_the_future():
    """To parallelise, attention to future words is masked out: their scores are set to minus infinity."""
    mg.manual_seed(0)
    x, masked = normal(0, 6, 8), Attention(8, heads=2, causal="mask").double()
    difference = max(require_equal(y, heads_of(masked, x, is_causal=True) @ masked.out.weight.array.T)
                     for y in (masked(mg.tensor(x)), masked(mg.tensor(x), need_weights=True)[0]))
    require_causal(influence(masked, x[None]))
    require_rows_without_keys_are_finite()
    return dict(difference=difference)


def require_rows_without_keys_are_finite() -> None:
    """Queries that may see no key: no NaN, neither forward nor backward."""
    q, k, v = (mg.tensor(normal(seed, 1, 2, 4, 8), requires_grad=True) for seed in range(3))
    sees = np.tri(4, dtype=bool)
    sees[2] = False
    out = F.scaled_dot_product_attention(q, k, v, mg.tensor(sees))
    out.square().sum().backward()
    require(not out.array[:, :, 2].any() and np.isfinite(out.array).all(), "the row without keys is not 0")
    require(all(np.isfinite(part.grad.array).all() for part in (q, k, v)), "a gradient of the function is not finite")
    layer = nn.MultiHeadAttention(8, 2).double()
    x = mg.tensor(normal(3, 2, 4, 8), requires_grad=True)
    padding = mg.tensor(np.array([[False, False, True, True], [True] * 4]))
    for need_weights in (False, True):
        result = layer(x, key_padding_mask=padding, need_weights=need_weights, is_causal=True)
        y = result[0] if need_weights else result
        y.square().sum().backward()
        require(np.isfinite(y.array).all(), "a row without keys is not finite in MultiHeadAttention")
        require_equal(y[1], np.broadcast_to(layer.out_proj.bias.array, (4, 8)))
    gradients = [x.grad, *(parameter.grad for parameter in layer.parameters())]
    require(all(np.isfinite(gradient.array).all() for gradient in gradients), "a gradient of the layer is not finite")
