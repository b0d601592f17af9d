"""Gradient clipping and `skip_init`, under the names that PyTorch gives them; `data`: datasets and batches; `rnn`: padded
sequences."""
from nn.init import skip_init
from nn.optim.clip import clip_grad_norm_
from . import data, rnn

__all__ = ["clip_grad_norm_", "data", "rnn", "skip_init"]
