"""`minigrad exercises train FILE...`: trains a small transformer with a student's own backwards in it."""
import argparse
import contextlib
import math
import pathlib
from collections.abc import Collection, Iterator
from typing import Any

from minigrad.drawing.figures import new_figure
from models.commands.shared import UsageError
from models.progress import saying
from study.exercises import submission
from study.exercises.course import COURSE
from study.exercises.files import check_file
from study.exercises.report import RIGHT, WRONG, Report
from study.exercises.sandbox import Sandbox
from study.exercises.submission import Source, SubmissionError
from study.exercises.training.answers import with_backward
from study.exercises.training.ops import LIBRARY
from study.exercises.training.run import BATCH, RATE, STEPS, Run, ops_used, train
from study.exercises.training.transformer import T
from study.places import check_place

SECONDS = 60.0  # for training
CLOSE = 1e-4  # losses that count as the same
LEARNT = 0.1  # a model that reverses this much fewer words has learnt, too
LINES, COLUMNS = 20, 50  # of the picture


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="your answers: .py files or notebooks, each with one "
                        f"backward or several, of {', '.join(LIBRARY)}")
    parser.add_argument("--steps", type=int, help=f"how many steps to train (default: {STEPS}); it ends after a minute")
    parser.add_argument("--seed", type=int, help="of the model and its words (default: 0)")
    parser.add_argument("--plot", metavar="PICTURE", help="draw both losses")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    steps, seed = given.get("steps", STEPS), given.get("seed", 0)
    if steps < 1 or seed < 0:
        raise UsageError(f"expected --steps from 1 and --seed from 0, got {steps} and {seed}")
    picture = pathlib.Path(given["plot"]) if "plot" in given else None
    if picture is not None:
        check_place(picture, "--plot")
    answers = answers_in(given["files"])
    reports = {name: check_file(path, name) for name, (path, _) in answers.items()}
    runnable = {name for name, report in reports.items() if report.verdict in (RIGHT, WRONG)}
    used = {name: source for name, (_, source) in answers.items() if name in runnable & ops_used(runnable)}
    for name, report in reports.items():
        print(f"{name}: {said(report, name in used)}")
    if not used:
        print("\nThere is nothing to train with.")
        return 1
    print(f"\nA transformer learns to reverse words of {T} letters, in {steps} steps of Adam at rate {RATE:g}, each on "
          f"{BATCH} new words.\nYour backwards in it: {', '.join(used)}.\n")
    with saying("training with the library's backwards"):
        theirs = train(LIBRARY, seed, used, steps)
    yours = trained(used, seed, steps, theirs)
    print("", *conclusions(yours, theirs, all(reports[name] for name in used)), sep="\n")
    if picture is not None:
        with saying("drawing the picture"):
            draw(yours, theirs).savefig(picture, dpi=120)
        print(picture)
    return 0 if all(reports.values()) and distance(yours, theirs) <= CLOSE else 1


def answers_in(files: Collection[str]) -> dict[str, tuple[str, Source]]:
    """{exercise: (file, what it contains)}, for all functions that the model can use; UsageError if there are none."""
    functions = {COURSE[name].function_name: name for name in LIBRARY}
    found: dict[str, Any] = {}
    for path in files:
        try:
            source = submission.read(path)
        except SubmissionError as error:
            raise UsageError(error) from None
        names = [functions[function] for function in source.functions if function in functions]
        if not names:
            raise UsageError(f"{path} has no backward that the model can use: {', '.join(functions)}")
        for name in names:
            if name in found:
                raise UsageError(f"{found[name][0]} and {path} both define {COURSE[name].function_name}; give one of them")
            found[name] = path, source
    return found


def said(report: Report, is_used: bool) -> str:
    """The verdict in a line, and what follows from it."""
    if report.verdict not in (RIGHT, WRONG):
        return f"{report.verdict}: {report.sentence}\n  The library's is used instead."
    verdict = "right" if report else f"wrong: {report.mistake or report.sentence}"
    if not is_used:
        return f"{verdict}\n  It is not used: another of your answers computes this, too."
    return verdict if report else f"{verdict}\n  It is used all the same, to see what that does."


def trained(used: dict[str, Source], seed: int, steps: int, theirs: Run) -> Run:
    """Train with these answers, and print each loss next to the library's."""
    largest, every = max(theirs.losses), max(steps // LINES, 1)

    def show(step: int, loss: float) -> None:
        if step % every == 0 or step == steps - 1 or not math.isfinite(loss):
            other = theirs.losses[step]
            print(f"{step:6} {loss:9.4f} {other:9.4f}  {bars(loss, other, largest)}", flush=True)

    print(f"{'step':>6} {'yours':>9} {'library':>9}  * yours, | the library's")
    with contextlib.ExitStack() as running:
        own = {}
        for name, source in used.items():
            exercise, caller = COURSE[name], running.enter_context(Sandbox(source, COURSE[name].function_name))
            own[name] = with_backward(LIBRARY[name], exercise, caller)
        return train({**LIBRARY, **own}, seed, used, steps, SECONDS, show)


def bars(yours: float, theirs: float, largest: float) -> str:
    """Both losses as places in a line.

    >>> bars(2.0, 1.0, 4.0)
    '             |            *'
    """
    line = [" "] * (COLUMNS + 1)
    for loss, mark in ((theirs, "|"), (yours, "*")):
        line[min(round(loss / largest * COLUMNS), COLUMNS) if math.isfinite(loss) else COLUMNS] = mark
    return "".join(line).rstrip()


def distance(yours: Run, theirs: Run) -> float:
    """The largest difference between the losses of a step; infinite if training failed."""
    return math.inf if yours.failed else max(abs(a - b) for a, b in zip(yours.losses, theirs.losses))


def conclusions(yours: Run, theirs: Run, are_right: bool) -> Iterator[str]:
    """What came of it, a line each."""
    if yours.failed:
        yield f"Training failed: {yours.failed}."
    elif len(yours.losses) < len(theirs.losses):
        yield f"Training ended after {len(yours.losses)} steps, as {SECONDS:g} seconds were over."
    yield f"Words reversed without a mistake: {yours.reversed:.0%}, with the library's backwards {theirs.reversed:.0%}."
    if distance(yours, theirs) <= CLOSE:
        yield f"Both losses are the same within {max(distance(yours, theirs), 1e-16):.0e}" + (
            ": your backward trains a model." if are_right else ", but a check says that your backward is wrong.")
    elif not yours.failed:
        reached = next((step for step, loss in enumerate(theirs.losses) if loss <= yours.last), len(theirs.losses))
        yield (f"At the end your loss is {yours.last:.4f}, and the library's {theirs.last:.4f}, which was down to yours "
               f"after {reached} steps.")
        if not are_right and yours.reversed > theirs.reversed - LEARNT:
            yield "A wrong backward can still learn: training does not find such a mistake, a gradient check does."


def draw(yours: Run, theirs: Run):
    """A figure of both losses."""
    figure, axis = new_figure(1, 1, 6, 3.5)
    axis.plot(theirs.losses, label="the library's backwards", linewidth=3, alpha=0.5)
    axis.plot(yours.losses, label="yours")
    axis.set(xlabel="step", ylabel="loss", yscale="log")
    axis.legend()
    return figure
