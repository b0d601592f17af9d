"""Multiply-adds of matrix products, counted from shapes: `mg.count_flops`."""
import collections
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ..ops.attention import PackedAttention, ScaledDotProductAttention
from ..ops.matmul import MLP, Dot, Einsum, Linear, MatMul
from ..observer import Observer
from ..tape import Op

ALWAYS = -1  # in place of an input: backward computes this product whichever gradients are needed
Products = list[tuple[int, tuple[int, ...]]]  # (multiply-adds, for the gradients of which inputs backward repeats them)


def of_einsum(op: Einsum, factors: Sequence[np.ndarray], output: np.ndarray) -> Products:
    lengths = {label: n for labels, x in zip(op.inputs, factors) for label, n in zip(labels, x.shape) if n != 1}
    return [(math.prod(lengths.values()), tuple(range(len(factors))))] if len(factors) > 1 else []


def of_mlp(op: MLP, arrays: Sequence[np.ndarray], output: np.ndarray) -> Products:
    x, expand, *_ = arrays
    return [(x.size // max(x.shape[-1], 1) * expand.size, (0, 1)), (output.size * expand.shape[0], (ALWAYS, 3))]


def of_attention(heads: int, features: int, queries: int, keys: int, is_causal: bool) -> Products:
    seen = sum(min(t + 1, keys) for t in range(queries)) if is_causal else queries * keys
    size = heads * features * seen
    return [(size, (ALWAYS,) * 3), (size, (ALWAYS,) * 2)]  # scores: again, dq and dk; out: dv and dweights


PRODUCTS: dict[type, Callable[[Any, Any, Any], Products]] = {  # by op: a function of (op, arrays, output)
    MatMul: lambda op, arrays, output: [(output.size * arrays[0].shape[-1], (0, 1))],
    Linear: lambda op, arrays, output: [(output.size * arrays[0].shape[-1], (0, 1))],
    Dot: lambda op, arrays, output: [(arrays[0].size, (0, 1))],
    MLP: of_mlp,
    Einsum: of_einsum,
    ScaledDotProductAttention: lambda op, arrays, output: of_attention(
        math.prod(output.shape[:-2]), arrays[0].shape[-1], output.shape[-2], arrays[1].shape[-2], op.is_causal),
    PackedAttention: lambda op, arrays, output: of_attention(
        output.shape[0], output.shape[2], output.shape[1], output.shape[1], op.is_causal),
}


def products_of(op: Op, arrays: Sequence[Any], output: np.ndarray) -> Products:
    rule = next((PRODUCTS[kind] for kind in type(op).__mro__ if kind in PRODUCTS), None)
    return rule(op, arrays, output) if rule else []


class count_flops(Observer):
    """Counts the multiply-adds of matrix products in a block, op by op, forward and backward.

    `forward_counts` and `backward_counts` are Counters by the op's name; `total` is the sum of both. A multiply-add is two
    floating-point operations. Elementwise work (norms, activations, softmax) is not counted. Causal attention counts
    only the keys that are seen, and its backward counts the scores again, since it recomputes them.

    >>> import minigrad as mg
    >>> a, b = mg.ones(2, 3, requires_grad=True), mg.ones(3, 4)
    >>> with count_flops() as count:
    ...     (a @ b).sum().backward()
    >>> count.forward_counts, count.backward_counts, count.total
    (Counter({'MatMul': 24}), Counter({'MatMul': 24}), 48)
    """

    def __enter__(self) -> Self:
        super().__enter__()
        self.forward_counts: collections.Counter[str] = collections.Counter()
        self.backward_counts: collections.Counter[str] = collections.Counter()
        return self

    def forward(self, op: Any, inputs: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
        output = super().forward(op, inputs, arrays, options)
        op.products = products_of(op, arrays, output)
        _add(self.forward_counts, op, sum(size for size, _ in op.products))
        return output

    def backward(self, op: Any, dout: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        _add(self.backward_counts, op, sum(
            size * sum(i == ALWAYS or op.needs(i) for i in inputs) for size, inputs in getattr(op, "products", ())))
        return super().backward(op, dout)

    @property
    def total(self) -> int:
        """The sum of both."""
        return self.forward_counts.total() + self.backward_counts.total()


def _add(counts: collections.Counter, op, multiply_adds: int) -> None:
    if multiply_adds:
        counts[op.title] += multiply_adds
