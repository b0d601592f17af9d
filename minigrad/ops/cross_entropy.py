"""Cross-entropy between logits and target classes, loss and gradient in one pass over the logits; and its end alone."""
import numpy as np

from ..kernels import cross_entropy as kernels
from ..kernels.buffers import empty, empty_like
from ..tape import Fused
from .arithmetic import product
from .indexing import zeros
from .softmax import LogSoftmax


class CrossEntropy(Fused):
    """out = columnsum(logsumexp - rowsum(q * x)) / N, logsumexp = log(rowsum(e^x)):  dx = dout * (softmax(x) - q) / N

    x (N, V) are logits, targets (N,). That is the mean of the rows' losses; `reduction` can also be "sum" or "none".
    The target distribution q is 1 at target_n, else 0; with label smoothing s, q = (1 - s) [v = target_n] + s / V.
    The gradient, of one row: loss = -sum_v q_v log p_v, where log p_v = x_v - log(sum_w e^(x_w)), the log-softmax. The
    logarithm's derivative by x_w is e^(x_w) / sum = p_w, so d log p_v / dx_w = [v = w] - p_w, and as the q_v sum to 1,
        dx_w = -dloss sum_v q_v ([v = w] - p_w) = dloss (p_w - q_w):  the probabilities, less those wanted.
    Rows whose target is ignore_index have no loss and no gradient, and the mean is over the others; over none at all it
    is NaN.
    Forward already computes the slope dloss_n/dx_n, in the same pass; it is saved beside x (for the definition).
    """

    by_kernels = True

    @staticmethod
    def definition(x, *, targets, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        is_counted, chosen = places_of(targets, ignore_index)
        log_p = LogSoftmax.call(x, dim=-1)
        expected = log_p[chosen]
        if label_smoothing:
            expected = (1 - label_smoothing) * expected + label_smoothing * np.mean(log_p, axis=-1)
        losses = np.where(is_counted, -expected, 0.0)
        if reduction == "none":
            return losses
        total = np.sum(losses)
        return total if reduction == "sum" else total / np.sum(is_counted).astype(x.dtype)

    def forward(self, x, *, targets, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        losses, slope, total, share = empty(x.shape[:1], x.dtype), empty_like(x), np.empty(1, x.dtype), np.empty(1)
        kernels.cross_entropy_forward_backward(x, targets, ignore_index, float(label_smoothing), reduction == "mean",
                                               losses, slope, total, share)
        self.targets, self.ignore_index = targets, ignore_index
        self.save(x, slope, share)
        return losses if reduction == "none" else total.reshape(())

    def backward(self, dout, x, slope, share):
        dx = empty_like(x)
        kernels.cross_entropy_backward(slope, self.targets, self.ignore_index, dout.reshape(-1), int(dout.size > 1), share,
                                       dx)
        return dx


class CrossEntropyOfDistributions(Fused):
    """out = -rowsum(q * log(softmax(x))):  dx = dout * (softmax(x) * rowsum(q) - q),  dq = -dout * log(softmax(x))

    x (N, V) are logits, q (N, V) wanted probabilities, of any sum; there is a loss for each row. The gradient is that of
    CrossEntropy, where the q sum to 1.
    """

    @staticmethod
    def definition(x, q):
        return -np.sum(q * LogSoftmax.call(x, dim=-1), axis=-1)

    def forward(self, x, q):
        losses, slope = np.zeros(x.shape[:1], x.dtype), empty_like(x)
        if x.size:
            kernels.cross_entropy_of_distributions(x, q, losses, slope)
        self.save(x, q, slope)
        return losses

    def backward(self, dout, x, q, slope):
        dout = dout[:, None]
        dx = product(slope, dout) if self.needs(0) else None
        return dx, (-dout * LogSoftmax.call(x, dim=-1) if self.needs(1) else None)


class NegativeLogLikelihood(Fused):
    """out = -columnsum(x_target) / N:  dx = zeros, then dx_target = -dout / N

    x (N, V) are log-probabilities, targets (N,); `ignore_index` and `reduction` are those of CrossEntropy.
    """

    @staticmethod
    def definition(x, *, targets, ignore_index=-100, reduction="mean"):
        is_counted, chosen = places_of(targets, ignore_index)
        losses = np.where(is_counted, -x[chosen], 0.0)
        if reduction == "none":
            return losses
        total = np.sum(losses)
        return total if reduction == "sum" else total / np.sum(is_counted).astype(x.dtype)

    def forward(self, x, *, targets, ignore_index=-100, reduction="mean"):
        self.is_counted, self.chosen = places_of(targets, ignore_index)
        self.save(x)
        self.divisor = self.is_counted.sum().astype(x.dtype) if reduction == "mean" else 1
        losses = np.where(self.is_counted, -x[self.chosen], 0.0)
        return losses if reduction == "none" else np.asarray(losses.sum(dtype=np.float64) / self.divisor, x.dtype)

    def backward(self, dout, x):
        dx = zeros(x.shape, x.dtype)
        dx[self.chosen] = np.where(self.is_counted, -dout / self.divisor, 0.0)  # it selects: 0 * inf would be NaN
        return dx


def places_of(targets: np.ndarray, ignore_index: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Which rows count, and the index of each row's target; of class 0 in others."""
    is_counted = targets != ignore_index
    return is_counted, (np.arange(len(targets)), np.where(is_counted, targets, 0))
