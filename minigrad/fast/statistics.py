"""Variances of many elements, without a copy of them in float64."""
import numpy as np

from ..backend import elementwise, wide_sum
from ..ops import statistics
from ..ops.reduce import count
from ..ops.statistics import squared_error
from ..tape import implements
from .kernels.reduce import SMALL
from .kernels.rows import LEAST_SQUARES


@implements(statistics.Var)
class Var(statistics.Var):
    @classmethod
    def takes(cls, arrays):
        return arrays[0].size > SMALL

    def squares(self, x, mean, axis):
        """The sum of (x - high)^2, high the mean as x has it, is too large by n (mean - high)^2."""
        high = mean.astype(x.dtype)
        squares = wide_sum(elementwise(squared_error, x, high), axis, True)
        squares = np.maximum(squares - count(x.shape, axis) * np.square(mean - high), 0.0)
        is_right = np.all((squares > LEAST_SQUARES) & (squares < np.inf))
        return squares if is_right else super().squares(x, mean, axis)


@implements(statistics.Std)
class Std(Var, statistics.Std):
    pass
