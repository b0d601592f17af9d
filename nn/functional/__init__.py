"""Layers, activations and losses as functions, without parameters of their own; usually imported as F.

Each checks the shapes and values of its arguments, and then applies an op of `minigrad.ops` or composes Tensor operations.
Errors name the function, what it expected, and what it got.

>>> import minigrad as mg
>>> from nn import functional as F
>>> F.linear(mg.ones(2, 3), mg.ones(4, 3)).shape
(2, 4)
"""
from .activations import (
    ACTIVATIONS, celu, elu, gelu, gelu_tanh, glu, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish, prelu,
    relu, relu6, selu, sigmoid, silu, softplus, softsign, swiglu, tanh, tanhshrink,
)
from .attention import attention_weights, drop_weights, packed_attention, scaled_dot_product_attention
from .layers import (
    DENOMINATORS, add_dropped, cosine_similarity, dropout, embedding, group_norm, layer_norm, linear, log_softmax, mlp,
    normalize, one_hot, pad, rms_norm, softmax, softmin,
)
from .losses import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, huber_loss, kl_div, l1_loss,
    mse_loss, nll_loss, smooth_l1_loss,
)

__all__ = [
    "ACTIVATIONS", "DENOMINATORS", "add_dropped", "attention_weights", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "cosine_similarity", "cross_entropy", "drop_weights", "dropout", "elu",
    "embedding", "gelu", "gelu_tanh", "glu", "group_norm", "hardsigmoid", "hardswish", "hardtanh", "huber_loss",
    "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish", "mlp", "mse_loss",
    "nll_loss", "normalize", "one_hot", "packed_attention", "pad", "prelu", "relu", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus",
    "softsign", "swiglu", "tanh", "tanhshrink",
]
