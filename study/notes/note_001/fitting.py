"""What the claims on training of this note share."""
from collections.abc import Callable, Iterable

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor


def fit(loss_of: Callable[..., Tensor], parameters: Iterable[Tensor], draw: Callable[[], tuple[np.ndarray, ...]],
        steps: int, lr: float) -> float:
    """Minimise loss_of(*draw()) with Adam, at a rate that falls to 0 in the second half; the mean of the last
    losses."""
    optimizer, losses = nn.optim.Adam(list(parameters), lr=lr), []

    @mg.compile
    def loss_and_gradients(*batch):
        loss = loss_of(*batch)
        loss.backward()
        return loss

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, 2 * (1 - step / steps))
        optimizer.zero_grad()
        losses.append(loss_and_gradients(*map(mg.tensor, draw())).item())
        optimizer.step()
    return float(np.mean(losses[-20:]))
