"""The logarithm of a sum of exponentials: a value, not a gradient."""
import numpy as np

from study.exercises.course.elementwise import large
from study.exercises.course.rows import THREE_AXES, very_large
from study.exercises.exercise import Argument, Exercise
from study.mistakes.solutions import routine_of


def logsumexp(x):
    largest = x.max(axis=-1, keepdims=True)
    e = np.exp(x - largest)
    total = e.sum(axis=-1, keepdims=True)
    log = np.log(total)
    out = log + largest
    return out[..., 0]


def around(levels, columns=3):
    """Rows of numbers around these levels: one row for each, or three."""
    def draw(generator):
        rows = np.broadcast_to(np.asarray(levels, float), (len(levels) if np.ndim(levels) else 3, columns))
        return {"x": rows + generator.normal(size=rows.shape)}
    return draw


NO_SHIFT = "largest = np.zeros_like(x[..., :1])"
LIMITS = 20, 30, 50, 80, 88, 100, 500, 600, 700, 709
TINY = 1e-300, 1e-16, 1e-15, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5

LOGSUMEXP = routine_of(logsumexp, ("out",), {
    "no maximum": ("the maximum is not subtracted before e^x, so e^x overflows, or all of a row becomes zero", NO_SHIFT),
    "maximum of everything": ("the maximum of the whole array is subtracted; far below it, all of a row becomes zero: "
                              "each row needs its own", "largest = np.full_like(x[..., :1], x.max())"),
    "maximum over axis 0": ("the maximum is taken over axis 0; each row along the last axis needs its own, or it may "
                            "become zero", "largest = np.broadcast_to(x.max(axis=0, keepdims=True), x.shape)"),
    "minimum": ("the minimum is subtracted: e^x overflows all the same", "largest = x.min(axis=-1, keepdims=True)"),
    "mean": ("the mean is subtracted: e^x overflows where a number is far above it",
             "largest = x.mean(axis=-1, keepdims=True)"),
    "largest magnitude": ("the largest magnitude is subtracted: of a negative row all becomes zero; it should be the "
                          "largest number", "largest = np.abs(x).max(axis=-1, keepdims=True)"),
    "first of the row": ("the first of the row is subtracted; e^x overflows where another is far above it",
                         "largest = x[..., :1]"),
    "at least zero": ("the maximum is at least 0: of a negative row all becomes zero",
                      "largest = np.maximum(x.max(axis=-1, keepdims=True), 0)"),
    "maximum not added": ("the maximum is not added back after the logarithm", "out = log"),
    "maximum subtracted": ("the maximum is subtracted after the logarithm; it should be added", "out = log - largest"),
    "maximum twice": ("the maximum is added twice after the logarithm", "out = log + 2 * largest"),
    "log of the maximum": ("the logarithm of the maximum is added; the maximum is outside the logarithm",
                           "out = log + np.log(largest)"),
    "e^maximum": ("e^maximum is added; log(e^m s) = m + log(s)", "out = log + np.exp(largest)"),
    "no logarithm": ("the logarithm is missing", "log = total"),
    "log2": ("the logarithm is to the base 2", "log = np.log2(total)"),
    "log10": ("the logarithm is to the base 10", "log = np.log10(total)"),
    "log1p": ("log(1 + s) replaces log(s)", "log = np.log1p(total)"),
    "mean for the sum": ("the mean of e^x replaces its sum", "total = e.mean(axis=-1, keepdims=True)"),
    "largest only": ("the largest e^x replaces the sum, so the maximum comes out",
                     "total = e.max(axis=-1, keepdims=True)"),
    "summed over everything": ("the sum runs over the whole array; each row along the last axis has its own",
                               "total = np.full_like(e[..., :1], e.sum())"),
    "2^x": ("2^x replaces e^x", "e = np.exp2(x - largest)"),
    "e^-x": ("e^-x replaces e^x", "e = np.exp(largest - x)"),
    "axis kept": ("the summed axis is still there, with size 1: sum without keepdims", "return out"),
    "sign": ("the sign is wrong", "return -out[..., 0]"),
    "log_softmax": ("x minus the log of the sum: that is log_softmax", "out = (x - (log + largest))[..., None]"),
    "maximum multiplied": ("the maximum is multiplied; log(e^m s) = m + log(s) adds it", "out = log * largest"),
    "negative logarithm": ("the logarithm is subtracted from the maximum; log(e^m s) = m + log(s)",
                           "out = largest - log"),
    **{f"clipped at {limit}": (f"x is clipped at {limit} before e^x, which gives the result of another x",
                               f"{NO_SHIFT}; e = np.exp(np.clip(x, -{limit}, {limit}))") for limit in LIMITS},
    **{f"{eps} added": (f"{eps} is added in the logarithm, and the maximum is not subtracted: it is still an overflow",
                        f"{NO_SHIFT}; log = np.log(total + {eps})") for eps in TINY},
    **{f"{eps} added to the sum": (f"{eps} is added in the logarithm; the sum is at least 1, as e^0 is part of it",
                                   f"log = np.log(total + {eps})") for eps in TINY[-3:]},
    "maximum without keepdims": ("the row maxima lack keepdims: on squares, they are subtracted from the columns",
                                 "largest = x.max(axis=-1); out = log + x.max(axis=-1, keepdims=True)"),
    "maximum of everything added": ("the maximum of the whole array is added back; it should be that of the row",
                                    "out = log + x.max()"),
    "axis 0 throughout": ("maximum and sum run over axis 0 instead of the last one",
                          "largest = x.max(axis=0, keepdims=True); total = e.sum(axis=0, keepdims=True); return out[0]"),
    "axis 1 throughout": ("maximum and sum run over axis 1: right for a matrix, but with more axes the last one is "
                          "meant",
                          "largest = x.max(axis=1, keepdims=True); total = e.sum(axis=1, keepdims=True); return out[:, 0]"),
    "whole array throughout": ("maximum and sum run over the whole array; each row along the last axis has its own",
                               "largest = x.max(); total = e.sum(); return out"),
})

EXERCISES = [
    Exercise(
        "logsumexp", "logsumexp that does not overflow", 2, """
        The logarithm of a sum of exponentials is what a softmax is divided by, in the logarithm: it is part of log_softmax,
        in cross-entropy, and in blockwise attention. e^1000 is infinite and e^-1000 is zero, but the logarithm of the sum
        is an ordinary number. Find it along the last axis, for numbers of any size, without an overflow. It is a value this
        time, and not a gradient; x may have any axes in front, and out lacks the last one.
        """,
        "out = log(sum of e^x along the last axis)", "21. Cross-entropy",
        {"x": Argument("M N", about="numbers of any size; each row along the last axis has a result of its own")},
        ("For which numbers does e^x overflow, and for which is it zero? Try log(sum(e^x)) for [1000, 1000].",
         "e^x = e^m e^(x - m) for any m. Take e^m out of the sum: what becomes of it in the logarithm?",
         "out = m + log(sum of e^(x - m)), with m the largest number of the row: the largest term is then e^0 = 1."),
        logsumexp, LOGSUMEXP,
        special=(
            *THREE_AXES,
            large,
            lambda r: {"x": r.uniform(-60, 60, (2, 3, 4))},
            around(1000),
            around(-500),
            around(-1000),
            around([[1000], [-1000]], columns=2),
            around([[-1000], [0], [-900], [1000], [-1000]]),
            around([[-450, 0, 450], [450, 0, -450]]),
            around([[-450, 450, 0], [-450, 0, 450], [450, 0, -450], [-450, 450, 400]]),
            around([[-1000, 1000, 0], [-900, 1000, 1000], [0, -1000, 1000], [1000, -1000, 0]]),
            very_large,
        ),
        stub="out = np.zeros(x.shape[:-1])  # your formula",
    ),
]
