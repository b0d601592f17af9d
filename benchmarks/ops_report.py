"""The report of all ops' times: a table, a plot, and their place in a document."""
import itertools
import json
import math
import pathlib
import statistics
from collections.abc import Iterator

import matplotlib.figure

from benchmarks.report import caption, fill_in
from minigrad.drawing.palette import CURVES

BAR = 1.5  # times PyTorch's time: an op that takes longer is slow
WORST = 8  # ops that the table names

Key = tuple[str, str, str]  # passes, size, layout
Ratios = list[tuple[float, str, bool]]  # (ratio, op, whether PyTorch's gradient shares memory), the highest first


def kind_of(row: dict) -> Key:
    return row["passes"], row["size"], row["layout"]


def by_kind(rows: list[dict]) -> Iterator[tuple[Key, Ratios]]:
    """The ratios of each kind of run; both passes come first, and the smallest size."""
    for kind in sorted(set(map(kind_of, rows)), reverse=True):
        yield kind, sorted(
            ((row["ratio"], row["op"], row.get("is_shared", False)) for row in rows if kind_of(row) == kind), reverse=True)


def make_table(rows: list[dict]) -> str:
    """Markdown: a line for each kind of run.

    `shared`: PyTorch's gradient is the caller's upstream gradient, or a view of it. Ours is always a copy.
    """
    lines = [["", "size", "layout", "ops", "geometric mean", "median", f"shared, above {BAR}", f"others, above {BAR}",
              "the highest of these"]]
    lines.append(["---"] * len(lines[0]))
    for kind, own in by_kind(rows):
        ratios = [ratio for ratio, _, _ in own]
        others = [(ratio, name) for ratio, name, is_shared in own if not is_shared]
        slow, slow_others = sum(ratio > BAR for ratio in ratios), sum(ratio > BAR for ratio, _ in others)
        worst = ", ".join(f"{name} {ratio:.2g}" for ratio, name in others[:WORST])
        lines.append([*kind, str(len(own)), f"**{statistics.geometric_mean(ratios):.2f}**",
                      f"{statistics.median(ratios):.2f}", str(slow - slow_others), str(slow_others), worst])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(rows: list[dict], title: str, path: pathlib.Path) -> None:
    """The ratios of each kind of run in order; a panel for each size, forward, or forward and backward."""
    panels = {kind: list(own) for kind, own in itertools.groupby(by_kind(rows), lambda own: own[0][:2])}
    lines = math.ceil(len(panels) / 2)
    figure = matplotlib.figure.Figure((9, 0.5 + 3.2 * lines), dpi=110, layout="constrained")
    for panel, (kind, own) in zip(figure.subplots(lines, 2, sharex=True, sharey=True, squeeze=False).flat, panels.items()):
        for ((*_, layout), ratios), colour, style in zip(own, CURVES, ("-", "--", ":")):
            places = [100 * i / max(1, len(ratios) - 1) for i in range(len(ratios))]
            panel.plot(places, [ratio for ratio, *_ in ratios], style, color=colour, label=layout)
        panel.axhline(1, color="black", linewidth=0.8)
        panel.axhline(BAR, color="black", linewidth=0.8, linestyle=":")
        panel.set_yscale("log")
        panel.set_yticks([0.1, 0.2, 0.5, 1, BAR, 3, 10], ["0.1", "0.2", "0.5", "1", f"{BAR}", "3", "10"])
        panel.set_ylim(0.05, 20)
        panel.set_title(", ".join(kind), fontsize="medium")
        panel.grid(alpha=0.3)
        panel.legend(frameon=False, loc="lower left")
    figure.supxlabel("% of ops that are slower", fontsize="medium")
    figure.supylabel("our time / PyTorch's time", fontsize="medium")
    figure.suptitle(title)
    figure.savefig(path)


def title(machine: dict) -> str:
    return f"All public ops next to PyTorch's ({machine['threads']} threads, {machine['cpu']})"


def write(document: pathlib.Path, machine: dict, rows: list[dict]) -> None:
    """Write the table between its markers in the document, and the plot and figures next to it, together with the kinds of
    runs that this machine has measured before."""
    folder = document.with_suffix("")
    folder.mkdir(exist_ok=True)
    figures = folder / "ops.json"
    before = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
    if all(before.get(name) == machine[name] for name in ("cpu", "threads", "versions")):
        measured = {kind_of(row) for row in rows}
        rows = [row for row in before["rows"] if kind_of(row) not in measured] + rows
    figures.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    draw(rows, title(machine), folder / "ops.png")
    fill_in(document, "ops", f"{make_table(rows)}\n\n{caption(machine)}")
