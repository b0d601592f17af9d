"""Mistakes in softmax and its logarithm, and in cross-entropy."""
import numpy as np

from .base import family, last, normal
from .broadcast import same

MATRICES = (2, 4, 4)  # each axis but one is as long as the others: on a square a wrong axis has the right shape


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def columns(a):
    """Sum over axis 0, which stays."""
    return a.sum(0, keepdims=True)


def axis_1(a):
    return a.sum(1, keepdims=True)


def last_but_one(a):
    return a.sum(-2, keepdims=True)


def of_everything(x):
    """One softmax of the whole array."""
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def softmax_backward(
    dout, x, *, probabilities=softmax, upstream=same, product=lambda p, dout, x: p * dout, total=last,
    combine=lambda p, dout, s, x: p * (dout - s), finish=same,
):
    p, dout = probabilities(x), upstream(dout)
    s = total(product(p, dout, x))  # of each row
    return finish(combine(p, dout, s, x))


def through_the_maximum(dout, x):
    """Also the gradient through the maximum that is subtracted first."""
    dx = softmax_backward(dout, x)
    return dx - last(dx) * (x == x.max(-1, keepdims=True))


def exchanged(part, table):
    """{name: (sentence, what stands there instead)} as `family` wants it, all in one part."""
    return {name: (sentence, {part: wrong}) for name, (sentence, wrong) in table.items()}


# what p is taken to be
PROBABILITIES = exchanged("probabilities", {
    "softmax over columns": ("softmax itself runs over axis 0 in backward; each row along the last axis is one",
                             lambda x: softmax(x, 0)),
    "softmax over the last axis but one": ("softmax itself runs over the last axis but one in backward; each row along the "
                                           "last axis is one", lambda x: softmax(x, -2)),
    "softmax over everything": ("softmax itself is taken over the whole array; each row along the last axis has its own",
                                of_everything),
    "sum over columns": ("e^x is divided by its sum over axis 0; the sum of its row belongs there",
                         lambda x: np.exp(x - x.max()) / columns(np.exp(x - x.max()))),
    "sum without keepdims": ("e^x is divided by its row sums without keepdims, so that on squares each column is divided "
                             "by the sum of a row", lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(-1)),
    "not normalised": ("e^x stands for the probabilities: it is not divided by its sum over the row", np.exp),
    "x for p": ("x stands for the probabilities: the argument is the input of softmax, not its output", same),
    "log p for p": ("log p stands for the probabilities", lambda x: np.log(softmax(x))),
    "softmax twice": ("softmax is taken of what is a softmax already", lambda x: softmax(softmax(x))),
    "sigmoid for softmax": ("the sigmoid of each element stands for softmax", lambda x: 1 / (1 + np.exp(-x))),
    "negative exponent": ("e^-x stands for e^x in softmax", lambda x: softmax(-x)),
    "uniform": ("p is taken to be 1 / N for all", lambda x: np.full_like(x, 1 / x.shape[-1])),
})
UPSTREAM = exchanged("upstream", {
    "upstream squared": ("multiplied by dout twice; the chain rule does it once", lambda dout: dout**2),
    "upstream averaged": ("dout is divided by the number of rows: no mean was taken in forward",
                          lambda dout: dout * dout.shape[-1] / dout.size),
})
ENDINGS = exchanged("finish", {
    "twice": ("dx is twice too large", lambda dx: 2 * dx),
    "halved": ("dx is half as large as it should be", lambda dx: dx / 2),
    "sign": ("dx has the wrong sign", lambda dx: -dx),
    "relative error 1e-4": ("a constant with too few digits", lambda dx: 1.0001 * dx),
    "summed over rows": ("dx is summed over the rows: every row has a gradient of its own",
                         lambda dx: np.broadcast_to(columns(dx), dx.shape).copy()),
})

family("softmax", softmax, softmax_backward, normal(MATRICES), {
    **exchanged("total", {
        "no rowsum": ("the sum over the row is missing: every output depends on every input of its row", np.zeros_like),
        "diagonal only": ("p (1 - p) dout is the Jacobian's diagonal only: every input of a row reaches all of its outputs",
                          same),
        "wrong axis": ("the sum runs over axis 0; it has to run within each row, over the last axis", columns),
        "last axis but one": ("the sum runs over the last axis but one; it has to run within each row, over the last axis",
                              last_but_one),
        "axis 1": ("the sum runs over axis 1: with more than two axes that is not the last one",
                   axis_1),
        "total": ("the sum runs over the whole array; each row has a sum of its own", np.sum),
        "mean": ("the mean over the row stands for the sum: p * dout is weighted already",
                 lambda a: a.mean(-1, keepdims=True)),
        "mean of all": ("the mean over the whole array stands for the sum over each row", np.mean),
        "no keepdims": ("the row sums lack keepdims: on squares, each column is given the sum of a row",
                        lambda a: a.sum(-1)),
        "maximum": ("the largest of the row stands for its sum", lambda a: a.max(-1, keepdims=True)),
        "running sum": ("the running sum along the row stands for the whole sum", lambda a: a.cumsum(-1)),
        "last of the row": ("the row's sum has its last term only: in a loop, = overwrites where += adds",
                            lambda a: a[..., -1:]),
    }),
    **exchanged("product", {
        "no upstream in the sum": ("the row's sum is one of p, which is 1; it has to be one of p * dout",
                                   lambda p, dout, x: p),
        "no p in the sum": ("the row's sum is one of dout; it has to be weighted, one of p * dout",
                            lambda p, dout, x: dout),
        "x in the sum": ("the row's sum is one of x * dout; it has to be one of p * dout",
                         lambda p, dout, x: x * dout),
        "p squared in the sum": ("the row's sum has a p too many: p * p * dout for p * dout",
                                 lambda p, dout, x: p * p * dout),
        "1 - p in the sum": ("the row's sum is one of (1 - p) * dout; it has to be one of p * dout",
                             lambda p, dout, x: (1 - p) * dout),
        "dout squared in the sum": ("the row's sum has a dout too many: p * dout * dout for p * dout",
                                    lambda p, dout, x: p * dout * dout),
    }),
    **exchanged("combine", {
        "of x": ("x stands for p in the first term: x * dout - p * sum", lambda p, dout, s, x: x * dout - p * s),
        "of x outside": ("x stands for p as the factor: x * (dout - sum)", lambda p, dout, s, x: x * (dout - s)),
        "of x in the second term": ("x stands for p in the second term: p * dout - x * sum",
                                    lambda p, dout, s, x: p * dout - x * s),
        "sum is added": ("the sum is added instead of subtracted", lambda p, dout, s, x: p * (dout + s)),
        "no p outside": ("the factor p is missing: dout - sum has to be multiplied by it", lambda p, dout, s, x: dout - s),
        "p in the first term only": ("p multiplies dout but not the sum: dx = p * (dout - sum)",
                                     lambda p, dout, s, x: p * dout - s),
        "p in the second term only": ("p multiplies the sum but not dout: dx = p * (dout - sum)",
                                      lambda p, dout, s, x: dout - p * s),
        "p squared": ("p multiplies twice: dx = p * (dout - sum)", lambda p, dout, s, x: p * p * (dout - s)),
        "1 - p outside": ("the factor is 1 - p; it has to be p", lambda p, dout, s, x: (1 - p) * (dout - s)),
        "p (1 - p) outside": ("the sum is there, but the diagonal's factor p (1 - p) stands where p belongs",
                              lambda p, dout, s, x: p * (1 - p) * (dout - s)),
        "no diagonal": ("only the part -p_i p_j of the Jacobian is there: its diagonal has p_i as well",
                        lambda p, dout, s, x: -p * s),
        "diagonal left out": ("the Jacobian's diagonal p (1 - p) is left out: each output depends on its own input too",
                              lambda p, dout, s, x: -p * (s - p * dout)),
        "diagonal p": ("the Jacobian's diagonal is p; it has to be p (1 - p)",
                       lambda p, dout, s, x: p * dout - p * (s - p * dout)),
        "plus beside the diagonal": ("beside the diagonal, the Jacobian is -p_i p_j: the minus is missing",
                                     lambda p, dout, s, x: p * (1 - p) * dout + p * (s - p * dout)),
        "quotient, first term": ("dout is not used outside of the sum: p * (1 - sum)", lambda p, dout, s, x: p * (1 - s)),
        "times the sum": ("dout is multiplied by the sum instead of reduced by it", lambda p, dout, s, x: p * dout * s),
        "p subtracted": ("p is subtracted from dout, as if this were cross-entropy's gradient",
                         lambda p, dout, s, x: dout - p),
        "p - dout": ("dout is subtracted from p: that is the gradient of cross-entropy, dout being the targets",
                     lambda p, dout, s, x: p - dout),
        "slope alone": ("p (1 - p): the diagonal only, and without dout", lambda p, dout, s, x: p * (1 - p)),
        "log_softmax's": ("dout - p * (sum of dout) is the gradient of log_softmax",
                          lambda p, dout, s, x: dout - p * last(dout)),
        "p times dout - p": ("p stands for the sum: dx = p * (dout - p) lacks what the others of the row give",
                             lambda p, dout, s, x: p * (dout - p)),
    }),
    **PROBABILITIES, **UPSTREAM, **ENDINGS,
    "no upstream": ("dout is not used, and so dx is zero: the outputs of a row add up to 1 whatever x is",
                    dict(upstream=np.ones_like)),
    "axis 0 throughout": ("softmax and the sum both run over axis 0; each row along the last axis is a softmax of its own",
                          dict(probabilities=lambda x: softmax(x, 0), total=columns)),
    "axis 1 throughout": ("softmax and the sum both run over axis 1: right for a matrix, but with more axes the last one "
                          "is "
                          "meant, axis=-1", dict(probabilities=lambda x: softmax(x, 1), total=axis_1)),
    "whole array throughout": ("softmax and the sum both run over the whole array; each row has its own",
                               dict(probabilities=of_everything, total=np.sum)),
})
family("stable_softmax", softmax, lambda dout, x, *, way=softmax_backward: way(dout, x), normal((4, 4)), {
    "one token": ("as if the row had one element: the gradient is zero", dict(way=lambda dout, x: np.zeros_like(x))),
}, {
    "through the maximum": ("the gradient through the subtracted maximum is included", dict(way=through_the_maximum),
                            "softmax does not change when a row is shifted, so the row's gradient sums to zero, and so "
                            "does what goes through the maximum"),
})


def log_softmax_backward(dout, x, *, weight=softmax, total=last):
    return dout - weight(x) * total(dout)


family("log_softmax", lambda x: np.log(softmax(x)), log_softmax_backward, normal(MATRICES), {
    "no sum": ("dout - p: the sum of dout is missing, right only for a one-hot upstream",
               dict(total=lambda dout: 1.0)),
    "diagonal only": ("(1 - p) dout: only the Jacobian's diagonal", dict(total=lambda dout: dout)),
    "log for p": ("the output for e^output", dict(weight=lambda x: np.log(softmax(x)))),
    "wrong axis": ("the sum runs over columns", dict(total=lambda dout: dout.sum(0, keepdims=True))),
    "no p": ("the weight p is 1 / N", dict(weight=lambda x: np.full_like(x, 1 / x.shape[-1]))),
    "only dout": ("the term of the logarithm's sum is missing", dict(total=np.zeros_like)),
})

IGNORED = -100


def losses_of(x, targets):
    counted = targets != IGNORED
    return np.where(counted, -np.log(softmax(x))[np.arange(len(x)), np.where(counted, targets, 0)], 0.0), counted


def cross_entropy(x, targets):
    losses, counted = losses_of(x, targets)
    return np.asarray(losses.sum() / counted.sum())


def cross_entropy_backward(
    dout, x, targets, *, probabilities=softmax, hot=1.0, shifted=0, mask=lambda counted: counted[:, None],
    count=lambda counted: counted.sum(), upstream=lambda dout: dout, sign=1.0,
):
    _, counted = losses_of(x, targets)
    dx = probabilities(x)
    rows = np.flatnonzero(counted)
    dx[rows, (targets[rows] + shifted) % x.shape[1]] -= hot
    return sign * upstream(dout) * dx * mask(counted) / count(counted), None


def logits_and_targets(r):
    targets = r.integers(0, 4, size=5)
    targets[r.integers(5)] = IGNORED
    return [r.normal(size=(5, 4)), targets]


family("cross_entropy", cross_entropy, cross_entropy_backward, logits_and_targets, {
    "no mean": ("the sum's gradient: not divided by the number of rows", dict(count=lambda counted: 1.0)),
    "mean over all": ("divided by all rows, the ignored ones too", dict(count=len)),
    "mean over elements": ("divided by the number of logits", dict(count=lambda counted: counted.sum() * 4)),
    "ignored rows count": ("rows with an ignored target get a gradient", dict(mask=lambda counted: 1.0)),
    "no target": ("1 is not subtracted at the target", dict(hot=0.0)),
    "target twice": ("2 is subtracted at the target", dict(hot=2.0)),
    "target off by one": ("1 is subtracted at the next class", dict(shifted=1)),
    "sign": ("target - p", dict(sign=-1.0)),
    "softmax over the batch": ("softmax along the wrong axis", dict(probabilities=lambda x: softmax(x, 0))),
    "no normalisation": ("e^x for the probabilities", dict(probabilities=np.exp)),
    "log-probabilities": ("log p for p", dict(probabilities=lambda x: np.log(softmax(x)))),
    "no upstream": ("the upstream gradient is taken to be 1", dict(upstream=lambda dout: 1.0)),
    "smoothed": ("label smoothing 0.1 in backward only", dict(probabilities=lambda x: softmax(x) - 0.025, hot=0.9)),
}, constants=("targets",))
