"""The accuracy and speed of long float32 sums: python -m benchmarks.sums [ELEMENTS]

Errors are relative to float64's largest element; times are medians, with PyTorch's if it is installed.
"""
import statistics
import sys
from collections.abc import Callable

import numpy as np

import minigrad as mg
from benchmarks.common import seconds_of
from nn import functional as F

FUNCTIONS = {
    "sum": lambda x, axis: x.sum(axis),
    "mean": lambda x, axis: x.mean(axis),
    "var": lambda x, axis: x.var(axis),
    "norm": lambda x, axis: x.norm(dim=axis),
    "logsumexp": lambda x, axis: x.logsumexp(axis),
    "cumsum": lambda x, axis: x.cumsum(axis),
}


def bias_gradient(library, functional, upstream):
    """The gradient of a Linear layer's bias, in either library"""
    b = library.zeros(upstream.shape[1], dtype=upstream.dtype, requires_grad=True)
    x, weight = (library.zeros(n, 1, dtype=upstream.dtype) for n in upstream.shape)
    functional.linear(x, weight, b).backward(upstream)
    return b.grad


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def milliseconds(functions: list[Callable], repeats: int = 5) -> list[float]:
    """The median time of each function; they alternate."""
    rounds = [[1e3 * seconds_of(function) for function in functions] for _ in range(repeats + 1)]
    return [statistics.median(taken[1:]) for taken in zip(*rounds)]


def main(elements: int = 10_000_000) -> None:
    try:
        import torch
    except ImportError:
        torch = None
    side = round((elements / 10) ** (1 / 3)) or 1
    cases = [((elements,), 0), ((elements // 10, 10), 0), ((elements // 10, 10), 1), ((10, elements // 10), 0),
             ((10, elements // 10), 1)] + [((side, side * 10, side), axis) for axis in (0, 1, 2, (0, 2), (0, 1))]
    random = np.random.default_rng(0)
    print(f"{'function':16} {'shape':18} {'axis':10} {'error':>8} {'ms':>8}   PyTorch: error, ms")
    for shape, axis in cases:
        x = np.float32(0.1) + np.float32(1e-3) * random.standard_normal(shape, dtype=np.float32)
        wide = mg.tensor(x.astype(np.float64))
        runs = {name: (function, axis) for name, function in FUNCTIONS.items() if name != "cumsum" or type(axis) is int}
        for name, (function, axis) in runs.items():
            report(name, shape, axis, lambda t, function=function, axis=axis: function(t, axis), x, wide, torch)
        if len(shape) == 2 and axis == 0:
            report("bias gradient", shape, 0, lambda t: bias_gradient(
                mg if isinstance(t, mg.Tensor) else torch, F if isinstance(t, mg.Tensor) else torch.nn.functional, t
            ), x, wide, torch)


def report(name, shape, axis, function, x, wide, torch) -> None:
    """One line of the table"""
    ours, exact = mg.tensor(x), function(wide).data
    line = f"{name:16} {shape!s:18} {axis!s:10} {error(function(ours).data, exact):8.1e}"
    if torch is None:
        print(f"{line} {milliseconds([lambda: function(ours)])[0]:8.2f}")
        return
    theirs = torch.from_numpy(x)
    times = milliseconds([lambda: function(ours), lambda: function(theirs)])
    print(f"{line} {times[0]:8.2f}   {error(function(theirs).numpy(), exact):8.1e} {times[1]:8.2f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
