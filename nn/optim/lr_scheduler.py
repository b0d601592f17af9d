"""Learning-rate schedules: one plain function, and PyTorch's schedulers, which set the rates of an optimiser."""
import math
from collections.abc import Callable
from typing import Any

from minigrad import recording
from nn.optim.optimizer import Optimizer


ANNEALING = {  # what is left of the learning rate, from 1 to 0, when this share of the steps after warm-up is done
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "linear": lambda progress: 1 - progress,
    "quadratic": lambda progress: (1 - progress) ** 2,
    "steps": lambda progress: 0.5 ** int(4 * progress),  # halved at each quarter
    "constant": lambda progress: 1.0,
}


def warmup_annealing(step: int, annealing: str = "cosine", *, warmup_steps: int, total_steps: int, peak: float,
                     floor: float = 0.0) -> float:
    """The learning rate of a step, counted from 0: a linear rise to `peak`, then one of ANNEALING down to `floor`.

        step < warmup_steps:  peak (step + 1) / (warmup_steps + 1)
        step < total_steps:   floor + (peak - floor) ANNEALING[annealing](progress)
                              with progress = (step - warmup_steps) / (total_steps - warmup_steps)
        afterwards:           floor

    >>> for annealing in ANNEALING:
    ...     rates = [warmup_annealing(s, annealing, warmup_steps=2, total_steps=6, peak=1.0, floor=0.1) for s in range(7)]
    ...     print(annealing, *(round(rate, 3) for rate in rates))
    cosine 0.333 0.667 1.0 0.868 0.55 0.232 0.1
    linear 0.333 0.667 1.0 0.775 0.55 0.325 0.1
    quadratic 0.333 0.667 1.0 0.606 0.325 0.156 0.1
    steps 0.333 0.667 1.0 0.55 0.325 0.213 0.1
    constant 0.333 0.667 1.0 1.0 1.0 1.0 0.1
    """
    if annealing not in ANNEALING:
        raise ValueError(f"warmup_annealing: annealing must be one of {', '.join(ANNEALING)}, got {annealing!r}")
    if not 0 <= warmup_steps <= total_steps:
        raise ValueError(f"warmup_annealing: expected 0 <= warmup_steps <= total_steps, got {warmup_steps} and "
                         f"{total_steps}")
    if step < warmup_steps:
        return peak * (step + 1) / (warmup_steps + 1)
    if step >= total_steps:
        return floor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return floor + (peak - floor) * ANNEALING[annealing](progress)


def warmup_cosine(step: int, *, warmup_steps: int, total_steps: int, peak: float, floor: float = 0.0) -> float:
    """`warmup_annealing` with half a cosine.

    >>> [round(warmup_cosine(s, warmup_steps=2, total_steps=6, peak=1.0, floor=0.1), 3) for s in range(8)]
    [0.333, 0.667, 1.0, 0.868, 0.55, 0.232, 0.1, 0.1]
    """
    return warmup_annealing(step, warmup_steps=warmup_steps, total_steps=total_steps, peak=peak, floor=floor)


class LRScheduler:
    """Base of the schedulers. A subclass writes `get_lr`: the rates, one a group, for epoch `last_epoch`.

    Call `step` after the optimiser's. `base_lrs` are the rates that the groups started with.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = optimizer
        self.last_epoch = last_epoch
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def get_lr(self) -> list[float]:
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def get_last_lr(self) -> list[float]:
        """The rates in use."""
        return [group["lr"] for group in self.optimizer.param_groups]

    @recording.as_it_is
    def step(self) -> None:
        """Go to the next epoch, and set its rates."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        return {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was called; the rates in use are in the optimiser's own state."""
        self.last_epoch = state_dict["last_epoch"]
        self.base_lrs = list(state_dict["base_lrs"])


class LambdaLR(LRScheduler):
    """lr = initial lr * lr_lambda(epoch), with one function, or one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
                 last_epoch: int = -1):
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"LambdaLR: expected {groups} lr_lambdas, one a group, got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * function(self.last_epoch) for lr, function in zip(self.base_lrs, self.lr_lambdas)]


class CosineAnnealingLR(LRScheduler):
    """lr = eta_min + (initial lr - eta_min) (1 + cos(pi epoch / T_max)) / 2: down in T_max epochs, then up again."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        if not T_max > 0:
            raise ValueError(f"CosineAnnealingLR: T_max must be positive, got {T_max!r}")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = 0.5 * (1 + math.cos(math.pi * self.last_epoch / self.T_max))
        return [self.eta_min + (lr - self.eta_min) * factor for lr in self.base_lrs]
