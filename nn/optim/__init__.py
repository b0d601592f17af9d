"""Optimisers, gradient clipping, and learning-rate schedules."""
from . import lr_scheduler
from .adam import Adam, AdamW
from .clip import clip_grad_norm_
from .lr_scheduler import ANNEALING, CosineAnnealingLR, LambdaLR, LRScheduler, warmup_annealing, warmup_cosine
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "Optimizer", "SGD", "Adam", "AdamW", "clip_grad_norm_", "LRScheduler", "LambdaLR", "CosineAnnealingLR",
    "ANNEALING", "warmup_annealing", "warmup_cosine", "lr_scheduler",
]
