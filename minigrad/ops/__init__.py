"""Differentiable operations, one file per family: the formula, then a class with forward and backward side by side."""
from .attention import PackedAttention, ScaledDotProductAttention, spelled_out_attention
from .binary_cross_entropy import BinaryCrossEntropy
from .cross_entropy import CrossEntropy
from .dropout import Dropout
from .elementwise import (
    Abs, Add, Cast, Clamp, Cos, Div, Erf, Exp, Expm1, FloorDivide, Fmod, Gelu, Log, Log1p, Maximum, Minimum, Mul, Neg,
    Pow, Relu, Remainder, Rsqrt, Sigmoid, Sin, Softplus, Sqrt, Step, Sub, Tanh, Where,
)
from .einsum import Einsum
from .embedding import Embedding
from .indexing import AddAt, Index
from .layer_norm import LayerNorm
from .matmul import MLP, Linear, MatMul
from .reduce import CumSum, LogSumExp, Max, Mean, Min, Norm, Prod, Std, Sum, Var
from .shape import Clone, Concatenate, Expand, Permute, Reshape
from .softmax import LogSoftmax, Softmax
