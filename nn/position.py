"""Positional encodings: fixed tables, a layer that adds or concatenates them, and rotary positions.

Letters: T positions n = 0 ... T - 1, D features i = 0 ... D - 1.
"""
import functools
import math
import numbers
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor, ops
from nn import init
from nn.checks import one_of, positive_int
from nn.module import Module, Parameter

BASE = 10_000.0  # the longest wavelength over 2 pi


def sinusoidal(T: int, D: int, base: float = BASE, start: int = 0) -> np.ndarray:
    """Pairs of sines and cosines (Vaswani et al., arXiv:1706.03762), (T, D):

        r[n, i] = sin(n / base^(i / D)) for even i,  cos(n / base^((i - 1) / D)) for odd i

    A shift rotates each pair by an angle that does not depend on n. If D is odd, the last sine has no cosine.

    >>> sinusoidal(2, 3).round(3).tolist()
    [[0.0, 1.0, 0.0], [0.841, 0.54, 0.002]]
    """
    n, i = np.arange(start, start + T)[:, None], np.arange(D)
    angles = n / base ** ((i - i % 2) / D)
    return np.where(i % 2 == 0, np.sin(angles), np.cos(angles))


def sine_only(T: int, D: int, base: float = BASE, start: int = 0) -> np.ndarray:
    """p[t, k] = sin(t / base^(k / D)) for k = 1 ... D, (T, D): without cosines, no linear map shifts positions."""
    return np.sin(np.arange(start, start + T)[:, None] / base ** (np.arange(1, D + 1) / D))


def one_hot(T: int, D: int, base: float = BASE, start: int = 0) -> np.ndarray:
    """p[t, i] = 1 if i = t else 0, (T, D)."""
    if start + T > D:
        raise ValueError(f"positions 'one_hot' of width {D} end at {D - 1}, got position {start + T - 1}; make the table "
                         "wider, or choose 'sinusoidal', which has no end")
    return np.equal(np.arange(start, start + T)[:, None], np.arange(D)).astype(float)


def integer(T: int, D: int, base: float = BASE, start: int = 0) -> np.ndarray:
    """p[t, i] = t, (T, D), which grows without bound."""
    return np.repeat(np.arange(start, start + T, dtype=float)[:, None], D, axis=1)


FIXED = {"sinusoidal": sinusoidal, "sine_only": sine_only, "one_hot": one_hot, "integer": integer}
KINDS = "none", "learned", *FIXED


class PositionEncoding(Module):
    """Add positions to tokens, or concatenate them.

        y[t] = x[t] + p[start + t]    or, with combine="concatenate",    y[t] = [x[t], p[start + t]]

    `kind` is one of KINDS; "learned" is a table (size, D) of parameters. p is as wide as x if it is added, and has
    `position_width` features if it is concatenated. x (..., T, D) -> y (..., T, D or D + position_width).

    >>> PositionEncoding("sinusoidal", 8)(mg.zeros(2, 5, 8)).shape
    (2, 5, 8)
    >>> PositionEncoding("integer", 8, combine="concatenate", position_width=1)(mg.zeros(5, 8))[:, 8].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """

    def __init__(self, kind: str, width: int, size: int | None = None, combine: str = "add",
                 position_width: int | None = None):
        super().__init__()
        self.kind: str = one_of("PositionEncoding", "kind", kind, KINDS)
        self.combine: str = one_of("PositionEncoding", "combine", combine, ("add", "concatenate"))
        if combine == "add" and position_width not in (None, width):
            raise ValueError("PositionEncoding: combine='add' needs position_width equal to width, got "
                             f"{position_width} and {width}; leave position_width out, or choose combine='concatenate'")
        self.size = size
        self.width: int = positive_int("PositionEncoding", "width", width)
        self.position_width: int = width if position_width is None else position_width
        self.weight: Parameter | None = None
        if kind == "learned":
            if size is None:
                raise ValueError("PositionEncoding: kind='learned' needs size, the number of positions in the table")
            self.weight = Parameter(mg.zeros(positive_int("PositionEncoding", "size", size), self.position_width))
            init.normal_(self.weight, std=0.02)

    @property
    def out_width(self) -> int:
        """The width of y."""
        return self.width if self.combine == "add" or self.kind == "none" else self.width + self.position_width

    def table(self, T: int, start: int = 0) -> Tensor:
        """p (T, D) from position `start` on."""
        if start < 0:
            raise ValueError(f"positions {self.kind!r} begin at 0, got start={start}")
        if self.weight is not None:
            if start + T > len(self.weight):
                raise ValueError(f"positions 'learned' has size {self.size}, got position {start + T - 1}; make size "
                                 "larger, or choose kind='sinusoidal', which has no end")
            return self.weight[start : start + T]
        return mg.tensor(FIXED[self.kind](T, self.position_width, start=start))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        if self.kind == "none":
            return x
        if x.ndim < 2 or x.shape[-1] != self.width:
            raise ValueError(f"PositionEncoding: expected x of shape (..., T, {self.width}), got {x.shape}")
        p = self.table(x.shape[-2], start).to(x.dtype)
        if self.combine == "add":
            return x + p
        return mg.cat([x, p.expand(*x.shape[:-1], self.position_width)], dim=-1)

    def extra_repr(self) -> str:
        return f"{self.kind!r}, {self.width}, size={self.size}, combine={self.combine!r}"


SCALINGS: dict[str, tuple[str, ...]] = {  # of rotary positions, with their numbers as transformers calls them
    "none": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


def parse_scaling(scaling: str) -> tuple[str, list[float]]:
    """A scaling's kind and numbers, parsed and checked.

    >>> parse_scaling("linear:4")
    ('linear', [4.0])
    """
    kind, *words = scaling.split(":") if isinstance(scaling, str) else [scaling]
    scales: list[float] = []
    try:
        scales = [float(word) for word in words]
        fits = len(scales) == len(SCALINGS[kind]) and all(0 < number < math.inf for number in scales)
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits or kind == "llama3" and not scales[1] < scales[2]:
        raise ValueError("rotary_scaling must be 'none', 'linear:FACTOR' or 'llama3:FACTOR:FEWEST:MOST:CONTEXT', with "
                         f"positive numbers, FEWEST less than MOST, got {scaling!r}")
    return kind, scales


def rotary_frequencies(D: int, base: float = BASE, scaling: str = "none") -> np.ndarray:
    """The angles by which the pairs of D features turn from one position to the next, (D / 2,) in float64:

        w_i = base^(-2i / D)

    With a scaling, a model handles longer sequences than it was trained on: "linear:F" divides all angles by F (Chen et
    al., arXiv:2306.15595); "llama3:F:FEWEST:MOST:T" divides those with fewer than FEWEST turns in T positions, keeps those
    with more than MOST turns, and interpolates in between (Llama 3, arXiv:2407.21783).

    >>> rotary_frequencies(4), rotary_frequencies(4, scaling="linear:2")
    (array([1.  , 0.01]), array([0.5  , 0.005]))
    """
    if D % 2:
        raise ValueError(f"rotary positions rotate pairs of features, so key_size must be even, got {D}")
    if not isinstance(base, numbers.Real) or not 0 < base < math.inf:
        raise ValueError(f"rotary_base must be a positive number, got {base!r}")
    frequencies = base ** (-np.arange(0, D, 2) / D)
    kind, scales = parse_scaling(scaling)
    if kind == "linear":
        return frequencies / scales[0]
    if kind == "llama3":
        factor, fewest, most, T = scales
        kept = np.clip((T * frequencies / (2 * math.pi) - fewest) / (most - fewest), 0.0, 1.0)
        return kept * frequencies + (1 - kept) * frequencies / factor
    return frequencies


def rotary_table(start: int, T: int, D: int, base: float, scaling: str, dtype: Any) -> np.ndarray:
    """Alternating cosines and sines, (T, D), for the positions start to start + T - 1. Angles are computed in float64, to
    be exact for large positions, too."""
    angles = np.arange(start, start + T)[:, None] * rotary_frequencies(D, base, scaling)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(T, D).astype(dtype)


kept_table = functools.lru_cache(maxsize=32)(rotary_table)  # its arrays are shared: never write to them


def rotation(T: int, D: int, base: float = BASE, scaling: str = "none", start: int = 0,
             dtype: Any = np.float32) -> Tensor:
    """What `rotate` and attention rotate (..., T, D) by: alternating cosines and sines, (T, D)."""
    return mg.tensor(kept_table(start, T, D, base, scaling, dtype))


def rotate(x: Tensor, start: int = 0, base: float = BASE, scaling: str = "none") -> Tensor:
    """Rotary positions (Su et al., arXiv:2104.09864): each pair of features is rotated by an angle proportional to t.

        (y[2i], y[2i+1]) = (x[2i] cos a - x[2i+1] sin a, x[2i] sin a + x[2i+1] cos a),  a = t / base^(2i / D)

    Then q_t . k_s depends on t - s only. x (..., T, D), D even -> the same shape. For `scaling` see `rotary_frequencies`.
    """
    if x.ndim < 2:
        raise ValueError(f"rotate: expected x of shape (..., T, D), got {x.shape}")
    T, D = x.shape[-2:]
    return ops.attention.turned(x, rotation(T, D, base, scaling, start, x.dtype))
