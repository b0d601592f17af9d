"""Arrays, options and other values in what JSON can hold."""
import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """The value as lists, numbers and strings. Numbers that are not finite become "NaN", "Infinity", "-Infinity"; integers
    of more than 53 bits, which JavaScript would round, become text.

    >>> plain({"index": (slice(None), 1), "mask": np.array([True, False]), "fill": -np.inf})
    {'index': [{'slice': [None, None, None]}, 1], 'mask': [True, False], 'fill': '-Infinity'}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.astype(float).tolist() if value.dtype.kind == "f" else value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, slice):
        return {"slice": plain([value.start, value.stop, value.step])}
    if value is Ellipsis:
        return "..."
    return getattr(value, "__name__", str(value))
