"""Does a wrong gradient differ from the right one by a constant factor, and which one is it?

A constant 2, 1/N or sqrt(d) gives many mistakes away: a sum for a mean, a scale that was forgotten or applied twice.
"""
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

NUMBERS = {"1/2": 1 / 2, "1/3": 1 / 3, "1/4": 1 / 4}
MADE_OF_SIZE: dict[str, Callable[[float], float]] = {
    "N": lambda n: n, "1/N": lambda n: 1 / n, "sqrt(N)": math.sqrt, "1/sqrt(N)": lambda n: 1 / math.sqrt(n),
    "1/N^2": lambda n: 1 / n**2, "(N-1)/N": lambda n: (n - 1) / n,
    "N/(N-1)": lambda n: n / (n - 1) if n > 1 else math.inf,
}
MADE_OF_PROBABILITY: dict[str, Callable[[float], float]] = {
    "1-p": lambda p: 1 - p, "1/(1-p)": lambda p: 1 / (1 - p), "(1-p)^2": lambda p: (1 - p) ** 2,
    "1/(1-p)^2": lambda p: 1 / (1 - p) ** 2, "p": lambda p: p, "1/p": lambda p: 1 / p, "(1-p)/p": lambda p: (1 - p) / p,
    "p/(1-p)": lambda p: p / (1 - p),
}


def constant_ratio(analytic: np.ndarray, numeric: np.ndarray) -> float | None:
    """analytic / numeric if it is the same everywhere; None if not, or if all are zero.

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
    """What a ratio may be: a fraction, or a function of a known size; "" if nothing fits.

    >>> name_constant(0.25, {"dim 1 of x": 4})
    '1/4, or 1/N with N = 4 (dim 1 of x)'
    >>> name_constant(-math.sqrt(5), {"dim 0 of the output": 5})
    '-sqrt(N) with N = 5 (dim 0 of the output)'
    """
    if same(ratio, -1.0):
        return "the wrong sign"
    names = names_of_constant([ratio], [sizes])[:3]
    times = abs(ratio) if abs(ratio) > 1 else 1 / max(abs(ratio), 1e-300)
    is_unsure = bool(names) and same(times, round(times)) and names[0].lstrip("-") not in NUMBERS  # 2 may be many things
    return "perhaps " * is_unsure + ", or ".join(names)


def names_of_constant(ratios: Sequence[float], sizes: Sequence[Mapping[str, float]]) -> list[str]:
    """What fits all ratios, each with the sizes of its own input; a size between 0 and 1 is a probability.

    >>> names_of_constant([0.5, 1 / 3], [{"the width of x": 2}, {"the width of x": 3}])
    ['1/N, N = the width of x']
    >>> names_of_constant([1.25, 2.0], [{"p": 0.2}, {"p": 0.5}])
    ['1/(1-p)']
    """
    if any((ratio < 0) != (ratios[0] < 0) for ratio in ratios):
        return []
    sign, values = ("-" if ratios[0] < 0 else ""), [abs(ratio) for ratio in ratios]
    names = [sign + name for name, number in NUMBERS.items() if all(same(value, number) for value in values)]
    labels = {label: [found[label] for found in sizes] for label in sizes[0] if all(label in found for found in sizes)}
    for name, made_of in (MADE_OF_SIZE | MADE_OF_PROBABILITY).items():
        fitting = [label for label, of_label in labels.items()
                   if (max(of_label) > 1 if name in MADE_OF_SIZE else max(of_label) < 1)
                   and all(same(value, made_of(n)) for value, n in zip(values, of_label))]
        names += [described(sign + name, fitting, labels[fitting[0]])] if fitting else []
    return names


def described(name: str, labels: list[str], sizes: list[float]) -> str:
    """The name with its letter explained or replaced. Which one it is of several sizes that are the same, nobody knows."""
    if max(sizes) < 1:
        return name.replace("p", labels[0])
    if min(sizes) < max(sizes):
        return f"{name}, N = {labels[0]}"
    return f"{name} with N = {sizes[0]} ({labels[0] if len(labels) == 1 else 'several sizes'})"


def same(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(abs(b), 1e-3)
