"""Ops of the library: their own lines in `minigrad.ops` are the one spelling, and the rules find the mistakes."""
import numpy as np

from minigrad.ops import (
    activations, arithmetic, comparison, cumulative, diagonal, elementary, layer_norm, losses, matmul, reduce, shape,
    statistics,
)

from ..base import normal, positive
from ..known import operation


def both_sides(r):
    """No number is near 0 or at a limit."""
    return [r.permuted(np.linspace(-1.05, 1.15, 12)).reshape(3, 4)]


def with_ties(r):
    a, b = r.normal(size=(2, 3, 4))
    return [a, np.where(r.random((3, 4)) < 0.3, a, b)]


ONE, TWO = normal((3, 4)), normal((3, 4), (3, 4))
operation("relu", activations.Relu, both_sides)
operation("leaky_relu", activations.LeakyRelu, both_sides)
operation("silu", activations.Silu, ONE)
operation("softplus", activations.Softplus, ONE)
operation("logsigmoid", activations.Logsigmoid, ONE)
operation("swiglu", activations.SwiGLU, TWO)
operation("abs", arithmetic.Abs, both_sides)
operation("add", arithmetic.Add, normal((4, 4), (4,)))
operation("sub", arithmetic.Sub, normal((3, 1), (3, 4)))
operation("mul", arithmetic.Mul, normal((4, 4), (1, 4)))
operation("div", arithmetic.Div, positive((3, 4), (3, 4)))
operation("pow", arithmetic.Pow, positive((3, 4), (3, 4)))
operation("maximum", comparison.Maximum, with_ties)
operation("clamp", comparison.Clamp, both_sides, low=-0.5, high=0.8)
for name, op in {"sigmoid": elementary.Sigmoid, "exp": elementary.Exp, "sin": elementary.Sin, "cos": elementary.Cos,
                 "erf": elementary.Erf}.items():
    operation(name, op, ONE)
for name, op in {"log": elementary.Log, "log1p": elementary.Log1p, "sqrt": elementary.Sqrt,
                 "rsqrt": elementary.Rsqrt}.items():
    operation(name, op, positive((3, 4)))
operation("cumsum", cumulative.CumSum, normal((4, 4)), axis=-1)
operation("tril", diagonal.Triangle, normal((4, 4)), diagonal=0, upper=False)
operation("rms_norm", layer_norm.RMSNorm, normal((4, 4)))
operation("normalize", layer_norm.Normalize, normal((4, 4)))
operation("squared_error", losses.SquaredError, normal((4, 3), (4, 3)), reduction="mean")
operation("absolute_error", losses.AbsoluteError, normal((4, 3), (4, 3)), reduction="mean")
operation("bce_with_logits", losses.BinaryCrossEntropyWithLogits, lambda r: [r.normal(size=(3, 4)), *r.random((2, 3, 4))])
operation("batched_matmul", matmul.MatMul, normal((3, 3), (3, 3, 3)))
operation("mlp", matmul.MLP, normal((3, 4), (5, 4), (5,), (4, 5), (4,)))
for name, op, options in (("sum", reduce.Sum, {}), ("mean", reduce.Mean, {}), ("max", reduce.Max, {}),
                          ("min", reduce.Min, {}), ("logsumexp", reduce.LogSumExp, {}), ("norm", reduce.Norm, {}),
                          ("var", statistics.Var, {"correction": 1}), ("std", statistics.Std, {"correction": 1})):
    operation(name, op, normal((4, 4)), axis=-1, **options)
operation("permute", shape.Permute, normal((2, 3, 4)), axes=(1, 2, 0))
operation("transpose", shape.Permute, normal((4, 4)), axes=(1, 0))
operation("reshape", shape.Reshape, normal((3, 4)), shape=(4, 3))
operation("flip", shape.Flip, normal((3, 4)), axes=(1,))
operation("cat", shape.Concatenate, normal((3, 2), (3, 2)), axis=1)
