"""Note 002, an introduction: tokens are the columns of X (D, N), and attention is Y = X A."""
import numpy as np

import minigrad as mg
import nn
from models.architectures import make_model
from models.config import TransformerConfig
from models.tasks import TASKS
from models.transformer import MLP
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, apart, largest, layer_norm, make_block, misprint, normal, plain_attention, randn, require_block, require_equal,
    scrambled, silence, softmax,
)

claim = claims_of("002")

N, D, K = 5, 8, 4  # tokens, features, features after a projection
MAKES_TOKENS = "encoder.token_embedding", "make_tokens", "head"  # how names of parameters begin that only one task has


def projecting_attention(query_key: str = "separate", seed: int = 0, **switches) -> Attention:
    """Attention as in the note, with scores that are not small, but not so large that one key gets all the weight."""
    return scrambled(plain_attention(D, query_key=query_key, **{"key_size": K, **switches}), 0.6, seed)


@claim("G10", "Modelling with tokens")
def one_architecture_learns_words_and_images():
    """Transformers were made for words, but the approach extends to images and much else: once data have been converted to
    tokens, a transformer can be applied in roughly the same way.

    formula: One architecture, many applications
    here: make_model(TASKS["sentiment" or "stripes"], "encoder", config), minigrad train --task stripes
    also in: 000: Positional Encodings
    measured: right, with attention and without: of words with and without "not" 100% and 51% (48% to 53%), of stripes
        in 16 patches 100% and 86% (84% to 87%); 200 and 150 steps of AdamW at 0.005, 5 seeds
    """
    config = TransformerConfig(context=16, layers=1, heads=2, width=8)
    shapes = []
    for task in ("sentiment", "stripes"):
        model = make_model(TASKS[task], "encoder", config, seed=0)
        shapes.append({name: parameter.shape for name, parameter in model.named_parameters()
                       if not name.startswith(MAKES_TOKENS)})
    words, images = shapes
    require(words == images, f"words {words}, images {images}")
    return dict(parameters_of_the_same_shapes=len(words))


@claim("L2", "Self-attention")
def columns_are_rows_transposed():
    """Tokens are the columns of a D x N array, and attention multiplies from the right, Y = X A, by an N x N array whose
    columns sum to one.

    formula: y_n = sum_n' x_n' A_n',n, that is Y^(m) = X^(m-1) A^(m), with sum_n' A_n',n = 1
    here: Attention(D)(X.mT).mT
    """
    X, layer = normal(0, D, N), projecting_attention()
    Y, A = (y.mT for y in layer(mg.tensor(X).mT, need_weights=True))
    U_q, U_k = layer.query.weight.array, layer.key.weight.array
    e = np.array([[np.exp((U_k @ X[:, i]) @ (U_q @ X[:, j])) for j in range(N)] for i in range(N)])
    expected = e / e.sum(axis=0)
    return dict(weights=require_equal(A[0], expected), output=require_equal(Y, X @ expected),
                sums=require_equal(A.array[0].sum(axis=0), 1.0))


@claim("A25", "Self-attention")
def attention_weights_are_adaptive():
    """Attention weights are computed from the input itself. Convolutional networks also use weighted sums, but their
    weights are fixed and shared by all inputs.

    formula: attention weights are adaptive ...; in CNNs they are fixed and shared across all inputs
    here: Attention(D), nn.MultiHeadAttention(D, 1, positions="relative") with query and key zero
    also in: 000: Connection to Convolutional Neural Networks (CNNs); 004: Self-Attention
    """
    adaptive = projecting_attention()
    fixed = nn.MultiHeadAttention(D, 1, bias=False, positions="relative").double()
    nn.init.zeros_(fixed.in_proj_weight[: 2 * D])  # of queries and keys
    nn.init.normal_(fixed.relative_bias)
    changes, bent = [], []
    x, z = (randn(1, N, D, seed=seed) for seed in (0, 1))
    for layer in (adaptive, fixed):
        (first, A), (second, B), (of_sum, _) = (layer(tokens, need_weights=True) for tokens in (x, z, x + z))
        changes.append(largest(A, B))
        bent.append(largest(of_sum, first + second))
    require(min(changes[0], bent[0]) > 0.1 and max(changes[1], bent[1]) < EXACT,
            f"weights change by {changes}, f(X + Z) is f(X) + f(Z) within {bent}")
    return dict(adaptive_weights_change=changes[0], fixed_weights_change=changes[1], linear_if_fixed=bent[1],
                linear_if_adaptive=bent[0])


@claim("E2", "Self-attention", FALSE)
def the_printed_sum_normalises_columns():
    """Similarities are exponentiated and divided by their sum over the second token, which normalises each column of
    A.

    formula: A_ij = exp(x_i^T x_j^T) / sum_n' exp(x_i^T x_n'^T)
    here: Attention(D)(X.mT).mT: sum_n' exp(x_n'^T x_j)
    """
    X, layer = randn(D, N), projecting_attention()
    logits = X.T @ layer.key.weight.T @ layer.query.weight @ X  # of keys and queries
    printed, mended = logits.softmax(1), logits.softmax(0)
    Y, A = (y.mT for y in layer(X.mT, need_weights=True))
    return misprint([(mended, A[0]), (X @ mended, Y), (mended.sum(0), 1.0)], [(X @ printed, Y), (printed.sum(0), 1.0)])


@claim("A26", "Self-attention")
def a_small_projection_leaves_components_out():
    """Tokens are compared after a linear map U. If K < D, it projects out some of their components, and compares them in a
    lower-dimensional space.

    formula: A_ij = exp(x_i^T U^T U x_j^T) / sum_n' exp(x_i^T U^T U x_n'^T), U in R^(K x D)
    here: Attention(D, query_key="shared", key_size=K)
    also in: 000: Self-Attention
    """
    x = normal(0, N, D)
    small = projecting_attention("shared")
    square = projecting_attention("shared", key_size=D)
    direction = np.linalg.svd(small.query.weight.array)[2][-1]  # which U maps to 0, as it has fewer rows than columns
    moved = mg.tensor(x + np.outer(normal(1, N), direction))
    changes = [largest(*(layer(tokens, need_weights=True)[1] for tokens in (mg.tensor(x), moved)))
               for layer in (small, square)]
    require(changes[0] < EXACT and changes[1] > 0.01, f"the weights change by {changes}")
    return dict(projected_out=changes[0], with_a_square_matrix=changes[1])


@claim("E1", "Self-attention", FALSE)
def one_projection_makes_attention_symmetric():
    """With the same map U for both tokens the attention matrix is symmetric: any two tokens attend to each other with
    equal strengths. Two maps, U_k and U_q, address this.

    formula: A_ij = exp(x_i^T U^T U x_j^T) / sum_n' exp(x_i^T U^T U x_n'^T)
    here: Attention(D, query_key="shared", key_size=K)
    """
    x = randn(N, D)

    def asymmetry(query_key, seed):
        """Of the logits, and of the weights that they give."""
        layer = projecting_attention(query_key, seed=seed)
        logits = layer.query(x) @ layer.key(x).T
        weights = layer(x, need_weights=True)[1][0]
        require_equal(weights, softmax(logits.array))
        return largest(logits, logits.T), largest(weights, weights.T)

    (logits, weights), (separate, _) = (
        zip(*(asymmetry(query_key, seed) for seed in range(5))) for query_key in ("shared", "separate"))
    require(max(logits) < EXACT, f"the logits of one projection are asymmetric by {max(logits):.0e}")
    require(min(weights) > 0.01, f"the weights are symmetric within {min(weights):.0e}")
    require(min(separate) > 0.1, f"the logits of two projections are symmetric within {min(separate):.0e}")
    return dict(logits=max(logits), weights=weights, logits_of_two_projections=min(separate))


@claim("A27", "Self-attention")
def self_attention_generalises_to_cross_attention():
    """Self-attention can be generalised to attention between different sequences, as for joint modelling of text and
    images: cross-attention.

    formula: attention between different sequences ... cross-attention, and we defer its discussion for later
    here: Attention(D, memory_width=D_memory)(X.mT, memory.mT).mT
    """
    text = normal(0, D, N)
    image = normal(1, 6, 9)
    layer = projecting_attention(memory_width=6)
    Y, A = (y.mT for y in layer(mg.tensor(text).mT, mg.tensor(image).mT, need_weights=True))
    expected = softmax((layer.query.weight.array @ text).T @ (layer.key.weight.array @ image)).T
    own, x = projecting_attention(), mg.tensor(text).mT
    return dict(weights=require_equal(A[0], expected), output=require_equal(Y, image @ expected),
                self_attention=require_equal(own(x, x), own(x)))


@claim("E12", "Self-attention", FALSE)
def the_transposes_and_superscripts():
    """The similarity is a product of both tokens transposed; layer m is given X^(m) in the text, and X^(m-1) in the
    formula; the MLP's result has its index in the superscript.

    formula: exp(x_i^T x_j^T); X^(m) = (x_1, ..., x_N^(m)) given; x^(m)_n with n within the superscript
    here: exp(x_i^T x_j); X^(m-1); x_n^(m) = MLP(y_n^(m))
    also in: 002: Multi-layer perceptron
    """
    X = randn(D, N)
    layer = plain_attention(D, query_key="none")
    U = randn(K, D)
    x_i, x_j = X[:, 1:2], X[:, 2:3]
    mlp = MLP(TransformerConfig(heads=1, width=D)).double()
    Y, A = (y.mT for y in layer(X.mT, need_weights=True))
    expected = np.exp(X.array.T @ X.array)
    of_all = mlp(Y.T).T
    token_by_token = np.stack([mlp(Y[:, n]).array for n in range(N)], axis=1)
    return misprint([(A[0], expected / expected.sum(axis=0)), (Y, X @ A[0]), (of_all, token_by_token)],
                    [(layer(of_all.mT).mT, Y)], [lambda: x_i.T @ x_j.T, lambda: x_i.T @ U.T @ U @ x_j.T])


@claim("E16", "Multi-head self-attention", FALSE)
def the_description_is_self_contained():
    """The overview includes a self-contained mathematical description of the architecture, and a concise
    implementation.

    formula: a self-contained mathematical description ..., and a concise implementation; but of several heads only: In
        order to increase the capacity of the self-attention layer
    here: TransformerConfig(heads=H): note 000 has the formula, A10
    also in: 002: Introduction to transformers
    """
    # The sentence on several heads breaks off. Six headings have no text: skip connections and normalisation, positional
    # embeddings, implementation, the complementary view, extensions, and relations to other architectures.
    x, order = randn(1, N, D), [3, 0, 4, 2, 1]
    one, two, four = (make_block("mixed", D, heads)(x) for heads in (1, 2, 4))
    other_heads = min(largest(one, two), largest(one, four))
    require(other_heads > 0.1, f"blocks of 1, 2 and 4 heads differ by {other_heads:.0e} only")
    alike = require_equal(one[:, order], make_block("mixed", D, 1)(x[:, order]))
    return dict(of_other_heads=other_heads, permuted=alike)


@claim("R5", "Putting it together")
def the_summary_block_is_mixed():
    """In summary, the output of attention is added to its normalised input, and that of the MLP to Y itself.

    formula: X' = LayerNorm(X), Y = X' + MHSA(X'), Y' = LayerNorm(Y), X = Y + MLP(Y')
    here: Block(TransformerConfig(placement="mixed"))
    """
    x, block = randn(1, N, D), make_block("mixed", D)
    from_identity = largest(silence(block)(x), x)
    require_equal(silence(block)(x)[0], layer_norm(block.ln_1, x.array[0]))
    return dict(difference=require_block("mixed", x), from_note_000=apart(x, "mixed", "inner"),
                from_pre_norm=apart(x, "mixed", "pre"), from_identity=from_identity)
