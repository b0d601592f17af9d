"""Figures for files, by matplotlib: imported at the first one, since it is slow, and without pyplot, so without display."""
import os


def new_figure(rows: int, columns: int, width: float, height: float, **options):
    """(An empty figure, its panels as from `subplots`); the size is in inches, `savefig` writes it to a file.

    MPLBACKEND, which is about windows, plays no part: matplotlib would fail at import if it named none.
    """
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        from matplotlib.figure import Figure
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)
