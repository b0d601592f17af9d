"""What PyTorch keeps in torch.autograd, under the same names: `autograd.grad` is `minigrad.grad`."""
from . import derivatives as functional  # jacobian, hessian, vjp, jvp, hvp
from .anomaly import detect_anomaly
from .custom import Function
from .derivatives import grad
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck", "inference_mode",
    "no_grad", "set_grad_enabled",
]
