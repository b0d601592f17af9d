"""Formulas of losses, element by element."""
from ..pointwise import formula
from ..simd import HALF


@formula
def huber(x, delta):
    distance = abs(x)
    return HALF * x * x if distance <= delta else delta * (distance - HALF * delta)


@formula
def huber_backward(dout, x, delta):
    slope = -delta if x < -delta else (delta if x > delta else x)
    return dout * slope
