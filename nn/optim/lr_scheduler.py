"""Learning-rate schedules: a plain function, and PyTorch's schedulers, which set the rates of an optimiser."""
import math
from collections.abc import Callable, Sequence
from typing import Any

from minigrad.extend import notice, opaque
from nn.checks import one_of
from nn.optim.optimizer import Optimizer, check_option

# The fraction of the peak rate, from 1 to 0, by the fraction done of the steps after warm-up.
ANNEALING: dict[str, Callable[[float], float]] = {
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
    one_of("warmup_annealing", "annealing", annealing, ANNEALING)
    if not 0 <= warmup_steps <= total_steps:
        raise ValueError(f"warmup_annealing: expected 0 <= warmup_steps <= total_steps, got {warmup_steps} and "
                         f"{total_steps}")
    if step < warmup_steps:
        return peak * (step + 1) / (warmup_steps + 1)
    if step >= total_steps:
        return floor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return floor + (peak - floor) * ANNEALING[annealing](progress)


class LRScheduler:
    """Base of the schedulers. A subclass writes `get_lr`: the rates for `last_epoch`, one per group.

    Call `step` after the optimiser's. `base_lrs` are the groups' initial rates. To resume, load the states of the optimiser
    and of the scheduler; or load only the optimiser's, and create the scheduler with the `last_epoch` that is done.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = optimizer
        self.last_epoch: int = last_epoch
        if last_epoch != -1 and not all("initial_lr" in group for group in optimizer.param_groups):
            raise ValueError(f"{type(self).__name__}: to resume from last_epoch={last_epoch}, each group of the optimizer "
                             "needs an 'initial_lr'; load the optimizer's state first, or start with last_epoch=-1")
        self.base_lrs: list[float] = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def _set_options(self, **options: Any) -> None:
        for option, value in options.items():
            check_option(type(self).__name__, option, value)
            setattr(self, option, value)

    def get_lr(self) -> list[float]:
        """The rates for `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def get_last_lr(self) -> list[float]:
        """The rates in use."""
        notice("reads learning rates in Python", instead="read them outside")
        return [group["lr"] for group in self.optimizer.param_groups]

    @opaque
    def step(self) -> None:
        """Go to the next epoch, and set its rates."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """The epoch, the initial rates, and the options but functions, ready for JSON."""
        notice("reads the state of a scheduler in Python", instead="read it outside")
        return {name: value for name, value in vars(self).items() if name not in ("optimizer", "lr_lambdas")}

    @opaque
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from where `state_dict` was called. The rates in use are in the optimiser's own state."""
        vars(self).update({name: list(value) if isinstance(value, list) else value for name, value in state_dict.items()})


class LambdaLR(LRScheduler):
    """lr = initial lr * lr_lambda(epoch), with one function, or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
                 last_epoch: int = -1):
        groups = len(optimizer.param_groups)
        self.lr_lambdas: list[Callable[[int], float]] = (
            [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda))
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"LambdaLR: expected {groups} lr_lambdas, one per group, got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * function(self.last_epoch) for lr, function in zip(self.base_lrs, self.lr_lambdas)]


class CosineAnnealingLR(LRScheduler):
    """lr = eta_min + (initial lr - eta_min) (1 + cos(pi epoch / T_max)) / 2: down in T_max epochs, then up again."""

    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self._set_options(T_max=T_max, eta_min=eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = 0.5 * (1 + math.cos(math.pi * self.last_epoch / self.T_max))
        return [self.eta_min + (lr - self.eta_min) * factor for lr in self.base_lrs]


class StepLR(LRScheduler):
    """Each step_size epochs, lr = gamma lr: a rate changed by hand stays changed.

    >>> import minigrad as mg
    >>> import nn
    >>> optimizer = nn.optim.SGD([nn.Parameter(mg.ones(1))], lr=8.0)
    >>> scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     scheduler.step()  # after optimizer.step()
    >>> rates
    [8.0, 8.0, 4.0, 4.0, 2.0]
    """

    step_size: int
    gamma: float

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self._set_options(step_size=step_size, gamma=gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1.0
        return [lr * factor for lr in self.get_last_lr()]
