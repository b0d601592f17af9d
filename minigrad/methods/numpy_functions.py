"""NumPy's functions on Tensors: np.exp(tensor), array * tensor, np.where(mask, tensor, 0).

Formulas in NumPy's notation, as `ops` writes them, therefore run on Tensors too, and are recorded.
"""
import functools

import numpy as np

from . import elementwise
from .einsum import einsum
from .elementwise import ElementwiseMethods as Elementwise
from .indexing import take_along_dim
from .matmul import MatmulMethods, matmul, tensordot
from .operands import data_of, is_tensor
from .reduce import ReduceMethods as Reduce
from .shape import ShapeMethods as Shape
from .shape import cat, stack

BINARY = {
    np.add: elementwise.ops.Add,
    np.subtract: elementwise.ops.Sub,
    np.multiply: elementwise.ops.Mul,
    np.power: elementwise.ops.Pow,
    np.maximum: elementwise.ops.Maximum,
    np.minimum: elementwise.ops.Minimum,
}
COMPARISONS = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.bitwise_and, np.bitwise_or,
    np.bitwise_xor, np.logical_and, np.logical_or, np.logical_xor,
)  # fmt: skip
UFUNCS = {
    np.divide: elementwise.divide,
    np.floor_divide: lambda a, b: elementwise.whole_quotient(elementwise.ops.FloorDivide, a, b),
    np.remainder: lambda a, b: elementwise.whole_quotient(elementwise.ops.Remainder, a, b),
    np.fmod: lambda a, b: elementwise.whole_quotient(elementwise.ops.Fmod, a, b),
    np.matmul: matmul,
    np.negative: Elementwise.neg,
    np.absolute: Elementwise.abs,
    np.invert: Elementwise.__invert__,
    np.logical_not: Elementwise.logical_not,
    np.isnan: Elementwise.isnan,
    np.isinf: Elementwise.isinf,
    np.isfinite: Elementwise.isfinite,
    np.exp: Elementwise.exp,
    np.expm1: Elementwise.expm1,
    np.log: Elementwise.log,
    np.log1p: Elementwise.log1p,
    np.sqrt: Elementwise.sqrt,
    np.square: Elementwise.square,
    np.reciprocal: Elementwise.reciprocal,
    np.sin: Elementwise.sin,
    np.cos: Elementwise.cos,
    np.tanh: Elementwise.tanh,
    np.sign: Elementwise.sign,
    np.floor: Elementwise.floor,
    np.ceil: Elementwise.ceil,
    np.rint: Elementwise.round,
    np.trunc: Elementwise.trunc,
    np.arctan2: Elementwise.atan2,
    np.logaddexp: Elementwise.logaddexp,
}
UFUNCS |= {function: functools.partial(elementwise.elementary, function) for function in elementwise.ops.DERIVATIVES}
UFUNCS |= {ufunc: lambda a, b, op=op: elementwise.binary(op, a, b) for ufunc, op in BINARY.items()}
UFUNCS |= {ufunc: lambda a, b, ufunc=ufunc: elementwise.compare(ufunc, a, b) for ufunc in COMPARISONS}
FUNCTIONS = {
    np.sum: Reduce.sum,
    np.mean: Reduce.mean,
    np.prod: Reduce.prod,
    np.max: Reduce.amax,
    np.min: Reduce.amin,
    np.argmax: Reduce.argmax,
    np.argmin: Reduce.argmin,
    np.any: Reduce.any,
    np.all: Reduce.all,
    np.cumsum: Reduce.cumsum,
    np.cumprod: Reduce.cumprod,
    np.clip: Elementwise.clamp,
    np.reshape: Shape.reshape,
    np.ravel: Shape.flatten,
    np.transpose: lambda x, axes=None: x.T if axes is None else x.permute(axes),
    np.swapaxes: Shape.transpose,
    np.moveaxis: Shape.movedim,
    np.expand_dims: lambda x, axis: x.unsqueeze(axis),
    np.squeeze: lambda x, axis=None: x.squeeze(axis),
    np.flip: lambda x, axis=None: x.flip(range(x.ndim) if axis is None else axis),
    np.roll: lambda x, shift, axis=None: x.roll(shift, axis),
    np.broadcast_to: Shape.expand,
    np.tril: lambda x, k=0: x.tril(k),
    np.triu: lambda x, k=0: x.triu(k),
    np.where: elementwise.where,
    np.take_along_axis: lambda x, indices, axis=-1: take_along_dim(x, indices, axis),
    np.concatenate: lambda tensors, axis=0: cat(tensors, axis),
    np.stack: lambda tensors, axis=0: stack(tensors, axis),
    np.einsum: einsum,
    np.tensordot: lambda a, b, axes=2: tensordot(a, b, axes),
    np.kron: MatmulMethods.kron,
    np.trace: lambda x: x.trace(),
    np.nan_to_num: lambda x, nan=0.0, posinf=None, neginf=None: x.nan_to_num(nan, posinf, neginf),
    np.zeros_like: lambda x: x.constant(np.zeros, x.shape, x.dtype),
    np.ones_like: lambda x: x.constant(np.ones, x.shape, x.dtype),
}


class NumpyFunctions:
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if "out" in options:  # array += tensor
            if any(is_tensor(value) and value.requires_grad for value in inputs):
                raise TypeError("an array cannot take in a tensor that requires a gradient; use its .detach()")
            return getattr(ufunc, method)(*map(data_of, inputs), **options)
        from_table = UFUNCS.get(ufunc)
        if method != "__call__" or options or from_table is None:
            raise TypeError(f"np.{ufunc.__name__} does not know tensors: use a method, or .detach().numpy()")
        return from_table(*inputs)

    def __array_function__(self, function, types, args, kwargs):
        from_table = FUNCTIONS.get(function)
        if from_table is None:
            raise TypeError(f"np.{function.__name__} does not know tensors: use a method, or .detach().numpy()")
        return from_table(*args, **kwargs)
