"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
from . import random
from .arrays import bool_, float32, float64, int64
from .creation import (
    arange, empty, empty_like, eye, from_numpy, full, full_like, linspace, ones, ones_like, rand, rand_like, randint,
    randn, randn_like, randperm, tensor, zeros, zeros_like,
)
from .gradcheck import gradcheck
from .kernels.jit import get_num_threads, set_num_threads
from .memory import keep_freed_memory
from .methods import cat, matmul, stack, take_along_dim, where
from .random import manual_seed
from .tape import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .tensor import Tensor

__version__ = "0.1.0"

bool = bool_  # as torch.bool

# The methods as functions: mg.exp(x) is x.exp().
abs, add, all, amax, amin, any, argmax, argmin = (
    Tensor.abs, Tensor.add, Tensor.all, Tensor.amax, Tensor.amin, Tensor.any, Tensor.argmax, Tensor.argmin,
)
chunk, clone, div, erf, exp, flatten, gelu, log = (
    Tensor.chunk, Tensor.clone, Tensor.div, Tensor.erf, Tensor.exp, Tensor.flatten, Tensor.gelu, Tensor.log,
)
log_softmax, masked_fill, max, maximum, mean, min, minimum, mul = (
    Tensor.log_softmax, Tensor.masked_fill, Tensor.max, Tensor.maximum, Tensor.mean, Tensor.min, Tensor.minimum, Tensor.mul,
)
neg, permute, pow, relu, reshape, rsqrt, sigmoid, softmax = (
    Tensor.neg, Tensor.permute, Tensor.pow, Tensor.relu, Tensor.reshape, Tensor.rsqrt, Tensor.sigmoid, Tensor.softmax,
)
split, sqrt, squeeze, std, sub, sum, tanh, transpose = (
    Tensor.split, Tensor.sqrt, Tensor.squeeze, Tensor.std, Tensor.sub, Tensor.sum, Tensor.tanh, Tensor.transpose,
)
tril, triu, unsqueeze, var = (
    Tensor.tril, Tensor.triu, Tensor.unsqueeze, Tensor.var,
)
