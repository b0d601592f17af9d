"""What one backward owes to others: it changes nothing, gives no array away, and takes any memory layout."""
from typing import Any, Callable, Sequence

import numpy as np

from .arguments import same_bits
from .blame import told

CANCELLED = 1e-12  # what may remain where terms of a gradient cancel, relative to them
RELATIVE = 1e-9  # how far rounding may take two ways of computing the same gradient apart


class Remark(str):
    """A sentence on what makes no gradient wrong."""


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "backwards with gaps": lambda a: np.repeat(a.reshape(-1)[::-1], 2)[::-2].reshape(a.shape),
    "column by column": lambda a: np.array(a, order="F"),
    "as a single broadcast number": lambda a: np.broadcast_to(a.dtype.type(0.7), a.shape),
}


def contract(back: Callable[[np.ndarray], Sequence[Any]], dout: np.ndarray, dtypes: Sequence[Any],
             saved: Sequence[np.ndarray], saved_before: Sequence[np.ndarray], rounding: float) -> str:
    """What `back` does wrong, "" if nothing. It gives a gradient, or None, for each input that has one of the `dtypes`."""
    before, gradients, remark = dout.copy(), back(dout), ""
    if not same_bits(dout, before):
        return "changes the upstream gradient that it is given"
    if not all(map(same_bits, saved, saved_before)):
        return Remark("changes an array that forward saved")
    for dtype, gradient in zip(dtypes, gradients):
        if dtype is None or gradient is None:
            continue
        if gradient.dtype != dtype == dout.dtype:
            remark = Remark(f"gives a {gradient.dtype} gradient for a {dtype} input")
            if gradient.dtype.itemsize <= dtype.itemsize:
                return str(remark)
        if any(np.shares_memory(gradient, array) for array in saved):
            remark = Remark("returns an array that forward saved: whoever writes to the gradient changes the next backward")
    for layout, lay_out in LAYOUTS.items():
        laid_out = lay_out(dout)
        try:
            expected, got = (back(u) for u in (np.array(laid_out, order="C"), laid_out))
        except Exception as error:  # noqa: BLE001
            return f"raises when the upstream lies in memory {layout}: {told(error)}"
        pairs = [(x, y) for x, y in zip(expected, got) if x is not None and y is not None]
        if not all(nearly_equal(np.asarray(x), np.asarray(y), rounding) for x, y in pairs):
            return f"gives another gradient when the upstream lies in memory {layout}"
    return remark


def nearly_equal(x: np.ndarray, y: np.ndarray, rounding: float) -> bool:
    return np.allclose(x, y, rtol=RELATIVE, atol=RELATIVE * largest(x) + rounding, equal_nan=True)


def largest(x: np.ndarray) -> float:
    """The largest finite |x|."""
    return float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0))
