"""Does a wrong gradient differ from the right one by a constant factor, and which one is it?

A constant 2, 1/N or sqrt(d) names many mistakes: a sum for a mean, a scale that was forgotten or applied twice.
"""
import math

import numpy as np

FRACTIONS = {"1/2": 1 / 2, "1/3": 1 / 3, "1/4": 1 / 4}
MADE_OF_SIZE = {
    "N": lambda n: n, "1/N": lambda n: 1 / n, "sqrt(N)": math.sqrt, "1/sqrt(N)": lambda n: 1 / math.sqrt(n),
    "1/N^2": lambda n: 1 / n**2, "(N-1)/N": lambda n: (n - 1) / n, "N/(N-1)": lambda n: n / (n - 1),
}


def constant_ratio(analytic: np.ndarray, numeric: np.ndarray) -> float | None:
    """analytic / numeric, if that is the same everywhere; None if not, or if all are zero.

    >>> constant_ratio(np.array([2.0, 0.0, -6.0]), np.array([1.0, 0.0, -3.0]))
    2.0
    """
    largest = np.max(np.abs(numeric), initial=0.0)
    if not (np.all(np.isfinite(analytic)) and np.isfinite(largest) and largest > 0):
        return None
    is_large = np.abs(numeric) > 1e-4 * largest
    ratio = float(np.median(analytic[is_large] / numeric[is_large]))
    is_constant = np.all(np.abs(analytic - ratio * numeric) <= 1e-6 * max(1.0, abs(ratio)) * largest)
    return ratio if is_constant else None


def name_constant(ratio: float, sizes: dict[str, int]) -> str:
    """What a ratio may be: a fraction, or made of a size at hand; "" if nothing fits.

    >>> name_constant(0.25, {"dim 1 of x": 4})
    '1/4, or 1/N with N = 4 (dim 1 of x)'
    >>> name_constant(-math.sqrt(5), {"dim 0 of the output": 5})
    '-sqrt(N) with N = 5 (dim 0 of the output)'
    """
    sign, value = ("-" if ratio < 0 else ""), abs(ratio)
    names = [sign + name for name, fraction in FRACTIONS.items() if same(value, fraction)]
    for name, made_of in MADE_OF_SIZE.items():
        fitting = [f"{sign}{name} with N = {n} ({size})" for size, n in sizes.items() if n > 1 and same(value, made_of(n))]
        names += fitting[:1]
    return ", or ".join(names[:3])


def same(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(abs(b), 1e-3)
