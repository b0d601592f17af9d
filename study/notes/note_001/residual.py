"""Note 001, "Residual Connections" and "Layer Normalization"."""
import math

import numpy as np

import minigrad as mg
import nn
from models.config import PLACEMENTS, TransformerConfig
from models.transformer import Block
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, check_gradients, largest, misprint, normal, normalised, refusal, require_equal, silence, stack,
)

claim = claims_of("001")


@claim("C6", "Residual Connections", "true if no norm is on the residual path",
       formula="X^(i) = X^(i-1) + Layer(X^(i-1))", ours='TransformerConfig(placement="residual" or "pre")',
       code="models/config.py:PLACEMENTS")
def the_gradient_of_a_residual_connection_is_1():
    """The layer is added to its input, so that only the residual has to be learned. The gradient through the residual
    connection is great: it is 1; and there is a bias towards the identity function."""
    x, distances = mg.tensor(normal(0, 1, 3, 4)), {}

    def jacobian(function):
        return mg.jacobian(function, x).array.reshape(12, 12)

    for placement in PLACEMENTS:
        mg.manual_seed(0)
        block = silence(Block(TransformerConfig(width=4, heads=2, placement=placement)).double())
        distances[placement] = largest(jacobian(block), np.eye(12))
    is_identity = {placement: distance < EXACT for placement, distance in distances.items()}
    require(is_identity == {placement: placement in ("pre", "residual") for placement in PLACEMENTS}, f"{distances}")
    block = Block(TransformerConfig(width=4, heads=2, placement="residual"), attends=False).double()
    added = require_equal(jacobian(block), np.eye(12) + jacobian(block.mlp))
    return dict(difference=added, from_identity=[distance for distance in distances.values() if distance > EXACT])


@claim("R18", "Residual Connections", "true if training is short", formula="X^(i) = X^(i-1) + Layer(X^(i-1))",
       ours='TransformerConfig(placement="none" or "residual")', code="models/config.py:PLACEMENTS",
       also=("003: Transformer layers",),
       measured="loss of 8 blocks that learn to copy 4 letters of 10: 0.0005 (0.0002 to 0.0020) nats with residual "
                "connections, 2.35 (2.34 to 2.35) without, 2.34 for knowing how often each symbol occurs; 250 steps of "
                "AdamW at 0.005, 5 seeds")
def residual_connections_help_models_train_better():
    """Residual connections are a trick to help models train better."""
    norms = {}
    for placement in ("none", "residual"):
        vjps = (mg.vjp(stack(depth, placement=placement), mg.tensor(normal(0, 1, 6, 16)), mg.tensor(normal(1, 1, 6, 16)))
                for depth in (1, 4, 16))
        norms[placement] = [float(gradient.norm()) for _, gradient in vjps]
    without, residual = norms.values()
    require(without[2] < 1e-9 * without[0] and residual[2] > residual[0], f"norms of the input's gradient: {norms}")
    return dict(gradient_below_1_4_and_16_blocks=residual, without=without)


@claim("N18", "Layer Normalization", "true if the stack is deep, or norms come first",
       formula="Trick to help models train faster", ours='TransformerConfig(placement="residual" or "post" or "pre")',
       code="models/config.py:PLACEMENTS",
       measured="steps until a stack copies 4 letters (loss below 0.1 nats), with residual connections alone, this "
                "note's Add & Norm, norms before the layers: 155 (138 to 166), 122 (119 to 130), 114 (106 to 121) with "
                "8 blocks; 137 (128 to 143), 137 (120 to 148), 106 (93 to 115) with 2; AdamW at 0.005, 5 seeds")
def layer_norm_helps_models_train_faster():
    """Layer normalization is a trick to help models train faster."""
    sizes = {}
    for placement in ("residual", "post", "pre"):
        sizes[placement] = [float(stack(depth, placement=placement)(mg.tensor(normal(0, 1, 6, 16))).std())
                            for depth in (2, 8, 32)]
    plain, post, pre = sizes.values()
    require(plain[2] > 3 * pre[2] and np.ptp(post) < 0.01, f"standard deviations: {sizes}")
    return dict(deviation_after_2_8_and_32_blocks=plain, with_norms_after=post, with_norms_before=pre)


@claim("N17", "Layer Normalization", formula="LayerNorm's success may be due to its normalizing gradients",
       ours="nn.LayerNorm(16)", code="nn/layer_norm.py:LayerNorm")
def layer_norm_normalises_gradients():
    """It cuts down on uninformative variation in the hidden vectors; its success may be due to its normalizing
    gradients."""
    layer = nn.LayerNorm(16, eps=0.0).double()
    x, upstream, gradients = normal(0, 4, 16), mg.tensor(normal(1, 4, 16)), {}
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    for scale in (1, 10, 100):
        y, gradient = mg.vjp(layer, mg.tensor(scale * x + 5), upstream)
        require_equal(y, expected, 1e-10)
        gradients[scale] = gradient.array
    g, mean = upstream.array, lambda a: a.mean(-1, keepdims=True)
    require_equal(gradients[1], (g - mean(g) - expected * mean(g * expected)) / x.std(-1, keepdims=True), 1e-10)
    difference = max(largest(scale * gradients[scale], gradients[1]) for scale in (10, 100))
    require(difference < 1e-10, f"the gradients of scaled inputs differ by {difference:.0e}")
    return dict(norms=[np.linalg.norm(gradient) for gradient in gradients.values()], difference=difference)


@claim("E4", "Layer Normalization", FALSE, formula="output = (x - mu) / (sqrt(sigma) + eps) * gamma + beta",
       ours='nn.LayerNorm(64, eps_at="double_root"); meant is eps_at="outside"', code="nn/layer_norm.py:LayerNorm")
def layer_norm_gives_mean_1_and_divides_by_the_root_of_the_deviation():
    """Layer norm normalises to unit mean and standard deviation: x minus its mean mu, divided by sqrt(sigma) + eps,
    where sigma = sqrt(sum of (x_j - mu)^2 / d) is the standard deviation, times a gain gamma, plus a bias beta."""
    x, gain, bias, eps = 9 * normal(0, 8, 64) + 3, normal(1, 64), normal(2, 64), 1e-3
    centred, sigma = x - x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    forms = (  # the first as printed, the second as meant
        ({"eps_at": "double_root"}, np.sqrt(sigma) + eps), ({"eps_at": "outside"}, sigma + eps),
        ({"eps_at": "outside", "unbiased": True}, sigma * math.sqrt(64 / 63) + eps), ({}, np.sqrt(sigma**2 + eps)),
    )
    pairs = []
    for switches, denominator in forms:
        layer = nn.LayerNorm(64, eps=eps, **switches).double()
        layer.weight.data[...], layer.bias.data[...] = gain, bias
        pairs.append((layer(mg.tensor(x)), centred / denominator * gain + bias))
        check_gradients(layer, x[:2], fast_mode=True)
    printed, meant = ((centred / denominator).std(axis=-1).mean() for _, denominator in forms[:2])
    require(printed > 2 and abs(meant - 1) < 1e-3, f"deviations {printed}, {meant}")
    return misprint(pairs) | dict(deviation=meant, as_printed=printed)


@claim("N19", "Layer Normalization", formula="we've broadcasted the mu and sigma across the d dimensions of x",
       ours="x.mean(-1, keepdim=True), nn.LayerNorm(d)", code="nn/layer_norm.py:LayerNorm, minigrad/ops/reduce.py:Mean")
def mean_and_deviation_are_broadcast():
    """The mean mu and the deviation sigma are broadcast across the d dimensions of x, so that whole vectors are computed at
    once."""
    n, d = 4, 6
    x, upstream, layer = normal(0, n, d), normal(1, n, d), nn.LayerNorm(d, eps=0.0, elementwise_affine=False)

    def by_broadcasting(x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / centred.square().mean(-1, keepdim=True).sqrt()

    one_by_one = [[(x[i, j] - x[i].mean()) / x[i].std() for j in range(d)] for i in range(n)]
    forms = by_broadcasting, layer
    (y, gradient), (of_layer, expected) = (mg.vjp(form, mg.tensor(x), mg.tensor(upstream)) for form in forms)
    forward = max(require_equal(each, one_by_one) for each in (y, of_layer))
    backward = require_equal(gradient, expected)
    refusal(lambda: mg.tensor(x) - mg.tensor(x).mean(-1))
    square = mg.tensor(x[:, :n])
    silent = largest(square - square.mean(-1), square - square.mean(-1, keepdim=True))
    require(silent > 0.1, f"the wrong axis is off by {silent:.0e}")
    return dict(forward=forward, backward=backward, without_keepdim=silent)


@claim("N5", "Layer Normalization", formula="gamma in R^d and beta in R^d (Can omit!)",
       ours="nn.LayerNorm(16, elementwise_affine=False)", code="nn/layer_norm.py:LayerNorm")
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
    without_bias = [name for name, _ in nn.LayerNorm(16, bias=False).named_parameters()]
    require(without_bias == ["weight"], f"bias=False leaves {without_bias}")
    error = check_gradients(plain, x)
    return dict(difference=difference, gradients=error)
