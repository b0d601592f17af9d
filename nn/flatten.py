"""Flatten: axes merged, as a module for a Sequential."""
from minigrad import Tensor
from nn.function_module import FunctionModule


def _flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    return x.flatten(start_dim, end_dim)


class Flatten(FunctionModule, function=_flatten):
    """Merge the axes from start_dim to end_dim; by default all but the first, the batch.

    >>> import minigrad as mg
    >>> Flatten()(mg.zeros(2, 3, 4)).shape, Flatten(0, 1)(mg.zeros(2, 3, 4)).shape
    ((2, 12), (6, 4))
    """

    start_dim: int = 1
    end_dim: int = -1
