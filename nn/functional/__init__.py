"""Layers, activations and losses as functions, without parameters of their own; usually imported as F.

Each checks the shapes and values of its arguments, and then applies an op of `minigrad.ops` or composes Tensor operations.
Errors name the function, what it expected, and what it got.

>>> import minigrad as mg
>>> from nn import functional as F
>>> F.linear(mg.ones(2, 3), mg.ones(4, 3)).shape
(2, 4)
"""
from .activations import (
    ACTIVATIONS, gelu, gelu_tanh, leaky_relu, logsigmoid, relu, sigmoid, silu, softplus, swiglu, tanh,
)
from .attention import attention_weights, drop_weights, packed_attention, scaled_dot_product_attention
from .layers import (
    DENOMINATORS, add_dropped, dropout, embedding, layer_norm, linear, log_softmax, mlp, normalize,
    one_hot, pad, rms_norm, softmax,
)
from .losses import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, kl_div, l1_loss, mse_loss, nll_loss,
)

__all__ = [
    "ACTIVATIONS", "DENOMINATORS", "add_dropped", "attention_weights", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cross_entropy", "drop_weights", "dropout",
    "embedding", "gelu", "gelu_tanh", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax",
    "logsigmoid", "mlp", "mse_loss", "nll_loss", "normalize", "one_hot", "packed_attention", "pad", "relu", "rms_norm",
    "scaled_dot_product_attention", "sigmoid", "silu", "softmax", "softplus", "swiglu", "tanh",
]
