"""Losses: how far a prediction is from its target, as one number ('mean', 'sum') or one per element ('none').

Losses that are logarithms of probabilities take logits or log-probabilities, so that nothing underflows; 0 log 0 is 0, so
a class without a target or a weight adds nothing, though its logit be -inf (in PyTorch the loss is NaN). Where PyTorch
still has `size_average` and `reduce` in between, the arguments after them are keyword-only.
"""
import warnings
from typing import Any

import numpy as np

from minigrad import Tensor, ops, where
from minigrad.extend import apply, binary, compute, floating, promote
from nn.checks import class_ids


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """log(sum of e^input) - input[target], for logits (V,), (N, V) or (N, V, d1, ...) and targets without V.

    Targets equal to ignore_index do not count. `weight` (V,) weights the classes, and the mean is weighted, too.
    label_smoothing spreads that fraction of each target evenly over all classes. Floating-point targets of the logits'
    shape are class probabilities.
    """
    _check("cross_entropy", reduction)
    class_dim = min(input.ndim, 2) - 1
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}")
    if input.ndim and target.shape == input.shape and target.dtype.kind == "f":
        return _cross_entropy_of_distributions(input, target, class_dim, weight, reduction, label_smoothing)
    ids = _targets("cross_entropy", input, target, ignore_index)
    if weight is not None:
        log_p = floating(input).log_softmax(class_dim)
        return _weighted_loss("cross_entropy", log_p, ids, weight, ignore_index, reduction, label_smoothing)
    op = ops.losses.CrossEntropy
    return _loss_of_rows(op, input, ids, ignore_index, reduction, label_smoothing=label_smoothing)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], for log-probabilities (V,), (N, V) or (N, V, d1, ...), as log_softmax gives them."""
    _check("nll_loss", reduction)
    ids = _targets("nll_loss", input, target, ignore_index)
    if weight is not None:
        return _weighted_loss("nll_loss", input, ids, weight, ignore_index, reduction)
    op = ops.losses.NegativeLogLikelihood
    return _loss_of_rows(op, input, ids, ignore_index, reduction)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(input - target)^2"""
    _check("mse_loss", reduction)
    return _difference_loss("mse_loss", ops.losses.SquaredError, input, target, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """|input - target|, with gradient 0 where they are equal"""
    _check("l1_loss", reduction)
    return _difference_loss("l1_loss", ops.losses.AbsoluteError, input, target, reduction)


def _difference_loss(name: str, op: type[Any], x: Tensor, target: Tensor, reduction: str) -> Tensor:
    if isinstance(x, Tensor) and isinstance(target, Tensor) and x.shape != target.shape:
        warnings.warn(f"{name}: Using a target size {target.shape} that is different to the input size {x.shape}. Both are "
                      "broadcast, which is likely wrong; reshape one of them", stacklevel=3)
    return binary(op, floating(x) if reduction == "mean" else x, target, reduction=reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-(target log p + (1 - target) log(1 - p)) for probabilities p, the input, with logarithms of at least -100

    Near 0 and 1 p has lost its digits: prefer binary_cross_entropy_with_logits. ValueError if an element of p is not
    between 0 and 1.
    """
    _check("binary_cross_entropy", reduction)
    _check_same_shape("binary_cross_entropy", input, target)
    input, target = promote(floating(input), floating(target))
    compute(_check_probabilities, input)
    losses = apply(ops.losses.BinaryCrossEntropy, input, target)
    return _reduced(losses if weight is None else losses * weight, reduction)


def _check_probabilities(p: np.ndarray) -> np.ndarray:
    is_outside = (p < 0) | (p > 1)
    if is_outside.any():
        raise ValueError("binary_cross_entropy: all elements of input should be between 0 and 1, got "
                         f"{p[is_outside][0]}; for logits there is binary_cross_entropy_with_logits")
    return p


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-(target log p + (1 - target) log(1 - p)), p = sigmoid(input); `pos_weight` multiplies the first term

    It is computed from log p = -softplus(-input) and log(1 - p) = -softplus(input), which are exact for p near 0 and 1.
    """
    _check("binary_cross_entropy_with_logits", reduction)
    _check_same_shape("binary_cross_entropy_with_logits", input, target)
    x, target = promote(floating(input), floating(target))
    if pos_weight is not None:
        x, pos_weight = promote(x, floating(pos_weight))
        target, pos_weight = promote(target, pos_weight)
    op = ops.losses.BinaryCrossEntropyWithLogits
    losses = apply(op, x, target, 1.0 if pos_weight is None else pos_weight)
    return _reduced(losses if weight is None else _weighted(losses, weight), reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log target - input) for log-probabilities, 0 where target is 0; with log_target, log-probabilities, too

    'batchmean' divides the sum by the length of the first axis, as the divergence is defined; 'mean' by the number of
    elements.
    """
    _check("kl_div", reduction, ("mean", "sum", "none", "batchmean"))
    p = target.exp() if log_target else target
    is_zero = p == 0
    log_p = target if log_target else where(is_zero, 1.0, target).log()
    losses = p * where(is_zero, 0.0, log_p - input)
    if reduction == "batchmean":
        return losses.sum() / len(losses)
    return _reduced(losses, reduction)


def _targets(name: str, x: Tensor, targets: Tensor, ignore_index: int) -> np.ndarray:
    """The class ids, checked to fit x (V,), (N, V) or (N, V, d1, ...)."""
    if x.ndim == 0 or targets.shape != (() if x.ndim == 1 else x.shape[:1] + x.shape[2:]):
        raise ValueError(f"{name}: expected logits (N, V) or (N, V, d1, ...) and targets (N, d1, ...), got {x.shape} and "
                         f"{targets.shape}")
    return class_ids(f"{name}: targets", targets, x.shape[min(x.ndim, 2) - 1], ignore_index)


def _loss_of_rows(
    op: type[Any], x: Tensor, ids: np.ndarray, ignore_index: int, reduction: str, **options: float
) -> Tensor:
    """An op on rows (N, V) and their targets, applied to x (V,), (N, V) or (N, V, d1, ...)."""
    rows = floating(x if x.ndim <= 2 else x.movedim(1, -1))
    rows = rows if rows.ndim == 2 else rows.reshape(ids.size, x.shape[min(x.ndim, 2) - 1])
    loss = apply(op, rows, targets=ids.reshape(-1), ignore_index=ignore_index, reduction=reduction, **options)
    return loss.reshape(ids.shape) if reduction == "none" else loss


def _weighted_loss(
    name: str, log_p: Tensor, ids: np.ndarray, weight: Tensor, ignore_index: int, reduction: str,
    label_smoothing: float = 0.0,
) -> Tensor:
    """-weight[target] * log_p[target], smoothed over all classes, with a weighted mean."""
    class_dim = min(log_p.ndim, 2) - 1
    classes = log_p.shape[class_dim]
    weights = _class_weights(name, weight, log_p, class_dim)
    is_counted = compute(np.not_equal, ids, ignore_index)
    targets = compute(_some_class, ids, class_dim, ignore_index)
    of_target = where(is_counted, weights.reshape(-1)[targets].squeeze(class_dim), 0.0)
    losses = -_weighted(where(is_counted, log_p.gather(class_dim, targets).squeeze(class_dim), 0.0), of_target)
    if label_smoothing:
        of_all = -where(is_counted, _weighted(log_p, weights).sum(class_dim), 0.0)
        losses = _weighted(losses, 1.0 - label_smoothing) + label_smoothing / classes * of_all
    return losses.sum() / of_target.sum() if reduction == "mean" else _reduced(losses, reduction)


def _weighted(logarithms: Tensor, weight: Tensor | float) -> Tensor:
    """Their product, where 0 log 0 = 0."""
    return where((weight == 0) & logarithms.isinf(), 0.0, logarithms) * weight


def _some_class(ids: np.ndarray, class_dim: int, ignore_index: int) -> np.ndarray:
    """The ids with a new axis class_dim, and class 0 for ignore_index."""
    return np.expand_dims(np.where(ids == ignore_index, 0, ids), class_dim)


def _cross_entropy_of_distributions(
    logits: Tensor, targets: Tensor, class_dim: int, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """-sum over classes of weight * target * log_softmax(logits); the mean is over the examples."""
    logits, wanted = promote(floating(logits), targets)
    classes = logits.shape[class_dim]
    if label_smoothing:
        wanted = wanted * (1.0 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        wanted = wanted * _class_weights("cross_entropy", weight, logits, class_dim)
    rows = [x if x.ndim == 2 else x.movedim(class_dim, -1).reshape(-1, classes) for x in (logits, wanted)]
    losses = apply(ops.losses.CrossEntropyOfDistributions, *rows)
    shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    return _reduced(losses if losses.shape == shape else losses.reshape(shape), reduction)


def _class_weights(name: str, weight: Tensor, log_p: Tensor, class_dim: int) -> Tensor:
    """The weights (V,), reshaped to broadcast against log_p."""
    classes = log_p.shape[class_dim]
    if weight.shape != (classes,):
        raise ValueError(f"{name}: expected a weight for each of {classes} classes, got shape {weight.shape}")
    return weight.reshape((classes,) + (1,) * (log_p.ndim - class_dim - 1))


def _check_same_shape(name: str, x: Tensor, target: Tensor) -> None:
    if target.shape != x.shape:
        raise ValueError(f"{name}: target size must be the same as input size, got {target.shape} and {x.shape}")


def _check(name: str, reduction: str, reductions: tuple[str, ...] = ("mean", "sum", "none")) -> None:
    if reduction not in reductions:
        raise ValueError(f"{name}: reduction is one of {', '.join(map(repr, reductions))}, got {reduction!r}")


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()
