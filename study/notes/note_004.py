"""Note 004: a lecture that comes to transformers from recurrent networks."""
import dataclasses
import functools

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from models.architectures import make_model
from models.task import inputs_and_targets
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import Block, TransformerConfig
from nn.position import sine_only
from study.notes.claims import FALSE, claim, require
from study.notes.helpers import (
    EXACT, check_gradients, influence, largest, matrices, normal, normalised, require_causal, require_equal, shift_map,
    softmax, trained,
)

def randn(*shape: int, seed: int = 0) -> Tensor:
    """In float64."""
    return mg.tensor(normal(seed, *shape))


def in_two_places(values) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def attention_of_note(x: np.ndarray, layer: nn.Attention) -> np.ndarray:
    """The note's formulas with its indices, head after head: what W_y is multiplied with, (T, heads * size)."""
    n, d, size = len(x), layer.width, layer.key_size
    heads = []
    for r in range(layer.heads):
        rows = slice(r * size, (r + 1) * size)
        W_q, W_k, W_v = (projection.weight.array[rows] for projection in (layer.query, layer.key, layer.value))
        y = np.zeros((n, size))
        for i in range(n):
            w = np.array([(W_q @ x[i]) @ (W_k @ x[j]) / np.sqrt(d) for j in range(n)])
            W = softmax(w)
            for j in range(n):
                y[i] += W[j] * (W_v @ x[j])
        heads.append(y)
    return np.concatenate(heads, axis=1)


# ---- attention ----


@claim("A9", note="004")
def one_head_in_column_vectors():
    """Queries, keys and values are W_q x_i, W_k x_i and W_v x_i; values are weighed with the softmax of q . k over the
    root of d."""
    mg.manual_seed(0)
    layer = nn.Attention(6, output_projection="none").double()
    x = randn(5, 6)
    found = require_equal(layer(x), attention_of_note(x.array, layer))
    Q, K, V = (x.array @ matrix for matrix in matrices(layer))
    in_rows = require_equal(layer(x), softmax(Q @ K.T / np.sqrt(6)) @ V)
    check_gradients(layer, x)
    return f"largest difference {found:.0g}, from softmax(Q Kᵀ / sqrt(d)) V with transposed matrices {in_rows:.0g}"


@claim("A14", note="004")
def heads_side_by_side_and_one_matrix():
    """Each head has its own three projections; their outputs, concatenated, go through one linear layer W_y."""
    mg.manual_seed(0)
    layer = nn.Attention(6, heads=3, scale="d_model").double()
    x, upstream = randn(5, 6), randn(5, 6, seed=1)
    found = require_equal(layer(x), attention_of_note(x.array, layer) @ layer.out.weight.array.T)

    summed = nn.Attention(6, heads=3, scale="d_model", output_projection="sum").double()
    for name in ("query", "key", "value"):
        getattr(summed, name).weight.data = getattr(layer, name).weight.array
    summed.out_weights.data = np.stack(np.split(layer.out.weight.array, 3, axis=1))
    layer(x).backward(upstream)
    summed(x).backward(upstream)
    as_sum = require_equal(layer(x), summed(x))
    gradients = require_equal(np.hstack(list(summed.out_weights.grad.array)), layer.out.weight.grad)
    check_gradients(layer, x)
    return f"largest difference {found:.0g}; from a sum of heads {as_sum:.0g}, its gradients {gradients:.0g}"


@claim("A19", note="004")
def alignment_by_a_small_network():
    """Early translators scored how a decoder state and an encoder state match with one hidden layer of tanh on both;
    the softmax of the scores weighs the encoder states."""
    mg.manual_seed(0)
    layer = nn.AdditiveAttention(3, 4, hidden=5).double()
    nn.init.zeros_(layer.state.bias)  # the note has none
    s, h = randn(1, 2, 3), randn(1, 6, 4, seed=1)
    W_1, W_2 = layer.score.weight.array[0], np.hstack([layer.context.weight.array, layer.state.weight.array])
    c, weights = layer(s, h)
    found = 0.0
    for t in range(2):
        scores = np.array([W_1 @ np.tanh(W_2 @ np.concatenate([h.array[0, j], s.array[0, t]])) for j in range(6)])
        alpha = softmax(scores)
        found = max(found, require_equal(weights[0, t], alpha), require_equal(c[0, t], alpha @ h.array[0]))
    check_gradients(layer, s, h)
    return f"W_h h + W_s s against W_2 [h, s]: largest difference {found:.0g}"


@claim("A21", note="004")
def a_soft_dictionary():
    """Attention looks a query up among keys and returns values, but softly: each key matches to some extent."""
    n, size = 6, 3
    generator = np.random.default_rng(0)
    asked = generator.integers(0, n, 8)
    queries = mg.tensor(np.eye(n)[asked] + 0.3 * generator.random((8, n)))  # the right key is ahead by 0.7 or more
    keys, table = mg.tensor(np.eye(n)), generator.normal(size=(n, size))
    errors = []
    for scale in (1.0, 10.0, 100.0):
        layer = nn.Attention(n, query_key="none", value_size=size, output_projection="none", scale=scale).double()
        layer.value.weight.data = table.T.copy()
        found, weights = layer(queries, keys, need_weights=True)
        errors.append(largest(found, table[asked]))
        require(scale > 1 or weights.array.min() > 0.01, f"a key has weight {weights.array.min():.0g}")
    require(errors[0] > 0.1 and errors[-1] < EXACT, f"errors {errors}")
    return (f"distance from the value looked up {errors[0]:.2f}, {errors[1]:.0g}, {errors[2]:.0g} for scores times 1, "
            "10 and 100")


@claim("A22", note="004", verdict="true if there are neither positions nor a causal mask")
def permuted_tokens_give_permuted_features():
    """Self-attention is permutation-equivariant: tokens in another order give the same outputs in that order."""
    order = np.random.default_rng(0).permutation(7)
    x = randn(1, 7, 8)

    def violation(is_causal, kind):
        mg.manual_seed(0)
        block = Block(TransformerConfig(width=8, heads=2), is_causal).double()
        positions = nn.PositionEncoding(kind, 8)
        return largest(block(positions(x[:, order])), block(positions(x))[:, order])

    plain, positioned, causal = violation(False, "none"), violation(False, "sinusoidal"), violation(True, "none")
    require(plain < EXACT, f"a block is not equivariant: {plain:.0g}")
    require(min(positioned, causal) > 0.01, f"with positions {positioned:.0g}, causal {causal:.0g}")
    return f"violated by {plain:.0g}; with positions by {positioned:.2f}, with a causal mask by {causal:.2f}"


@claim("A23", note="004")
def jack_and_jill_are_confused():
    """Jack gave water to Jill, Jill gave water to Jack: without positions both sentences have the same features."""
    words = ["Jack", "gave", "water", "to", "Jill"]
    mg.manual_seed(0)
    embedding, block = nn.Embedding(5, 8).double(), Block(TransformerConfig(width=8, heads=2), is_causal=False).double()

    def features(sentence, kind):
        ids = mg.tensor(np.array([[words.index(word) for word in sentence.split()]]))
        x = nn.PositionEncoding(kind, 8)(embedding(ids))
        return dict(zip(sentence.split(), block(x).array[0]))

    differences = {}
    for kind in ("none", "sinusoidal"):
        a, b = features("Jack gave water to Jill", kind), features("Jill gave water to Jack", kind)
        differences[kind] = max(largest(a[word], b[word]) for word in words)
    require(differences["none"] < EXACT, f"without positions they differ by {differences['none']:.0g}")
    require(differences["sinusoidal"] > 0.1, f"with positions they differ by {differences['sinusoidal']:.0g} only")
    plain, positioned = differences.values()
    return f"each word's features differ by {plain:.0g}, with positions by {positioned:.2f}"


# ---- the block ----


@claim("R6", note="004")
def the_block_in_words():
    """A block is self-attention with a residual connection, a layer norm, standard MLPs (no residual connection is
    mentioned), and another layer norm."""
    mg.manual_seed(0)
    block = Block(TransformerConfig(width=4, heads=2, placement="post_attention_only"), is_causal=False).double()
    x = randn(1, 3, 4)
    y = mg.tensor(normalised(x.array + block.attention(x).array))
    found = require_equal(block(x), normalised(block.mlp(y).array))
    check_gradients(block, x)

    sizes = {}
    for placement in ("post_attention_only", "post"):
        without_mlp = Block(TransformerConfig(width=4, heads=2, placement=placement), is_causal=False).double()
        nn.init.zeros_(without_mlp.mlp.project.weight)
        nn.init.zeros_(without_mlp.mlp.project.bias)
        sizes[placement] = float(without_mlp(x).abs().max().item())
    require(sizes["post_attention_only"] == 0 < sizes["post"], f"largest outputs {sizes}")
    return (f"largest difference {found:.0g}; an MLP of zeros leaves nothing, largest output 0 instead of "
            f"{sizes['post']:.2f} with the residual connection")


def gradient_norms(placement: str, depths: tuple[int, ...]) -> list[float]:
    """|Jᵀ u| for a random u of length 1 and stacks of so many blocks, with variance 1 / inputs of all weights."""
    mg.manual_seed(0)
    config = TransformerConfig(width=32, heads=1, bias=False, placement=placement)
    blocks = [Block(config, is_causal=False).double() for _ in range(max(depths))]
    for block in blocks:
        for parameter in block.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    u = randn(1, 16, 32, seed=1)
    norms = []
    for depth in depths:
        _, gradient = mg.vjp(nn.Sequential(*blocks[:depth]), randn(1, 16, 32), u / u.norm())
        norms.append(float(gradient.norm().item()))
    return norms


@claim("C5", note="004", verdict=FALSE)
def gradients_neither_vanish_nor_explode():
    """A transformer has no recurrent units; therefore gradients do not vanish or explode, by construction."""
    norms = {placement: gradient_norms(placement, (1, 24)) for placement in
             ("none", "post_attention_only", "residual", "post", "pre")}
    require(norms["none"][1] < 1e-3, f"without residual connections it does not vanish: {norms}")
    require(norms["post_attention_only"][1] < 0.2 * norms["post_attention_only"][0], f"the note's block: {norms}")
    require(norms["residual"][1] > 1e3, f"with residual connections only it does not explode: {norms}")
    return "gradient after 1 and 24 blocks: " + ", ".join(
        f"{name} {norms[placement][0]:.2g} and {norms[placement][1]:.2g}" for name, placement in
        (("no residual", "none"), ("the note's block", "post_attention_only"), ("residual without norms", "residual"),
         ("post-norm", "post"), ("pre-norm", "pre")))


# ---- positions ----


def toeplitz_error(table: np.ndarray) -> float:
    """How much p_t . p_s varies where t - s is the same."""
    products = table @ table.T
    return max(float(np.ptp(np.diag(products, k))) for k in range(10))


@claim("P5", note="004")
def sines_only():
    """Sines of frequencies 10000^(-k/d) are bounded, and can be had for any t and d. (Not said, but what the sines and
    cosines of others can do: a step is a fixed linear map.)"""
    table, pairs = (nn.PositionEncoding(kind, 8).table(50).array for kind in ("sine_only", "sinusoidal"))
    written_out = [[np.sin(t * 1 / 10000 ** (k / 8)) for k in range(1, 9)] for t in range(50)]
    require_equal(table, written_out)
    bound = max(float(np.abs(sine_only(20, d, start=start)).max()) for d in (1, 7, 64) for start in (0, 10**6))
    require(bound <= 1, f"the largest is {bound}")
    maps, grams = ([f(x) for x in (table, pairs)] for f in (lambda x: shift_map(x, 3)[1], toeplitz_error))
    require(maps[0] > 0.1 and grams[0] > 0.1 and maps[1] < 1e-9 > grams[1], f"shifts {maps}, products {grams}")
    return (f"largest {bound:.3f}; a shift by 3 is a linear map up to {maps[0]:.2f} ({maps[1]:.0g} with cosines), "
            f"p_t . p_s varies by {grams[0]:.1f} at equal distances ({grams[1]:.0g} with cosines)")


@claim("P6", note="004")
def one_hot_positions_are_cumbersome():
    """Positions can be one-hot vectors, but that becomes cumbersome quickly."""
    counts, T, width = [], 10, 4
    for size in (10, 100, 1000):
        mg.manual_seed(0)
        one_hot = nn.PositionEncoding("one_hot", width, combine="concatenate", position_width=size)
        layer = nn.Linear(one_hot.out_width, width, bias=False).double()
        counts.append(layer.weight.numel() - width * width)
    require(counts == [40, 400, 4000], f"parameters for positions: {counts}")

    learned = nn.PositionEncoding("learned", width, size=size).double()
    learned.weight.data = layer.weight.array[:, width:].T.copy()
    x, upstream = randn(2, T, width), randn(2, T, width, seed=1)
    by_one_hot, by_table = layer(one_hot(x)), learned(x @ layer.weight.detach()[:, :width].T)
    found = require_equal(by_one_hot, by_table)
    by_one_hot.backward(upstream)
    by_table.backward(upstream)
    gradients = require_equal(layer.weight.grad.array[:, width:].T, learned.weight.grad)
    return (f"parameters of the next layer for 10, 100, 1000 positions: {', '.join(map(str, counts))}; a learned table "
            f"is the same, difference {found:.0g}, gradients {gradients:.0g}")


@claim("P7", note="004")
def integer_positions_have_a_scale_problem():
    """The position can be added as an integer, but its value becomes very large in long sequences."""
    width, T = 64, 1001
    norms = nn.PositionEncoding("integer", width)(randn(T, width)).norm(dim=1).array
    expected = np.arange(T) * np.sqrt(width)
    require(np.abs(norms[10:] / expected[10:] - 1).max() < 0.5 and abs(norms[-1] / expected[-1] - 1) < 0.01,
            f"norms {norms[[10, 100, 1000]]}")

    one_feature = nn.PositionEncoding("integer", width, combine="concatenate", position_width=1)
    a, b = (normalised(one_feature(randn(T, width, seed=seed)).array) for seed in (1, 2))
    likeness = (a * b).sum(1) / (width + 1)  # of two texts
    require(abs(likeness[0]) < 0.7 and likeness[-1] > 0.999, f"cosines {likeness[[0, -1]]}")

    losses = {}
    for positions in ("integer", "sinusoidal"):
        task = dataclasses.replace(TASKS["copy"], lengths=(6, 6))
        model = make_model(task, "encoder-decoder", dataclasses.replace(SMALL, positions=positions))
        losses[positions] = np.mean(Trainer(model, task, COPYING).train()[-20:])
    require(losses["sinusoidal"] < 0.5 * losses["integer"], f"losses {losses}")

    x, block = randn(1, 10, width), Block(TransformerConfig(width=width, placement="pre")).double()
    counted = nn.PositionEncoding("integer", width)(x)
    unseen = require_equal(block(counted) - counted, block(x) - x, 1e-9)  # layer norms subtract the integers as a mean
    return (f"norm {norms[10]:.0f}, {norms[100]:.0f}, {norms[1000]:.0f} at positions 10, 100, 1000; after a layer norm "
            f"two texts have cosine {likeness[0]:.2f} at position 0, {likeness[-1]:.5f} at 1000; loss of copying "
            f"{losses['integer']:.2f}, with sinusoids {losses['sinusoidal']:.2f}; one integer added to all features is "
            f"what a layer norm subtracts: seen by a block up to {unseen:.0g}")


# ---- recurrent networks ----


def recurrent_states(x: np.ndarray, parameters: dict[str, np.ndarray], name: str) -> np.ndarray:
    """(T, inputs) -> (T, hidden), one unit after the other."""
    w_ih, w_hh, b_ih, b_hh = (parameters[part + name] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    states, before = np.zeros((len(x), len(b_ih))), np.zeros(len(b_ih))
    for t in range(len(x)):
        for unit in range(len(b_ih)):
            states[t, unit] = np.tanh(w_ih[unit] @ x[t] + b_ih[unit] + w_hh[unit] @ before + b_hh[unit])
        before = states[t]
    return states


@claim("G4", note="004")
def recurrent_networks_in_layers():
    """Recurrent networks of several layers read a sequence and put out symbols, from what they have seen so far."""
    mg.manual_seed(0)
    layer = nn.RNN(3, 4, num_layers=2).double()
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    below = recurrent_states(x.array[0], parameters, "_l0")
    states, last = layer(x)
    found = max(require_equal(states[0], recurrent_states(below, parameters, "_l1")), require_equal(last[0, 0], below[-1]))
    check_gradients(layer, x)
    require_causal(influence(lambda x: layer(x)[0], x))
    return f"largest difference from a loop {found:.0g}; gradients pass through {x.shape[1]} steps and 2 layers"


@claim("G5", note="004")
def reading_in_both_directions():
    """Read the sequence forwards and backwards: two sets of hidden states, which are concatenated."""
    mg.manual_seed(0)
    layer, swapped = (nn.RNN(3, 4, bidirectional=True).double() for _ in range(2))
    x = randn(1, 6, 3)
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    forward = recurrent_states(x.array[0], parameters, "_l0")
    backward = recurrent_states(x.array[0, ::-1], parameters, "_l0_reverse")[::-1]
    found = require_equal(layer(x)[0][0], np.hstack([forward, backward]))

    for name, parameter in swapped.named_parameters():
        twin = name.removesuffix("_reverse") if name.endswith("_reverse") else name + "_reverse"
        parameter.data = parameters[twin]
    mirrored = swapped(mg.tensor(x.array[:, ::-1]))[0].array[:, ::-1]
    halves = require_equal(layer(x)[0], np.concatenate([mirrored[..., 4:], mirrored[..., :4]], axis=-1))
    require(influence(lambda x: layer(x)[0], x).all(), "some states do not depend on all inputs")
    check_gradients(layer, x)
    return f"largest difference {found:.0g}; backwards, with directions exchanged, the halves swap: {halves:.0g}"


# ---- training ----

COPYING = TrainingConfig.of(TASKS["copy"], steps=400, batch_size=32)
REVERSING_STEPS = {"rnn": 1000, "rnn-attention": 400}
SMALL = TransformerConfig(context=16, layers=1, heads=2, width=48)
LENGTHS = 3, 5, 8


@functools.cache
def reverser(name: str) -> nn.Module:
    return trained(TASKS["reverse"], name, TransformerConfig(width=48), steps=REVERSING_STEPS[name], lr=3e-3)


def reversed_right(name: str) -> list[float]:
    """The fraction of sequences without a mistake, for LENGTHS."""
    return [TASKS["reverse"].accuracy(reverser(name), 500, length=length) for length in LENGTHS]


def in_percent(fractions: list[float]) -> str:
    return ", ".join(f"{fraction:.0%}" for fraction in fractions)


@claim("G6", note="004")
def the_last_state_forgets():
    """An encoder's last state is all that the decoder gets; it captures the overall context badly."""
    right = reversed_right("rnn")
    require(right[0] > 0.9 and right[0] > right[1] > right[2] and right[2] < 0.5, f"right: {in_percent(right)}")
    return f"reversed without a mistake at lengths {', '.join(map(str, LENGTHS))}: {in_percent(right)}"


@claim("G7", note="004")
def all_states_and_attention():
    """Keep all states of the encoder, and let the decoder weigh them; the weights show which parts influenced which."""
    right = reversed_right("rnn-attention")
    length = LENGTHS[-1]
    source, target = TASKS["reverse"].make(np.random.default_rng(1), 100, length)
    inputs, _ = inputs_and_targets(target)
    where = reverser("rnn-attention").attention_map(mg.tensor(source), mg.tensor(inputs)).argmax(axis=2)[:, :length]
    on_diagonal = float((where == np.arange(length)[::-1]).mean())
    require(min(right) > 0.9, f"right: {in_percent(right)}")
    require(on_diagonal > 0.9, f"on the anti-diagonal: {on_diagonal:.0%}")
    return (f"reversed without a mistake at lengths {', '.join(map(str, LENGTHS))}: {in_percent(right)}; "
            f"{on_diagonal:.0%} of the steps look at the anti-diagonal")


@claim("G9", note="004")
def classification_and_translation():
    """Sequences are classified, and translated: the translation has another order of words, and 6 words for 7."""
    sentiment, translation = TASKS["sentiment"], TASKS["translation"]
    source, target = translation.make(np.random.default_rng(0), 1, 3)
    require((source.shape[1], target.shape[1]) == (7, 6), f"{source.shape[1]} words, {target.shape[1]} words")

    judge = trained(sentiment, "encoder", dataclasses.replace(SMALL, positions="relative"), steps=400, lr=3e-3)
    translator = trained(translation, "encoder-decoder", SMALL, steps=400, lr=3e-3)
    judged, translated = sentiment.accuracy(judge, 1000), translation.accuracy(translator, 1000, length=3)
    require(min(judged, translated) > 0.95, f"right: {in_percent([judged, translated])}")
    return f"sentiment {judged:.1%} right; translation of 7 words to 6 {translated:.1%} without a mistake"


# ---- errata ----


@claim("E9", note="004", verdict=FALSE)
def values_without_their_head():
    """Head r weighs v_j, a value without the index of a head (meant is v^r_j)."""
    mg.manual_seed(0)
    layer = nn.Attention(6, heads=3, scale="d_model").double()
    x = randn(5, 6)
    _, weights = layer(x, need_weights=True)
    W, W_y, v = weights.array, layer.out.weight.array, x.array @ layer.value.weight.array.T
    own = np.concatenate([W[r] @ v[:, 2 * r : 2 * r + 2] for r in range(3)], axis=1) @ W_y.T
    found = require_equal(layer(x), own)
    of_all_heads = np.concatenate([W[r] @ v for r in range(3)], axis=1)
    require(of_all_heads.shape[1] != W_y.shape[1], "the values of all heads fit W_y")
    of_one_head = np.concatenate([W[r] @ v[:, :2] for r in range(3)], axis=1) @ W_y.T
    literal = largest(layer(x), of_one_head)
    require(literal > 0.01, f"one value for all heads differs by {literal:.0g} only")
    return (f"with v^r_j the layer's output, difference {found:.0g}; with one v_j for all heads it differs by "
            f"{literal:.2f}, and if v_j is as wide as x, W_y is given {of_all_heads.shape[1]} features and takes "
            f"{W_y.shape[1]}")


@claim("E10", note="004", verdict=FALSE)
def alignment_with_swapped_indices():
    """c_i is the sum over j of alpha_ij h_j, with alpha_ij from [h_i, s_j] (meant is [h_j, s_i])."""
    mg.manual_seed(0)
    layer = nn.AdditiveAttention(3, 3, hidden=5).double()

    def scores(of_row, of_column):
        """W_1 tanh(W_2 [h, s]) for each (row, column)."""
        together = of_row[:, None] + of_column[None]
        return np.tanh(together) @ layer.score.weight.array[0]

    def compare(steps):
        s, h = randn(1, steps, 3), randn(1, 6, 3, seed=1)
        of_s = s.array[0] @ layer.state.weight.array.T + layer.state.bias.array
        of_h = h.array[0] @ layer.context.weight.array.T
        c = layer(s, h)[0].array[0]
        meant, literal = (softmax(alpha) for alpha in (scores(of_s, of_h), scores(of_h, of_s)))
        return c, meant, literal, h.array[0]

    c, meant, literal, h = compare(steps=2)
    found = require_equal(c, meant @ h)
    require(literal.shape == (6, 2), f"literal weights have shape {literal.shape}")  # which do not multiply 6 states
    c, meant, literal, h = compare(steps=6)
    wrong = largest(c, literal @ h)
    require(wrong > 0.01, f"as printed it differs by {wrong:.0g} only")
    return (f"with [h_j, s_i] the layer's output, difference {found:.0g}; as printed, 2 decoder states and 6 encoder "
            f"states give weights 6 x 2, which do not fit 6 states, and for 6 and 6 it differs by {wrong:.2f}")


@claim("E11", note="004", verdict=FALSE)
def the_last_sine_as_printed():
    """The last feature of a position is sin(omega_d) t (meant is sin(omega_d t)), and always bounded."""
    width, omega = 8, 1 / 10000
    t = np.array([0, 100, 10_000, 100_000])
    ours = np.array([nn.PositionEncoding("sine_only", width).table(1, start).array[0, -1] for start in t])
    meant, literal = np.sin(omega * t), np.sin(omega) * t
    require_equal(ours, meant)
    require(largest(meant) <= 1, f"sin(omega_d t) reaches {largest(meant)}")
    require(abs(literal[-1] - 10) < 0.01, f"as printed it is {literal[-1]} at {t[-1]}")
    return (f"at t = 100, 10000, 100000 as printed {in_two_places(literal[1:])}, without bound; sin(omega_d t) is "
            f"{in_two_places(meant[1:])}")
