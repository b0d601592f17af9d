"""The logarithm of a sum of exponentials: a value, not a gradient."""
import numpy as np

from study.exercises.course.rows import THREE_AXES, large, very_large
from study.exercises.exercise import Argument, Exercise
from study.mistakes.doctor import Known, Routine


def logsumexp(x):
    largest = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=-1)) + largest[..., 0]


def around(levels, columns=3):
    """Three rows, or as many as there are levels, of numbers near these."""
    def draw(generator):
        rows = np.broadcast_to(np.asarray(levels, float), (len(levels) if np.ndim(levels) else 3, columns))
        return {"x": rows + generator.normal(size=rows.shape)}
    return draw


def log_of_sum(
    x, *, shift=lambda x: x.max(-1, keepdims=True), back=lambda m: m, exponential=np.exp,
    total=lambda e: e.sum(-1, keepdims=True), logarithm=np.log, combine=lambda log, m, x: log + m,
    finish=lambda out: out[..., 0],
):
    m = shift(x)
    return finish(combine(logarithm(total(exponential(x - m))), back(m), x))


def exchanged(part, table):
    return tuple(Known(name, sentence, {part: wrong}) for name, (sentence, wrong) in table.items())


def no_shift(x):
    return np.zeros_like(x[..., :1])


LOGSUMEXP = Routine("logsumexp", log_of_sum, ("x",), ("out",), (
    *exchanged("shift", {
        "no maximum": ("the maximum is not subtracted before e^x, so e^x overflows, or all of a row becomes zero",
                       no_shift),
        "maximum of everything": ("the maximum of the whole array is subtracted; far below it, all of a row becomes zero: "
                                  "each row needs its own", lambda x: np.full_like(x[..., :1], x.max())),
        "maximum over axis 0": ("the maximum is taken over axis 0; each row along the last axis needs its own, or it may "
                                "become zero", lambda x: np.broadcast_to(x.max(0, keepdims=True), x.shape)),
        "minimum": ("the minimum is subtracted: e^x overflows all the same", lambda x: x.min(-1, keepdims=True)),
        "mean": ("the mean is subtracted: e^x overflows where a number is far above it",
                 lambda x: x.mean(-1, keepdims=True)),
        "largest magnitude": ("the largest magnitude is subtracted: of a negative row all becomes zero; it has to be the "
                              "largest number", lambda x: np.abs(x).max(-1, keepdims=True)),
        "first of the row": ("the first of the row is subtracted; e^x overflows where another is far above it",
                             lambda x: x[..., :1]),
        "at least zero": ("the maximum is at least 0: of a negative row all becomes zero",
                          lambda x: np.maximum(x.max(-1, keepdims=True), 0)),
    }),
    *exchanged("back", {
        "maximum not added": ("the maximum is not added back after the logarithm", lambda m: 0 * m),
        "maximum subtracted": ("the maximum is subtracted after the logarithm; it has to be added", lambda m: -m),
        "maximum twice": ("the maximum is added twice after the logarithm", lambda m: 2 * m),
        "log of the maximum": ("the logarithm of the maximum is added; the maximum stands outside of the logarithm",
                               np.log),
        "e^maximum": ("e^maximum is added; log(e^m s) = m + log(s)", np.exp),
    }),
    *exchanged("logarithm", {
        "no logarithm": ("the logarithm is missing", lambda s: s),
        "log2": ("the logarithm is to the base 2", np.log2),
        "log10": ("the logarithm is to the base 10", np.log10),
        "log1p": ("log(1 + s) stands for log(s)", np.log1p),
    }),
    *exchanged("total", {
        "mean for the sum": ("the mean of e^x stands for its sum", lambda e: e.mean(-1, keepdims=True)),
        "largest only": ("the largest e^x stands for the sum, so the maximum comes out",
                         lambda e: e.max(-1, keepdims=True)),
        "summed over everything": ("the sum runs over the whole array; each row along the last axis has its own",
                                   lambda e: np.full_like(e[..., :1], e.sum())),
    }),
    *exchanged("exponential", {
        "2^x": ("2^x stands for e^x", np.exp2),
        "e^-x": ("e^-x stands for e^x", lambda x: np.exp(-x)),
    }),
    *exchanged("finish", {
        "axis kept": ("the summed axis is still there, with size 1: sum without keepdims", lambda out: out),
        "sign": ("the sign is wrong", lambda out: -out[..., 0]),
    }),
    *exchanged("combine", {
        "log_softmax": ("x minus the log of the sum: that is log_softmax", lambda log, m, x: (x - (log + m))[..., None]),
        "maximum multiplied": ("the maximum is multiplied; log(e^m s) = m + log(s) adds it", lambda log, m, x: log * m),
        "negative logarithm": ("the logarithm is subtracted from the maximum; log(e^m s) = m + log(s)",
                               lambda log, m, x: m - log),
    }),
    *(Known(f"clipped at {limit}", f"x is clipped at {limit} before e^x, which gives the result of another x",
            dict(shift=no_shift, exponential=lambda x, limit=limit: np.exp(np.clip(x, -limit, limit))))
      for limit in (20, 30, 50, 80, 88, 100, 500, 600, 700, 709)),
    *(Known(f"{eps} added", f"{eps} is added in the logarithm, and the maximum is not subtracted: it is still an overflow",
            dict(shift=no_shift, logarithm=lambda s, eps=eps: np.log(s + eps)))
      for eps in (1e-300, 1e-16, 1e-15, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)),
    *(Known(f"{eps} added to the sum", f"{eps} is added in the logarithm; the sum is at least 1, as e^0 stands in it",
            dict(logarithm=lambda s, eps=eps: np.log(s + eps))) for eps in (1e-7, 1e-6, 1e-5)),
    Known("maximum without keepdims", "the row maxima lack keepdims: on squares, they are subtracted from the columns",
          dict(shift=lambda x: x.max(-1), combine=lambda log, m, x: log + x.max(-1, keepdims=True))),
    Known("maximum of everything added", "the maximum of the whole array is added back; it has to be that of the row",
          dict(combine=lambda log, m, x: log + x.max())),
    Known("axis 0 throughout", "maximum and sum run over axis 0 instead of the last one",
          dict(shift=lambda x: x.max(0, keepdims=True), total=lambda e: e.sum(0, keepdims=True),
               finish=lambda out: out[0])),
    Known("axis 1 throughout",
          "maximum and sum run over axis 1: right for a matrix, but with more axes the last one is meant",
          dict(shift=lambda x: x.max(1, keepdims=True), total=lambda e: e.sum(1, keepdims=True),
               finish=lambda out: out[:, 0])),
    Known("whole array throughout", "maximum and sum run over the whole array; each row along the last axis has its own",
          dict(shift=np.max, total=np.sum, finish=lambda out: out)),
))

EXERCISES = [
    Exercise(
        "logsumexp", "logsumexp that does not overflow", 2, """
        The logarithm of a sum of exponentials is what a softmax is divided by, in the logarithm: it stands in log_softmax,
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
