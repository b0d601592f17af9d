"""The names of torch.autograd: `autograd.grad` is `minigrad.grad`."""
import importlib

from . import functional  # jacobian, hessian, vjp, jvp, hvp
from .anomaly import detect_anomaly
from .function import Function
from .functional import grad
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled


def __getattr__(name: str):
    if name in ("gradcheck", "gradgradcheck"):  # imported on first use, as by minigrad
        return getattr(importlib.import_module("minigrad.gradcheck"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
