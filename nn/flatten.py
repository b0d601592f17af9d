"""Flatten and Unflatten: axes merged and split, as modules for a Sequential."""
from minigrad import Tensor
from nn.function_module import FunctionModule


def _flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    return x.flatten(start_dim, end_dim)


def _unflatten(x: Tensor, dim: int, unflattened_size: tuple[int, ...]) -> Tensor:
    return x.unflatten(dim, tuple(unflattened_size))


class Flatten(FunctionModule, function=_flatten):
    """Merge the axes from start_dim to end_dim; by default all but the first, the batch.

    >>> import minigrad as mg
    >>> Flatten()(mg.zeros(2, 3, 4)).shape, Flatten(0, 1)(mg.zeros(2, 3, 4)).shape
    ((2, 12), (6, 4))
    """

    start_dim: int = 1
    end_dim: int = -1


class Unflatten(FunctionModule, function=_unflatten):
    """Split axis `dim` into axes of `unflattened_size`, of which one may be -1: it is inferred.

    >>> import minigrad as mg
    >>> Unflatten(1, (3, -1))(mg.zeros(2, 12)).shape
    (2, 3, 4)
    """

    dim: int
    unflattened_size: tuple[int, ...]
