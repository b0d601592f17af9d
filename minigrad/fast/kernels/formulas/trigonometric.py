"""Sines, tangents and their inverses; arctan2 in float64, so that the float32 result is right to the last digit."""
import math

import numpy as np

from ..jit import exact
from ..simd import HALF, INFINITY, ONE, ZERO, fused_multiply_add, multiply_add, polynomial
from .values import TWICE, WHOLE, unless, wide

# Coefficients, highest power first:
SIN = (-1.951726024e-4, 8.332177904e-3, -1.666665494e-1)  # (sin(r) - r) / r^3 of r^2, |r| < pi / 4
COS = (2.443307465e-5, -1.388731555e-3, 4.166664567e-2, -0.5, 1.0)  # cos(r) of r^2
ARCTAN = (2.920672672e-3, -1.636784884e-2, 4.321173043e-2, -7.552203080e-2, 1.066599929e-1,
          -1.421105392e-1, 1.999377266e-1, -3.333315273e-1)  # (arctan(t) - t) / t^3 of t^2, t from 0 to 1
WIDE_ARCTAN = (-0.001701170064, 0.01048764925, -0.03035186478, 0.05708955593, -0.08349724968,
               0.109323415, -0.1426001608, 0.1999807528, -0.3333327629, 0.9999999972)  # arctan(t) / t of t^2
QUARTER, QUARTER_LOW, QUARTER_LOWEST = map(np.float32, (1.5707963705062866, -4.371138828673793e-8, -1.7151245100058819e-15))
WIDE_QUARTER = np.float64(math.pi / 2)  # the three parts of QUARTER have 72 bits of it
TURNS = np.float32(2 / math.pi)
FAR = np.float32(1 << 17)  # up to here, the quarter of a turn and the remaining angle are exact to the last bit


@exact
def _is_far(x):
    return not (abs(x) < FAR)


@exact
def _sin_and_cos(x):
    """(sin, cos) of x = n pi / 2 + r, |r| <= pi / 4, each within 1.6 units of the last digit"""
    n = np.floor(multiply_add(x, TURNS, HALF))
    r = fused_multiply_add(n, -QUARTER_LOW, fused_multiply_add(n, -QUARTER, x))
    r = fused_multiply_add(n, -QUARTER_LOWEST, r)
    square = r * r
    sine, cosine = multiply_add(polynomial(square, SIN) * square, r, r), polynomial(square, COS)
    quarter = np.int32(n)
    is_odd, changes = (quarter & np.int32(1)) != 0, (quarter & np.int32(2)) != 0
    first = cosine if is_odd else sine
    second = -sine if is_odd else cosine
    return (-first if changes else first), (-second if changes else second)


@exact
def _angle(a, b):
    """The angle of the point (b, a), as a float64: arctan of the smaller of |a| and |b| by the larger"""
    y, x = abs(wide(a)), abs(wide(b))
    larger, smaller = max(y, x), min(y, x)
    t = smaller / (larger if larger > np.float64(0) else WHOLE)
    slope = polynomial(t * t, WIDE_ARCTAN) * t
    first = WIDE_QUARTER - slope if y > x else slope
    second = TWICE * WIDE_QUARTER - first if b < ZERO else first
    return second if a > ZERO else -second


@exact
def _is_no_point(a, b):
    """Is a zero, which has a sign, or a coordinate infinite or NaN? IEEE 754 has rules for these"""
    return not ((abs(a) < INFINITY) & (abs(b) < INFINITY) & (a != ZERO))


@unless(_is_far, lambda x: np.float32(math.sin(x)))
def sin(x):
    sine, _ = _sin_and_cos(x)
    return sine if x != ZERO else x


@unless(_is_far, lambda x: np.float32(math.cos(x)))
def cos(x):
    _, cosine = _sin_and_cos(x)
    return cosine


@unless(_is_far, lambda x: np.float32(math.tan(x)))
def tan(x):
    sine, cosine = _sin_and_cos(x)
    return sine / cosine if x != ZERO else x


@unless(_is_no_point, lambda a, b: np.float32(math.atan2(a, b)))
def arctan2(a, b):
    return np.float32(_angle(a, b))


@exact
def arctan(x):
    """From |x|, or from 1 / |x| as the rest of a quarter of a turn"""
    size = abs(x)
    t = ONE / size if size > ONE else size
    square = t * t
    slope = multiply_add(polynomial(square, ARCTAN) * square, t, t)
    angle = QUARTER - (slope - QUARTER_LOW) if size > ONE else slope
    return angle if x > ZERO else (-angle if x < ZERO else x)
