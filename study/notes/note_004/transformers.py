"""Note 004, "Transformers" and "Transformers: Wrapup"."""
import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.encoder_decoder import Encoder
from models.transformer import Block
from nn.position import sine_only
from study.notes.attention import Attention
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, Spread, largest, misprint, normalised, over_seeds, products_vary, randn, refusal, require_block, require_equal,
    scrambled, silence,
)

claim = claims_of("004")


@claim("R6", "Transformers")
def the_block_in_words():
    """A block is self-attention with a residual connection, a layer norm, standard MLPs, and another layer norm.

    formula: self-attention + residual connection, Layer Normalization, standard MLPs, another Layer Normalization
    here: Block(TransformerConfig(placement="post_attention_only"))
    """
    x, sizes = randn(1, 3, 4), {}
    for placement in ("post_attention_only", "post"):
        block = Block(TransformerConfig(width=4, heads=2, placement=placement), is_causal=False).double()
        sizes[placement] = largest(silence(block, block.mlp.project)(x))
    require(sizes["post_attention_only"] == 0 < sizes["post"], f"without an MLP, the largest outputs are {sizes}")
    return dict(difference=require_block("post_attention_only", x), left_with_that_connection=sizes["post"])


def growth_of_gradients(placement: str, depth: int = 24, seeds: int = 20) -> Spread:
    """|Jᵀ u| of `depth` blocks over that of one, for a random u and random weights of variance 1 / inputs."""
    config = TransformerConfig(width=32, heads=1, bias=False, placement=placement)

    def growth(seed):
        blocks = [Block(config, is_causal=False).double() for _ in range(depth)]
        for parameter in (parameter for block in blocks for parameter in block.parameters() if parameter.ndim == 2):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        x = randn(1, 16, 32, seed=seed)
        u = randn(1, 16, 32, seed=1000 + seed)
        of_one, of_all = (mg.vjp(nn.Sequential(*blocks[:n]), x, u)[1].norm().item() for n in (1, depth))
        return of_all / of_one

    return over_seeds(growth, seeds=seeds)


def gradient_of_the_first_token(length: int) -> Spread:
    """The norm of the last output's gradient with respect to the first of this many tokens."""
    def gradient(seed):
        layer = Attention(32, causal=True).double()
        x = randn(1, length, 32, seed=seed)
        _, dx = mg.vjp(lambda x: layer(x)[:, -1], x, randn(1, 32, seed=1000 + seed))
        return dx[0, 0].norm().item()

    return over_seeds(gradient, seeds=20)


@claim("C5", "Transformers", FALSE)
def without_recurrence_gradients_may_vanish_or_explode():
    """A transformer has no recurrent units; therefore gradients do not vanish or explode, by construction.

    formula: no recurrent units. Therefore, gradients do not vanish/explode (by construction)
    here: Block(TransformerConfig(placement="post_attention_only", "none", "residual", "post" or "pre"))
    """
    placements = {"no residual connection": "none", "residual connections without norms": "residual",
                  "the note's block": "post_attention_only", "post-norm": "post", "pre-norm": "pre"}
    growth = {name: growth_of_gradients(placement) for name, placement in placements.items()}
    nothing, residual, note, post, pre = growth.values()
    require(max(nothing.values) < 1e-5, f"without residual connections {nothing:.2g}")
    require(min(residual.values) > 1e4, f"without norms {residual:.2g}")
    require(0.1 < note.median < 1.5 and 0.2 < post.median < 1.5, f"the note's block {note:.2g}, post-norm {post:.2g}")
    require(2 < pre.median < 12, f"pre-norm {pre:.2g}")

    of_first = [gradient_of_the_first_token(length).median for length in (8, 32, 128)]
    require(7 < of_first[0] / of_first[2] < 37, f"along the sequence: {of_first}")
    return dict(**growth, along_the_sequence=of_first)


@claim("A23", "Transformers: Wrapup")
def jack_and_jill_are_confused():
    """Jack gave water to Jill, Jill gave water to Jack: without positions both sentences have the same features.

    formula: "Jack gave water to Jill" and "Jill gave water to Jack"
    here: Encoder(TransformerConfig(positions="none" or "sinusoidal"))
    """
    differences = []
    turned = [4, 1, 2, 3, 0]  # words 0 to 4 are Jack gave water to Jill
    for positions in ("none", "sinusoidal"):
        config = TransformerConfig(vocabulary_size=5, context=5, layers=1, heads=2, width=8, positions=positions)
        encoder = scrambled(Encoder(config))
        jack_gave, jill_gave = (encoder(mg.tensor([ids])) for ids in ([0, 1, 2, 3, 4], turned))
        differences.append(largest(jack_gave, jill_gave[:, turned]))  # word by word
    require(differences[0] < EXACT, f"without positions they differ by {differences[0]:.0g}")
    require(differences[1] > 0.1, f"with positions they differ by {differences[1]:.0g} only")
    return dict(difference=differences[0], with_positions=differences[1])


@claim("E38", "Transformers: Wrapup", "false here or in note 001: they contradict each other")
def both_kinds_of_positions_are_the_usual_ones():
    """Position vectors are learned or fixed, and the fixed ones are typically used.

    formula: learned ... or just fixed. The latter is typically used; 001: learned: most systems use this today
    here: nn.PositionEncoding("learned", D, size=N), nn.PositionEncoding("sinusoidal", D)
    also in: 001: Learned absolute position representations
    measured: loss for the previous token: 0.0000 with learned positions, 0.0004 (0.0003 to 0.0006) with fixed ones;
        400 steps of Adam at 0.01, 5 seeds
    """
    learned = nn.PositionEncoding("learned", 8, size=4)
    fixed = nn.PositionEncoding("sinusoidal", 8)
    counts = [sum(parameter.numel() for parameter in kind.parameters()) for kind in (learned, fixed)]
    require(counts == [4 * 8, 0] and fixed(mg.zeros(1, 9, 8)).shape == (1, 9, 8), f"numbers to learn: {counts}")
    refusal(learned, mg.zeros(1, 9, 8))
    return dict(to_learn=counts[0], fixed=counts[1])


@claim("P6", "Transformers: Wrapup")
def one_hot_positions_are_cumbersome():
    """Positions can be one-hot vectors, but that quickly becomes cumbersome.

    formula: One-hot encoding the position is possible (although quickly becomes cumbersome)
    here: nn.PositionEncoding("one_hot", D, combine="concatenate", position_width=N)
    """
    counts, T, width = [], 10, 4
    for longest in (10, 100, 1000):
        one_hot = nn.PositionEncoding("one_hot", width, combine="concatenate", position_width=longest)
        layer = nn.Linear(one_hot.out_width, width, bias=False).double()
        counts.append(layer.weight.numel() - width * width)
    require(counts == [40, 400, 4000], f"parameters for positions: {counts}")
    x, W = randn(2, T, width), layer.weight.T
    by_table = x @ W[:width] + W[width : width + T]  # a table of learned positions
    return dict(parameters=counts, outputs=require_equal(layer(one_hot(x)), by_table))


@claim("P7", "Transformers: Wrapup")
def integer_positions_have_a_scale_problem():
    """An integer feature for the position is fine, but may have scale issues, as it becomes very large in long
    sequences.

    formula: an integer feature encoding the position is fine too, although we may run into scale/dynamic range issues
    here: nn.PositionEncoding("integer", D, combine="concatenate", position_width=1)
    measured: loss where the halves of a sequence must be told apart: 0.002 (0.001 to 0.002) with 8 tokens; with 512
        tokens 1.82 (1.36 to 2.03), 0.22 (0.08 to 1.04) after twice the steps, 0.70 without positions, 0.035 (0.031 to
        0.049) with the integer divided by 512, 0.002 (0.002 to 0.004) with sinusoids; 200 steps of Adam at 0.01, 5
        seeds
    """
    width, T = 16, 1001
    encoding = nn.PositionEncoding("integer", width, combine="concatenate", position_width=1)
    a, b = (encoding(randn(T, width, seed=seed)).array for seed in (1, 2))
    require_equal(a[:, width], np.arange(T))
    likeness = (normalised(a) * normalised(b)).sum(1) / (width + 1)  # of two texts
    require(abs(likeness[0]) < 0.7 and likeness[-1] > 0.99, f"cosines {likeness[[0, -1]]}")
    return dict(likeness=likeness[[0, -1]])


def error_of_a_shift(table: np.ndarray) -> float:
    """How far p[t] @ M is from p[t + 3] for the best matrix M, for the rows p of a table."""
    M, *_ = np.linalg.lstsq(table[:-3], table[3:], rcond=None)
    return largest(table[:-3] @ M, table[3:])


@claim("P5", "Transformers: Wrapup")
def sines_only():
    """Sines of frequencies 10000^(-k/d) are always bounded, and exist for any t and d.

    formula: p_t = [sin(omega_1 t); sin(omega_2 t); ... sin(omega_d) t], omega_k = 1 / 10000^(k/d)
    here: nn.PositionEncoding("sine_only", D)
    """
    table, pairs = (nn.PositionEncoding(kind, 8).table(50).array for kind in ("sine_only", "sinusoidal"))
    written_out = [[np.sin(t * 1 / 10000 ** (k / 8)) for k in range(1, 9)] for t in range(50)]
    require_equal(table, np.array(written_out))
    bound = max(largest(sine_only(20, d, start=start)) for d in (1, 7, 64) for start in (0, 10**6))
    require(bound <= 1, f"the largest is {bound}")
    maps, grams = ([f(x) for x in (table, pairs)] for f in (error_of_a_shift, products_vary))
    require(maps[0] > 0.1 and grams[0] > 0.1 and maps[1] < 1e-9 > grams[1], f"shifts {maps}, products {grams}")
    return dict(largest=bound, shift=maps[0], shift_with_cosines=maps[1], products=grams[0],
                products_with_cosines=grams[1])


@claim("E11", "Transformers: Wrapup", FALSE)
def the_last_sine_as_printed():
    """The last feature of a position is sin(omega_d) t, and the values are always bounded.

    formula: sin(omega_d) t
    here: nn.PositionEncoding("sine_only", D): sin(omega_d t)
    """
    omega, t = 1 / 10000, np.array([0, 100, 10_000, 100_000])
    ours = np.array([nn.PositionEncoding("sine_only", 8).table(1, start).array[0, -1] for start in t])
    return misprint([(ours, np.sin(omega * t))], [(ours, np.sin(omega) * t)], least=9.0)
