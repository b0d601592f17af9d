"""Gradient clipping, under the name that PyTorch gives it."""
from nn.optim.clip import clip_grad_norm_, clip_grad_value_

__all__ = ["clip_grad_norm_", "clip_grad_value_"]
