"""Reductions. `dim` and `axis`, `keepdim` and `keepdims` mean the same: PyTorch's names and NumPy's."""
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from .operands import check_dim, floating
from .shape import take_along_dim


def reduce(operation, x, dim, keepdim: bool, axis, keepdims: bool):
    dim = axis if dim is None else dim
    if dim is not None:
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
        dim = tuple(check_dim(operation.__name__.lower(), x, d) for d in dims) if x.ndim else ()
    return x.apply_op(operation, x, axis=dim, keepdims=keepdim or keepdims)


class ValuesAndIndices(NamedTuple):
    """What max(dim) and min(dim) give."""

    values: Any
    indices: Any


def extreme(operation, elementwise, arg_function, x, dim, keepdim: bool):
    """The three forms of max and min."""
    if dim is None:
        return x.apply_op(operation, x, axis=None)
    if not isinstance(dim, (int, np.integer)):
        return elementwise(x, dim)
    dim = check_dim(operation.__name__.lower(), x, dim)
    indices = x.constant(arg_function(x.data, axis=dim, keepdims=True))
    values = take_along_dim(x, indices, dim)
    return ValuesAndIndices(*(part if keepdim else part.squeeze(dim) for part in (values, indices)))


class ReduceMethods:
    def sum(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        return reduce(ops.Sum, self, dim, keepdim, axis, keepdims)

    def mean(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        return reduce(ops.Mean, floating(self), dim, keepdim, axis, keepdims)

    def amax(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        """The maximum; equal largest elements share the gradient."""
        return reduce(ops.Max, self, dim, keepdim, axis, keepdims)

    def amin(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        """The minimum; equal smallest elements share the gradient."""
        return reduce(ops.Min, self, dim, keepdim, axis, keepdims)

    def max(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        """max(): the maximum. max(dim): (values, indices), the first of equal ones. max(other): elementwise."""
        dim = axis if dim is None else dim
        return extreme(ops.Max, type(self).maximum, np.argmax, self, dim, keepdim or keepdims)

    def min(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        """min(): the minimum. min(dim): (values, indices), the first of equal ones. min(other): elementwise."""
        dim = axis if dim is None else dim
        return extreme(ops.Min, type(self).minimum, np.argmin, self, dim, keepdim or keepdims)

    def argmax(self, dim=None, keepdim=False):
        return self.constant(np.argmax(self.data, axis=dim, keepdims=keepdim))

    def argmin(self, dim=None, keepdim=False):
        return self.constant(np.argmin(self.data, axis=dim, keepdims=keepdim))

    def any(self, dim=None, keepdim=False):
        return self.constant(np.any(self.data, axis=dim, keepdims=keepdim))

    def all(self, dim=None, keepdim=False):
        return self.constant(np.all(self.data, axis=dim, keepdims=keepdim))

    def var(self, dim=None, correction=1, keepdim=False):
        """The variance, over n - correction."""
        centred = self - self.mean(dim, keepdim=True)
        total = (centred * centred).sum(dim, keepdim)
        return total / max(self.numel() // max(total.numel(), 1) - correction, 0)

    def std(self, dim=None, correction=1, keepdim=False):
        """The standard deviation, over n - correction."""
        return self.var(dim, correction, keepdim).sqrt()

    def softmax(self, dim: int):
        """e^x / sum of e^x along dim."""
        return self.apply_op(ops.Softmax, floating(self), dim=check_dim("softmax", self, dim))

    def log_softmax(self, dim: int):
        """x - log(sum of e^x along dim)."""
        return self.apply_op(ops.LogSoftmax, floating(self), dim=check_dim("log_softmax", self, dim))
