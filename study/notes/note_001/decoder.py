"""Note 001, "The Transformer Decoder": the block and multi-head attention."""
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.config import TransformerConfig
from models.transformer import Block
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, check_gradients, heads_of, influence, largest, matrices, misprint, normal, normalised, over_seeds,
    plain_attention, require_causal, require_equal, softmax, values,
)

claim = claims_of("001")

NOTES_BLOCK = TransformerConfig(  # masked attention, Add & Norm, feed-forward, Add & Norm
    vocabulary_size=16, context=12, layers=2, heads=2, width=16, placement="post", final_norm=False, activation="relu",
    mlp_ratio=5)


@claim("G1", "The Transformer Decoder", formula="Self-attention, Add & Norm, Feed-Forward, Add & Norm",
       ours='CausalTransformer(TransformerConfig(placement="post"))', code="models/transformer.py:CausalTransformer",
       measured="two blocks memorise 4 random texts of 13 tokens: the loss falls from 2.77 to 0.006 (0.006 to 0.007) "
                "nats in 300 steps of Adam at 0.005, 5 seeds")
def a_decoder_block_is_attention_and_a_feed_forward_network_with_add_and_norm():
    """A decoder is a stack of blocks: masked multi-head attention, Add & Norm, a feed-forward network, Add & Norm."""
    mg.manual_seed(0)
    block, x = Block(NOTES_BLOCK).double(), mg.tensor(normal(0, 1, 6, 16))
    z = normalised(x.array + block.attention(x, is_causal=True).array)
    difference = require_equal(block(x), normalised(z + block.mlp(mg.tensor(z)).array))
    require_causal(influence(block, x))

    return dict(difference=difference)


def centred_scores(weights: np.ndarray | Tensor) -> np.ndarray:
    """The scores that a softmax was given, up to a constant per row: each row's mean is 0."""
    logarithms = np.log(values(weights))
    return logarithms - logarithms.mean(axis=-1, keepdims=True)


@claim("A8", "Sequence-Stacked form of attention", formula="output = softmax(XQ (XK)^T) XV in R^(n x d)",
       ours='Attention(d, scale="none", output_projection="none")', code="study/notes/attention.py:Attention")
def attention_of_stacked_rows_is_two_matrix_products():
    """With the inputs stacked as rows of X, all query-key products are one matrix multiplication, and all weighted
    averages are another."""
    mg.manual_seed(0)
    X, layer = normal(0, 5, 8), plain_attention(8, value=True)
    (Q, K, V), expected = matrices(layer), heads_of(layer, X, scale=1)
    difference = max(require_equal(layer(mg.tensor(X)), expected),
                     require_equal(softmax(X @ Q @ (X @ K).T) @ X @ V, expected))
    error = check_gradients(layer, X)
    return dict(difference=difference, gradients=error)


@claim("E14", "Multi-headed attention", FALSE, formula="x_i^T Q^T K x_j, and X Q_l K_l^T X^T",
       ours='Attention(8, scale="none").query.weight, which is Q^T', code="study/notes/attention.py:Attention")
def two_conventions_for_the_same_matrices():
    """The score of words i and j is x_i^T Q^T K x_j, and all scores together are X Q K^T X^T."""
    mg.manual_seed(0)
    n, d, h = 4, 8, 2
    X, layer = normal(0, n, d), plain_attention(d, value=True)
    Q, K, _ = matrices(layer)
    ours, rows = centred_scores(layer(mg.tensor(X), need_weights=True)[1][0]), X @ Q @ K.T @ X.T
    literal, turned = (np.array([[x @ M @ y for y in X] for x in X]) for M in (Q.T @ K, Q @ K.T))
    narrow = [mg.tensor(normal(seed, d, d // h)) for seed in (1, 2)]
    return misprint([(ours, rows - rows.mean(axis=1, keepdims=True)), (rows, turned)], [(rows, literal)],
                    [lambda: mg.tensor(X) @ (narrow[0].mT @ narrow[1])])


def head_after_head(layer: Attention, x: Tensor) -> Tensor:
    """Multi-head attention of x (n, d) as a loop over its heads."""
    outputs, size = [], layer.key_size
    for head in range(layer.heads):
        rows = slice(head * size, (head + 1) * size)
        q, k, v = (x @ projection.weight[rows].mT for projection in (layer.query, layer.key, layer.value))
        outputs.append((q @ k.mT / math.sqrt(size)).softmax(-1) @ v)
    return layer.out(mg.cat(outputs, dim=-1))


@claim("A12", "Multi-headed attention", formula="XQ in R^(n x d) -> R^(n x h x d/h) -> R^(h x n x d/h)",
       ours="Attention(12, heads=3)", code="study/notes/attention.py:Attention")
def heads_are_a_batch_axis_after_reshape_and_transpose():
    """Each of h heads has Q, K, V of d x d/h, and their outputs are combined by Y, d x d. All heads are computed at
    once: XQ is reshaped to n x h x d/h and transposed to h x n x d/h, so that the head axis acts as a batch axis."""
    mg.manual_seed(0)
    n, d, h = 5, 12, 3
    layer = Attention(d, heads=h).double()
    x, upstream = mg.tensor(normal(0, n, d), requires_grad=True), mg.tensor(normal(1, n, d))
    at_once, one_by_one = layer(x), head_after_head(layer, x)
    difference = max(require_equal(y, one_by_one) for y in (at_once, layer(x, need_weights=True)[0]))
    wanted = [x, *layer.parameters()]
    gradients = [mg.grad((y * upstream).sum(), wanted) for y in (at_once, one_by_one)]
    gradient_difference = max(require_equal(a, b) for a, b in zip(*gradients))
    check_gradients(layer, x)

    parts = [mg.tensor(x.array @ matrix) for matrix in matrices(layer)]
    wrong = F.scaled_dot_product_attention(*(part.reshape(h, n, d // h) for part in parts)).transpose(0, 1)
    mistake = largest(layer.out(wrong.reshape(n, d)), at_once)
    require(mistake > 0.01, "a reshape to h x n x d/h without the transpose makes no difference")
    return dict(difference=difference, gradients=gradient_difference, without_transpose=mistake)


@claim("E25", "Multi-headed attention", FALSE, formula="output_l in R^(d/h)",
       ours='Attention(12, heads=3, output_projection="none")', code="study/notes/attention.py:Attention")
def a_heads_output_is_a_vector():
    """The output of a head, for all inputs X, is in R^(d/h)."""
    n, d, h = 5, 12, 3
    layer = Attention(d, heads=h, output_projection="none").double()
    X = normal(0, n, d)
    y = layer(mg.tensor(X)).array
    difference, shapes = require_equal(y, heads_of(layer, X)), {head.shape for head in np.split(y, h, axis=1)}
    require(shapes == {(n, d // h)}, f"heads give {shapes}")
    return dict(shape=[n, d // h], difference=difference)


@claim("E29", "Multi-headed attention", FALSE, formula="output = [output_1; ...; output_h] Y, where Y in R^(d x d)",
       ours="Attention(12, heads=3)", code="study/notes/attention.py:Attention")
def outputs_of_heads_are_stacked_like_words():
    """The outputs of the heads are combined as [output_1; ...; output_h] Y, in the notation that stacks words as the rows
    of X = [x_1; ...; x_n]."""
    mg.manual_seed(0)
    n, d, h = 5, 12, 3
    X, layer = normal(0, n, d), Attention(d, heads=h).double()
    outputs, Y = np.split(heads_of(layer, X), h, axis=1), layer.out.weight.mT
    return misprint([(layer(mg.tensor(X)), mg.tensor(np.hstack(outputs)) @ Y)],
                    refused=[lambda: mg.tensor(np.vstack(outputs)) @ Y])


@claim("C4", "Multi-headed attention", "true if multiply-adds are counted, and not the h n^2 exponentials",
       formula="Even though we compute h many attention heads, it's not really more costly",
       ours="Attention(16, heads=h)", code="study/notes/attention.py:Attention")
def more_heads_cost_no_more():
    """Even though h attention heads are computed, it is not really more costly: the matrices are the same size."""
    n, d = 10, 16
    x = mg.tensor(normal(0, 1, n, d), requires_grad=True)
    forward, total, parameters, exponentials = set(), set(), set(), []
    for h in (1, 2, 4, 8):
        layer = Attention(d, heads=h).double()
        with mg.count_flops() as count:
            layer(x).sum().backward()
        forward.add(count.forward_counts.total())
        total.add(count.total)
        parameters.add(sum(parameter.numel() for parameter in layer.parameters()))
        exponentials.append(layer(x, need_weights=True)[1].numel())
    expected = 4 * n * d * d + 2 * n * n * d
    require(forward == {expected} and len(total) == 1, f"multiply-adds forward {forward}, in all {total}")
    require(parameters == {4 * d * d}, f"parameters {parameters}")
    return dict(parameters=4 * d * d, multiply_adds=expected, exponentials=exponentials)


def jacobian_of_softmax(scores: np.ndarray) -> float:
    """The mean over rows of the norm of the diagonal of softmax's Jacobian, from our backward."""
    z = mg.tensor(scores, requires_grad=True)
    p = z.softmax(-1)
    diagonal = [mg.grad(p[:, i].sum(), z, retain_graph=True)[0].array[:, i] for i in range(scores.shape[1])]
    require_equal(np.stack(diagonal, axis=1), p.array * (1 - p.array))
    return float(np.linalg.norm(diagonal, axis=0).mean())


def scores_of(scale: str, d: int) -> np.ndarray:
    """The scores of 500 queries and 16 keys that are standard normal, d wide, (500, 16)."""
    layer = Attention(d, scale=scale, value=False, output_projection="none").double()
    for projection in (layer.query, layer.key):
        projection.weight.data[...] = np.eye(d)
    queries, keys = mg.randn(1, 500, d, dtype="float64"), mg.randn(1, 16, d, dtype="float64")
    return centred_scores(layer(queries, keys, need_weights=True)[1][0, 0])


@claim("A17", "Scaled Dot Product", formula="inputs to the softmax function can be large, making the gradients small",
       ours='Attention(d, scale="none" or "d_k")', code="study/notes/attention.py:Attention",
       also=("003: Scaled self-attention",))
def large_scores_make_gradients_of_softmax_small():
    """Scaled dot product attention aids in training. For a large dimensionality the dot products between vectors become
    large, and so do the inputs of the softmax, which makes the gradients small."""
    sizes = 4, 64, 256
    raw, divided = ([over_seeds(lambda seed, scale=scale, d=d: jacobian_of_softmax(scores_of(scale, d))) for d in sizes]
                    for scale in ("none", "d_k"))
    large, even = ([over_seeds(lambda seed, scale=scale, d=d: scores_of(scale, d).std()) for d in sizes]
                   for scale in ("none", "d_k"))
    require(raw[0].median > 1.5 * raw[1].median and raw[0].median > 3 * raw[2].median, f"as they are: {raw}")
    medians = [found.median for found in divided]
    require(max(medians) < 1.2 * min(medians), f"divided: {medians}")
    require(all(abs(found.median - 1) < 0.1 for found in even), f"deviations of divided scores: {even}")
    return dict(deviations=[found.median for found in large], divided=[found.median for found in even],
                sensitivity=[found.median for found in raw], sensitivity_when_divided=medians)


def scores_in_heads(layer: Attention, X: np.ndarray) -> np.ndarray:
    """X Q_l K_l^T X^T for each head, (h, n, n); each row's mean is 0."""
    Q, K, _ = (np.split(matrix, layer.heads, axis=1) for matrix in matrices(layer))
    scores = np.array([X @ q @ k.T @ X.T for q, k in zip(Q, K)])
    return scores - scores.mean(axis=-1, keepdims=True)


@claim("E28", "Scaled Dot Product", FALSE, formula="(nothing is printed)",
       ours='Attention(16, heads=h, scale="none")', code="study/notes/attention.py:Attention")
def the_formula_without_the_scale_is_missing():
    """Instead of the self-attention function seen so far (followed by an empty formula), scores are divided."""
    X, layers = normal(0, 6, 16), [Attention(16, heads=h, scale="none").double() for h in (1, 2, 4)]
    return misprint((centred_scores(layer(mg.tensor(X), need_weights=True)[1]), scores_in_heads(layer, X))
                    for layer in layers)


@claim("A15", "Scaled Dot Product", formula="output_l = softmax(X Q_l K_l^T X^T / sqrt(d/h)) X V_l",
       ours='Attention(16, heads=h, scale="d_k")', code="study/notes/attention.py:Attention",
       also=("003: Scaled self-attention",))
def scores_are_divided_by_the_root_of_the_head_size():
    """Attention scores are divided by sqrt(d/h), so that they do not become large just as a function of d/h."""
    mg.manual_seed(0)
    d, x, ratios, differences = 16, mg.tensor(normal(0, 6, 16)), [], []
    for h in (1, 2, 4):
        layer, by_width = (Attention(d, heads=h, scale=scale).double() for scale in ("d_k", "d_model"))
        by_width.load_state_dict(layer.state_dict())
        scores, of_width = (centred_scores(each(x, need_weights=True)[1]) for each in (layer, by_width))
        differences.append(require_equal(scores, scores_in_heads(layer, x.array) / math.sqrt(d / h)))
        require_equal(of_width, scores_in_heads(layer, x.array) / math.sqrt(d))
        packed = nn.MultiHeadAttention(d, h, bias=False).double()
        packed.in_proj_weight.data[...] = np.hstack(matrices(layer)).T
        shown = packed(x[None], need_weights=True, average_attn_weights=False)[1][0]
        require_equal(centred_scores(shown), scores)
        ratios.append(scores.std() / of_width.std())
    require(largest(np.array(ratios), np.sqrt([1, 2, 4])) < EXACT, f"scores are {ratios} times those divided by sqrt(d)")
    return dict(difference=max(differences), divided_by_root_of_d=ratios)
