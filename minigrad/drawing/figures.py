"""Figures for files, by matplotlib, which is imported with the first one, as it is slow; without pyplot or a display."""
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
