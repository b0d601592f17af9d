"""minigrad: reverse-mode automatic differentiation of tensors, on NumPy with Numba kernels.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> x.softmax(0)[2].backward()
>>> x.grad
tensor([-0.0599, -0.1628,  0.2227])
"""
import importlib

from . import command  # must be first: if Python imports this package to run the command, the command starts here
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

# PyTorch's names of dtypes. A tensor is bool, int64, float32 or float64; for any other, an error says so.
bool, short, int, long = bool_, int16, int32, int64
half, float, double = float16, float32, float64
Size = tuple
numel = Tensor.numel

# Packages that import this one, never the other way round.
ABOVE = {"nn": "nn", "optim": "nn.optim", "utils": "nn.utils", "models": "models", "study": "study"}
# Names that few programs use, from modules that take a third of the time of `import minigrad`.
LATER = {
    "GradcheckReport": "gradcheck", "gradcheck_module": "gradcheck", "gradgradcheck": "gradcheck", "load": "serialization",
    "save": "serialization", "graph": "drawing.graph", "trace": "tracing", "count_flops": "tracing.flops",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *ABOVE, *LATER, "gradcheck"})


def __getattr__(name: str):
    """Import on first use: the packages ABOVE, as files written for PyTorch name them, and the names for LATER.

    The packages are built on minigrad, so nothing here may import or use them: `import minigrad` must work without them
    and be just as fast. tests/test_layers_of_imports.py checks that this is the only such place.
    """
    if name in ABOVE:
        return importlib.import_module(ABOVE[name])
    if name in LATER:
        return getattr(importlib.import_module(f"minigrad.{LATER[name]}"), name)
    if name == "gradcheck":
        return importlib.import_module("minigrad.gradcheck")
    left_out(__name__, LEFT_OUT)(name)


concat = cat

# Methods that are also functions: mg.exp(x) is x.exp(). Each is defined in ops/<heading>.py, random draws in random.py.
FUNCTIONS = {
    "arithmetic":
        "abs add addcdiv addcmul ceil div floor floor_divide fmod frac lerp mul neg pow reciprocal remainder round "
        "sign square sub trunc",
    "elementary":
        "acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos cosh erf "
        "erfc exp exp2 expm1 log log10 log1p log2 logaddexp rsqrt sigmoid sin sinh sqrt tan tanh",
    "activations": "gelu relu",
    "comparison":
        "allclose clamp clip eq equal ge gt isclose isfinite isinf isnan le logical_and logical_not logical_or "
        "logical_xor lt masked_fill maximum minimum nan_to_num ne",
    "reduce": "all amax amin any argmax argmin count_nonzero logsumexp max mean min norm prod sum",
    "statistics": "median std var",
    "cumulative": "cumprod cumsum logcumsumexp",
    "softmax": "log_softmax softmax",
    "matmul": "bmm dot kron mm mv outer",
    "shape":
        "broadcast_to chunk clone flatten flip movedim narrow permute ravel reshape roll select split squeeze "
        "swapaxes t tile transpose unbind unflatten unsqueeze",
    "diagonal": "diag diagonal tril triu",
    "gather": "gather index_add index_select scatter scatter_add",
    "indexing": "masked_select nonzero repeat_interleave",
    "sorting": "argsort sort topk unique",
    "random": "bernoulli multinomial",
    "dtypes": "is_floating_point",
}
globals().update({name: getattr(Tensor, name) for names in FUNCTIONS.values() for name in names.split()})
