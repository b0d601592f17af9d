"""Figures for files, by matplotlib, which is imported with the first one, as it is slow; without pyplot or a display."""
import importlib
import os
import pathlib
import types
from typing import Any

FORMATS = {  # {ending: (how such a file begins, the key of a note in its metadata, how the note looks in the file)}
    ".png": (b"\x89PNG", "Description", "{}"), ".pdf": (b"%PDF", "Subject", "/Subject ({})"),
    ".svg": (b"<?xml", "Description", "<dc:description>{}</dc:description>"),
}


def new_figure(rows: int, columns: int, width: float, height: float, layout: str | None = "constrained",
               **options: Any) -> tuple[Any, Any]:
    """An empty figure, and its panels as from `subplots`; the size is in inches, `savefig` writes it to a file.

    `layout` places all labels, which takes seconds for thousands of them; None leaves that to the caller.
    """
    figure = matplotlib("figure").Figure(figsize=(width, height), layout=layout)
    return figure, figure.subplots(rows, columns, **options)


def save(figure: Any, path: str | os.PathLike[str], kind: str, dpi: float) -> None:
    """Write a figure in the format that the path ends with, a key of FORMATS; its metadata note its kind."""
    _, key, _ = FORMATS[pathlib.Path(path).suffix]
    figure.savefig(path, dpi=dpi, metadata={key: kind})


def is_of_kind(path: pathlib.Path, kind: str) -> bool:
    """Is this file such a figure, written by `save`?"""
    begins, _, note = FORMATS[path.suffix]
    content = path.read_bytes() if path.is_file() else b""
    return content.startswith(begins) and note.format(kind).encode() in content


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
