"""Muon: momentum, orthogonalised (Jordan et al., https://kellerjordan.github.io/posts/muon)."""
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minigrad.extend import MultiTensorMuon, norm
from nn.optim.multi_tensor import MultiTensorOptimizer
from nn.optim.optimizer import Parameters

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # PyTorch's: they raise small singular values fast, and end within 0.7 to 1.2
SCALES: dict[str, Callable[[int, int], float]] = {  # the step of a matrix with these rows and columns, in multiples of lr
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),  # about as large as AdamW's
}


class Muon(MultiTensorOptimizer):
    """Steps along the mean gradient with all its singular values made about 1. Only for matrices, those of hidden layers.

        m = momentum m + (1 - momentum) g                           from m = 0
        x = (1 - momentum) g + momentum m  with nesterov, else m
        x = x / max(|x|, eps)                                       |x| is the root of the sum of all squares
        x = a x + b (x x^T) x + c (x x^T)² x                        ns_steps times: the Newton-Schulz iteration
        p = (1 - lr weight_decay) p - lr scale x

    With x = U S V^T, each step of the iteration maps the singular values S by a s + b s³ + c s⁵, and leaves U and V alone.
    `ns_coefficients` are a, b, c, or such a triple for each step. The scale of a matrix of A rows and B columns is
    sqrt(max(1, A / B)) for adjust_lr_fn "original", the default, and 0.2 sqrt(max(A, B)) for "match_rms_adamw", with which
    AdamW's lr and weight decay work (arXiv:2502.16982). PyTorch iterates in bfloat16, this in the parameter's dtype;
    under `minigrad.autocast`, `step` rounds the factors of its products to bfloat16 if that is float32.

    `blocks` cuts each matrix of a group by rows into this many equal blocks, or by rows and columns with a pair, which are
    orthogonalised and scaled separately: 3 separates queries, keys and values in a packed projection, 3 * heads also the
    heads, and (1, heads) the heads in an output projection.

    Clipping by `max_grad_norm` changes how much a gradient counts in the mean, not the size of a step.

    State of a parameter: "momentum_buffer" m. `update` is the formula for one parameter, to be read; `step` works on all
    matrices at once. To train other parameters, too, see `Joined`.

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.zeros(2, 2))
    >>> (p * mg.tensor([[3.0, 0.0], [0.0, -0.1]])).sum().backward()
    >>> Muon([p], lr=0.1).step()
    >>> p.data.round(decimals=3)
    tensor([[-0.07 ,  0.   ],
            [ 0.   ,  0.113]])
    """

    def update(self, p: np.ndarray, g: np.ndarray, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum = group["lr"], group["momentum"]
        m = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0) + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * m if group["nesterov"] else m
        p *= 1 - lr * group["weight_decay"]
        for part, direction in zip(cut(p, blocks_of(group)), cut(x, blocks_of(group))):
            part -= lr * scale_of(group, part.shape) * orthogonalised(direction, polynomials_of(group), group["eps"])

    def __init__(self, params: Parameters, lr: float = 1e-3, weight_decay: float = 0.1,
                 momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] | Sequence[tuple[float, float, float]] = COEFFICIENTS,
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 blocks: int | tuple[int, int] = 1, max_grad_norm: float | None = None):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn, blocks=blocks), max_grad_norm)

    def check_group(self, group: dict[str, Any]) -> None:
        polynomials_of(group)
        for parameter in group["params"]:
            if parameter.ndim != 2:
                raise ValueError("Muon only supports 2D parameters whereas we found a parameter with size: "
                                 f"{tuple(parameter.shape)}; give such parameters to AdamW")
            if np.mod(parameter.shape, blocks_of(group)).any():
                raise ValueError(f"Muon: blocks must divide the rows and columns of a matrix, got blocks={group['blocks']} "
                                 f"and a matrix of {tuple(parameter.shape)}")

    def state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def make_step(self, dtype: np.dtype, names: list[tuple[str, ...]]) -> MultiTensorMuon:
        return MultiTensorMuon(dtype, self.param_groups, self.state, names, blocks_of, polynomials_of, scale_of)


def orthogonalised(x: np.ndarray, polynomials: Iterable[tuple[float, float, float]], eps: float) -> np.ndarray:
    """x scaled to norm 1, and then a x + b (x x^T) x + c (x x^T)² x for each (a, b, c).

    >>> orthogonalised(np.diag([3.0, 4.0]), [COEFFICIENTS] * 5, 1e-7).round(2)
    array([[0.72, 0.  ],
           [0.  , 1.12]])
    """
    x = x / max(norm([x]), eps)
    for a, b, c in polynomials:
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x


def cut(x: np.ndarray, blocks: tuple[int, int]) -> list[np.ndarray]:
    """x in equal blocks, row by row: blocks is how many there are down and across."""
    down, across = blocks
    return [block for rows in np.split(x, down) for block in np.split(rows, across, axis=1)]


def blocks_of(group: dict[str, Any]) -> tuple[int, int]:
    """How many blocks the group's matrices have, down and across."""
    blocks = group["blocks"]
    return tuple(blocks) if np.ndim(blocks) else (blocks, 1)


def scale_of(group: dict[str, Any], shape: tuple[int, int]) -> float:
    """The step of a block in multiples of the group's lr."""
    return SCALES[group["adjust_lr_fn"] or "original"](*shape)


def polynomials_of(group: dict[str, Any]) -> list[tuple[float, float, float]]:
    """(a, b, c) for each step of the group's iteration."""
    coefficients, steps = group["ns_coefficients"], group["ns_steps"]
    if np.ndim(coefficients) == 1:
        return [coefficients] * steps
    if len(coefficients) != steps:
        raise ValueError(f"Muon: expected (a, b, c) in ns_coefficients, or {steps} of them, for ns_steps={steps}, got "
                         f"{len(coefficients)}")
    return list(coefficients)
