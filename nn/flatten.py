"""Flatten and Unflatten: axes merged and split, as modules for a Sequential."""
from minigrad import Tensor
from nn.function_module import FunctionModule
from nn.module import Module


class Flatten(FunctionModule, function=Tensor.flatten):
    """Merge the axes from start_dim to end_dim; by default all but the first, the batch.

    >>> import minigrad as mg
    >>> import nn
    >>> nn.Flatten()(mg.zeros(2, 3, 4)).shape, nn.Flatten(0, 1)(mg.zeros(2, 3, 4)).shape
    ((2, 12), (6, 4))
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__(start_dim=start_dim, end_dim=end_dim)


class Unflatten(Module):
    """Split axis `dim` into axes of `unflattened_size`, one of which may be -1, and is inferred.

    >>> import minigrad as mg
    >>> import nn
    >>> nn.Unflatten(1, (3, -1))(mg.zeros(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
