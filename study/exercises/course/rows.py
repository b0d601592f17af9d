"""Softmax, and functions made from it, row by row."""

from study.exercises.course.elementwise import AROUND_1000, large
from study.exercises.exercise import Argument, Exercise, below
from study.mistakes.base import ROUTINES
from study.mistakes.textbook.rows import (
    cross_entropy, cross_entropy_backward, log_softmax, log_softmax_backward, softmax, softmax_backward,
)


def with_ignored(n, c, ignored, spread=1.0):
    """n rows of logits; this many random targets are -100."""
    def draw(generator):
        targets = generator.integers(0, c, n)
        targets[generator.choice(n, ignored, replace=False)] = -100
        return {"logits": spread * generator.uniform(-1, 1, (n, c)), "targets": targets}
    return draw


def very_large(generator):
    return {"x": generator.permuted([[-1000.0, 0.0, 500.0, 1000.0]] * 2, axis=1) + generator.normal(size=(2, 4))}


def rows_apart(generator):
    """Rows that vanish if the maximum of the whole array is subtracted instead of their own."""
    return {"x": generator.permutation([[1000.0], [-1000.0]]) + generator.normal(size=(2, 4))}


def logits_apart(generator):
    """The same for three rows, one of which is ignored."""
    levels = generator.permutation([[1000.0], [-1000.0], [-1000.0]])
    return {**with_ignored(3, 4, 1)(generator), "logits": levels + generator.normal(size=(3, 4))}


def cubes(generator, n):
    return {"x": generator.normal(size=(n, n, n))}


ROWS_APART = "rows around 1000 and -1000"
BEYOND = {AROUND_1000: very_large, ROWS_APART: rows_apart}
# cubes, on which a wrong axis has the right shape, and one array on which it does not
THREE_AXES = (lambda r: cubes(r, 2), lambda r: cubes(r, 3), lambda r: {"x": r.normal(size=(2, 3, 4))})

EXERCISES = [
    Exercise(
        "softmax", "Softmax", 2, """
        softmax turns each row of scores into weights that add up to 1. Attention does this to every row of scores, so
        its gradient is the heart of attention's backward. All inputs of a row reach all outputs of it: the Jacobian of
        a row is full. Find dx without building it. There may be more axes than two: a row is always along the last one.
        """,
        "out = e^x / (sum of e^x along the last axis)", "4. The weighted mean",
        {"x": Argument("M N", about="scores; each row along the last axis is a softmax of its own")},
        ("Write p for the output. What is d p_i / d x_j for i = j, and what for i != j?",
         "The Jacobian of a row is diag(p) - p p^T. Multiply it with dout by hand, and never build it.",
         "dx = p * (dout - s), where s is one number for each row: the sum of dout * p."),
        softmax_backward, ROUTINES["softmax"], softmax,
        special=(*THREE_AXES, large), beyond=BEYOND,
    ),
    Exercise(
        "log_softmax", "The logarithm of softmax", 2, """
        Losses want the logarithm of a softmax: log p_i = x_i - logsumexp(x). Taken in one step it neither overflows nor
        takes the logarithm of zero, and its gradient is simpler than softmax's. Find dx. There may be more axes than two: a
        row is always along the last one. dout may be anything, and not only one-hot, as in cross-entropy.
        """,
        "out = x - log(sum of e^x along the last axis)", "21. Cross-entropy",
        {"x": Argument("M N", about="scores; each row along the last axis is one of its own")},
        ("Two things depend on x_j: out_j itself, and the logarithm that is subtracted from all of the row.",
         "The derivative of log(sum of e^x) by x_j is p_j, the softmax. It is subtracted from each out_i of the row.",
         "dx = dout - p * s, where s is one number for each row: the sum of dout."),
        log_softmax_backward, ROUTINES["log_softmax"], log_softmax,
        special=(*THREE_AXES, lambda r: {"x": r.uniform(-30, 30, (2, 4))}), beyond=BEYOND,
    ),
    Exercise(
        "cross_entropy", "Cross-entropy", 3, """
        The loss of every language model: the mean of -log p of the class that was right, p being the softmax of the logits'
        row. A target of -100 means that this row does not count: padding, or a prompt. It gives no loss, and the mean runs
        over the others only. Find dlogits; at least one target counts. dout is a number, and often 1, but not if the loss
        is scaled or added to another one.
        """,
        "out = mean of -log softmax(logits)[i, targets[i]] over the rows i where targets[i] is not -100", "21. "
        "Cross-entropy",
        {"logits": Argument("N C", about="a row of scores for each example, a column for each class"),
         "targets": Argument("N", below("C"), "the number of the right class of each row, from 0 to C - 1, or -100")},
        ("Take one row first. Its loss is logsumexp(x) - x[target]: what is the derivative of each of the two?",
         "For one row the gradient is p - onehot: the softmax, less 1 at the target.",
         "Set the rows with target -100 to zero, divide by the number of the others, and multiply by dout."),
        cross_entropy_backward, ROUTINES["cross_entropy"], cross_entropy,
        special=(
            with_ignored(2, 2, 1),
            with_ignored(4, 4, 1),
            with_ignored(5, 3, 2),
            with_ignored(3, 5, 2),
            with_ignored(6, 4, 5),
            with_ignored(4, 6, 0, spread=30.0),
            with_ignored(6, 4, 2, spread=30.0),
        ),
        beyond={AROUND_1000: with_ignored(4, 3, 1, spread=1500.0), ROWS_APART: logits_apart},
    ),
]
