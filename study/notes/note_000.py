"""Note 000: transformers, for matrices whose T rows are tokens of D features."""
import dataclasses
import math

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.architectures import make_model
from models.decode import CachedDecoder
from models.encoder_decoder import Classifier, Encoder
from models.generate import draw
from models.task import FIRST, Task
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig, TrainingError
from models.transformer import MLP, Block, CausalTransformer, TransformerConfig
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    EXACT, Spread, check_gradients, influence, largest, layer_norm, longest_chain, normal, over_seeds, plain_attention,
    refusal, require_causal, require_equal, silence, softmax, trained,
)

ATTENTION, TRANSFORMER = "nn/attention.py:Attention", "models/transformer.py"  # where most of it stands
HEADS = 2  # of the blocks below

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
    size = x.shape[1] // HEADS
    heads = [slice(h * size, (h + 1) * size) for h in range(HEADS)]
    outputs = [attend(q[:, own] / math.sqrt(size), k[:, own], v[:, own]) for own in heads]
    return np.hstack(outputs) @ layer.out_proj.weight.array.T + layer.out_proj.bias.array


def mlp(layer: MLP, x: np.ndarray) -> np.ndarray:
    hidden = x @ layer.expand.weight.array.T + layer.expand.bias.array
    gelu = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return gelu @ layer.project.weight.array.T + layer.project.bias.array


# ---------------------------------------------------------------- layers and tasks for this note


def make_block(placement: str) -> Block:
    """A small bidirectional block in float64, none of whose parameters is zero or one."""
    block = Block(TransformerConfig(context=8, heads=HEADS, width=4, placement=placement), is_causal=False).double()
    for seed, parameter in enumerate(block.parameters()):
        parameter.data[...] = 0.5 * normal(seed, *parameter.shape)
    return block


def on_rows(block: Block):
    """The block as a function of a single sequence (T, C)."""
    return lambda x: block(x[None])[0]


def of_one_length(name: str, length: int) -> Task:
    return dataclasses.replace(TASKS[name], lengths=(length, length))


# ---------------------------------------------------------------- the opening


@claim("C2", note="000", section="Transformers", formula="RNN: O(T) time; attention: O(T^2) cost (Conclusion)",
       ours="nn.RNN(D, D), nn.MultiHeadAttention(D, 2), mg.count_flops()", code="nn/recurrent.py:RNN, minigrad/flops.py",
       also=("000: Conclusion", "001: Lack of Parallelizability", "001: Problems"))
def attention_is_quadratic_and_an_rnn_sequential():
    """Evaluating an RNN and its gradients takes O(T) time, which is a severe limitation; a transformer processes an
    entire sequence in parallel. The cost of attention is O(T²)."""
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
    return (f"for 8, 16 and 32 tokens attention takes 2 T² D = {', '.join(map(str, pairs))} multiply-adds beside its "
            f"projections, but always {of_attention[0]} operations in a row; an RNN takes (2 T - 1) D², but "
            f"{', '.join(map(str, of_rnn))} operations, each of which waits for the one before, and backward walks the "
            "same chain")


# ---------------------------------------------------------------- preliminaries


@claim("L1", note="000", section="Preliminaries", formula="X^(0) in R^(T x D), with row x_t^(0) in R^D",
       ours='nn.Embedding(V, D)(ids), nn.Attention(D, layout="rows")', code=f"nn/embedding.py:Embedding, {ATTENTION}",
       also=("001: Sequence-Stacked form of attention", "003: Transformer processing"))
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
    return ("five ids become the rows of a 5 x 6 matrix, and attention of rows is the formula's, within "
            f"{difference:.0e}; a matrix of columns, as in note 002, gives the transpose of it, within {columns:.0e}")


@claim("L4", note="000", section="Preliminaries",
       formula="the tokens could be a vector embedding of a word, sub-word, or character ... fixed or learned",
       ours="nn.Embedding(V, D), nn.Embedding(V, D).requires_grad_(False)", code="nn/embedding.py:Embedding")
def embeddings_are_learned_or_fixed():
    """A token is the embedding of a word, a part of a word or a character, which is learned with the model or fixed."""
    words = [["un", "lock"], ["re", "lock"], ["un", "lock", "ed"]]  # in parts; the command itself tokenises by characters
    parts = [part for word in words for part in word]
    units = {"words": ["".join(word) for word in words], "parts": parts, "characters": list("".join(parts))}
    worst, vocabulary = 0.0, {}
    for seed, (unit, tokens) in enumerate(units.items()):
        mg.manual_seed(seed)
        vocabulary[unit] = sorted(set(tokens))
        ids = np.array([[vocabulary[unit].index(token) for token in tokens]])
        learned, upstream = nn.Embedding(len(vocabulary[unit]), 3).double(), normal(seed, 1, len(tokens), 3)
        mg.gradcheck_module(learned, mg.tensor(ids), progress=False)
        learned(mg.tensor(ids)).backward(mg.tensor(upstream))
        expected = np.zeros(learned.weight.shape)
        for (b, t), i in np.ndenumerate(ids):
            expected[i] += upstream[b, t]
        worst = max(worst, require_equal(learned.weight.grad, expected))

    mg.manual_seed(0)
    ids = mg.tensor([[1, 2, 1, 5], [1, 0, 2, 2]])
    fixed, head = nn.Embedding(6, 3).double().requires_grad_(False), nn.Linear(3, 2).double()
    before, head_before = fixed.weight.array.copy(), head.weight.array.copy()
    optimizer = nn.optim.AdamW([*fixed.parameters(), *head.parameters()], lr=0.1, weight_decay=0.1)
    head(fixed(ids)).square().sum().backward()
    optimizer.step()
    require(fixed.weight.grad is None and np.array_equal(fixed.weight.array, before), "a fixed embedding has moved")
    moved = largest(head.weight, head_before)
    require(moved > 0, "nothing has moved")
    sizes = ", ".join(f"{len(found)} {unit}" for unit, found in vocabulary.items())
    return (f"one layer serves {sizes} of a text; the vector of \"lock\", a part of three words, gets the sum of "
            f"their gradients (difference {worst:.0e}); in a step of AdamW a fixed embedding stays as it is, and the "
            f"layer above it moves by {moved:.2f}")


@claim("L3", note="000", section="Preliminaries", formula="X^(m) = transformer-block(X^(m-1))",
       ours="models.Encoder(TransformerConfig(layers=M, final_norm=False))", code="models/encoder_decoder.py:Encoder",
       also=("002: Transformer block", "003: Transformer layers"))
def blocks_keep_the_shape():
    """A transformer is a stack of M blocks, each of which takes what the one before gave; the output has the shape of
    the input."""
    x, changes = mg.tensor(normal(0, 2, 5, 8)), []
    for M in range(5):
        mg.manual_seed(M)
        config = TransformerConfig(context=5, layers=M, heads=2, width=8, positions="none", final_norm=False)
        encoder = Encoder(config).double()
        y, one_by_one = encoder(x), x
        require(len(encoder.blocks) == M, f"{len(encoder.blocks)} blocks instead of {M}")
        for block in encoder.blocks:
            one_by_one = block(one_by_one)
        require(y.shape == x.shape, f"{M} blocks made {y.shape} of {x.shape}")
        require_equal(y, one_by_one)
        changes.append(largest(y, x))
    require(changes[0] == 0 and min(changes[1:]) > 0, f"the input changed by {changes}")
    return ("a batch (2, 5, 8) keeps its shape through 0 to 4 blocks, applied one after another; none is the "
            f"identity, and four change it by up to {changes[4]:.1f}")


# ---------------------------------------------------------------- attention


@claim("A1", note="000", section="Attention", formula="Y = A X, sum_s A_ts = 1 for all t; causal: A_ts = 0 for all t < s",
       ours='nn.Attention(6, causal=False | "mask" | "renormalise")(x, need_weights=True)', code=ATTENTION,
       also=("003: Attention coefficients", "004: Self-Attention"))
def attention_is_a_weighted_average():
    """Attention is just a weighted average, Y = A X, with weights that are not negative and sum to 1 in each row. For
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
    return ("for nine kinds of attention, causal or not, rows of weights sum to 1, and no feature of an output lies "
            f"outside the range of those that were averaged, within {worst:.0e}")


# ---------------------------------------------------------------- self-attention


@claim("A2", note="000", section="Self-Attention", formula="A_ts = exp{x_t^T x_s} / sum_s' exp{x_t^T x_s'}",
       ours='nn.Attention(D, query_key="none", value=False, output_projection="none", scale="none")', code=ATTENTION,
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
    return ("attention without any parameter is a triple loop over rows, keys and features, within "
            f"{difference:.0e}, and tokens have a gradient as queries, keys and values at once")


@claim("A24", note="000", section="Self-Attention",
       formula="A_ts = exp{x_t^T x_s} / sum_s' exp{x_t^T x_s'}: attention depends equally on all D dimensions",
       ours='nn.Attention(D, query_key="none"), and query_key="shared", key_size=K', code=ATTENTION,
       also=("003: Network parameters",))
def plain_attention_depends_equally_on_all_dimensions():
    """With the similarity x_t . x_s attention depends equally on all D dimensions of the embedding, though some of them
    may be of more or less relevance. A projection to a feature space allows for that."""
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
    return (f"rotating all tokens, X R for an orthogonal R, leaves the weights as they are, within {plain:.0e}: no "
            f"dimension is special; with a projection to 2 of {D} features they change by {projected:.2f}")


@claim("A3", note="000", section="Self-Attention",
       formula="A_ts = exp{(U x_t)^T (U x_s)} / sum_s' exp{(U x_t)^T (U x_s')}, U in R^(K x D), K < D",
       ours='nn.Attention(D, query_key="shared", key_size=K)', code=ATTENTION, also=("002: Self-attention",))
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
    return (f"the weights are the formula's, within {max(differences):.0e}; its numerators are the same for t, s and "
            f"s, t, but each row is divided by a sum of its own, so that weights differ by up to {asymmetries:.2f} "
            "(5 seeds)")


@claim("A4", note="000", section="Self-Attention",
       formula="A_ts = exp{(U_q x_t)^T (U_k x_s)} / sum_s' exp{(U_q x_t)^T (U_k x_s')}, U_q, U_k in R^(K x D)",
       ours='nn.Attention(D, query_key="separate", key_size=K)', code=ATTENTION, also=("002: Self-attention",))
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
    return (f"with two projections the scores of t, s and s, t differ by up to {separate:.1f}, with U_q = U_k by "
            f"{together:.0f}; the output is the formula's, within {difference:.0e}, and U_q = U_k = I is attention "
            "without parameters")


@claim("A5", note="000", section="Causal attention", verdict="true if the weights of the past do not underflow",
       formula="A_ts = exp{(U_q x_t)^T (U_k x_s)} / sum_(s'=1)^t exp{(U_q x_t)^T (U_k x_s')} * I[t >= s]",
       ours='nn.Attention(D, causal="renormalise") and nn.Attention(D, causal="mask")', code=ATTENTION,
       also=("001: 3. Masking the future in self-attention",))
def zeroing_and_renormalising_is_masking():
    """To enforce causality, simply zero out the upper triangle of the attention matrix and normalise the rows again: each
    row's sum then ends at t."""
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
    return (f"masking the scores with -inf gives the same, within {difference:.0e}, and is safer: with the mask no "
            f"gradient flows back from the future, and renormalised weights leak {leaks[1]:.0e} of rounding; beside "
            f"a future score of 1000 the past's weight underflows, so that a token of 1 stays {kept:.0f} with the "
            f"mask and becomes {lost:.0f} when renormalised")


@claim("G11", note="000", section="Comparison to RNNs",
       formula="a transformer with causal attention can directly attend to any one of the past tokens",
       ours='nn.Attention(D, causal="mask"), beside nn.RNN(D, D)', code=f"{ATTENTION}, nn/recurrent.py:RNN")
def causal_attention_reaches_any_past_token_directly():
    """An RNN propagates information about past tokens via a hidden state; with causal attention a transformer can
    directly attend to any one of the past tokens."""
    T, x, worst = 6, np.eye(6), 0.0
    layer = plain_attention(T, causal="mask")
    layer.key.weight.data[...] = np.eye(T)
    for distance in range(1 - T, T):
        wanted = np.clip(np.arange(T) - distance, 0, T - 1)  # which token each of them looks for
        layer.query.weight.data[...] = 100 * x[wanted].T
        y, weights = layer(mg.tensor(x), need_weights=True)
        is_past = wanted <= np.arange(T)
        worst = max(worst, require_equal(weights[0].array[is_past], x[wanted][is_past]),
                    require_equal(y.array[is_past], x[wanted][is_past]))
        hidden = weights[0].array[np.arange(T), wanted][~is_past]
        require(not hidden.any(), f"a later token has the weight {hidden.max(initial=0):.0e}")

    mg.manual_seed(0)
    rnn, text = nn.RNN(4, 4).double(), mg.tensor(normal(34, 1, T, 4), requires_grad=True)
    states, _ = rnn(text)
    _, state = rnn(text[:, :3])
    at_once = require_equal(rnn(text[:, 3:], state)[0], states[:, 3:])
    forgotten = largest(rnn(text[:, 3:])[0], states[:, 3:])
    require(forgotten > 1e-3, f"without a state it goes on the same within {forgotten:.0e}")
    (gradient,) = mg.grad((rnn(text[:, 3:], state.detach())[0] * mg.tensor(normal(35, 1, 3, 4))).sum(), [text])
    require(not gradient.array[:, :3].any() and gradient.array[:, 3:].all(), "an RNN has another way into its past")
    return (f"each of {T} tokens can take any one of those before it as it is, from the first to itself, within "
            f"{worst:.0e}, and none of those after it; all that an RNN knows of its past is one state: from this "
            f"alone it goes on as before (within {at_once:.0e}), and without its gradient none reaches the past")


@claim("A20", note="000", section="Connection to Convolutional Neural Networks (CNNs)", formula="A_ts = a_(t-s)",
       ours='nn.Attention(D, positions="relative"), with query and key zero', code=ATTENTION,
       also=("002: Self-attention",))
def distance_only_attention_is_a_convolution():
    """If the weights depended on the distance t - s alone, A would be a Toeplitz matrix, and multiplying by it a discrete
    convolution. Attention generalises convolutions."""
    T, x = 9, normal(9, 9, 4)
    distances = np.arange(1 - T, T)

    def distance_only(bias, **switches):
        """(Y, A) of attention with this bias for the distances 1 - T ... T - 1, and queries and keys of zero."""
        layer = plain_attention(4, positions="relative", max_distance=T - 1, **switches)
        for projection in (layer.query, layer.key):
            nn.init.zeros_(projection.weight)
        layer.relative_bias.data[0] = bias
        y, weights = layer(mg.tensor(x), need_weights=True)
        return y.array, weights.array[0]

    def convolve(features, filter):
        """Edges included: beyond them there is nothing."""
        return np.stack([np.convolve(feature, filter)[T - 1 : 2 * T - 1] for feature in features.T], axis=1)

    def off_toeplitz(A):
        return max(np.ptp(np.diag(A, d)) for d in range(1 - len(A), len(A)))

    bias = 2 * normal(10, 2 * T - 1)
    y, A = distance_only(bias)
    totals = convolve(np.ones((T, 1)), np.exp(bias))  # what the softmax divides rows by
    convolved = max(require_equal(y * totals, convolve(x, np.exp(bias))), require_equal(off_toeplitz(A * totals), 0.0))
    divided = off_toeplitz(A)
    require(divided > 0.1, f"Toeplitz within {divided:.2g}, though rows are divided by totals that differ")

    y, A = distance_only(normal(11, T)[distances % T])
    circular = np.array([sum(A[d, 0] * x[(t - d) % T] for d in range(T)) for t in range(T)])
    wrapped = max(require_equal(y, circular), require_equal(off_toeplitz(A), 0.0))

    _, causal = distance_only(bias, causal="mask")
    apart = off_toeplitz(causal)
    only_itself, _ = distance_only(np.where(distances == 0, 0.0, -1000.0), causal="mask")
    require(apart > 0.1 and causal[0, 0] == 1, f"causal weights are Toeplitz within {apart:.0e}")
    require_equal(only_itself, x)
    return ("before rows are divided by their sums, attention by distance is np.convolve, edges included, within "
            f"{convolved:.0e}; divided, A is off a Toeplitz matrix by {divided:.2f}, as fewer terms meet at the "
            f"edges. Rows of a Toeplitz matrix sum to 1 only if it wraps round (within {wrapped:.0e}), and if it is "
            "causal, too, only for the identity: its first row is 1, 0, ..., 0")


# ---------------------------------------------------------------- several heads


@claim("A10", note="000", section="Multi-Headed Self-Attention",
       formula="Y^(h) = A^(h) X in R^(T x D), Y = sum_h Y^(h) (V^(h))^T, V^(h) in R^(D x D)",
       ours='nn.Attention(D, H, value=False, output_projection="sum", scale="none")', code=ATTENTION)
def heads_with_full_rank_read_outs():
    """A block uses a bank of H attention heads in parallel; what they give, Y_h = A_h X, is linearly combined, with a
    read-out matrix V_h of D x D for each."""
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
    require_equal(single(mg.tensor(x)), without(mg.tensor(x)))
    return (f"{H} heads are the sum of {H} single ones times their read-outs, within {difference:.0e}, with {count} = "
            "H (2 K D + D²) parameters; one head whose read-out is I is attention without one")


@claim("A11", note="000", section="Queries, Keys, and Values",
       formula="Y^(h) = A^(h) (X (U_v^(h))^T) in R^(T x K), Y = sum_h Y^(h) (U_o^(h))^T",
       ours='nn.Attention(D, H, value=True, value_size=K, output_projection="sum")', code=ATTENTION)
def values_are_a_low_rank_read_out():
    """The original paper averages values U_v x of K features, and projects the average back by U_o: a read-out of low
    rank."""
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
    return (f"averaging values of K = {K} features and mapping them back is attention with the read-out V = U_o U_v, "
            f"within {difference:.0e}; the rank of V is {ranks[0]} of {D}")


@claim("E3", note="000", verdict=FALSE, section="Queries, Keys, and Values", formula="V = U_o U_v^T",
       ours="layer.out_weights[h] @ layer.value.weight: V = U_o U_v", code=ATTENTION)
def the_read_out_is_the_product_with_a_transpose():
    """Values and outputs correspond to a read-out of low rank, V = U_o U_v^T, where U_o is D x K and U_v is K x D."""
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
    return (f"it is V = U_o U_v (within {right:.0e}): matrices of 6 x 3 and 6 x 3 do not multiply, and where K = D, "
            f"so that they do, the output is wrong by {wrong:.2f}")


# ---------------------------------------------------------------- token-wise nonlinearity


@claim("M1", note="000", section="Token-wise Nonlinearity", formula="x_t^(m) = mlp(y_t^(m))",
       ours='models.transformer.MLP, TransformerConfig(activation="gelu", mlp_ratio=4)', code=f"{TRANSFORMER}:MLP",
       also=("002: Multi-layer perceptron", "003: Transformer layers", "004: Transformers"))
def the_mlp_works_token_by_token():
    """After attention one and the same feed-forward network, an MLP, is applied to all positions, and mixes features
    nonlinearly."""
    mg.manual_seed(0)
    layer = MLP(TransformerConfig(heads=1, width=4)).double()
    y = normal(12, 5, 4)
    x = layer(mg.tensor(y))
    require_equal(np.vstack([layer(mg.tensor(y[t : t + 1])).array for t in range(5)]), x)
    order = np.random.default_rng(0).permutation(5)
    require_equal(layer(mg.tensor(y[order])), x[order])
    difference = require_equal(x, mlp(layer, y))
    reach, same = influence(layer, y[None]), np.eye(5, dtype=bool)
    own, others = reach[same].max(), reach[~same].max()
    require(others == 0 and own > 0, f"|dx_t / dy_s| up to {others:.0e} for s != t")
    bent = largest(layer(mg.tensor(2 * y)) - layer(mg.tensor(np.zeros_like(y))), 2 * (x - layer(mg.tensor(0 * y))))
    require(bent > 1e-3, f"it is linear within {bent:.0e}")
    check_gradients(layer, y)
    return (f"no gradient passes from one token to another ({others:.0f} exactly, up to {own:.2f} within a token), "
            f"tokens in another order give the same in that order, and each is the formula's, within {difference:.0e}")


@claim("R0", note="000", section="Token-wise Nonlinearity", formula="Y = mhsa(X), x_t = mlp(y_t)",
       ours='TransformerConfig(placement="none")', code=f"{TRANSFORMER}:Block")
def a_block_without_residual_connections():
    """A block's output is that of the token-wise network, which is applied to what multi-headed self-attention gives."""
    x, block = normal(13, 3, 4), make_block("none")
    difference = require_equal(on_rows(block)(mg.tensor(x)), mlp(block.mlp, mhsa(block.attention, x)))
    require(not any(isinstance(module, nn.LayerNorm) for module in block.modules()), "there is a norm")
    check_gradients(block, x[None])
    silent = silence(block)
    left, slope = on_rows(silent)(mg.tensor(x)), mg.jacobian(on_rows(silent), mg.tensor(x))
    require(not left.array.any() and not slope.array.any(), "something passes a block of zeros")
    return (f"the block is mlp(mhsa(X)), within {difference:.0e}; where it learns nothing, as with zero weights, "
            "nothing is left of X nor of its gradient")


@claim("C3", note="000", section="Computational Complexity", formula="O(T D^2)",
       ours="mg.count_flops() of a block: 8 T D² of the MLP, 4 T D² + 2 T² D of attention",
       code=f"{TRANSFORMER}:Block, minigrad/flops.py", also=("003: Computational complexity",))
def the_mlp_can_dominate():
    """The MLP has at least D hidden units and costs O(T D²), which can be the dominant cost if tokens have very many
    features."""
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
    return (f"of the 12 T D² + 2 T² D multiply-adds of a block the MLP takes 8 T D²: {shares[0]:.0%} at T = D / 16, "
            f"half at T = 2 D, {shares[2]:.0%} at T = 16 D")


# ---------------------------------------------------------------- residual connections


@claim("R1", note="000", section="Residual Connections", formula="Y = X + mhsa(X), X = Y + mlp(Y)",
       ours='TransformerConfig(placement="residual")', code=f"{TRANSFORMER}:Block",
       also=("001: Residual Connections", "003: Transformer layers"))
def residual_connections_start_at_the_identity():
    """If input and output have the same size, let the network learn the residual: Y = X + mhsa(X), X = Y + mlp(Y)."""
    x, block = normal(14, 3, 4), make_block("residual")
    y = x + mhsa(block.attention, x)
    difference = require_equal(on_rows(block)(mg.tensor(x)), y + mlp(block.mlp, y))
    check_gradients(block, x[None])
    silent = silence(block)
    jacobian = mg.jacobian(on_rows(silent), mg.tensor(x)).array.reshape(12, 12)
    require(np.array_equal(on_rows(silent)(mg.tensor(x)).array, x), "zero weights are not the identity")
    require(np.array_equal(jacobian, np.eye(12)), "its Jacobian is not I")
    return (f"the block is the formula's, within {difference:.0e}; with zero weights it is the identity and its "
            "Jacobian I, exactly, so a network starts from passing on what it is given")


@claim("R8", note="000", section="Residual Connections",
       formula="the residual, which is typically smaller in magnitude than the overall function",
       ours='TransformerConfig(placement="residual")', code=f"{TRANSFORMER}:Block")
def residuals_are_smaller_than_functions():
    """The residual, which the network learns, is typically smaller in magnitude than the overall function."""
    task, steps, layers, accuracies, typical = of_one_length("copy", 4), 300, 4, [], []
    config = TransformerConfig(context=16, layers=layers, heads=2, width=32, placement="residual", final_norm=False)

    def largest_share(seed):
        """How long the residual is, as a fraction of the function: median over tokens, of the sublayer with the most."""
        model, stream = trained(task, "causal", config, steps=steps, seed=seed, warmup_steps=20), []
        accuracies.append(task.accuracy(model))
        for block in model.model.blocks:
            block.mlp.register_forward_hook(lambda module, inputs, output: stream.append(inputs[0].array))
            block.register_forward_hook(lambda module, inputs, output: stream.extend([inputs[0].array, output.array]))
        model(*map(mg.tensor, task.arguments(task.examples(100))))
        Y, X, out = np.moveaxis(np.reshape(stream, (layers, 3, -1, 32)), 1, 0)  # each (layers, tokens, C)
        pairs = [(Y - X, Y), (out - Y, out)]
        shares = np.median([np.linalg.norm(residual, axis=-1) / np.linalg.norm(function, axis=-1)
                            for residual, function in pairs], axis=-1)
        typical.append(np.median(shares))
        return shares.max()

    share = over_seeds(largest_share)
    require(min(accuracies) > 0.99, f"not converged: {accuracies} of the answers are right")
    require(share.median < 1, f"residuals up to {share:.2f} times as long as the function")
    return (f"after {steps} steps of copying letters, {layers} blocks, a residual is typically "
            f"{Spread(tuple(typical)):.2f} times as long as the function, x + residual, and {share:.2f} times in the "
            "sublayer where it is longest (5 seeds)")


# ---------------------------------------------------------------- layer norm


@claim("N1", note="000", verdict="true if no token is constant", section="Layer Norm",
       formula="layer-norm(x_t) = beta + gamma * (x_t - mean(x_t)) / std(x_t), both with 1/D",
       ours="nn.LayerNorm(D, eps=0.0)", code="nn/layer_norm.py:LayerNorm")
def layer_norm_has_no_epsilon():
    """Layer norm is (x - mean) / std, with 1/D in both and nothing added to std, times gamma, plus beta, both learned."""
    x, layer = normal(16, 4, 6), nn.LayerNorm(6, eps=0.0).double()
    layer.weight.data[...], layer.bias.data[...] = normal(17, 6), normal(18, 6)
    difference = require_equal(layer(mg.tensor(x)), layer_norm(layer, x))
    check_gradients(layer, x)
    constant = mg.ones(1, 6, dtype=mg.float64)
    with np.errstate(all="ignore"):
        broken = layer(constant).array
    mended = nn.LayerNorm(6).double()(constant).array
    require(np.isnan(broken).all() and not mended.any(), f"constant token: {broken[0, 0]}, and {mended[0, 0]}")
    return (f"with eps = 0 it is the formula, within {difference:.0e}; a token whose features are all the same then "
            "becomes NaN, and with the usual eps of 1e-5 zeros")


@claim("N6", note="000", section="Layer Norm", formula="(x_t - mean(x_t)) / std(x_t)",
       ours="nn.LayerNorm(D, eps=0.0, elementwise_affine=False)", code="nn/layer_norm.py:LayerNorm")
def layer_norm_is_a_z_score():
    """Layer norm amounts to z-scoring each token over its features."""
    x, layer = normal(19, 4, 6), nn.LayerNorm(6, eps=0.0, elementwise_affine=False)
    y = layer(mg.tensor(x)).array
    off = max(abs(y.mean(1)).max(), abs(y.std(1) - 1).max())
    moved = largest(layer(mg.tensor(3.0 * x - 2.0)), y)
    leaf = mg.tensor(x, requires_grad=True)
    layer(leaf).backward(mg.tensor(normal(20, 4, 6)))
    gradient = leaf.grad.array
    along = max(abs(gradient.sum(1)).max(), abs((gradient * y).sum(1)).max())
    require(max(off, moved, along) < EXACT, f"{off:.0e}, {moved:.0e}, {along:.0e}")
    require(abs(gradient).max() > 0.1, "there is no gradient")
    return (f"each token gets mean 0 and deviation 1, within {off:.0e}, and 3 x - 2 becomes the same as x, within "
            f"{moved:.0e}; so no gradient passes along 1 or along x itself (within {along:.0e})")


@claim("N7", note="000", section="Layer Norm",
       formula='it is important to use other deep learning "tricks" like LayerNorm to stabilize training',
       ours='TransformerConfig(placement="residual" | "inner" | "pre")', code=f"{TRANSFORMER}:PLACEMENTS")
def layer_norm_stabilises_training():
    """Layer norm is a trick that stabilises training."""
    task = of_one_length("copy", 4)

    def train(placement, lr, steps, seed):
        """(the largest loss on the way, the fraction of right answers at the end), without clipping of gradients."""
        config = TransformerConfig(context=16, layers=4, heads=2, width=16, placement=placement, final_norm=False)
        model = make_model(task, "causal", config, seed)
        training = TrainingConfig.of(task, steps=steps, seed=seed, lr=lr, batch_size=32, warmup_steps=10,
                                     max_grad_norm=1e9)
        try:
            losses = Trainer(model, task, training).train()
        except TrainingError:  # the loss or the gradient is not finite any more
            return math.inf, 0.0
        return max(losses), task.accuracy(model)

    def over_five(*arguments):
        return [Spread(each) for each in zip(*(train(*arguments, seed) for seed in range(5)))]

    _, slowly = over_five("residual", 0.01, 200)
    peaks, right = zip(*(over_five(placement, 0.06, 120) for placement in ("residual", "inner", "pre")))
    require(slowly.median > 0.99, f"without norms {slowly:.0%} are right at a small rate, too")
    require(peaks[0].median > 30 and right[0].median < 0.1, f"without norms: losses up to {peaks[0]:.0f}, {right[0]:.0%}")
    require(max(peaks[1].median, peaks[2].median) < 10, f"with norms: losses up to {peaks[1]:.1f} and {peaks[2]:.1f}")
    require(right[2].median > 0.99, f"pre-norm: {right[2]:.0%} are right")
    return (f"4 blocks without norms learn to copy at a learning rate of 0.01 ({slowly:.0%} right after 200 steps); "
            f"at 0.06 their loss rises to {peaks[0]:.0f} within 120 steps, and {right[0]:.0%} are right; with the "
            f"note's norms it rises to {peaks[1]:.1f} only, though {right[1]:.0%} are right, and with pre-norm to "
            f"{peaks[2]:.1f}, and {right[2]:.0%} are right (5 seeds)")


@claim("R4", note="000", section="Layer Norm",
       formula="X' = layer-norm(X), Y = X' + mhsa(X'), Y' = layer-norm(Y), X = Y' + mlp(Y')",
       ours='TransformerConfig(placement="inner")', code=f"{TRANSFORMER}:Block")
def layer_norm_before_both_halves():
    """Layer norm is typically applied before attention and before the MLP: X' = LN(X), Y = X' + mhsa(X'), Y' = LN(Y),
    X = Y' + mlp(Y'). This defines one transformer block."""
    x, block = normal(15, 3, 4), make_block("inner")
    x_normed = layer_norm(block.ln_1, x)
    y_normed = layer_norm(block.ln_2, x_normed + mhsa(block.attention, x_normed))
    y = on_rows(block)(mg.tensor(x))
    difference = require_equal(y, y_normed + mlp(block.mlp, y_normed))
    check_gradients(block, x[None])
    pre = make_block("pre")
    apart = largest(on_rows(pre)(mg.tensor(x)), y)
    require(apart > 0.1, f"pre-norm gives the same within {apart:.2g}")
    return (f"the block is the formula's, within {difference:.0e}; it is not what is known as pre-norm, which adds "
            f"to X and to Y: with the same weights that differs by {apart:.2f}")


@claim("E15", note="000", verdict=FALSE, section="Layer Norm",
       formula="Y = X + mhsa(X), X = Y + mlp(Y); but then Y = X' + mhsa(X'), X = Y' + mlp(Y')",
       ours='TransformerConfig(placement="residual"), and placement="inner"', code=f"{TRANSFORMER}:PLACEMENTS")
def the_final_block_has_residual_connections():
    """Transformers use residual connections, Y = X + mhsa(X) and X = Y + mlp(Y), and the final block only has layer norm
    before both steps."""
    x, blocks = normal(32, 3, 4), {name: make_block(name) for name in ("residual", "pre", "inner")}
    off = {}
    for name, block in blocks.items():
        jacobian = mg.jacobian(on_rows(silence(block)), mg.tensor(x)).array.reshape(12, 12)
        off[name] = largest(jacobian, np.eye(12))
    require(off["residual"] == off["pre"] == 0 < 0.1 < off["inner"], f"Jacobians differ from I by {off}")
    printed = blocks["inner"]
    out, of_larger = (on_rows(printed)(mg.tensor(size * x)) for size in (1, 1000))
    require_equal(out, layer_norm(printed.ln_2, layer_norm(printed.ln_1, x)))
    lost = largest(out, of_larger)
    require(lost < 1e-4, f"the outputs of X and 1000 X differ by {lost:.0e}")
    return ("no connection of the final block adds X: with zero weights the first form passes X and its gradient on "
            f"exactly, as pre-norm would, but the last gives LN(LN(X)), whose Jacobian is {off['inner']:.1f} from I, "
            f"and which is the same for 1000 X (within {lost:.0e})")


@claim("E13", note="000", verdict="false of this note, of 002, or of both", section="Layer Norm",
       formula="000: X = Y' + mlp(Y');  002: X = Y + MLP(Y')",
       ours='TransformerConfig(placement="inner"), and placement="mixed"', code=f"{TRANSFORMER}:PLACEMENTS",
       also=("002: Putting it together",))
def both_notes_print_turners_block():
    """The presentation follows Turner's introduction, with slight changes to the notation."""
    x, here, there = normal(31, 3, 4), make_block("inner"), make_block("mixed")
    here_out, there_out = (on_rows(block)(mg.tensor(x)) for block in (here, there))
    once = layer_norm(there.ln_1, x)
    y = once + mhsa(there.attention, once)
    require_equal(there_out, y + mlp(there.mlp, layer_norm(there.ln_2, y)))
    normed = layer_norm(here.ln_2, y)
    require_equal(here_out, normed + mlp(here.mlp, normed))
    apart = largest(here_out, there_out)
    require(apart > 0.1, f"blocks {apart:.2g} apart")
    check_gradients(there, x[None])
    of_here, of_there = (on_rows(silence(block))(mg.tensor(x)) for block in (here, there))
    require_equal(of_here, layer_norm(here.ln_2, once))
    require_equal(of_there, once)
    return ("both notes name the same source and print different blocks, so at most one of them is Turner's: here "
            f"the MLP's result is added to LN(Y), there to Y; with the same weights they differ by {apart:.2f}, and "
            "with zero weights they are LN(LN(X)) and LN(X)")


# ---------------------------------------------------------------- positions


@claim("L5", note="000", section="Positional Encodings",
       formula="the transformer essentially treats the data as an unordered set of tokens",
       ours='TransformerConfig(positions="none"), nn.patchify(images, 2)', code="nn/patches.py:patchify",
       also=("002: Modelling with tokens", "004: Transformers"))
def sets_and_image_patches():
    """Except for the triangular constraint on attention, a transformer knows nothing of the order of tokens: it treats
    them as a set. So it works for other data too, such as images that are chunked into patches."""
    ids, shuffled = mg.tensor(np.arange(3, 9)[None]), mg.tensor([[6, 3, 7, 5, 4, 8]])  # the last one stays
    changes = {}
    for name, kind, positions in (("none", Classifier, "none"), ("causal", CausalTransformer, "none"),
                                  ("positions", Classifier, "sinusoidal")):
        config = TransformerConfig(vocabulary_size=9, context=6, layers=2, heads=2, width=8, dtype="float64",
                                   positions=positions)
        model = kind(config, 3) if kind is Classifier else kind(config)
        for seed, parameter in enumerate(model.parameters()):
            parameter.data[...] = normal(seed, *parameter.shape)
        before, after = (model(tokens)[0].array for tokens in (ids, shuffled))
        changes[name] = largest(before, after) if kind is Classifier else largest(before[:, -1], after[:, -1])
    require(changes["none"] < EXACT, f"a set in another order changes logits by {changes['none']:.0e}")
    require(min(changes["causal"], changes["positions"]) > 1e-3, f"another order changes logits by {changes}")

    images = mg.tensor(normal(0, 2, 1, 8, 8))
    patches = nn.patchify(images, 2)
    require(patches.shape == (2, 16, 4), f"patches of shape {patches.shape}")
    for row, column in np.ndindex(4, 4):
        own = images.array[1, 0, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        require(np.array_equal(patches.array[1, 4 * row + column].reshape(2, 2), own), f"patch {row}, {column} is wrong")
    require(np.array_equal(nn.unpatchify(patches, 2, 8, 8).array, images.array), "unpatchify does not undo patchify")
    embedded = nn.PatchEmbedding(2, 1, 8).double()
    require_equal(embedded(images), patches.array @ embedded.project.weight.array.T + embedded.project.bias.array)
    return (f"another order of the tokens changes the logits of a classifier by {changes['none']:.0e}, with "
            f"positions by {changes['positions']:.2f}, and those of a causal model, even without positions, by "
            f"{changes['causal']:.2f}; an 8 x 8 image becomes 16 tokens of 2 x 2 pixels, row by row, and can be put "
            "together again")


@claim("P1", note="000", section="Positional Encodings", formula="x_t^(0) = c_t + p_t",
       ours='nn.PositionEncoding("learned" | "sinusoidal", D), TransformerConfig(positions=...)',
       code="nn/position.py:PositionEncoding", also=("001: 1. Sequence order", "003: Positional encoding"))
def positions_are_added_to_content():
    """A simple way to include order is to add position and content in the token: x_t = c_t + p_t."""
    mg.manual_seed(0)
    B, T, D = 3, 4, 6
    encoding = nn.PositionEncoding("learned", D, size=7).double()
    content = mg.tensor(normal(21, B, T, D), requires_grad=True)
    x = encoding(content)
    require(np.array_equal(x.array, content.array + encoding.weight.array[:T]), "it is not the sum")
    waves = nn.PositionEncoding("sinusoidal", D)(content)
    basis = [[(math.cos if i % 2 else math.sin)(t / 10_000 ** (i // 2 * 2 / D)) for i in range(D)] for t in range(T)]
    require_equal(waves, content.array + basis)
    x.tanh().backward(mg.tensor(normal(22, B, T, D)))
    gradient = encoding.weight.grad.array.copy()
    difference = require_equal(gradient[:T], content.grad.array.sum(0))
    require(not gradient[T:].any(), "positions that are not there have a gradient")

    encoding.zero_grad()
    embedding, ids = nn.Embedding(9, D).double(), mg.tensor([5, 3, 8, 0])  # each once, so that rows do not add up
    F.embedding(ids, embedding.weight, positions=encoding.weight).tanh().backward(mg.tensor(normal(23, T, D)))
    fused = require_equal(embedding.weight.grad.array[ids.array], encoding.weight.grad.array[:T])
    check_gradients(encoding, normal(24, T, D))
    return ("the gradient that arrives at a token goes to its content and to its position alike, summed over the "
            f"batch there (difference {difference:.0e}, in the fused embedding {fused:.0e})")


# ---------------------------------------------------------------- predicting the next token


def small_model(std: float = 0.3, dtype: str = "float64") -> CausalTransformer:
    """With matrices large enough that tokens matter to each other."""
    mg.manual_seed(0)
    model = CausalTransformer(TransformerConfig(vocabulary_size=11, context=12, layers=2, heads=2, width=16, dtype=dtype))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=std)
    return model


def read_out(model: CausalTransformer, tokens: Tensor) -> Tensor:
    """x_t^(M) for all t: what the model multiplies by W, (B, T, D)."""
    found = []
    handle = model.ln_f.register_forward_hook(lambda module, inputs, output: found.append(output))
    logits, _ = model(tokens)
    handle.remove()
    require_equal(logits, found[0].array @ model.token_embedding.weight.array.T)
    return found[0]


@claim("T1", note="000", section="Autoregressive Modeling", formula="l_(t+1) ~ Cat(softmax(W x_t^(M)))",
       ours="models.CausalTransformer, models.generate", code=f"{TRANSFORMER}:CausalTransformer, models/generate.py:draw")
def the_next_token_is_drawn_from_a_softmax():
    """The next word, one of V, is drawn from a categorical distribution with the probabilities softmax(W x_t)."""
    V, T, count, scores = 50, 32, 20_000, normal(25, 8)
    config = TransformerConfig(vocabulary_size=V, context=T, layers=2, heads=2, width=16, dtype="float64")
    expected = count * softmax(scores[None])[0]

    def excess_of_the_first_loss(seed):
        model, generator = CausalTransformer(config), np.random.default_rng(seed)
        tokens, targets = (mg.tensor(generator.integers(0, V, (8, T))) for _ in range(2))
        read_out(model, tokens)
        logits, loss = model(tokens, targets)
        p = softmax(logits.array).reshape(-1, V)
        require_equal(loss, -np.log(p[np.arange(8 * T), targets.array.ravel()]).mean())
        return loss.item() - math.log(V)

    def chi_square(seed):
        drawn = draw(np.tile(scores, (count, 1)), 1.0, None, None, np.random.default_rng(seed))
        return ((np.bincount(drawn, minlength=8) - expected) ** 2 / expected).sum()

    excess, deviation = over_seeds(excess_of_the_first_loss), over_seeds(chi_square)
    require(abs(excess.median) < 0.05, f"the first loss exceeds ln V by {excess:.3f}")
    require(deviation.median < 14, f"chi-square {deviation:.1f}, of 7 degrees of freedom 5 % exceed 14.1")
    return ("logits are W x_t of the last layer; before training all tokens are about as likely, so that the loss "
            f"exceeds ln V by {excess:.3f}; the counts of {count} draws fit their probabilities: chi-square "
            f"{deviation:.1f} with 7 degrees of freedom (5 seeds)")


@claim("T8", note="000", section="Autoregressive Modeling", formula="W in R^(V x D)",
       ours="model.token_embedding.weight; a W of its own is nn.Linear(D, V, bias=False)",
       code=f"{TRANSFORMER}:CausalTransformer")
def the_read_out_is_a_matrix_of_its_own():
    """Predictions are made from the final layer's representations by a matrix W of V x D."""
    model, generator = small_model(), np.random.default_rng(0)
    V, D = model.token_embedding.weight.shape
    tokens, targets = (mg.tensor(generator.integers(0, V, (2, 6))) for _ in range(2))
    _, loss = model(tokens, targets)
    loss.backward()
    tied = model.token_embedding.weight.grad.array.copy()

    model.zero_grad()
    own = nn.Linear(D, V, bias=False).double()
    own.weight.data[...] = model.token_embedding.weight.array
    x = read_out(model, tokens)
    F.cross_entropy(own(x).reshape(-1, V), targets.reshape(-1)).backward()
    of_embedding = model.token_embedding.weight.grad.array
    surplus = softmax(own(x).array) - np.eye(V)[targets.array]  # the gradient of the logits, but for the mean
    formula = require_equal(own.weight.grad, np.einsum("btv,btd->vd", surplus, x.array) / targets.numel())
    difference = require_equal(tied, own.weight.grad.array + of_embedding)
    require(largest(own.weight.grad) > 0.01 and largest(of_embedding) > 0.01, "one of the two gradients is missing")
    return (f"a W of its own gets the gradient (p - y) x^T, within {formula:.0e}; our model ties W to the embedding, "
            f"which saves V D = {V * D} parameters, and whose gradient is then the sum of both, within "
            f"{difference:.0e}")


@claim("T9", note="000", section="Autoregressive Modeling",
       formula="the final layer's representations x_t^(M) combine information from all tokens up to and including t",
       ours="models.CausalTransformer", code=f"{TRANSFORMER}:CausalTransformer")
def the_last_layer_knows_all_that_is_past():
    """Like the hidden states of an RNN, the final layer's representations combine information from all tokens up to and
    including their index."""
    T = 6
    model, tokens = small_model(), mg.tensor([[3, 1, 4, 5, 9, 2]])  # all different, so that each has a row of its own
    x, upstream = read_out(model, tokens), mg.tensor(normal(33, 16))
    reach = np.zeros((T, T))
    for t in range(T):
        (gradient,) = mg.grad((x[0, t] * upstream).sum(), [model.token_embedding.weight], retain_graph=True)
        reach[t] = abs(gradient.array[tokens.array[0]]).max(axis=1)
    require_causal(reach)
    least = reach[np.tril_indices(T)].min()
    require(least > 1e-3, f"the least influence is {least:.0e}")
    return (f"all {T * (T + 1) // 2} pairs of a token and one at or before it have a gradient, of at least "
            f"{least:.3f}; those with a later token have none, 0 exactly")


# ---------------------------------------------------------------- training

@claim("T3", note="000", section="Training", formula="Standard practice is to use the Adam optimizer",
       ours="nn.optim.Adam(parameters, lr), nn.optim.AdamW", code="nn/optim/adam.py:Adam")
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
    require(worst < EXACT and first < 1e-5, f"difference {worst:.0e}, first step {first:.0e} from lr")
    return (f"ten steps are those of Adam's formula, within {worst:.0e}; the first one moves each number by the "
            f"learning rate, whatever its gradient (within {first:.0e}): without the correction of the means it "
            f"would be {uncorrected:.1f} times as far")


@claim("T4", note="000", section="Training", formula="gradient clipping",
       ours="nn.optim.clip_grad_norm_(parameters, 1.0), nn.optim.Adam(..., max_grad_norm=1.0)",
       code="nn/optim/adam.py:Adam")
def gradients_are_clipped():
    """Gradient clipping is one of the usual tricks."""
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
    lengths = ", ".join(f"{before:.2f} to {after:.2f}" for before, after in norms)
    return (f"the gradient of all parameters together keeps its direction and is shortened from {lengths}; Adam does "
            f"the same within its step (difference {same:.0e})")


@claim("T5", note="000", section="Training", formula="learning rate annealing schedules",
       ours="nn.optim.warmup_annealing, nn.optim.CosineAnnealingLR, minigrad train --annealing",
       code="nn/optim/lr_scheduler.py:warmup_annealing")
def learning_rates_are_annealed():
    """Schedules that anneal the learning rate are one of the usual tricks."""
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
    times = "at first", "after the warm-up", "half-way", "at last"
    table = ", ".join(f"{rate:.2f} {when}" for rate, when in zip(rates, times))
    return (f"a rate that rises to {peak:g} in {warmup} steps and falls to {floor:g} along a cosine is {table}; "
            f"PyTorch's form of the schedule, step by step, is the same, within {difference:.0e}")


@claim("T6", note="000", section="Training", formula="increasing minibatch sizes",
       ours="TrainingConfig(batch_size=4, final_batch_size=16), accumulation=4",
       code="models/training_config.py:TrainingConfig")
def minibatches_grow():
    """Minibatches of increasing size are one of the usual tricks."""
    sizes, copy_task = [], TASKS["copy"]

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
    trainings = [TrainingConfig.of(copy_task, steps=5, warmup_steps=2, **way) for way in ways]
    trainers = [Trainer(make_model(copy_task, "encoder-decoder", config), of_one_length("copy", 4), training)
                for training in trainings]
    steps = [[trainer.train_step() for _ in range(5)] for trainer in trainers]
    apart = max(abs(a[name] - b[name]) for a, b in zip(*steps) for name in ("loss", "grad_norm"))
    require(apart < 1e-9, f"losses and lengths of gradients differ by {apart:.0e}")
    return (f"nine steps take batches of {', '.join(map(str, sizes))}; a batch too large for the memory can be taken "
            f"in four parts, whose mean gradient is the same, within {difference:.0e}; so are losses and lengths of "
            f"gradients in five steps of training, within {apart:.0e}")


@claim("T7", note="000", section="Training", formula="dropout", ours="nn.Dropout(p), TransformerConfig(dropout=p)",
       code="nn/dropout.py:Dropout")
def dropout():
    """Dropout is one of the usual tricks."""
    p, count, x = 0.3, 8000, normal(29, 10)
    layer, shares = nn.Dropout(p), []

    def standard_errors(seed):
        """How far the mean of many masks is from x, in the worst of ten features."""
        y = layer(mg.tensor(np.tile(x, (count, 1)))).array
        shares.append((y != 0).mean())
        return (abs(y.mean(0) - x) / (abs(x) * math.sqrt(p / (1 - p) / count))).max()

    errors = over_seeds(standard_errors)
    require(0.3 < errors.median < 3, f"the mean is {errors:.1f} standard errors off")
    kept = Spread(tuple(map(float, shares)))
    require(abs(kept.median - 0.7) < 0.02, f"{kept:.0%} kept")
    leaf = mg.tensor(np.tile(x, (20, 1)), requires_grad=True)
    y = layer(leaf)
    y.sum().backward()
    require(np.array_equal(leaf.grad.array == 0, y.array == 0), "the gradient has another mask")
    require_equal(leaf.grad.array * leaf.array, y)
    mg.gradcheck(layer, mg.tensor(x, requires_grad=True))
    layer.eval()
    require(np.array_equal(layer(mg.tensor(x)).array, x), "it is not the identity in evaluation")
    return (f"of all numbers {kept:.1%} are kept, and enlarged so that the mean of {count} masks is x, within "
            f"{errors:.1f} standard errors for the worst of ten (5 seeds); the gradient has the same mask, and in "
            "evaluation nothing is dropped")


# ---------------------------------------------------------------- conclusion


@claim("T2", note="000", section="Conclusion",
       formula="predictions ... in parallel across an entire sequence, sampling ... still takes linear time",
       ours="model(tokens), and models.decode.CachedDecoder(model, batch_size=1).logits(tokens)",
       code="models/decode.py:CachedDecoder")
def predicting_is_parallel_and_sampling_is_not():
    """A transformer allows predictions to be made in parallel across an entire sequence, but sampling from it still takes
    linear time."""
    T, B, differences = 12, 2, {}
    tokens = np.random.default_rng(0).integers(0, 11, (B, T))
    for dtype in ("float64", "float32"):
        model = small_model(std=0.2, dtype=dtype)
        decoder = CachedDecoder(model, batch_size=B)
        with mg.no_grad(), mg.count_flops() as at_once:
            parallel = model(mg.tensor(tokens))[0].array
        with mg.no_grad(), mg.count_flops() as one_by_one:
            plain = [model(mg.tensor(tokens[:, :t]))[0].array[:, -1] for t in range(1, T + 1)]
        cached = [decoder.logits(tokens[:, :t]).copy() for t in range(1, T + 1)]
        differences[dtype] = max(largest(parallel, np.stack(each, axis=1)) for each in (plain, cached))
    require(differences["float64"] < EXACT and differences["float32"] < 1e-5, f"they differ by {differences}")
    ratio = one_by_one.total / at_once.total
    require(ratio > 5, f"without a cache it takes {ratio:.1f} times as much")

    decoder, computed = CachedDecoder(model, batch_size=B), []
    for t in range(1, T + 1):
        kept = decoder.keys[..., : t - 1, :].copy()
        decoder.keys[...] = np.nan
        is_read = np.isnan(decoder.logits(tokens[:, :t])).all()
        computed.append(int((~np.isnan(decoder.keys[0]).any(axis=(0, 1, 3))).sum()))  # in the first layer
        require(is_read == (t > 1), f"token {t}: the keys of those before are not what it attends to")
        decoder.keys[..., : t - 1, :] = kept
    require(computed == [1] * T, f"keys are computed for {computed} tokens")
    return (f"one call predicts {T} tokens at once, and the logits are those of {T} calls, one for each, within "
            f"{differences['float64']:.0e}; as each call needs the token that the one before has drawn, sampling "
            f"takes {T}. With the keys and values kept, a call computes one token, {sum(computed)} in all; without "
            f"them {T * (T + 1) // 2}, and {ratio:.1f} times the multiply-adds of the parallel one")
