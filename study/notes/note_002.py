"""Note 002, an introduction: tokens are the columns of X (D, N), and attention is Y = X A."""
import numpy as np

import minigrad as mg
import nn
from models.architectures import make_model
from models.tasks import TASKS
from models.transformer import TransformerConfig
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, check_gradients, largest, layer_norm, make_block, misprint, normal, plain_attention,
    require_block, require_equal, silence, softmax,
)

claim = claims_of("002")

N, D, K = 5, 8, 4  # tokens, features, features after a projection
ATTENTION = "study/notes/attention.py:Attention"
MAKES_TOKENS = "encoder.token_embedding", "make_tokens", "head"  # how names of parameters begin that only one task has


def projecting_attention(query_key: str = "separate", layout: str = "rows", seed: int = 0, **switches) -> Attention:
    """Attention as in the note, with scores that are not small, but not so large that one key gets all the weight."""
    mg.manual_seed(seed)
    layer = plain_attention(D, query_key=query_key, layout=layout, **{"key_size": K, **switches})
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.6)
    return layer


@claim("G10", "Modelling with tokens", formula="One architecture, many applications",
       ours="minigrad train --task sentiment, minigrad train --task stripes",
       code="models/encoder_decoder.py:Classifier, models/tasks.py", also=("000: Positional Encodings",),
       measured='right, with attention and without: of words with and without "not" 100% and 51% (48% to 53%), of '
                "stripes in 16 patches 100% and 86% (84% to 87%); 200 and 150 steps of AdamW at 0.005, 5 seeds")
def one_architecture_learns_words_and_images():
    """Transformers were made for words, but the approach extends to images and much else: once data have been converted to
    tokens, a transformer can be applied in roughly the same way."""
    config, shapes = TransformerConfig(context=16, layers=1, heads=2, width=8), []
    for task in ("sentiment", "stripes"):
        model = make_model(TASKS[task], "encoder", config, seed=0)
        shapes.append({name: parameter.shape for name, parameter in model.named_parameters()})
    words, images = ({name: shape for name, shape in all_shapes.items() if not name.startswith(MAKES_TOKENS)}
                     for all_shapes in shapes)
    require(words == images, f"words {words}, images {images}")
    return dict(parameters_of_the_same_shapes=len(words))


@claim("L2", "Self-attention",
       formula="y_n = sum_n' x_n' A_n',n, that is Y^(m) = X^(m-1) A^(m), with sum_n' A_n',n = 1",
       ours='Attention(D, layout="columns")', code=ATTENTION)
def columns_are_rows_transposed():
    """Tokens are the columns of a D x N array, and attention multiplies from the right, Y = X A, by an N x N array whose
    columns sum to one."""
    columns, rows = projecting_attention(layout="columns"), projecting_attention()
    X, upstream = normal(0, 2, D, N), normal(1, 2, D, N)
    by_columns, by_rows = mg.tensor(X, requires_grad=True), mg.tensor(X.swapaxes(1, 2), requires_grad=True)
    Y, A = columns(by_columns, need_weights=True)
    Y.backward(mg.tensor(upstream))
    rows(by_rows).backward(mg.tensor(upstream.swapaxes(1, 2)))

    U_q, U_k = columns.query.weight.array, columns.key.weight.array
    forward = 0.0
    for b in range(2):
        expected = np.zeros((N, N))
        for j in range(N):
            for i in range(N):
                expected[i, j] = np.exp((U_k @ X[b, :, i]) @ (U_q @ X[b, :, j]))
            expected[:, j] /= expected[:, j].sum()
        pairs = (A[b, 0], expected), (Y[b], X[b] @ expected), (A[b, 0].array.sum(axis=0), 1.0)
        forward = max(forward, *(require_equal(*pair) for pair in pairs))
    backward = max(require_equal(by_columns.grad.mT, by_rows.grad),
                   require_equal(columns.query.weight.grad, rows.query.weight.grad),
                   require_equal(columns.key.weight.grad, rows.key.weight.grad))
    check_gradients(columns, X)
    return dict(forward=forward, backward=backward)


@claim("A25", "Self-attention",
       formula="attention weights are adaptive ...; in CNNs they are fixed and shared across all inputs",
       ours='Attention(D); as fixed weights: positions="relative", with query and key zero', code=ATTENTION,
       also=("000: Connection to Convolutional Neural Networks (CNNs)", "004: Self-Attention"))
def attention_weights_are_adaptive():
    """Attention weights are computed from the input itself. Convolutional networks also use weighted sums, but their
    weights are fixed and shared by all inputs."""
    adaptive = projecting_attention()
    fixed = projecting_attention(positions="relative", max_distance=N - 1)
    for projection in (fixed.query, fixed.key):
        nn.init.zeros_(projection.weight)
    inputs, changes, bent = [mg.tensor(normal(seed, N, D)) for seed in (0, 1)], {}, {}
    for name, layer in (("adaptive", adaptive), ("fixed", fixed)):
        (first, A), (second, B) = (layer(x, need_weights=True) for x in inputs)
        require(np.ptp(A.array, axis=-1).min() > 0.1, f"{name}: all keys have about the same weight")
        changes[name] = largest(A, B)
        bent[name] = largest(layer(inputs[0] + inputs[1]), first + second)
    for name, change in changes.items():
        require(change > 0.1 if name == "adaptive" else change < EXACT, f"{name}: the weights change by {change:.0e}")
    require(bent["fixed"] < EXACT and bent["adaptive"] > 0.1, f"f(X + Z) is f(X) + f(Z) within {bent}")
    return dict(adaptive_weights_change=changes["adaptive"], fixed_weights_change=changes["fixed"],
                linear_if_fixed=bent["fixed"], linear_if_adaptive=bent["adaptive"])


@claim("E2", "Self-attention", FALSE, formula="A_ij = exp(x_i^T x_j^T) / sum_n' exp(x_i^T x_n'^T)",
       ours='Attention(D, layout="columns"): sum_n\' exp(x_n\'^T x_j)', code=ATTENTION)
def the_printed_sum_normalises_columns():
    """Similarities are exponentiated and divided by their sum over the second token, which normalises each column of
    A."""
    X, layer = mg.tensor(normal(0, D, N)), projecting_attention(layout="columns")
    logits = X.T @ layer.key.weight.T @ layer.query.weight @ X  # of keys and queries
    printed, mended = logits.softmax(1), logits.softmax(0)
    Y, A = layer(X, need_weights=True)
    return misprint([(mended, A[0]), (X @ mended, Y), (mended.sum(0), 1.0)], [(X @ printed, Y), (printed.sum(0), 1.0)])


@claim("A26", "Self-attention",
       formula="A_ij = exp(x_i^T U^T U x_j^T) / sum_n' exp(x_i^T U^T U x_n'^T), U in R^(K x D)",
       ours='Attention(D, query_key="shared", key_size=K)', code=ATTENTION, also=("000: Self-Attention",))
def a_small_projection_leaves_components_out():
    """Tokens are compared after a linear map U. If K < D, it projects out some of their components, and compares them in a
    lower-dimensional space."""
    x, small, square = normal(0, N, D), projecting_attention("shared"), projecting_attention("shared", key_size=D)
    _, sizes, directions = np.linalg.svd(small.query.weight.array)
    moved = x + np.outer(normal(1, N), directions[-1])  # U times the last direction is 0, as U has fewer rows than columns
    changes = []
    for layer in (small, square):
        (y, A), (y_moved, B) = (layer(mg.tensor(tokens), need_weights=True) for tokens in (x, moved))
        changes.append(largest(A, B))
        require(largest(y, y_moved) > 0.1, "the outputs do not change")
    require(changes[0] < EXACT and changes[1] > 0.01 and len(sizes) == K, f"the weights change by {changes}")
    return dict(projected_out=changes[0], with_a_square_matrix=changes[1])


@claim("E1", "Self-attention", FALSE, formula="A_ij = exp(x_i^T U^T U x_j^T) / sum_n' exp(x_i^T U^T U x_n'^T)",
       ours='Attention(D, query_key="shared", key_size=K)', code=ATTENTION)
def one_projection_makes_attention_symmetric():
    """With the same map U for both tokens the attention matrix is symmetric: any two tokens attend to each other with
    equal strengths. Two maps, U_k and U_q, address this."""
    x = mg.tensor(normal(0, N, D))

    def asymmetry(query_key, seed):
        """Of the logits, and of the weights that they give."""
        layer = projecting_attention(query_key, seed=seed)
        q = layer.query(x)
        logits = q @ (q if query_key == "shared" else layer.key(x)).T
        weights = layer(x, need_weights=True)[1][0]
        require_equal(weights, softmax(logits.array))
        return largest(logits, logits.T), largest(weights, weights.T)

    (logits, weights), (separate, _) = (
        zip(*(asymmetry(query_key, seed) for seed in range(5))) for query_key in ("shared", "separate"))
    require(max(logits) < EXACT, f"the logits of one projection are asymmetric by {max(logits):.0e}")
    require(min(weights) > 0.01, f"the weights are symmetric within {min(weights):.0e}")
    require(min(separate) > 0.1, f"the logits of two projections are symmetric within {min(separate):.0e}")
    return dict(logits=max(logits), weights=weights, logits_of_two_projections=min(separate))


@claim("A27", "Self-attention",
       formula="attention between different sequences ... cross-attention, and we defer its discussion for later",
       ours='Attention(D, memory_width=D_memory, layout="columns")(X, memory)', code=ATTENTION)
def self_attention_generalises_to_cross_attention():
    """Self-attention can be generalised to attention between different sequences, as for joint modelling of text and
    images: cross-attention."""
    patches = 9
    text, image = normal(0, D, N), normal(1, 6, patches)
    layer = projecting_attention(layout="columns", memory_width=6)
    Y, A = layer(mg.tensor(text), mg.tensor(image), need_weights=True)
    expected = softmax((layer.query.weight.array @ text).T @ (layer.key.weight.array @ image)).T
    difference = max(require_equal(A[0], expected), require_equal(Y, image @ expected), require_equal(A[0].sum(0), 1.0))
    check_gradients(layer, text, image)
    own = projecting_attention(layout="columns")
    same = require_equal(own(mg.tensor(text), mg.tensor(text)), own(mg.tensor(text)))
    return dict(difference=difference, self_attention=same)


@claim("E12", "Self-attention", FALSE,
       formula="exp(x_i^T x_j^T); X^(m) = (x_1, ..., x_N^(m)) given; x^(m)_n with n within the superscript",
       ours="exp(x_i^T x_j); X^(m-1); x_n^(m) = MLP(y_n^(m))", code=f"{ATTENTION}, models/transformer.py:MLP",
       also=("002: Multi-layer perceptron",))
def the_transposes_and_superscripts():
    """The similarity is a product of both tokens transposed; layer m is given X^(m) in the text, and X^(m-1) in the
    formula; the MLP's result has its index in the superscript."""
    mg.manual_seed(0)
    X, layer = mg.tensor(normal(0, D, N)), plain_attention(D, query_key="none", layout="columns")
    x_i, x_j, U = X[:, 1:2], X[:, 2:3], mg.tensor(normal(1, K, D))
    mlp = nn.Sequential(nn.Linear(D, 4 * D, activation="relu"), nn.Linear(4 * D, D)).double()
    Y, A = layer(X, need_weights=True)
    expected = np.exp(X.array.T @ X.array)
    of_all, token_by_token = mlp(Y.T).T, np.stack([mlp(Y[:, n]).array for n in range(N)], axis=1)
    return misprint([(A[0], expected / expected.sum(axis=0)), (Y, X @ A[0]), (of_all, token_by_token)],
                    [(layer(of_all), Y)], [lambda: x_i.T @ x_j.T, lambda: x_i.T @ U.T @ U @ x_j.T])


@claim("E16", "Multi-head self-attention", FALSE,
       formula="a self-contained mathematical description ..., and a concise implementation; but of several heads only: "
               "In order to increase the capacity of the self-attention layer",
       ours="TransformerConfig(heads=H): note 000 has the formula, A10", code="models/transformer.py:Block",
       also=("002: Introduction to transformers",))
def the_description_is_self_contained():
    """The overview includes a self-contained mathematical description of the architecture, and a concise
    implementation."""
    # The sentence on several heads breaks off. Six headings have no text: skip connections and normalisation, positional
    # embeddings, implementation, the complementary view, extensions, and relations to other architectures.
    x = mg.tensor(normal(1, 1, N, D))
    blocks = [make_block("mixed", D, heads) for heads in (1, 2, 4)]
    one, *others = (block(x) for block in blocks)
    apart = min(largest(one, other) for other in others)
    require(apart > 0.1, f"blocks of 1, 2 and 4 heads differ by {apart:.0e} only")
    order = [3, 0, 4, 2, 1]
    alike = require_equal(one[:, order], blocks[0](x[:, order]))
    return dict(of_other_heads=apart, permuted=alike)


@claim("R5", "Putting it together",
       formula="X' = LayerNorm(X), Y = X' + MHSA(X'), Y' = LayerNorm(Y), X = Y + MLP(Y')",
       ours='TransformerConfig(placement="mixed")', code="models/transformer.py:Block")
def the_summary_block_is_mixed():
    """In summary, the output of attention is added to its normalised input, and that of the MLP to Y itself."""
    block, x = make_block("mixed", D), normal(1, N, D)
    difference, out = require_block(block, "mixed", x), block(mg.tensor(x[None]))
    others = {placement: largest(make_block(placement, D)(mg.tensor(x[None])), out) for placement in ("inner", "pre")}
    require(min(others.values()) > 0.1, f"it can hardly be told from others: {others}")
    idle = silence(block)(mg.tensor(x[None]))[0]
    require_equal(idle, layer_norm(block.ln_1, x))
    from_identity = largest(idle, x)
    return dict(difference=difference, from_note_000=others["inner"], from_pre_norm=others["pre"],
                from_identity=from_identity)
