"""Measure minigrad and its peers in turns, in one run: python -m benchmarks [NAME ...]"""
import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import sys

from benchmarks import report
from benchmarks.cases import BENCHMARKS, Benchmark
from benchmarks.contest import CONTESTANTS, Case, ContestError, Effort, summarise

LEAST_ROUNDS = 3
OUTPUT = pathlib.Path("docs/benchmarks")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a short, rough trial that writes no files")
    parser.add_argument("--seconds", type=float, help="for each contestant and case (default: differs)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every contestant (default: all cores)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names contain it; writes no files")
    parser.add_argument("--without", action="append", default=[], choices=CONTESTANTS, help="leave a contestant out")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, metavar="FOLDER",
                        help=f"for JSON and pictures; tables go into FOLDER.md if it is there (default: {OUTPUT})")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(unknown)}")
    if not 1 <= options.threads <= os.cpu_count():
        parser.error(f"--threads must be from 1 to {os.cpu_count()}, got {options.threads}")
    absent = [name for name, contestant in CONTESTANTS.items() if not importlib.util.find_spec(contestant.package)]
    for name in absent:
        print(f"{name} is left out: {CONTESTANTS[name].package} is not installed", file=sys.stderr)
    try:
        for name in options.names or BENCHMARKS:
            run(name, {*absent, *options.without}, options)
    except ContestError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def run(name: str, left_out: set[str], options: argparse.Namespace) -> None:
    """Measure the cases of a benchmark, print their table and write the results."""
    benchmark = BENCHMARKS[name]
    seconds = options.seconds or (1 if options.quick else benchmark.seconds)
    effort = Effort(seconds, 1 if options.quick else LEAST_ROUNDS, options.threads)
    rows = []
    for case in benchmark.cases:
        if options.only in str(case):
            rows += measure(benchmark, case, left_out, effort)
    if not rows:
        return
    table = report.make_table(benchmark, rows)
    print(f"\n## {benchmark.title}\n\n{table}\n", flush=True)
    if not (options.only or options.quick):
        result = {**report.describe_machine(options.threads), "unit": benchmark.unit, "rows": rows}
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        report.draw(benchmark, result, options.output / f"{name}.png")
        document = options.output.with_suffix(".md")
        if document.exists():
            report.fill_in(document, name, f"{table}\n\n{report.caption(result)}")


def measure(benchmark: Benchmark, case: Case, left_out: set[str], effort: Effort) -> list[dict]:
    """The rows of a case, summarised in a line on stderr."""
    case = dataclasses.replace(case, contestants=tuple(name for name in case.contestants if name not in left_out))
    effort = dataclasses.replace(effort, threads=case.threads or effort.threads)
    rows = summarise(case, case.measure(case, effort))
    figures = ", ".join(f"{row['contestant']} {report.short(row['median'])} ({row['ratio']:.2f})" for row in rows)
    print(f"{case}, {benchmark.unit} (ratio): {figures}", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
