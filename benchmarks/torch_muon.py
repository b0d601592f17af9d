"""Muon as in nn.optim, in PyTorch; needs the extra `bench`."""
import collections
import math

import torch

COEFFICIENTS = 3.4445, -4.7750, 2.0315


class Muon(torch.optim.Optimizer):
    """The steps of nn.optim.Muon without weight decay, with all matrices of one shape orthogonalised at once.

    A group's matrices are cut into blocks of `rows` rows, if given, which torch.optim.Muon cannot do. The iteration runs in
    `dtype`; PyTorch's own always in bfloat16.
    """

    def __init__(self, groups: list[dict], lr: float, momentum: float, dtype: torch.dtype):
        super().__init__(groups, dict(lr=lr, momentum=momentum, rows=None))
        self.dtype = dtype

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            of_shape = collections.defaultdict(list)
            for parameter in group["params"]:
                of_shape[parameter.shape].append(parameter)
            for (rows, columns), parameters in of_shape.items():
                block_rows = group["rows"] or rows
                gradient = torch.cat([p.grad.view(-1, block_rows, columns) for p in parameters])
                state = self.state[parameters[0]]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(gradient)
                mean = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
                steps = orthogonalised(gradient.lerp_(mean, group["momentum"]), self.dtype)
                rate = group["lr"] * math.sqrt(max(1, block_rows / columns))
                for p, step in zip(parameters, steps.reshape(-1, rows, columns)):
                    p.sub_(step, alpha=rate)


def orthogonalised(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x (N, rows, columns) with the singular values of each matrix made about 1, by 5 steps of Newton-Schulz."""
    is_tall, (a, b, c) = x.shape[1] > x.shape[2], COEFFICIENTS
    x = (x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)).to(dtype)
    x = x.mT if is_tall else x
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).float()
