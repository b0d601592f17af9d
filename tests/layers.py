"""Layers and functions of more than one op, with their formulas, which run on arrays of numbers and of `special_values.Exact`.

A row: (function of Tensors, function of arrays, inputs that tests make special, inputs that they leave as they are).
"""
import copy
import functools
import math
from types import SimpleNamespace

import numpy as np

import minigrad as mg
import naive
import nn
from naive_models import FIXED, Parameters, attention, linear
from nn import functional as F

rng = np.random.default_rng(0)
N, V, B, T, C, H, HIDDEN = 3, 4, 2, 3, 4, 2, 3
IDS, SMOOTHING = np.array([0, 2, 1]), 0.25


def normal(*shape):
    return rng.standard_normal(shape)


X, Y, Q, TOKENS, MEMORY = normal(N, V), normal(N, V), rng.uniform(0.1, 0.9, (N, V)), normal(B, T, C), normal(B, T, C)
WEIGHT, SEEN = rng.uniform(0.5, 2, V), np.tri(T, dtype=bool)


def silu(x):
    return x * naive.sigmoid(x)


def relu(x):
    return np.where(x > 0, x, 0)


def by_norm(x, p=2, eps=1e-12):
    return naive.along(-1, x, lambda row: row / max(naive.norm_of(row, p), eps))


def layer_norm(p, x, denominator, correction=0):
    return naive.along(-1, x, naive.normalized, denominator, correction) * p["weight"] + p["bias"]


def of_classes(log_p, weight=None, smoothing=0.0):
    """The mean of smoothed losses"""
    weight = np.ones(V) if weight is None else weight
    losses = -(1 - smoothing) * log_p[range(N), IDS] * weight[IDS] - smoothing / V * (log_p * weight).sum(1)
    return losses.sum() / weight[IDS].sum()


def logistic(x, t, weight):
    return weight * t * naive.softplus(-x) + (1 - t) * naive.softplus(x)


def attend(p, x, context=None, causal=False, positions="none", heads=H, heads_of_keys=None, window=math.inf):
    config = SimpleNamespace(heads=heads, key_value_heads=heads_of_keys, context=window)
    return attention(p, config, x, x if context is None else context, None, causal, positions)[0]


def norm(p, x):
    return layer_norm(p, x, lambda variance: np.sqrt(variance + 1e-5))


def transformer_layer(p, x, memory=None, norm_first=False):
    sublayers = [lambda y: attend(p.below("self_attn"), y), lambda y: attend(p.below("multihead_attn"), y, memory),
                 lambda y: linear(p.below("linear2"), relu(linear(p.below("linear1"), y)))]
    for i, f in enumerate(sublayers if memory is not None else sublayers[::2], start=1):
        of_norm = p.below(f"norm{i}")
        x = x + f(norm(of_norm, x)) if norm_first else norm(of_norm, x + f(x))
    return x


def encoder_decoder(p, x, y):
    memory = norm(p.below("encoder.norm"), transformer_layer(p.below("encoder.layers.0"), x))
    return norm(p.below("decoder.norm"), transformer_layer(p.below("decoder.layers.0"), y, memory))


def recurrent(cell, p, x):
    states, state = [], (naive.zeros((x.shape[1], HIDDEN), x),) * 2
    for x_t in x:
        state = cell(*(naive.linear(y, p[f"weight_{name}_l0"], p[f"bias_{name}_l0"])
                       for y, name in ((x_t, "ih"), (state[0], "hh"))), *state)
        states.append(state[0])
    return np.stack(states)


def gru(a, b, h, _):
    (r, z), new = np.split(naive.sigmoid(a + b), 3, 1)[:2], np.split(a, 3, 1)[2]
    new = np.tanh(new + r * np.split(b, 3, 1)[2])
    return (1 - z) * new + z * h, None


def lstm(a, b, h, c):
    (i, f, _, o), g = np.split(naive.sigmoid(a + b), 4, 1), np.tanh(np.split(a + b, 4, 1)[2])
    c = f * c + i * g
    return o * np.tanh(c), c


def additive(p, s, h):
    together = linear(p.below("state"), s)[:, :, None] + linear(p.below("context"), h)[:, None]
    return naive.softmax(linear(p.below("score"), np.tanh(together))[..., 0], -1) @ h


def of_function(function, reference, *inputs, fixed=()):
    return function, reference, inputs, fixed


def of_layer(layer, reference, *inputs, call=lambda layer, *inputs: layer(*inputs)):
    """Its parameters are the inputs that are left as they are."""
    layer.eval()
    names, n = [name for name, _ in layer.named_parameters()], len(inputs)

    def function(*tensors):
        substitutes = {id(parameter): tensor for parameter, tensor in zip(layer.parameters(), tensors[n:], strict=True)}
        out = call(copy.deepcopy(layer, substitutes), *tensors[:n])
        return out[0] if isinstance(out, tuple) else out

    def formula(*arrays):
        return reference(Parameters(zip(names, arrays[n:])), *arrays[:n])

    return function, formula, inputs, [normal(*p.shape) / 2 for p in layer.parameters()]


ids, weight, seen = mg.tensor(IDS), lambda x: mg.tensor(WEIGHT, dtype=x.dtype), mg.tensor(SEEN)
encoder, decoder = (make(C, H, 5, batch_first=True) for make in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer))
ROWS = {
    **{f"normalize, p={p}": of_function(lambda x, p=p: F.normalize(x, p), functools.partial(by_norm, p=p), X) for p in (1.0, 3.0)},
    "BCELoss": of_function(lambda t, p: F.binary_cross_entropy(p, t, weight(p)),
                           lambda t, p: -(WEIGHT * (t * np.log(p) + (1 - t) * np.log1p(-p))).sum() / X.size, X, fixed=[Q]),
    "BCEWithLogitsLoss": of_function(lambda x, t: F.binary_cross_entropy_with_logits(x, t, weight(x), pos_weight=weight(x)),
                                     lambda x, t: (WEIGHT * logistic(x, t, WEIGHT)).sum() / X.size, X, fixed=[Q]),
    "CrossEntropyLoss": of_function(lambda x: F.cross_entropy(x, ids, weight(x), label_smoothing=SMOOTHING),
                                    lambda x: of_classes(naive.log_softmax(x, 1), WEIGHT, SMOOTHING), X),
    "cross_entropy, probabilities": of_function(
        lambda x, q: F.cross_entropy(x, q, weight(x), label_smoothing=SMOOTHING), lambda x, q: -(
            naive.log_softmax(x, 1) * WEIGHT * ((1 - SMOOTHING) * q + SMOOTHING / V)).sum() / N, X, fixed=[Q]),
    "NLLLoss": of_function(lambda x: F.nll_loss(x, ids, weight(x)), lambda x: of_classes(x, WEIGHT), X),
    "kl_div": of_function(F.kl_div, lambda x, t: (t * (np.log(t) - x)).sum() / X.size, X, fixed=[Q]),
    "kl_div, log_target": of_function(lambda x, t: F.kl_div(x, t, log_target=True),
                                         lambda x, t: (np.exp(t) * (t - x)).sum() / X.size, X, fixed=[Y]),
    "LayerNorm, outside": of_layer(nn.LayerNorm(V, eps_at="outside"),
                                   lambda p, x: layer_norm(p, x, lambda variance: np.sqrt(variance) + 1e-5), X),
    "LayerNorm, double_root": of_layer(nn.LayerNorm(V, eps_at="double_root"),
                                       lambda p, x: layer_norm(p, x, lambda variance: np.sqrt(np.sqrt(variance)) + 1e-5), X),
    "LayerNorm, unbiased": of_layer(nn.LayerNorm(V, unbiased=True),
                                    lambda p, x: layer_norm(p, x, lambda variance: np.sqrt(variance + 1e-5), 1), X),
    "Linear, silu": of_layer(nn.Linear(V, 2, activation="silu"), lambda p, x: silu(linear(p, x)), X),
    "mlp, silu": of_function(lambda x, *p: F.mlp(x, *p, "silu"), lambda x, a, b, c, d: naive.linear(silu(naive.linear(x, a, b)), c, d),
                             X, fixed=[normal(3, V), normal(3), normal(2, 3), normal(2)]),
    "PatchEmbedding": of_layer(nn.PatchEmbedding(2, 1, 3), lambda p, x: linear(p.below("project"), np.stack(
        [x[:, 0, i : i + 2, j : j + 2].reshape(B, 4) for i in (0, 2) for j in (0, 2)], axis=1)), normal(B, 1, 4, 4)),
    "PositionEncoding": of_layer(nn.PositionEncoding("learned", C, 5), lambda p, x: x + p["weight"][:T], TOKENS),
    "PositionEncoding, sinusoidal": of_layer(nn.PositionEncoding("sinusoidal", C), lambda p, x: x + np.array(
        [[FIXED["sinusoidal"](t, i, C) for i in range(C)] for t in range(T)]), TOKENS),
    "rotate": of_function(nn.position.rotate, lambda x: naive.turned(x, np.array([[f(t / 10_000 ** (2 * i / C)) for i in range(
        C // 2) for f in (math.cos, math.sin)] for t in range(T)])), TOKENS),
    "attention_weights": of_function(F.attention_weights, naive.attention_weights, TOKENS, MEMORY),
    "scaled_dot_product_attention": of_function(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, seen),
        lambda q, k, v: naive.attention(q, k, v, np.where(SEEN, 0, -np.inf)), TOKENS, MEMORY, normal(B, T, C)),
    "MultiHeadAttention": of_layer(nn.MultiHeadAttention(C, H), attend, TOKENS),
    "MultiHeadAttention, of a memory": of_layer(nn.MultiHeadAttention(C, H), attend, TOKENS, MEMORY),
    "MultiheadAttention": of_layer(nn.MultiheadAttention(C, H, batch_first=True), attend, TOKENS, MEMORY,
                                   call=lambda layer, x, memory: layer(x, memory, memory)),
    "MultiHeadAttention, relative": of_layer(nn.MultiHeadAttention(C, H, positions="relative", max_distance=1),
                                             functools.partial(attend, positions="relative"), TOKENS),
    "MultiHeadAttention, grouped": of_layer(
        nn.MultiHeadAttention(C, 4, bias=False, key_value_heads=2, head_size=2, window=2),
        functools.partial(attend, causal=True, heads=4, heads_of_keys=2, window=2), TOKENS, call=lambda layer, x: layer(x, is_causal=True)),
    "AdditiveAttention": of_layer(nn.AdditiveAttention(C, C, HIDDEN), additive, TOKENS, MEMORY),
    "TransformerEncoderLayer": of_layer(nn.TransformerEncoderLayer(C, H, 5, batch_first=True, norm_first=True),
                                        functools.partial(transformer_layer, norm_first=True), TOKENS),
    "TransformerDecoderLayer": of_layer(decoder, transformer_layer, TOKENS, MEMORY),
    "TransformerEncoder": of_layer(nn.TransformerEncoder(encoder, 1), lambda p, x: transformer_layer(p.below("layers.0"), x), TOKENS),
    "TransformerDecoder": of_layer(nn.TransformerDecoder(decoder, 1), lambda p, x, y: transformer_layer(p.below("layers.0"), x, y),
                                   TOKENS, MEMORY),
    "Transformer": of_layer(nn.Transformer(C, H, 1, 1, 5, batch_first=True), encoder_decoder, TOKENS, MEMORY),
    **{name: of_layer(getattr(nn, name)(C, HIDDEN), functools.partial(recurrent, cell), TOKENS)
       for name, cell in (("RNN", lambda a, b, *_: (np.tanh(a + b), None)), ("GRU", gru), ("LSTM", lstm))},
}
