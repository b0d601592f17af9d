"""Note 001, "The Transformer Decoder": the block and multi-head attention."""
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.config import TransformerConfig
from models.transformer import Block
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    Array, feed_forward, heads_of, influence, largest, layer_norm, matrices, mhsa, misprint, normal, over_seeds,
    plain_attention, randn, relu, require_causal, require_equal, scrambled, size, softmax, values,
)

claim = claims_of("001")

NOTES_BLOCK = TransformerConfig(  # masked attention, Add & Norm, feed-forward, Add & Norm
    vocabulary_size=16, context=12, layers=2, heads=2, width=16, placement="post", final_norm=False, activation="relu",
    mlp_ratio=5)


@claim("G1", "The Transformer Decoder")
def a_decoder_block_is_attention_and_a_feed_forward_network_with_add_and_norm():
    """A decoder is a stack of blocks: masked multi-head attention, Add & Norm, a feed-forward network, Add & Norm.

    formula: Self-attention, Add & Norm, Feed-Forward, Add & Norm
    here: CausalTransformer(TransformerConfig(placement="post"))
    measured: two blocks memorise 4 random texts of 13 tokens: the loss falls from 2.77 to 0.006 (0.006 to 0.007) nats
        in 300 steps of Adam at 0.005, 5 seeds
    """
    block, x = scrambled(Block(NOTES_BLOCK)), randn(1, 6, 16)
    z = layer_norm(block.ln_1, x.array[0] + mhsa(block.attention, x.array[0], is_causal=True))
    difference = require_equal(block(x)[0], layer_norm(block.ln_2, z + feed_forward(block.mlp, z, relu)))
    return dict(difference=difference, least_influence=require_causal(influence(block, x)))


def centred_scores(weights: Array) -> np.ndarray:
    """The scores that a softmax was given, up to a constant per row: each row's mean is 0."""
    logarithms = np.log(values(weights))
    return logarithms - logarithms.mean(axis=-1, keepdims=True)


@claim("A8", "Sequence-Stacked form of attention")
def attention_of_stacked_rows_is_two_matrix_products():
    """With the inputs stacked as rows of X, all query-key products are one matrix multiplication, and all weighted
    averages are another.

    formula: output = softmax(XQ (XK)^T) XV in R^(n x d)
    here: Attention(d, scale=1.0, output_projection=False)
    """
    X, layer = normal(0, 5, 8), plain_attention(8, value=True)
    Q, K, V = matrices(layer)
    stacked = softmax(X @ Q @ (X @ K).T) @ X @ V
    return dict(difference=max(require_equal(each, heads_of(layer, X)) for each in (layer(mg.tensor(X)), stacked)))


@claim("E14", "Multi-headed attention", FALSE)
def two_conventions_for_the_same_matrices():
    """The score of words i and j is x_i^T Q^T K x_j, and all scores together are X Q K^T X^T.

    formula: x_i^T Q^T K x_j, and X Q_l K_l^T X^T
    here: Attention(8, scale=1.0).query.weight, which is Q^T
    """
    n, d, h = 4, 8, 2
    X, layer = normal(0, n, d), plain_attention(d, value=True)
    Q, K, _ = matrices(layer)
    ours = centred_scores(layer(mg.tensor(X), need_weights=True)[1][0])
    rows = X @ Q @ K.T @ X.T
    literal, turned = (np.array([[x @ M @ y for y in X] for x in X]) for M in (Q.T @ K, Q @ K.T))
    narrow = [randn(d, d // h, seed=seed) for seed in (1, 2)]
    return misprint([(ours, rows - rows.mean(axis=1, keepdims=True)), (rows, turned)], [(rows, literal)],
                    [lambda: randn(n, d) @ (narrow[0].mT @ narrow[1])])


@claim("A12", "Multi-headed attention")
def heads_are_a_batch_axis_after_reshape_and_transpose():
    """Each of h heads has Q, K, V of d x d/h, and their outputs are combined by Y, d x d. All heads are computed at
    once: XQ is reshaped to n x h x d/h and transposed to h x n x d/h, so that the head axis acts as a batch axis.

    formula: XQ in R^(n x d) -> R^(n x h x d/h) -> R^(h x n x d/h)
    here: Attention(12, heads=3)
    """
    n, d, h, x = 5, 12, 3, normal(0, 5, 12)
    layer = Attention(d, heads=h).double()
    y = layer(mg.tensor(x))
    parts = [x @ matrix for matrix in matrices(layer)]
    heads = (part.reshape(n, h, d // h).swapaxes(0, 1) for part in parts)
    wrong = (part.reshape(h, n, d // h) for part in parts)

    def read_out(heads):
        """Of attention in h x n x d/h."""
        return layer.out(F.scaled_dot_product_attention(*map(mg.tensor, heads)).transpose(0, 1).reshape(n, d))

    one_by_one = require_equal(y, heads_of(layer, x) @ layer.out.weight.array.T)
    difference = require_equal(y, read_out(heads))
    mistake = largest(y, read_out(wrong))
    require(mistake > 0.01, "a reshape to h x n x d/h without the transpose makes no difference")
    return dict(difference=difference, one_by_one=one_by_one, without_transpose=mistake)


@claim("E25", "Multi-headed attention", FALSE)
def a_heads_output_is_a_vector():
    """The output of a head, for all inputs X, is in R^(d/h).

    formula: output_l in R^(d/h)
    here: Attention(12, heads=3, output_projection=False)
    """
    n, d, h, X = 5, 12, 3, normal(0, 5, 12)
    layer = Attention(d, heads=h, output_projection=False).double()
    y = layer(mg.tensor(X)).array
    shapes = {head.shape for head in np.split(y, h, axis=1)}
    require(shapes == {(n, d // h)}, f"heads give {shapes}")
    return dict(shape=[n, d // h], difference=require_equal(y, heads_of(layer, X)))


@claim("E29", "Multi-headed attention", FALSE)
def outputs_of_heads_are_stacked_like_words():
    """The outputs of the heads are combined as [output_1; ...; output_h] Y, in the notation that stacks words as the rows
    of X = [x_1; ...; x_n].

    formula: output = [output_1; ...; output_h] Y, where Y in R^(d x d)
    here: Attention(12, heads=3)
    """
    X, layer = normal(0, 5, 12), Attention(12, heads=3).double()
    outputs = np.split(heads_of(layer, X), 3, axis=1)
    Y = layer.out.weight.mT
    return misprint([(layer(mg.tensor(X)), mg.tensor(np.hstack(outputs)) @ Y)],
                    refused=[lambda: mg.tensor(np.vstack(outputs)) @ Y])


@claim("C4", "Multi-headed attention", "true if multiply-adds are counted, and not the h n^2 exponentials")
def more_heads_cost_no_more():
    """Even though h attention heads are computed, it is not really more costly: the matrices are the same size.

    formula: Even though we compute h many attention heads, it's not really more costly
    here: Attention(16, heads=h)
    """
    n, d, counts, exponentials = 10, 16, set(), []
    for h in (1, 2, 4, 8):
        layer = Attention(d, heads=h)
        with mg.count_flops() as count:
            _, weights = layer(mg.zeros(1, n, d), need_weights=True)
        counts.add((size(layer), count.total))
        exponentials.append(weights.numel())
    expected = 4 * d * d, 4 * n * d * d + 2 * n * n * d
    require(counts == {expected}, f"parameters and multiply-adds: {counts}")
    return dict(parameters=expected[0], multiply_adds=expected[1], exponentials=exponentials)


def random_scores(d: int, scale: float | None) -> np.ndarray:
    """The scores of 500 queries and 16 keys that are standard normal, d wide, (500, 16)."""
    layer = Attention(d, query_key="none", value=False, output_projection=False, scale=scale)
    return centred_scores(layer(*(mg.randn(n, d, dtype=mg.float64) for n in (500, 16)), need_weights=True)[1][0])


@claim("A17", "Scaled Dot Product")
def large_scores_make_gradients_of_softmax_small():
    """Scaled dot product attention aids in training. For a large dimensionality the dot products between vectors become
    large, and so do the inputs of the softmax, which makes the gradients small.

    formula: inputs to the softmax function can be large, making the gradients small
    here: Attention(d, scale=1.0), and by default 1 / sqrt(key_size)
    also in: 003: Scaled self-attention
    """
    def sensitivity(scores):
        """The mean norm of the diagonal of softmax's Jacobian, p (1 - p)."""
        p = softmax(scores)
        return np.linalg.norm(p * (1 - p), axis=1).mean()

    def measured(seed, scale, measure, d):
        return measure(random_scores(d, scale))

    (deviations, raw), (even, divided) = (
        [[over_seeds(measured, scale, measure, d).median for d in (4, 64, 256)] for measure in (np.std, sensitivity)]
        for scale in (1.0, None))
    require(raw[0] > 1.5 * raw[1] and raw[0] > 3 * raw[2], f"as they are: {raw}")
    require(max(divided) < 1.2 * min(divided), f"divided: {divided}")
    require_equal(np.array(even), 1.0, 0.1)
    return dict(deviations=deviations, divided=even, sensitivity=raw, sensitivity_when_divided=divided)


def scores_in_heads(layer: Attention, X: np.ndarray) -> np.ndarray:
    """X Q_l K_l^T X^T for each head, (h, n, n); each row's mean is 0."""
    Q, K, _ = (np.split(matrix, layer.heads, axis=1) for matrix in matrices(layer))
    scores = np.array([X @ q @ k.T @ X.T for q, k in zip(Q, K)])
    return scores - scores.mean(axis=-1, keepdims=True)


@claim("E28", "Scaled Dot Product", FALSE)
def the_formula_without_the_scale_is_missing():
    """Instead of the self-attention function seen so far (followed by an empty formula), scores are divided.

    formula: (nothing is printed)
    here: Attention(16, heads=h, scale=1.0)
    """
    X = normal(0, 6, 16)
    layers = [Attention(16, heads=h, scale=1.0).double() for h in (1, 2, 4)]
    return misprint((centred_scores(layer(mg.tensor(X), need_weights=True)[1]), scores_in_heads(layer, X))
                    for layer in layers)


@claim("A15", "Scaled Dot Product")
def scores_are_divided_by_the_root_of_the_head_size():
    """Attention scores are divided by sqrt(d/h), so that they do not become large just as a function of d/h.

    formula: output_l = softmax(X Q_l K_l^T X^T / sqrt(d/h)) X V_l
    here: Attention(16, heads=h)
    also in: 003: Scaled self-attention
    """
    d, X, differences, ratios = 16, normal(0, 6, 16), [], []
    for h in (1, 2, 4):
        layer = Attention(d, heads=h).double()
        packed = nn.MultiHeadAttention(d, h, bias=False).double()
        packed.in_proj_weight.data[...] = np.hstack(matrices(layer)).T
        scores = centred_scores(layer(mg.tensor(X), need_weights=True)[1])
        raw = scores_in_heads(layer, X)
        shown = packed(mg.tensor(X[None]), need_weights=True, average_attn_weights=False)[1][0]
        differences += [require_equal(each, raw / math.sqrt(d / h)) for each in (scores, centred_scores(shown))]
        ratios.append(scores.std() / raw.std() * math.sqrt(d))
    require_equal(np.array(ratios), np.sqrt([1, 2, 4]))
    return dict(difference=max(differences), divided_by_root_of_d=ratios)
