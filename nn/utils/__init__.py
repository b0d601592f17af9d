"""Gradient clipping, under the name that PyTorch gives it, and `data`: datasets and batches of them."""
from nn.optim.clip import clip_grad_norm_, clip_grad_value_
from . import data

__all__ = ["clip_grad_norm_", "clip_grad_value_", "data"]
