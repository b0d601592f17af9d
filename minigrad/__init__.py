"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
from . import random
from .anomaly import detect_anomaly
from .arrays import bool_, float32, float64, int64
from .compiled import compile
from .creation import (
    arange, empty, empty_like, eye, from_numpy, full, full_like, linspace, ones, ones_like, rand, rand_like, randint,
    randn, randn_like, randperm, tensor, zeros, zeros_like,
)
from .flops import count_flops
from .function import Function
from .functional import grad, hessian, hvp, jacobian, jvp, vjp
from .gradcheck import GradcheckReport, gradcheck, gradcheck_module, gradgradcheck
from .graph import graph
from .kernels.jit import get_num_threads, set_num_threads
from .methods import cat, einsum, matmul, stack, take_along_dim, where
from .random import manual_seed
from .tape import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .tensor import Tensor

__version__ = "0.1.0"

bool = bool_  # as torch.bool

# The methods as functions: mg.exp(x) is x.exp().
abs, add, all, allclose, amax, amin = (
    Tensor.abs, Tensor.add, Tensor.all, Tensor.allclose, Tensor.amax, Tensor.amin,
)
any, argmax, argmin, argsort, bmm, broadcast_to = (
    Tensor.any, Tensor.argmax, Tensor.argmin, Tensor.argsort, Tensor.bmm, Tensor.broadcast_to,
)
ceil, chunk, clamp, clip, clone, cos = (
    Tensor.ceil, Tensor.chunk, Tensor.clamp, Tensor.clip, Tensor.clone, Tensor.cos,
)
count_nonzero, cumsum, diag, diagonal, div, dot = (
    Tensor.count_nonzero, Tensor.cumsum, Tensor.diag, Tensor.diagonal, Tensor.div, Tensor.dot,
)
eq, equal, erf, exp, expm1, flatten = (
    Tensor.eq, Tensor.equal, Tensor.erf, Tensor.exp, Tensor.expm1, Tensor.flatten,
)
flip, floor, floor_divide, fmod, gather, ge = (
    Tensor.flip, Tensor.floor, Tensor.floor_divide, Tensor.fmod, Tensor.gather, Tensor.ge,
)
gelu, gt, index_select, isclose, isfinite, isinf = (
    Tensor.gelu, Tensor.gt, Tensor.index_select, Tensor.isclose, Tensor.isfinite, Tensor.isinf,
)
isnan, le, log, log1p, log_softmax, logical_and = (
    Tensor.isnan, Tensor.le, Tensor.log, Tensor.log1p, Tensor.log_softmax, Tensor.logical_and,
)
logical_not, logical_or, logical_xor, logsumexp, lt, masked_fill = (
    Tensor.logical_not, Tensor.logical_or, Tensor.logical_xor, Tensor.logsumexp, Tensor.lt, Tensor.masked_fill,
)
masked_select, max, maximum, mean, min, minimum = (
    Tensor.masked_select, Tensor.max, Tensor.maximum, Tensor.mean, Tensor.min, Tensor.minimum,
)
mm, movedim, mul, mv, narrow, ne = (
    Tensor.mm, Tensor.movedim, Tensor.mul, Tensor.mv, Tensor.narrow, Tensor.ne,
)
neg, norm, outer, permute, pow, prod = (
    Tensor.neg, Tensor.norm, Tensor.outer, Tensor.permute, Tensor.pow, Tensor.prod,
)
reciprocal, relu, remainder, reshape, roll, round = (
    Tensor.reciprocal, Tensor.relu, Tensor.remainder, Tensor.reshape, Tensor.roll, Tensor.round,
)
rsqrt, scatter_add, select, sigmoid, sign, sin = (
    Tensor.rsqrt, Tensor.scatter_add, Tensor.select, Tensor.sigmoid, Tensor.sign, Tensor.sin,
)
softmax, sort, split, sqrt, square, squeeze = (
    Tensor.softmax, Tensor.sort, Tensor.split, Tensor.sqrt, Tensor.square, Tensor.squeeze,
)
std, sub, sum, swapaxes, t, tanh = (
    Tensor.std, Tensor.sub, Tensor.sum, Tensor.swapaxes, Tensor.t, Tensor.tanh,
)
tile, topk, transpose, tril, triu, trunc = (
    Tensor.tile, Tensor.topk, Tensor.transpose, Tensor.tril, Tensor.triu, Tensor.trunc,
)
unbind, unflatten, unsqueeze, var = (
    Tensor.unbind, Tensor.unflatten, Tensor.unsqueeze, Tensor.var,
)
