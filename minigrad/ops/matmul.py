"""Products of matrices and, by einsum, of tensors.

The gradient of one factor is dout times the other factor, transposed where shapes require it.
For out = a @ b, out_ij = sum_k a_ik b_kj, so
    da_ik = sum_j dout_ij b_kj   is  da = dout @ b^T
    db_kj = sum_i a_ik dout_ij   is  db = a^T @ dout
"""
from __future__ import annotations

import functools
from typing import Any, Generic, Sequence

import numpy as np

from .. import backend
from ..arrays.annotations import Tensor, TensorLike
from ..backend import in_order, is_tensor
from .kinds import Fused, View
from ..tape import Op
from .activations import Gelu, gelu_slope
from .arithmetic import Mul
from .numpy_protocol import answers
from .operands import call, operand, rows_of
from .reduce import column_sum


LABELS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of einsum


class MatMul(Op):
    """out = a @ b:  da = dout @ b^T,  db = a^T @ dout

    (..., M, K) @ (..., K, N) -> (..., M, N), leading axes broadcast.
    """

    is_in_order = True
    saved_for = (1,), (0,)

    def forward(self, a, b):
        self.save(a, b)
        return np.matmul(a, b)

    def backward(self, dout, a, b):
        da = call(MatMul, dout, b.swapaxes(-1, -2)) if self.needs(0) else None
        db = call(MatMul, a.swapaxes(-1, -2), dout) if self.needs(1) else None
        return da, db


class Dot(Mul):
    """out = sum of a * b, for vectors:  da = dout * b,  db = dout * a"""

    def forward(self, a, b):
        self.save(a, b)
        return backend.sum(a * b)  # in float64: a long sum in float32 loses digits


def linear(x, weight, bias):
    """x @ weight^T + bias"""
    out = np.matmul(x, np.swapaxes(weight, 0, 1))
    return out if bias is None else out + bias


def linear_backward(op: Op, i: int, dout, x, weight) -> tuple:
    """The gradients of x, weight and bias that op needs; x is its input i, or computed from the inputs before that."""
    dx = np.matmul(dout, weight) if i or op.needs(0) else None
    dweight = np.matmul(np.swapaxes(rows_of(dout), 0, 1), rows_of(x)) if op.needs(i + 1) else None
    return dx, dweight, column_sum(dout) if op.needs(i + 2) else None


class Linear(Fused):
    """out = x @ weight^T + bias:  dx = dout @ weight,  dweight = dout^T @ x,  dbias = columnsum(dout)

    x (..., I), weight (O, I), bias (O,) -> (..., O). Leading axes become rows of one product.
    """

    saved_for = (1,), (0,)

    def forward(self, x, weight, bias=None):
        self.save(x, weight)
        return linear(x, weight, bias)

    def backward(self, dout, x, weight):
        return linear_backward(self, 0, dout, x, weight)


class MLP(Fused):
    """out = gelu(h) @ project^T + project_bias, h = x @ expand^T + expand_bias:
    dproject = dout^T @ gelu(h),  dproject_bias = columnsum(dout),  dh = (dout @ project) * gelu'(h),
    dexpand = dh^T @ x,  dexpand_bias = columnsum(dh),  dx = dh @ expand

    x (..., I), expand (H, I), expand_bias (H,), project (O, H), project_bias (O,) -> (..., O).
    Saves its inputs and h, but recomputes gelu(h).
    """

    saves_inputs = True

    def forward(self, x, expand, expand_bias, project, project_bias, *, approximate="none"):
        self.approximate = approximate
        hidden = linear(x, expand, expand_bias)
        self.save(x, expand, expand_bias, project, project_bias, hidden)
        return linear(call(Gelu, hidden, approximate=approximate), project, project_bias)

    def backward(self, dout, x, expand, expand_bias, project, project_bias, hidden):
        activated = call(Gelu, hidden, approximate=self.approximate)
        dactivated, dproject, dproject_bias = linear_backward(self, 2, dout, activated, project)
        dhidden = dactivated * gelu_slope(hidden, self.approximate)
        return *linear_backward(self, 0, dhidden, x, expand), dproject, dproject_bias


def as_tensors(a: Any, b: Any) -> tuple[Any, Any]:
    """Both as Tensors, if one of them is."""
    tensor: Any = a if is_tensor(a) else b
    a, b = (x if is_tensor(x) else tensor.constant(np.asarray, operand(x)) for x in (a, b))
    return a, b


@answers(np.matmul)
def matmul(a: TensorLike, b: TensorLike) -> Any:
    """The matrix product of (..., M, K) and (..., K, N), leading axes broadcast; a 1-d factor is a row or a column.

    >>> from minigrad import tensor
    >>> matmul(tensor([[1.0, 2.0]]), tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    if not (is_tensor(a) and is_tensor(b)):
        a, b = as_tensors(a, b)
    shape_a, shape_b = a.shape, b.shape
    if not (shape_a and shape_b):
        raise ValueError(f"matmul: both arguments need at least one axis, got shapes {shape_a} and {shape_b}")
    if a.dtype != b.dtype:
        raise TypeError(
            f"matmul: expected both of the same dtype, got {a.dtype} and {b.dtype}; convert one with .to(dtype)"
        )
    row, column = len(shape_a) == 1, len(shape_b) == 1
    if shape_a[-1] != shape_b[0 if column else -2]:
        raise ValueError(f"mat1 and mat2 shapes cannot be multiplied ({shape_a} and {shape_b}): inner sizes differ")
    if row and column:
        return a.apply_op(Dot, a, b)
    try:
        out = a.apply_op(MatMul, a.unsqueeze(0) if row else a, b.unsqueeze(1) if column else b)
    except ValueError:
        raise ValueError(f"matmul: leading axes of {shape_a} and {shape_b} do not broadcast") from None
    if not (row or column):
        return out
    *leading, rows, columns = out.shape
    return out.reshape(leading + [rows] * (not row) + [columns] * (not column))


def _product_of(name: str, ndim: int, a, b):
    if a.ndim != ndim or b.ndim != ndim:
        raise ValueError(f"{name}: expected {ndim}-D tensors, got shapes {a.shape} and {b.shape}")
    return matmul(a, b)


class MatmulMethods(Generic[Tensor]):
    def __rmatmul__(self: Tensor, other: TensorLike) -> Tensor: return matmul(other, self)

    def matmul(self: Tensor, other: TensorLike) -> Tensor:
        """self @ other: the matrix product of (..., M, K) and (..., K, N); a 1-d factor is a row or a column."""
        return matmul(self, other)

    __matmul__ = matmul

    def mm(self: Tensor, mat2: Tensor) -> Tensor:
        """The product of two matrices, (M, K) and (K, N)."""
        return _product_of("mm", 2, self, mat2)

    def bmm(self: Tensor, mat2: Tensor) -> Tensor:
        """The products of two stacks of matrices, (B, M, K) and (B, K, N)."""
        if self.shape[:1] != mat2.shape[:1]:
            raise ValueError(f"bmm: expected stacks of the same length, got {self.shape} and {mat2.shape}")
        return _product_of("bmm", 3, self, mat2)

    def dot(self: Tensor, tensor: Tensor) -> Tensor:
        """The inner product of two vectors, a number."""
        return _product_of("dot", 1, self, tensor)

    def outer(self: Tensor, vec2: Tensor) -> Tensor:
        """out_ij = self_i vec2_j, of two vectors."""
        if self.ndim != 1 or vec2.ndim != 1:
            raise ValueError(f"outer: expected 1-D tensors, got shapes {self.shape} and {vec2.shape}")
        return self.unsqueeze(1) * vec2


@answers(np.dot)
def _dot(a: Any, b: Any) -> Any:
    """NumPy's dot: a @ b of vectors and matrices; of numbers, a * b."""
    a, b = as_tensors(a, b)
    if not (a.ndim and b.ndim):
        return a * b
    if b.ndim > 2:
        raise ValueError(f"np.dot: b has at most two axes, got shape {b.shape}; use @ or mg.einsum")
    return matmul(a, b)


@answers(np.outer)
def _outer(a: Any, b: Any) -> Any:
    """NumPy's outer: of arrays of any shape, as vectors."""
    a, b = as_tensors(a, b)
    return a.ravel().outer(b.ravel())


class Einsum(View):
    """out = einsum("labels,labels,...->labels", a, b, ...):  dx = einsum of dout and the other factors, to the labels of x

    For out_ik = sum_j a_ij b_jk, written "ij,jk->ik", the gradient of a factor is the sum over the labels that it lacks:
        da_ij = sum_k dout_ik b_jk   is   "ik,jk->ij"
    so the output and the factor change places, and the gradient of an einsum is an einsum.
    No label occurs twice in one factor. A label that only x has was summed over in x alone, so dx is constant along it.
    """

    def forward(self, *factors, subscripts):
        inputs, self.output = subscripts.split("->")
        self.inputs = inputs.split(",")
        self.saved_for = all_others(len(factors))
        self.save(*factors)
        out = backend.sum_of_products(subscripts, *factors)
        return out if out.ndim == factors[0].ndim and len(factors) == 1 else in_order(out)  # a view may keep its strides

    def backward(self, dout, *factors):
        return tuple(self.gradient(i, dout, factors) if self.needs(i) else None for i in range(len(factors)))

    def gradient(self, i, dout, factors):
        labels = [self.output] + self.inputs[:i] + self.inputs[i + 1 :]
        kept = "".join(label for label in self.inputs[i] if any(label in other for other in labels))
        others = factors[:i] + factors[i + 1 :]
        dx = call(Einsum, dout, *others, subscripts=f"{','.join(labels)}->{kept}")
        places = tuple(slice(None) if label in kept else None for label in self.inputs[i])
        dx = dx[places] if places else dx
        shape = self.parents[i].shape
        if dx.shape == shape:
            return dx
        # This also covers a label of length 1 in another factor; where it is 1 in this one, the tape sums.
        return np.broadcast_to(dx, np.broadcast_shapes(dx.shape, shape))


@functools.cache
def all_others(n: int) -> tuple[tuple[int, ...], ...]:
    """For each of n factors, the others, whose gradients need it."""
    return tuple(tuple(j for j in range(n) if j != i) for i in range(n))


@answers(np.einsum)
def einsum(equation: str, *operands: TensorLike | Sequence[TensorLike]) -> Any:
    """Products of the operands, summed over each label that the output lacks.

    An ellipsis stands for all other axes, broadcast; a label twice in one operand takes its diagonal. Without "->", the
    output has the labels that occur once, in alphabetical order, after the axes of the ellipsis.

    >>> from minigrad import tensor
    >>> einsum("ij,j->i", tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, -1.0])).tolist()
    [-1.0, -1.0]
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    tensor = next((x for x in operands if is_tensor(x)), None)
    if tensor is None:
        raise TypeError("einsum: expected a Tensor among the operands; for arrays use np.einsum")
    factors = [x if is_tensor(x) else tensor.constant(np.asarray, x) for x in operands]
    if len({x.dtype for x in factors}) > 1:
        raise TypeError(f"einsum: expected one dtype, got {[str(x.dtype) for x in factors]}; convert with .to(dtype)")
    inputs, output = without_ellipsis(equation.replace(" ", ""), factors)
    for i, labels in enumerate(inputs):
        factors[i], inputs[i] = diagonals(factors[i], labels)
    try:
        return tensor.apply_op(Einsum, *factors, subscripts=f"{','.join(inputs)}->{output}")
    except ValueError as error:
        raise ValueError(f"einsum: {equation!r} does not fit shapes {[x.shape for x in factors]}: {error}") from None


def without_ellipsis(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """One label for each axis of each operand, and the output's labels."""
    left, arrow, output = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ValueError(f"einsum: {equation!r} takes {len(inputs)} operands, got {len(operands)}")
    free = "".join(label for label in LABELS if label not in equation)
    longest = ""
    for i, (labels, x) in enumerate(zip(inputs, operands)):
        rest = x.ndim - len(labels.replace("...", ""))
        if rest < 0 or rest > 0 and "..." not in labels:
            raise ValueError(f"einsum: operand {i} has shape {x.shape}, which does not fit its subscripts {labels!r}")
        inputs[i] = labels.replace("...", free[:rest][::-1])  # counted from the last axis, as in broadcasting
        longest = max(longest, free[:rest][::-1] if "..." in labels else "", key=len)
    if not arrow:
        named = left.replace(",", "").replace(".", "")
        output = "..." + "".join(sorted(label for label in set(named) if named.count(label) == 1))
    return inputs, output.replace("...", longest)


def diagonals(x, labels: str):
    """The operand and its labels without repeated labels: x_ii becomes the vector of its diagonal."""
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(f"einsum: label {label!r} stands for two lengths in an operand of shape {x.shape}")
            x = x.diagonal(0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return x, labels
