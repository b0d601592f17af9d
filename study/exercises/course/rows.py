"""Softmax and what is made of it, row by row."""
import numpy as np

from minigrad.gradcheck.doctor import routine_of
from study.exercises.exercise import Argument, Exercise


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_backward(dout, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p * (dout - (dout * p).sum(axis=-1, keepdims=True))


EXERCISES = [
    Exercise(
        "softmax", "Softmax", 2, """
        softmax turns each row of scores into weights that add up to 1. Attention does this to every row of scores, so
        its gradient is the heart of attention's backward. All inputs of a row reach all outputs of it: the Jacobian of
        a row is full. Find dx without building it. There may be more axes than two: a row is always along the last one.
        """,
        "out = e^x / (sum of e^x along the last axis)", "7. Softmax",
        {"x": Argument("M N", about="scores; each row along the last axis is a softmax of its own")},
        ("Write p for the output. What is d p_i / d x_j for i = j, and what for i != j?",
         "The Jacobian of a row is diag(p) - p p^T. Multiply it with dout by hand, and never build it.",
         "dx = p * (dout - s), where s is one number for each row: the sum of dout * p."),
        softmax_backward, routine_of("softmax"), softmax,
        special=(
            lambda r: {"x": r.uniform(-60, 60, (2, 4))},
            lambda r: {"x": r.normal(size=(2, 2, 2))},
            lambda r: {"x": r.normal(size=(3, 3, 3))},
            lambda r: {"x": r.normal(size=(2, 3, 4))},
        ),
        beyond=(lambda r: {"x": r.permuted([[-1000.0, 0.0, 500.0, 1000.0]] * 2, axis=1) + r.normal(size=(2, 4))},),
    ),
]
