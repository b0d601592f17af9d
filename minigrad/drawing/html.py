"""Tensors and reports as HTML, for notebooks. All text in it is escaped."""
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from .figures import HIDDEN, NEGATIVE, POSITIVE, as_hex, tint

MOST_NUMBERS, MOST_COLUMNS = 400, 24  # of a tensor that is shown number by number
DIGITS = 4
COLOURS = {"pass": "#1a7f37", "fail": "#cf222e", "inconclusive": "#9a6700"}  # of verdicts


def html_of_arrays(named: Iterable[tuple[str, np.ndarray | None]]) -> str:
    """Arrays next to one another, each below its name: numbers on orange if they are positive and on blue if they are
    negative. A large array is only summarised; None is left out."""
    cells = "".join(f'<div><div style="color:gray">{escape(name)}</div>{_numbers(array)}</div>'
                    for name, array in named if array is not None)
    return f'<div style="display:flex;flex-wrap:wrap;gap:2em;font-size:90%">{cells}</div>'


def html_of_formula(text: str) -> str:
    return f'<div style="font-family:monospace;white-space:pre;margin:0.5em 0">{escape(text)}</div>'


def html_of_report(text: str, verdict: str) -> str:
    """The unchanged text of a report, next to a bar in the colour of its verdict."""
    return f'<pre style="border-left:6px solid {COLOURS[verdict]};padding-left:1em">{escape(text)}</pre>'


def _numbers(array: np.ndarray) -> str:
    columns = array.shape[-1] if array.ndim else 1
    if array.size > MOST_NUMBERS or columns > MOST_COLUMNS or array.size == 0:
        return f"<div>{escape(summary(array))}</div>"
    finite = np.abs(array[np.isfinite(array)], dtype=np.float64)
    largest = float(finite.max(initial=0.0))
    tables = []
    for index in np.ndindex(array.shape[:-2]):
        rows = "".join(f"<tr>{''.join(_cell(value, largest) for value in row)}</tr>" for row in np.atleast_2d(array[index]))
        name = f'<div style="color:gray">[{", ".join(map(str, index))}]</div>' if index else ""
        tables.append(f'<div>{name}<table style="border-collapse:collapse">{rows}</table></div>')
    return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(tables)}</div>'


def _cell(value: Any, largest: float) -> str:
    """A cell with a number, in a colour that is stronger for larger numbers."""
    share = abs(float(value)) / largest if largest and np.isfinite(value) else 0.0
    colour = tint(POSITIVE if value > 0 else NEGATIVE, share) if np.isfinite(value) else HIDDEN
    shown = f"{value + 0.0:.{DIGITS}g}" if isinstance(value, np.floating) else str(value)
    return (f'<td style="background:{as_hex(colour)};color:black;text-align:right;padding:2px 6px;font-family:monospace">'
            f"{escape(shown)}</td>")


def summary(array: np.ndarray) -> str:
    """A summary of the numbers, in one line.

    >>> summary(np.array([1.0, 3.0, np.nan]))
    'from 1 to 3, mean 2, standard deviation 1; 1 of 3 not finite'
    """
    finite = array[np.isfinite(array)].astype(np.float64)
    text = "no numbers"
    if finite.size:
        with np.errstate(over="ignore"):
            found = finite.min(), finite.max(), finite.mean(), finite.std()
        text = "from {} to {}, mean {}, standard deviation {}".format(*(f"{number:.{DIGITS}g}" for number in found))
    return text if finite.size == array.size else f"{text}; {array.size - finite.size} of {array.size} not finite"
