"""Formulas of losses, element by element."""
import math

import numpy as np

from ..pointwise import exact, formula
from ..simd import HALF, ONE, TWO, ZERO, log as log_value
from .values import exp_value, log1p_value, sigmoid_value, sign_value

LEAST_LOG = -100.0  # the logarithm of 0, so that the loss of binary cross-entropy stays finite
LEAST_VARIANCE = 1e-12  # of a coin that is always right, so that its gradient stays finite
SINGLE_LOG, SINGLE_PROBABILITY, SINGLE_VARIANCE = map(np.float32, (LEAST_LOG, math.exp(LEAST_LOG), LEAST_VARIANCE))


@formula
def squared_error(x, target):
    d = x - target
    return d * d


@formula
def squared_error_backward(dout, x, target):
    return dout * (TWO * (x - target))


@formula
def absolute_error(x, target):
    return abs(x - target)


@formula
def absolute_error_backward(dout, x, target):
    return dout * sign_value(x - target)


@formula
def huber(x, target, delta):
    d = x - target
    distance = abs(d)
    return HALF * d * d if distance <= delta else delta * (distance - HALF * delta)


@formula
def huber_backward(dout, x, target, delta):
    d = x - target
    return dout * (-delta if d < -delta else (delta if d > delta else d))


@formula
def smooth_l1(x, target, beta):
    d = x - target
    distance = abs(d)
    return HALF * d * d / beta if distance < beta else distance - HALF * beta


@formula
def smooth_l1_backward(dout, x, target, beta):
    slope = (x - target) / beta
    return dout * (-ONE if slope < -ONE else (ONE if slope > ONE else slope))


@exact
def _log_p(p):
    return log_value(p) if p >= SINGLE_PROBABILITY or p != p else SINGLE_LOG


@exact
def _log_not_p(p):
    return SINGLE_LOG if p == ONE else log1p_value(-p)


@formula
def binary_cross_entropy(p, target):
    return -(target * _log_p(p) + (ONE - target) * _log_not_p(p))


@formula
def binary_cross_entropy_backward_a(dout, p, target):
    variance = p * (ONE - p)
    return dout * (p - target) / (SINGLE_VARIANCE if variance < SINGLE_VARIANCE else variance)


@formula
def binary_cross_entropy_backward_b(dout, p, target):
    return dout * (_log_not_p(p) - _log_p(p))


@exact
def _log_of_one_plus_exp(x):
    return max(x, ZERO) + log1p_value(exp_value(-abs(x)))


@formula
def logits_loss(x, target, weight):
    return weight * target * _log_of_one_plus_exp(-x) + (ONE - target) * _log_of_one_plus_exp(x)


@formula
def logits_loss_backward_a(dout, x, target, weight):
    return dout * ((ONE - target) * sigmoid_value(x) - weight * target * sigmoid_value(-x))


@formula
def logits_loss_backward_b(dout, x, target, weight):
    return dout * (weight * _log_of_one_plus_exp(-x) - _log_of_one_plus_exp(x))


@formula
def logits_loss_backward_c(dout, x, target, weight):
    return dout * (target * _log_of_one_plus_exp(-x))
