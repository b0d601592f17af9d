"""The operations on Tensors, one file per family: for each op its formula and derivation, a class with forward and backward
side by side, and the method or function that users call.

`Methods` joins the methods of all families, as the base class of Tensor. They use its `array`, `apply_op` and `constant`;
in-place methods also use its place on the tape.
"""
from ..arrays.annotations import Tensor
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
from .operands import known_as_tensors
from .reduce import ReduceMethods
from .shape import ShapeMethods
from .softmax import SoftmaxMethods
from .sorting import SortingMethods
from .statistics import StatisticsMethods


@known_as_tensors
class Methods(
    ArithmeticMethods[Tensor], ElementaryMethods[Tensor], ActivationMethods[Tensor], ComparisonMethods[Tensor],
    ReduceMethods[Tensor], StatisticsMethods[Tensor], CumulativeMethods[Tensor], SoftmaxMethods[Tensor],
    MatmulMethods[Tensor], ShapeMethods[Tensor], DiagonalMethods[Tensor], IndexingMethods[Tensor], GatherMethods[Tensor],
    SortingMethods[Tensor], RandomMethods[Tensor], InPlaceMethods[Tensor], DtypeMethods[Tensor], NumpyProtocol,
):
    pass
