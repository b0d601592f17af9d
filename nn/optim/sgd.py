"""Stochastic gradient descent."""
from typing import Any

import numpy as np

from nn.optim.optimizer import Optimizer, Parameters


class SGD(Optimizer):
    """Gradient descent with momentum, per parameter p with gradient g.

        g = g + weight_decay p
        b = momentum b + (1 - dampening) g      (the first time: b = g)
        p = p - lr b                            (nesterov: p - lr (g + momentum b))

    With maximize, -g replaces g in the first line.

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.tensor([1.0, 2.0]))
    >>> (p * p).sum().backward()
    >>> SGD([p], lr=0.5).step()
    >>> p.tolist()
    [0.0, 0.0]
    """

    def __init__(self, params: Parameters, lr: float = 1e-3, momentum: float = 0.0,
                 dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, fused: bool | None = None):
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize))

    def update(self, p: np.ndarray, g: np.ndarray, state: dict[str, Any], group: dict[str, Any]) -> None:
        momentum = group["momentum"]
        g = -g if group["maximize"] else g
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        if momentum:
            b = momentum * state["momentum_buffer"] + (1 - group["dampening"]) * g if state else np.array(g)
            state["momentum_buffer"] = b
            g = g + momentum * b if group["nesterov"] else b
        p -= group["lr"] * g

    def state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def check_group(self, group: dict[str, Any]) -> None:
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: Nesterov momentum requires a momentum and zero dampening, got "
                             f"momentum={group['momentum']} and dampening={group['dampening']}")
