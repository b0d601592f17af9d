"""Binary cross-entropy of probabilities, and of logits, which keeps all digits where the probability is nearly 0 or 1."""
import math

import numpy as np

from .activations import log_of_one_plus_exp
from .cross_entropy import times_log
from .elementary import Elementwise, Sigmoid

LEAST_LOG = -100.0  # of a probability
LEAST_VARIANCE = 1e-12  # of a coin


def logarithms(p):
    """log p and log(1 - p), at least -100; the gradient is 0 where that bound applies."""
    is_never, is_always = p < math.exp(LEAST_LOG), p == 1
    log_p = np.where(is_never, LEAST_LOG, np.log(np.where(is_never, 1.0, p)))
    return log_p, np.where(is_always, LEAST_LOG, np.log1p(-np.where(is_always, 0.0, p)))


def loss(p, target):
    log_p, log_not_p = logarithms(p)
    return -(target * log_p + (1 - target) * log_not_p)


def backward_target(dout, p, target):
    log_p, log_not_p = logarithms(p)
    return dout * (log_not_p - log_p)


class BinaryCrossEntropy(Elementwise):
    """out = -(target * log p + (1 - target) * log(1 - p)), with logarithms of at least -100:
    dp = dout * (p - target) / (p (1 - p)),  dtarget = dout * (log(1 - p) - log p)

    dp is -target / p + (1 - target) / (1 - p), over one denominator, which is at least 1e-12: so where p is 0 or 1, dp is
    finite, and descending it moves p to the target.
    """

    function = staticmethod(loss)
    gradients = (lambda dout, p, target: dout * (p - target) / np.maximum(p * (1 - p), LEAST_VARIANCE)), backward_target


def logits_loss(x, target, weight):
    return times_log(weight * target, log_of_one_plus_exp(-x)) + times_log(1 - target, log_of_one_plus_exp(x))


def logits_loss_backward_a(dout, x, target, weight):
    return dout * ((1 - target) * Sigmoid.call(x) - weight * (target * Sigmoid.call(-x)))


def logits_loss_backward_b(dout, x, target, weight):
    return dout * (weight * log_of_one_plus_exp(-x) - log_of_one_plus_exp(x))


def logits_loss_backward_c(dout, x, target, weight):
    return dout * (target * log_of_one_plus_exp(-x))


class BinaryCrossEntropyWithLogits(Elementwise):
    """out = weight * target * s(-x) + (1 - target) * s(x), with s(x) = log(1 + e^x):
    dx = dout * ((1 - target) * sigmoid(x) - weight * target * sigmoid(-x)),
    dtarget = dout * (weight * s(-x) - s(x)),  dweight = dout * target * s(-x)

    With p = sigmoid(x), s(-x) is -log p and s(x) is -log(1 - p), and ds/dx is sigmoid(x). 0 log 0 is 0.
    """

    function = staticmethod(logits_loss)
    gradients = logits_loss_backward_a, logits_loss_backward_b, logits_loss_backward_c
