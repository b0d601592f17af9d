"""Cross-entropy of logits with target classes or distributions, and its last step alone, from log-probabilities."""
import numpy as np

from .. import backend
from ..tape import Fused, Op
from .indexing import SetAt
from .softmax import LogSoftmax, Softmax


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
        log_p = LogSoftmax.call(x, dim=-1)
        expected = np.sum(np.where(self.is_target, log_p, 0.0), axis=-1)
        if label_smoothing:
            expected = times_log(1 - label_smoothing, expected) + label_smoothing * np.mean(log_p, axis=-1)
        losses = np.where(self.is_counted, -expected, 0.0)
        return losses if reduction == "none" else np.sum(losses) / self.divisor

    def backward(self, dout, x):
        wanted = np.full(x.shape, self.smoothing / max(x.shape[-1], 1), x.dtype)
        wanted[self.is_target] += 1 - self.smoothing
        dx = (Softmax.call(x, dim=-1) - wanted) * (np.reshape(dout, (-1, 1)) / self.divisor)
        return np.where(self.is_counted[:, None], dx, 0.0)  # not a product: 0 * inf would be NaN


class CrossEntropyOfDistributions(Fused):
    """out = -rowsum(q * log(softmax(x))):  dx = dout * (softmax(x) * rowsum(q) - q),  dq = -dout * log(softmax(x))

    x (N, V) are logits, q (N, V) target probabilities with any sum; there is a loss for each row. 0 log 0 is 0. Where the q
    sum to 1, the gradient is that of CrossEntropy.
    """

    def forward(self, x, q):
        self.save(x, q)
        return -np.sum(backend.elementwise(times_log, q, LogSoftmax.call(x, dim=-1)), axis=-1)

    def backward(self, dout, x, q):
        dout, total = dout[:, None], np.sum(q, axis=-1, keepdims=True)
        dx = dout * (Softmax.call(x, dim=-1) * total - q) if self.needs(0) else None
        return dx, (-dout * LogSoftmax.call(x, dim=-1) if self.needs(1) else None)


class NegativeLogLikelihood(Op):
    """out = -columnsum(x_target) / N:  dx = zeros, then dx_target = -dout / N

    x (N, V) are log-probabilities, targets (N,); `ignore_index` and `reduction` are those of CrossEntropy.
    """

    fresh_gradients = True

    def forward(self, x, *, targets, ignore_index=-100, reduction="mean"):
        self.is_counted = targets != ignore_index
        self.chosen = np.arange(len(targets)), np.where(self.is_counted, targets, 0)  # of rows that don't count, class 0
        self.x_shape, self.divisor = x.shape, divisor(self.is_counted, reduction, x.dtype)
        losses = np.where(self.is_counted, -x[self.chosen], 0.0)
        return losses if reduction == "none" else np.asarray(losses.sum(dtype=np.float64) / self.divisor, x.dtype)

    def backward(self, dout):
        share = np.where(self.is_counted, -dout / self.divisor, 0.0)  # not a product: 0 * inf would be NaN
        return SetAt.call(np.zeros(self.x_shape, dout.dtype), share, index=self.chosen, is_checked=True, in_place=True)


def divisor(is_counted: np.ndarray, reduction: str, dtype: np.dtype):
    """What the sum of the losses is divided by."""
    return is_counted.sum().astype(dtype) if reduction == "mean" else dtype.type(1)
