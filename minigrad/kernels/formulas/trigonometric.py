"""Formulas of sines and tangents, and of angles; in float64, of which rounding leaves the last digit of float32 right."""
import math

import numpy as np

from ..pointwise import exact, formula, unless
from ..simd import INFINITY, ONE, ZERO, multiply_add, polynomial
from .values import TWICE, WHOLE, wide

# Coefficients, highest power first:
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(5, -1, -1))  # sin(r) / r of r^2, |r| < pi / 4
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(6, -1, -1))  # cos(r) of r^2
ARCTAN = (-0.001701170064, 0.01048764925, -0.03035186478, 0.05708955593, -0.08349724968,
          0.109323415, -0.1426001608, 0.1999807528, -0.3333327629, 0.9999999972)  # arctan(t) / t of t^2, t from 0 to 1
QUARTER, QUARTER_LOW = np.float64(math.pi / 2), np.float64(6.123233995736766e-17)  # pi / 2, and what it lacks
TURNS = np.float64(2 / math.pi)
FAR = np.float32(1 << 30)  # up to there, an angle's quarter of a turn is known


@exact
def _is_far(x):
    return not (abs(x) < FAR)


@exact
def _sin_and_cos(x):
    """(sin, cos) of x = n pi / 2 + r, |r| <= pi / 4; rounded to float32 by the caller"""
    n = np.floor(wide(x) * TURNS + np.float64(0.5))
    r = multiply_add(n, -QUARTER_LOW, multiply_add(n, -QUARTER, wide(x)))
    sine, cosine = polynomial(r * r, SIN) * r, polynomial(r * r, COS)
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
    slope = polynomial(t * t, ARCTAN) * t
    first = QUARTER - slope if y > x else slope
    second = TWICE * QUARTER - first if b < ZERO else first
    return second if a > ZERO else -second


@exact
def _is_no_point(a, b):
    """Neither zero, which has a sign, nor infinite, nor NaN: what IEEE 754 has rules for"""
    return not ((abs(a) < INFINITY) & (abs(b) < INFINITY) & (a != ZERO))


@unless(_is_far, lambda x: math.sin(x))
def sin(x):
    sine, _ = _sin_and_cos(x)
    return np.float32(sine) if x != ZERO else x


@unless(lambda dout, x: _is_far(x), lambda dout, x: dout * np.float32(math.cos(x)))
def sin_backward(dout, x):
    _, cosine = _sin_and_cos(x)
    return dout * np.float32(cosine)


@unless(_is_far, lambda x: math.cos(x))
def cos(x):
    _, cosine = _sin_and_cos(x)
    return np.float32(cosine)


@unless(lambda dout, x: _is_far(x), lambda dout, x: -dout * np.float32(math.sin(x)))
def cos_backward(dout, x):
    sine, _ = _sin_and_cos(x)
    return -dout * np.float32(sine)


@unless(_is_far, lambda x: math.tan(x))
def tan(x):
    sine, cosine = _sin_and_cos(x)
    return np.float32(sine / cosine) if x != ZERO else x


@unless(lambda dout, x: _is_far(x), lambda dout, x: dout * (ONE + np.float32(math.tan(x)) * np.float32(math.tan(x))))
def tan_backward(dout, x):
    sine, cosine = _sin_and_cos(x)
    t = np.float32(sine / cosine)
    return dout * (ONE + t * t)


@unless(_is_no_point, lambda a, b: math.atan2(a, b))
def arctan2(a, b):
    return np.float32(_angle(a, b))


@exact
def _change_of_angle(dout, a, b):
    """dout / (a^2 + b^2), where the squares do not overflow; 0 at the origin"""
    square = wide(a) * wide(a) + wide(b) * wide(b)
    return wide(dout) / square if square != np.float64(0) else np.float64(0)


@formula
def arctan2_backward_a(dout, a, b):
    return np.float32(_change_of_angle(dout, a, b) * wide(b))


@formula
def arctan2_backward_b(dout, a, b):
    return np.float32(_change_of_angle(dout, a, b) * -wide(a))


@unless(lambda x: _is_no_point(x, ONE), lambda x: math.atan(x))
def arctan(x):
    return np.float32(_angle(x, ONE))


@formula
def arcsin_backward(dout, x):
    return dout * (ONE / np.sqrt((ONE - x) * (ONE + x)))


@formula
def arccos_backward(dout, x):
    return dout * (-ONE / np.sqrt((ONE - x) * (ONE + x)))


@formula
def arctan_backward(dout, x):
    return dout * (ONE / (ONE + x * x))
