"""What a textbook puts into an appendix: methods of Tensor that are neither an op nor the tape."""
from ..arrays.annotations import Tensor
from ..ops.operands import known_as_tensors
from .conversions import ConversionMethods
from .hooks import HookMethods
from .new import NewMethods


@known_as_tensors
class Appendix(ConversionMethods[Tensor], HookMethods[Tensor], NewMethods[Tensor]):
    pass
