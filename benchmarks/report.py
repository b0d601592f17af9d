"""The report of measured rows: a table, a plot, and their place in a document."""
import datetime
import math
import os
import pathlib
import platform
import re
import statistics

import matplotlib.figure
import matplotlib.ticker

import minigrad
from benchmarks.cases import Benchmark
from benchmarks.contest import CONTESTANTS
from study.command import version
from study.command.info import cpu_name


def describe_machine(threads: int) -> dict:
    """The machine and the versions that figures depend on."""
    packages = {"numpy", "numba", *(contestant.package for contestant in CONTESTANTS.values())} - {"minigrad"}
    return dict(date=datetime.date.today().isoformat(), cpu=cpu_name(), cores=os.cpu_count(), threads=threads,
                system=platform.system(), python=platform.python_version(),
                versions={"minigrad": minigrad.__version__} | {package: version(package) for package in sorted(packages)})


def group_rows(rows: list[dict]) -> dict[str, dict[str | int, dict[str, dict]]]:
    """rows[group][case][contestant]"""
    groups = {}
    for row in rows:
        groups.setdefault(row["group"], {}).setdefault(row["case"], {})[row["contestant"]] = row
    return groups


def present(rows: list[dict]) -> list[str]:
    """The measured contestants, in the order of CONTESTANTS."""
    measured = {row["contestant"] for row in rows}
    return [name for name in CONTESTANTS if name in measured]


# Tables

def short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def make_table(benchmark: Benchmark, rows: list[dict]) -> str:
    """Markdown: medians and quartiles, the ratio of each of ours to the fastest peer, and these ratios' means."""
    names, groups = present(rows), group_rows(rows)
    ours = [name for name in names if not CONTESTANTS[name].is_peer]
    heads = [benchmark.heading] if len(groups) == 1 else ["", benchmark.heading]
    lines = [[*heads, *(f"{name}, {benchmark.unit}" for name in names), *(f"{name}: ratio" for name in ours)]]
    lines.append(["---"] * len(lines[0]))
    for group, cases in groups.items():
        for case, own in cases.items():
            labels = [f"{case}"] if len(groups) == 1 else [group, f"{case}"]
            lines.append([*labels, *(cell(own.get(name)) for name in names),
                          *(f"**{own[name]['ratio']:.2f}**" if name in own else "" for name in ours)])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    means = {name: statistics.geometric_mean(row["ratio"] for row in rows if row["contestant"] == name) for name in ours}
    return f"{table}\n\nGeometric means of the ratios: {', '.join(f'{name} {mean:.2f}' for name, mean in means.items())}."


def cell(row: dict | None) -> str:
    """Median and quartiles."""
    return "" if row is None else f"{short(row['median'])} ({' to '.join(map(short, row['quartiles']))})"


def caption(report: dict) -> str:
    """Machine, versions and date in one line."""
    versions = ", ".join(f"{package} {version}" for package, version in report["versions"].items())
    return (f"{report['cpu']}, {report['threads']} of {report['cores']} cores, {report['system']}, Python "
            f"{report['python']}; {versions}; {report['date']}")


def fill_in(document: pathlib.Path, name: str, text: str) -> None:
    """Replace the text between a benchmark's markers."""
    before = document.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    document.write_text(pattern.sub(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", before), encoding="utf-8")


# Plots

def draw(benchmark: Benchmark, report: dict, path: pathlib.Path) -> None:
    """A panel for each group of cases: lines over sizes if these are numbers, otherwise bars."""
    rows = report["rows"]
    groups, names = group_rows(rows), present(rows)
    is_lines = all(isinstance(row["case"], int) for row in rows)
    columns = min(len(groups), 2 if is_lines else 3)
    bars = max(len(cases) for cases in groups.values()) * (len(names) + 1)  # in a panel
    size = (6 * columns, 4) if is_lines else (max(8, 3.4 * columns), 0.6 + 0.17 * bars)
    lines = math.ceil(len(groups) / columns)
    figure = matplotlib.figure.Figure((size[0], 0.8 + lines * size[1]), dpi=110, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharey=False).flat
    for panel, (group, cases) in zip(panels, groups.items()):
        (draw_lines if is_lines else draw_bars)(panel, benchmark, group, cases, names)
    for panel in list(panels):
        panel.remove()
    figure.suptitle(f"{benchmark.title} ({report['threads']} threads, {report['cpu']})")
    handles = {label: handle for panel in figure.axes for handle, label in zip(*panel.get_legend_handles_labels())}
    axis = "" if is_lines else f"relative to the best peer, less is better; figures: {benchmark.unit}"
    figure.legend(handles.values(), handles.keys(), title=axis, loc="outside lower center", ncols=len(handles),
                  frameon=False)
    figure.savefig(path)


def draw_bars(panel, benchmark: Benchmark, group: str, cases: dict, names: list[str]) -> None:
    """Ratios to the best peer with quartiles, labelled with medians."""
    height = 1 / (len(names) + 1)
    for i, name in enumerate(names):
        own = {y: case[name] for y, case in enumerate(cases.values()) if name in case}
        ratios = [row["ratio"] for row in own.values()]
        panel.barh([y + i * height for y in own], ratios, height, color=CONTESTANTS[name].colour, label=name)
        for y, row in own.items():
            low, high = (row["ratio"] * quartile / row["median"] for quartile in row["quartiles"])
            panel.plot([low, high], [y + i * height] * 2, color="black", linewidth=1)
            panel.annotate(short(row["median"]), (high, y + i * height), (3, 0), textcoords="offset points",
                           va="center", fontsize=8)
    panel.set_yticks([y + (len(names) - 1) / 2 * height for y in range(len(cases))], cases)
    panel.invert_yaxis()
    panel.axvline(1, color="black", linewidth=0.8)
    panel.margins(x=0.25, y=0.01)
    panel.set_title(group, fontsize="medium")


def draw_lines(panel, benchmark: Benchmark, group: str, cases: dict, names: list[str]) -> None:
    """Medians over sizes, with quartiles."""
    for name in names:
        own = {case: row[name] for case, row in cases.items() if name in row}
        colour = CONTESTANTS[name].colour
        panel.plot(list(own), [row["median"] for row in own.values()], "o-", color=colour, label=name, markersize=4)
        panel.fill_between(list(own), *zip(*(row["quartiles"] for row in own.values())), color=colour, alpha=0.2)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(list(cases), list(cases))
    for formatted in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
        formatted(lambda value, _: short(value))
    panel.yaxis.set_minor_locator(matplotlib.ticker.LogLocator(subs=(2, 5)))
    panel.set_xlabel(group or benchmark.heading)
    panel.set_ylabel(benchmark.unit)
    panel.grid(alpha=0.3, which="both")
