"""Note 000: transformers, for matrices whose T rows are tokens of D features."""
import dataclasses
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from models.architectures import make_model
from models.decode import CachedDecoder
from models.encoder_decoder import Classifier, Encoder
from models.generate import draw
from models.task import FIRST
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import MLP, Block, CausalTransformer, TransformerConfig
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    EXACT, check_gradients, influence, largest, layer_norm, longest_chain, normal, plain_attention, refusal,
    require_equal, silence, trained,
)

# ---------------------------------------------------------------- the note's formulas, slowly, in NumPy


def attend(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, is_causal: bool = False) -> np.ndarray:
    """Row t: the sum of exp(q_t . k_s) v_s over s, divided by the sum of exp(q_t . k_s); s ends at t if causal."""
    rows = []
    for t, query in enumerate(queries):
        seen = range(t + 1 if is_causal else len(keys))
        weights = [math.exp(sum(a * b for a, b in zip(query, keys[s]))) for s in seen]
        rows.append(sum(weights[s] * values[s] for s in seen) / sum(weights))
    return np.array(rows)


def mhsa(layer: nn.MultiHeadAttention, x: np.ndarray) -> np.ndarray:
    """What the layer computes, head by head; the factor 1/sqrt(head size) is the note's U_q's to have."""
    weights, biases = (np.split(p.array, 3) for p in (layer.in_proj_weight, layer.in_proj_bias))
    q, k, v = (x @ weight.T + bias for weight, bias in zip(weights, biases))
    size = x.shape[1] // layer.num_heads
    heads = [slice(h * size, (h + 1) * size) for h in range(layer.num_heads)]
    outputs = [attend(q[:, own] / math.sqrt(size), k[:, own], v[:, own]) for own in heads]
    return np.hstack(outputs) @ layer.out_proj.weight.array.T + layer.out_proj.bias.array


def mlp(layer: MLP, x: np.ndarray) -> np.ndarray:
    hidden = x @ layer.expand.weight.array.T + layer.expand.bias.array
    gelu = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return gelu @ layer.project.weight.array.T + layer.project.bias.array


# ---------------------------------------------------------------- layers in the note's form


def make_block(placement: str) -> Block:
    """A small bidirectional block in float64, none of whose parameters is zero or one."""
    block = Block(TransformerConfig(context=8, heads=2, width=4, placement=placement), is_causal=False).double()
    for seed, parameter in enumerate(block.parameters()):
        parameter.data[...] = 0.5 * normal(seed, *parameter.shape)
    return block


def on_rows(block: Block):
    """The block as a function of a single sequence (T, C)."""
    return lambda x: block(x[None])[0]


# ---------------------------------------------------------------- layout and tokens


@claim("L1", note="000")
def rows_are_tokens():
    """The data are a matrix T x D, whose row t is the vector of the t-th token."""
    mg.manual_seed(0)
    ids = [4, 0, 4, 2, 1]
    embedding = nn.Embedding(5, 6).double()
    x = embedding(mg.tensor(ids))
    require(x.shape == (5, 6), f"5 tokens of 6 features have shape {x.shape}")
    require(all(np.array_equal(x.array[t], embedding.weight.array[i]) for t, i in enumerate(ids)), "rows are mixed up")
    attention = plain_attention(6, query_key="none")
    y = attention(x)
    difference = require_equal(y, attend(x.array, x.array, x.array))
    columns = require_equal(plain_attention(6, query_key="none", layout="columns")(x.mT).mT, y)
    require_equal(attention(mg.stack([x, x.flip(0)]))[0], y)
    return f"rows {difference:.0e} from the formula, {columns:.0e} from columns transposed"


@claim("L3", note="000")
def blocks_keep_the_shape():
    """A transformer is M blocks, each of which takes what the one before gave; the output is shaped as the input."""
    x, changes = mg.tensor(normal(0, 2, 5, 8)), []
    for M in range(5):
        mg.manual_seed(M)
        config = TransformerConfig(context=5, layers=M, heads=2, width=8, positions="none", final_norm=False)
        encoder = Encoder(config).double()
        y, one_by_one = encoder(x), x
        for block in encoder.blocks:
            one_by_one = block(one_by_one)
        require(y.shape == x.shape, f"{M} blocks made {y.shape} of {x.shape}")
        require_equal(y, one_by_one)
        changes.append(largest(y, x))
    require(changes[0] == 0 and min(changes[1:]) > 0, f"the input changed by {changes}")
    return f"M = 0 ... 4 keep (2, 5, 8), and change it by {', '.join(f'{change:.2f}' for change in changes)}"


@claim("L4", note="000")
def embeddings_are_learned_or_fixed():
    """A token is the embedding of a word, a part of one or a character, which is learned with the model or fixed."""
    mg.manual_seed(0)
    ids = mg.tensor([[1, 2, 1, 5], [1, 0, 2, 2]])
    learned = nn.Embedding(6, 3).double()
    mg.gradcheck_module(learned, ids, progress=False)
    upstream = normal(0, 2, 4, 3)
    learned(ids).backward(mg.tensor(upstream))
    expected = np.zeros((6, 3))
    for (b, t), i in np.ndenumerate(ids.array):
        expected[i] += upstream[b, t]
    difference = require_equal(learned.weight.grad, expected)

    fixed, head = nn.Embedding(6, 3).double().requires_grad_(False), nn.Linear(3, 2).double()
    before, head_before = fixed.weight.array.copy(), head.weight.array.copy()
    optimizer = nn.optim.AdamW([*fixed.parameters(), *head.parameters()], lr=0.1, weight_decay=0.1)
    head(fixed(ids)).square().sum().backward()
    optimizer.step()
    require(fixed.weight.grad is None and np.array_equal(fixed.weight.array, before), "a fixed embedding has moved")
    moved = largest(head.weight, head_before)
    require(moved > 0, "nothing has moved")
    return f"id 1, met three times: gradient {difference:.0e} from the sum; fixed: moved by 0, the head by {moved:.2f}"


@claim("L5", note="000")
def sets_and_image_patches():
    """Not only sequences: without positions the tokens are a set, and an image can be cut into patches as tokens."""
    image = mg.tensor(normal(0, 2, 1, 8, 8))
    patches = nn.patchify(image, 2)
    require(patches.shape == (2, 16, 4), f"patches of shape {patches.shape}")
    require(np.array_equal(patches.array[1, 5].reshape(2, 2), image.array[1, 0, 2:4, 2:4]), "patch 5 is another one")
    require(np.array_equal(nn.unpatchify(patches, 2, 8, 8).array, image.array), "unpatchify does not undo patchify")

    ids, shuffled = np.arange(3, 9)[None], {}
    for positions in ("none", "sinusoidal"):
        mg.manual_seed(0)
        model = Classifier(TransformerConfig(vocabulary_size=20, context=6, layers=2, heads=2, width=8, dtype="float64",
                                             positions=positions), classes=3)
        shuffled[positions] = largest(model(mg.tensor(ids))[0], model(mg.tensor(ids[:, [3, 0, 5, 1, 4, 2]]))[0])
    require(shuffled["none"] < 1e-15 and shuffled["sinusoidal"] > 1e-6, f"another order changes logits by {shuffled}")

    task = TASKS["stripes"]
    config = TransformerConfig(context=16, layers=1, heads=2, width=32)
    accuracy = task.accuracy(trained(task, "encoder", config, steps=600, batch_size=64, lr=3e-3, warmup_steps=20))
    require(accuracy > 0.95, f"accuracy {accuracy:.1%}")
    return (f"a set shuffled: logits differ by {shuffled['none']:.0e}, with positions {shuffled['sinusoidal']:.0e}; "
            f"stripes in 16 patches: {accuracy:.1%} right after 600 steps")


# ---------------------------------------------------------------- attention


@claim("A1", note="000")
def attention_is_a_weighted_average():
    """Attention is Y = A X with weights that are not negative and sum to 1 in each row; causal ones are triangular."""
    x, worst = normal(1, 7, 6), 0.0
    for query_key in ("none", "shared", "separate"):
        for causal in (False, "mask", "renormalise"):
            mg.manual_seed(0)
            y, weights = plain_attention(6, query_key=query_key, causal=causal)(mg.tensor(x), need_weights=True)
            A = weights.array[0]
            require(A.min() >= 0, f"{query_key}: a weight of {A.min()}")
            require(not causal or not np.triu(A, 1).any(), f"{query_key}: weights of the future")
            seen = [x[: t + 1] if causal else x for t in range(7)]
            outside = max(np.maximum(rows.min(0) - y_t, y_t - rows.max(0)).max() for y_t, rows in zip(y.array, seen))
            worst = max(worst, abs(A.sum(1) - 1).max(), largest(y, A @ x), outside)
    require(worst < EXACT, f"off by {worst:.0e}")
    return f"nine kinds: row sums, A X and the range of the averaged rows within {worst:.0e}"


@claim("A2", note="000")
def similarity_of_tokens_needs_no_parameters():
    """In the simplest self-attention, A_ts is proportional to exp(x_t . x_s), over the row's sum."""
    x = normal(2, 5, 4)
    attention = plain_attention(4, query_key="none")
    count = sum(p.numel() for p in attention.parameters())
    difference = require_equal(attention(mg.tensor(x)), attend(x, x, x))
    require(count == 0, f"{count} parameters")
    mg.gradcheck(attention, mg.tensor(x, requires_grad=True))
    return f"{difference:.0e} from a triple loop, {count} parameters"


@claim("A4", note="000")
def queries_and_keys_break_the_symmetry():
    """With queries U_q x_t and keys U_k x_s of K < D features, t can be relevant for s without the converse."""
    mg.manual_seed(0)
    x = normal(3, 5, 6)
    layer = plain_attention(6, key_size=3)
    U_q, U_k = layer.query.weight.array.copy(), layer.key.weight.array.copy()
    difference = require_equal(layer(mg.tensor(x)), attend(x @ U_q.T, x @ U_k.T, x))
    check_gradients(layer, x)

    def asymmetry():
        scores = layer.query(mg.tensor(x)) @ layer.key(mg.tensor(x)).mT
        return largest(scores, scores.mT)

    separate = asymmetry()
    shared = plain_attention(6, key_size=3, query_key="shared")
    for weight in (shared.query.weight, layer.key.weight):
        weight.data[...] = U_q
    require_equal(layer(mg.tensor(x)), shared(mg.tensor(x)))
    together = asymmetry()
    require(separate > 0.1 and together < EXACT, f"scores asymmetric by {separate:.2g}, with U_q = U_k {together:.0e}")

    square = plain_attention(6, key_size=6)
    for projection in (square.query, square.key):
        projection.weight.data[...] = np.eye(6)
    require_equal(square(mg.tensor(x)), plain_attention(6, query_key="none")(mg.tensor(x)))
    return f"{difference:.0e} from the formula; scores asymmetric by {separate:.2f}, with U_q = U_k by {together:.0e}"


@claim("A5", note="000")
def zeroing_and_renormalising_is_masking():
    """Causal attention: zero the weights of the future and normalise rows again; each row's sum then ends at t."""
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

    steep = mg.tensor(np.array([[1.0, 0.0], [1000.0, 0.0]]))  # seen from row 0, exp(1 - 1000) is 0 in floating point
    kept, lost = (plain_attention(2, query_key="none", causal=causal)(steep).array[0, 0]
                  for causal in ("mask", "renormalise"))
    require(kept == 1 and lost != 1, f"a score of 1000 in the future: {kept} and {lost}, where 1 is right")
    return (f"difference {difference:.0e}; dY_t/dX_s for s > t is 0 with the mask, {leaks[1]:.0e} renormalised; "
            f"beside a future score of 1000, 1 stays {kept:.0f} with the mask, and becomes {lost:.0f} renormalised")


@claim("A10", note="000")
def heads_with_full_rank_read_outs():
    """H heads Y_h = A_h X in parallel, combined as the sum of Y_h V_h^T with a read-out V_h of D x D for each."""
    H, D, K = 3, 6, 2
    mg.manual_seed(0)
    x = normal(7, 5, D)
    layer = plain_attention(D, H, output_projection="sum", key_size=K)
    U_q, U_k = (projection.weight.array.reshape(H, K, D) for projection in (layer.query, layer.key))
    V = layer.out_weights.array
    expected = sum(attend(x @ U_q[h].T, x @ U_k[h].T, x) @ V[h].T for h in range(H))
    difference = require_equal(layer(mg.tensor(x)), expected)
    count = sum(p.numel() for p in layer.parameters())
    require(count == H * (2 * K * D + D * D), f"{count} parameters")
    check_gradients(layer, x)

    single, without = plain_attention(D, output_projection="sum", key_size=K), plain_attention(D, key_size=K)
    single.out_weights.data[0] = np.eye(D)
    without.load_state_dict({name: single.state_dict()[name] for name in without.state_dict()})
    identity = require_equal(single(mg.tensor(x)), without(mg.tensor(x)))
    return f"{difference:.0e} from the sum over heads, {count} = H(2KD + D²) parameters; H = 1, V = I: {identity:.0e}"


@claim("A11", note="000")
def values_are_a_low_rank_read_out():
    """Averaging K-dimensional values U_v x and mapping them back by U_o is a read-out of low rank, K instead of D."""
    H, D, K = 2, 6, 3
    mg.manual_seed(0)
    x = normal(8, 5, D)
    low = plain_attention(D, H, value=True, output_projection="sum", key_size=K, value_size=K)
    full = plain_attention(D, H, output_projection="sum", key_size=K)
    for name in ("query", "key"):
        getattr(full, name).load_state_dict(getattr(low, name).state_dict())
    U_v, U_o = low.value.weight.array.reshape(H, K, D), low.out_weights.array
    full.out_weights.data[...] = U_o @ U_v
    difference = require_equal(low(mg.tensor(x)), full(mg.tensor(x)))
    ranks = [int(np.linalg.matrix_rank(V)) for V in full.out_weights.array]
    require(ranks == [K] * H, f"ranks {ranks} of {D}")
    check_gradients(low, x)
    return f"difference {difference:.0e}, rank of V {ranks[0]} of {D}"


@claim("A20", note="000", verdict="true if edges are left out, or wrap round: rows must also sum to 1")
def distance_only_attention_is_a_convolution():
    """If weights depended on the distance t - s alone, A would be a Toeplitz matrix, and A X a discrete convolution."""
    T, reach = 9, 2
    x = normal(9, T, 4)

    def distance_only(bias):
        """Attention with this bias for the distances 1 - T ... T - 1, and queries and keys of zero: (Y, A)."""
        layer = plain_attention(4, positions="relative", max_distance=T - 1)
        for projection in (layer.query, layer.key):
            nn.init.zeros_(projection.weight)
        layer.relative_bias.data[0] = bias
        y, weights = layer(mg.tensor(x), need_weights=True)
        return y.array, weights.array[0]

    def is_toeplitz_within(A):
        return max(np.ptp(np.diag(A, d)) for d in range(1 - len(A), len(A)))

    distances = np.arange(1 - T, T)
    bias = np.where(abs(distances) <= reach, normal(10, 2 * T - 1), -1000.0)
    y, A = distance_only(bias)
    inside = slice(reach, T - reach)
    a = A[reach, : 2 * reach + 1][::-1]  # by distance, from -reach to reach
    convolved = np.stack([np.convolve(feature, a, "valid") for feature in x.T], axis=1)
    difference = require_equal(y[inside], convolved)
    edge = is_toeplitz_within(A)
    require(edge > 0.1, f"Toeplitz within {edge:.2g}")

    y, A = distance_only(normal(11, T)[distances % T])
    circular = np.array([sum(A[d, 0] * x[(t - d) % T] for d in range(T)) for t in range(T)])
    wrapped, toeplitz = require_equal(y, circular), is_toeplitz_within(A)
    require(toeplitz < EXACT, f"Toeplitz within {toeplitz:.0e}")
    return (f"np.convolve away from edges {difference:.0e}, at edges A is off Toeplitz by {edge:.2f}; "
            f"bias of period T: Toeplitz within {toeplitz:.0e}, circular convolution {wrapped:.0e}")


# ---------------------------------------------------------------- token-wise part, residual connections, norms


@claim("M1", note="000")
def the_mlp_works_token_by_token():
    """After attention, one and the same small network is applied to each token by itself."""
    mg.manual_seed(0)
    layer = MLP(TransformerConfig(heads=1, width=4)).double()
    y = normal(12, 5, 4)
    x = layer(mg.tensor(y))
    require_equal(np.vstack([layer(mg.tensor(y[t : t + 1])).array for t in range(5)]), x)
    order = np.random.default_rng(0).permutation(5)
    permuted = require_equal(layer(mg.tensor(y[order])), x[order])
    require_equal(x, mlp(layer, y))
    reach, same = influence(layer, y[None]), np.eye(5, dtype=bool)
    own, others = reach[same].max(), reach[~same].max()
    require(others == 0 and own > 0, f"|dx_t / dy_s| up to {others:.0e} for s != t")
    check_gradients(layer, y)
    return f"|dx_t/dy_s| is {others:.0f} for s != t, {own:.2f} for s = t; permuted tokens differ by {permuted:.0e}"


@claim("R0", note="000")
def a_block_without_residual_connections():
    """At first X is the output of the token-wise network itself, which reads that of attention."""
    x, block = normal(13, 3, 4), make_block("none")
    difference = require_equal(on_rows(block)(mg.tensor(x)), mlp(block.mlp, mhsa(block.attention, x)))
    require(not any(isinstance(module, nn.LayerNorm) for module in block.modules()), "there is a norm")
    check_gradients(block, x[None])
    silent = silence(block)
    left, slope = on_rows(silent)(mg.tensor(x)), mg.jacobian(on_rows(silent), mg.tensor(x))
    require(not left.array.any() and not slope.array.any(), "something passes a block of zeros")
    return f"{difference:.0e} from mlp(mhsa(X)); with zero weights nothing is left of X, nor of its gradient"


@claim("R1", note="000")
def residual_connections_start_at_the_identity():
    """Residual connections: Y = X + mhsa(X), X = Y + mlp(Y), so that only what is to be changed is learned."""
    x, block = normal(14, 3, 4), make_block("residual")
    y = x + mhsa(block.attention, x)
    difference = require_equal(on_rows(block)(mg.tensor(x)), y + mlp(block.mlp, y))
    check_gradients(block, x[None])
    silent = silence(block)
    jacobian = mg.jacobian(on_rows(silent), mg.tensor(x)).array.reshape(12, 12)
    require(np.array_equal(on_rows(silent)(mg.tensor(x)).array, x), "zero weights are not the identity")
    require(np.array_equal(jacobian, np.eye(12)), "its Jacobian is not I")
    return f"{difference:.0e} from the formula; with zero weights the block is the identity, its Jacobian I, exactly"


@claim("R4", note="000")
def layer_norm_before_both_halves():
    """With the norm: X' = LN(X), Y = X' + mhsa(X'), Y' = LN(Y), X = Y' + mlp(Y'); that is one transformer block."""
    x, block, pre = normal(15, 3, 4), make_block("inner"), make_block("pre")
    x_normed = layer_norm(block.ln_1, x)
    y_normed = layer_norm(block.ln_2, x_normed + mhsa(block.attention, x_normed))
    difference = require_equal(on_rows(block)(mg.tensor(x)), y_normed + mlp(block.mlp, y_normed))
    check_gradients(block, x[None])
    out, out_of_pre = (on_rows(silence(each))(mg.tensor(x)) for each in (block, pre))
    require_equal(out, layer_norm(block.ln_2, layer_norm(block.ln_1, x)))
    away = largest(out, x)
    require(away > 0.1 and largest(out_of_pre, x) == 0, f"{away:.2g} away from X")
    return (f"{difference:.0e} from the formula; with zero weights LN(LN(X)), {away:.2f} away from X, "
            "where pre-norm is the identity")


@claim("N1", note="000", verdict="true if no token is constant")
def layer_norm_has_no_epsilon():
    """Layer norm: (x - mean) / std, with 1/D in both and nothing added to std, times gamma, plus beta."""
    x, layer = normal(16, 4, 6), nn.LayerNorm(6, eps=0.0).double()
    layer.weight.data[...], layer.bias.data[...] = normal(17, 6), normal(18, 6)
    difference = require_equal(layer(mg.tensor(x)), layer_norm(layer, x))
    check_gradients(layer, x)
    constant = mg.ones(1, 6, dtype=mg.float64)
    with np.errstate(all="ignore"):
        broken = layer(constant).array
    mended = nn.LayerNorm(6).double()(constant).array
    require(np.isnan(broken).all() and not mended.any(), f"constant token: {broken[0, 0]}, and {mended[0, 0]}")
    return f"eps = 0: {difference:.0e} from the formula; a constant token gives NaN, with eps = 1e-5 zeros"


@claim("N6", note="000")
def layer_norm_is_a_z_score():
    """Layer norm amounts to the z-score of each token over its features."""
    x, layer = normal(19, 4, 6), nn.LayerNorm(6, eps=0.0, elementwise_affine=False)
    y = layer(mg.tensor(x)).array
    mean, std = abs(y.mean(1)).max(), abs(y.std(1) - 1).max()
    moved = largest(layer(mg.tensor(3.0 * x - 2.0)), y)
    leaf = mg.tensor(x, requires_grad=True)
    layer(leaf).backward(mg.tensor(normal(20, 4, 6)))
    gradient = leaf.grad.array
    along = max(abs(gradient.sum(1)).max(), abs((gradient * y).sum(1)).max())
    require(max(mean, std, moved, along) < EXACT, f"{mean:.0e}, {std:.0e}, {moved:.0e}, {along:.0e}")
    require(abs(gradient).max() > 0.1, "there is no gradient")
    return (f"mean {mean:.0e}, std within {std:.0e} of 1; LN(3x - 2) - LN(x) {moved:.0e}; "
            f"dL/dx along 1 and LN(x) {along:.0e}")


@claim("P1", note="000")
def positions_are_added_to_content():
    """A simple way to tell where a token stands: x_t = c_t + p_t, content plus position."""
    mg.manual_seed(0)
    B, T, D = 3, 4, 6
    encoding = nn.PositionEncoding("learned", D, size=7).double()
    content = mg.tensor(normal(21, B, T, D), requires_grad=True)
    x = encoding(content)
    require(np.array_equal(x.array, content.array + encoding.weight.array[:T]), "it is not the sum")
    x.tanh().backward(mg.tensor(normal(22, B, T, D)))
    gradient = encoding.weight.grad.array.copy()
    difference = require_equal(gradient[:T], content.grad.array.sum(0))
    require(not gradient[T:].any(), "positions that are not there have a gradient")

    encoding.zero_grad()
    embedding, ids = nn.Embedding(9, D).double(), mg.tensor([5, 3, 8, 0])  # each once, so that rows do not add up
    F.embedding(ids, embedding.weight, positions=encoding.weight).tanh().backward(mg.tensor(normal(23, T, D)))
    both = require_equal(embedding.weight.grad.array[ids.array], encoding.weight.grad.array[:T])
    check_gradients(encoding, normal(24, T, D))
    return f"gradients of content, summed over the batch, and position differ by {difference:.0e}; fused by {both:.0e}"


# ---------------------------------------------------------------- read-out, sampling, training


@claim("T1", note="000")
def the_next_token_is_drawn_from_a_softmax():
    """The next of V tokens is categorical, with the probabilities softmax(W x_t), where W is V x D."""
    mg.manual_seed(0)
    V, T, generator = 50, 32, np.random.default_rng(0)
    config = TransformerConfig(vocabulary_size=V, context=T, layers=2, heads=2, width=16, dtype="float64")
    model = CausalTransformer(config)
    last = []
    model.ln_f.register_forward_hook(lambda module, inputs, output: last.append(output))
    tokens, targets = (mg.tensor(generator.integers(0, V, (8, T))) for _ in range(2))
    logits, loss = model(tokens, targets)
    W = model.token_embedding.weight.array
    require(W.shape == (V, 16) and largest(logits, last[0].array @ W.T) < EXACT, "logits are not W x")
    excess = loss.item() - math.log(V)
    require(abs(excess) < 0.05, f"the first loss is {loss.item():.3f}, ln V {math.log(V):.3f}")

    count, scores = 100_000, normal(25, 8)
    drawn = draw(np.tile(scores, (count, 1)), 1.0, None, None, generator)
    expected = count * np.exp(scores) / np.exp(scores).sum()
    chi_square = ((np.bincount(drawn, minlength=8) - expected) ** 2 / expected).sum()
    require(chi_square < 18.48, f"chi-square {chi_square:.1f}, of 7 degrees of freedom 1 % exceed 18.48")
    return f"first loss {loss.item():.3f}, ln V {math.log(V):.3f}; 1e5 draws of 8: chi-square {chi_square:.1f} < 18.48"


@claim("T2", note="000")
def predicting_is_parallel_and_sampling_is_not():
    """All positions of a sequence are predicted in parallel, but sampling still takes linear time."""
    T, tokens = 12, np.random.default_rng(0).integers(0, 11, (2, 12))
    differences = {}
    for dtype in ("float64", "float32"):
        mg.manual_seed(0)
        config = TransformerConfig(vocabulary_size=11, context=T, layers=2, heads=2, width=16, dtype=dtype)
        model = CausalTransformer(config)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.2)
        decoder, steps, cached = CachedDecoder(model, batch_size=2), [], []
        with mg.no_grad():
            with mg.count_flops() as at_once:
                parallel = model(mg.tensor(tokens))[0].array
            with mg.count_flops() as one_by_one:
                for t in range(1, T + 1):
                    steps.append(model(mg.tensor(tokens[:, :t]))[0].array[:, -1])
        for t in range(1, T + 1):
            cached.append(decoder.logits(tokens[:, :t]).copy())
        differences[dtype] = max(largest(parallel, np.stack(each, axis=1)) for each in (steps, cached))
    require(differences["float64"] < EXACT and differences["float32"] < 1e-5, f"they differ by {differences}")
    ratio = one_by_one.total / at_once.total
    require(ratio > 5, f"without a cache it takes {ratio:.1f} times as much")
    return (f"1 call or {T}: logits differ by {differences['float64']:.0e}, in float32 {differences['float32']:.0e}; "
            f"without a cache the {T} calls take {ratio:.1f} times the multiply-adds")


@claim("T3", note="000")
def adam():
    """Standard practice is to use the Adam optimiser."""
    lr, beta1, beta2, eps = 0.1, 0.9, 0.999, 1e-8
    start, c = normal(26, 6), normal(27, 6)
    parameter = nn.Parameter(mg.tensor(start))
    optimizer = nn.optim.Adam([parameter], lr=lr)
    p, m, v, worst = start.copy(), np.zeros(6), np.zeros(6), 0.0
    for step in range(1, 11):
        optimizer.zero_grad()
        (parameter.sin() * mg.tensor(c) + parameter.square()).sum().backward()
        optimizer.step()
        g = np.cos(p) * c + 2 * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        p = p - lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + eps)
        worst = max(worst, largest(parameter, p))
        if step == 1:
            first = float(np.abs(np.abs(parameter.array - start) - lr).max())
            uncorrected = (1 - beta1) / math.sqrt(1 - beta2)
    require(worst < EXACT and first < 1e-8, f"difference {worst:.0e}, first step {first:.0e} from lr")
    return f"10 steps within {worst:.0e}; the first is lr within {first:.0e}, uncorrected {uncorrected:.2f} lr"


@claim("T4", note="000")
def gradients_are_clipped():
    """Another trick: gradient clipping."""
    gradients = [[scale * normal(28 + i, 3, 2), scale * normal(38 + i, 4)] for i, scale in enumerate((0.1, 10.0, 1.0))]

    def make():
        return [nn.Parameter(mg.tensor(normal(48, 3, 2))), nn.Parameter(mg.tensor(normal(49, 4)))]

    by_hand, at_once, unclipped = make(), make(), make()
    optimizers = [nn.optim.Adam(by_hand, lr=0.1), nn.optim.Adam(at_once, lr=0.1, max_grad_norm=1.0),
                  nn.optim.Adam(unclipped, lr=0.1)]
    norms = []
    for both in gradients:
        for parameters in (by_hand, at_once, unclipped):
            for parameter, gradient in zip(parameters, both):
                parameter.grad = mg.tensor(gradient)
        norm = math.sqrt(sum((g**2).sum() for g in both))
        require(abs(nn.optim.clip_grad_norm_(by_hand, 1.0) - norm) < EXACT * norm, f"the norm is not {norm}")
        clipped = np.concatenate([parameter.grad.array.ravel() for parameter in by_hand])
        whole = np.concatenate([g.ravel() for g in both])
        norms.append((norm, float(np.linalg.norm(clipped))))
        cosine = clipped @ whole / (norms[-1][0] * norms[-1][1])
        require(norms[-1][1] <= 1 and abs(cosine - 1) < EXACT, f"norm {norms[-1]}, cosine {cosine}")
        require(norm > 1 or np.array_equal(clipped, whole), "a short gradient was changed")
        for optimizer in optimizers:
            optimizer.step()
    same, other = (max(largest(p, q) for p, q in zip(by_hand, each)) for each in (at_once, unclipped))
    require(same < EXACT and other > 1e-3, f"within the step {same:.0e}, without {other:.0e}")
    lengths = ", ".join(f"{before:.2f} -> {after:.2f}" for before, after in norms)
    return f"norms {lengths}, direction kept; within Adam's step the same to {same:.0e}"


@claim("T5", note="000")
def learning_rates_are_annealed():
    """Another trick: schedules that anneal the learning rate."""
    warmup, total, peak, floor = 10, 110, 2.0, 0.2
    rates = [nn.optim.warmup_annealing(s, warmup_steps=warmup, total_steps=total, peak=peak, floor=floor)
             for s in (0, warmup, (warmup + total) // 2, total)]
    expected = [peak / (warmup + 1), peak, (peak + floor) / 2, floor]
    require(np.allclose(rates, expected, rtol=EXACT), f"rates {rates}, not {expected}")
    every = [nn.optim.warmup_annealing(s, warmup_steps=warmup, total_steps=total, peak=peak) for s in range(total + 1)]
    require(all(np.diff(every[: warmup + 1]) > 0) and all(np.diff(every[warmup:]) < 0), "not up and then down")

    optimizer = nn.optim.SGD([nn.Parameter(mg.zeros(1))], lr=peak)
    schedule, difference = nn.optim.CosineAnnealingLR(optimizer, T_max=total - warmup), 0.0
    for rate in every[warmup:]:
        difference = max(difference, abs(optimizer.param_groups[0]["lr"] - rate))
        schedule.step()
    require(difference < EXACT, f"the scheduler differs by {difference:.0e}")
    names = "start", "warm", "middle", "end"
    table = ", ".join(f"{name} {rate:.2f}" for name, rate in zip(names, rates))
    return f"{table}; the scheduler differs by {difference:.0e}"


@claim("T6", note="000")
def minibatches_grow():
    """Another trick: minibatches of increasing size."""
    sizes = []
    copy_task = TASKS["copy"]

    def make(generator, count, length):
        sizes.append(count)
        return copy_task.make(generator, count, length)

    noting = dataclasses.replace(copy_task, make=make, lengths=(4, 4))
    config = TransformerConfig(context=16, layers=1, heads=2, width=16, dtype="float64")
    growing = TrainingConfig.of(noting, steps=9, batch_size=4, final_batch_size=16, lr=1e-3)
    Trainer(make_model(noting, "causal", config), noting, growing).train()
    require(sizes == [4] * 3 + [8] * 3 + [16] * 3, f"batches of {sizes}")

    model = make_model(copy_task, "encoder-decoder", config)
    tokens = mg.tensor(np.random.default_rng(0).integers(FIRST, copy_task.vocabulary_size, (3, 8, 5)))
    gradients = []
    for parts in (1, 4):
        model.zero_grad()
        for part in range(parts):
            own = slice(part * 8 // parts, (part + 1) * 8 // parts)
            (model(*tokens[:, own].unbind(0))[1] / parts).backward()
        gradients.append([p.grad.array.copy() for p in model.parameters() if p.grad is not None])
    difference = max(require_equal(a, b) for a, b in zip(*gradients, strict=True))

    ways = {"batch_size": 32}, {"batch_size": 8, "accumulation": 4}
    of_one_length = dataclasses.replace(copy_task, lengths=(4, 4))
    trainings = [TrainingConfig.of(copy_task, steps=5, warmup_steps=2, **way) for way in ways]
    losses = [Trainer(make_model(copy_task, "encoder-decoder", config), of_one_length, training).train()
              for training in trainings]
    apart = max(abs(a - b) for a, b in zip(*losses))
    require(apart < 1e-9, f"losses differ by {apart:.0e}")
    return (f"batches {', '.join(map(str, sizes))}; the mean over 4 quarters: gradient {difference:.0e}, "
            f"losses of 5 steps {apart:.0e}")


@claim("T7", note="000")
def dropout():
    """Another trick: dropout."""
    mg.manual_seed(0)
    p, count = 0.3, 40_000
    layer, x = nn.Dropout(p), normal(29, 10)
    mean = layer(mg.tensor(np.tile(x, (count, 1)))).array.mean(0)
    deviations = abs(mean - x) / (abs(x) * math.sqrt(p / (1 - p) / count))
    require(deviations.max() < 4, f"the mean is {deviations.max():.1f} standard errors off")
    leaf = mg.tensor(np.tile(x, (20, 1)), requires_grad=True)
    y = layer(leaf)
    y.sum().backward()
    require(np.array_equal(leaf.grad.array == 0, y.array == 0), "the gradient has another mask")
    difference = require_equal(leaf.grad.array * leaf.array, y)
    kept = float((y.array != 0).mean())
    require(0.5 < kept < 0.9, f"{kept:.0%} kept")
    mg.gradcheck(layer, mg.tensor(x, requires_grad=True))
    layer.eval()
    require(np.array_equal(layer(mg.tensor(x)).array, x), "it is not the identity in evaluation")
    return (f"mean of {count} masks within {deviations.max():.1f} standard errors of x; "
            f"gradient times x is the output within {difference:.0e}")


# ---------------------------------------------------------------- complexity


@claim("C2", note="000")
def attention_is_quadratic_and_an_rnn_sequential():
    """Attention costs O(T²), which all happens at once; an RNN takes O(T) steps, each of which waits for the last."""
    D, lengths = 8, (8, 16, 32)
    mg.manual_seed(0)
    attention, rnn = nn.MultiHeadAttention(D, 2), nn.RNN(D, D)
    pairs, depths = [], []
    for T in lengths:
        x = mg.randn(1, T, D)
        with mg.count_flops() as of_attention:
            y = attention(x)
        with mg.count_flops() as of_rnn:
            states, _ = rnn(x)
        linear = of_attention.forward_counts["Linear"]
        pairs.append(of_attention.total - linear)
        depths.append((longest_chain(y), longest_chain(states)))
        require(linear == 4 * T * D**2 and pairs[-1] == 2 * T**2 * D, f"T = {T}: {of_attention.forward_counts}")
        require(of_rnn.total == T * D**2 + (T - 1) * D**2, f"T = {T}: {of_rnn.forward_counts}")
    of_attention, of_rnn = zip(*depths)
    each = (of_rnn[1] - of_rnn[0]) // 8
    require(len(set(of_attention)) == 1, f"attention's operations in a row: {of_attention}")
    require(each >= 1 and of_rnn[2] - of_rnn[1] == 16 * each, f"an RNN's operations in a row: {of_rnn}")
    return (f"T = 8, 16, 32: 2 T² D = {pairs} multiply-adds in {of_attention[0]} operations in a row; "
            f"RNN (2 T - 1) D², in {', '.join(map(str, of_rnn))}")


@claim("C3", note="000")
def the_mlp_can_dominate():
    """The MLP is at least D wide inside and costs O(T D²), which dominates if tokens have very many features."""
    shares = []
    for T, D in ((4, 64), (32, 16), (128, 8)):
        block = Block(TransformerConfig(context=T, heads=1, width=D), is_causal=False)
        with mg.count_flops() as count:
            block(mg.zeros(1, T, D))
        of_mlp = count.forward_counts["MLP"]
        attention = count.total - of_mlp
        require(of_mlp == 8 * T * D**2, f"T = {T}, D = {D}: {of_mlp} multiply-adds of the MLP")
        require(attention == 4 * T * D**2 + 2 * T**2 * D, f"T = {T}, D = {D}: {attention} of attention")
        shares.append(of_mlp / count.total)
    require(shares[0] > 0.6 and shares[1] == 0.5 and shares[2] < 0.2, f"shares {shares}")
    return f"8 T D² of 12 T D² + 2 T² D: {shares[0]:.0%} at T = D/16, {shares[1]:.0%} at 2 D, {shares[2]:.0%} at 16 D"


# ---------------------------------------------------------------- errata


@claim("E3", note="000", verdict=FALSE)
def the_read_out_is_the_product_with_a_transpose():
    """The low-rank read-out that values and outputs amount to is written V = U_o U_v^T; it is V = U_o U_v."""
    D, x = 6, normal(30, 5, 6)

    def low_and_full(K):
        mg.manual_seed(0)
        low = plain_attention(D, value=True, output_projection="sum", key_size=2, value_size=K)
        full = plain_attention(D, output_projection="sum", key_size=2)
        for name in ("query", "key"):
            getattr(full, name).load_state_dict(getattr(low, name).state_dict())
        return low, full

    low, full = low_and_full(K=3)
    message = refusal(lambda: low.out_weights[0] @ low.value.weight.mT)
    full.out_weights.data[0] = low.out_weights.array[0] @ low.value.weight.array
    right = require_equal(low(mg.tensor(x)), full(mg.tensor(x)))
    require("cannot be multiplied" in message, message)

    low, full = low_and_full(K=D)  # the only size for which the literal product exists
    full.out_weights.data[0] = low.out_weights.array[0] @ low.value.weight.array.T
    wrong = largest(low(mg.tensor(x)), full(mg.tensor(x)))
    require(wrong > 0.01, f"U_o U_v^T differs by {wrong:.0e} only")
    return f"U_o U_v^T: (6, 3) by (6, 3) does not multiply, and for K = D is off by {wrong:.2f}; U_o U_v: {right:.0e}"


@claim("E13", note="000", verdict=FALSE)
def the_block_is_that_of_the_introduction():
    """The note follows Turner's introduction, which is note 002, up to notation. There the MLP's result is added to
    Y, here to LN(Y): two blocks."""
    x, here, there = normal(31, 3, 4), make_block("inner"), make_block("mixed")
    here_out, there_out = (on_rows(block)(mg.tensor(x)) for block in (here, there))
    once = layer_norm(there.ln_1, x)
    y = once + mhsa(there.attention, once)
    require_equal(there_out, y + mlp(there.mlp, layer_norm(there.ln_2, y)))
    apart = largest(here_out, there_out)
    require(apart > 0.1, f"blocks {apart:.2g} apart")
    check_gradients(there, x[None])
    of_here, of_there = (on_rows(silence(block))(mg.tensor(x)) for block in (here, there))
    require_equal(of_here, layer_norm(here.ln_2, once))
    require_equal(of_there, once)
    return f"the same weights give outputs {apart:.2f} apart; with zero weights LN(LN(X)) here, LN(X) there"
