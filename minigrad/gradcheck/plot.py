"""The picture of a gradient check."""
import numpy as np

from ..drawing.figures import new_figure


def plot_report(report, path: str | None = None):
    """One row for each input: the Jacobian from backward, from differences, and their difference."""
    shown = [entry for entry in report.inputs if entry.analytic.size]
    rows = max(len(shown), 1)
    figure, axes = new_figure(rows, 3, 11, 0.9 + 2.6 * rows, squeeze=False)
    figure.suptitle(f"gradcheck of {report.title}: {report.verdict} (seed {report.seed})")
    for row, entry in zip(axes, shown):
        limit = max(float(np.max(np.abs(entry.numeric[np.isfinite(entry.numeric)]), initial=0.0)), 1e-300)
        difference = entry.analytic - entry.numeric
        worst = max(float(np.max(np.abs(difference[np.isfinite(difference)]), initial=0.0)), 1e-300)
        pictures = {
            f"{entry.name}: backward": (entry.analytic, limit),
            entry.reference: (entry.numeric, limit),
            f"backward - {entry.reference}: {entry.verdict}": (difference, worst),
        }
        for axis, (title, (values, scale)) in zip(row, pictures.items()):
            image = axis.imshow(values, cmap="RdBu_r", vmin=-scale, vmax=scale, aspect="auto", interpolation="nearest")
            axis.set_title(title, fontsize=9)
            is_direction = entry.columns[0].startswith("direction")
            axis.set_xlabel("direction" if is_direction else "element of the input", fontsize=8)
            axis.set_ylabel("element of the output" if len(entry.rows) > 1 else entry.rows[0], fontsize=8)
            axis.tick_params(labelsize=7)
            for ticks, n in ((axis.set_xticks, values.shape[1]), (axis.set_yticks, values.shape[0])):
                if n <= 12:
                    ticks(range(n))
            figure.colorbar(image, ax=axis).ax.tick_params(labelsize=7)
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure
