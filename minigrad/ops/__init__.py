"""The operations on Tensors, one file per family: for each op its formula and derivation, a class with forward and backward
side by side, and the method or function that users call.

`Methods` joins the methods of all families, as the base class of Tensor. They use its `array`, `apply_op` and `constant`;
in-place methods and conversions also use its place on the tape.
"""
import inspect

from ..arrays.annotations import Tensor
from ..arrays.conversions import ConversionMethods
from ..random import RandomMethods
from . import attention, dropout, embedding, layer_norm, losses
from .activations import ActivationMethods
from .arithmetic import ArithmeticMethods
from .comparison import ComparisonMethods
from .cumulative import CumulativeMethods
from .diagonal import DiagonalMethods
from .dtypes import DtypeMethods
from .elementary import ElementaryMethods
from .gather import GatherMethods
from .in_place import InPlaceMethods
from .indexing import IndexingMethods
from .matmul import MatmulMethods
from .numpy_protocol import NumpyProtocol
from .reduce import ReduceMethods
from .shape import ShapeMethods
from .softmax import SoftmaxMethods
from .sorting import SortingMethods
from .statistics import StatisticsMethods


class Methods(
    ArithmeticMethods[Tensor], ElementaryMethods[Tensor], ActivationMethods[Tensor], ComparisonMethods[Tensor],
    ReduceMethods[Tensor], StatisticsMethods[Tensor], CumulativeMethods[Tensor], SoftmaxMethods[Tensor],
    MatmulMethods[Tensor], ShapeMethods[Tensor], DiagonalMethods[Tensor], IndexingMethods[Tensor], GatherMethods[Tensor],
    SortingMethods[Tensor], RandomMethods[Tensor], InPlaceMethods[Tensor], DtypeMethods[Tensor],
    ConversionMethods[Tensor], NumpyProtocol,
):
    pass


for family in Methods.__bases__:  # so that Python's own errors say Tensor.softmax()
    for method in filter(inspect.isfunction, vars(family).values()):
        function = inspect.unwrap(method)
        function.__qualname__ = function.__qualname__.replace(f"{family.__name__}.", "Tensor.")
