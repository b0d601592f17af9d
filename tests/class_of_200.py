"""How long a class takes: 200 answers as students write them, 5 of them hanging, graded twice.

    python tests/class_of_200.py [--students 200] [--hanging 5] [--jobs 2]

The second run has one more process, and the same answers under other names, so in another order. The exit code is 1 if any
student gets another row.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from student_answers import submissions  # noqa: E402

from models.commands import shared  # noqa: E402
from study.exercises.course import COURSE  # noqa: E402
from study.exercises.grading import command  # noqa: E402
from study.exercises.report import TIMEOUT  # noqa: E402

HANG = (  # in place of softmax_backward
    "def softmax_backward(dout, x): pass\nwhile True: pass",
    "import time\ntime.sleep(1e6)\ndef softmax_backward(dout, x): pass",
    "def softmax_backward(dout, x):\n    while True: pass",
    "def softmax_backward(dout, x):\n    while True: print('softmax: RIGHT')",
    "calls = []\ndef softmax_backward(dout, x):\n    calls.append(x)\n    while len(calls) > 3: pass\n    return x",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--hanging", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        names = make(place, options.students, options.hanging)
        first, second = (grade(place, name, options.jobs + more) for more, name in enumerate(("first", "second")))
    for verdict in sorted({row["verdict"] for row in first.values()}):
        print(f"  {sum(row['verdict'] == verdict for row in first.values())} {verdict}")
    seconds = sorted(row["seconds"] for row in first.values() if row["verdict"] != TIMEOUT)
    print(f"answers that do not hang: median {seconds[len(seconds) // 2]:.2f} s, longest {seconds[-1]:.1f} s")
    different = [name for name in names if said(first[name]) != said(second[names[name]])]
    print(f"{len(different)} of {len(names)} have another row in the other run", *different)
    return int(bool(different))


def make(place: pathlib.Path, students: int, hanging: int) -> dict[str, str]:
    """Two folders with the same answers; {name in the first: name in the second}."""
    answers = submissions(COURSE)
    every = students // hanging
    names = {}
    for i in range(students):
        answer = answers[i * len(answers) // students % len(answers)]  # of all exercises
        exercise, code = answer.exercise, answer.code
        if i % every == 0:
            exercise, code = "softmax", HANG[i // every % len(HANG)]
        names[f"s{i:03}"] = f"s{(i * 37 + 11) % students:03}"
        for folder, name in (("first", f"s{i:03}_{exercise}.py"), ("second", f"{names[f's{i:03}']}/{exercise}.py")):
            path = place / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, encoding="utf-8")
    return names


def grade(place: pathlib.Path, name: str, jobs: int) -> dict[str, dict]:
    """{student: row}."""
    table, start = place / f"{name}.json", time.perf_counter()
    shared.run("exercises grade", "", command, list(map(str, (
        place / name, "--jobs", jobs, "--seed", 1, "--out", place / f"{name}.kept", "--json", table))))
    print(f"{jobs} processes: {time.perf_counter() - start:.0f} s")
    return {row["student"]: row for row in json.loads(table.read_text(encoding="utf-8"))["rows"]}


def said(row: dict) -> tuple:
    return row["exercise"], row["verdict"], row["mistake"], row["sentence"]


if __name__ == "__main__":
    sys.exit(main())
