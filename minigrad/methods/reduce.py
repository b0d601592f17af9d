"""Reductions. `dim` and `axis`, `keepdim` and `keepdims` mean the same: PyTorch's names and NumPy's."""
import functools
import math
from typing import Callable

import numpy as np

from .. import ops
from .indexing import ValuesAndIndices
from .operands import check_dim, floating

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def with_numpy_names(method: Callable) -> Callable:
    """Let a method with `dim` and `keepdim` take `axis` and `keepdims` as well."""

    @functools.wraps(method)
    def renamed(self, *args, **options):
        return method(self, *args, **{NUMPY_NAMES.get(name, name): value for name, value in options.items()})

    return renamed


def checked_axes(name: str, x, dim) -> tuple[int, ...] | None:
    """dim as a tuple of axes, counted from the front; None, for all, if it is None or empty."""
    if dim is None or isinstance(dim, (tuple, list)) and not dim:
        return None
    axes = tuple(check_dim(name, x, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: a dim appears multiple times in {dim}")
    return axes if x.ndim else None


def reduce(operation, x, dim, keepdim: bool, **options):
    axis = None if dim is None else checked_axes(operation.__name__.lower(), x, dim)
    return x.apply_op(operation, x, axis=axis, keepdims=keepdim, **options)


def reduce_constant(function: Callable, x, dim, keepdim: bool):
    """A reduction without gradient."""
    axes = checked_axes(function.__name__, x, dim)
    return x.constant(functools.partial(function, axis=axes, keepdims=keepdim), x)


def position(function: Callable, x, dim: int | None, keepdim: bool):
    """argmax and argmin: the first of equal ones."""
    dim = None if dim is None or x.ndim == 0 else check_dim(function.__name__, x, dim)
    return x.constant(functools.partial(function, axis=dim, keepdims=keepdim), x)


def extreme(operation, elementwise, arg_function, x, dim, keepdim: bool):
    """The three forms of max and min."""
    if dim is None:
        return x.apply_op(operation, x, axis=None)
    if not isinstance(dim, (int, np.integer)):
        return elementwise(x, dim)
    dim = check_dim(operation.__name__.lower(), x, dim)
    return values_and_indices(x, position(arg_function, x, dim, True), dim, keepdim)


def values_and_indices(x, indices, dim: int, keepdim: bool):
    """The elements at these indices, one along dim, with the indices."""
    values = x.gather(dim, indices)
    return ValuesAndIndices(*(part if keepdim or not x.ndim else part.squeeze(dim) for part in (values, indices)))


def variance(operation, x, dim, unbiased: bool, keepdim: bool, correction: float | None):
    """The forms of var and std: a boolean in place of dim is `unbiased`, as in PyTorch."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    correction = int(unbiased) if correction is None else float(correction)
    return reduce(operation, floating(x), dim, keepdim, correction=correction)


@with_numpy_names
def var_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None) -> tuple:
    """(x.var(...), x.mean(...))"""
    return x.var(dim, unbiased, keepdim, correction=correction), _mean_beside(x, dim, keepdim)


@with_numpy_names
def std_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None) -> tuple:
    """(x.std(...), x.mean(...))"""
    return x.std(dim, unbiased, keepdim, correction=correction), _mean_beside(x, dim, keepdim)


def _mean_beside(x, dim, keepdim: bool):
    """The mean for the arguments of var, where a boolean in place of dim is `unbiased`."""
    return x.mean(None if isinstance(dim, bool) else dim, keepdim)


def along_last(operation, x, dim: int):
    """An operation that runs along the last axis, along dim."""
    x = x.movedim(dim, -1)
    return x.apply_op(operation, x).movedim(-1, dim)


def middle(x: np.ndarray, dim: int) -> np.ndarray:
    """The index along dim of the middle element in order of size, of two the smaller; of the first NaN, if there is one."""
    row = np.atleast_1d(x)
    order = np.argsort(row, axis=dim, kind="stable")
    places = np.take(order, [(row.shape[dim] - 1) // 2], axis=dim)
    is_nan = np.isnan(row)
    places = np.where(is_nan.any(dim, keepdims=True), is_nan.argmax(dim, keepdims=True), places)
    return places if x.ndim else places.reshape(())


class ReduceMethods:
    @with_numpy_names
    def sum(self, dim=None, keepdim=False):
        return reduce(ops.Sum, self, dim, keepdim)

    @with_numpy_names
    def mean(self, dim=None, keepdim=False):
        """The sum divided by the number of elements; of integers and booleans in float32, as NumPy gives fractions too.

        >>> from minigrad import tensor
        >>> tensor([1, 2]).mean()
        tensor(1.5)
        """
        return reduce(ops.Mean, floating(self), dim, keepdim)

    @with_numpy_names
    def prod(self, dim=None, keepdim=False):
        """The product. Its gradient is right also where elements are zero."""
        axes = checked_axes("prod", self, dim)
        if self.dtype.kind != "f":
            return self.constant(functools.partial(np.prod, axis=axes, keepdims=keepdim), self)
        axes = range(self.ndim) if axes is None else axes
        others = [d for d in range(self.ndim) if d not in axes]
        kept, count = [self.shape[d] for d in others], math.prod(self.shape[d] for d in axes)
        out = self.apply_op(ops.Prod, self.permute(*others, *axes).reshape(kept + [count]))
        return out.reshape([1 if d in axes else n for d, n in enumerate(self.shape)]) if keepdim else out

    @with_numpy_names
    def amax(self, dim=None, keepdim=False):
        """The maximum; equal largest elements share the gradient."""
        return reduce(ops.Max, self, dim, keepdim)

    @with_numpy_names
    def amin(self, dim=None, keepdim=False):
        """The minimum; equal smallest elements share the gradient."""
        return reduce(ops.Min, self, dim, keepdim)

    @with_numpy_names
    def max(self, dim=None, keepdim=False):
        """max(): the maximum. max(dim): (values, indices), the first of equal ones. max(other): elementwise."""
        return extreme(ops.Max, type(self).maximum, np.argmax, self, dim, keepdim)

    @with_numpy_names
    def min(self, dim=None, keepdim=False):
        """min(): the minimum. min(dim): (values, indices), the first of equal ones. min(other): elementwise."""
        return extreme(ops.Min, type(self).minimum, np.argmin, self, dim, keepdim)

    @with_numpy_names
    def argmax(self, dim=None, keepdim=False):
        return position(np.argmax, self, dim, keepdim)

    @with_numpy_names
    def argmin(self, dim=None, keepdim=False):
        return position(np.argmin, self, dim, keepdim)

    @with_numpy_names
    def any(self, dim=None, keepdim=False):
        return reduce_constant(np.any, self, dim, keepdim)

    @with_numpy_names
    def all(self, dim=None, keepdim=False):
        return reduce_constant(np.all, self, dim, keepdim)

    @with_numpy_names
    def median(self, dim=None, keepdim=False):
        """median(): the middle element, of two the smaller. median(dim): (values, indices). NaN if there is one.

        The gradient goes to the elements equal to median(), evenly; to the one that median(dim) names.
        """
        if dim is None:
            if not self.numel() and self.dtype.kind != "f":
                raise ValueError(f"median: there is none of no integers, got shape {self.shape}")
            return self.apply_op(ops.Median, self)
        dim = check_dim("median", self, dim)
        if self.ndim and not self.shape[dim]:
            raise IndexError(f"median: dim {dim} of shape {self.shape} has no elements")
        indices = self.constant(functools.partial(middle, dim=dim), self)
        return values_and_indices(self, indices, dim, keepdim)

    def count_nonzero(self, dim=None):
        return reduce_constant(np.count_nonzero, self, dim, False)

    @with_numpy_names
    def var(self, dim=None, unbiased=True, keepdim=False, *, correction=None):
        """The mean of (x - mean)^2, with n - correction in place of n: correction is 1, or 0 if not unbiased.

        var(False) is the biased one over all elements.
        """
        return variance(ops.Var, self, dim, unbiased, keepdim, correction)

    @with_numpy_names
    def std(self, dim=None, unbiased=True, keepdim=False, *, correction=None):
        """The square root of var; its gradient is 0 where all elements are equal."""
        return variance(ops.Std, self, dim, unbiased, keepdim, correction)

    @with_numpy_names
    def logsumexp(self, dim, keepdim=False):
        """log(sum of e^x), without overflow."""
        return reduce(ops.LogSumExp, floating(self), dim, keepdim)

    @with_numpy_names
    def norm(self, p="fro", dim=None, keepdim=False):
        """(sum of |x|^p)^(1/p): p = 2 by default; inf and -inf are the extremes of |x|, 0 counts what is not 0.

        The gradient is 0 where the norm is 0; equal largest elements share it.
        """
        if isinstance(p, str) and p != "fro":
            raise ValueError(f"norm: p is a number or 'fro', got {p!r}")
        self, p = floating(self), 2.0 if p == "fro" else float(p)
        if p == math.inf or p == -math.inf:
            return self.abs().amax(dim, keepdim) if p > 0 else self.abs().amin(dim, keepdim)
        if p == 0:
            return self.sign().abs().sum(dim, keepdim)
        if p == 1:
            return self.abs().sum(dim, keepdim)
        return reduce(ops.Norm, self, dim, keepdim, p=p)

    @with_numpy_names
    def cumsum(self, dim: int):
        """The running sums along dim."""
        dim = check_dim("cumsum", self, dim)
        return self.apply_op(ops.CumSum, self, axis=dim) if self.ndim else self.sum()

    @with_numpy_names
    def cumprod(self, dim: int):
        """The running products along dim. Their gradient is right also where elements are zero."""
        dim = check_dim("cumprod", self, dim)
        if self.dtype.kind != "f":
            return self.constant(functools.partial(np.cumprod, axis=dim), self).reshape(self.shape)
        return along_last(ops.CumProd, self, dim) if self.ndim else self.clone()

    @with_numpy_names
    def logcumsumexp(self, dim: int):
        """log(e^x_0 + ... + e^x_i), the running logsumexp along dim, without overflow."""
        dim, x = check_dim("logcumsumexp", self, dim), floating(self)
        return along_last(ops.LogCumSumExp, x, dim) if x.ndim else x.clone()

    @with_numpy_names
    def softmax(self, dim: int):
        """e^x / sum of e^x along dim. In float32, where e^(x - max) is below 2^-126 it is 0: denormals would be slow."""
        dim, x = check_dim("softmax", self, dim), floating(self)
        return self.apply_op(ops.Softmax, x, dim=dim) if x.ndim else x.reshape(1).softmax(0).reshape(())

    @with_numpy_names
    def log_softmax(self, dim: int):
        """x - log(sum of e^x along dim)."""
        dim, x = check_dim("log_softmax", self, dim), floating(self)
        return self.apply_op(ops.LogSoftmax, x, dim=dim) if x.ndim else x.reshape(1).log_softmax(0).reshape(())
