"""Layers as functions of the input, x in their formulas: linear maps, embeddings, norms, softmax, dropout."""
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor, ops, random
from minigrad.extend import apply, check_dim, compute, floating, pad as pad_with
from nn.checks import check_same_dtype, class_ids, one_of, positive_int, probability, row_of_padding
from nn.functional.activations import ACTIVATIONS


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """activation(x @ weight^T + bias), for x (..., I), weight (O, I), bias (O,); the result is (..., O).

    The activation is one of ACTIVATIONS, or None.
    """
    one_of("linear", "activation", activation, (None, *ACTIVATIONS))
    _check_linear("linear", input.shape, input, weight, bias)
    out = apply(ops.matmul.Linear, input, weight, bias)
    return out if activation is None else ACTIVATIONS[activation](out)


def mlp(x: Tensor, expand: Tensor, expand_bias: Tensor | None, project: Tensor, project_bias: Tensor | None,
        activation: str | None = "gelu") -> Tensor:
    """linear(linear(x, expand, expand_bias, activation), project, project_bias).

    With gelu or gelu_tanh it is one op, which saves less for backward.
    """
    if activation not in ("gelu", "gelu_tanh"):
        return linear(linear(x, expand, expand_bias, activation), project, project_bias)
    _check_linear("mlp, expand", x.shape, x, expand, expand_bias)
    _check_linear("mlp, project", expand.shape[:1], x, project, project_bias)
    approximate = "tanh" if activation == "gelu_tanh" else "none"
    return apply(ops.matmul.MLP, x, expand, expand_bias, project, project_bias, approximate=approximate)


def _check_linear(name: str, shape: tuple[int, ...], x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if weight.ndim != 2 or not shape or shape[-1] != weight.shape[1]:
        raise ValueError(f"{name}: mat1 and mat2 shapes cannot be multiplied ({shape} and {weight.shape} transposed): the "
                         "last axis of x must be the weight's in_features")
    if bias is not None and bias.shape != (weight.shape[0],):
        raise ValueError(f"{name}: expected a bias of shape {(weight.shape[0],)}, got {bias.shape}")
    check_same_dtype(name, x, weight, bias)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, *, positions: Tensor | None = None
) -> Tensor:
    """Rows of weight (V, C), picked by the input, ids (...) from 0 to V - 1: (..., C).

    Row padding_idx, which may count from the end, gets no gradient. Row t of a table of positions (P, C) is added at time t
    of the ids (..., T); T is at most P.
    """
    if weight.ndim != 2:
        raise ValueError(f"embedding: expected a weight of shape (V, C), got {weight.shape}")
    if positions is not None:
        if input.ndim == 0 or positions.ndim != 2 or positions.shape[1:] != weight.shape[1:]:
            raise ValueError(f"embedding: expected ids (..., T) and positions (P, {weight.shape[1]}), got {input.shape} "
                             f"and {positions.shape}")
        if input.shape[-1] > len(positions):
            raise ValueError(f"embedding: got {input.shape[-1]} ids in a row, and only {len(positions)} positions")
        check_same_dtype("embedding", weight, positions)
    rows_of = class_ids("embedding: ids", input, weight.shape[0])
    if padding_idx is None:
        return apply(ops.embedding.Embedding, weight, positions, ids=rows_of)
    padding_idx = row_of_padding("embedding", padding_idx, weight.shape[0])
    rows = apply(ops.embedding.Embedding, weight, None, ids=rows_of)
    is_padding = compute(np.equal, rows_of, padding_idx)[..., None]
    rows = mg.where(is_padding, rows.detach(), rows)
    return rows if positions is None else rows + positions[: input.shape[-1]]


def _hypotenuse(a: Tensor, b: float) -> Tensor:
    """sqrt(a^2 + b^2), also where a^2 overflows."""
    longer = a.detach().clamp(min=b)
    return longer * ((a / longer).square() + (b / longer).square()).sqrt()


def _root(x: Tensor) -> Tensor:
    """sqrt x, with gradient 0 at 0."""
    return mg.where(x == 0, 0.0, mg.where(x == 0, 1.0, x).sqrt())


DENOMINATORS: dict[str, Callable[[Tensor, float], Tensor]] = {  # of layer norm, from a standard deviation and eps
    "inside": lambda std, eps: _hypotenuse(std, math.sqrt(eps)),
    "outside": lambda std, eps: std + eps,
    "double_root": lambda std, eps: _root(std) + eps,
}


def layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, *, eps_at: str = "inside", unbiased: bool = False,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axes, of `normalized_shape`.

    eps_at names one of DENOMINATORS, and `unbiased` divides the variance by n - 1: see nn.LayerNorm.
    """
    x = floating(input)
    if eps_at == "inside" and not unbiased:
        return _normed("layer_norm", ops.layer_norm.LayerNorm, x, normalized_shape, eps, weight=weight, bias=bias)
    axes = _last_axes("layer_norm", x, normalized_shape, weight=weight, bias=bias)
    denominator = DENOMINATORS[one_of("layer_norm", "eps_at", eps_at, DENOMINATORS)]
    centred = x - x.mean(axes, keepdim=True)
    centred = centred - centred.mean(axes, keepdim=True)  # the mean of large numbers is rounded
    out = centred / denominator(x.std(axes, correction=int(unbiased), keepdim=True), eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean of x^2 + eps) * weight, over the last axes (Zhang and Sennrich, arXiv:1910.07467).

    eps is the dtype's machine epsilon unless given.
    """
    input = floating(input)
    eps = float(np.finfo(input.dtype).eps) if eps is None else eps
    return _normed("rms_norm", ops.layer_norm.RMSNorm, input, normalized_shape, eps, weight=weight)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / its p-norm along dim, or x / eps where the norm is smaller."""
    if p == 2 and isinstance(dim, int) and input.ndim:
        return apply(ops.layer_norm.Normalize, floating(input), dim=check_dim("normalize", input, dim), eps=eps)
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """e^x / sum of e^x along dim."""
    return input.softmax(dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """x - log(sum of e^x along dim)."""
    return input.log_softmax(dim, dtype)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, each element is zeroed with probability p, and otherwise multiplied by 1 / (1 - p).

    `inplace` is there for code written for PyTorch, and changes nothing: the result has memory of its own.
    """
    p = probability("dropout", "p", p)
    if not training or p == 0.0:
        return input
    return apply(ops.dropout.Dropout, floating(input), key=key_of(ops.dropout.Dropout, input.shape), p=p)


def add_dropped(a: Tensor, b: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """a + dropout(b, p, training), in one pass: a residual connection.

    >>> import minigrad as mg
    >>> add_dropped(mg.ones(2), mg.ones(2), training=False)
    tensor([2., 2.])
    >>> sum(set(add_dropped(mg.ones(1000), mg.ones(1000), p=0.5).tolist()))  # dropped, 1; kept, 1 + 1 / (1 - p)
    4.0
    """
    p = probability("add_dropped", "p", p)
    if not training or p == 0.0 or a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind != "f":
        return a + dropout(b, p, training)
    return apply(ops.dropout.AddDropped, a, b, key=key_of(ops.dropout.Dropout, b.shape), p=p)


def key_of(op: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The random key of a dropout op's mask for an array of this shape; each replay of a compiled step draws a new one."""
    return compute(random.key_of_batch, op.positions(shape))


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each id of the input (...), else 0, along a new last axis: (..., num_classes), by default max id + 1."""
    if num_classes == -1:
        if input.numel() == 0:
            raise ValueError("one_hot: cannot tell the number of classes from no ids; give num_classes")
        num_classes = int(input.max().item()) + 1
    positive_int("one_hot", "num_classes", num_classes)
    return input.constant(_one_hot, class_ids("one_hot: ids", input, num_classes), num_classes)


def _one_hot(ids: np.ndarray, num_classes: int) -> np.ndarray:
    out = np.zeros((*ids.shape, num_classes), np.int64)
    out.reshape(-1)[ids.reshape(-1) + np.arange(ids.size) * num_classes] = 1
    return out


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """The input with `value` (0) around it: pad is (before, after) of the last axis, then of the one before it, ..."""
    if mode != "constant":
        raise ValueError(f"pad: only mode 'constant' is supported, got {mode!r}")
    return pad_with(input, pad, 0.0 if value is None else value)


def _normed(function: str, op: type[Any], x: Tensor, normalized_shape: int | Sequence[int], eps: float,
            **parameters: Tensor | None) -> Tensor:
    """Apply an op on rows over the last axes."""
    axes = _last_axes(function, x, normalized_shape, **parameters)
    if len(axes) == 1:
        return apply(op, x, *parameters.values(), eps=eps)
    flat = [p if p is None else p.reshape(-1) for p in parameters.values()]
    return apply(op, x.flatten(-len(axes)), *flat, eps=eps).reshape(x.shape)


def _last_axes(
    function: str, x: Tensor, normalized_shape: int | Sequence[int], **parameters: Tensor | None
) -> tuple[int, ...]:
    """The last axes of x, checked to have normalized_shape, as the parameters must."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ValueError(f"{function}: expected an input of shape (..., {str(shape)[1:-1]}), got {x.shape}")
    for name, parameter in parameters.items():
        if parameter is not None and parameter.shape != shape:
            raise ValueError(f"{function}: expected a {name} of shape {shape}, got {parameter.shape}")
    check_same_dtype(function, x, *parameters.values())
    return tuple(range(-len(shape), 0))
