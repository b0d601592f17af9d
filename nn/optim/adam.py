"""Adam (Kingma and Ba, arXiv:1412.6980) and AdamW (Loshchilov and Hutter, arXiv:1711.05101)."""
from typing import Any

import numpy as np

from minigrad.extend import MultiTensorAdam
from nn.optim.multi_tensor import MultiTensorOptimizer
from nn.optim.optimizer import Parameters


class Adam(MultiTensorOptimizer):
    """Steps along the mean gradient, divided elementwise by its root mean square; t counts steps from 1.

        g = g + weight_decay p
        m = beta1 m + (1 - beta1) g,    v = beta2 v + (1 - beta2) g²
        p = p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    With amsgrad, the largest v so far takes the place of v in the last line (Reddi et al., arXiv:1904.09237); with
    maximize, -g that of g. State of a parameter: "step" t, "exp_avg" m, "exp_avg_sq" v, with amsgrad "max_exp_avg_sq".

    `update` is this formula for one parameter, to be read; `step` runs one kernel over all parameters. For max_grad_norm
    see `MultiTensorOptimizer`.

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.tensor([1.0, 2.0]))
    >>> (p * p).sum().backward()
    >>> Adam([p], lr=0.5).step()
    >>> p.tolist()
    [0.5, 1.5]
    """

    decoupled_decay = False

    def update(self, p: np.ndarray, g: np.ndarray, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, weight_decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        g = -g if group["maximize"] else g
        if self.decoupled_decay:
            p *= 1 - lr * weight_decay
        else:
            g = g + weight_decay * p
        t = state["step"] = int(state.get("step", 0)) + 1
        m = state["exp_avg"] = beta1 * state.get("exp_avg", 0) + (1 - beta1) * g
        v = state["exp_avg_sq"] = beta2 * state.get("exp_avg_sq", 0) + (1 - beta2) * g * g
        if group["amsgrad"]:
            v = state["max_exp_avg_sq"] = np.maximum(state.get("max_exp_avg_sq", 0), v)
        p -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + group["eps"])

    def __init__(self, params: Parameters, lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
                 amsgrad: bool = False, *, maximize: bool = False, max_grad_norm: float | None = None,
                 foreach: bool | None = None, fused: bool | None = None, capturable: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize), max_grad_norm)

    def state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq") + ("max_exp_avg_sq",) * group["amsgrad"]

    def make_step(self, dtype: np.dtype, names: list[tuple[str, ...]]) -> MultiTensorAdam:
        return MultiTensorAdam(dtype, self.param_groups, self.state, names, decoupled_decay=self.decoupled_decay)


class AdamW(Adam):
    """Adam with decoupled weight decay, which shrinks the parameters directly instead of passing through the moments.

        p = (1 - lr weight_decay) p
        m = beta1 m + (1 - beta1) g,    v = beta2 v + (1 - beta2) g²
        p = p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    >>> import minigrad as mg
    >>> import nn
    >>> layer = nn.Linear(4, 4)
    >>> optimizer = AdamW([{"params": [layer.weight]}, {"params": [layer.bias], "weight_decay": 0.0}],
    ...                   lr=1e-3, weight_decay=0.1, max_grad_norm=1.0)
    >>> layer(mg.ones(1, 4)).sum().backward()
    >>> optimizer.step()
    >>> round(optimizer.grad_norm, 4)  # four ones in the bias, sixteen in the weight
    4.4721
    """

    decoupled_decay = True

    def __init__(self, params: Parameters, lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
                 amsgrad: bool = False, *, maximize: bool = False, max_grad_norm: float | None = None,
                 foreach: bool | None = None, fused: bool | None = None, capturable: bool = False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, max_grad_norm=max_grad_norm)
