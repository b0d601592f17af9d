"""What one can do with a Tensor, one file per family, as in `ops`: methods that check their arguments and name an op.

These classes are the bases of `Tensor`. They know `data`, `to` and `apply_op` of whatever inherits from them, no more.
"""
from .einsum import einsum
from .elementwise import ElementwiseMethods, where
from .indexing import IndexingMethods, ValuesAndIndices, take_along_dim
from .matmul import MatmulMethods, matmul, tensordot
from .numpy_functions import NumpyFunctions
from .reduce import ReduceMethods, std_mean, var_mean
from .shape import ShapeMethods, cat, meshgrid, pad, stack
