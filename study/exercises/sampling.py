"""`minigrad exercises sample FILE`: a trained model writes a text with a student's own probabilities of the next token."""
import argparse

import numpy as np

from models import loading
from models.commands.shared import CheckFailed, UsageError, usage_errors
from models.commands.train import last_run_or_starter
from models.progress import saying
from models.tokenizers import SAMPLE_LENGTH, TEMPERATURE
from study.exercises import submission
from study.exercises.answer import RETURNED, Caller
from study.exercises.course import COURSE
from study.exercises.files import check_file
from study.exercises.report import RIGHT, WRONG
from study.exercises.sandbox import Sandbox
from study.exercises.submission import SubmissionError

EXERCISE = COURSE["next_token"]
TOP_P = 0.9


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help=f"your answer to {EXERCISE.name}: a .py file or a notebook")
    parser.add_argument("--checkpoint", metavar="RUN", help="the model that writes: folder of a run, or a checkpoint file "
                        "(default: the run saved last, or the model that comes with minigrad, starter)")
    parser.add_argument("--prompt", help="the text to continue (default: the first symbol)")
    parser.add_argument("--tokens", type=int, help=f"how many to generate (default: {SAMPLE_LENGTH})")
    parser.add_argument("--temperature", type=float, help=f"above 0 (default: {TEMPERATURE})")
    parser.add_argument("--top-p", type=float, help=f"above 0, at most 1 (default: {TOP_P})")
    parser.add_argument("--seed", type=int, help="to get the same text again (default: a new text each time)")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    temperature, top_p, seed = given.get("temperature", TEMPERATURE), given.get("top_p", TOP_P), given.get("seed")
    if not (0 < temperature < np.inf and 0 < top_p <= 1 and (seed is None or seed >= 0)):
        raise UsageError("expected --temperature above 0, --top-p above 0 and at most 1, and --seed from 0, got "
                         f"{temperature}, {top_p} and {seed}")
    trained = loading.source(given["checkpoint"] if "checkpoint" in given else last_run_or_starter())
    if trained.task:
        raise UsageError(f"{trained.path} was trained on task {trained.task.name!r}; give a run that was trained on a text")
    try:
        source = submission.read(given["file"])
        with saying("running your answer"):
            report = check_file(given["file"], EXERCISE)
    except SubmissionError as error:
        raise UsageError(error) from None
    print(f"{EXERCISE.name}: {report.verdict}{'' if report else f': {report.mistake or report.sentence}'}", flush=True)
    if report.verdict not in (RIGHT, WRONG):
        return 1
    if not report:
        print("  It is used all the same, to see what that does.", flush=True)
    codec, model = trained.codec(), loading.model_in(trained)
    with Sandbox(source, EXERCISE.function_name) as caller:
        own = Chooser(caller, temperature, top_p, seed)
        with usage_errors():
            pieces = codec.respond(model, given.get("prompt"), given.get("tokens", SAMPLE_LENGTH), choose=own)
        try:
            for piece in pieces:
                print(piece, end="", flush=True)
        finally:
            print()
    return 0 if report else 1


class Chooser:
    """Draws each token with the probabilities that a student's function returns; CheckFailed where they are none."""

    def __init__(self, caller: Caller, temperature: float, top_p: float, seed: int | None):
        self.caller, self.numbers = caller, (temperature, top_p)
        self.generator = np.random.default_rng(seed)

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        return np.array([self.generator.choice(len(row), p=self.probabilities(row.astype(np.float64))) for row in logits])

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        answer = self.caller.call([logits, *self.numbers])
        if answer.kind != RETURNED:
            raise CheckFailed(f"{EXERCISE.name}: {answer.message}{answer.where}")
        p = next(iter(answer.results), None)
        if p is None or p.shape != logits.shape or not (np.isfinite(p).all() and (p >= 0).all() and p.sum() > 0):
            raise CheckFailed(f"{EXERCISE.name} returned no probabilities for the {len(logits)} logits of the next token: "
                              "expected as many numbers, none below 0 and not all 0")
        return p / p.sum()
