"""Losses: cross-entropy of logits with target classes or distributions, and its last step alone, from log-probabilities; of
two classes, from probabilities and from logits; and losses of a difference, such as the squared error."""
import math
from collections.abc import Callable

import numpy as np

from .. import backend
from .kinds import Fused
from ..tape import Op
from .activations import Logsigmoid, log_of_one_plus_exp
from .elementary import Elementwise, Sigmoid
from .indexing import SetAt
from .softmax import LogSoftmax, Softmax
from .operands import call


def times_log(share, log_p):
    """share * log p, where 0 log 0 = 0"""
    return share * np.where(share == 0, 0.0, log_p)


class CrossEntropy(Fused):
    """out = columnsum(logsumexp - rowsum(q * x)) / N, logsumexp = log(rowsum(e^x)):  dx = dout * (softmax(x) - q) / N

    x (N, V) are logits, targets (N,). That is the mean of the rows' losses; `reduction` can also be "sum" or "none".
    The target distribution q is 1 at target_n, else 0; with label smoothing s, q = (1 - s) [v = target_n] + s / V.
    The gradient of one row: loss = -sum_v q_v log p_v, where log p_v = x_v - log(sum_w e^(x_w)), the log-softmax. The
    logarithm's derivative by x_w is e^(x_w) / sum = p_w, so d log p_v / dx_w = [v = w] - p_w, and as the q_v sum to 1,
        dx_w = -dloss sum_v q_v ([v = w] - p_w) = dloss (p_w - q_w):  the probabilities minus the targets.
    Rows whose target is ignore_index have no loss and no gradient; the mean is over the others, and NaN if there are none.
    """

    def forward(self, x, *, targets, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        self.is_counted = targets != ignore_index
        self.is_target = (targets[:, None] == np.arange(x.shape[-1])) & self.is_counted[:, None]
        self.smoothing, self.divisor = label_smoothing, divisor(self.is_counted, reduction, x.dtype)
        self.save(x)
        log_p = call(LogSoftmax, x, dim=-1)
        expected = np.sum(np.where(self.is_target, log_p, 0.0), axis=-1)
        if label_smoothing:
            expected = times_log(1 - label_smoothing, expected) + label_smoothing * np.mean(log_p, axis=-1)
        losses = np.where(self.is_counted, -expected, 0.0)
        return losses if reduction == "none" else np.sum(losses) / self.divisor

    def backward(self, dout, x):
        wanted = np.full(x.shape, self.smoothing / max(x.shape[-1], 1), x.dtype)
        wanted[self.is_target] += 1 - self.smoothing
        probabilities = call(Softmax, x, dim=-1)
        dx = (probabilities - wanted) * (np.reshape(dout, (-1, 1)) / self.divisor)
        return np.where(self.is_counted[:, None], dx, 0.0)  # not a product: 0 * inf would be NaN


class CrossEntropyOfDistributions(Fused):
    """out = -rowsum(q * log(softmax(x))):  dx = dout * (softmax(x) * rowsum(q) - q),  dq = -dout * log(softmax(x))

    x (N, V) are logits, q (N, V) target probabilities with any sum; there is a loss for each row. 0 log 0 is 0. Where the q
    sum to 1, the gradient is that of CrossEntropy.
    """

    def forward(self, x, q):
        self.save(x, q)
        return -np.sum(backend.elementwise(times_log, q, call(LogSoftmax, x, dim=-1)), axis=-1)

    def backward(self, dout, x, q):
        dout, total, dx = dout[:, None], np.sum(q, axis=-1, keepdims=True), None
        if self.needs(0):
            probabilities = call(Softmax, x, dim=-1)
            dx = dout * (probabilities * total - q)
        return dx, (-dout * call(LogSoftmax, x, dim=-1) if self.needs(1) else None)


class NegativeLogLikelihood(Op):
    """out = -columnsum(x_target) / N:  dx = zeros, then dx_target = -dout / N

    x (N, V) are log-probabilities, targets (N,); `ignore_index` and `reduction` are those of CrossEntropy.
    """

    def forward(self, x, *, targets, ignore_index=-100, reduction="mean"):
        self.is_counted = targets != ignore_index
        self.chosen = np.arange(len(targets)), np.where(self.is_counted, targets, 0)  # of rows that don't count, class 0
        self.x_shape, self.divisor = x.shape, divisor(self.is_counted, reduction, x.dtype)
        losses = np.where(self.is_counted, -x[self.chosen], 0.0)
        return losses if reduction == "none" else backend.sum(losses) / self.divisor

    def backward(self, dout):
        share = np.where(self.is_counted, -dout / self.divisor, 0.0)  # not a product: 0 * inf would be NaN
        return call(SetAt, backend.zeros(self.x_shape, dout), share, index=self.chosen, is_checked=True)


def divisor(is_counted: np.ndarray, reduction: str, dtype: np.dtype):
    """What the sum of the losses is divided by."""
    return is_counted.sum().astype(dtype) if reduction == "mean" else dtype.type(1)


LEAST_LOG = -100.0  # of a probability
LEAST_VARIANCE = 1e-12  # of a coin


def bounded_logarithms(p):
    """log p and log(1 - p), at least -100; the gradient is 0 where that bound applies."""
    is_never, is_always = p < math.exp(LEAST_LOG), p == 1
    log_p = np.where(is_never, LEAST_LOG, np.log(np.where(is_never, 1.0, p)))
    return log_p, np.where(is_always, LEAST_LOG, np.log1p(-np.where(is_always, 0.0, p)))


def probability_loss(p, target):
    log_p, log_not_p = bounded_logarithms(p)
    return -(target * log_p + (1 - target) * log_not_p)


def probability_loss_backward_a(dout, p, target):
    return dout * (p - target) / np.maximum(p * (1 - p), LEAST_VARIANCE)


def probability_loss_backward_b(dout, p, target):
    log_p, log_not_p = bounded_logarithms(p)
    return dout * (log_not_p - log_p)


class BinaryCrossEntropy(Elementwise):
    """out = -(target * log p + (1 - target) * log(1 - p)), with logarithms of at least -100:
    dp = dout * (p - target) / (p (1 - p)),  dtarget = dout * (log(1 - p) - log p)

    dp is -target / p + (1 - target) / (1 - p), over one denominator, which is at least 1e-12: so where p is 0 or 1, dp is
    finite, and descending it moves p to the target.
    """

    function = staticmethod(probability_loss)
    gradients = probability_loss_backward_a, probability_loss_backward_b


def logits_loss(x, target, weight):
    return times_log(weight * target, log_of_one_plus_exp(-x)) + times_log(1 - target, log_of_one_plus_exp(x))


def logits_loss_backward_a(dout, x, target, weight):
    return dout * ((1 - target) * call(Sigmoid, x) - weight * (target * call(Sigmoid, -x)))


def logits_loss_backward_b(dout, x, target, weight):
    return dout * (call(Logsigmoid, -x) - weight * call(Logsigmoid, x))


def logits_loss_backward_c(dout, x, target, weight):
    return -dout * (target * call(Logsigmoid, x))


class BinaryCrossEntropyWithLogits(Elementwise):
    """out = weight * target * s(-x) + (1 - target) * s(x), with s(x) = log(1 + e^x):
    dx = dout * ((1 - target) * sigmoid(x) - weight * target * sigmoid(-x)),
    dtarget = dout * (weight * s(-x) - s(x)),  dweight = dout * target * s(-x)

    With p = sigmoid(x), s(-x) is -log p, -logsigmoid(x), and s(x) is -log(1 - p), and ds/dx is sigmoid(x). 0 log 0 is 0.
    """

    function = staticmethod(logits_loss)
    gradients = logits_loss_backward_a, logits_loss_backward_b, logits_loss_backward_c


class DifferenceLoss(Op):
    """out = loss(d) for d = x - target, or the sum or mean of all:  dx = dout [/ n] * slope(d),  dtarget = -dx

    Each is a row of the table below. The op includes the sum or mean of all elements, so that dout is a single number and
    backward takes one pass.
    """

    losses: Callable  # of x and target
    gradient: Callable  # dx, of dout, x and target

    def forward(self, x, target, *, reduction="mean"):
        self.save(x, target)
        losses = backend.elementwise(self.losses, x, target)
        self.divisor = losses.size if reduction == "mean" else 1
        if reduction == "none":
            return losses
        total = backend.sum(losses)
        return total / self.divisor if reduction == "mean" else total

    def backward(self, dout, x, target):
        share = dout if self.divisor == 1 else dout / max(self.divisor, 1)
        dx = backend.elementwise(self.gradient, share, x, target)
        return dx, -dx if self.needs(1) else None


def difference_loss(formula: str, name: str, loss: Callable, slope: Callable) -> type[DifferenceLoss]:
    """A row of the table: the formula is its docstring."""
    def losses(x, target): return loss(x - target)
    def gradient(dout, x, target): return dout * slope(x - target)

    row = dict(__doc__=formula, losses=staticmethod(losses), gradient=staticmethod(gradient))
    return type("".join(word.capitalize() for word in name.split("_")), (DifferenceLoss,), row)


SquaredError = difference_loss("out = d^2 for d = x - target:  dx = dout [/ n] * 2 d,  dtarget = -dx",
                               "squared_error", np.square, lambda d: 2 * d)
AbsoluteError = difference_loss("out = |d| for d = x - target:  dx = dout [/ n] * sign d,  dtarget = -dx",
                                "absolute_error", np.abs, np.sign)
