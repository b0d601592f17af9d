"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
import importlib

from . import command  # first of all: if Python imports this package to run the command, that begins here
from . import random
from .arrays.devices import accelerator, backends, cuda, device, mps, xpu
from .arrays.dtypes import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from .autograd.anomaly import detect_anomaly
from .autograd.function import Function
from .autograd.functional import grad, hessian, hvp, jacobian, jvp, vjp
from .autograd.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .backend import is_tensor
from .creation import (
    arange, as_tensor, empty, empty_like, eye, from_dlpack, from_numpy, full, full_like, linspace, normal, ones, ones_like,
    rand, rand_like, randint, randint_like, randn, randn_like, randperm, tensor, zeros, zeros_like,
)
from .extend.left_out import FUNCTIONS as LEFT_OUT, left_out
from .fast import compile, get_num_threads, set_num_threads
from .ops.comparison import where
from .ops.einsum import einsum
from .ops.gather import take_along_dim
from .ops.matmul import matmul, tensordot
from .ops.shape import cat, hstack, meshgrid, stack, vstack
from .ops.statistics import std_mean, var_mean
from .random import Generator, get_state as get_rng_state, manual_seed, set_state as set_rng_state
from .runner import textbook
from .tensor import Tensor

from numpy import finfo, iinfo

__version__ = "0.1.0"

# The names of dtypes in PyTorch. A tensor is of bool, int64, float32 or float64; who asks for another is told so.
bool, short, int, long = bool_, int16, int32, int64
half, float, double = float16, float32, float64
Size = tuple
numel = Tensor.numel

# Packages that import this one, and not the reverse.
ABOVE = {"nn": "nn", "optim": "nn.optim", "utils": "nn.utils", "models": "models", "study": "study"}
# Names of rooms that few programs enter, and that take a third of the time of `import minigrad`.
LATER = {
    "GradcheckReport": "gradcheck", "gradcheck_module": "gradcheck", "gradgradcheck": "gradcheck", "load": "serialization",
    "save": "serialization", "graph": "drawing.graph", "trace": "tracing", "count_flops": "tracing.flops",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *ABOVE, *LATER, "gradcheck"})


def __getattr__(name: str):
    """torch.nn, torch.optim, torch.utils.data in files written for PyTorch: looked up when they are asked for.

    They are libraries on top of minigrad. So nothing here may import them, or use them: `import minigrad` must work, and
    take no longer, without them. tests/test_layers_of_imports.py checks that this is the only place of the kind.
    """
    if name in ABOVE:
        return importlib.import_module(ABOVE[name])
    if name in LATER:
        return getattr(importlib.import_module(f"minigrad.{LATER[name]}"), name)
    if name == "gradcheck":
        return importlib.import_module("minigrad.gradcheck")
    left_out(__name__, LEFT_OUT)(name)


# The methods as functions: mg.exp(x) is x.exp(). Each stands in ops/<the heading>.py.

# arithmetic
abs = Tensor.abs
add = Tensor.add
addcdiv = Tensor.addcdiv
addcmul = Tensor.addcmul
ceil = Tensor.ceil
div = Tensor.div
floor = Tensor.floor
floor_divide = Tensor.floor_divide
fmod = Tensor.fmod
frac = Tensor.frac
lerp = Tensor.lerp
mul = Tensor.mul
neg = Tensor.neg
pow = Tensor.pow
reciprocal = Tensor.reciprocal
remainder = Tensor.remainder
round = Tensor.round
sign = Tensor.sign
square = Tensor.square
sub = Tensor.sub
trunc = Tensor.trunc

# elementary
acos = Tensor.acos
acosh = Tensor.acosh
arccos = Tensor.arccos
arccosh = Tensor.arccosh
arcsin = Tensor.arcsin
arcsinh = Tensor.arcsinh
arctan = Tensor.arctan
arctan2 = Tensor.arctan2
arctanh = Tensor.arctanh
asin = Tensor.asin
asinh = Tensor.asinh
atan = Tensor.atan
atan2 = Tensor.atan2
atanh = Tensor.atanh
cos = Tensor.cos
cosh = Tensor.cosh
erf = Tensor.erf
erfc = Tensor.erfc
exp = Tensor.exp
exp2 = Tensor.exp2
expm1 = Tensor.expm1
log = Tensor.log
log10 = Tensor.log10
log1p = Tensor.log1p
log2 = Tensor.log2
logaddexp = Tensor.logaddexp
rsqrt = Tensor.rsqrt
sigmoid = Tensor.sigmoid
sin = Tensor.sin
sinh = Tensor.sinh
sqrt = Tensor.sqrt
tan = Tensor.tan
tanh = Tensor.tanh

# activations
gelu = Tensor.gelu
relu = Tensor.relu

# comparison
allclose = Tensor.allclose
clamp = Tensor.clamp
clip = Tensor.clip
eq = Tensor.eq
equal = Tensor.equal
ge = Tensor.ge
gt = Tensor.gt
isclose = Tensor.isclose
isfinite = Tensor.isfinite
isinf = Tensor.isinf
isnan = Tensor.isnan
le = Tensor.le
logical_and = Tensor.logical_and
logical_not = Tensor.logical_not
logical_or = Tensor.logical_or
logical_xor = Tensor.logical_xor
lt = Tensor.lt
masked_fill = Tensor.masked_fill
maximum = Tensor.maximum
minimum = Tensor.minimum
nan_to_num = Tensor.nan_to_num
ne = Tensor.ne

# reduce
all = Tensor.all
amax = Tensor.amax
amin = Tensor.amin
any = Tensor.any
argmax = Tensor.argmax
argmin = Tensor.argmin
count_nonzero = Tensor.count_nonzero
logsumexp = Tensor.logsumexp
max = Tensor.max
mean = Tensor.mean
min = Tensor.min
norm = Tensor.norm
prod = Tensor.prod
sum = Tensor.sum

# statistics
median = Tensor.median
std = Tensor.std
var = Tensor.var

# cumulative
cumprod = Tensor.cumprod
cumsum = Tensor.cumsum
logcumsumexp = Tensor.logcumsumexp

# softmax
log_softmax = Tensor.log_softmax
softmax = Tensor.softmax

# matmul
bmm = Tensor.bmm
dot = Tensor.dot
kron = Tensor.kron
mm = Tensor.mm
mv = Tensor.mv
outer = Tensor.outer

# shape
concat = cat
broadcast_to = Tensor.broadcast_to
chunk = Tensor.chunk
clone = Tensor.clone
flatten = Tensor.flatten
flip = Tensor.flip
movedim = Tensor.movedim
narrow = Tensor.narrow
permute = Tensor.permute
ravel = Tensor.ravel
reshape = Tensor.reshape
roll = Tensor.roll
select = Tensor.select
split = Tensor.split
squeeze = Tensor.squeeze
swapaxes = Tensor.swapaxes
t = Tensor.t
tile = Tensor.tile
transpose = Tensor.transpose
unbind = Tensor.unbind
unflatten = Tensor.unflatten
unsqueeze = Tensor.unsqueeze

# diagonal
diag = Tensor.diag
diagonal = Tensor.diagonal
tril = Tensor.tril
triu = Tensor.triu

# gather
gather = Tensor.gather
index_add = Tensor.index_add
index_select = Tensor.index_select
scatter = Tensor.scatter
scatter_add = Tensor.scatter_add

# indexing
masked_select = Tensor.masked_select
nonzero = Tensor.nonzero
repeat_interleave = Tensor.repeat_interleave

# sorting
argsort = Tensor.argsort
sort = Tensor.sort
topk = Tensor.topk
unique = Tensor.unique

# multinomial
bernoulli = Tensor.bernoulli
multinomial = Tensor.multinomial

# dtypes
is_floating_point = Tensor.is_floating_point
