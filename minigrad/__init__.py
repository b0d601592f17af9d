"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
# Type checkers take an imported name for a public one if it says `as`, and an assigned one if it is Final.
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from . import autograd, ops, random
from .arrays.devices import (
    accelerator as accelerator, backends as backends, cuda as cuda, device as device,
    set_float32_matmul_precision as set_float32_matmul_precision,
)
from .arrays.dtypes import (
    bfloat16 as bfloat16, bool_ as _bool, finfo as finfo, float16 as float16, float32 as float32, float64 as float64,
    int32 as int32, int64 as int64, uint8 as uint8,
)
from .autograd.anomaly import detect_anomaly as detect_anomaly
from .autograd.function import Function as Function
from .autograd.functional import grad as grad, hessian as hessian, hvp as hvp, jacobian as jacobian, jvp as jvp, vjp as vjp
from .autograd.grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, is_grad_enabled as is_grad_enabled, no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
# before the function `tensor`, which has the name of this file
from .tensor import Tensor as Tensor
from .functions import as_function, giving_tensor, is_tensor as is_tensor
from .creation import (
    FloatTensor as FloatTensor, LongTensor as LongTensor, arange as arange, as_tensor as as_tensor, empty as empty,
    empty_like as empty_like, eye as eye, from_dlpack as from_dlpack, from_numpy as from_numpy, full as full,
    full_like as full_like, linspace as linspace, normal as normal, ones as ones, ones_like as ones_like, rand as rand,
    rand_like as rand_like, randint as randint, randn as randn, randn_like as randn_like,
    randperm as randperm, tensor as tensor, zeros as zeros, zeros_like as zeros_like,
)
from .fast import autocast as amp
from .fast.autocast import autocast as autocast, is_autocast_enabled as is_autocast_enabled
from .fast import compile as compile, get_num_threads as get_num_threads, set_num_threads as set_num_threads
from .packages import PACKAGES as _PACKAGES, registered as _registered
from .pytorchs_names import left_out as _left_out
from .random import Generator as Generator, manual_seed as manual_seed
from .implementations import textbook as textbook

from math import inf as inf, nan as nan, pi as pi
from numpy import dtype as dtype

if TYPE_CHECKING:  # what `__getattr__` below imports on first use; only imports tell type checkers what modules have
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
        """Import on first use: gradcheck, the names for later, and the packages above minigrad."""
        if name in _LATER:
            return getattr(_import_module(f"minigrad.{_LATER[name]}"), name)
        if name == "gradcheck" or name in _registered(_PACKAGES):
            return _import_module(f"minigrad.{name}")
        _left_out(__name__, name)


__version__ = "0.1.0"

# Names that few programs use, from modules that take a third of the time of `import minigrad`.
_LATER = {
    "GradcheckReport": "gradcheck", "gradcheck_module": "gradcheck", "gradgradcheck": "gradcheck", "load": "serialization",
    "save": "serialization", "graph": "drawing.graph", "trace": "tracing", "count_flops": "tracing.flops",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "gradcheck", *(name for name in _registered(_PACKAGES) if name.isidentifier())})


# PyTorch's names of dtypes. A tensor is bool, int64, float32 or float64; for any other, an error says so.
bool: Final = _bool
int: Final = int32
long: Final = int64
half: Final = float16
float: Final = float32
double: Final = float64

cat: Final = giving_tensor(ops.shape.cat)
einsum: Final = giving_tensor(ops.matmul.einsum)
stack: Final = giving_tensor(ops.shape.stack)
where: Final = giving_tensor(ops.comparison.where)
get_rng_state: Final = random.get_state
set_rng_state: Final = random.set_state

# Methods that are also functions: mg.exp(x) is x.exp(). Each is defined in ops/<heading>.py, draws in random.py, and
# numel in appendix/conversions.py.

# arithmetic
abs: Final = as_function(Tensor.abs)
add: Final = as_function(Tensor.add)
addcdiv: Final = as_function(Tensor.addcdiv)
addcmul: Final = as_function(Tensor.addcmul)
ceil: Final = as_function(Tensor.ceil)
div: Final = as_function(Tensor.div)
floor: Final = as_function(Tensor.floor)
floor_divide: Final = as_function(Tensor.floor_divide)
mul: Final = as_function(Tensor.mul)
neg: Final = as_function(Tensor.neg)
pow: Final = as_function(Tensor.pow)
reciprocal: Final = as_function(Tensor.reciprocal)
remainder: Final = as_function(Tensor.remainder)
round: Final = as_function(Tensor.round)
sign: Final = as_function(Tensor.sign)
square: Final = as_function(Tensor.square)
sub: Final = as_function(Tensor.sub)
trunc: Final = as_function(Tensor.trunc)

# elementary
cos: Final = as_function(Tensor.cos)
erf: Final = as_function(Tensor.erf)
erfc: Final = as_function(Tensor.erfc)
exp: Final = as_function(Tensor.exp)
log: Final = as_function(Tensor.log)
log1p: Final = as_function(Tensor.log1p)
rsqrt: Final = as_function(Tensor.rsqrt)
sigmoid: Final = as_function(Tensor.sigmoid)
sin: Final = as_function(Tensor.sin)
sqrt: Final = as_function(Tensor.sqrt)
tanh: Final = as_function(Tensor.tanh)

# activations
gelu: Final = as_function(Tensor.gelu)
relu: Final = as_function(Tensor.relu)

# comparison
allclose: Final = as_function(Tensor.allclose)
clamp: Final = as_function(Tensor.clamp)
clip: Final = as_function(Tensor.clamp)
eq: Final = as_function(Tensor.eq)
equal: Final = as_function(Tensor.equal)
ge: Final = as_function(Tensor.ge)
gt: Final = as_function(Tensor.gt)
isclose: Final = as_function(Tensor.isclose)
isfinite: Final = as_function(Tensor.isfinite)
isinf: Final = as_function(Tensor.isinf)
isnan: Final = as_function(Tensor.isnan)
le: Final = as_function(Tensor.le)
logical_not: Final = as_function(Tensor.logical_not)
lt: Final = as_function(Tensor.lt)
masked_fill: Final = as_function(Tensor.masked_fill)
maximum: Final = as_function(Tensor.maximum)
minimum: Final = as_function(Tensor.minimum)
ne: Final = as_function(Tensor.ne)

# reduce
all: Final = as_function(Tensor.all)
amax: Final = as_function(Tensor.amax)
amin: Final = as_function(Tensor.amin)
any: Final = as_function(Tensor.any)
argmax: Final = as_function(Tensor.argmax)
argmin: Final = as_function(Tensor.argmin)
logsumexp: Final = as_function(Tensor.logsumexp)
max: Final = as_function(Tensor.max)
mean: Final = as_function(Tensor.mean)
min: Final = as_function(Tensor.min)
norm: Final = as_function(Tensor.norm)
sum: Final = as_function(Tensor.sum)

# statistics
std: Final = as_function(Tensor.std)
var: Final = as_function(Tensor.var)

# cumulative
cumsum: Final = as_function(Tensor.cumsum)

# softmax
log_softmax: Final = as_function(Tensor.log_softmax)
softmax: Final = as_function(Tensor.softmax)

# matmul
bmm: Final = as_function(Tensor.bmm)
dot: Final = as_function(Tensor.dot)
matmul: Final = as_function(Tensor.matmul)
mm: Final = as_function(Tensor.mm)
outer: Final = as_function(Tensor.outer)

# shape
broadcast_to: Final = as_function(Tensor.expand)
chunk: Final = as_function(Tensor.chunk)
clone: Final = as_function(Tensor.clone)
flatten: Final = as_function(Tensor.flatten)
flip: Final = as_function(Tensor.flip)
movedim: Final = as_function(Tensor.movedim)
permute: Final = as_function(Tensor.permute)
ravel: Final = as_function(Tensor.ravel)
reshape: Final = as_function(Tensor.reshape)
select: Final = as_function(Tensor.select)
split: Final = as_function(Tensor.split)
squeeze: Final = as_function(Tensor.squeeze)
swapaxes: Final = as_function(Tensor.transpose)
t: Final = as_function(Tensor.t)
transpose: Final = as_function(Tensor.transpose)
unbind: Final = as_function(Tensor.unbind)
unflatten: Final = as_function(Tensor.unflatten)
unsqueeze: Final = as_function(Tensor.unsqueeze)

# diagonal
diag: Final = as_function(Tensor.diag)
diagonal: Final = as_function(Tensor.diagonal)
tril: Final = as_function(Tensor.tril)
triu: Final = as_function(Tensor.triu)

# gather
gather: Final = as_function(Tensor.gather)
index_add: Final = as_function(Tensor.index_add)
index_select: Final = as_function(Tensor.index_select)
scatter: Final = as_function(Tensor.scatter)
scatter_add: Final = as_function(Tensor.scatter_add)

# indexing
nonzero: Final = as_function(Tensor.nonzero)
repeat_interleave: Final = as_function(Tensor.repeat_interleave)

# sorting
argsort: Final = as_function(Tensor.argsort)
sort: Final = as_function(Tensor.sort)
topk: Final = as_function(Tensor.topk)

# random
bernoulli: Final = as_function(Tensor.bernoulli)
multinomial: Final = as_function(Tensor.multinomial)

# dtypes
is_floating_point: Final = as_function(Tensor.is_floating_point)

# conversions
numel: Final = as_function(Tensor.numel)

del TYPE_CHECKING, Any, Final, TypeAlias, as_function, giving_tensor  # no names of this library's
