"""What the check says of its differences holds: of 240 functions whose derivative and noise are known, 99% of the derivatives are
within the error that is printed, and none is accused."""
import itertools

import numpy as np

from minigrad.gradcheck import gradcheck_report

FUNCTIONS = {  # f, f' and the points
    "sin": (np.sin, np.cos, (-3, 3)), "exp": (np.exp, np.exp, (-3, 3)), "log": (np.log, lambda x: 1 / x, (0.2, 4)),
    "square": (np.square, lambda x: 2 * x, (-3, 3)), "cube": (lambda x: x**3, lambda x: 3 * x * x, (-2, 2)),
    "root": (np.sqrt, lambda x: 0.5 / np.sqrt(x), (0.2, 4)), "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2, (-2, 2)),
    "bell": (lambda x: np.exp(-x * x), lambda x: -2 * x * np.exp(-x * x), (-2, 2)),
    "wave": (lambda x: np.sin(20 * x), lambda x: 20 * np.cos(20 * x), (-2, 2)),
    "pole": (lambda x: 1 / (x * x + 0.05), lambda x: -2 * x / (x * x + 0.05) ** 2, (-2, 2)),
}


def by_a_solver(values):
    """To an absolute tolerance of 1e-8: how far off is as good as random, but the same each time."""
    hashed = np.ascontiguousarray(values).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    return values + 1e-8 * (hashed / 2.0**24 - 0.5)


NOISES = {
    "float64": lambda values: values, "float32": lambda values: values.astype(np.float32).astype(float),
    "six digits": lambda values: np.round(values, 6), "a solver": by_a_solver,
    "cancelled": lambda values: values + 1e6 - 1e6, "half of it float32": lambda values: 0.5 * values + 0.5 * values.astype(np.float32),
}
SIZES = 1e-3, 1.0, 30.0, 1e4


def judged(f, slope, noisy, size, x):
    """The report, the input's part of it, and the true derivatives."""
    report = gradcheck_report((lambda x: noisy(f(x / size)), lambda dout, x: dout * slope(x / size) / size), x)
    return report, report.inputs[0], np.diag(slope(x / size) / size)


def test_error_bars_hold():
    kept, total = 0, 0
    for number, (row, noisy, size) in enumerate(itertools.product(FUNCTIONS.values(), NOISES.values(), SIZES)):
        f, slope, (low, high) = row
        report, entry, true = judged(f, slope, noisy, size, np.random.default_rng(number).uniform(low, high, 6) * size)
        assert report.verdict != "fail", (number, report)
        within = np.abs(entry.numeric - true) <= entry.bound + 1e-12 * np.abs(true).max()
        kept, total = kept + np.count_nonzero(within), total + within.size
    assert kept >= 0.99 * total, (kept, total)
