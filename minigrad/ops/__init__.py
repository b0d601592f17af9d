"""Differentiable operations, one file per family: the formula, then a class with forward and backward side by side."""
from .attention import PackedAttention, ScaledDotProductAttention, spelled_out_attention
from .binary_cross_entropy import BinaryCrossEntropy
from .cross_entropy import CrossEntropy
from .dropout import Dropout
from .elementwise import (
    DERIVATIVES, Abs, Add, Atan2, Cast, Clamp, Cos, Div, Elementary, Erf, Exp, Expm1, FloorDivide, Fmod, Gelu, Log, Log1p,
    LogAddExp, Maximum, Minimum, Mul, Neg, Pow, Relu, Remainder, Rsqrt, Sigmoid, Sin, Softplus, Sqrt, Step, Sub, Tanh,
    Where, erfc,
)
from .einsum import Einsum
from .embedding import Embedding
from .indexing import AddAt, Diagonal, Index
from .layer_norm import LayerNorm
from .matmul import MLP, Linear, MatMul
from .reduce import (
    CumProd, CumSum, LogCumSumExp, LogSumExp, Max, Mean, Median, Min, Norm, Prod, Std, Sum, Var,
)
from .shape import Clone, Concatenate, Expand, Permute, Reshape
from .softmax import LogSoftmax, Softmax
