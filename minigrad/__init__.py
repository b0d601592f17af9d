"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
# Type checkers take an imported name for a public one if it says `as`, and an assigned one if it is Final.
from . import command  # must be first: if Python imports this package to run the command, the command starts here
import importlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from . import autograd, random
from .arrays.devices import (
    accelerator as accelerator, backends as backends, cuda as cuda, device as device, mps as mps, xpu as xpu,
)
from .arrays.dtypes import (
    bfloat16 as bfloat16, bool_ as bool_, float16 as float16, float32 as float32, float64 as float64, int8 as int8,
    int16 as int16, int32 as int32, int64 as int64, uint8 as uint8,
)
from .autograd.anomaly import detect_anomaly as detect_anomaly
from .autograd.function import Function as Function
from .autograd.functional import grad as grad, hessian as hessian, hvp as hvp, jacobian as jacobian, jvp as jvp, vjp as vjp
from .autograd.grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, is_grad_enabled as is_grad_enabled, no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .backend import is_tensor as is_tensor
from .command import packages
from .tensor import Tensor as Tensor  # before the function `tensor`, which has the name of this file
from .creation import (
    arange as arange, as_tensor as as_tensor, empty as empty, empty_like as empty_like, eye as eye,
    from_dlpack as from_dlpack, from_numpy as from_numpy, full as full, full_like as full_like, linspace as linspace,
    normal as normal, ones as ones, ones_like as ones_like, rand as rand, rand_like as rand_like, randint as randint,
    randint_like as randint_like, randn as randn, randn_like as randn_like, randperm as randperm, tensor as tensor,
    zeros as zeros, zeros_like as zeros_like,
)
from .fast import compile as compile, get_num_threads as get_num_threads, set_num_threads as set_num_threads
from .ops.comparison import where as where
from .ops.einsum import einsum as einsum
from .ops.gather import take_along_dim as take_along_dim
from .ops.left_out import FUNCTIONS as LEFT_OUT, left_out, with_pytorchs_keywords
from .ops.matmul import tensordot as tensordot
from .ops.shape import cat as cat, hstack as hstack, meshgrid as meshgrid, stack as stack, vstack as vstack
from .ops.statistics import std_mean as std_mean, var_mean as var_mean
from .random import Generator as Generator, manual_seed as manual_seed
from .runner import textbook as textbook

from numpy import finfo as finfo, iinfo as iinfo

if TYPE_CHECKING:  # what `__getattr__` below imports on first use
    import models as models
    import nn as nn
    import study as study
    from nn import optim as optim, utils as utils
    from .drawing.graph import graph as graph
    from .gradcheck import (
        CallableModule, GradcheckReport as GradcheckReport, gradcheck_module as gradcheck_module,
        gradgradcheck as gradgradcheck,
    )
    from .serialization import load as load, save as save
    from .tracing.trace import trace as trace
    from .tracing.flops import count_flops as count_flops

    gradcheck: CallableModule  # mg.gradcheck(f, x), and mg.gradcheck.gradcheck_report(f, x)
    Size: TypeAlias = tuple[Any, ...]  # `int` is a dtype here
else:
    Size = tuple

    def __getattr__(name: str):
        """Import on first use: the packages ABOVE, as files written for PyTorch name them, and the names for LATER.

        The packages are built on minigrad, so nothing here may import or use them: `import minigrad` must work without them
        and be just as fast. tests/test_layers_of_imports.py checks that this is the only such place.
        """
        if name in ABOVE:
            packages.refuse_shadows(ABOVE[name].split(".")[0])
            return importlib.import_module(ABOVE[name])
        if name in LATER:
            return getattr(importlib.import_module(f"minigrad.{LATER[name]}"), name)
        if name == "gradcheck":
            return importlib.import_module("minigrad.gradcheck")
        left_out(__name__, LEFT_OUT)(name)


__version__ = "0.1.0"

# Packages that import this one, never the other way round.
ABOVE = {"nn": "nn", "optim": "nn.optim", "utils": "nn.utils", "models": "models", "study": "study"}
# Names that few programs use, from modules that take a third of the time of `import minigrad`.
LATER = {
    "GradcheckReport": "gradcheck", "gradcheck_module": "gradcheck", "gradgradcheck": "gradcheck", "load": "serialization",
    "save": "serialization", "graph": "drawing.graph", "trace": "tracing", "count_flops": "tracing.flops",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *ABOVE, *LATER, "gradcheck"})


# PyTorch's names of dtypes. A tensor is bool, int64, float32 or float64; for any other, an error says so.
bool: Final = bool_
short: Final = int16
int: Final = int32
long: Final = int64
half: Final = float16
float: Final = float32
double: Final = float64

concat = cat
get_rng_state: Final = random.get_state
set_rng_state: Final = random.set_state

# Methods that are also functions: mg.exp(x) is x.exp(). Each is defined in ops/<heading>.py, draws in random.py, and
# numel in arrays/conversions.py.

# arithmetic
abs: Final = Tensor.abs
add: Final = Tensor.add
addcdiv: Final = Tensor.addcdiv
addcmul: Final = Tensor.addcmul
ceil: Final = Tensor.ceil
div: Final = Tensor.div
floor: Final = Tensor.floor
floor_divide: Final = Tensor.floor_divide
fmod: Final = Tensor.fmod
frac: Final = Tensor.frac
lerp: Final = Tensor.lerp
mul: Final = Tensor.mul
neg: Final = Tensor.neg
pow: Final = Tensor.pow
reciprocal: Final = Tensor.reciprocal
remainder: Final = Tensor.remainder
round: Final = Tensor.round
sign: Final = Tensor.sign
square: Final = Tensor.square
sub: Final = Tensor.sub
trunc: Final = Tensor.trunc

# elementary
acos: Final = Tensor.acos
acosh: Final = Tensor.acosh
arccos: Final = Tensor.arccos
arccosh: Final = Tensor.arccosh
arcsin: Final = Tensor.arcsin
arcsinh: Final = Tensor.arcsinh
arctan: Final = Tensor.arctan
arctan2: Final = Tensor.arctan2
arctanh: Final = Tensor.arctanh
asin: Final = Tensor.asin
asinh: Final = Tensor.asinh
atan: Final = Tensor.atan
atan2: Final = Tensor.atan2
atanh: Final = Tensor.atanh
cos: Final = Tensor.cos
cosh: Final = Tensor.cosh
erf: Final = Tensor.erf
erfc: Final = Tensor.erfc
exp: Final = Tensor.exp
exp2: Final = Tensor.exp2
expm1: Final = Tensor.expm1
log: Final = Tensor.log
log10: Final = Tensor.log10
log1p: Final = Tensor.log1p
log2: Final = Tensor.log2
logaddexp: Final = Tensor.logaddexp
rsqrt: Final = Tensor.rsqrt
sigmoid: Final = Tensor.sigmoid
sin: Final = Tensor.sin
sinh: Final = Tensor.sinh
sqrt: Final = Tensor.sqrt
tan: Final = Tensor.tan
tanh: Final = Tensor.tanh

# activations
gelu: Final = Tensor.gelu
relu: Final = Tensor.relu

# comparison
allclose: Final = Tensor.allclose
clamp: Final = Tensor.clamp
clamp_max: Final = Tensor.clamp_max
clamp_min: Final = Tensor.clamp_min
clip: Final = Tensor.clip
eq: Final = Tensor.eq
equal: Final = Tensor.equal
ge: Final = Tensor.ge
gt: Final = Tensor.gt
isclose: Final = Tensor.isclose
isfinite: Final = Tensor.isfinite
isinf: Final = Tensor.isinf
isnan: Final = Tensor.isnan
le: Final = Tensor.le
logical_and: Final = Tensor.logical_and
logical_not: Final = Tensor.logical_not
logical_or: Final = Tensor.logical_or
logical_xor: Final = Tensor.logical_xor
lt: Final = Tensor.lt
masked_fill: Final = Tensor.masked_fill
maximum: Final = Tensor.maximum
minimum: Final = Tensor.minimum
nan_to_num: Final = Tensor.nan_to_num
ne: Final = Tensor.ne

# reduce
all: Final = Tensor.all
amax: Final = Tensor.amax
amin: Final = Tensor.amin
any: Final = Tensor.any
argmax: Final = Tensor.argmax
argmin: Final = Tensor.argmin
count_nonzero: Final = Tensor.count_nonzero
logsumexp: Final = Tensor.logsumexp
max: Final = Tensor.max
mean: Final = Tensor.mean
min: Final = Tensor.min
norm: Final = Tensor.norm
prod: Final = Tensor.prod
sum: Final = Tensor.sum

# statistics
median: Final = Tensor.median
std: Final = Tensor.std
var: Final = Tensor.var

# cumulative
cumprod: Final = Tensor.cumprod
cumsum: Final = Tensor.cumsum
logcumsumexp: Final = Tensor.logcumsumexp

# softmax
log_softmax: Final = Tensor.log_softmax
softmax: Final = Tensor.softmax

# matmul
bmm: Final = Tensor.bmm
dot: Final = Tensor.dot
kron: Final = Tensor.kron
matmul: Final = Tensor.matmul
mm: Final = Tensor.mm
mv: Final = Tensor.mv
outer: Final = Tensor.outer

# shape
broadcast_to: Final = Tensor.broadcast_to
chunk: Final = Tensor.chunk
clone: Final = Tensor.clone
flatten: Final = Tensor.flatten
flip: Final = Tensor.flip
movedim: Final = Tensor.movedim
narrow: Final = Tensor.narrow
permute: Final = Tensor.permute
ravel: Final = Tensor.ravel
reshape: Final = Tensor.reshape
roll: Final = Tensor.roll
select: Final = Tensor.select
split: Final = Tensor.split
squeeze: Final = Tensor.squeeze
swapaxes: Final = Tensor.swapaxes
t: Final = Tensor.t
tile: Final = Tensor.tile
transpose: Final = Tensor.transpose
unbind: Final = Tensor.unbind
unflatten: Final = Tensor.unflatten
unsqueeze: Final = Tensor.unsqueeze

# diagonal
diag: Final = Tensor.diag
diagonal: Final = Tensor.diagonal
tril: Final = Tensor.tril
triu: Final = Tensor.triu

# gather
gather: Final = Tensor.gather
index_add: Final = Tensor.index_add
index_select: Final = Tensor.index_select
scatter: Final = Tensor.scatter
scatter_add: Final = Tensor.scatter_add

# indexing
masked_select: Final = Tensor.masked_select
nonzero: Final = Tensor.nonzero
repeat_interleave: Final = Tensor.repeat_interleave

# sorting
argsort: Final = Tensor.argsort
sort: Final = Tensor.sort
topk: Final = Tensor.topk
unique: Final = Tensor.unique

# random
bernoulli: Final = Tensor.bernoulli
multinomial: Final = Tensor.multinomial

# dtypes
is_floating_point: Final = Tensor.is_floating_point

# conversions
numel: Final = Tensor.numel

with_pytorchs_keywords(globals(), "minigrad.ops.", "minigrad.creation", "minigrad.random")
