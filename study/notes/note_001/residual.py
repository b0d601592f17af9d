"""Note 001, "Residual Connections" and "Layer Normalization"."""
import math

import numpy as np

import minigrad as mg
import nn
from models.transformer import PLACEMENTS, Block, TransformerConfig
from study.notes.claims import FALSE, claims_of, require
from study.notes.helpers import (
    EXACT, Spread, check_gradients, largest, normal, normalised, over_seeds, refusal, require_equal, silence,
)
from study.notes.training import of_one_length, train

claim = claims_of("001")


@claim("C6", "Residual Connections", "true if no norm is on the residual path",
       formula="X^(i) = X^(i-1) + Layer(X^(i-1))", ours='TransformerConfig(placement="residual" or "pre")',
       code="models/transformer.py:PLACEMENTS")
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
    others = ", ".join(f"{placement} {distance:.2g}" for placement, distance in distances.items() if distance > EXACT)
    return (f"the Jacobian of X + Layer(X) is I plus that of the layer, within {added:.0e}, and exactly I if the layers "
            "give 0, with placement \"residual\" or \"pre\"; a norm on the residual path changes it, as in this note's "
            f"Add & Norm: its distance from I is then {others}")


SHALLOW, DEEP, STEPS = 2, 8, 250
ENOUGH = 0.1  # nats


def losses(placement: str, layers: int, seed: int) -> np.ndarray:
    """The loss of each step while a decoder learns to copy 4 letters."""
    task = of_one_length("copy", 4)
    config = TransformerConfig(context=12, layers=layers, heads=2, width=16, placement=placement, final_norm=False)
    return np.array(train(task, "causal", config, steps=STEPS, batch_size=16, lr=5e-3, seed=seed)[1])


def final_loss(placement: str) -> Spread:
    return over_seeds(lambda seed: losses(placement, DEEP, seed)[-20:].mean())


def steps_until_learnt(placement: str, layers: int) -> Spread:
    """Until the mean loss of 10 steps is below ENOUGH; all of them if it never is."""

    def measure(seed: int) -> float:
        below = np.convolve(losses(placement, layers, seed), np.ones(10) / 10, mode="valid") < ENOUGH
        return float(10 + below.argmax()) if below.any() else float(STEPS)

    return over_seeds(measure)


@claim("R18", "Residual Connections", "true if training is short", formula="X^(i) = X^(i-1) + Layer(X^(i-1))",
       ours='TransformerConfig(placement="none" or "residual")', code="models/transformer.py:PLACEMENTS",
       also=("003: Transformer layers",))
def residual_connections_help_models_train_better():
    """Residual connections are a trick to help models train better."""
    without, added = final_loss("none"), final_loss("residual")
    # of 5 tokens 4 are one of 10 letters, and 1 is STOP
    nothing = 0.8 * math.log(10) - 0.8 * math.log(0.8) - 0.2 * math.log(0.2)
    require(added.median < 0.05 and without.median > 0.9 * nothing, f"without {without:.2f}, with {added:.4f} nats")
    return (f"a decoder of {DEEP} blocks learns to copy 4 letters of 10: after {STEPS} steps the loss is {added:.4f} nats "
            f"with residual connections, and {without:.2f} without, no better than knowing how often each symbol occurs, "
            f"{nothing:.2f}")


@claim("N18", "Layer Normalization", "true if the stack is deep, or norms come first",
       formula="Trick to help models train faster", ours='TransformerConfig(placement="residual" or "post" or "pre")',
       code="models/transformer.py:PLACEMENTS")
def layer_norm_helps_models_train_faster():
    """Layer normalization is a trick to help models train faster."""
    placements = "residual", "post", "pre"
    shallow, deep = ([steps_until_learnt(placement, layers) for placement in placements] for layers in (SHALLOW, DEEP))
    in_words = [f"{alone:.0f} with residual connections alone, {post:.0f} with this note's Add & Norm, {pre:.0f} with "
                "norms before the layers" for alone, post, pre in (shallow, deep)]
    (alone_shallow, post_shallow, pre_shallow), (alone, post, pre) = [[steps.median for steps in each]
                                                                      for each in (shallow, deep)]
    require(max(post, pre) < 0.92 * alone < 0.92 * STEPS, f"{DEEP} blocks: {in_words[1]}")
    require(abs(post_shallow / alone_shallow - 1) < 0.15 and pre_shallow < 0.92 * alone_shallow,
            f"{SHALLOW} blocks: {in_words[0]}")
    return (f"steps until {DEEP} blocks copy 4 letters (mean loss below {ENOUGH} nats): {in_words[1]}; with {SHALLOW} "
            f"blocks: {in_words[0]}; so Add & Norm pays off in deep stacks")


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
    norms = ", ".join(f"{np.linalg.norm(gradient):.2g}" for gradient in gradients.values())
    return ("inputs scaled by 1, 10, 100 and shifted by 5 give the same output, and gradients that are smaller by the same "
            f"factors ({norms}, within {difference:.0e}): what has grown too large moves less. Whether its success is due "
            "to that is not shown here")


@claim("E4", "Layer Normalization", FALSE, formula="output = (x - mu) / (sqrt(sigma) + eps) * gamma + beta",
       ours='nn.LayerNorm(64, eps_at="double_root"); meant is eps_at="outside"', code="nn/layer_norm.py:LayerNorm",
       formerly=("N2", "N3", "N4"))
def layer_norm_gives_mean_1_and_divides_by_the_root_of_the_deviation():
    """Layer norm normalises to unit mean and standard deviation: x minus its mean mu, divided by sqrt(sigma) + eps,
    where sigma = sqrt(sum of (x_j - mu)^2 / d) is the standard deviation, times a gain gamma, plus a bias beta."""
    x, gain, bias, eps = 9 * normal(0, 8, 64) + 3, normal(1, 64), normal(2, 64), 1e-3
    centred, sigma = x - x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    forms = {
        "as printed": ({"eps_at": "double_root"}, np.sqrt(sigma) + eps),
        "sigma + eps": ({"eps_at": "outside"}, sigma + eps),
        "sum / (d - 1)": ({"eps_at": "outside", "unbiased": True}, sigma * math.sqrt(64 / 63) + eps),
        "sqrt(sigma^2 + eps)": ({}, np.sqrt(sigma**2 + eps)),
    }
    difference, deviations = 0.0, {}
    for name, (switches, denominator) in forms.items():
        layer = nn.LayerNorm(64, eps=eps, **switches).double()
        plain = layer(mg.tensor(x)).array
        require(np.abs(plain.mean(axis=-1)).max() < EXACT, f"{name}: the mean is {plain.mean(axis=-1)}")
        deviations[name] = float(plain.std(axis=-1).mean())
        layer.weight.data[...], layer.bias.data[...] = gain, bias
        difference = max(difference, require_equal(layer(mg.tensor(x)), centred / denominator * gain + bias))
        check_gradients(layer, x[:2], fast_mode=True)
    printed, meant = deviations.pop("as printed"), deviations["sigma + eps"]
    require(printed > 2 and abs(meant - 1) < 1e-3, f"as printed {printed:.2f}, {deviations}")
    shown = ", ".join(f"{deviation:.4f} ({name})" for name, deviation in deviations.items())
    return (f"the mean is 0, not 1; sigma already is a root, and dividing by its root leaves a standard deviation of "
            f"{printed:.2f}, the root of the input's 9, where dividing by sigma leaves 1: {shown}. GPT-2 and PyTorch use "
            f"the last form (each matches its formula within {difference:.0e})")


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
    mu = mg.tensor(x.mean(-1, keepdims=True), requires_grad=True)
    (mg.tensor(x) - mu).backward(mg.tensor(upstream))
    summed = require_equal(mu.grad, -upstream.sum(axis=-1, keepdims=True))
    refusal(lambda: mg.tensor(x) - mg.tensor(x).mean(-1))
    square = mg.tensor(x[:, :n])
    silent = largest(square - square.mean(-1), square - square.mean(-1, keepdim=True))
    require(silent > 0.1, f"the wrong axis is off by {silent:.0e}")
    return (f"mu and sigma are {n} x 1, one number for each word; the broadcast form matches loops over features "
            f"within {forward:.0e}, and its gradient that of the layer within {backward:.0e}. The backward of "
            "broadcasting is a sum: the gradient of mu in x - mu is minus the sum of the upstream gradient's row "
            f"(within {summed:.0e}). Without keepdim the {n} numbers are aligned with the features: an error, or, if n "
            f"= d, a result that is off by {silent:.1f}")


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
    return (f"without them it has no parameters, and equals the norm with gain 1 and bias 0, within {difference:.0e} "
            f"(gradients are right within {error:.0e}); the bias alone can be omitted, too")
