"""Note 000, "Token-wise Nonlinearity", "Residual Connections" and "Layer Norm"."""
import numpy as np

import minigrad as mg
import nn
from models.config import TransformerConfig
from models.transformer import MLP, Block
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, apart, feed_forward, influence, largest, layer_norm, make_block, normal, randn, require_block, require_equal,
    scrambled, silence, slope_of, stack,
)

claim = claims_of("000")


@claim("M1", "Token-wise Nonlinearity")
def the_mlp_works_token_by_token():
    """After attention, the same feed-forward network, an MLP, is applied at every position, and mixes features
    nonlinearly.

    formula: x_t^(m) = mlp(y_t^(m))
    here: models.transformer.MLP, TransformerConfig(activation="gelu", mlp_ratio=4)
    also in: 002: Multi-layer perceptron; 003: Transformer layers; 004: Transformers
    """
    layer = MLP(TransformerConfig(heads=1, width=4)).double()
    y = randn(1, 5, 4)
    difference = require_equal(layer(y), feed_forward(layer, y.array))
    reach = influence(layer, y)
    own = np.diag(reach).min()
    others = largest(reach - np.diag(np.diag(reach)))
    require(others == 0 < own, f"|dx_t / dy_s| up to {others:.0e} for s != t, from {own:.0e} for s = t")
    return dict(difference=difference, within_a_token=own, between_tokens=others)


@claim("R0", "Token-wise Nonlinearity")
def a_block_without_residual_connections():
    """A block's output is the token-wise network applied to the output of multi-headed self-attention.

    formula: Y = mhsa(X), x_t = mlp(y_t)
    here: Block(TransformerConfig(placement="none"))
    """
    x = randn(1, 3, 4)
    left = largest(silence(make_block("none"))(x))
    require(left == 0, f"{left:.0e} passes a block of zeros")
    return dict(difference=require_block("none", x))


@claim("C3", "Computational Complexity")
def the_mlp_can_dominate():
    """The MLP has at least D hidden units and costs O(T D²), which can dominate if tokens have very many features.

    formula: O(T D^2)
    here: mg.count_flops() of a block: 8 T D² of the MLP, 4 T D² + 2 T² D of attention
    also in: 003: Computational complexity
    """
    shares = []
    for T, D in ((4, 64), (32, 16), (128, 8)):
        block = Block(TransformerConfig(context=T, heads=1, width=D), is_causal=False)
        with mg.count_flops() as count:
            block(mg.zeros(1, T, D))
        mlp, attention = 8 * T * D**2, 4 * T * D**2 + 2 * T**2 * D
        require((count.forward_counts["MLP"], count.total) == (mlp, mlp + attention), f"T = {T}, D = {D}: {count}")
        shares.append(mlp / count.total)
    require(shares[0] > 0.6 and shares[1] == 0.5 and shares[2] < 0.2, f"shares {shares}")
    return dict(share_of_the_mlp=shares)


@claim("R1", "Residual Connections")
def residual_connections_start_at_the_identity():
    """If input and output have the same size, let the network learn the residual: Y = X + mhsa(X), X = Y + mlp(Y).

    formula: Y = X + mhsa(X), X = Y + mlp(Y)
    here: Block(TransformerConfig(placement="residual"))
    also in: 001: Residual Connections; 003: Transformer layers
    """
    x = randn(1, 3, 4)
    from_identity = largest(silence(make_block("residual"))(x), x)
    require(from_identity == 0, f"zero weights are {from_identity:.0e} from the identity")
    return dict(difference=require_block("residual", x), from_identity=from_identity)


@claim("R8", "Residual Connections")
def residuals_are_smaller_than_functions():
    """The residual, which the network learns, is typically smaller in magnitude than the overall function.

    formula: the residual, which is typically smaller in magnitude than the overall function
    here: Block(TransformerConfig(placement="residual"))
    measured: the norm of a residual over that of the function, in 4 blocks that copy letters: 0.57 (0.56 to 0.59)
        typically, 0.67 (0.64 to 0.68) where it is largest; 200 steps of AdamW at 0.003, 5 seeds
    """
    x, ratios = randn(9, 6, 16), []
    for block in stack(4, placement="residual"):
        before, x = x, block(x)
        ratios.append(float(((x - before).norm(dim=-1) / x.norm(dim=-1)).max()))
    require(max(ratios) < 1, f"the largest residuals over their functions: {ratios}")
    return dict(largest_at_the_start=ratios)


@claim("N1", "Layer Norm", "true if no token is constant")
def layer_norm_has_no_epsilon():
    """Layer norm is (x - mean) / std, with 1/D in both and nothing added to std, times a learned gamma, plus a learned
    beta.

    formula: layer-norm(x_t) = beta + gamma * (x_t - mean(x_t)) / std(x_t), both with 1/D
    here: nn.LayerNorm(D, eps=0.0)
    """
    x, layer = normal(16, 4, 6), scrambled(nn.LayerNorm(6, eps=0.0))
    difference = require_equal(layer(mg.tensor(x)), layer_norm(layer, x))
    with np.errstate(all="ignore"):
        constant = [nn.LayerNorm(6, eps=eps)(mg.ones(1, 6)).array[0, 0] for eps in (0.0, 1e-5)]
    require(np.isnan(constant[0]) and constant[1] == 0, f"a constant token becomes {constant}")
    return dict(difference=difference, constant_token=constant[0], with_epsilon=constant[1])


@claim("N6", "Layer Norm")
def layer_norm_is_a_z_score():
    """Layer norm amounts to z-scoring each token over its features.

    formula: (x_t - mean(x_t)) / std(x_t)
    here: nn.LayerNorm(D, eps=0.0, elementwise_affine=False)
    """
    x = normal(19, 4, 6)
    layer = nn.LayerNorm(6, eps=0.0, elementwise_affine=False)
    y = layer(mg.tensor(x)).array
    off = max(largest(y.mean(1)), largest(y.std(1), 1.0))
    moved = largest(layer(mg.tensor(3 * x - 2)), y)
    require(max(off, moved) < EXACT, f"{off:.0e}, {moved:.0e}")
    return dict(off=off, moved=moved)


@claim("N7", "Layer Norm", "true if the learning rate is large")
def layer_norm_stabilises_training():
    """Layer norm is a trick that stabilises training.

    formula: it is important to use other deep learning "tricks" like LayerNorm to stabilize training
    here: Block(TransformerConfig(placement="residual" | "inner" | "pre"))
    measured: 4 blocks without norms learn to copy 4 letters at a rate of 0.01 (100% right after 200 steps); at 0.06
        their loss rises to 82 (28 to 1425) (0% right after 120 steps), with the note's norms to 4.8 (3.4 to 9.3) (0%),
        with pre-norm to 3.4 (3.0 to 3.6) (100%); AdamW without clipping, 5 seeds
    """
    x, growth = randn(1, 6, 16), {}
    for placement in ("residual", "inner", "pre"):
        blocks = stack(4, placement=placement, final_norm=False)
        sizes = []
        for factor in (1, 10):  # as after a step that was too large
            for parameter in blocks.parameters():
                parameter.data *= factor if parameter.ndim == 2 else 1
            sizes.append(float(blocks(x).std()))
        growth[placement] = sizes[1] / sizes[0]
    without, note, pre = growth.values()
    require(without > 1e5 and max(note, pre) < 1e3, f"weights 10 times as large, outputs {growth} times")
    return dict(outputs_of_weights_times_10=without, with_the_notes_norms=note, with_pre_norm=pre)


@claim("R4", "Layer Norm")
def layer_norm_before_both_halves():
    """Layer norm is typically applied before attention and before the MLP: X' = LN(X), Y = X' + mhsa(X'), Y' = LN(Y),
    X = Y' + mlp(Y'). This defines one transformer block.

    formula: X' = layer-norm(X), Y = X' + mhsa(X'), Y' = layer-norm(Y), X = Y' + mlp(Y')
    here: Block(TransformerConfig(placement="inner"))
    """
    x = randn(1, 3, 4)
    return dict(difference=require_block("inner", x), from_pre_norm=apart(x, "inner", "pre"))


@claim("E15", "Layer Norm", FALSE)
def the_final_block_has_residual_connections():
    """Transformers use residual connections, Y = X + mhsa(X) and X = Y + mlp(Y), and the final block only has layer norm
    before both steps.

    formula: Y = X + mhsa(X), X = Y + mlp(Y); but then Y = X' + mhsa(X'), X = Y' + mlp(Y')
    here: TransformerConfig(placement="residual"), and placement="inner"
    """
    x = randn(1, 3, 4)
    blocks = {name: silence(make_block(name)) for name in ("residual", "pre", "inner")}
    off = {name: largest(slope_of(block, x), np.eye(12)) for name, block in blocks.items()}
    require(off["residual"] == off["pre"] == 0 < 0.1 < off["inner"], f"Jacobians differ from I by {off}")
    lost = largest(blocks["inner"](x), blocks["inner"](1000 * x))
    require(lost < 1e-4, f"the outputs of X and 1000 X differ by {lost:.0e}")
    return dict(jacobian_from_identity=off["inner"], outputs_of_x_and_1000_x=lost)


@claim("E13", "Layer Norm", "false here or in note 002: they contradict each other")
def both_notes_print_turners_block():
    """The presentation follows Turner's introduction, with slight changes to the notation.

    formula: 000: X = Y' + mlp(Y');  002: X = Y + MLP(Y')
    here: TransformerConfig(placement="inner"), and placement="mixed"
    also in: 002: Putting it together
    """
    return dict(apart=apart(randn(1, 3, 4), "inner", "mixed"))
