"""NumPy's functions on Tensors: np.exp(tensor), array * tensor, np.where(mask, tensor, 0).

Formulas in NumPy's notation, as `ops` writes them, therefore run on Tensors too, and are recorded.
"""
import numpy as np

from . import elementwise
from .elementwise import ElementwiseMethods as Elementwise
from .matmul import matmul
from .reduce import ReduceMethods as Reduce
from .shape import ShapeMethods as Shape
from .shape import cat, stack

COMPARISONS = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.bitwise_and, np.bitwise_or,
    np.bitwise_xor,
)  # fmt: skip
UFUNCS = {
    np.add: lambda a, b: elementwise.binary(elementwise.ops.Add, a, b),
    np.subtract: lambda a, b: elementwise.binary(elementwise.ops.Sub, a, b),
    np.multiply: lambda a, b: elementwise.binary(elementwise.ops.Mul, a, b),
    np.divide: elementwise.divide,
    np.power: lambda a, b: elementwise.binary(elementwise.ops.Pow, a, b),
    np.maximum: lambda a, b: elementwise.binary(elementwise.ops.Maximum, a, b),
    np.minimum: lambda a, b: elementwise.binary(elementwise.ops.Minimum, a, b),
    np.matmul: matmul,
    np.negative: Elementwise.neg,
    np.absolute: Elementwise.abs,
    np.exp: Elementwise.exp,
    np.log: Elementwise.log,
    np.sqrt: Elementwise.sqrt,
    np.tanh: Elementwise.tanh,
    np.sign: lambda x: x.constant(np.sign(x.data)),
} | {ufunc: lambda a, b, ufunc=ufunc: elementwise.compare(ufunc, a, b) for ufunc in COMPARISONS}
FUNCTIONS = {
    np.sum: Reduce.sum,
    np.mean: Reduce.mean,
    np.max: Reduce.amax,
    np.min: Reduce.amin,
    np.reshape: Shape.reshape,
    np.transpose: lambda x, axes=None: x.T if axes is None else x.permute(axes),
    np.swapaxes: Shape.transpose,
    np.broadcast_to: Shape.expand,
    np.where: elementwise.where,
    np.concatenate: lambda tensors, axis=0: cat(tensors, axis),
    np.stack: lambda tensors, axis=0: stack(tensors, axis),
}


class NumpyFunctions:
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        from_table = UFUNCS.get(ufunc)
        if method != "__call__" or options or from_table is None:
            raise TypeError(f"np.{ufunc.__name__} does not know tensors: use a method, or .detach().numpy()")
        return from_table(*inputs)

    def __array_function__(self, function, types, args, kwargs):
        from_table = FUNCTIONS.get(function)
        if from_table is None:
            raise TypeError(f"np.{function.__name__} does not know tensors: use a method, or .detach().numpy()")
        return from_table(*args, **kwargs)
