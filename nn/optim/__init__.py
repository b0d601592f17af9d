"""Optimisers, gradient clipping, and learning-rate schedules."""
from . import lr_scheduler
from .adam import Adam, AdamW
from .clip import clip_grad_norm_
from .lr_scheduler import ANNEALING, CosineAnnealingLR, LambdaLR, LRScheduler, StepLR, warmup_annealing
from .multi_tensor import Joined
from .muon import Muon
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "ANNEALING", "SGD", "Adam", "AdamW", "CosineAnnealingLR", "Joined", "LambdaLR", "LRScheduler", "Muon", "Optimizer",
    "StepLR", "clip_grad_norm_", "lr_scheduler", "warmup_annealing",
]
