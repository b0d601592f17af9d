"""Stochastic gradient descent."""
from collections.abc import Iterable

import numpy as np

from minigrad.runner import opaque
from minigrad.tensor import Tensor
from nn.optim.optimizer import Optimizer


class SGD(Optimizer):
    """Gradient descent with momentum, per parameter p with gradient g.

        g = g + weight_decay p
        b = momentum b + (1 - dampening) g      (the first time: b = g)
        p = p - lr b                            (nesterov: p - lr (g + momentum b))

    With maximize, -g takes the place of g in the first line.

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.tensor([1.0, 2.0]))
    >>> (p * p).sum().backward()
    >>> SGD([p], lr=0.5).step()
    >>> p.tolist()
    [0.0, 0.0]
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[dict], lr: float = 1e-3, momentum: float = 0.0,
                 dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, *,
                 maximize: bool = False):
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize))

    def state_names(self, group: dict) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def add_param_group(self, group: dict) -> None:
        super().add_param_group(group)
        group = self.param_groups[-1]
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            self.param_groups.pop()
            raise ValueError("SGD: Nesterov momentum requires a momentum and zero dampening, "
                             f"got momentum={group['momentum']}, dampening={group['dampening']}")

    @opaque
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.array -= group["lr"] * self._direction(parameter, group)
        self._note_writes()

    def _direction(self, parameter: Tensor, group: dict) -> np.ndarray:
        """b of the formula; with nesterov, g + momentum b"""
        gradient = -parameter.grad.array if group["maximize"] else parameter.grad.array
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * parameter.array
        if not group["momentum"]:
            return gradient
        if parameter not in self.state:
            self.state[parameter] = {"momentum_buffer": np.array(gradient)}
            buffer = self.state[parameter]["momentum_buffer"]
        else:
            buffer = self.state[parameter]["momentum_buffer"]
            buffer[...] = group["momentum"] * buffer + (1 - group["dampening"]) * gradient
        return gradient + group["momentum"] * buffer if group["nesterov"] else buffer
