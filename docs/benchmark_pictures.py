"""Draw the pictures of docs/benchmarks.md anew, from what was measured:

    PYTHONPATH=. python docs/benchmark_pictures.py            # writes docs/benchmarks/*.png
"""
import json
import pathlib

from benchmarks import report
from benchmarks.cases import BENCHMARKS

FOLDER = pathlib.Path(__file__).parent / "benchmarks"


def main() -> None:
    for path in sorted(FOLDER.glob("*.json")):
        measured = json.loads(path.read_text(encoding="utf-8"))
        report.draw(BENCHMARKS[path.stem], measured, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
