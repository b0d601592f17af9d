"""Draw the pictures of docs/benchmarks.md and docs/recipe.md anew, from what was measured:

    PYTHONPATH=. python docs/benchmark_pictures.py            # writes docs/benchmarks/*.png and docs/recipe/recipe.png
"""
import json
import pathlib

from benchmarks import ops_report, recipe, report
from benchmarks.cases import BENCHMARKS

DOCS = pathlib.Path(__file__).parent


def main() -> None:
    for path in sorted((DOCS / "benchmarks").glob("*.json")):
        measured = json.loads(path.read_text(encoding="utf-8"))
        if path.stem == "ops":
            ops_report.draw(measured["rows"], ops_report.title(measured), path.with_suffix(".png"))
        else:
            report.draw(BENCHMARKS[path.stem], measured, path.with_suffix(".png"))
    recipe.draw(*recipe.read(DOCS / "recipe/recipe.jsonl"), DOCS / "recipe/recipe.png")


if __name__ == "__main__":
    main()
