"""Note 001, "Residual Connections" and "Layer Normalization"."""
import numpy as np

import minigrad as mg
import nn
from models.config import PLACEMENTS, TransformerConfig
from models.transformer import Block
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, largest, make_block, misprint, normal, normalised, randn, require_equal, scrambled, silence, size, slope_of,
    stack,
)

claim = claims_of("001")


@claim("C6", "Residual Connections", "true if no norm is on the residual path")
def the_gradient_of_a_residual_connection_is_1():
    """The layer is added to its input, so that only the residual has to be learned. The gradient through the residual
    connection is great: it is 1; and there is a bias towards the identity function.

    formula: X^(i) = X^(i-1) + Layer(X^(i-1))
    here: Block(TransformerConfig(placement="residual" or "pre"))
    """
    x = randn(1, 3, 4)
    blocks = {placement: silence(make_block(placement)) for placement in PLACEMENTS}
    off = {placement: largest(slope_of(block, x), np.eye(12)) for placement, block in blocks.items()}
    identities = {placement for placement, distance in off.items() if distance < EXACT}
    require(identities == {"pre", "residual"}, f"Jacobians differ from I by {off}")
    block = Block(TransformerConfig(width=4, heads=2, placement="residual"), attends=False).double()
    added = require_equal(slope_of(block, x), np.eye(12) + slope_of(block.mlp, x))
    return dict(difference=added, from_identity=[distance for distance in off.values() if distance > EXACT])


@claim("R18", "Residual Connections", "true if training is short")
def residual_connections_help_models_train_better():
    """Residual connections are a trick to help models train better.

    formula: X^(i) = X^(i-1) + Layer(X^(i-1))
    here: Block(TransformerConfig(placement="none" or "residual"))
    also in: 003: Transformer layers
    measured: loss of 8 blocks that learn to copy 4 letters of 10: 0.0005 (0.0002 to 0.0020) nats with residual
        connections, 2.35 (2.34 to 2.35) without, 2.34 for knowing how often each symbol occurs; 250 steps of AdamW at
        0.005, 5 seeds
    """
    x, u = randn(1, 6, 16), randn(1, 6, 16, seed=1)
    without, residual = ([float(mg.vjp(stack(depth, placement=placement), x, u)[1].norm()) for depth in (1, 4, 16)]
                         for placement in ("none", "residual"))
    require(without[2] < 1e-9 * without[0] and residual[2] > residual[0], f"input's gradients: {without}, {residual}")
    return dict(gradient_below_1_4_and_16_blocks=residual, without=without)


@claim("N18", "Layer Normalization", "true if the stack is deep, or norms come first")
def layer_norm_helps_models_train_faster():
    """Layer normalization is a trick to help models train faster.

    formula: Trick to help models train faster
    here: Block(TransformerConfig(placement="residual" or "post" or "pre"))
    measured: steps until a stack copies 4 letters (loss below 0.1 nats), with residual connections alone, this note's
        Add & Norm, norms before the layers: 155 (138 to 166), 122 (119 to 130), 114 (106 to 121) with 8 blocks; 137
        (128 to 143), 137 (120 to 148), 106 (93 to 115) with 2; AdamW at 0.005, 5 seeds
    """
    plain, post, pre = ([float(stack(depth, placement=placement)(randn(1, 6, 16)).std()) for depth in (2, 8, 32)]
                        for placement in ("residual", "post", "pre"))
    require(plain[2] > 3 * pre[2] and np.ptp(post) < 0.01, f"standard deviations: {plain}, {post}, {pre}")
    return dict(deviation_after_2_8_and_32_blocks=plain, with_norms_after=post, with_norms_before=pre)


@claim("N17", "Layer Normalization")
def layer_norm_normalises_gradients():
    """It cuts down on uninformative variation in the hidden vectors; its success may be due to its normalizing
    gradients.

    formula: LayerNorm's success may be due to its normalizing gradients
    here: nn.LayerNorm(16)
    """
    layer = nn.LayerNorm(16, eps=0.0).double()
    x = normal(0, 4, 16)
    upstream = randn(4, 16, seed=1)
    gradients = [mg.vjp(layer, mg.tensor(scale * x + 5), upstream)[1] for scale in (1, 10, 100)]
    g = upstream.array
    y = normalised(x, eps=0.0)
    without_mean = g - g.mean(-1, keepdims=True)
    expected = (without_mean - y * (g * y).mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    difference = max(require_equal(scale * gradient, expected, 1e-10) for scale, gradient in zip((1, 10, 100), gradients))
    return dict(norms=[float(gradient.norm()) for gradient in gradients], difference=difference)


@claim("E4", "Layer Normalization", FALSE)
def layer_norm_gives_mean_1_and_divides_by_the_root_of_the_deviation():
    """Layer norm normalises to unit mean and standard deviation: x minus its mean mu, divided by sqrt(sigma) + eps,
    where sigma = sqrt(sum of (x_j - mu)^2 / d) is the standard deviation, times a gain gamma, plus a bias beta.

    formula: output = (x - mu) / (sqrt(sigma) + eps) * gamma + beta
    here: nn.LayerNorm(64, eps_at="double_root"); meant is eps_at="outside"
    """
    x, eps = 9 * normal(0, 8, 64) + 3, 1e-3
    centred = x - x.mean(-1, keepdims=True)
    sigma = x.std(-1, keepdims=True)
    denominators = {"double_root": np.sqrt(sigma) + eps, "outside": sigma + eps}  # as printed, and as meant
    pairs, deviations = [], []
    for eps_at, denominator in denominators.items():
        layer = scrambled(nn.LayerNorm(64, eps=eps, eps_at=eps_at))
        pairs.append((layer(mg.tensor(x)), centred / denominator * layer.weight.array + layer.bias.array))
        deviations.append((centred / denominator).std(axis=-1).mean())
    require(deviations[0] > 2 and abs(deviations[1] - 1) < 1e-3, f"deviations {deviations}")
    return misprint(pairs) | dict(deviation=deviations[1], as_printed=deviations[0])


@claim("N19", "Layer Normalization")
def mean_and_deviation_are_broadcast():
    """The mean mu and the deviation sigma are broadcast across the d dimensions of x, so that whole vectors are computed at
    once.

    formula: we've broadcasted the mu and sigma across the d dimensions of x
    here: x.mean(-1, keepdim=True), nn.LayerNorm(d)
    """
    x = normal(0, 4, 4)
    layer = nn.LayerNorm(4, eps=0.0, elementwise_affine=False)
    one_by_one = np.array([[(x_ij - x_i.mean()) / x_i.std() for x_ij in x_i] for x_i in x])
    X = mg.tensor(x)
    centred = X - X.mean(-1, keepdim=True)
    at_once = centred / centred.square().mean(-1, keepdim=True).sqrt()
    silent = largest(X - X.mean(-1), centred)
    require(silent > 0.1, f"the wrong axis is off by {silent:.0e}")
    return dict(forward=max(require_equal(y, one_by_one) for y in (at_once, layer(X))), without_keepdim=silent)


@claim("N5", "Layer Normalization")
def gain_and_bias_of_layer_norm_can_be_left_out():
    """The learned gain and bias of layer norm can be omitted.

    formula: gamma in R^d and beta in R^d (Can omit!)
    here: nn.LayerNorm(16, elementwise_affine=False)
    """
    x = 2 * normal(0, 5, 16) + 3
    plain = nn.LayerNorm(16, elementwise_affine=False)
    counts = [size(layer) for layer in (plain, nn.LayerNorm(16, bias=False), nn.LayerNorm(16))]
    require(counts == [0, 16, 32], f"there are {counts} parameters")
    return dict(parameters=counts, difference=require_equal(plain(mg.tensor(x)), normalised(x)))
