"""Optimisers, gradient clipping, and learning-rate schedules."""
from . import lr_scheduler
from .adam import Adam, AdamW
from .clip import clip_grad_norm_, clip_grad_value_
from .lr_scheduler import (
    ANNEALING, ConstantLR, CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, LRScheduler, MultiStepLR, StepLR,
    warmup_annealing, warmup_cosine,
)
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "Optimizer", "SGD", "Adam", "AdamW", "clip_grad_norm_", "clip_grad_value_", "LRScheduler", "LambdaLR",
    "CosineAnnealingLR", "StepLR", "MultiStepLR", "ExponentialLR", "LinearLR", "ConstantLR", "ANNEALING",
    "warmup_annealing", "warmup_cosine", "lr_scheduler",
]
