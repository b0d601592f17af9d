"""Elementwise functions, for which the chain rule is a single product."""
import numpy as np

from study.exercises.exercise import Argument, Exercise
from study.mistakes.base import ROUTINES
from study.mistakes.textbook.elementwise import (
    dropout, dropout_backward, gelu, gelu_backward, gelu_tanh, gelu_tanh_backward, tanh_backward,
)


def spread(generator, shape, sizes):
    """Numbers of both signs, where the function bends."""
    return 1.5 * generator.normal(size=shape)


def large(generator):
    return {"x": generator.uniform(-60, 60, (2, 4))}


AROUND_1000 = "numbers around 1000"


def very_large(generator):
    return {"x": generator.permuted([-1000.0, -700.0, 700.0, 1000.0]).reshape(2, 2)}


EXERCISES = [
    Exercise(
        "tanh", "tanh", 1, """
        tanh squashes each number into (-1, 1). It acts on each element by itself, so an element of out depends on one
        element of x only, and the chain rule is one product: dout times the derivative, element by element. Find dx. All
        functions of this kind (relu, sigmoid, gelu) work like this, and it is the smallest backward that there is.
        """,
        "out = tanh(x)", "10. No Jacobian is built",
        {"x": Argument("M N", spread, "any numbers")},
        ("What is the derivative of tanh? It can be written with tanh alone.",
         "tanh'(x) = 1 - tanh(x)^2. Compute out = tanh(x) again first: you are given x, and not out.",
         "The chain rule multiplies by dout, element by element: dout * (1 - out**2), with the brackets."),
        tanh_backward, ROUTINES["tanh"], np.tanh, special=(large,), beyond={AROUND_1000: very_large},
    ),
    Exercise(
        "dropout", "Dropout", 1, """
        In training, dropout sets a random part of the numbers to zero, with probability p each, and divides the others by
        1 - p, so that the mean stays the same. Which ones were kept is known: mask is True there. Find dx. Backward must
        use the mask of forward: a new one would be the gradient of another function.
        """,
        "out = x * mask / (1 - p)", "10. No Jacobian is built",
        {"x": Argument("M N", about="any numbers"),
         "mask": Argument("M N", lambda r, shape, sizes: r.random(shape) < 0.6, "True where x is kept"),
         "p": Argument("", lambda r, shape, sizes: float(r.uniform(0.1, 0.8)),
                       "the probability to be dropped, at least 0, less than 1")},
        ("What is the derivative of out by x where mask is True, and what is it where mask is False?",
         "Each number is multiplied by a factor that does not depend on x. The gradient is multiplied by the same factor.",
         "The factor is mask / (1 - p): what was dropped gets no gradient, and what was kept is scaled as in forward."),
        dropout_backward, ROUTINES["dropout"], dropout,
        special=(
            lambda r: {"x": r.normal(size=(2, 3)), "mask": np.ones((2, 3), bool), "p": 0.3},
            lambda r: {"x": r.normal(size=(2, 3)), "mask": np.zeros((2, 3), bool), "p": 0.3},
            lambda r: {"x": r.normal(size=(2, 3)), "mask": np.ones((2, 3), bool), "p": 0.0},
            lambda r: {"x": r.uniform(-60, 60, (3, 4)), "mask": r.permuted(np.arange(12) % 3 < 1).reshape(3, 4), "p": 0.7},
        ),
    ),
    Exercise(
        "gelu", "gelu", 2, """
        gelu multiplies each number by Phi(x), the probability that a standard normal number is less than x: a relu with a
        soft edge, and the activation of GPT and BERT. x is in it twice, so the derivative has two terms. Find dx.
        NumPy has no erf; Python's math.erf takes one number, and np.vectorize(math.erf) takes arrays.
        """,
        "out = x * Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2", "20. Gelu",
        {"x": Argument("M N", spread, "any numbers")},
        ("Use the product rule: both factors of x * Phi(x) depend on x.",
         "dx = dout * (Phi(x) + x * Phi'(x)), and Phi' is the density of the standard normal distribution.",
         "The density is e^(-x^2 / 2) / sqrt(2 pi). It comes from erf'(t) = 2 / sqrt(pi) e^(-t^2) with t = x / sqrt(2)."),
        gelu_backward, ROUTINES["gelu"], gelu, special=(large,), beyond={AROUND_1000: very_large},
    ),
    Exercise(
        "gelu_tanh", "gelu with tanh", 3, """
        GPT-2 computes gelu with tanh in the place of erf, which is close but not the same, so it has another derivative:
        the chain rule goes through tanh and through its argument, a polynomial. Find dx. A gradient of the other form would
        be off by less than a percent, which training would hardly show.
        """,
        "out = x * (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 * x^3)", "20. Gelu",
        {"x": Argument("M N", spread, "any numbers")},
        ("Write t = tanh(u). By the product rule, 0.5 x (1 + t) has two terms: which?",
         "The terms are 0.5 (1 + t) and 0.5 x dt/dx. By the chain rule, dt/dx = (1 - t^2) du/dx.",
         "du/dx = sqrt(2 / pi) * (1 + 3 * 0.044715 * x^2). Multiply the sum of both terms by dout."),
        gelu_tanh_backward, ROUTINES["gelu_tanh"], gelu_tanh, special=(large,),
        beyond={AROUND_1000: very_large},
    ),
]
