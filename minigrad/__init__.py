"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
from . import gradcheck, random
from .anomaly import detect_anomaly
from .arrays import bool_, float32, float64, int64
from .compiled import compile
from .creation import (
    arange, empty, empty_like, eye, from_numpy, full, full_like, linspace, ones, ones_like, rand, rand_like, randint,
    randint_like, randn, randn_like, randperm, tensor, zeros, zeros_like,
)
from .drawing import graph
from .flops import count_flops
from .function import Function
from .functional import grad, hessian, hvp, jacobian, jvp, vjp
from .gradcheck import GradcheckReport, gradcheck_module, gradgradcheck
from .kernels.jit import get_num_threads, set_num_threads
from .methods import cat, einsum, matmul, meshgrid, stack, std_mean, take_along_dim, tensordot, var_mean, where
from .random import manual_seed
from .serialization import load, save
from .tape import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .tensor import Tensor

__version__ = "0.1.0"

bool = bool_  # as torch.bool

# The methods as functions: mg.exp(x) is x.exp().
abs, acos, acosh, add, all, allclose = (
    Tensor.abs, Tensor.acos, Tensor.acosh, Tensor.add, Tensor.all, Tensor.allclose,
)
amax, amin, any, arccos, arccosh, arcsin = (
    Tensor.amax, Tensor.amin, Tensor.any, Tensor.arccos, Tensor.arccosh, Tensor.arcsin,
)
arcsinh, arctan, arctan2, arctanh, argmax, argmin = (
    Tensor.arcsinh, Tensor.arctan, Tensor.arctan2, Tensor.arctanh, Tensor.argmax, Tensor.argmin,
)
argsort, asin, asinh, atan, atan2, atanh = (
    Tensor.argsort, Tensor.asin, Tensor.asinh, Tensor.atan, Tensor.atan2, Tensor.atanh,
)
bmm, broadcast_to, ceil, chunk, clamp, clip = (
    Tensor.bmm, Tensor.broadcast_to, Tensor.ceil, Tensor.chunk, Tensor.clamp, Tensor.clip,
)
clone, cos, cosh, count_nonzero, cumprod, cumsum = (
    Tensor.clone, Tensor.cos, Tensor.cosh, Tensor.count_nonzero, Tensor.cumprod, Tensor.cumsum,
)
diag, diagonal, div, dot, eq, equal = (
    Tensor.diag, Tensor.diagonal, Tensor.div, Tensor.dot, Tensor.eq, Tensor.equal,
)
erf, erfc, exp, exp2, expm1, flatten = (
    Tensor.erf, Tensor.erfc, Tensor.exp, Tensor.exp2, Tensor.expm1, Tensor.flatten,
)
flip, floor, floor_divide, fmod, frac, gather = (
    Tensor.flip, Tensor.floor, Tensor.floor_divide, Tensor.fmod, Tensor.frac, Tensor.gather,
)
ge, gelu, gt, index_add, index_select, isclose = (
    Tensor.ge, Tensor.gelu, Tensor.gt, Tensor.index_add, Tensor.index_select, Tensor.isclose,
)
isfinite, isinf, isnan, kron, le, lerp = (
    Tensor.isfinite, Tensor.isinf, Tensor.isnan, Tensor.kron, Tensor.le, Tensor.lerp,
)
log, log10, log1p, log2, log_softmax, logaddexp = (
    Tensor.log, Tensor.log10, Tensor.log1p, Tensor.log2, Tensor.log_softmax, Tensor.logaddexp,
)
logcumsumexp, logical_and, logical_not, logical_or, logical_xor, logsumexp = (
    Tensor.logcumsumexp, Tensor.logical_and, Tensor.logical_not, Tensor.logical_or, Tensor.logical_xor, Tensor.logsumexp,
)
lt, masked_fill, masked_select, max, maximum, mean = (
    Tensor.lt, Tensor.masked_fill, Tensor.masked_select, Tensor.max, Tensor.maximum, Tensor.mean,
)
median, min, minimum, mm, movedim, mul = (
    Tensor.median, Tensor.min, Tensor.minimum, Tensor.mm, Tensor.movedim, Tensor.mul,
)
multinomial, mv, nan_to_num, narrow, ne, neg = (
    Tensor.multinomial, Tensor.mv, Tensor.nan_to_num, Tensor.narrow, Tensor.ne, Tensor.neg,
)
nonzero, norm, outer, permute, pow, prod = (
    Tensor.nonzero, Tensor.norm, Tensor.outer, Tensor.permute, Tensor.pow, Tensor.prod,
)
reciprocal, relu, remainder, repeat_interleave, reshape, roll = (
    Tensor.reciprocal, Tensor.relu, Tensor.remainder, Tensor.repeat_interleave, Tensor.reshape, Tensor.roll,
)
round, rsqrt, scatter_add, select, sigmoid, sign = (
    Tensor.round, Tensor.rsqrt, Tensor.scatter_add, Tensor.select, Tensor.sigmoid, Tensor.sign,
)
sin, sinh, softmax, sort, split, sqrt = (
    Tensor.sin, Tensor.sinh, Tensor.softmax, Tensor.sort, Tensor.split, Tensor.sqrt,
)
square, squeeze, std, sub, sum, swapaxes = (
    Tensor.square, Tensor.squeeze, Tensor.std, Tensor.sub, Tensor.sum, Tensor.swapaxes,
)
t, tan, tanh, tile, topk, trace = (
    Tensor.t, Tensor.tan, Tensor.tanh, Tensor.tile, Tensor.topk, Tensor.trace,
)
transpose, tril, triu, trunc, unbind, unflatten = (
    Tensor.transpose, Tensor.tril, Tensor.triu, Tensor.trunc, Tensor.unbind, Tensor.unflatten,
)
unique, unsqueeze, var = (
    Tensor.unique, Tensor.unsqueeze, Tensor.var,
)
