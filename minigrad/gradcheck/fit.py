"""Do gradients fit their inputs? Checked before the tape sees them, which would sum what was left unsummed."""
from typing import Any, Collection, Sequence

import numpy as np


class UnfitGradients(RuntimeError):
    """What a backward returned cannot be the gradients: wrong number, type, dtype or shape."""


def fitted(found: tuple[Any, ...], inputs: Sequence[Any], names: Sequence[str], learned: Sequence[bool],
           needed: Sequence[bool], outputs: Sequence[np.ndarray] = ()) -> tuple[np.ndarray | None, ...]:
    """A gradient for each input, None for constants; raises UnfitGradients if `found` cannot be that.

    Constants, which are not `learned`, may be left out. None is also allowed for an input whose gradient is not `needed`.
    A gradient may be as coarse as one of the `outputs`.

    >>> bias = np.zeros(4)
    >>> fitted((np.ones((3, 4)),), [bias], ["bias"], [True], [True])
    Traceback (most recent call last):
    ...
    minigrad.gradcheck.fit.UnfitGradients: dbias has shape (3, 4), and bias has shape (4,): sum it over axis 0, ...
    """
    wanted = [f"d{name}" for name, is_learned in zip(names, learned) if is_learned]
    if len(found) == 1 and isinstance(found[0], list) and len(found[0]) in (len(wanted), len(names)):
        found = tuple(found[0])
    if len(found) == len(wanted) < len(names):
        given = iter(found)
        found = tuple(next(given) if is_learned else None for is_learned in learned)
    if len(found) != len(names):
        came = f"{len(found)} gradient" + ("" if len(found) == 1 else "s")
        there = f"there {'is' if len(wanted) == 1 else 'are'} {len(wanted)} to return: {', '.join(wanted)}"
        raise UnfitGradients(f"backward returned {came}, and {there}")
    rows = [row for row, is_learned in zip(zip(found, inputs, names, needed), learned) if is_learned]
    coarse = {out.dtype for out in outputs if out.dtype.kind == "f"}
    misfits = [misfit for misfit in (misfit_of(*row, coarse) for row in rows) if misfit]
    if misfits:
        raise UnfitGradients("; ".join(misfits))
    return tuple(np.asarray(g) if is_learned and g is not None else None for g, is_learned in zip(found, learned))


def misfit_of(gradient: Any, x: Any, name: str, is_needed: bool, coarse: Collection[Any]) -> str:
    """Why this cannot be the gradient of x, in a sentence, or ""."""
    x = np.asarray(x)
    if gradient is None:
        return f"d{name} is None, and {name} needs a gradient" if is_needed else ""
    if not isinstance(gradient, (np.ndarray, np.generic, float)):
        return f"d{name} is a {type(gradient).__name__}, not an array"
    gradient = np.asarray(gradient)
    if gradient.shape != x.shape:
        mend = how_to_sum(gradient.shape, x.shape, name)
        return f"d{name} has shape {gradient.shape}, and {name} has shape {x.shape}" + (f": {mend}" if mend else "")
    is_exact = x.dtype.kind == "f" and (gradient.dtype in coarse or gradient.dtype == np.float64)
    return "" if is_exact or gradient.dtype == x.dtype else f"d{name} is {gradient.dtype}, and {name} is {x.dtype}"


def how_to_sum(came: tuple[int, ...], shape: tuple[int, ...], name: str) -> str:
    """How to reduce a gradient of shape `came` to its input's shape, if it only lacks a sum over broadcast axes."""
    extra = len(came) - len(shape)
    if extra < 0 or any(n not in (1, came[i + extra]) for i, n in enumerate(shape)):
        return ""
    stretched = [i + extra for i, n in enumerate(shape) if n != came[i + extra]]
    summed = [i for i in range(extra) if came[i] != 1] + stretched
    if not summed:
        return f"drop {axes(range(extra))}, of length 1"
    return f"sum it over {axes(summed)}, along which {name} was broadcast"


def axes(numbers: Sequence[int]) -> str:
    """>>> axes([0, 1])
    'axes 0 and 1'
    """
    return ("axis " if len(numbers) == 1 else "axes ") + " and ".join(map(str, numbers))
