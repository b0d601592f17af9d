"""The names of torch.autograd: `autograd.grad` is `minigrad.grad`."""
import importlib
from typing import TYPE_CHECKING

from ..pytorchs_names import left_out
from ..tensor import Tensor
from . import functional  # jacobian, hessian, vjp, jvp, hvp
from .anomaly import detect_anomaly as detect_anomaly
from .function import Function as Function
from .functional import grad as grad
from .grad_mode import (
    enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad, set_grad_enabled as set_grad_enabled,
)

Variable = Tensor  # its name before PyTorch 0.4

if TYPE_CHECKING:
    from ..gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
else:
    def __getattr__(name: str):
        if name in ("gradcheck", "gradgradcheck"):  # imported on first use, as by minigrad
            return getattr(importlib.import_module("minigrad.gradcheck"), name)
        left_out(__name__, name)
