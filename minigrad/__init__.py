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
from .custom import Function
from .derivatives import grad, hessian, hvp, jacobian, jvp, vjp
from .gradcheck import GradcheckReport, gradcheck_module, gradgradcheck
from .kernels.jit import get_num_threads, set_num_threads
from .ops.comparison import where
from .ops.einsum import einsum
from .ops.indexing import take_along_dim
from .ops.matmul import matmul, tensordot
from .ops.shape import cat, meshgrid, stack
from .ops.statistics import std_mean, var_mean
from .random import manual_seed
from .grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .serialization import load, save
from .tensor import Tensor
from .tracing import trace

__version__ = "0.1.0"

bool = bool_  # as torch.bool

# The methods as functions: mg.exp(x) is x.exp(). Each stands in ops/<the heading>.py.

# arithmetic
abs = Tensor.abs
add = Tensor.add
ceil = Tensor.ceil
div = Tensor.div
floor = Tensor.floor
floor_divide = Tensor.floor_divide
fmod = Tensor.fmod
frac = Tensor.frac
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
lerp = Tensor.lerp
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
broadcast_to = Tensor.broadcast_to
chunk = Tensor.chunk
clone = Tensor.clone
flatten = Tensor.flatten
flip = Tensor.flip
movedim = Tensor.movedim
narrow = Tensor.narrow
permute = Tensor.permute
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

# indexing
gather = Tensor.gather
index_add = Tensor.index_add
index_select = Tensor.index_select
masked_select = Tensor.masked_select
nonzero = Tensor.nonzero
repeat_interleave = Tensor.repeat_interleave
scatter_add = Tensor.scatter_add

# sorting
argsort = Tensor.argsort
sort = Tensor.sort
topk = Tensor.topk
unique = Tensor.unique

# multinomial
multinomial = Tensor.multinomial
