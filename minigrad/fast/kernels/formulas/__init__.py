"""NumPy's functions in kernels, from which `recorded` makes formulas; and functions that kernels compute in their own way.

Sums, products, quotients, comparisons and roots have NumPy's bits. So have rounded quotients and their remainders, as
float64 has room for both. Others, such as e^x and everything built on it, may differ in the last digit or two, between
small and large arrays as between libraries. NaN goes through, infinities give the limits, and -0 keeps its sign, as in
NumPy.
"""
import operator

import numpy as np

from ..jit import exact
from ..simd import INFINITY, ZERO, log
from .arithmetic import floor_divide, fmod, power, remainder
from .elementary import cosh, erf, erfc, log2, log10, logaddexp, mish, mish_backward, sinh
from .trigonometric import arctan, arctan2, cos, sin, tan
from .values import Scalar, exp2_value, exp_value, expm1_value, log1p_value, sign_value, tanh_value

SCALARS = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.negative: operator.neg, np.absolute: abs, np.square: exact(lambda x: x * x), np.sign: sign_value, np.sqrt: np.sqrt,
    np.floor: np.floor, np.ceil: np.ceil, np.trunc: np.trunc, np.rint: np.rint, np.zeros_like: exact(lambda x: ZERO),
    np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge,
    np.float32: np.float32, np.float64: np.float64, np.int64: np.int64, np.bool_: exact(lambda x: x != ZERO),
    np.isnan: exact(lambda x: x != x), np.isinf: exact(lambda x: abs(x) == INFINITY),
    np.isfinite: exact(lambda x: abs(x) < INFINITY),
    np.logical_and: operator.and_, np.logical_or: operator.or_, np.logical_xor: operator.xor,
    np.logical_not: exact(lambda x: x ^ np.uint8(1)),
    np.where: exact(lambda condition, a, b: a if condition else b),
    np.maximum: exact(lambda a, b: a if a > b or a != a else b),
    np.minimum: exact(lambda a, b: a if a < b or a != a else b),
    np.clip: exact(lambda x, low, high: low if x < low else (high if x > high else x)),
    np.nan_to_num: exact(lambda x, nan, most, least: (
        x if abs(x) < INFINITY else (nan if x != x else (most if x > ZERO else least)))),
    np.exp: exp_value, np.exp2: exp2_value, np.expm1: expm1_value, np.log: log, np.log1p: log1p_value, np.log2: log2,
    np.log10: log10, np.logaddexp: logaddexp, np.tanh: tanh_value, np.sinh: sinh, np.cosh: cosh, np.sin: sin, np.cos: cos,
    np.tan: tan, np.arctan: arctan, np.arctan2: arctan2, np.power: power, np.fmod: fmod, np.remainder: remainder,
    np.floor_divide: floor_divide,
}
SCALARS |= {np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
            np.invert: SCALARS[np.logical_not]}  # of booleans
