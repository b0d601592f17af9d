"""Figures for files, and the colours of pictures, notebooks and pages.

Matplotlib is imported with the first figure, as it is slow; without pyplot or a display. Of colours, positive is orange and
negative is blue; page.css has the same values.
"""
import importlib
import os
import types
from typing import Any


def new_figure(rows: int, columns: int, width: float, height: float, layout: str | None = "constrained",
               **options: Any) -> tuple[Any, Any]:
    """An empty figure, and its panels as from `subplots`; the size is in inches, `savefig` writes it to a file.

    `layout` places all labels, which takes seconds for thousands of them; None leaves that to the caller.
    """
    figure = matplotlib("figure").Figure(figsize=(width, height), layout=layout)
    return figure, figure.subplots(rows, columns, **options)


def draw_panel(axis: Any, title: str, values: Any, limit: float, **options: Any) -> None:
    """A matrix as colours of its numbers, from -limit to limit, with a scale beside it."""
    image = axis.imshow(values, cmap=signed(), vmin=-limit, vmax=limit, interpolation="nearest", **options)
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=7)
    axis.figure.colorbar(image, ax=axis).ax.tick_params(labelsize=7)


def has_glyph(character: str) -> bool:
    """Does the font of figures have this character?"""
    fonts = matplotlib("font_manager")
    return fonts.get_font(fonts.findfont(fonts.FontProperties())).get_char_index(ord(character)) != 0


def matplotlib(name: str) -> types.ModuleType:
    """A module of matplotlib. MPLBACKEND, which only matters for windows, is ignored: the import fails if it is wrong."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        return importlib.import_module(f"matplotlib.{name}")
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


RGB = tuple[int, int, int]

POSITIVE, NEGATIVE = (226, 128, 32), (56, 118, 214)
STRONGEST = (96, 40, 0)  # where numbers are only positive, the colours reach further, so that small ones can be seen
DARK_POSITIVE, DARK_NEGATIVE = (214, 116, 22), (52, 108, 208)  # on a dark page
HIDDEN = (211, 211, 211)  # masked, or not finite
WHITE = (255, 255, 255)

# of curves, which people who are colour-blind can tell from one another (Okabe and Ito, Tol); each has its marker as well
CURVES = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#882255"
MARKERS = "osD^vP<X"


def signed() -> Any:
    """Matplotlib's colour map for numbers from -m to m: blue, white, orange; grey where they are masked or NaN."""
    return _colour_map("signed", NEGATIVE, WHITE, POSITIVE)


def sizes() -> Any:
    """Matplotlib's colour map for numbers from 0 up: white, orange, brown; grey where they are masked or NaN."""
    return _colour_map("sizes", WHITE, POSITIVE, STRONGEST)


def as_hex(colour: RGB) -> str:
    """For CSS and matplotlib.

    >>> as_hex(HIDDEN)
    '#d3d3d3'
    """
    return f"#{bytes(colour).hex()}"


def tint(colour: RGB, share: float) -> RGB:
    """The colour on white: 0 is white, 1 the colour itself.

    >>> tint(NEGATIVE, 0.5)
    (156, 186, 234)
    """
    red, green, blue = (round(255 + share * (part - 255)) for part in colour)
    return red, green, blue


def _colour_map(name: str, *colours: RGB):
    shares = [[part / 255 for part in colour] for colour in (*colours, HIDDEN)]
    found = matplotlib("colors").LinearSegmentedColormap.from_list(name, shares[:-1])
    return found.with_extremes(bad=shares[-1])
