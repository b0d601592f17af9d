"""Note 000, "Token-wise Nonlinearity", "Residual Connections" and "Layer Norm"."""

import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.transformer import MLP, Block
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, check_gradients, feed_forward, influence, largest, layer_norm, make_block, normal, require_block,
    require_equal, silence, slope_of, stack,
)
from study.notes.note_000.shared import TRANSFORMER

claim = claims_of("000")


@claim("M1", "Token-wise Nonlinearity", formula="x_t^(m) = mlp(y_t^(m))",
       ours='models.transformer.MLP, TransformerConfig(activation="gelu", mlp_ratio=4)', code=f"{TRANSFORMER}:MLP",
       also=("002: Multi-layer perceptron", "003: Transformer layers", "004: Transformers"))
def the_mlp_works_token_by_token():
    """After attention, the same feed-forward network, an MLP, is applied at every position, and mixes features
    nonlinearly."""
    mg.manual_seed(0)
    layer = MLP(TransformerConfig(heads=1, width=4)).double()
    y = normal(12, 5, 4)
    x = layer(mg.tensor(y))
    require_equal(np.vstack([layer(mg.tensor(y[t : t + 1])).array for t in range(5)]), x)
    order = np.random.default_rng(0).permutation(5)
    require_equal(layer(mg.tensor(y[order])), x[order])
    difference = require_equal(x, feed_forward(layer, y))
    reach, same = influence(layer, y[None]), np.eye(5, dtype=bool)
    own, others = reach[same].max(), reach[~same].max()
    require(others == 0 and own > 0, f"|dx_t / dy_s| up to {others:.0e} for s != t")
    bent = largest(layer(mg.tensor(2 * y)) - layer(mg.tensor(np.zeros_like(y))), 2 * (x - layer(mg.tensor(0 * y))))
    require(bent > 1e-3, f"it is linear within {bent:.0e}")
    check_gradients(layer, y)
    return dict(difference=difference, within_a_token=own, between_tokens=others)


@claim("R0", "Token-wise Nonlinearity", formula="Y = mhsa(X), x_t = mlp(y_t)",
       ours='TransformerConfig(placement="none")', code=f"{TRANSFORMER}:Block")
def a_block_without_residual_connections():
    """A block's output is the token-wise network applied to the output of multi-headed self-attention."""
    x, block = normal(13, 3, 4), make_block("none")
    difference = require_block(block, "none", x)
    require(not any(isinstance(module, nn.LayerNorm) for module in block.modules()), "there is a norm")
    silent = silence(block)
    left = silent(mg.tensor(x[None])).array
    require(not left.any() and not slope_of(silent, x).any(), "something passes a block of zeros")
    return dict(difference=difference)


@claim("C3", "Computational Complexity", formula="O(T D^2)",
       ours="mg.count_flops() of a block: 8 T D² of the MLP, 4 T D² + 2 T² D of attention",
       code=f"{TRANSFORMER}:Block, minigrad/tracing/flops.py", also=("003: Computational complexity",))
def the_mlp_can_dominate():
    """The MLP has at least D hidden units and costs O(T D²), which can dominate if tokens have very many features."""
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
    return dict(share_of_the_mlp=shares)


@claim("R1", "Residual Connections", formula="Y = X + mhsa(X), X = Y + mlp(Y)",
       ours='TransformerConfig(placement="residual")', code=f"{TRANSFORMER}:Block",
       also=("001: Residual Connections", "003: Transformer layers"))
def residual_connections_start_at_the_identity():
    """If input and output have the same size, let the network learn the residual: Y = X + mhsa(X), X = Y + mlp(Y)."""
    x, block = normal(14, 3, 4), make_block("residual")
    difference = require_block(block, "residual", x)
    silent = silence(block)
    require(np.array_equal(silent(mg.tensor(x[None])).array[0], x), "zero weights are not the identity")
    require(np.array_equal(slope_of(silent, x), np.eye(12)), "its Jacobian is not I")
    return dict(difference=difference)


@claim("R8", "Residual Connections",
       formula="the residual, which is typically smaller in magnitude than the overall function",
       ours='TransformerConfig(placement="residual")', code=f"{TRANSFORMER}:Block",
       measured="the norm of a residual over that of the function, in 4 blocks that copy letters: 0.57 (0.56 to 0.59) "
                "typically, 0.67 (0.64 to 0.68) where it is largest; 200 steps of AdamW at 0.003, 5 seeds")
def residuals_are_smaller_than_functions():
    """The residual, which the network learns, is typically smaller in magnitude than the overall function."""
    x, ratios = mg.tensor(normal(0, 9, 6, 16)), []
    for block in stack(4, placement="residual"):
        before, x = x, block(x)
        ratios.append(float(((x - before).norm(dim=-1) / x.norm(dim=-1)).max()))
    require(max(ratios) < 1, f"the largest residuals over their functions: {ratios}")
    return dict(largest_at_the_start=ratios)


@claim("N1", "Layer Norm", "true if no token is constant",
       formula="layer-norm(x_t) = beta + gamma * (x_t - mean(x_t)) / std(x_t), both with 1/D",
       ours="nn.LayerNorm(D, eps=0.0)", code="nn/layer_norm.py:LayerNorm")
def layer_norm_has_no_epsilon():
    """Layer norm is (x - mean) / std, with 1/D in both and nothing added to std, times a learned gamma, plus a learned
    beta."""
    x, layer = normal(16, 4, 6), nn.LayerNorm(6, eps=0.0).double()
    layer.weight.data[...], layer.bias.data[...] = normal(17, 6), normal(18, 6)
    difference = require_equal(layer(mg.tensor(x)), layer_norm(layer, x))
    check_gradients(layer, x)
    constant = mg.ones(1, 6, dtype=mg.float64)
    with np.errstate(all="ignore"):
        broken = layer(constant).array
    mended = nn.LayerNorm(6).double()(constant).array
    require(np.isnan(broken).all() and not mended.any(), f"constant token: {broken[0, 0]}, and {mended[0, 0]}")
    return dict(difference=difference)


@claim("N6", "Layer Norm", formula="(x_t - mean(x_t)) / std(x_t)",
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
    return dict(off=off, moved=moved, along=along)


@claim("N7", "Layer Norm", "true if the learning rate is large",
       formula='it is important to use other deep learning "tricks" like LayerNorm to stabilize training',
       ours='TransformerConfig(placement="residual" | "inner" | "pre")', code="models/config.py:PLACEMENTS",
       measured="4 blocks without norms learn to copy 4 letters at a rate of 0.01 (100% right after 200 steps); at 0.06 "
                "their loss rises to 82 (28 to 1425) (0% right after 120 steps), with the note's norms to 4.8 (3.4 to 9.3) "
                "(0%), with pre-norm to 3.4 (3.0 to 3.6) (100%); AdamW without clipping, 5 seeds")
def layer_norm_stabilises_training():
    """Layer norm is a trick that stabilises training."""
    x, growth = mg.tensor(normal(0, 1, 6, 16)), {}
    for placement in ("residual", "inner", "pre"):
        blocks, sizes = stack(4, placement=placement, final_norm=False), []
        for factor in (1, 10):  # as after a step that was too large
            for parameter in blocks.parameters():
                if parameter.ndim == 2:
                    parameter.data *= factor
            sizes.append(float(blocks(x).std()))
        growth[placement] = sizes[1] / sizes[0]
    without, note, pre = growth.values()
    require(without > 1e5 and max(note, pre) < 1e3, f"weights 10 times as large, outputs {growth} times")
    return dict(outputs_of_weights_times_10=without, with_the_notes_norms=note, with_pre_norm=pre)


@claim("R4", "Layer Norm", formula="X' = layer-norm(X), Y = X' + mhsa(X'), Y' = layer-norm(Y), X = Y' + mlp(Y')",
       ours='TransformerConfig(placement="inner")', code=f"{TRANSFORMER}:Block")
def layer_norm_before_both_halves():
    """Layer norm is typically applied before attention and before the MLP: X' = LN(X), Y = X' + mhsa(X'), Y' = LN(Y),
    X = Y' + mlp(Y'). This defines one transformer block."""
    x, block = normal(15, 3, 4), make_block("inner")
    difference = require_block(block, "inner", x)
    apart = largest(make_block("pre")(mg.tensor(x[None])), block(mg.tensor(x[None])))
    require(apart > 0.1, f"pre-norm gives the same within {apart:.2g}")
    return dict(difference=difference, from_pre_norm=apart)


@claim("E15", "Layer Norm", FALSE,
       formula="Y = X + mhsa(X), X = Y + mlp(Y); but then Y = X' + mhsa(X'), X = Y' + mlp(Y')",
       ours='TransformerConfig(placement="residual"), and placement="inner"', code="models/config.py:PLACEMENTS")
def the_final_block_has_residual_connections():
    """Transformers use residual connections, Y = X + mhsa(X) and X = Y + mlp(Y), and the final block only has layer norm
    before both steps."""
    x, blocks = normal(32, 3, 4), {name: make_block(name) for name in ("residual", "pre", "inner")}
    off = {name: largest(slope_of(silence(block), x), np.eye(12)) for name, block in blocks.items()}
    require(off["residual"] == off["pre"] == 0 < 0.1 < off["inner"], f"Jacobians differ from I by {off}")
    printed = blocks["inner"]
    out, of_larger = (printed(mg.tensor(size * x[None]))[0] for size in (1, 1000))
    require_equal(out, layer_norm(printed.ln_2, layer_norm(printed.ln_1, x)))
    lost = largest(out, of_larger)
    require(lost < 1e-4, f"the outputs of X and 1000 X differ by {lost:.0e}")
    return dict(jacobian_from_identity=off["inner"], outputs_of_x_and_1000_x=lost)


@claim("E13", "Layer Norm", "false here or in note 002: they contradict each other",
       formula="000: X = Y' + mlp(Y');  002: X = Y + MLP(Y')",
       ours='TransformerConfig(placement="inner"), and placement="mixed"', code="models/config.py:PLACEMENTS",
       also=("002: Putting it together",))
def both_notes_print_turners_block():
    """The presentation follows Turner's introduction, with slight changes to the notation."""
    x, here, there = normal(31, 3, 4), make_block("inner"), make_block("mixed")
    require_block(here, "inner", x)
    require_block(there, "mixed", x)
    apart = largest(here(mg.tensor(x[None])), there(mg.tensor(x[None])))
    require(apart > 0.1, f"blocks {apart:.2g} apart")
    return dict(apart=apart)
