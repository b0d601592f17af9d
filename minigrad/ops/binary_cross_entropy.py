"""Binary cross-entropy of probabilities."""
import math

import numpy as np

from ..kernels import formulas
from ..kernels.pointwise import computed
from ..tape import Op

LEAST_LOG = -100.0  # the logarithm of 0, so that the loss stays finite
LEAST_VARIANCE = 1e-12  # of a coin that is always right, so that the gradient stays finite


class BinaryCrossEntropy(Op):
    """out = -(target * log p + (1 - target) * log(1 - p)), with logarithms of at least -100:
    dp = dout * (p - target) / (p (1 - p)),  dtarget = dout * (log(1 - p) - log p)

    dp is -target / p + (1 - target) / (1 - p), over one denominator. That is at least 1e-12, so that where p is 0 or 1,
    dp is finite and points from p to the target.
    """

    def forward(self, p, target):
        self.save(p, target)
        return computed(formulas.binary_cross_entropy, loss, p, target)

    def backward(self, dout, p, target):
        dp = dtarget = None
        if self.needs(0):
            dp = computed(formulas.binary_cross_entropy_backward_a, loss_backward_a, dout, p, target)
        if self.needs(1):
            dtarget = computed(formulas.binary_cross_entropy_backward_b, loss_backward_b, dout, p, target)
        return dp, dtarget


def loss(p, target):
    log_p, log_not_p = _logarithms(p)
    return -(target * log_p + (1 - target) * log_not_p)


def loss_backward_a(dout, p, target):
    return dout * (p - target) / np.clip(p * (1 - p), LEAST_VARIANCE, None)


def loss_backward_b(dout, p, target):
    log_p, log_not_p = _logarithms(p)
    return dout * (log_not_p - log_p)


def _logarithms(p):
    """log p and log(1 - p), at least -100; what is raised to that has gradient 0."""
    is_never, is_always = p < math.exp(LEAST_LOG), p == 1
    log_p = np.where(is_never, LEAST_LOG, np.log(np.where(is_never, 1.0, p)))
    return log_p, np.where(is_always, LEAST_LOG, np.log1p(-np.where(is_always, 0.0, p)))
