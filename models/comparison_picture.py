"""A plot of a comparison: loss curves on the left, results on the right, with one dot per seed."""
import collections
import os
import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.drawing.figures import new_figure
from minigrad.drawing.palette import CURVES, MARKERS
from models.comparison import BITS, Comparison, Group
from models.pictures import save

PICTURE = "minigrad: comparison of runs"  # in the metadata of the file
MOST_GROUPS = 24  # in one plot
LINE, MOST_LINES = 44, 3  # of a label: characters per line, lines
BEST_TO_WORST = (0.05, 0.25, 0.55), (0.10, 0.62, 0.55), (0.88, 0.55, 0.05)  # RGB


def draw(comparison: Comparison, path: str | os.PathLike[str]) -> bool:
    """Draw the groups that can be compared, the best first; False if there are none."""
    groups = [group for group in comparison.groups if group.is_comparable and _curve(group, comparison.measure)]
    if not groups:
        return False
    left_out, groups = len(comparison.groups) - len(groups[:MOST_GROUPS]), groups[:MOST_GROUPS]
    labels = ["\n".join(textwrap.wrap(comparison.label(group), LINE, max_lines=MOST_LINES, placeholder=" ...",
                                      break_on_hyphens=False)) for group in groups]
    lines = sum(label.count("\n") + 1.5 for label in labels)
    figure, (curves, dots) = new_figure(1, 2, 11, max(4.5, 1.2 + 0.19 * lines))
    unit = "bits per byte" if comparison.measure == BITS else "nats per token"
    colours, markers = _styles(len(groups))
    for group, colour, marker in reversed(list(zip(groups, colours, markers))):  # the best above the others
        _draw_curve(curves, group, comparison.measure, colour, marker)
    lowest, highest = _limits(groups, comparison.measure)
    curves.set(xlabel="step", ylabel=f"validation loss ({unit})", ylim=(lowest, highest))
    curves.set_title("median and range over seeds", fontsize=10)
    curves.locator_params(axis="x", integer=True)
    for place, (group, colour) in enumerate(zip(groups, colours)):
        _draw_dots(dots, group, comparison.measure, place, colour, 2 * highest)
    dots.set(xlabel=f"validation loss at the end ({unit})", ylim=(len(groups) - 0.4, -0.6))
    dots.set_yticks(range(len(groups)), labels, fontsize=9)
    for text, colour in zip(dots.get_yticklabels(), colours):
        text.set_color(colour)
    dots.set_title("a dot for each seed, a bar at the median"
                   + (f"; {left_out} groups are not shown" if left_out else ""), fontsize=10)
    for axes in (curves, dots):
        axes.grid(alpha=0.3)
    save(figure, path, PICTURE, dpi=90)
    return True


def _styles(count: int) -> tuple[Sequence[Any], Sequence[str]]:
    """Colours and markers, the best group's first: those of the palette, or of many groups colours from blue to orange."""
    if count <= len(CURVES):
        return CURVES, MARKERS
    channels = zip(*BEST_TO_WORST)
    colours: Any = np.transpose([np.interp(np.linspace(0, 1, count), (0, 0.5, 1), channel) for channel in channels])
    return colours, "." * count


def _curve(group: Group, measure: str) -> dict[int, list[float]]:
    """{step: the measure of each run evaluated there}"""
    found = collections.defaultdict(list)
    for run in group.runs:
        for step, value in run.curve(measure):
            found[step].append(value)
    return dict(sorted(found.items()))


def _draw_curve(axes, group: Group, measure: str, colour: Any, marker: str) -> None:
    curve = _curve(group, measure)
    axes.fill_between(list(curve), [min(values) for values in curve.values()], [max(values) for values in curve.values()],
                      color=colour, alpha=0.15, linewidth=0)
    axes.plot(list(curve), [statistics.median(values) for values in curve.values()], color=colour, marker=marker,
              linestyle="-" if group.finished else ":")


def _limits(groups: list[Group], measure: str) -> tuple[float, float]:
    """From the lowest value to the first evaluations, without outliers: a diverging loss would hide the others."""
    curves = [_curve(group, measure) for group in groups]
    lowest = min(min(values) for curve in curves for values in curve.values())
    firsts = [max(next(iter(curve.values()))) for curve in curves]
    highest = min(max(firsts), 2 * statistics.median(firsts))
    margin = 0.05 * (highest - lowest) or 0.05
    return lowest - margin, highest + margin


def _draw_dots(axes, group: Group, measure: str, place: int, colour: Any, most: float) -> None:
    """A dot for each run; values above `most` become arrows there."""
    values = [run.measured[measure] for run in group.finished if measure in run.measured]
    if not values:
        axes.annotate("no result", (0.02, place), xycoords=("axes fraction", "data"), color=colour, fontsize=8, va="center")
        return
    for value in values:
        axes.plot(min(value, most), place, "o" if value <= most else ">", color=colour, alpha=0.6, markersize=6,
                  markeredgewidth=0)
    if statistics.median(values) <= most:
        axes.plot([statistics.median(values)] * 2, [place - 0.3, place + 0.3], color=colour, linewidth=2)
