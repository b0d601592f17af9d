"""Figures for files, by matplotlib: imported at the first one, since it is slow, and without pyplot, so without display."""
import importlib
import os
import types


def new_figure(rows: int, columns: int, width: float, height: float, layout: str | None = "constrained", **options):
    """(An empty figure, its panels as from `subplots`); the size is in inches, `savefig` writes it to a file.

    `layout` finds places for all labels, which takes seconds if there are thousands; None leaves that to the caller.
    """
    figure = _matplotlib("figure").Figure(figsize=(width, height), layout=layout)
    return figure, figure.subplots(rows, columns, **options)


def has_glyph(character: str) -> bool:
    """Can the font of figures draw this character?"""
    fonts = _matplotlib("font_manager")
    return fonts.get_font(fonts.findfont(fonts.FontProperties())).get_char_index(ord(character)) != 0


def _matplotlib(name: str) -> types.ModuleType:
    """A module of matplotlib. MPLBACKEND, which is about windows, plays no part: the import would fail if it named none."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        return importlib.import_module(f"matplotlib.{name}")
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
