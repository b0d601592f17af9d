"""Optimisers that update all parameters by one kernel, alone or several as one."""
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad import Tensor
from minigrad.extend import MultiTensorStep, norm, notice
from nn.checks import positive
from nn.optim.clip import clip_coefficient
from nn.optim.optimizer import COMPUTED, Optimizer, Parameters


class ClippingOptimizer(Optimizer):
    """Base of optimizers whose step clips gradients on the way, if `max_grad_norm` is given."""

    max_grad_norm: float | None
    _grad_norm: float | None = None

    @property
    def grad_norm(self) -> float | Any:
        """The norm of the gradients in the last step; None before the first one, and without max_grad_norm."""
        notice("reads the norm of the gradients in Python", instead="read it outside")
        return self._grad_norm


class MultiTensorOptimizer(ClippingOptimizer):
    """Base of Adam and Muon. A subclass also writes `make_step`: its `update` for all parameters of a dtype at once.

    With `max_grad_norm`, a step clips the gradients to that norm on the way, as `clip_grad_norm_` does but without changing
    them; `grad_norm` is the norm they had.
    """

    def __init__(self, params: Parameters, defaults: dict[str, Any], max_grad_norm: float | None):
        self.max_grad_norm = _max_grad_norm(self, max_grad_norm)
        self._steps: list[MultiTensorStep] = []  # one per dtype
        self._made_for: list[Any] = []  # what they were made for, see `_parts`
        self._skipped: list[Tensor] = []  # parameters in which nothing is computed
        super().__init__(params, defaults)

    def make_step(self, dtype: np.dtype, names: list[tuple[str, ...]]) -> MultiTensorStep:
        """The step for the parameters of a dtype; `names` are the `state_names` of each group."""
        raise NotImplementedError(f"{type(self).__name__} has no make_step()")

    def steps(self) -> list[MultiTensorStep]:
        """The steps for all dtypes, with groups and states as they are now."""
        parts, known = self._parts(), self._made_for
        is_made = len(parts) == len(known) and all(map(operator.is_, parts, known))
        if not is_made or any(parameter.dtype in COMPUTED for parameter in self._skipped):
            for group in self.param_groups:
                self.check_group(group)
            names = [self.state_names(group) for group in self.param_groups]
            self._skipped = [p for p in self._parameters() if p.dtype not in COMPUTED]
            dtypes = dict.fromkeys(p.dtype for p in self._parameters() if p.dtype in COMPUTED)
            self._steps = [self.make_step(dtype, names) for dtype in dtypes]
            self._made_for = self._parts()
        return self._steps

    def _parts(self) -> list[Any]:
        """The objects that steps refer to: users may replace each of them between two steps."""
        parts: list[Any] = [self.state, *itertools.chain.from_iterable(map(dict.values, self.state.values()))]
        for group in self.param_groups:
            parts += group, *self.state_names(group), *group["params"]
        return parts

    def step_all(self) -> None:
        self._grad_norm = step_together([self], self.max_grad_norm)

    def __getstate__(self) -> dict[str, Any]:  # for copies and pickles, where the addresses do not hold
        return {**self.__dict__, "_steps": [], "_made_for": []}


class Joined(ClippingOptimizer):
    """Several optimisers as one, each with its own parameters, so that one norm over all gradients clips them.

    Groups and states are those of the optimisers, one after the other, and can be changed in either place.

    >>> import minigrad as mg
    >>> import nn
    >>> layer = nn.Linear(3, 3)
    >>> optimizer = Joined([nn.optim.Muon([layer.weight]), nn.optim.AdamW([layer.bias])], max_grad_norm=1.0)
    >>> layer(mg.ones(1, 3)).sum().backward()
    >>> optimizer.step()
    >>> round(optimizer.grad_norm, 4)  # three ones in the bias, nine in the weight
    3.4641
    """

    def __init__(self, optimizers: Sequence[MultiTensorOptimizer], max_grad_norm: float | None = None):
        if isinstance(optimizers, Optimizer):
            raise TypeError(f"Joined: expected a list of optimizers, got {type(optimizers).__name__}")
        self.optimizers: list[MultiTensorOptimizer] = list(optimizers)
        self.max_grad_norm = _max_grad_norm(self, max_grad_norm)
        if not self.optimizers:
            raise ValueError("Joined: expected at least one optimizer")
        for optimizer in self.optimizers:
            if not isinstance(optimizer, MultiTensorOptimizer):
                raise TypeError(f"Joined: can only join Adam, AdamW and Muon, got {type(optimizer).__name__}")
            if optimizer.max_grad_norm is not None:
                raise ValueError(f"Joined: give max_grad_norm to Joined, not to {type(optimizer).__name__}: one norm is "
                                 "over all gradients")
        parameters = self._parameters()
        if len(set(parameters)) < len(parameters):
            raise ValueError("Joined: a parameter was given to two optimizers")

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all optimisers."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:  # type: ignore[override]
        """The states of all parameters."""
        return {parameter: entries for optimizer in self.optimizers for parameter, entries in optimizer.state.items()}

    @state.setter
    def state(self, state: dict[Tensor, dict[str, Any]]) -> None:
        for optimizer in self.optimizers:
            optimizer.state = {parameter: state[parameter] for parameter in optimizer._parameters() if parameter in state}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise TypeError("Joined: add the group to one of the joined optimizers")

    def state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        owner = next(optimizer for optimizer in self.optimizers
                     if any(own["params"] is group["params"] for own in optimizer.param_groups))
        return owner.state_names(group)

    def step_all(self) -> None:
        self._grad_norm = step_together(self.optimizers, self.max_grad_norm)


def step_together(optimizers: Sequence[MultiTensorOptimizer], max_grad_norm: float | None) -> float | None:
    """Step each, with the gradients of all clipped to one norm if there is a maximum; return the norm they had."""
    if MultiTensorStep is None:
        return _step_in_numpy(optimizers, max_grad_norm)
    steps = [(optimizer, step) for optimizer in optimizers for step in optimizer.steps()]
    for _, step in steps:
        step.collect()
    clip, grad_norm = 1.0, None
    if max_grad_norm is not None:
        grad_norm = math.sqrt(sum(step.squared_norm() for _, step in steps))
        clip = clip_coefficient(grad_norm, max_grad_norm)
    for optimizer, step in steps:
        step.update(optimizer.param_groups, clip)
    return grad_norm


def _step_in_numpy(optimizers: Sequence[MultiTensorOptimizer], max_grad_norm: float | None) -> float | None:
    """The same by each optimizer's `update`."""
    clip, grad_norm = 1.0, None
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state.get(parameter, {})
                _check(parameter, state)
                optimizer.state[parameter] = {  # for all parameters; what amsgrad has left there goes
                    name: state[name] if name in state else 0 if name == "step" else np.zeros_like(parameter.array)
                    for name in optimizer.state_names(group)}
    if max_grad_norm is not None:
        gradients = [parameter.grad_array() for optimizer in optimizers for parameter in optimizer._parameters()]
        grad_norm = norm([gradient for gradient in gradients if gradient is not None])
        clip = clip_coefficient(grad_norm, max_grad_norm)
    with np.errstate(all="ignore"):  # like kernels: inf * 0, and what follows from a NaN
        for optimizer in optimizers:
            optimizer.step_one_by_one(clip)
    return grad_norm


def _check(parameter: Tensor, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if name != "step" and (value.shape, value.dtype) != (parameter.shape, parameter.dtype):
            raise RuntimeError(f"a parameter has become {parameter.shape}, {parameter.dtype} since the optimizer was made "
                               "for it; make the optimizer after model.to(dtype)")
    gradient = parameter.grad_array()
    if gradient is not None and (gradient.shape, gradient.dtype) != (parameter.shape, parameter.dtype):
        raise ValueError(f"gradient of shape {gradient.shape} and dtype {gradient.dtype} for a parameter of shape "
                         f"{parameter.shape} and dtype {parameter.dtype}")


def _max_grad_norm(optimizer: Optimizer, value: float | None) -> float | None:
    return None if value is None else positive(type(optimizer).__name__, "max_grad_norm", value)
