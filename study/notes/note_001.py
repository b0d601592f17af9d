"""Note 001: from recurrent networks to the encoder-decoder."""
import dataclasses
import math
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.encoder_decoder import Encoder, EncoderDecoder
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import MLP, PLACEMENTS, PRESETS, Block, CausalTransformer, TransformerConfig
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    EXACT, check_gradients, influence, largest, longest_chain, matrices, normal, normalised, plain_attention, refusal,
    require_causal, require_equal, silence, softmax, values,
)

def centred_scores(weights: np.ndarray | Tensor) -> np.ndarray:
    """The scores that a softmax had, but for what is added to a whole row: each row's mean is 0."""
    logarithms = np.log(values(weights))
    return logarithms - logarithms.mean(axis=-1, keepdims=True)


def fit(loss_of: Callable[[], Tensor], parameters: list[Tensor], steps: int, lr: float) -> float:
    """Minimise with Adam; the last loss."""
    optimizer = nn.optim.Adam(parameters, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
    return loss.item()


# ---- words ----

WORD_CLASSES, WORDS_EACH, NEIGHBOURS_EACH = 3, 8, 4  # words of a class stand among the same neighbours


def synthetic_corpus(generator: np.random.Generator, sentences: int) -> np.ndarray:
    """(sentences, 3): a word between two neighbours of its class; one neighbour in ten is of any class."""
    words = generator.integers(0, WORD_CLASSES * WORDS_EACH, sentences)
    of_class = generator.integers(0, NEIGHBOURS_EACH, (2, sentences)) + words // WORDS_EACH * NEIGHBOURS_EACH
    of_any = generator.integers(0, WORD_CLASSES * NEIGHBOURS_EACH, (2, sentences))
    before, after = np.where(generator.random((2, sentences)) < 0.1, of_any, of_class) + WORD_CLASSES * WORDS_EACH
    return np.stack([before, words, after], axis=1)


def skip_gram(generator: np.random.Generator) -> nn.Embedding:
    """Word vectors from which the words that stand beside a word can be told."""
    sentences = synthetic_corpus(generator, 4000)
    centres = np.concatenate([sentences[:, i] for i in (0, 1, 1, 2)])
    beside = np.concatenate([sentences[:, i] for i in (1, 0, 2, 1)])
    vocabulary_size = WORD_CLASSES * (WORDS_EACH + NEIGHBOURS_EACH)
    vectors, predict = nn.Embedding(vocabulary_size, 8), nn.Linear(8, vocabulary_size, bias=False)

    def loss():
        batch = generator.integers(0, len(centres), 256)
        return F.cross_entropy(predict(vectors(mg.tensor(centres[batch]))), mg.tensor(beside[batch]))

    fit(loss, [*vectors.parameters(), *predict.parameters()], steps=300, lr=0.05)
    return vectors


def classify_frozen(vectors: nn.Embedding) -> float:
    """How many of the words of odd number a linear classifier tells the class of, which saw those of even number."""
    vectors.zero_grad()
    vectors.requires_grad_(False)
    before = vectors.weight.array.copy()
    words = np.arange(WORD_CLASSES * WORDS_EACH)
    seen, unseen = words[::2], words[1::2]
    classify = nn.Linear(vectors.embedding_dim, WORD_CLASSES)
    fit(lambda: F.cross_entropy(classify(vectors(mg.tensor(seen))), mg.tensor(seen // WORDS_EACH)),
        list(classify.parameters()), steps=100, lr=0.1)
    require(vectors.weight.grad is None and np.array_equal(vectors.weight.array, before), "frozen vectors have moved")
    found = classify(vectors(mg.tensor(unseen))).array.argmax(axis=1)
    return float((found == unseen // WORDS_EACH).mean())


@claim("L6", note="001")
def word_vectors_of_words_used_alike_are_close():
    """Before 2017, text was understood by recurrent networks and by Word2Vec, whose vectors come from the words around
    a word."""
    mg.manual_seed(0)
    generator = np.random.default_rng(0)
    by_chance = classify_frozen(nn.Embedding(WORD_CLASSES * WORDS_EACH, 8))
    vectors = skip_gram(generator)
    unit = F.normalize(vectors.weight[: WORD_CLASSES * WORDS_EACH]).array
    is_alike = np.equal.outer(*[np.arange(len(unit)) // WORDS_EACH] * 2)
    cosines = unit @ unit.T
    alike, unlike = cosines[is_alike & ~np.eye(len(unit), dtype=bool)].mean(), cosines[~is_alike].mean()
    require(alike > 0.7 and unlike < 0.4, f"cosine {alike:.2f} of words used alike, {unlike:.2f} of others")
    share = classify_frozen(vectors)
    require(share == 1.0, f"the class of {share:.0%} of the unseen words is told")
    return (f"mean cosine {alike:.2f} of words used alike, {unlike:.2f} of others; frozen, they tell the class of "
            f"{share:.0%} of unseen words (random vectors {by_chance:.0%})")


# ---- attention ----


@claim("A6", note="001")
def scores_of_minus_infinity_hide_the_future():
    """The score of query i and key j is their product for j <= i and minus infinity for a later j, so that a decoder
    sees no future and all positions are computed at once."""
    mg.manual_seed(0)
    x = normal(0, 6, 8)
    masked = nn.Attention(8, heads=2, causal="mask").double()
    renormalised = nn.Attention(8, heads=2, causal="renormalise").double()
    renormalised.load_state_dict(masked.state_dict())
    difference = require_equal(masked(mg.tensor(x)), renormalised(mg.tensor(x)))
    Q, K, V = matrices(masked)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = (x @ Q[:, part]) @ (x @ K[:, part]).T / 2
        e = np.array([[scores[i, j] if j <= i else -math.inf for j in range(6)] for i in range(6)])
        heads.append(softmax(e) @ x @ V[:, part])
    expected = np.hstack(heads) @ masked.out.weight.array.T
    difference = max(difference, require_equal(masked(mg.tensor(x)), expected))
    require_causal(influence(masked, x[None]))
    rounding = np.triu(influence(renormalised, x[None]), 1).max()
    require(rounding < EXACT, f"when weights are renormalised, the future has an influence of {rounding:.0e}")
    blind = _blind_rows()
    return (f"largest difference {difference:.0e}, influence of the future 0 exactly, and {rounding:.0e} "
            f"when weights are renormalised; {blind}")


def _blind_rows() -> str:
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
    return "queries without keys give 0, and finite gradients"


@claim("A8", note="001")
def attention_of_stacked_rows_is_two_matrix_products():
    """With the tokens as rows of X, attention is softmax(XQ (XK)^T) XV: one product for all scores, one for all
    averages."""
    mg.manual_seed(0)
    n, d = 5, 8
    X = normal(0, n, d)
    layer = plain_attention(d, value=True)
    Q, K, V = matrices(layer)
    expected = np.zeros((n, d))
    for i in range(n):
        scores = [(X[i] @ Q) @ (X[j] @ K) for j in range(n)]
        total = sum(math.exp(score) for score in scores)
        for j in range(n):
            expected[i] += math.exp(scores[j]) / total * (X[j] @ V)
    difference = max(require_equal(layer(mg.tensor(X)), expected),
                     require_equal(softmax(X @ Q @ (X @ K).T) @ X @ V, expected))
    error = check_gradients(layer, X)
    return f"largest difference {difference:.0e} from a triple loop, gradients {error:.0e}"


def head_after_head(layer: nn.Attention, x: Tensor) -> Tensor:
    """Multi-head attention of x (n, d) as a loop over its heads."""
    outputs, size = [], layer.key_size
    for head in range(layer.heads):
        rows = slice(head * size, (head + 1) * size)
        q, k, v = (x @ projection.weight[rows].mT for projection in (layer.query, layer.key, layer.value))
        outputs.append((q @ k.mT * layer.factor).softmax(-1) @ v)
    return layer.out(mg.cat(outputs, dim=-1))


@claim("A12", note="001")
def heads_are_a_batch_axis_after_reshape_and_transpose():
    """Each of h heads has matrices of d x d/h, and what they give side by side is multiplied by Y (d x d). All heads
    are computed at once: XQ is cut to n x h x d/h and transposed to h x n x d/h."""
    mg.manual_seed(0)
    n, d, h = 5, 12, 3
    layer = nn.Attention(d, heads=h).double()
    x, upstream = mg.tensor(normal(0, n, d), requires_grad=True), mg.tensor(normal(1, n, d))
    at_once, one_by_one = layer(x), head_after_head(layer, x)
    difference = require_equal(at_once, one_by_one)
    wanted = [x, *layer.parameters()]
    gradients = [mg.grad((y * upstream).sum(), wanted) for y in (at_once, one_by_one)]
    gradient_difference = max(require_equal(a, b) for a, b in zip(*gradients))
    error = check_gradients(layer, x)

    XQ, XK, XV = (mg.tensor(x.array @ matrix) for matrix in matrices(layer))
    right, wrong = [], []
    for part in (XQ, XK, XV):
        right.append(part.reshape(n, h, d // h).transpose(0, 1))
        wrong.append(part.reshape(h, n, d // h))
    right, wrong = (layer.out(F.scaled_dot_product_attention(*parts).transpose(0, 1).reshape(n, d))
                    for parts in (right, wrong))
    require_equal(right, at_once)
    mistake = largest(wrong, at_once)
    require(mistake > 0.01, "a reshape to h x n x d/h without the transpose makes no difference")
    return (f"largest difference {difference:.0e} from a loop over heads, of gradients {gradient_difference:.0e}, and "
            f"{error:.0e} from finite differences; reshaped to h x n x d/h at once it is wrong by {mistake:.2f}")


@claim("A15", note="001")
def scores_are_divided_by_the_root_of_the_head_size():
    """Scores are divided by sqrt(d/h), the root of a head's width. (Note 003 has sqrt(D_k), note 004 sqrt(d), notes 000
    and 002 nothing.)"""
    mg.manual_seed(0)
    d, x = 16, mg.tensor(normal(0, 6, 16))
    ratios = []
    for h in (1, 2, 4):
        first = nn.Attention(d, heads=h, scale="none").double()
        scores = {}
        for scale in ("none", "d_k", "d_model", 1 / math.sqrt(d / h)):
            layer = nn.Attention(d, heads=h, scale=scale).double()
            layer.load_state_dict(first.state_dict())
            scores[scale] = centred_scores(layer(x, need_weights=True)[1])
        require_equal(scores["d_k"], scores[1 / math.sqrt(d / h)])
        require_equal(scores["d_k"] * math.sqrt(d / h), scores["none"])
        require_equal(scores["d_model"] * math.sqrt(d), scores["none"])
        ratios.append(scores["d_k"].std() / scores["d_model"].std())
    require(largest(np.array(ratios), np.sqrt([1, 2, 4])) < EXACT, f"001's scores are {ratios} times 004's")
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"sqrt(d/h) and sqrt(D_k) are the same; sqrt(d) makes scores {shown} times smaller with 1, 2, 4 heads"


def diagonal_norm(scores: np.ndarray) -> float:
    """The mean over rows of the norm of the diagonal of softmax's Jacobian, from our backward."""
    z = mg.tensor(scores, requires_grad=True)
    p = z.softmax(-1)
    diagonal = [mg.grad(p[:, i].sum(), z, retain_graph=True)[0].array[:, i] for i in range(scores.shape[1])]
    require_equal(np.stack(diagonal, axis=1), p.array * (1 - p.array))
    return float(np.linalg.norm(diagonal, axis=0).mean())


@claim("A17", note="001")
def large_scores_make_gradients_of_softmax_small():
    """Products of long vectors are large, large inputs of a softmax make its gradients small, and dividing by the root
    of the head size prevents it."""
    norms = [diagonal_norm(std * normal(0, 2000, 16)) for std in (1, 4, 16)]
    require(norms[0] > norms[1] > norms[2] and norms[2] < norms[0] / 3, f"the norms are {norms}")
    q, k = normal(1, 500, 1, 256), normal(2, 500, 16, 256)
    scores = (q @ k.swapaxes(1, 2))[:, 0]
    raw, divided = diagonal_norm(scores), diagonal_norm(scores / math.sqrt(256))
    require(divided > 3 * raw, f"{raw:.3f}, and divided {divided:.3f}")
    return ("norm of the Jacobian's diagonal " + ", ".join(f"{norm:.3f}" for norm in norms)
            + f" for scores of deviation 1, 4, 16; for products of 256 features {raw:.3f}, divided by 16 {divided:.3f}")


@claim("A18", note="001")
def cross_attention_takes_queries_from_the_decoder_and_the_rest_from_the_encoder():
    """In cross-attention keys and values are projections of the encoder's outputs h, and queries are projections of the
    decoder's inputs z."""
    mg.manual_seed(0)
    z, h = normal(0, 1, 3, 8), normal(1, 1, 5, 6)
    layer = nn.Attention(8, heads=2, memory_width=6).double()
    Q, K, V = matrices(layer)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        heads.append(np.stack([sum(weight * (h[0, j] @ V[:, part]) for j, weight in enumerate(softmax(np.array(
            [(z[0, i] @ Q[:, part]) @ (h[0, j] @ K[:, part]) / 2 for j in range(5)])))) for i in range(3)]))
    expected = np.hstack(heads) @ layer.out.weight.array.T
    difference = require_equal(layer(mg.tensor(z), mg.tensor(h))[0], expected)
    error = check_gradients(layer, z, h)
    same = nn.Attention(8, heads=2).double()
    require_equal(same(mg.tensor(z), mg.tensor(z)), same(mg.tensor(z)))
    return (f"3 queries, 5 keys: largest difference {difference:.0e}, gradients of z, h and all matrices {error:.0e}; "
            "with h = z it is self-attention")


# ---- the feed-forward network, and what attention lacks ----


@claim("M2", note="001")
def the_feed_forward_network_is_two_layers_with_a_wide_relu_between():
    """After attention, each token goes through W_2 ReLU(W_1 h + b_1) + b_2, which is often 5 d wide inside."""
    mg.manual_seed(0)
    d, h = 4, normal(0, 3, 4)
    counts, differences, errors = {}, [], []
    for ratio in (5, 4):
        mlp = MLP(TransformerConfig(width=d, heads=1, activation="relu", mlp_ratio=ratio)).double()
        W_1, b_1, W_2, b_2 = (parameter.array for parameter in mlp.parameters())
        expected = [W_2 @ np.maximum(W_1 @ token + b_1, 0) + b_2 for token in h]
        differences.append(require_equal(mlp(mg.tensor(h)), np.array(expected)))
        errors.append(check_gradients(mlp, h))
        counts[ratio] = sum(parameter.numel() for parameter in mlp.parameters())
        require(counts[ratio] == 2 * ratio * d * d + ratio * d + d, f"there are {counts[ratio]} parameters")
    return (f"largest difference {max(differences):.0e}, gradients {max(errors):.0e}; for d = 4, {counts[5]} "
            f"parameters with 5 d, {counts[4]} with 4 d")


def stacked_attention(X: np.ndarray) -> tuple:
    """Two layers without read-out; what they make of X together; their weights A, and their matrices V."""
    mg.manual_seed(0)
    layers = [nn.Attention(X.shape[1], output_projection="none").double() for _ in range(2)]
    y, weights = mg.tensor(X), []
    for layer in layers:
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.6)  # else the second layer's weights are nearly equal
        y, A = layer(y, need_weights=True)
        weights.append(A.array[0])
    return layers, y.array, weights, [matrices(layer)[2] for layer in layers]


@claim("M3", note="001", verdict="true if the weights are held fixed")
def two_attention_layers_without_nonlinearity_are_one():
    """Attention has no nonlinearity for its elements, so that two layers on top of each other are much like one: linear
    combinations of linearly transformed inputs."""
    X, moved = normal(0, 6, 8), normal(1, 6, 8)
    (first, second), y, (A_1, A_2), (V_1, V_2) = stacked_attention(X)
    frozen = require_equal(y, (A_2 @ A_1) @ X @ (V_1 @ V_2))
    require_equal(A_2 @ (A_1 @ moved @ V_1) @ V_2, (A_2 @ A_1) @ moved @ (V_1 @ V_2))
    live = largest(second(first(mg.tensor(moved))), (A_2 @ A_1) @ moved @ (V_1 @ V_2))
    require(live > 0.01, f"with other inputs, live weights make a difference of {live:.0e} only")
    return f"A_2 A_1 X V_1 V_2 differs by {frozen:.0e}; for another X, whose weights are others, by {live:.2f}"


# ---- layer norm ----


@claim("N2", note="001", verdict=FALSE)
def layer_norm_with_a_root_of_the_deviation():
    """Layer norm is (x - mean) / (sqrt(sigma) + eps), with sigma the standard deviation, and gives deviation 1."""
    printed = nn.LayerNorm(64, eps_at="double_root").double()
    stds, errors = [], []
    for scale in (4, 64):
        x = scale * normal(0, 8, 64) + 3
        sigma = x.std(axis=-1, keepdims=True)
        y = printed(mg.tensor(x)).array
        errors.append(require_equal(y, (x - x.mean(axis=-1, keepdims=True)) / (np.sqrt(sigma) + 1e-5)))
        require(largest(y.std(axis=-1), np.sqrt(sigma[:, 0])) < 1e-3, "the deviation is not the root of the input's")
        stds.append(y.std(axis=-1).mean())
    require(min(stds) > 1.9 and stds[1] > 3.9 * stds[0], f"deviations {stds} for inputs 1 and 16 times as large")
    return (f"largest difference {max(errors):.0e} from the formula, whose deviation is the root of the input's, 4: "
            f"{stds[0]:.2f}, and {stds[1]:.2f} for inputs 16 times as large")


@claim("N3", note="001", verdict="true if sqrt(sigma) is read as sigma")
def layer_norm_with_eps_outside_the_root():
    """Layer norm subtracts the mean and divides by the standard deviation, to which a small eps is added."""
    layer = nn.LayerNorm(16, eps=1e-3, eps_at="outside").double()
    x = 2 * normal(0, 5, 16) + 3
    sigma = x.std(axis=-1, keepdims=True)
    difference = require_equal(layer(mg.tensor(x)), (x - x.mean(axis=-1, keepdims=True)) / (sigma + 1e-3))
    deviation = largest(layer(mg.tensor(x)).array.std(axis=-1), 1.0)
    require(deviation < 1e-3, f"the deviation is {deviation:.0e} from 1")
    layer.weight.data[...], layer.bias.data[...] = normal(1, 16), normal(2, 16)
    error = check_gradients(layer, x)
    return f"largest difference {difference:.0e}, gradients {error:.0e}; deviation 1 within {deviation:.0e}"


@claim("N4", note="001")
def only_eps_inside_the_root_is_gpt2s_layer_norm():
    """Layer norms differ in where eps stands. (PyTorch and GPT-2 have sqrt(variance + eps); others add it outside, or
    divide the variance by n - 1.)"""
    x = normal(0, 8, 64)
    gain, bias = normal(1, 64), normal(2, 64)
    gpt2 = normalised(x) * gain + bias
    variants = {
        "sqrt(var + eps)": {}, "sigma + eps": {"eps_at": "outside"},
        "sigma + eps, n - 1": {"eps_at": "outside", "unbiased": True}, "sqrt(sigma) + eps": {"eps_at": "double_root"},
    }
    differences = {}
    for name, switches in variants.items():
        layer = nn.LayerNorm(64, **switches).double()
        layer.weight.data[...], layer.bias.data[...] = gain, bias
        differences[name] = largest(layer(mg.tensor(x)), gpt2)
    matching = [name for name, difference in differences.items() if difference < EXACT]
    require(matching == ["sqrt(var + eps)"], f"differences from GPT-2's: {differences}")
    without_bias = nn.LayerNorm(64, bias=False)
    require([name for name, _ in without_bias.named_parameters()] == ["weight"], "bias=False leaves a bias")
    return "from GPT-2's: " + ", ".join(f"{name} {difference:.0e}" for name, difference in differences.items())


@claim("N5", note="001")
def gain_and_bias_of_layer_norm_can_be_left_out():
    """The learned gain and bias of layer norm can be omitted."""
    plain, affine = nn.LayerNorm(16, elementwise_affine=False), nn.LayerNorm(16).double()
    count = sum(parameter.numel() for parameter in plain.parameters())
    require(count == 0, f"there are {count} parameters")
    x = 2 * normal(0, 5, 16) + 3
    y = plain(mg.tensor(x))
    difference = max(require_equal(y, normalised(x)), require_equal(affine(mg.tensor(x)), y))
    affine.weight.data[...], affine.bias.data[...] = normal(1, 16), normal(2, 16)
    require_equal(affine(mg.tensor(x)), y.array * affine.weight.array + affine.bias.array)
    error = check_gradients(plain, x)
    return f"0 parameters; largest difference {difference:.0e} from gain 1 and bias 0, gradients {error:.0e}"


# ---- positions ----


@claim("P3", note="001")
def learned_positions_end_where_their_table_ends():
    """Positions can be a matrix of n learned vectors; it is flexible, but there is nothing beyond position n."""
    mg.manual_seed(0)
    encoding = nn.PositionEncoding("learned", 4, size=6).double()
    x = normal(0, 2, 4, 4)
    difference = require_equal(encoding(mg.tensor(x)), x + encoding.weight.array[:4])
    error = check_gradients(encoding, x)
    (encoding(mg.tensor(x)) * mg.tensor(normal(1, 2, 4, 4))).sum().backward()
    gradient = encoding.weight.grad.array
    require(gradient[:4].all() and not gradient[4:].any(), "the gradient is not on the 4 rows that were used")
    message = refusal(encoding, mg.tensor(normal(0, 7, 4)))
    require("size 6" in message and "position 6" in message, f"7 tokens with 6 positions: {message!r}")
    model = CausalTransformer(TransformerConfig(vocabulary_size=5, context=6, layers=1, heads=1, width=4))
    require("6 (the model's context)" in refusal(model, mg.zeros(1, 7, dtype=mg.int64)), "a model takes 7 tokens")
    return (f"largest difference {difference:.0e}, gradients {error:.0e}, on 4 of 6 rows only; 7 tokens: "
            f"ValueError, \"{message.split(';')[0]}\"")


@claim("P8", note="001", verdict="true if only the distance of two tokens should count")
def scores_of_relative_positions_depend_on_the_distance_only():
    """Adding a vector for the absolute index is not the best way to tell attention the order."""
    mg.manual_seed(0)
    D, ahead, tokens = 8, normal(0, 7, 8), normal(1, 5, 8)
    layers = {positions: nn.Attention(D, heads=2, positions=positions) for positions in ("rotary", "relative", "none")}
    layers["relative"].relative_bias.data[...] = normal(2, *layers["relative"].relative_bias.shape)
    change = {}
    for positions, layer in layers.items():
        absolute = nn.PositionEncoding("sinusoidal" if positions == "none" else "none", D)
        at_start, later, equal = (
            layer.double()(absolute(mg.tensor(x)), need_weights=True)[1].array
            for x in (tokens, np.vstack([ahead, tokens]), np.repeat(tokens[:1], 5, axis=0)))
        change[positions] = largest(centred_scores(at_start), centred_scores(later[:, 7:, 7:]))
        equal = centred_scores(equal)
        equal -= equal.diagonal(axis1=1, axis2=2)[:, :, None]
        change[positions, "equal"] = largest(equal[:, 1:, 1:], equal[:, :-1, :-1])
    for positions in ("rotary", "relative"):
        require(max(change[positions], change[positions, "equal"]) < EXACT, f"{positions}: {change}")
    require(min(change["none"], change["none", "equal"]) > 0.01, f"absolute positions: {change}")
    return (f"7 positions later scores change by {change['rotary']:.0e} (rotary), {change['relative']:.0e} (relative), "
            f"{change['none']:.2f} (sinusoids added)")


# ---- blocks ----


@claim("R7", note="001")
def post_norm_needs_no_norm_before_the_read_out():
    """The note's blocks end with a norm, and are read out as they are. (GPT-2 normalises before its sublayers, and so
    it has one more norm at the end, which is in no note.)"""
    tokens = mg.tensor(np.random.default_rng(0).integers(0, 11, (2, 8)))

    def at_read_out(placement, layers, final_norm):
        mg.manual_seed(0)
        model = CausalTransformer(TransformerConfig(vocabulary_size=11, context=8, layers=layers, heads=2, width=16,
                                                    dtype="float64", placement=placement, final_norm=final_norm))
        for parameter in model.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.2)
        seen = []
        model.ln_f.register_forward_hook(lambda module, arguments, output: seen.append(output))
        logits, _ = model(tokens)
        require_equal(logits, seen[0].array @ model.token_embedding.weight.array.T)
        return model, float(seen[0].array.std(axis=-1).mean())

    model, post = at_read_out("post", 8, False)
    require(not any(name.startswith("ln_f") for name, _ in model.named_parameters()), "there is a final norm")
    (_, shallow), (_, deep), (with_norm, normed) = (
        at_read_out("pre", 1, False), at_read_out("pre", 16, False), at_read_out("pre", 8, True))
    without = dataclasses.replace(with_norm.config, final_norm=False)
    added = with_norm.config.parameter_count() - without.parameter_count()
    require(abs(post - 1) < 0.05 and abs(normed - 1) < 0.05, f"deviations {post:.2f} and {normed:.2f}")
    require(deep > 1.2 * shallow and added == 2 * 16, f"deviations {shallow:.2f} and {deep:.2f}; {added} parameters")
    require(all(preset.config.final_norm for preset in PRESETS.values()), "a GPT-2 preset has no final norm")
    return (f"deviation at the read-out {post:.2f} of post-norm; of pre-norm {shallow:.2f} after 1 block, {deep:.2f} "
            f"after 16, and with the final norm (2 C parameters) {normed:.2f}")


@claim("C6", note="001", verdict="true if no norm stands on the residual path")
def the_gradient_of_a_residual_connection_is_1():
    """The gradient through a residual connection is great: it is 1, and the block is biased towards the identity."""
    x = mg.tensor(normal(0, 1, 3, 4))
    distances = {}
    for placement in PLACEMENTS:
        mg.manual_seed(0)
        block = silence(Block(TransformerConfig(width=4, heads=2, placement=placement)).double())
        jacobian = mg.jacobian(block, x).array.reshape(12, 12)
        distances[placement] = largest(jacobian, np.eye(12))
    is_identity = {placement: distance < EXACT for placement, distance in distances.items()}
    require(is_identity == {placement: placement in ("pre", "residual") for placement in PLACEMENTS}, f"{distances}")
    return "layers of zero; largest difference of Jacobian and identity: " + ", ".join(
        f"{placement} {distance:.2g}" for placement, distance in distances.items())


NOTES_BLOCK = TransformerConfig(  # masked attention, Add & Norm, feed-forward, Add & Norm
    vocabulary_size=16, context=12, layers=2, heads=2, width=16, placement="post", final_norm=False, activation="relu",
    mlp_ratio=5)


@claim("G1", note="001")
def a_decoder_block_is_attention_and_a_feed_forward_network_with_add_and_norm():
    """A decoder is a stack of blocks: masked multi-head attention, Add & Norm, a feed-forward network, Add & Norm."""
    mg.manual_seed(0)
    block = Block(NOTES_BLOCK).double()
    x = mg.tensor(normal(0, 1, 6, 16))
    z = block.ln_1(x + block.attention(x, is_causal=True))
    difference = require_equal(block(x), block.ln_2(z + block.mlp(z)))
    require_causal(influence(block, x))

    generator = np.random.default_rng(1)
    model = CausalTransformer(dataclasses.replace(NOTES_BLOCK, width=32))
    tokens = generator.integers(0, 16, (4, 13))
    tokens[:, 0] = range(4)  # else the second token could not be told
    inputs, targets = mg.tensor(tokens[:, :-1]), mg.tensor(tokens[:, 1:])
    before = model(inputs, targets)[1].item()
    after = fit(lambda: model(inputs, targets)[1], list(model.parameters()), steps=200, lr=3e-3)
    require(after < 0.05, f"the loss on one batch is {after:.2f} nats")
    return (f"largest difference {difference:.0e}; influence of the future 0 exactly; loss on one batch {before:.2f} "
            f"-> {after:.3f} nats in 200 steps")


@claim("G2", note="001")
def an_encoder_is_a_decoder_without_the_mask():
    """An encoder looks in both directions, as a bidirectional recurrent network does: it is the decoder's block without
    the mask."""
    mg.manual_seed(0)
    x = normal(0, 1, 6, 16)
    decoder = Block(NOTES_BLOCK).double()
    encoder = Block(NOTES_BLOCK, is_causal=False).double()
    encoder.load_state_dict(decoder.state_dict())
    last = largest(encoder(mg.tensor(x))[:, -1], decoder(mg.tensor(x))[:, -1])
    require(last < EXACT, f"the last token, which sees all in both, differs by {last:.0e}")
    reach = influence(Encoder(NOTES_BLOCK).double(), x)
    require(bool((reach > 1e-4).all()), f"the smallest influence is {reach.min():.0e}")
    unmasked = int((influence(encoder, x) > 0).sum()), int((influence(decoder, x) > 0).sum())
    require(unmasked == (36, 21), f"pairs with an influence: {unmasked}")
    return f"all 36 pairs of 6 tokens have an influence (decoder: 21), the smallest {reach.min():.3f}"


def through(blocks: nn.ModuleList, **arguments) -> Callable[[Tensor], Tensor]:
    def run(x):
        for block in blocks:
            x = block(x, **arguments)
        return x

    return run


@claim("G3", note="001")
def an_encoder_decoder_learns_to_copy():
    """Encoder and decoder together: the decoder is causal, and looks at the outputs of the encoder, which is not."""
    mg.manual_seed(0)
    task = dataclasses.replace(TASKS["copy"], lengths=(2, 4))
    config = TransformerConfig(vocabulary_size=task.vocabulary_size, context=8, layers=1, heads=2, width=32)
    model = EncoderDecoder(config)
    losses = Trainer(model, task, TrainingConfig.of(task, steps=600, lr=4e-3, warmup_steps=50)).train()
    accuracy = task.accuracy(model)
    require(accuracy > 0.99, f"{accuracy:.1%} of new sequences are right, the loss is {losses[-1]:.3f}")

    memory, x = mg.tensor(normal(0, 1, 5, 32)), mg.tensor(normal(1, 1, 4, 32))
    model.double()
    of_encoder = influence(through(model.encoder.blocks), memory)
    of_decoder = influence(through(model.decoder.blocks, memory=memory), x)
    of_memory = influence(lambda memory: through(model.decoder.blocks, memory=memory)(x), memory)
    require(of_encoder.all() and of_memory.all(), "something of the source has no influence")
    require_causal(of_decoder)
    return (f"{accuracy:.1%} of new sequences right after {len(losses)} steps; the future has no influence in the "
            "decoder, and all tokens have in the encoder, and from there on the decoder")


# ---- distances ----


def first_to_last(layer: Callable[[Tensor], Tensor], x: np.ndarray) -> tuple[np.ndarray, int]:
    """d out_T / d x_1, and the longest chain of operations in between; x (1, T, D)."""
    rest = mg.tensor(x[:, 1:])

    def last(first):
        return layer(mg.cat([first, rest], dim=1))[:, -1]

    first = mg.tensor(x[:, :1], requires_grad=True)
    return mg.jacobian(last, first).array[0, :, 0, 0], longest_chain(last(first))


@claim("G8", note="001")
def gradients_vanish_with_distance_in_an_rnn_and_not_in_attention():
    """In a recurrent network distant words interact only after as many steps as lie between them, and gradients get
    lost on the way; attention takes one step for any distance."""
    mg.manual_seed(0)
    rnn, attention = nn.RNN(8, 8).double(), nn.Attention(8).double()
    lengths, norms, chains = (4, 16, 64), {}, {}
    for name, layer in (("RNN", lambda x: rnn(x)[0]), ("attention", attention)):
        found = [first_to_last(layer, normal(T, 1, T, 8)) for T in lengths]
        norms[name] = [np.linalg.norm(jacobian) for jacobian, _ in found]
        chains[name] = [chain for _, chain in found]
    x = normal(4, 1, 4, 8)
    W_ih, W_hh = rnn.weight_ih_l0.array, rnn.weight_hh_l0.array
    states = rnn(mg.tensor(x))[0].array[0]
    expected = np.diag(1 - states[0] ** 2) @ W_ih
    for state in states[1:]:
        expected = np.diag(1 - state**2) @ W_hh @ expected
    difference = require_equal(first_to_last(lambda x: rnn(x)[0], x)[0], expected)
    require(norms["RNN"][2] < 1e-8 * norms["RNN"][0], f"the RNN's gradient: {norms['RNN']}")
    require(norms["attention"][2] > norms["attention"][0] / 64, f"the gradient of attention: {norms['attention']}")
    steps = np.diff(chains["RNN"]) / np.diff(lengths)
    require(steps[0] == steps[1] >= 1 and len(set(chains["attention"])) == 1, f"operations in a row: {chains}")
    shown = "; ".join(f"{name} " + ", ".join(f"{norm:.1g}" for norm in norms[name]) + " in "
                      + ", ".join(map(str, chains[name])) + " operations" for name in norms)
    return f"norm of d out_T / d x_1 for T = 4, 16, 64: {shown} (RNN: {difference:.0e} from the product of its steps)"


@claim("C7", note="001")
def all_words_interact_in_one_layer():
    """The maximum interaction distance of attention is O(1): in each layer all words meet."""
    mg.manual_seed(0)
    T = 12
    attention, rnn = nn.Attention(8, heads=2).double(), nn.RNN(8, 8).double()
    x = normal(0, 1, T, 8)
    reach = influence(attention, x)
    require(bool((reach > 1e-6).all()), f"the smallest influence is {reach.min():.0e}")
    chains = {name: [first_to_last(layer, normal(0, 1, n, 8))[1] for n in (4, 8, 12)]
              for name, layer in (("attention", attention), ("RNN", lambda x: rnn(x)[0]))}
    require(len(set(chains["attention"])) == 1 and len(set(chains["RNN"])) == 3, f"operations in a row: {chains}")
    shown = "; ".join(f"{name} {', '.join(map(str, chain))}" for name, chain in chains.items())
    return (f"all {T * T} pairs of {T} tokens, the smallest influence {reach.min():.3f}; operations in a row for 4, 8, "
            f"12 tokens: {shown}")


# ---- costs, and linearity ----


@claim("C4", note="001", verdict="true if multiply-adds are counted, and not the h n^2 exponentials")
def more_heads_cost_no_more():
    """Though there are h heads, it is not really more costly: the matrices have the same sizes."""
    n, d = 10, 16
    x = mg.tensor(normal(0, 1, n, d), requires_grad=True)
    forward, total, parameters, exponentials = set(), set(), set(), []
    for h in (1, 2, 4, 8):
        layer = nn.Attention(d, heads=h).double()
        with mg.count_flops() as count:
            layer(x).sum().backward()
        forward.add(count.forward_counts.total())
        total.add(count.total)
        parameters.add(sum(parameter.numel() for parameter in layer.parameters()))
        exponentials.append(layer(x, need_weights=True)[1].numel())
    expected = 4 * n * d * d + 2 * n * n * d
    require(forward == {expected} and len(total) == 1, f"multiply-adds forward {forward}, in all {total}")
    require(parameters == {4 * d * d}, f"parameters {parameters}")
    return (f"with 1, 2, 4, 8 heads 4 d^2 = {4 * d * d} parameters and 4 n d^2 + 2 n^2 d = {expected} multiply-adds "
            f"each; exponentials {', '.join(map(str, exponentials))}")


@claim("C8", note="001", verdict="true if the weights are held fixed")
def attention_is_linear_in_its_input():
    """The output of attention is just a linear combination of a linear transformation of the input."""
    mg.manual_seed(0)
    X, layer = normal(0, 5, 8), plain_attention(8, query_key="none")
    y, A = layer(mg.tensor(X), need_weights=True)
    fixed = require_equal(A[0].array @ (2 * X), 2 * y.array)
    live = largest(layer(mg.tensor(2 * X)), 2 * y)
    require(live > 0.1, f"|f(2X) - 2 f(X)| is {live:.0e}")
    return f"|f(2X) - 2 f(X)| is {fixed:.0e} with the weights of X, {live:.2f} with those of 2X"


# ---- errata ----


@claim("E4", note="001", verdict=FALSE)
def layer_norm_gives_mean_1_and_divides_by_the_root_of_the_deviation():
    """Layer norm gives unit mean and standard deviation, by dividing by sqrt(sigma) + eps, where sigma is a root
    already."""
    x = mg.tensor(9 * normal(0, 8, 64) + 3)
    figures = {}
    for name, eps_at in (("as printed", "double_root"), ("sigma + eps", "outside"), ("sqrt(var + eps)", "inside")):
        y = nn.LayerNorm(64, eps_at=eps_at).double()(x).array
        mean, std = np.abs(y.mean(axis=-1)).max(), y.std(axis=-1).mean()
        require(mean < EXACT, f"{name}: the mean is {mean:.0e}")
        figures[name] = std
    require(figures["as printed"] > 2 and abs(figures["sigma + eps"] - 1) < 1e-4
            and abs(figures["sqrt(var + eps)"] - 1) < 1e-4, f"deviations {figures}")
    return "the mean is 0; the deviation " + ", ".join(f"{std:.3f} ({name})" for name, std in figures.items())


@claim("E5", note="001", verdict=FALSE)
def stacked_weights_are_a_product_with_sums_of_columns():
    """Two stacked layers have the weights alpha*, which are alpha_jk times the sum of alpha_ij over i, and the same
    alpha in both."""
    X = normal(0, 6, 8)
    _, y, (A_1, A_2), (V_1, V_2) = stacked_attention(X)
    corrected = require_equal(y, (A_2 @ A_1) @ X @ V_1 @ V_2)
    as_printed = A_1 * A_2.sum(axis=0)[:, None]
    literal, same_alpha = (largest(y, A @ X @ V_1 @ V_2) for A in (as_printed, A_1 * A_1.sum(axis=0)[:, None]))
    sums = as_printed.sum(axis=1)
    require(min(literal, same_alpha) > 0.01, f"as printed it differs by {literal:.0e}, {same_alpha:.0e}")
    require(largest(sums, 1.0) > 0.1, f"as printed, rows sum to {sums}")
    return (f"alpha* = A_2 A_1 differs by {corrected:.0e}; as printed by {literal:.2f}, and its rows sum to "
            f"{sums.min():.2f} ... {sums.max():.2f}")


@claim("E6", note="001", verdict=FALSE)
def both_matrices_of_the_feed_forward_network_have_the_same_shape():
    """W_1 and W_2 of the feed-forward network are both of shape 5d x d."""
    d, h = 4, mg.tensor(normal(0, 4))
    mlp = MLP(TransformerConfig(width=d, heads=1, activation="relu", mlp_ratio=5)).double()
    inner = mlp.expand(h)
    message = refusal(lambda: mg.tensor(normal(1, 5 * d, d)) @ inner)
    require("cannot be multiplied" in message, f"(5d, d) times 5d numbers: {message!r}")
    require(mlp.expand.weight.shape == (5 * d, d) and mlp.project.weight.shape == (d, 5 * d), "the shapes are others")
    difference = require_equal(mlp(h), mlp.project.weight.array @ inner.array + mlp.project.bias.array)
    return f"W_2 is d x 5d (difference {difference:.0e}); as printed: ValueError, \"{message.split(':')[0]}\""


@claim("E7", note="001", verdict=FALSE)
def scores_of_zero_hide_the_future():
    """Attention to future words is masked out by setting attention scores to zero."""
    mg.manual_seed(0)
    T, x = 6, normal(0, 6, 8)
    layer = nn.Attention(8, causal="mask").double()
    Q, K, _ = matrices(layer)
    scores, past = (x @ Q) @ (x @ K).T / math.sqrt(8), np.tri(T)
    literal = mg.tensor(scores * past).softmax(-1).array
    weights = layer(mg.tensor(x), need_weights=True)[1][0].array
    difference = require_equal(weights, softmax(np.where(past, scores, -math.inf)))
    leaked, hidden = (A[past == 0].sum() / T for A in (literal, weights))
    require(leaked > 0.1 and hidden == 0, f"the future has {leaked:.2f} and {hidden:.2f} of the weight")
    first = literal[0, 1:].sum()
    return (f"scores of 0 leave {leaked:.3f} of the weight with the future ({first:.2f} of the first token's), scores "
            f"of -inf {hidden:.0f} (difference {difference:.0e})")


@claim("E14", note="001", verdict=FALSE)
def two_conventions_for_the_same_matrices():
    """The score of words i and j is x_i^T Q^T K x_j, and all scores together are X Q K^T X^T."""
    mg.manual_seed(0)
    n, d, h = 4, 8, 2
    X = normal(0, n, d)
    layer = plain_attention(d, value=True)
    Q, K, _ = matrices(layer)
    ours = centred_scores(layer(mg.tensor(X), need_weights=True)[1][0])
    rows = X @ Q @ K.T @ X.T
    literal = np.array([[x @ Q.T @ K @ y for y in X] for x in X])
    turned = np.array([[x @ Q @ K.T @ y for y in X] for x in X])
    difference = max(require_equal(ours, rows - rows.mean(axis=1, keepdims=True)), require_equal(rows, turned))
    mistake = largest(literal, rows)
    narrow = [mg.tensor(normal(seed, d, d // h)) for seed in (1, 2)]
    message = refusal(lambda: mg.tensor(X) @ (narrow[0].mT @ narrow[1]))
    require(mistake > 0.1 and "cannot be multiplied" in message, f"{mistake:.0e}, {message!r}")
    return (f"for the same Q and K they differ by {mistake:.2f}, and for Q, K of d x d/h the first is a ValueError; "
            f"x_i^T Q K^T x_j is the second ({difference:.0e})")
