"""The settings of a training run."""
import collections
import dataclasses
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

import nn
from models.config import check_fields, check_whole

WHOLE = dict.fromkeys(("steps", "batch_size", "accumulation", "eval_every", "eval_windows"), (1, 10 ** 9)) | dict.fromkeys(
    ("warmup_steps", "seed"), (0, 10 ** 9))
BLOCK = r".*?\b\d+(?=\.)"  # the block in a parameter's name
STACKED = "in_proj_weight", "query.weight", "key.weight", "value.weight"  # a block for each head; three in old checkpoints
INTERVALS = {"lr": "(0, 1]", "muon_lr": "(0, 1]", "muon_momentum": "[0, 1)", "final_lr": "[0, 1]", "beta1": "[0, 1)",
             "beta2": "[0, 1)", "label_smoothing": "[0, 1)", "weight_decay": "[0, 100]", "max_grad_norm": "(0, inf)"}
CHOICES: dict[str, Collection[str]] = {"optimizer": ("adamw", "muon"), "annealing": nn.optim.ANNEALING,
                                       "precision": ("float32", "bfloat16", "auto")}


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training run; ValueError names an invalid field.

    >>> TrainingConfig(lr=float("nan"))
    Traceback (most recent call last):
    ...
    ValueError: lr must be more than 0 and at most 1, got nan
    """

    steps: int = 2000  # number of parameter updates
    batch_size: int = 12  # B, windows of text or examples of a task per batch
    final_batch_size: int | None = None  # if given, batches grow to this size in doublings, the last perhaps in part
    lr: float = 1e-3  # the highest learning rate, at the end of the warm-up
    final_lr: float = 0.1  # the learning rate at the last step, as a fraction of lr; unused if that is constant or rises
    warmup_steps: int = 100  # steps in which the learning rate rises from 0
    annealing: str = "cosine"  # how it then falls: cosine, linear, quadratic, steps or constant
    accumulation: int = 1  # batches per update, which takes the mean over all their targets
    optimizer: str = "adamw"  # adamw, or muon: Muon for the matrices of the blocks, AdamW for the rest
    muon_lr: float = 0.02  # Muon's highest learning rate, which follows the same schedule as lr
    muon_momentum: float = 0.95  # how slowly Muon's mean of gradients forgets
    beta1: float = 0.9  # how slowly AdamW's mean of gradients forgets
    beta2: float = 0.99  # how slowly its mean of squared gradients forgets
    weight_decay: float = 0.1  # the decay of matrices and embeddings, multiplied by the learning rate in each step
    decay_all: bool = False  # do biases and gains decay as well?
    max_grad_norm: float = 1.0  # longer gradients (all parameters as one vector) are scaled down to this length
    label_smoothing: float = 0.0  # the probability spread over wrong answers in training
    precision: str = "float32"  # of products: float32, bfloat16 (as mg.autocast), or auto: bfloat16 if the processor has it
    eval_every: int = 250  # steps between evaluations, which also save a checkpoint
    eval_windows: int = 240  # windows of the validation text, or examples, per evaluation; the last takes more, too
    seed: int = 42  # seed of initialisation, dropout and batches

    def __post_init__(self) -> None:
        check_fields(self, WHOLE, INTERVALS, CHOICES)
        if self.final_batch_size is not None:
            check_whole("final_batch_size", self.final_batch_size, least=self.batch_size)

    @classmethod
    def of(cls, dataset: Any, **changes: Any) -> "TrainingConfig":
        """The config with a dataset's defaults, as changed."""
        return cls(**dataset.defaults | changes)

    def batch_size_at(self, step: int) -> int:
        """The batch size, which doubles at equal intervals from batch_size on, and is final_batch_size in the last.

        >>> [TrainingConfig(steps=8, batch_size=4, final_batch_size=12).batch_size_at(step) for step in range(8)]
        [4, 4, 4, 8, 8, 8, 12, 12]
        """
        final = self.final_batch_size or self.batch_size
        intervals = min(math.ceil(math.log2(final / self.batch_size)) + 1, self.steps)
        interval = step * intervals // self.steps
        return self.batch_size << interval if interval < intervals - 1 else final

    def learning_rate_at(self, step: int, peak: float | None = None) -> float:
        """A linear rise to the peak, by default lr, and then the annealing, which is at final_lr times the peak in the last
        step."""
        peak = self.lr if peak is None else peak
        warmup, floor = min(self.warmup_steps, self.steps), peak if self.annealing == "constant" else self.final_lr * peak
        return nn.optim.warmup_annealing(step, self.annealing, warmup_steps=warmup, total_steps=max(warmup, self.steps - 1),
                                         peak=peak, floor=floor)


def grouped(shapes: Mapping[str, tuple[int, ...]], decay_all: bool, head_size: int | None = None
            ) -> dict[int | str, list[str]]:
    """The names of parameters in the order of an optimizer: given a head_size, Muon's matrices by the number of heads that
    are stacked in each, then AdamW's, "decaying" and "others".

    >>> shapes = {"norm": (4,), "blocks.0.in_proj_weight": (12, 4), "blocks.0.out.weight": (4, 4), "table": (9, 4)}
    >>> grouped(shapes, decay_all=False, head_size=2)
    {6: ['blocks.0.in_proj_weight'], 1: ['blocks.0.out.weight'], 'decaying': ['table'], 'others': ['norm']}
    """
    groups: dict[int | str, list[str]] = collections.defaultdict(list)
    decaying: list[str] = []
    others: list[str] = []
    for name, shape in shapes.items():
        if head_size is not None and re.match(BLOCK, name) and len(shape) == 2 and name.endswith("weight"):
            groups[shape[0] // head_size if name.endswith(STACKED) else 1].append(name)
        else:
            (decaying if len(shape) >= 2 or decay_all else others).append(name)
    return {**groups, "decaying": decaying, "others": others}
