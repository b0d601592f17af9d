"""Differentiable operations, one file per family: the formula, then a class with forward and backward side by side."""
from .attention import PackedAttention, ScaledDotProductAttention, spelled_out_attention
from .cross_entropy import CrossEntropy
from .dropout import Dropout
from .elementwise import (
    Abs, Add, Cast, Div, Erf, Exp, Gelu, Log, Maximum, Minimum, Mul, Neg, Pow, Relu, Sigmoid, Sqrt, Sub, Tanh, Where,
)
from .embedding import Embedding
from .indexing import AddAt, Index
from .layer_norm import LayerNorm
from .matmul import Linear, MatMul
from .reduce import Max, Mean, Min, Sum
from .shape import Clone, Concatenate, Expand, Permute, Reshape
from .softmax import LogSoftmax, Softmax
