"""Print the guide's table on what wrong backwards do to learning. It takes five minutes:

    PYTHONPATH=. python docs/wrong_backwards.py
"""
import numpy as np

from study.exercises.answer import Direct
from study.exercises.course import COURSE
from study.exercises.training.answers import with_backward
from study.exercises.training.ops import LIBRARY, Ops
from study.exercises.training.run import BATCH, RATE, STEPS, TESTED, Run, train
from study.mistakes.doctor import Known, Routine

SEEDS = range(5)
BOTH = "attention", "causal_attention"
MISTAKES = {  # {what is wrong: (exercises, how the doctor's sentence on it, or its name, begins)}
    "softmax: the row sum is missing": (BOTH, "the sum over the row is missing"),
    "softmax: the mean of the row for its sum": (BOTH, "the sum over the row is averaged"),
    "attention: 1 / sqrt(D) is missing in dQ and dK": (BOTH, "no scale in backward"),
    "attention: dK without the transpose of dS": (BOTH, "a transpose is missing: dscores replaces"),
    "attention: only V gets a gradient": (BOTH, "weights constant"),
    "attention: the mask is forgotten in backward": (("causal_attention",), "no mask"),
    "layer norm: mean and variance as constants": (("layer_norm",), "mean and variance constant"),
    "layer norm: not divided by the deviation": (("layer_norm",), "the factor rstd is missing: dx_hat - shift"),
    "linear: db is averaged over the rows": (("linear",), "dbias is averaged"),
    "GELU: x Phi'(x) is missing": (("gelu",), "the density is missing"),
    "embedding: a repeated letter is added once": (("embedding",), "overwrites"),
    "cross-entropy: 1 is not subtracted at the target": (("cross_entropy",), "nothing subtracted"),
}


def known_as(routine: Routine, words: str) -> Known:
    """The first of the mistakes and edits of this name, or whose sentence begins like this."""
    return next(known for known in (*routine.mistakes, *routine.edits())
                if known.name == words or known.sentence.startswith(words))


def ops_with(exercises: tuple[str, ...], mistake: str) -> Ops:
    """The library's ops, these with a known mistake in their backward."""
    ops = dict(LIBRARY)
    for name in exercises:
        routine = COURSE[name].routine

        def wrong(*inputs, routine=routine, known=known_as(routine, mistake)):
            return tuple(routine.run(dict(zip(routine.arguments, inputs)), known.changes).values())

        ops[name] = with_backward(LIBRARY[name], COURSE[name], Direct(wrong))
    return ops


def row(title: str, runs: list[Run]) -> str:
    """A line of the table."""
    return f"{title:50} {spread([run.last for run in runs]):30} {spread([100 * run.reversed for run in runs])}"


def spread(numbers: list[float]) -> str:
    return f"{np.median(numbers):.3g} ({min(numbers):.3g} to {max(numbers):.3g})"


if __name__ == "__main__":
    print(f"{STEPS} steps of Adam, rate {RATE:g}, {BATCH} new words each; median (least to most) of {len(SEEDS)} seeds\n\n"
          f"{'mistake':50} {'loss of the last tenth':30} {TESTED} new words reversed, %")
    print(row("none", [train(LIBRARY, seed) for seed in SEEDS]), flush=True)
    for title, (exercises, mistake) in MISTAKES.items():
        print(row(title, [train(ops_with(exercises, mistake), seed) for seed in SEEDS]), flush=True)
