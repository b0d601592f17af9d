"""Formulas that compare, and that choose between values."""
import numpy as np

from ..pointwise import choice, formula, of_booleans, predicate, single_pass
from ..simd import HALF, INFINITY, ZERO


@predicate
def equal(a, b):
    return a == b


@predicate
def not_equal(a, b):
    return a != b


@predicate
def less(a, b):
    return a < b


@predicate
def less_equal(a, b):
    return a <= b


@predicate
def greater(a, b):
    return a > b


@predicate
def greater_equal(a, b):
    return a >= b


@of_booleans
def logical_and(a, b):
    return a & b


@of_booleans
def logical_or(a, b):
    return a | b


@of_booleans
def logical_xor(a, b):
    return a ^ b


@of_booleans
def logical_not(a):
    return a ^ np.uint8(1)


bitwise_and, bitwise_or, bitwise_xor, invert = logical_and, logical_or, logical_xor, logical_not  # the same, of booleans


@predicate
def isnan(x):
    return x != x


@predicate
def isinf(x):
    return abs(x) == INFINITY


@predicate
def isfinite(x):
    return abs(x) < INFINITY


@formula
def nan_to_num(x, nan, posinf, neginf):
    return x if abs(x) < INFINITY else (nan if x != x else (posinf if x > ZERO else neginf))


@choice
def where(condition, a, b):
    return a if condition else b


@single_pass
def maximum(a, b):
    return a if a > b or a != a else b


@single_pass
def minimum(a, b):
    return a if a < b or a != a else b


@formula
def maximum_backward_a(dout, a, b):
    return ZERO if a < b else (HALF * dout if a == b else dout)


@formula
def clamp(x, low, high):
    raised = x if x >= low or x != x else low
    return raised if raised <= high or raised != raised else high


@formula
def clamp_backward(dout, x, low, high):
    return dout if x >= low and x <= high else ZERO
