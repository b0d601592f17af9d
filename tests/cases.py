"""One row per operation and way of using it: the op, its inputs, its options, and a slow obvious reference.

`test_ops.py` runs every check on every row, and fails when an op has none.
"""
import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import numpy as np
import pytest

import naive
from minigrad.ops import (
    activations, arithmetic, attention, binary_cross_entropy, comparison, cross_entropy, cumulative, diagonal,
    difference_losses, dropout, einsum, elementary, embedding, gather, indexing, layer_norm, matmul, normalize, reduce,
    rms_norm, shape, softmax, statistics, windows,
)

random = np.random.default_rng(1)


def normal(*shape):
    return random.standard_normal(shape)


def positive(*shape):
    return random.uniform(0.3, 2.0, shape)


def distinct(*shape):
    """All elements 0.1 apart, and at least 0.05 from zero: no kink of max, relu or abs is near."""
    n = int(np.prod(shape))
    return np.asarray((random.permutation(n) - n / 2 + 0.5).reshape(shape) * 0.1)


@dataclass(eq=False)
class Case:
    op: type
    inputs: list  # arrays get gradients; scalars and None are passed as they are
    reference: Callable
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 2e-6  # of float32, relative to the largest element

    def __str__(self):
        shapes = "x".join(str(np.shape(x)).replace(" ", "") for x in self.inputs)
        named = {k: getattr(v, "__name__", v) for k, v in self.options.items()}
        options = ",".join(f"{k}={v}" for k, v in named.items() if isinstance(v, (int, float, str)))
        return f"{self.op.__name__}-{shapes}-{options}"


def attending(shape, keys, mask=None, rotation=None, **options):
    """A row of attention: the shape of the queries, and how many keys and values there are."""
    q, k, v = (normal(*shape[:2], n, shape[3]) for n in (shape[2], keys, keys))
    return Case(attention.ScaledDotProductAttention, [q, k, v, mask, rotation], naive.attention, options)


keep = random.random((4, 5)) > 0.4
dropping = dict(key=np.array([-81985529216486896, 128 * 2**32 - 256]), p=0.4)  # positions at which counters carry
condition = random.random((3, 4)) > 0.5
mask = np.where(random.random((2, 1, 5, 7)) > 0.3, 0.0, -np.inf)
mask[0, 0, 2] = -np.inf  # a row in which everything is masked
rotation = normal(72, 6)  # of more tokens than there are, and by no angles: any numbers may stand there

CASES = [
    Case(arithmetic.Add, [normal(3, 4), normal(4)], lambda a, b: a + b),
    Case(arithmetic.Add, [normal(3, 4), 2.5], lambda a, b: a + b),
    Case(arithmetic.Sub, [normal(3, 1), normal(2, 1, 4)], lambda a, b: a - b),
    Case(arithmetic.Mul, [normal(3, 4), normal(3, 4)], lambda a, b: a * b),
    Case(arithmetic.Mul, [normal(), normal(2, 3)], lambda a, b: a * b),
    Case(arithmetic.Mul, [normal(0, 3), normal(3)], lambda a, b: a * b),
    Case(arithmetic.Div, [normal(3, 4), positive(4)], lambda a, b: a / b),
    Case(arithmetic.Div, [1.5, positive(4)], lambda a, b: a / b),
    Case(arithmetic.Neg, [normal(3, 4)], lambda x: -x),
    Case(arithmetic.Pow, [normal(3, 4), 3], lambda a, b: a**b),
    Case(arithmetic.Pow, [positive(3, 4), -1.5], lambda a, b: a**b),
    Case(arithmetic.Pow, [normal(3, 4), 0], lambda a, b: a**b),
    Case(arithmetic.Pow, [positive(3, 4), normal(4)], lambda a, b: a**b),
    Case(arithmetic.Pow, [2.0, normal(4)], lambda a, b: a**b),
    *[Case(op, [x], naive.elementwise(reference)) for op, reference, x in [
        (elementary.Exp, np.exp, normal(3, 4)),
        (elementary.Expm1, lambda x: np.exp(x) - 1, normal(3, 4)),
        (elementary.Log, np.log, positive(3, 4)),
        (elementary.Log1p, lambda x: np.log(1 + x), positive(3, 4)),
        (elementary.Sqrt, np.sqrt, positive(3, 4)),
        (elementary.Rsqrt, lambda x: x**-0.5, positive(3, 4)),
        (elementary.Sin, np.sin, normal(3, 4)),
        (elementary.Cos, np.cos, normal(3, 4)),
        (elementary.Tanh, np.tanh, normal(3, 4)),
        (elementary.Sigmoid, lambda x: 1 / (1 + np.exp(-x)), 5 * normal(3, 4)),
        (elementary.Erf, naive.erf, normal(3, 4)),
        (elementary.Exp2, lambda x: 2.0**x, normal(3, 4)),
        (elementary.Log2, lambda x: math.log(x) / math.log(2), positive(3, 4)),
        (elementary.Log10, lambda x: math.log(x) / math.log(10), positive(3, 4)),
        (elementary.Tan, lambda x: math.sin(x) / math.cos(x), random.uniform(-1.3, 1.3, (3, 4))),
        (elementary.Sinh, lambda x: (math.exp(x) - math.exp(-x)) / 2, normal(3, 4)),
        (elementary.Cosh, lambda x: (math.exp(x) + math.exp(-x)) / 2, normal(3, 4)),
        (elementary.Arcsin, lambda x: math.atan2(x, math.sqrt(1 - x * x)), random.uniform(-0.9, 0.9, (3, 4))),
        (elementary.Arccos, lambda x: math.atan2(math.sqrt(1 - x * x), x), random.uniform(-0.9, 0.9, (3, 4))),
        (elementary.Arctan, lambda x: math.atan2(x, 1), normal(3, 4)),
        (elementary.Arcsinh, lambda x: math.log(x + math.sqrt(x * x + 1)), normal(3, 4)),
        (elementary.Arccosh, lambda x: math.log(x + math.sqrt(x * x - 1)), 1 + positive(3, 4)),
        (elementary.Arctanh, lambda x: math.log((1 + x) / (1 - x)) / 2, random.uniform(-0.9, 0.9, (3, 4))),
        (elementary.Erfc, lambda x: 1 - math.erf(x), normal(3, 4)),
    ]],
    Case(activations.Softplus, [normal(3, 4)], naive.elementwise(lambda x: np.log(1 + np.exp(x)))),
    Case(activations.Softplus, [distinct(3, 4)],
         naive.elementwise(lambda x: x if x > 0.3 else np.log(1 + np.exp(2 * x)) / 2),
         dict(beta=2, threshold=0.6)),
    *[Case(op, [distinct(3, 4)], naive.elementwise(reference), options) for op, reference, options in [
        (activations.Silu, lambda x: x / (1 + math.exp(-x)), {}),
        (activations.LeakyRelu, lambda x: x if x > 0 else 0.3 * x, dict(slope=0.3)),
        (activations.Elu, lambda x: x if x > 0 else math.exp(x) - 1, {}),
        (activations.Elu, lambda x: 1.1 * x if x > 0 else 1.1 * 0.7 * (math.exp(x / 2) - 1),
         dict(alpha=0.7, scale=1.1, stretch=0.5)),
        (activations.Logsigmoid, lambda x: -math.log(1 + math.exp(-x)), {}),
        (activations.Hardtanh, lambda x: max(-0.3, min(x, 0.4)), dict(low=-0.3, high=0.4)),
        (activations.Mish, lambda x: x * math.tanh(math.log(1 + math.exp(x))), {}),
        (activations.Softsign, lambda x: x / (1 + abs(x)), {}),
        (activations.Tanhshrink, lambda x: x - math.tanh(x), {}),
    ]],
    *[Case(op, [10 * distinct(3, 4)], naive.elementwise(reference)) for op, reference in [
        (activations.Hardsigmoid, lambda x: max(0.0, min((x + 3) / 6, 1.0))),
        (activations.Hardswish, lambda x: x * max(0.0, min((x + 3) / 6, 1.0))),
    ]],
    Case(elementary.Atan2, [distinct(3, 4), distinct(4) + 0.03], naive.pairwise(math.atan2)),
    Case(elementary.LogAddExp, [normal(3, 4), 3 * normal(4)],
         naive.pairwise(lambda a, b: math.log(math.exp(a) + math.exp(b)))),
    Case(arithmetic.Abs, [distinct(3, 4)], np.abs),
    Case(activations.Relu, [distinct(3, 4)], lambda x: np.where(x > 0, x, 0)),
    Case(comparison.Maximum, [distinct(3, 1), distinct(4) + 0.03], np.maximum),
    Case(comparison.Minimum, [distinct(3, 4), distinct(4) + 0.03], np.minimum),
    Case(comparison.Clamp, [distinct(3, 4)], lambda x, low, high: np.clip(x, low, high), dict(low=-0.3, high=0.4)),
    Case(arithmetic.FloorDivide, [3 * distinct(3, 4), np.array([0.7, 1.3, -0.9, 2.1])], lambda a, b: np.floor(a / b)),
    Case(arithmetic.Remainder, [3 * distinct(3, 4), np.array([0.7, 1.3, -0.9, 2.1])], naive.remainder(math.floor)),
    Case(arithmetic.Fmod, [3 * distinct(3, 4), np.array([0.7, 1.3, -0.9, 2.1])], naive.remainder(math.trunc)),
    Case(arithmetic.Step, [distinct(3, 4)], lambda x, function: function(x), dict(function=np.floor)),
    Case(comparison.Where, [normal(3, 4), normal(4)], lambda a, b, condition: np.where(condition, a, b),
         dict(condition=condition)),
    Case(comparison.Where, [normal(65, 64), normal(64)], lambda a, b, condition: np.where(condition, a, b),
         dict(condition=random.random((65, 64)) > 0.5)),  # with the kernel
    Case(arithmetic.Add, [normal(65, 64), normal(65, 64)], lambda a, b: a + b),  # with the kernel
    Case(activations.Gelu, [normal(3, 4)], naive.elementwise(naive.gelu)),
    Case(activations.Gelu, [normal(3, 4)], naive.elementwise(naive.gelu_tanh), dict(approximate="tanh")),
    Case(activations.SwiGLU, [normal(3, 4), normal(3, 4)], naive.pairwise(naive.swiglu)),
    Case(reduce.Sum, [normal(3, 4, 5)], naive.reduction(sum)),
    Case(reduce.Sum, [normal(3, 4, 5)], naive.reduction(sum), dict(axis=(0, -1))),
    Case(reduce.Sum, [normal(3, 4)], naive.reduction(sum), dict(axis=1, keepdims=True)),
    Case(reduce.Sum, [normal(0, 4)], naive.reduction(sum), dict(axis=0)),
    Case(reduce.Mean, [normal(3, 4, 5)], naive.reduction(naive.mean)),
    Case(reduce.Mean, [normal(3, 4, 5)], naive.reduction(naive.mean), dict(axis=(1, 2), keepdims=True)),
    Case(statistics.Var, [normal(3, 4)], naive.reduction(naive.variance)),
    Case(statistics.Var, [normal(3, 4, 2)], naive.reduction(lambda v: naive.variance(v, 0)),
         dict(axis=(0, 2), correction=0)),
    Case(statistics.Std, [normal(3, 4)], naive.reduction(naive.deviation),
         dict(axis=(1,), keepdims=True)),
    Case(reduce.Max, [distinct(3, 4)], naive.reduction(max)),
    Case(reduce.Max, [distinct(3, 4, 2)], naive.reduction(max), dict(axis=(0, 2))),
    Case(reduce.Min, [distinct(3, 4)], naive.reduction(min), dict(axis=1, keepdims=True)),
    Case(statistics.Median, [distinct(3, 5)], naive.reduction(lambda v: sorted(v)[7])),
    Case(statistics.Median, [distinct(6)], naive.reduction(lambda v: sorted(v)[2])),
    Case(reduce.LogSumExp, [normal(3, 4)], naive.reduction(naive.logsumexp)),
    Case(reduce.LogSumExp, [normal(3, 4, 2)], naive.reduction(naive.logsumexp), dict(axis=(0, 2))),
    Case(reduce.Norm, [normal(3, 4)], naive.norm),
    Case(reduce.Norm, [normal(3, 4, 2)], naive.norm, dict(axis=(0, 2), keepdims=True)),
    Case(reduce.Norm, [distinct(3, 4)], naive.norm, dict(axis=(1,), p=3)),
    Case(reduce.Norm, [distinct(3, 4)], naive.norm, dict(axis=(0,), p=0.7)),
    Case(reduce.Prod, [normal(3, 5)], lambda x: x[:, 0] * x[:, 1] * x[:, 2] * x[:, 3] * x[:, 4]),
    Case(reduce.Prod, [normal(3, 4) * [[1, 1, 1, 1], [0, 1, 1, 1], [0, 1, 0, 1]]],
         lambda x: x[:, 0] * x[:, 1] * x[:, 2] * x[:, 3]),
    Case(reduce.Prod, [normal(2, 3, 4)], lambda x: x[..., 0] * x[..., 1] * x[..., 2] * x[..., 3]),
    Case(cumulative.CumProd, [normal(3, 5)], naive.running(math.prod)),
    Case(cumulative.CumProd, [normal(2, 2, 4) * [[1, 1, 1, 1], [0, 1, 0, 1]]], naive.running(math.prod)),
    Case(cumulative.CumProd, [normal(3, 0)], naive.running(math.prod)),
    Case(cumulative.LogCumSumExp, [3 * normal(2, 3, 5)], naive.running(naive.logsumexp)),
    Case(cumulative.LogCumSumExp, [normal(3, 1)], naive.running(naive.logsumexp)),
    Case(cumulative.CumSum, [normal(2, 3, 4)], lambda x, axis: np.stack([x[:, : i + 1].sum(1) for i in range(3)], 1),
         dict(axis=-2)),
    Case(cumulative.CumSum, [normal(3, 4)], lambda x, axis: np.array([x[: i + 1].sum(0) for i in range(3)]), dict(axis=0)),
    Case(shape.Clone, [normal(3, 4)], lambda x: x),
    Case(shape.Reshape, [normal(3, 4)], lambda x, shape: x.reshape(shape), dict(shape=(2, -1))),
    Case(shape.Permute, [normal(2, 3, 4)], lambda x, axes: x.transpose(axes), dict(axes=(2, 0, 1))),
    Case(shape.Expand, [normal(3, 1)], np.broadcast_to, dict(shape=(2, 3, 4))),
    Case(shape.Concatenate, [normal(2, 3), normal(2, 0), normal(2, 1)], lambda *a, axis: np.concatenate(a, axis),
         dict(axis=-1)),
    Case(shape.Concatenate, [normal(2, 2, 3), normal(2, 2, 1)], lambda *a, axis: np.concatenate(a, axis), dict(axis=2)),
    Case(shape.Concatenate, [normal(2, 3), normal(1, 3)], lambda *a, axis: np.concatenate(a, axis), dict(axis=0)),
    Case(shape.Stack, [normal(2, 3), normal(2, 3), normal(2, 3)], lambda *a, axis: np.stack(a, axis), dict(axis=1)),
    Case(shape.Stack, [normal(2, 3), normal(2, 3)], lambda *a, axis: np.stack(a, axis), dict(axis=-1)),
    Case(shape.Flip, [normal(2, 3, 4)], naive.flip, dict(axes=[0, 2])),
    Case(shape.Roll, [normal(3, 5)], naive.roll, dict(shift=-2, dim=1)),
    Case(shape.Roll, [normal(3, 2)], naive.roll, dict(shift=4, dim=0)),
    Case(indexing.Index, [normal(4, 5)], lambda x, index: x[index], dict(index=(slice(None, None, -2), 3))),
    Case(indexing.Index, [normal(4, 5)], lambda x, index: x[index], dict(index=np.array([0, 2, 0, -1]))),
    Case(indexing.Index, [normal(4, 5)], lambda x, index: x[index], dict(index=(None, Ellipsis, np.array([1, 1])))),
    Case(indexing.Index, [normal(4, 5)], lambda x, index: x[index], dict(index=keep)),
    Case(diagonal.Diagonal, [normal(3, 4)], naive.diagonal, dict(offset=1)),
    Case(diagonal.Diagonal, [normal(2, 5, 3)], naive.diagonal, dict(offset=-1)),
    Case(diagonal.Diagonal, [normal(2, 3)], naive.diagonal, dict(offset=5)),
    Case(indexing.AddAt, [normal(4, 2)], naive.add_at, dict(index=np.array([0, 2, 0, -1]), shape=(5, 2))),
    Case(indexing.AddAt, [normal(3, 2)], naive.add_at,
         dict(index=(np.array([[0], [-1], [0]]), np.array([3, 3])), shape=(5, 4))),
    Case(indexing.AddAt, [normal(4, 3)], naive.add_at, dict(index=(slice(None), np.array([1, 1, 0])), shape=(4, 5))),
    Case(indexing.AddAt, [normal(13)[: keep.sum()]], naive.add_at, dict(index=keep, shape=(4, 5))),
    Case(indexing.AddAt, [normal(2)], naive.add_at, dict(index=(slice(None, None, -2), 3), shape=(4, 5))),
    Case(indexing.AddAt, [normal(4, 2), normal(5, 2)], naive.add_at, dict(index=np.array([0, 2, 0, -1]), shape=(5, 2))),
    Case(indexing.AddAt, [normal(2), normal(4, 5)], naive.add_at, dict(index=(slice(None, None, -2), 3), shape=(4, 5))),
    Case(indexing.SetAt, [normal(4, 5), normal(2)], naive.set_at, dict(index=(slice(None, None, -2), 3))),
    Case(indexing.SetAt, [normal(4, 5), normal(1, 1, 2)], naive.set_at, dict(index=(slice(None, None, -2), 3))),
    Case(indexing.SetAt, [normal(4, 5), normal(5)], naive.set_at, dict(index=np.array([2, 0, -1]))),
    Case(indexing.SetAt, [normal(4, 5), normal(3, 5)], naive.set_at, dict(index=np.array([2, 0, -1]))),
    Case(gather.Scatter, [normal(4, 5), normal(3, 2)], naive.scatter,
         dict(dim=1, indices=np.array([[4, 0], [1, 2], [2, 1]]))),
    Case(gather.Scatter, [normal(4, 5), normal(2, 5)], naive.scatter,
         dict(dim=0, indices=np.array([[0, 1, 2, 3, 0], [3, 2, 1, 0, 1]]))),
    Case(gather.Scatter, [normal(0, 5), normal(0, 2)], naive.scatter, dict(dim=1, indices=np.zeros((0, 2), np.int64))),
    Case(einsum.Einsum, [normal(3, 4), normal(4, 5)], naive.einsum, dict(subscripts="ij,jk->ik")),
    Case(einsum.Einsum, [normal(2, 3, 4)], naive.einsum, dict(subscripts="abc->ca")),
    Case(einsum.Einsum, [normal(2, 1, 4), normal(3, 4), normal(3)], naive.einsum, dict(subscripts="bij,ij,k->bj")),
    Case(matmul.MatMul, [normal(3, 4), normal(4, 5)], naive.matmul),
    Case(matmul.MatMul, [normal(2, 1, 3, 4), normal(5, 4, 2)], naive.matmul),
    Case(matmul.MatMul, [normal(7, 0), normal(0, 3)], naive.matmul),
    Case(matmul.MatMul, [normal(33, 65), normal(65, 17)], naive.matmul),
    Case(matmul.Linear, [normal(2, 3, 4), normal(5, 4), normal(5)], naive.linear),
    Case(matmul.Linear, [normal(3, 4), normal(5, 4), None], naive.linear),
    Case(matmul.Linear, [normal(0, 4), normal(5, 4), normal(5)], naive.linear),
    Case(matmul.Linear, [normal(70, 33), normal(17, 33), normal(17)], naive.linear),
    Case(matmul.MLP, [normal(2, 3, 4), normal(7, 4), normal(7), normal(5, 7), normal(5)], naive.mlp),
    Case(matmul.MLP, [normal(3, 4), normal(7, 4), None, normal(5, 7), None], naive.mlp, dict(approximate="tanh")),
    Case(matmul.MLP, [normal(0, 4), normal(7, 4), normal(7), normal(5, 7), normal(5)], naive.mlp),
    Case(matmul.MLP, [normal(70, 33), normal(97, 33), normal(97), normal(21, 97), normal(21)], naive.mlp),
    Case(softmax.Softmax, [normal(3, 5)], naive.softmax, dict(dim=1)),
    Case(softmax.Softmax, [normal(3, 5, 2)], naive.softmax, dict(dim=1)),
    Case(softmax.Softmax, [normal(40, 33)], naive.softmax, dict(dim=-1)),
    Case(softmax.LogSoftmax, [normal(3, 5)], naive.log_softmax, dict(dim=1)),
    Case(softmax.LogSoftmax, [normal(3, 5, 2)], naive.log_softmax, dict(dim=0)),
    Case(layer_norm.LayerNorm, [normal(3, 5), normal(5), normal(5)], naive.layer_norm),
    Case(layer_norm.LayerNorm, [normal(2, 3, 5), None, None], naive.layer_norm, dict(eps=1e-2)),
    Case(layer_norm.LayerNorm, [normal(70, 33), normal(33), None], naive.layer_norm),
    Case(rms_norm.RMSNorm, [normal(3, 5), normal(5)], naive.rms_norm),
    Case(rms_norm.RMSNorm, [normal(2, 3, 5), None], naive.rms_norm, dict(eps=1e-2)),
    Case(cross_entropy.CrossEntropy, [normal(4, 3)], naive.cross_entropy, dict(targets=np.array([0, 2, 1, 1]))),
    Case(cross_entropy.CrossEntropy, [normal(4, 3)], naive.cross_entropy,
         dict(targets=np.array([0, -100, 1, 1]), reduction="none")),
    Case(cross_entropy.CrossEntropy, [normal(4, 3)], naive.cross_entropy,
         dict(targets=np.array([0, 2, 7, 1]), ignore_index=7, reduction="sum")),
    Case(cross_entropy.CrossEntropy, [normal(4, 3)], naive.cross_entropy,
         dict(targets=np.array([0, -100, 1, 1]), label_smoothing=0.2)),
    Case(cross_entropy.CrossEntropy, [normal(70, 65)], naive.cross_entropy, dict(targets=random.integers(0, 65, 70))),
    Case(binary_cross_entropy.BinaryCrossEntropy, [random.uniform(0.1, 0.9, (3, 4)), random.uniform(0, 1, (3, 4))],
         lambda p, t: -(t * np.log(p) + (1 - t) * np.log(1 - p))),
    Case(cross_entropy.NegativeLogLikelihood, [normal(4, 3)], naive.negative_log_likelihood,
         dict(targets=np.array([0, 2, 1, 1]))),
    Case(cross_entropy.NegativeLogLikelihood, [normal(4, 3)], naive.negative_log_likelihood,
         dict(targets=np.array([0, -100, 1, 1]), reduction="none")),
    Case(cross_entropy.NegativeLogLikelihood, [normal(4, 3)], naive.negative_log_likelihood,
         dict(targets=np.array([0, 2, 7, 1]), ignore_index=7)),
    Case(cross_entropy.NegativeLogLikelihood, [normal(180, 97)], naive.negative_log_likelihood,
         dict(targets=random.integers(0, 97, 180), ignore_index=5, reduction="sum")),
    Case(binary_cross_entropy.BinaryCrossEntropyWithLogits, [normal(3, 4), random.uniform(0, 1, (3, 4)), normal(4) + 2],
         lambda x, t, w: w * t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))),
    *[Case(op, [distinct(3, 4), target], naive.reduced(loss), options | {"reduction": reduction})
      for op, loss, options in [
          (difference_losses.SquaredError, lambda d: d * d, {}),
          (difference_losses.AbsoluteError, abs, {}),
          (difference_losses.Huber, lambda d: d * d / 2 if abs(d) <= 0.5 else 0.5 * (abs(d) - 0.25), dict(delta=0.5)),
          (difference_losses.SmoothL1, lambda d: d * d if abs(d) < 0.5 else abs(d) - 0.25, dict(beta=0.5)),
      ] for reduction, target in [("none", distinct(4) + 0.03), ("mean", 0.1 * distinct(3, 1) + 0.02), ("sum", 0.02)]],
    Case(embedding.Embedding, [normal(5, 3), None], lambda weight, _, ids: weight[ids],
         dict(ids=np.array([[0, 4, 0], [2, 0, 4]]))),
    Case(embedding.Embedding, [normal(7, 130), None], lambda weight, _, ids: weight[ids],
         dict(ids=random.integers(0, 7, 50))),
    Case(embedding.Embedding, [normal(5, 70), normal(4, 70)], lambda weight, positions, ids: weight[ids] + positions[:3],
         dict(ids=random.integers(0, 5, (12, 3)))),
    Case(dropout.Dropout, [normal(4, 5)], naive.dropout, dropping),
    Case(dropout.AddDropped, [normal(4, 5), normal(4, 5)], lambda a, b, **options: a + naive.dropout(b, **options), dropping),
    Case(attention.WeightsDropout, [normal(2, 2, 17, 9)], naive.weights_dropout, dropping),
    Case(attention.WeightsDropout, [normal(2, 0, 3)], naive.weights_dropout, dropping),
    Case(attention.WeightsDropout, [normal(3, 70, 42)], naive.weights_dropout, dropping),
    attending((2, 3, 5, 4), 7),
    attending((2, 3, 5, 4), 7, is_causal=True, scale=0.3),
    attending((2, 3, 5, 4), 7, naive.Constant(mask)),
    attending((1, 2, 65, 8), 65, is_causal=True),
    attending((2, 3, 5, 4), 7, naive.Constant(mask), naive.Constant(0.5 * rotation[:, :4])),  # halved: scores stay as small
    Case(attention.PackedAttention, [normal(2, 5, 24), None], naive.packed_attention, dict(num_heads=2)),
    Case(attention.PackedAttention, [normal(2, 65, 36), naive.Constant(rotation)], naive.packed_attention,
         dict(num_heads=2, is_causal=True)),
    Case(attention.PackedAttention, [normal(2, 65, 24), None], naive.packed_attention, dict(num_heads=2, is_causal=True)),
    attending((2, 2, 18, 4), 9, key=dropping["key"], dropout_p=0.4),
    Case(attention.PackedAttention, [normal(1, 70, 12), naive.Constant(rotation[:, :2])], naive.packed_attention,
         dict(num_heads=2, is_causal=True, key=dropping["key"], dropout_p=0.4)),
]

NEED_AN_AXIS = {  # to run along, or to multiply: the other ops take 0-d arrays as well
    gather.Gather, gather.Scatter, gather.ScatterAdd, windows.Unfold, windows.Fold, diagonal.FromDiagonal,
    diagonal.Triangle, shape.Roll, reduce.Prod, cumulative.CumSum, cumulative.CumProd, cumulative.LogCumSumExp,
    shape.Concatenate, diagonal.Diagonal, matmul.MatMul, matmul.Dot, matmul.Linear, matmul.MLP, softmax.Softmax,
    softmax.LogSoftmax, layer_norm.LayerNorm, rms_norm.RMSNorm, normalize.Normalize, cross_entropy.CrossEntropy,
    cross_entropy.NegativeLogLikelihood, cross_entropy.CrossEntropyOfDistributions,
    attention.ScaledDotProductAttention, attention.PackedAttention, attention.WeightsDropout,
}
LARGE = 34_000  # elements: above 32 kB, in several blocks, and worth two threads (see minigrad/fast/kernels)


def resized(case, resize):
    """The row with its arrays, inputs and options, in another size."""

    def changed(value):
        return resize(value).view(type(value)) if isinstance(value, np.ndarray) else value

    return replace(case, inputs=[changed(x) for x in case.inputs],
                   options={name: value if name == "key" else changed(value) for name, value in case.options.items()})


def as_number(x):
    return x.reshape(-1)[:1].reshape(())


def without_columns(x):
    return x[..., :0] if x.ndim else x


def with_many_columns(x):
    return np.tile(x, LARGE // 12 + 1) if x.shape[-1:] not in ((), (1,)) else x


FAMILIES = activations, arithmetic, binary_cross_entropy, comparison, difference_losses, dropout, elementary
ELEMENTWISE = {case.op for case in CASES if case.op.__module__ in [family.__name__ for family in FAMILIES]}
CASES += [
    resized(case, resize)
    for case in CASES if case.op in ELEMENTWISE
    if all(0 < np.size(x) < 1000 for x in case.inputs)
    for resize in (as_number, without_columns, with_many_columns)
]

CASES += [  # the same for the others
    *[Case(op, [draw(*shape)], naive.reduction(function), options)
      for op, function, draw in [
          (reduce.Sum, sum, normal), (reduce.Mean, naive.mean, normal), (statistics.Var, naive.variance, normal),
          (statistics.Std, naive.deviation, normal), (reduce.Max, max, distinct), (reduce.Min, min, distinct),
          (reduce.LogSumExp, naive.logsumexp, normal), (reduce.Norm, naive.length, normal),
      ] for shape, options in [((), {}), ((4, 0), dict(axis=0)), ((5, 61, 59), dict(axis=(0, 2)))]
      if shape or op not in (statistics.Var, statistics.Std)],
    *[Case(op, [normal()], lambda x, correction: np.array(0.0), dict(correction=0)) for op in (statistics.Var, statistics.Std)],
    Case(reduce.Prod, [normal(3, 0)], lambda x: np.ones(3)),
    Case(reduce.Prod, [normal(0, 3)], lambda x: np.ones(0)),
    Case(reduce.Prod, [normal(LARGE // 3, 3)], lambda x: x[:, 0] * x[:, 1] * x[:, 2]),
    Case(cumulative.CumSum, [normal(0, 4)], lambda x, axis: x, dict(axis=0)),
    Case(cumulative.CumSum, [normal(3, LARGE // 3)], lambda x, axis: np.stack([x[0], x[0] + x[1], x.sum(0)]), dict(axis=0)),
    Case(statistics.Median, [normal()], lambda x: x),
    Case(statistics.Median, [normal(4, 0)], lambda x: np.array(math.nan)),
    Case(statistics.Median, [distinct(131, 130)], naive.reduction(lambda v: sorted(v)[len(v) // 2 - 1])),
    Case(cumulative.CumProd, [0.01 * normal(300, 31) + 1], naive.running(math.prod)),
    Case(cumulative.LogCumSumExp, [normal(3, 0)], naive.running(naive.logsumexp)),
    Case(cumulative.LogCumSumExp, [normal(300, 31)], naive.running(naive.logsumexp)),
    Case(diagonal.Diagonal, [normal(2, 95, 95)], naive.diagonal, dict(offset=0)),
    Case(shape.Clone, [normal()], lambda x: x),
    Case(shape.Clone, [normal(0, 4)], lambda x: x),
    Case(shape.Clone, [normal(131, 130)], lambda x: x),
    Case(shape.Reshape, [normal()], lambda x, shape: x.reshape(shape), dict(shape=(1, 1))),
    Case(shape.Reshape, [normal(0, 4)], lambda x, shape: x.reshape(shape), dict(shape=(2, 0))),
    Case(shape.Reshape, [normal(131, 130)], lambda x, shape: x.reshape(shape), dict(shape=(10, -1))),
    Case(shape.Reshape, [normal(1, 1)], lambda x, shape: x.reshape(shape), dict(shape=())),
    Case(shape.Permute, [normal()], lambda x, axes: x.transpose(axes), dict(axes=())),
    Case(shape.Permute, [normal(0, 4)], lambda x, axes: x.transpose(axes), dict(axes=(1, 0))),
    Case(shape.Permute, [normal(131, 130)], lambda x, axes: x.transpose(axes), dict(axes=(1, 0))),
    Case(shape.Expand, [normal(3, 4)], np.broadcast_to, dict(shape=(3, 4))),
    Case(shape.Expand, [normal()], np.broadcast_to, dict(shape=(2, 3))),
    Case(shape.Expand, [normal(3, 1)], np.broadcast_to, dict(shape=(3, 0))),
    Case(shape.Expand, [normal(131, 1)], np.broadcast_to, dict(shape=(131, 130))),
    Case(shape.Concatenate, [normal(131, 130), normal(131, 130)], lambda *a, axis: np.concatenate(a, axis), dict(axis=1)),
    Case(shape.Concatenate, [normal(9000, 3), normal(9000, 1)], lambda *a, axis: np.concatenate(a, axis), dict(axis=1)),
    Case(shape.Stack, [normal(), normal()], lambda *a, axis: np.stack(a, axis), dict(axis=0)),
    Case(shape.Stack, [normal(3, 0), normal(3, 0)], lambda *a, axis: np.stack(a, axis), dict(axis=1)),
    Case(shape.Stack, [normal(131, 130), normal(131, 130)], lambda *a, axis: np.stack(a, axis), dict(axis=2)),
    Case(indexing.Index, [normal()], lambda x, index: x[index], dict(index=())),
    Case(indexing.Index, [normal()], lambda x, index: x[index], dict(index=None)),
    Case(indexing.Index, [normal(4, 0)], lambda x, index: x[index], dict(index=np.array([0, 2, 0, -1]))),
    Case(indexing.Index, [normal(4, 5)], lambda x, index: x[index], dict(index=np.array([], np.int64))),
    Case(indexing.Index, [normal(61, 280)], lambda x, index: x[index], dict(index=random.integers(-61, 61, 70))),
    Case(indexing.AddAt, [normal()], naive.add_at, dict(index=(2, 1), shape=(4, 5))),
    Case(indexing.AddAt, [normal()], naive.add_at, dict(index=(), shape=())),
    Case(indexing.AddAt, [normal(0, 5)], naive.add_at, dict(index=np.array([], np.int64), shape=(4, 5))),
    Case(indexing.AddAt, [normal(70, 280)], naive.add_at, dict(index=random.integers(-61, 61, 70), shape=(61, 280))),
    Case(indexing.AddAt, [normal(70, 280), normal(61, 280)], naive.add_at,
         dict(index=random.integers(-61, 61, 70), shape=(61, 280))),
    Case(indexing.Index, [normal(61, 280)], lambda x, index: x[index],
         dict(index=(slice(None), random.integers(-280, 280, (3, 90))))),
    Case(indexing.Index, [normal(3, 61, 94)], lambda x, index: x[index],
         dict(index=(slice(None), random.integers(61, size=70)))),
    Case(indexing.AddAt, [normal(61, 280)], naive.add_at,
         dict(index=(slice(None), random.integers(-9, 9, 280)), shape=(61, 9))),
    Case(indexing.AddAt, [normal(3, 70, 94)], naive.add_at,
         dict(index=(slice(None), random.integers(61, size=70)), shape=(3, 61, 94))),
    Case(gather.Gather, [normal(4, 5)], naive.gather, dict(dim=1, indices=random.integers(5, size=(4, 7)))),
    Case(gather.Gather, [normal(4, 5)], naive.gather, dict(dim=0, indices=random.integers(4, size=(6, 3)))),
    Case(gather.Gather, [normal(0, 5)], naive.gather, dict(dim=1, indices=random.integers(5, size=(0, 7)))),
    Case(gather.Gather, [normal(131, 31)], naive.gather, dict(dim=1, indices=random.integers(31, size=(130, 130)))),
    Case(gather.Gather, [normal(3, 31, 180)], naive.gather, dict(dim=1, indices=random.integers(31, size=(3, 35, 170)))),
    Case(gather.ScatterAdd, [normal(4, 7)], naive.scatter_add,
         dict(dim=1, indices=random.integers(5, size=(4, 7)), shape=(4, 5))),
    Case(gather.ScatterAdd, [normal(6, 3)], naive.scatter_add,
         dict(dim=0, indices=random.integers(4, size=(6, 3)), shape=(4, 5))),
    Case(gather.ScatterAdd, [normal(0, 7)], naive.scatter_add,
         dict(dim=1, indices=random.integers(5, size=(0, 7)), shape=(0, 5))),
    Case(gather.ScatterAdd, [normal(130, 130)], naive.scatter_add,
         dict(dim=1, indices=random.integers(31, size=(130, 130)), shape=(131, 31))),
    Case(gather.ScatterAdd, [normal(8200, 2)], naive.scatter_add,
         dict(dim=1, indices=random.integers(3, size=(8200, 2)), shape=(8200, 3))),
    Case(gather.ScatterAdd, [normal(3, 35, 170)], naive.scatter_add,
         dict(dim=1, indices=random.integers(31, size=(3, 35, 170)), shape=(3, 31, 180))),
    Case(gather.ScatterAdd, [normal(4, 7), normal(4, 5)], naive.scatter_add,
         dict(dim=1, indices=random.integers(5, size=(4, 7)), shape=(4, 5))),
    Case(gather.ScatterAdd, [normal(130, 130), normal(131, 31)], naive.scatter_add,
         dict(dim=1, indices=random.integers(31, size=(130, 130)), shape=(131, 31))),
    Case(gather.ScatterAdd, [normal(8200, 2), normal(8200, 3)], naive.scatter_add,
         dict(dim=1, indices=random.integers(3, size=(8200, 2)), shape=(8200, 3))),
    Case(gather.ScatterAdd, [normal(3, 35, 170), normal(3, 31, 180)], naive.scatter_add,
         dict(dim=1, indices=random.integers(31, size=(3, 35, 170)), shape=(3, 31, 180))),
    Case(diagonal.FromDiagonal, [normal(3)], naive.from_diagonal, dict(offset=1, shape=(4, 4))),
    Case(diagonal.FromDiagonal, [normal(2, 2)], naive.from_diagonal, dict(offset=-1, shape=(2, 3, 4))),
    Case(diagonal.FromDiagonal, [normal(0)], naive.from_diagonal, dict(offset=4, shape=(4, 4))),
    Case(diagonal.FromDiagonal, [normal(130)], naive.from_diagonal, dict(offset=-1, shape=(131, 131))),
    Case(diagonal.Triangle, [normal(2, 4, 3)], naive.triangle, dict(diagonal=1, upper=False)),
    Case(diagonal.Triangle, [normal(3, 5)], naive.triangle, dict(diagonal=-1, upper=True)),
    Case(diagonal.Triangle, [normal(0, 5)], naive.triangle, dict(diagonal=0, upper=True)),
    Case(diagonal.Triangle, [normal(3, 61, 94)], naive.triangle, dict(diagonal=-20, upper=True)),
    Case(diagonal.Triangle, [normal(3, 94, 61)], naive.triangle, dict(diagonal=20, upper=False)),
    Case(shape.Pad, [normal(3, 4)], naive.pad, dict(index=(slice(1, 4), slice(0, 4)), shape=(4, 6), value=1.5)),
    Case(shape.Pad, [normal()], naive.pad, dict(index=(), shape=(), value=0.0)),
    Case(shape.Pad, [normal(0, 2)], naive.pad, dict(index=(slice(1, 1), slice(0, 2)), shape=(3, 2), value=1.5)),
    Case(shape.Flip, [normal()], naive.flip, dict(axes=[])),
    Case(shape.Flip, [normal(0, 4)], naive.flip, dict(axes=[1])),
    Case(shape.Flip, [normal(131, 130)], naive.flip, dict(axes=[1])),
    Case(shape.Roll, [normal(0, 4)], naive.roll, dict(shift=1, dim=0)),
    Case(shape.Roll, [normal(131, 130)], naive.roll, dict(shift=1, dim=0)),
    Case(shape.Pad, [normal(131, 130)], naive.pad, dict(index=(slice(1, 132), slice(0, 130)), shape=(133, 132), value=1.5)),
    Case(windows.Unfold, [normal(2, 7)], naive.unfold, dict(size=3, step=2)),
    Case(windows.Unfold, [normal(0, 7)], naive.unfold, dict(size=3, step=2)),
    Case(windows.Unfold, [normal(3, 5700)], naive.unfold, dict(size=2, step=1)),
    Case(windows.Fold, [normal(2, 3, 3)], naive.fold, dict(length=8, step=2)),
    Case(windows.Fold, [normal(2, 40, 20)], naive.fold, dict(length=59, step=1)),
    Case(windows.Fold, [normal(2, 3, 0)], naive.fold, dict(length=4, step=2)),
    Case(windows.Fold, [normal(3, 5700, 1)], naive.fold, dict(length=5700, step=1)),
    Case(indexing.SetAt, [normal(), normal()], naive.set_at, dict(index=())),
    Case(indexing.SetAt, [normal(4, 5), normal(0, 5)], naive.set_at, dict(index=np.array([], np.int64))),
    Case(indexing.SetAt, [normal(131, 130), normal(3, 130)], naive.set_at, dict(index=np.array([2, 0, -1]))),
    *[Case(gather.Scatter, [normal(*shape), normal(130, 129)], naive.scatter,
           dict(dim=dim, indices=np.argsort(random.random(shape), dim)[:130, :129]))
      for dim, shape in enumerate([(140, 129), (130, 140)])],
    Case(einsum.Einsum, [normal(3), normal(3)], naive.einsum, dict(subscripts="i,i->")),
    Case(einsum.Einsum, [normal(), normal(2, 3)], naive.einsum, dict(subscripts=",ij->ji")),
    Case(einsum.Einsum, [normal(3, 0), normal(0, 5)], naive.einsum, dict(subscripts="ij,jk->ik")),
    Case(einsum.Einsum, [normal(131, 65), normal(131, 65)], naive.einsum, dict(subscripts="ij,ij->ji")),
    Case(matmul.MatMul, [normal(0, 3), normal(3, 4)], naive.matmul),
    Case(matmul.Dot, [normal(0), normal(0)], lambda a, b: 0.0),
    Case(matmul.MatMul, [normal(131, 65), normal(65, 130)], naive.matmul),
    Case(matmul.MatMul, [normal(2, 1, 70, 33), normal(3, 33, 41)], naive.matmul),
    Case(matmul.Linear, [normal(131, 65), normal(130, 65), normal(130)], naive.linear),
    Case(activations.SwiGLU, [normal(), normal()], naive.pairwise(naive.swiglu)),
    Case(activations.SwiGLU, [normal(0, 4), normal(0, 4)], lambda a, b: a),
    Case(activations.SwiGLU, [normal(131, 130), normal(131, 130)], naive.pairwise(naive.swiglu)),
    Case(matmul.MLP, [normal(131, 33), normal(130, 33), normal(130), normal(65, 130), normal(65)], naive.mlp),
    Case(softmax.Softmax, [normal(0, 5)], lambda x, dim: x, dict(dim=1)),
    Case(softmax.Softmax, [normal(5, 0)], lambda x, dim: x, dict(dim=1)),
    Case(softmax.Softmax, [normal(180, 97)], naive.softmax, dict(dim=1)),
    Case(softmax.LogSoftmax, [normal(0, 5)], lambda x, dim: x, dict(dim=1)),
    Case(softmax.LogSoftmax, [normal(180, 97)], naive.log_softmax, dict(dim=1)),
    Case(layer_norm.LayerNorm, [normal(0, 5), normal(5), normal(5)], lambda x, weight, bias: x),
    Case(layer_norm.LayerNorm, [normal(3, 0), normal(0), normal(0)], lambda x, weight, bias: x),
    Case(rms_norm.RMSNorm, [normal(3, 0), normal(0)], lambda x, weight: x),
    Case(layer_norm.LayerNorm, [normal(180, 97), normal(97), normal(97)], naive.layer_norm),
    Case(rms_norm.RMSNorm, [normal(0, 5), normal(5)], lambda x, weight: x),
    Case(rms_norm.RMSNorm, [normal(180, 97), normal(97)], naive.rms_norm),
    *[Case(cross_entropy.CrossEntropyOfDistributions, [normal(*shape), normal(*shape)], lambda x, q: np.zeros(len(x)))
      for shape in ((0, 3), (3, 0))],
    Case(cross_entropy.NegativeLogLikelihood, [normal(0, 3)], naive.negative_log_likelihood,
         dict(targets=np.zeros(0, int), reduction="none")),
    Case(cross_entropy.CrossEntropy, [normal(0, 3)], lambda x, targets, reduction: np.zeros(0),
         dict(targets=np.array([], np.int64), reduction="none")),
    Case(cross_entropy.CrossEntropy, [normal(180, 97)], naive.cross_entropy, dict(targets=random.integers(0, 97, 180))),
    Case(embedding.Embedding, [normal(5, 3), None], lambda weight, _, ids: weight[ids], dict(ids=np.array(3))),
    Case(embedding.Embedding, [normal(5, 3), None], lambda weight, _, ids: weight[ids],
         dict(ids=np.zeros((2, 0), np.int64))),
    Case(embedding.Embedding, [normal(70, 130), normal(40, 130)],
         lambda weight, positions, ids: weight[ids] + positions[:33],
         dict(ids=random.integers(0, 70, (4, 33)))),
    attending((0, 3, 5, 4), 7),
    attending((2, 3, 5, 4), 0),
    attending((1, 2, 133, 32), 140, is_causal=True),
    Case(attention.PackedAttention, [normal(2, 0, 24), None], lambda x, _, num_heads: x[..., :8], dict(num_heads=2)),
    Case(attention.PackedAttention, [normal(2, 133, 96), None], naive.packed_attention, dict(num_heads=2, is_causal=True)),
    Case(attention.PackedAttention, [normal(1, 70, 12), None], naive.packed_attention,
         dict(num_heads=2, is_causal=True, key=dropping["key"], dropout_p=0.4)),
    # Drawn last, so that the numbers of the rows above are what they were:
    Case(arithmetic.Lerp, [distinct(3, 4), distinct(4) + 0.03, distinct(3, 1) + 0.1],
         lambda a, b, w: a * (1 - w) + b * w),
    *[Case(arithmetic.Lerp, [normal(*shape), normal(*shape[1:]), 0.7], lambda a, b, w: a * (1 - w) + b * w)
      for shape in ((), (0, 3), (131, 130))],
    *[Case(matmul.Dot, [normal(n), normal(n)], lambda a, b: sum(x * y for x, y in zip(a, b)), tolerance=5e-6)
      for n in (5, 20_000)],
    *[Case(cross_entropy.CrossEntropyOfDistributions, [normal(*shape), random.uniform(0, 2, shape)],
           naive.cross_entropy_of_distributions) for shape in ((4, 3), (180, 97))],
    Case(normalize.Normalize, [normal(3, 5)], naive.normalize, dict(dim=1)),
    Case(normalize.Normalize, [normal(2, 3, 4)], naive.normalize, dict(dim=0, eps=1.5)),  # some are shorter than that
    Case(normalize.Normalize, [normal(0, 5)], lambda x, dim: x, dict(dim=1)),
    Case(normalize.Normalize, [normal(180, 97)], naive.normalize, dict(dim=0)),
    Case(diagonal.Triangle, [normal(34_000, 1)], naive.triangle, dict(diagonal=-3, upper=False)),  # contiguous both ways
    Case(diagonal.Triangle, [normal(180, 97)], naive.triangle, dict(diagonal=20, upper=True)),
    Case(einsum.Einsum, [normal(2, 3, 2, 4), normal(2, 5, 2, 4)], naive.einsum, dict(subscripts="bthd,bshd->bhts")),
    Case(einsum.Einsum, [normal(2, 3, 4, 5), normal(5, 4, 2)], naive.einsum, dict(subscripts="bijk,kjb->ib")),
    Case(einsum.Einsum, [normal(2, 3, 1), normal(4, 5)], naive.einsum, dict(subscripts="bij,jk->bik")),
]

# The elementary functions, each of which has NumPy's and PyTorch's names, and a formula that can be computed.
ELEMENTARY = [op for op in vars(elementary).values()
              if isinstance(op, type) and issubclass(op, elementary.Elementary) and op is not elementary.Elementary]


def rows_of_each_op(cases: list[Case] = CASES) -> Callable:
    """Makes of a test of one row a test of each op: it tries all rows of the op, and reports every row that fails."""
    rows = defaultdict(list)
    for case in cases:
        rows[case.op.__name__].append(case)

    def of_each_op(test):
        @pytest.mark.parametrize("op", rows)
        def test_all_rows(op):
            failures = []
            for case in rows[op]:
                try:
                    test(case)
                except Exception as failure:  # noqa: BLE001  all are reported
                    failure.add_note(f"row: {case}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows[op])} rows fail", failures)

        test_all_rows.__doc__ = test.__doc__
        return test_all_rows

    return of_each_op
