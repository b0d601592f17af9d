"""Learning-rate schedules: a plain function, and PyTorch's schedulers, which set the rates of an optimiser."""
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
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
        self._set_rates()

    def _set_rates(self) -> None:
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


class FactorLR(LRScheduler):
    """lr = initial lr * factor_at(epoch). A subclass writes `factor_at`.

    Each step multiplies the rate in use by factor_at(epoch) / factor_at(epoch - 1), so the factors of several schedulers on
    one optimiser multiply, and a rate changed by hand stays changed.
    """

    def factor_at(self, epoch: int) -> float:
        """The factor of the initial rates in this epoch."""
        raise NotImplementedError(f"{type(self).__name__} has no factor_at()")

    def get_lr(self) -> list[float]:
        before = 1.0 if self.last_epoch == 0 else self.factor_at(self.last_epoch - 1)
        factor = self.factor_at(self.last_epoch)
        return [lr if factor == before else lr * factor / before for lr in self.get_last_lr()]


class StepLR(FactorLR):
    """lr = initial lr * gamma^(epoch // step_size)

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

    def factor_at(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(FactorLR):
    """lr = initial lr * gamma^(number of milestones up to epoch); an epoch listed twice counts twice."""

    milestones: list[int]
    gamma: float

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self._set_options(milestones=sorted(milestones), gamma=gamma)
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        return self.gamma ** sum(milestone <= epoch for milestone in self.milestones)


class ExponentialLR(FactorLR):
    """lr = initial lr * gamma^epoch"""

    gamma: float

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self._set_options(gamma=gamma)
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        return self.gamma**epoch


class LinearLR(FactorLR):
    """lr = initial lr * factor, which changes linearly from start_factor to end_factor in total_iters epochs."""

    start_factor: float
    end_factor: float
    total_iters: int

    def __init__(self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1):
        self._set_options(start_factor=start_factor, end_factor=end_factor, total_iters=total_iters)
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * min(epoch, self.total_iters) / self.total_iters


class ConstantLR(FactorLR):
    """lr = initial lr * factor in the first total_iters epochs, then the initial lr."""

    factor: float
    total_iters: int

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1):
        self._set_options(factor=factor, total_iters=total_iters)
        super().__init__(optimizer, last_epoch)

    def factor_at(self, epoch: int) -> float:
        return self.factor if epoch < self.total_iters else 1.0


class SequentialLR(LRScheduler):
    """The rates of schedulers, one after another: of the next one, from its epoch 0 on, at each of the milestones.

    >>> import minigrad as mg
    >>> import nn
    >>> optimizer = nn.optim.SGD([nn.Parameter(mg.ones(1))], lr=8.0)
    >>> warmup, decay = LinearLR(optimizer, 0.25, total_iters=3), ExponentialLR(optimizer, 0.5)
    >>> scheduler = SequentialLR(optimizer, [warmup, decay], milestones=[3])
    >>> rates = []
    >>> for epoch in range(6):
    ...     rates += scheduler.get_last_lr()
    ...     scheduler.step()  # after optimizer.step(); the parts are not stepped
    >>> rates
    [2.0, 4.0, 6.0, 8.0, 4.0, 2.0]
    """

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
                 last_epoch: int = -1):
        self.schedulers = list(schedulers)
        self.milestones: list[int] = list(milestones)
        if len(self.schedulers) != len(self.milestones) + 1 or self.milestones != sorted(self.milestones):
            raise ValueError(f"SequentialLR: expected increasing milestones, one fewer than schedulers, got "
                             f"{self.milestones} for {len(self.schedulers)} schedulers")
        if any(scheduler.optimizer is not optimizer for scheduler in self.schedulers):
            raise ValueError("SequentialLR: its schedulers must be of the same optimizer")
        if last_epoch != -1:
            raise ValueError(f"SequentialLR: last_epoch must be -1, got {last_epoch}; to resume, use load_state_dict")
        super().__init__(optimizer, last_epoch)

    def _set_rates(self) -> None:
        number = bisect_right(self.milestones, self.last_epoch)
        if self.last_epoch in (0, *self.milestones):  # its first epoch
            for group, lr in zip(self.optimizer.param_groups, self.base_lrs):
                group["lr"] = lr
            self.schedulers[number].last_epoch = -1
        self.schedulers[number].step()

    def state_dict(self) -> dict[str, Any]:
        """Its own state, and below "schedulers" that of each part."""
        return {**super().state_dict(), "schedulers": [scheduler.state_dict() for scheduler in self.schedulers]}

    @opaque
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from where `state_dict` was called. The rates in use are in the optimiser's own state."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "schedulers"})
        for scheduler, state in zip(self.schedulers, state_dict["schedulers"]):
            scheduler.load_state_dict(state)
