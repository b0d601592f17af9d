"""One row per operation and way of using it: the op, a slow obvious reference, inputs and options.

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
    activations, arithmetic, attention, comparison, cumulative, diagonal, dropout, elementary, embedding, gather, indexing,
    layer_norm, losses, matmul, reduce, shape, softmax, statistics,
)
from tables import each

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


def rows(op, reference, *variants):
    """A row for each variant: a list of its inputs, and a dict of its options if it has any."""
    return [Case(op, variant[:-1], reference, variant[-1]) if isinstance(variant[-1], dict) else Case(op, variant, reference)
            for variant in variants]


def attending(shape, keys, mask=None, rotation=None, **options):
    """A row of attention: the shape of the queries, and how many keys and values there are."""
    *leading, queries, size = shape
    q, k, v = (normal(*leading, n, size) for n in (queries, keys, keys))
    return Case(attention.ScaledDotProductAttention, [q, k, v, mask, rotation], naive.attention, options)


keep = random.random((4, 5)) > 0.4
dropping = dict(key=np.array([-81985529216486896, 128 * 2**32 - 256]), p=0.4)  # positions at which counters carry
dropping_weights = dict(key=dropping["key"], dropout_p=0.4)
condition = random.random((3, 4)) > 0.5
mask = np.where(random.random((2, 1, 5, 7)) > 0.3, 0.0, -np.inf)
mask[0, 0, 2] = -np.inf  # a completely masked row
rotation = normal(72, 6)  # for more tokens than there are; any numbers will do, not only cosines and sines

LARGE = 34_000  # elements: above 32 kB, in several blocks, and worth two threads (see minigrad/fast/kernels)

CASES = [
    *rows(arithmetic.Add, lambda a, b: a + b,
          [normal(3, 4), normal(4)], [normal(3, 4), 2.5], [normal(65, 64), normal(65, 64)]),
    Case(arithmetic.Sub, [normal(3, 1), normal(2, 1, 4)], lambda a, b: a - b),
    *rows(arithmetic.Mul, lambda a, b: a * b,
          [normal(3, 4), normal(3, 4)], [normal(), normal(2, 3)], [normal(0, 3), normal(3)]),
    *rows(arithmetic.Div, lambda a, b: a / b, [normal(3, 4), positive(4)], [1.5, positive(4)]),
    Case(arithmetic.Neg, [normal(3, 4)], lambda x: -x),
    *rows(arithmetic.Pow, lambda a, b: a**b,
          [normal(3, 4), 3], [positive(3, 4), -1.5], [normal(3, 4), 0], [positive(3, 4), normal(4)],
          [2.0, normal(4)]),
    *[Case(op, [x], naive.elementwise(naive.by_mpmath(name))) for op, name, x in [
        (elementary.Exp, "exp", normal(3, 4)),
        (elementary.Log, "log", positive(3, 4)),
        (elementary.Log1p, "log1p", positive(3, 4)),
        (elementary.Sqrt, "sqrt", positive(3, 4)),
        (elementary.Sin, "sin", normal(3, 4)),
        (elementary.Cos, "cos", normal(3, 4)),
        (elementary.Tanh, "tanh", normal(3, 4)),
        (elementary.Erf, "erf", normal(3, 4)),
        (elementary.Erfc, "erfc", normal(3, 4)),
    ]],
    *[Case(op, [x], naive.elementwise(reference)) for op, reference, x in [
        (elementary.Rsqrt, lambda x: x**-0.5, positive(3, 4)),
        (elementary.Sigmoid, naive.sigmoid, 5 * normal(3, 4)),
    ]],
    Case(activations.Softplus, [normal(3, 4)], naive.elementwise(naive.softplus)),
    Case(activations.Softplus, [distinct(3, 4)], naive.elementwise(lambda x: x if x > 0.3 else naive.softplus(2 * x) / 2),
         dict(beta=2, threshold=0.6)),
    *[Case(op, [distinct(3, 4)], naive.elementwise(reference), options) for op, reference, options in [
        (activations.Silu, lambda x: x * naive.sigmoid(x), {}),
        (activations.LeakyRelu, lambda x: x if x > 0 else 0.3 * x, dict(slope=0.3)),
        (activations.Logsigmoid, lambda x: -naive.softplus(-x), {}),
    ]],
    Case(arithmetic.Abs, [distinct(3, 4)], np.abs),
    Case(activations.Relu, [distinct(3, 4)], lambda x: np.where(x > 0, x, 0)),
    Case(comparison.Maximum, [distinct(3, 1), distinct(4) + 0.03], np.maximum),
    Case(comparison.Minimum, [distinct(3, 4), distinct(4) + 0.03], np.minimum),
    Case(comparison.Clamp, [distinct(3, 4)], lambda x, low, high: np.clip(x, low, high), dict(low=-0.3, high=0.4)),
    Case(arithmetic.FloorDivide, [3 * distinct(3, 4), np.array([0.7, 1.3, -0.9, 2.1])], lambda a, b: np.floor(a / b)),
    Case(arithmetic.Remainder, [3 * distinct(3, 4), np.array([0.7, 1.3, -0.9, 2.1])], naive.remainder(math.floor)),
    Case(arithmetic.Step, [distinct(3, 4)], lambda x, function: function(x), dict(function=np.floor)),
    *rows(comparison.Where, lambda a, b, condition: np.where(condition, a, b),
          [normal(3, 4), normal(4), dict(condition=condition)],
          [normal(65, 64), normal(64), dict(condition=random.random((65, 64)) > 0.5)]),
    Case(activations.Gelu, [normal(3, 4)], naive.elementwise(naive.gelu)),
    Case(activations.Gelu, [normal(3, 4)], naive.elementwise(naive.gelu_tanh), dict(approximate="tanh")),
    Case(activations.SwiGLU, [normal(3, 4), normal(3, 4)], naive.pairwise(naive.swiglu)),
    *rows(reduce.Sum, naive.reduction(sum),
          [normal(3, 4, 5)], [normal(3, 4, 5), dict(axis=(0, -1))], [normal(3, 4), dict(axis=1, keepdims=True)],
          [normal(0, 4), dict(axis=0)]),
    *rows(reduce.Mean, naive.reduction(naive.mean),
          [normal(3, 4, 5)], [normal(3, 4, 5), dict(axis=(1, 2), keepdims=True)]),
    Case(statistics.Var, [normal(3, 4)], naive.reduction(naive.variance)),
    Case(statistics.Var, [normal(3, 4, 2)], naive.reduction(lambda v: naive.variance(v, 0)),
         dict(axis=(0, 2), correction=0)),
    Case(statistics.Std, [normal(3, 4)], naive.reduction(naive.deviation), dict(axis=(1,), keepdims=True)),
    *rows(reduce.Max, naive.reduction(max), [distinct(3, 4)], [distinct(3, 4, 2), dict(axis=(0, 2))]),
    Case(reduce.Min, [distinct(3, 4)], naive.reduction(min), dict(axis=1, keepdims=True)),
    *rows(reduce.LogSumExp, naive.reduction(naive.logsumexp), [normal(3, 4)], [normal(3, 4, 2), dict(axis=(0, 2))]),
    *rows(reduce.Norm, naive.norm,
          [normal(3, 4)], [normal(3, 4, 2), dict(axis=(0, 2), keepdims=True)],
          [distinct(3, 4), dict(axis=(1,), p=3)], [distinct(3, 4), dict(axis=(0,), p=0.7)]),
    *rows(cumulative.CumSum, naive.running_sum,
          [normal(2, 3, 4), dict(axis=-2)], [normal(3, 4), dict(axis=0)], [normal(0, 4), dict(axis=0)],
          [normal(3, LARGE // 3), dict(axis=0)]),
    *rows(shape.Clone, lambda x: x, [normal(3, 4)], [normal()], [normal(0, 4)], [normal(131, 130)]),
    *rows(shape.Reshape, lambda x, shape: x.reshape(shape),
          [normal(3, 4), dict(shape=(2, -1))], [normal(), dict(shape=(1, 1))], [normal(0, 4), dict(shape=(2, 0))],
          [normal(131, 130), dict(shape=(10, -1))], [normal(1, 1), dict(shape=())]),
    *rows(shape.Permute, lambda x, axes: x.transpose(axes),
          [normal(2, 3, 4), dict(axes=(2, 0, 1))], [normal(), dict(axes=())], [normal(0, 4), dict(axes=(1, 0))],
          [normal(131, 130), dict(axes=(1, 0))]),
    *rows(shape.Expand, np.broadcast_to,
          [normal(3, 1), dict(shape=(2, 3, 4))], [normal(3, 4), dict(shape=(3, 4))], [normal(), dict(shape=(2, 3))],
          [normal(3, 1), dict(shape=(3, 0))], [normal(131, 1), dict(shape=(131, 130))]),
    *rows(shape.Concatenate, lambda *a, axis: np.concatenate(a, axis),
          [normal(2, 3), normal(2, 0), normal(2, 1), dict(axis=-1)],
          [normal(2, 2, 3), normal(2, 2, 1), dict(axis=2)], [normal(2, 3), normal(1, 3), dict(axis=0)],
          [normal(131, 130), normal(131, 130), dict(axis=1)], [normal(9000, 3), normal(9000, 1), dict(axis=1)]),
    *rows(shape.Stack, lambda *a, axis: np.stack(a, axis),
          [normal(2, 3), normal(2, 3), normal(2, 3), dict(axis=1)], [normal(2, 3), normal(2, 3), dict(axis=-1)],
          [normal(), normal(), dict(axis=0)], [normal(3, 0), normal(3, 0), dict(axis=1)],
          [normal(131, 130), normal(131, 130), dict(axis=2)]),
    *rows(shape.Flip, naive.flip,
          [normal(2, 3, 4), dict(axes=[0, 2])], [normal(), dict(axes=[])], [normal(0, 4), dict(axes=[1])],
          [normal(131, 130), dict(axes=[1])]),
    *rows(indexing.Index, lambda x, index: x[index],
          [normal(4, 5), dict(index=(slice(None, None, -2), 3))],
          [normal(4, 5), dict(index=np.array([0, 2, 0, -1]))],
          [normal(4, 5), dict(index=(None, Ellipsis, np.array([1, 1])))], [normal(4, 5), dict(index=keep)],
          [normal(), dict(index=())], [normal(), dict(index=None)],
          [normal(4, 0), dict(index=np.array([0, 2, 0, -1]))], [normal(4, 5), dict(index=np.array([], np.int64))],
          [normal(61, 280), dict(index=(slice(None), random.integers(-280, 280, 70)))]),
    *rows(diagonal.Diagonal, naive.diagonal,
          [normal(3, 4), dict(offset=1)], [normal(2, 5, 3), dict(offset=-1)], [normal(2, 3), dict(offset=5)],
          [normal(2, 95, 95), dict(offset=0)]),
    *rows(indexing.AddAt, naive.add_at,
          [normal(4, 2), dict(index=np.array([0, 2, 0, -1]), shape=(5, 2))],
          [normal(3, 2), dict(index=(np.array([[0], [-1], [0]]), np.array([3, 3])), shape=(5, 4))],
          [normal(4, 3), dict(index=(slice(None), np.array([1, 1, 0])), shape=(4, 5))],
          [normal(13)[: keep.sum()], dict(index=keep, shape=(4, 5))],
          [normal(2), dict(index=(slice(None, None, -2), 3), shape=(4, 5))],
          [normal(4, 2), normal(5, 2), dict(index=np.array([0, 2, 0, -1]), shape=(5, 2))],
          [normal(2), normal(4, 5), dict(index=(slice(None, None, -2), 3), shape=(4, 5))],
          [normal(), dict(index=(2, 1), shape=(4, 5))], [normal(), dict(index=(), shape=())],
          [normal(0, 5), dict(index=np.array([], np.int64), shape=(4, 5))],
          [normal(70, 280), dict(index=random.integers(-61, 61, 70), shape=(61, 280))],
          [normal(61, 280), dict(index=(slice(None), random.integers(-9, 9, 280)), shape=(61, 9))]),
    *rows(indexing.SetAt, naive.set_at,
          [normal(4, 5), normal(2), dict(index=(slice(None, None, -2), 3))],
          [normal(4, 5), normal(1, 1, 2), dict(index=(slice(None, None, -2), 3))],
          [normal(4, 5), normal(5), dict(index=np.array([2, 0, -1]))],
          [normal(4, 5), normal(3, 5), dict(index=np.array([2, 0, -1]))], [normal(), normal(), dict(index=())],
          [normal(4, 5), normal(0, 5), dict(index=np.array([], np.int64))],
          [normal(131, 130), normal(3, 130), dict(index=np.array([2, 0, -1]))]),
    *rows(gather.Scatter, naive.scatter,
          [normal(4, 5), normal(3, 2), dict(dim=1, indices=np.array([[4, 0], [1, 2], [2, 1]]))],
          [normal(4, 5), normal(2, 5), dict(dim=0, indices=np.array([[0, 1, 2, 3, 0], [3, 2, 1, 0, 1]]))],
          [normal(0, 5), normal(0, 2), dict(dim=1, indices=np.zeros((0, 2), np.int64))]),
    *rows(matmul.Einsum, naive.einsum,
          [normal(3, 4), normal(4, 5), dict(subscripts="ij,jk->ik")], [normal(2, 3, 4), dict(subscripts="abc->ca")],
          [normal(2, 1, 4), normal(3, 4), normal(3), dict(subscripts="bij,ij,k->bj")],
          [normal(3), normal(3), dict(subscripts="i,i->")], [normal(), normal(2, 3), dict(subscripts=",ij->ji")],
          [normal(3, 0), normal(0, 5), dict(subscripts="ij,jk->ik")],
          [normal(131, 65), normal(131, 65), dict(subscripts="ij,ij->ji")],
          [normal(2, 3, 2, 4), normal(2, 5, 2, 4), dict(subscripts="bthd,bshd->bhts")],
          [normal(2, 3, 4, 5), normal(5, 4, 2), dict(subscripts="bijk,kjb->ib")],
          [normal(2, 3, 1), normal(4, 5), dict(subscripts="bij,jk->bik")]),
    *rows(matmul.MatMul, naive.matmul,
          [normal(3, 4), normal(4, 5)], [normal(2, 1, 3, 4), normal(5, 4, 2)], [normal(7, 0), normal(0, 3)],
          [normal(33, 65), normal(65, 17)], [normal(0, 3), normal(3, 4)], [normal(131, 65), normal(65, 130)],
          [normal(2, 1, 70, 33), normal(3, 33, 41)]),
    *rows(matmul.Linear, naive.linear,
          [normal(2, 3, 4), normal(5, 4), normal(5)], [normal(3, 4), normal(5, 4), None],
          [normal(0, 4), normal(5, 4), normal(5)], [normal(70, 33), normal(17, 33), normal(17)],
          [normal(131, 65), normal(130, 65), normal(130)]),
    *rows(matmul.MLP, naive.mlp,
          [normal(2, 3, 4), normal(7, 4), normal(7), normal(5, 7), normal(5)],
          [normal(3, 4), normal(7, 4), None, normal(5, 7), None, dict(approximate="tanh")],
          [normal(0, 4), normal(7, 4), normal(7), normal(5, 7), normal(5)],
          [normal(70, 33), normal(97, 33), normal(97), normal(21, 97), normal(21)],
          [normal(131, 33), normal(130, 33), normal(130), normal(65, 130), normal(65)]),
    *rows(softmax.Softmax, naive.softmax,
          [normal(3, 5), dict(dim=1)], [normal(3, 5, 2), dict(dim=1)], [normal(40, 33), dict(dim=-1)],
          [normal(0, 5), dict(dim=1)], [normal(5, 0), dict(dim=1)], [normal(180, 97), dict(dim=1)]),
    *rows(softmax.LogSoftmax, naive.log_softmax,
          [normal(3, 5), dict(dim=1)], [normal(3, 5, 2), dict(dim=0)], [normal(0, 5), dict(dim=1)],
          [normal(180, 97), dict(dim=1)]),
    *rows(layer_norm.LayerNorm, naive.layer_norm,
          [normal(3, 5), normal(5), normal(5)], [normal(2, 3, 5), None, None, dict(eps=0.0)],
          [normal(70, 33), normal(33), None, dict(eps=1e-2)], [normal(0, 5), normal(5), normal(5)],
          [normal(3, 0), normal(0), normal(0)], [normal(180, 97), normal(97), normal(97)]),
    *rows(layer_norm.RMSNorm, naive.rms_norm,
          [normal(3, 5), normal(5)], [normal(2, 3, 5), None, dict(eps=0.0)], [normal(3, 0), normal(0)],
          [normal(0, 5), normal(5)], [normal(180, 97), normal(97), dict(eps=1e-2)]),
    *rows(losses.CrossEntropy, naive.cross_entropy,
          [normal(4, 3), dict(targets=np.array([0, 2, 1, 1]))],
          [normal(4, 3), dict(targets=np.array([0, -100, 1, 1]), reduction="none")],
          [normal(4, 3), dict(targets=np.array([0, 2, 7, 1]), ignore_index=7, reduction="sum")],
          [normal(4, 3), dict(targets=np.array([0, -100, 1, 1]), label_smoothing=0.2)],
          [normal(70, 65), dict(targets=random.integers(0, 65, 70))],
          [normal(0, 3), dict(targets=np.array([], np.int64), reduction="none")],
          [normal(180, 97), dict(targets=random.integers(0, 97, 180))]),
    Case(losses.BinaryCrossEntropy, [random.uniform(0.1, 0.9, (3, 4)), random.uniform(0, 1, (3, 4))],
         lambda p, t: -(t * np.log(p) + (1 - t) * np.log1p(-p))),
    *rows(losses.NegativeLogLikelihood, naive.negative_log_likelihood,
          [normal(4, 3), dict(targets=np.array([0, 2, 1, 1]))],
          [normal(4, 3), dict(targets=np.array([0, -100, 1, 1]), reduction="none")],
          [normal(4, 3), dict(targets=np.array([0, 2, 7, 1]), ignore_index=7)],
          [normal(180, 97), dict(targets=random.integers(0, 97, 180), ignore_index=5, reduction="sum")],
          [normal(0, 3), dict(targets=np.zeros(0, int), reduction="none")]),
    Case(losses.BinaryCrossEntropyWithLogits, [normal(3, 4), random.uniform(0, 1, (3, 4)), normal(4) + 2],
         lambda x, t, w: w * t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))),
    *[Case(op, [distinct(3, 4), target], naive.reduced(loss), {"reduction": reduction})
      for op, loss in [(losses.SquaredError, lambda d: d * d), (losses.AbsoluteError, abs)]
      for reduction, target in [("none", distinct(4) + 0.03), ("mean", 0.1 * distinct(3, 1) + 0.02), ("sum", 0.02)]],
    *rows(embedding.Embedding, naive.embedding,
          [normal(5, 3), None, dict(ids=np.array([[0, 4, 0], [2, 0, 4]]))],
          [normal(7, 130), None, dict(ids=random.integers(0, 7, 50))],
          [normal(5, 70), normal(4, 70), dict(ids=random.integers(0, 5, (12, 3)))],
          [normal(5, 3), None, dict(ids=np.array(3))], [normal(5, 3), None, dict(ids=np.zeros((2, 0), np.int64))],
          [normal(70, 130), normal(40, 130), dict(ids=random.integers(0, 70, (4, 33)))]),
    Case(dropout.Dropout, [normal(4, 5)], naive.dropout, dropping),
    Case(dropout.AddDropped, [normal(4, 5), normal(4, 5)], lambda a, b, **options: a + naive.dropout(b, **options),
         dropping),
    *rows(attention.WeightsDropout, naive.weights_dropout,
          [normal(2, 2, 17, 9), dropping], [normal(2, 0, 3), dropping], [normal(3, 70, 42), dropping]),
    attending((2, 3, 5, 4), 7),
    attending((2, 3, 5, 4), 7, is_causal=True, scale=0.3),
    attending((2, 3, 5, 4), 7, naive.Constant(mask)),
    attending((1, 2, 65, 8), 65, is_causal=True),
    attending((2, 3, 5, 4), 7, naive.Constant(mask), naive.Constant(0.5 * rotation[:, :4])),  # halved: the scores stay small
    attending((2, 2, 18, 4), 9, **dropping_weights),
    attending((5, 4), 7),
    attending((3, 5, 4), 7, naive.Constant(mask[0]), is_causal=True),
    attending((0, 3, 5, 4), 7),
    attending((2, 3, 5, 4), 0),
    attending((1, 2, 133, 32), 140, is_causal=True),
    *rows(attention.PackedAttention, naive.packed_attention,
          [normal(2, 5, 24), None, dict(num_heads=2)],
          [normal(2, 65, 36), naive.Constant(rotation), dict(num_heads=2, is_causal=True)],
          [normal(2, 65, 24), None, dict(num_heads=2, is_causal=True)],
          [normal(1, 70, 12), naive.Constant(rotation[:, :2]), dict(num_heads=2, is_causal=True, **dropping_weights)],
          [normal(2, 133, 96), None, dict(num_heads=2, is_causal=True)],
          [normal(1, 70, 12), None, dict(num_heads=2, is_causal=True, **dropping_weights)]),
    Case(attention.PackedAttention, [normal(2, 0, 24), None], lambda x, _, num_heads: x[..., :8], dict(num_heads=2)),
    *[Case(op, [draw(*shape)], naive.reduction(function), options)
      for op, function, draw in [
          (reduce.Sum, sum, normal), (reduce.Mean, naive.mean, normal), (statistics.Var, naive.variance, normal),
          (statistics.Std, naive.deviation, normal), (reduce.Max, max, distinct), (reduce.Min, min, distinct),
          (reduce.LogSumExp, naive.logsumexp, normal), (reduce.Norm, naive.length, normal),
      ] for shape, options in [((), {}), ((4, 0), dict(axis=0)), ((5, 61, 59), dict(axis=(0, 2)))]
      if shape or op not in (statistics.Var, statistics.Std)],
    *[Case(op, [normal()], lambda x, correction: np.array(0.0), dict(correction=0)) for op in (statistics.Var, statistics.Std)],
    *rows(gather.Gather, naive.gather,
          [normal(4, 5), dict(dim=1, indices=random.integers(5, size=(4, 7)))],
          [normal(4, 5), dict(dim=0, indices=random.integers(4, size=(6, 3)))],
          [normal(0, 5), dict(dim=1, indices=random.integers(5, size=(0, 7)))],
          [normal(131, 31), dict(dim=1, indices=random.integers(31, size=(130, 130)))]),
    *rows(gather.ScatterAdd, naive.scatter_add,
          [normal(4, 7), dict(dim=1, indices=random.integers(5, size=(4, 7)), shape=(4, 5))],
          [normal(6, 3), dict(dim=0, indices=random.integers(4, size=(6, 3)), shape=(4, 5))],
          [normal(0, 7), dict(dim=1, indices=random.integers(5, size=(0, 7)), shape=(0, 5))],
          [normal(130, 130), dict(dim=1, indices=random.integers(31, size=(130, 130)), shape=(131, 31))],
          [normal(4, 7), normal(4, 5), dict(dim=1, indices=random.integers(5, size=(4, 7)), shape=(4, 5))]),
    *rows(diagonal.FromDiagonal, naive.from_diagonal,
          [normal(3), dict(offset=1, shape=(4, 4))], [normal(2, 2), dict(offset=-1, shape=(2, 3, 4))],
          [normal(0), dict(offset=4, shape=(4, 4))], [normal(130), dict(offset=-1, shape=(131, 131))]),
    *rows(diagonal.Triangle, naive.triangle,
          [normal(2, 4, 3), dict(diagonal=1, upper=False)], [normal(3, 5), dict(diagonal=-1, upper=True)],
          [normal(0, 5), dict(diagonal=0, upper=True)], [normal(180, 97), dict(diagonal=20, upper=True)]),
    *rows(shape.Pad, naive.pad,
          [normal(3, 4), dict(index=(slice(1, 4), slice(0, 4)), shape=(4, 6), value=1.5)],
          [normal(), dict(index=(), shape=(), value=0.0)],
          [normal(0, 2), dict(index=(slice(1, 1), slice(0, 2)), shape=(3, 2), value=1.5)],
          [normal(131, 130), dict(index=(slice(1, 132), slice(0, 130)), shape=(133, 132), value=1.5)]),
    Case(gather.Scatter, [normal(140, 129), normal(130, 129)], naive.scatter,
         dict(dim=0, indices=np.argsort(random.random((140, 129)), 0)[:130])),
    *[Case(matmul.Dot, [normal(n), normal(n)], lambda a, b: sum(x * y for x, y in zip(a, b)), tolerance=5e-6)
      for n in (0, 5, 20_000)],
    *[Case(losses.CrossEntropyOfDistributions, [normal(*shape), random.uniform(0, 2, shape)],
           naive.cross_entropy_of_distributions) for shape in ((4, 3), (0, 3), (3, 0), (180, 97))],
    *rows(layer_norm.Normalize, naive.normalize,
          [normal(3, 5), dict(dim=1)], [normal(2, 3, 4), dict(dim=0, eps=1.5)], [normal(0, 5), dict(dim=1)],
          [normal(180, 97), dict(dim=0)]),
]

NEED_AN_AXIS = {  # all other ops take 0-d arrays as well
    gather.Gather, gather.Scatter, gather.ScatterAdd, diagonal.FromDiagonal, diagonal.Triangle, cumulative.CumSum,
    shape.Concatenate, diagonal.Diagonal, matmul.MatMul, matmul.Dot, matmul.Linear, matmul.MLP, softmax.Softmax,
    softmax.LogSoftmax, layer_norm.LayerNorm, layer_norm.RMSNorm, layer_norm.Normalize, losses.CrossEntropy,
    losses.NegativeLogLikelihood, losses.CrossEntropyOfDistributions,
    attention.ScaledDotProductAttention, attention.PackedAttention, attention.WeightsDropout,
}


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


FAMILIES = activations, arithmetic, comparison, dropout, elementary
ELEMENTWISE = {case.op for case in CASES if case.op.__module__ in [family.__name__ for family in FAMILIES]
               or issubclass(case.op, (elementary.Elementwise, losses.DifferenceLoss))}
CASES += [
    resized(case, resize)
    for case in CASES if case.op in ELEMENTWISE
    if all(0 < np.size(x) < 1000 for x in case.inputs)
    for resize in (as_number, without_columns, with_many_columns)
]

# The elementary functions: each has NumPy's and PyTorch's names, and a formula that can be computed.
ELEMENTARY = [op for op in vars(elementary).values()
              if isinstance(op, type) and issubclass(op, elementary.Elementary) and op is not elementary.Elementary]


def rows_of_each_op(cases: list[Case] = CASES) -> Callable:
    """Turn a test of one row into a test of each op, which tries all of its rows and reports every one that fails."""
    rows_of = defaultdict(list)
    for case in cases:
        rows_of[case.op.__name__].append(case)

    def of_each_op(test):
        @pytest.mark.parametrize("op", rows_of)
        def test_all_rows(op):
            each(rows_of[op], test)

        test_all_rows.__doc__ = test.__doc__
        return test_all_rows

    return of_each_op
