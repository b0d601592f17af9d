"""Where did the first NaN or infinity come from? `detect_anomaly` watches every operation, forward and backward."""
import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import is_tensor
from ..observer import Observer
from ..packages import users_line


class detect_anomaly(Observer):
    """Inside this block, the first NaN or infinity in a result or a gradient raises an error.

    The error names the operation, the input, and the line of the program that applied it. An operation whose input has a
    NaN or infinity is not blamed, so masking with -inf is allowed. Saved arrays are checked too: the error reports one
    that was changed without the tape noticing, through the array that `from_numpy` was given. This reads every array, so
    it is slow.

    >>> import minigrad as mg
    >>> with detect_anomaly():
    ...     mg.tensor([1.0, 0.0]).log()
    Traceback (most recent call last):
    ...
    RuntimeError: detect_anomaly: Log made -inf at (1,) from finite inputs, applied in ...
    """

    def forward(self, op: Any, inputs: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
        """Record where op was applied; RuntimeError if it made a NaN or infinity from finite inputs."""
        output = super().forward(op, inputs, arrays, options)
        op.made_at = _user_line()
        op.sums = [_checksum(array) for array in op.saved]
        place = _first_bad(output)
        if place is not None and all(_first_bad(value) is None for value in arrays):
            raise RuntimeError(
                f"detect_anomaly: {op.title} made {output[place]} at {place} from finite inputs, applied in {op.made_at}"
            )
        return output

    def backward(self, op: Any, dout: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        """RuntimeError if backward makes a NaN or infinity from a finite gradient, or if a saved array has changed."""
        gradients = super().backward(op, dout)
        where = getattr(op, "made_at", None) or "a place outside detect_anomaly()"
        if hasattr(op, "made_at") and [_checksum(array) for array in op.saved] != op.sums:
            raise RuntimeError(f"detect_anomaly: an array that {op.title} saved has changed since; applied in {where}")
        for i, (parent, gradient) in enumerate(zip(op.parents, gradients)):
            place = None if parent is None else _first_bad(gradient)
            if place is not None and _first_bad(dout) is None:
                raise RuntimeError(
                    f"detect_anomaly: the backward of {op.title} made a NaN or infinity at {place} in the gradient of "
                    f"input {i} from a finite gradient; applied in {where}"
                )
        return gradients


def _first_bad(value: Any) -> tuple[int, ...] | None:
    """The index of the first NaN or infinity, or None."""
    if value is None:
        return None
    array = np.asarray(value.array if is_tensor(value) else value)
    bad: Any = np.argwhere(~np.isfinite(array)) if array.dtype.kind == "f" else ()
    return tuple(int(i) for i in bad[0]) if len(bad) else None


def _checksum(value: Any) -> int | None:
    return hash(np.ascontiguousarray(value).tobytes()) if isinstance(value, np.ndarray) else None


def _user_line() -> str:
    """The innermost line of the program outside of libraries."""
    file, line = users_line()
    return f"{file}:{line}: {linecache.getline(file, line).strip()}"
