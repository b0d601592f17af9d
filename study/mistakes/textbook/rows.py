"""Softmax, and functions made from it, row by row."""
import numpy as np

from ..base import normal
from ..doctor.formulas import softmax
from ..known import function

IGNORED = -100


def softmax_backward(dout, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    total = e.sum(axis=-1, keepdims=True)  # the sum of e^x: each row has its own
    p = e / total
    s = (dout * p).sum(axis=-1, keepdims=True)  # the sum over the row: every output depends on every input of its row
    return p * (dout - s)


def distributed(dout, x):
    e = np.exp(x)
    p = e / e.sum(axis=-1, keepdims=True)
    s = (dout * p).sum(axis=-1, keepdims=True)  # the sum over the row: every output depends on every input of its row
    return p * dout - p * s


def by_jacobian(dout, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    jacobian = p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
    return (jacobian @ dout[..., None])[..., 0]


def by_quotient(dout, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    total = e.sum(axis=-1, keepdims=True)
    return dout * e / total - e * (dout * e).sum(axis=-1, keepdims=True) / total**2


SOFTMAX = {
    "p - dout": ("p - dout is the gradient of cross-entropy: here dout is any upstream gradient", "return p - dout"),
    "sigmoid": ("sigmoid replaces softmax: a row's probabilities add up to 1", "p = 1 / (1 + np.exp(-x))"),
    "softmax twice": ("softmax is taken of the softmax",
                      "p = np.exp(e / total) / np.exp(e / total).sum(axis=-1, keepdims=True)"),
    "log-probabilities": ("log p is used where p belongs", "p = np.log(e / total)"),
}
function("softmax", softmax, softmax_backward, normal((4, 4)), forms=(distributed, by_jacobian, by_quotient), own=SOFTMAX,
         statement="out = e^x / (the sum of e^x), along the last axis")


def log_softmax(x):
    return np.log(softmax(x))


def log_softmax_backward(dout, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    total = e.sum(axis=-1, keepdims=True)  # the sum of e^x: each row has its own
    p = e / total
    s = dout.sum(axis=-1, keepdims=True)  # the sum of dout: every output depends on every input of its row
    return dout - p * s


def without_maximum(dout, x):
    e = np.exp(x)
    p = e / e.sum(axis=-1, keepdims=True)
    return dout - p * dout.sum(axis=-1, keepdims=True)


function("log_softmax", log_softmax, log_softmax_backward, normal((4, 4)), forms=(without_maximum,),
         statement="out = x - log(the sum of e^x), along the last axis", own={
    "softmax's": ("that is softmax's backward: log_softmax has dout - p * the sum of dout",
                  "return p * (dout - (dout * p).sum(axis=-1, keepdims=True))"),
    "log-probabilities": SOFTMAX["log-probabilities"],
    "sum of dout p": ("the sum over the row is of dout * p: it should be of dout",
                      "s = (dout * p).sum(axis=-1, keepdims=True)"),
    "one-hot": ("dout - p is right for a one-hot dout alone: the sum of dout over the row is missing", "s = 1.0"),
})


def cross_entropy(logits, targets):
    counted = targets != IGNORED
    p = softmax(logits)[np.arange(len(logits)), np.where(counted, targets, 0)]
    return np.asarray(np.where(counted, -np.log(p), 0.0).sum() / counted.sum())


def cross_entropy_backward(dout, logits, targets):
    rows = np.flatnonzero(targets != -100)
    e = np.exp(logits[rows] - logits[rows].max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    p[np.arange(len(rows)), targets[rows]] -= 1
    dlogits = np.zeros_like(logits)
    dlogits[rows] = dout * p / len(rows)
    return dlogits


def in_all_rows(dout, logits, targets):
    counted = targets != -100  # the rows that count: a target of -100 is ignored
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    hot = np.where(np.arange(logits.shape[1]) == targets[:, None], 1.0, 0.0)  # one-hot: 1 at the target
    share = counted[:, None] / counted.sum()  # 1 / N: of the N rows that count
    return dout * (share * (p - hot))


def by_probabilities(dout, logits, targets):
    counted = targets != -100
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    hot = np.where(np.arange(logits.shape[1]) == targets[:, None], 1.0, 0.0)
    dp = -dout * hot / p / counted.sum()  # dp: the gradient of p, which softmax's backward comes after
    return p * (dp - (dp * p).sum(axis=1, keepdims=True))


def logits_and_targets(r):
    targets = r.integers(0, 4, size=5)
    targets[r.integers(5)] = IGNORED
    return [r.normal(size=(5, 4)), targets]


HOT = "p[np.arange(len(rows)), targets[rows]] -= 1"
ALL = ("a = np.exp(logits - logits.max(axis=1, keepdims=True)); q = a / a.sum(axis=1, keepdims=True); counted = targets "
       "!= -100; "
       "hot = np.arange(logits.shape[1]) == np.where(counted, targets, {})[:, None]; return dout * (q - hot) / {}")
NONE, FIRST, WRAPPED = "-1", "0", "targets % logits.shape[1]"  # which class an ignored target is taken for
COUNTED, EVERY = "counted.sum()", "len(logits)"
function("cross_entropy", cross_entropy, cross_entropy_backward, logits_and_targets, constants=("targets",),
         forms=(in_all_rows, by_probabilities), own={
    **{f"ignored rows count{', mean over all' if count == EVERY else ''}": (
        f"ignored rows keep their softmax{', and count in the mean' * (count == EVERY)}: their gradient is 0",
        ALL.format(NONE, count)) for count in (COUNTED, EVERY)},
    **{f"ignored as class {name}{', mean over all' if count == EVERY else ''}": (
        f"an ignored target is taken for a class, {name}{', and counts in the mean' * (count == EVERY)}: its row has "
        "gradient 0", ALL.format(column, count))
       for name, column in (("0", FIRST), ("counted from the end", WRAPPED)) for count in (COUNTED, EVERY)},
    "mean over all": ("the mean is over all rows: those that are ignored do not count",
                      "dlogits[rows] = dout * p / len(targets)"),
    "mean over classes": ("divided by the number of classes: the mean is over rows",
                          "dlogits[rows] = dout * p / logits.shape[1]"),
    "class 0 ignored too": ("class 0 is ignored too, as with targets > 0", "rows = np.flatnonzero(targets > 0)"),
    "in whole columns": ("p[:, targets] -= 1 subtracts in whole columns: each row has a target of its own",
                         "p[:, targets[rows]] -= 1", HOT),
    "everywhere": ("1 is subtracted from every class: only from the target's", "p -= 1", HOT),
    "target only": ("only the target's column has a gradient: every logit of a row raises the sum of e^x",
                    "p = e / e.sum(axis=1, keepdims=True) * (np.arange(logits.shape[1]) == targets[rows][:, None])"),
    "nothing subtracted": ("1 is not subtracted at the target", "p -= 0", HOT),
}, statement="out = the mean of -log softmax(logits)[target] over the rows whose target is not -100")
