"""Mistakes in softmax and its logarithm, and in cross-entropy."""
from functools import partial

import numpy as np

from .base import family, last, less_the_maximum, mean, normal, replaced, safe_softmax, same, softmax, turned, unary

MATRICES = (2, 4, 4)  # square matrices, on which a wrong axis still gives the right shape


def columns(a):
    """The sum over axis 0, which is kept."""
    return a.sum(0, keepdims=True)


def axis_1(a):
    return a.sum(1, keepdims=True)


def last_but_one(a):
    return a.sum(-2, keepdims=True)


def last_one(a):
    """True for the last element of each row."""
    return np.broadcast_to(np.arange(a.shape[-1]) == a.shape[-1] - 1, a.shape)


def of_everything(x):
    """One softmax over the whole array."""
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def softmax_backward(
    dout, x, *, probabilities=softmax, upstream=same, product=lambda p, dout, x: p * dout, total=last,
    combine=lambda p, dout, s, x: p * (dout - s), finish=same,
):
    p, dout = probabilities(x), upstream(dout)
    s = total(product(p, dout, x))  # of each row
    return finish(combine(p, dout, s, x))


def through_the_maximum(dout, x):
    """Includes the gradient through the maximum, which is subtracted first."""
    dx = softmax_backward(dout, x)
    return dx - last(dx) * (x == x.max(-1, keepdims=True))


def over(scores, axis):
    """e^scores divided by its sum over this axis, after the maximum of the last one was subtracted."""
    e = less_the_maximum(scores)
    return e / np.maximum(e.sum(axis, keepdims=True), 1e-300)


# what p is taken to be
PROBABILITIES = replaced("probabilities", {
    "softmax over the batch": ("softmax itself runs over axis 0 in backward; each row along the last axis is one",
                               lambda x: safe_softmax(x, 0)),
    "softmax over the last axis but one": ("softmax itself runs over the last axis but one in backward; each row along the "
                                           "last axis is one", lambda x: safe_softmax(x, -2)),
    "softmax over everything": ("softmax itself is taken over the whole array; each row along the last axis has its own",
                                of_everything),
    "sum over axis 0": ("e^x is divided by its sums over axis 0, and should be by those of the rows", lambda x: over(x, 0)),
    "sum over the last axis but one": ("e^x is divided by its sums over the last axis but one, and should be by those of "
                                       "the rows", lambda x: over(x, -2)),
    "sum over everything": ("e^x is divided by the sum of the whole array; each row has a sum of its own",
                            lambda x: over(x, None)),
    "sum without keepdims": ("e^x is divided by its row sums without keepdims, so on squares each column is divided by the "
                             "sum of a row", lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(-1)),
    "sum without keepdims, less the maximum": (
        "e^(x - maximum) is divided by its row sums without keepdims, so on squares each column is divided by the sum of a "
        "row", lambda x: less_the_maximum(x) / less_the_maximum(x).sum(-1)),
    "no normalisation": ("e^x is used as the probabilities: it is not divided by its sum over the row", np.exp),
    "no normalisation, less the maximum": (
        "e^(x - maximum) is used as the probabilities: it is not divided by its sum over the row", less_the_maximum),
    "x for p": ("x is used as the probabilities, and should be softmax(x)", same),
    "log-probabilities": ("log p is used instead of the probabilities", lambda x: np.log(safe_softmax(x))),
    "softmax twice": ("softmax is taken of what is a softmax already", lambda x: safe_softmax(safe_softmax(x))),
    "sigmoid for softmax": ("the sigmoid of each element is used instead of softmax", lambda x: 1 / (1 + np.exp(-x))),
    "negative exponent": ("softmax is computed with e^-x instead of e^x", lambda x: safe_softmax(-x)),
    "uniform": ("p is taken to be 1 / N for all", lambda x: np.full_like(x, 1 / x.shape[-1])),
})
UPSTREAM = replaced("upstream", {
    "upstream squared": ("multiplied by dout twice; the chain rule does it once", lambda dout: dout**2),
    "upstream averaged": ("dout is divided by the number of rows: no mean was taken in forward",
                          lambda dout: dout * dout.shape[-1] / dout.size),
})
ENDINGS = replaced("finish", {
    "twice": ("dx is twice too large", lambda dx: 2 * dx),
    "halved": ("dx is half as large as it should be", lambda dx: dx / 2),
    "sign": ("dx has the wrong sign", lambda dx: -dx),
    "relative error 1e-4": ("a constant with too few digits", lambda dx: 1.0001 * dx),
    "summed over rows": ("dx is summed over the rows: every row has a gradient of its own",
                         lambda dx: np.broadcast_to(columns(dx), dx.shape).copy()),
})


def totals(summed):
    """Mistakes in the sum over the row, of softmax and of its logarithm."""
    return replaced("total", {
        "wrong axis": (f"{summed} runs over axis 0; it should run within each row, over the last axis", columns),
        "last axis but one": (f"{summed} runs over the last axis but one; it should run within each row, over the last",
                              last_but_one),
        "axis 1": (f"{summed} runs over axis 1: with more than two axes that is not the last one", axis_1),
        "total": (f"{summed} runs over the whole array; each row has a sum of its own", np.sum),
        "mean": (f"the mean over the row is used instead of {summed}, which is not divided by N", mean),
        "mean of all": (f"the mean over the whole array is used instead of {summed} over each row", np.mean),
        "no keepdims": (f"{summed} lacks keepdims: on squares, each column is given the sum of a row", lambda a: a.sum(-1)),
        "maximum": (f"the largest of the row is used instead of {summed}", lambda a: a.max(-1, keepdims=True)),
        "running sum": (f"the running sum along the row is used instead of {summed} over the whole row",
                        lambda a: a.cumsum(-1)),
        "last of the row": (f"{summed} has its last term only: in a loop, = overwrites where += adds",
                            lambda a: a[..., -1:]),
    })


SOFTMAX = {  # mistakes of any backward with a softmax in it
    **UPSTREAM,
    **replaced("total", {
        "no rowsum": ("the sum over the row is missing: every output depends on every input of its row", np.zeros_like),
        "diagonal only": ("p (1 - p) dout is the Jacobian's diagonal only: every input of a row reaches all of its outputs",
                          same),
    }),
    **totals("the sum"),
    **replaced("product", {
        "no upstream in the sum": ("the row's sum is that of p alone, which is 1; it should be that of p * dout",
                                   lambda p, dout, x: p),
        "no p in the sum": ("the row's sum is that of dout alone; it should be that of p * dout", lambda p, dout, x: dout),
        "x in the sum": ("the row's sum is that of x * dout; it should be that of p * dout", lambda p, dout, x: x * dout),
        "e^x in the sum": ("the row's sum is that of e^x * dout: it should be divided by the sum of e^x, too",
                           lambda p, dout, x: np.exp(x) * dout),
        "p squared in the sum": ("the row's sum has one p too many: p * p * dout instead of p * dout",
                                 lambda p, dout, x: p * p * dout),
        "1 - p in the sum": ("the row's sum is that of (1 - p) * dout; it should be that of p * dout",
                             lambda p, dout, x: (1 - p) * dout),
        "dout squared in the sum": ("the row's sum has one dout too many: p * dout * dout instead of p * dout",
                                    lambda p, dout, x: p * dout * dout),
    }),
    "product for the row sum": ("dout @ p^T is subtracted instead of the row sums, which are its diagonal",
                                dict(product=lambda p, dout, x: dout @ turned(p), total=same)),
    **replaced("combine", {
        "of x": ("x is used instead of p in the first term: x * dout - p * sum", lambda p, dout, s, x: x * dout - p * s),
        "of x outside": ("x is used instead of p as the factor: x * (dout - sum)", lambda p, dout, s, x: x * (dout - s)),
        "e^x outside": ("e^x is used instead of p as the factor of dout - sum",
                        lambda p, dout, s, x: np.exp(x) * (dout - s)),
        "last column": ("only the last term of the Jacobian's sum is there: in a loop, = overwrites where += adds",
                        lambda p, dout, s, x: p * (last_one(p) - p[..., -1:]) * dout[..., -1:]),
        "of x in the second term": ("x is used instead of p in the second term: p * dout - x * sum",
                                    lambda p, dout, s, x: p * dout - x * s),
        "sum is added": ("the sum is added instead of subtracted", lambda p, dout, s, x: p * (dout + s)),
        "no p outside": ("the factor p is missing: dout - sum should be multiplied by it", lambda p, dout, s, x: dout - s),
        "p in the first term only": ("p multiplies dout but not the sum: p * (dout - sum) is right",
                                     lambda p, dout, s, x: p * dout - s),
        "p in the second term only": ("p multiplies the sum but not dout: p * (dout - sum) is right",
                                      lambda p, dout, s, x: dout - p * s),
        "p before the sum": ("p multiplies the row's sum of dout, and should be inside the sum: sum of p * dout",
                             lambda p, dout, s, x: p * (dout - p * last(dout))),
        "p squared": ("p multiplies twice: p * (dout - sum) is right", lambda p, dout, s, x: p * p * (dout - s)),
        "1 - p outside": ("the factor is 1 - p; it should be p", lambda p, dout, s, x: (1 - p) * (dout - s)),
        "p (1 - p) outside": ("the sum is there, but the factor is the diagonal's p (1 - p) instead of p",
                              lambda p, dout, s, x: p * (1 - p) * (dout - s)),
        "no diagonal": ("only the part -p_i p_j of the Jacobian is there: its diagonal has p_i as well",
                        lambda p, dout, s, x: -p * s),
        "diagonal left out": ("the Jacobian's diagonal p (1 - p) is left out: each output depends on its own input too",
                              lambda p, dout, s, x: -p * (s - p * dout)),
        "diagonal p": ("the Jacobian's diagonal is p; it should be p (1 - p)",
                       lambda p, dout, s, x: p * dout - p * (s - p * dout)),
        "plus beside the diagonal": ("off the diagonal, the Jacobian is -p_i p_j: the minus is missing",
                                     lambda p, dout, s, x: p * (1 - p) * dout + p * (s - p * dout)),
        "quotient, first term": ("dout is not used outside of the sum: p * (1 - sum)", lambda p, dout, s, x: p * (1 - s)),
        "times the sum": ("the sum multiplies dout and should be subtracted from it", lambda p, dout, s, x: p * dout * s),
        "p subtracted": ("p is subtracted from dout, as if this were cross-entropy's gradient",
                         lambda p, dout, s, x: dout - p),
        "p - dout": ("dout is subtracted from p: that is the gradient of cross-entropy, dout being the targets",
                     lambda p, dout, s, x: p - dout),
        "slope alone": ("p (1 - p): the diagonal only, and without dout", lambda p, dout, s, x: p * (1 - p)),
        "log_softmax's": ("dout - p * (sum of dout) is the gradient of log_softmax",
                          lambda p, dout, s, x: dout - p * last(dout)),
        "p times dout - p": ("p is used instead of the sum: p * (dout - p) lacks what the others of the row contribute",
                             lambda p, dout, s, x: p * (dout - p)),
    }),
    **PROBABILITIES,
    "axis 0 throughout": ("softmax and the sum both run over axis 0; each row along the last axis is a softmax of its own",
                          dict(probabilities=lambda x: safe_softmax(x, 0), total=columns)),
    "last axis but one throughout": ("softmax and the sum both run over the last axis but one; each row along the last "
                                     "axis is a softmax of its own",
                                     dict(probabilities=lambda x: safe_softmax(x, -2), total=last_but_one)),
    "axis 1 throughout": ("softmax and the sum both run over axis 1: right for a matrix, but with more axes the last one "
                          "is meant, axis=-1", dict(probabilities=lambda x: safe_softmax(x, 1), total=axis_1)),
    "whole array throughout": ("softmax and the sum both run over the whole array; each row has its own",
                               dict(probabilities=of_everything, total=np.sum)),
}
family("softmax", softmax, softmax_backward, normal((4, 4)), {
    **ENDINGS, **SOFTMAX,
    "no upstream": ("dx is zero, as for a dout of ones: the outputs of a row add up to 1 whatever x is",
                    dict(upstream=np.ones_like)),
}, telling=normal(MATRICES))
unary("stable_softmax", softmax, softmax_backward, {
    "one token": ("as if the row had one element: the gradient is zero", lambda dout, x: np.zeros_like(x)),
}, normal((4, 4)), {
    "through the maximum": ("the gradient through the subtracted maximum is included", dict(back=through_the_maximum),
                            "softmax does not change when a row is shifted, so the row's gradient sums to zero, and so "
                            "does what goes through the maximum"),
})


log_softmax_backward = partial(
    softmax_backward, product=lambda p, dout, x: dout, combine=lambda p, dout, s, x: dout - p * s)
family("log_softmax", lambda x: np.log(softmax(x)), log_softmax_backward, normal((4, 4)), {
    **ENDINGS, **UPSTREAM,
    "no upstream": ("dout is not used: the chain rule multiplies the Jacobian by it", dict(upstream=np.ones_like)),
    **replaced("total", {
        "no sum": ("dout - p: the sum of dout over the row is missing; it is 1 only for a one-hot dout", np.ones_like),
        "diagonal only": ("(1 - p) dout is the Jacobian's diagonal only: every input of a row reaches all of its outputs",
                          same),
        "only dout": ("the term of the logarithm's sum is missing: dout - p * (sum of dout)", np.zeros_like),
    }),
    **totals("the sum of dout"),
    **replaced("product", {
        "weighted sum": ("the sum is that of p * dout, as in softmax; log_softmax's is that of dout alone",
                         lambda p, dout, x: p * dout),
        "x in the sum": ("the sum is that of x * dout; it should be that of dout", lambda p, dout, x: x * dout),
        "out in the sum": ("the sum is that of log p * dout; it should be that of dout",
                           lambda p, dout, x: np.log(softmax(x)) * dout),
        "dout squared in the sum": ("the sum is that of dout^2; it should be that of dout", lambda p, dout, x: dout**2),
    }),
    **replaced("combine", {
        "no p": ("p is missing in the second term: dout - p * (sum of dout)", lambda p, dout, s, x: dout - s),
        "sum is added": ("the second term is added: dout - p * (sum of dout)", lambda p, dout, s, x: dout + p * s),
        "only the sum": ("the first term, dout itself, is missing", lambda p, dout, s, x: -p * s),
        "softmax's": ("p * (dout - (sum of p * dout)) is the gradient of softmax: the logarithm is missing",
                      lambda p, dout, s, x: p * (dout - last(p * dout))),
        "p outside": ("p multiplies both terms; in dout - p * (sum of dout) it belongs to the second only",
                      lambda p, dout, s, x: p * (dout - s)),
        "p in the first term only": ("p multiplies the first term instead of the second: dout - p * (sum of dout)",
                                     lambda p, dout, s, x: p * dout - s),
        "1 - p alone": ("1 - p: without dout, and the diagonal only", lambda p, dout, s, x: 1 - p),
        "divided by p": ("divided by p at the end: that is the derivative of the logarithm twice",
                         lambda p, dout, s, x: (dout - p * s) / p),
        "logarithm only": ("dout / p is the logarithm's gradient; softmax's must follow", lambda p, dout, s, x: dout / p),
        "times p for the logarithm": ("the logarithm's derivative is 1 / p, not p",
                                      lambda p, dout, s, x: p * (dout * p - last(dout * p * p))),
        "last column": ("only the last term of the Jacobian's sum is there: in a loop, = overwrites where += adds",
                        lambda p, dout, s, x: (last_one(p) - p) * dout[..., -1:]),
        "diagonal p": ("the Jacobian's diagonal is 1; it should be 1 - p", lambda p, dout, s, x: dout - p * (s - dout)),
        "plus beside the diagonal": ("off the diagonal, the Jacobian is -p: the minus is missing",
                                     lambda p, dout, s, x: (1 - p) * dout + p * (s - dout)),
        "p squared": ("p is twice in the second term", lambda p, dout, s, x: dout - p * p * s),
        "1 - p outside": ("1 - p multiplies dout and the sum: dout - p * (sum of dout)",
                          lambda p, dout, s, x: (1 - p) * (dout - s)),
        "times the sum": ("the sum multiplies both terms: dout - p * (sum of dout)", lambda p, dout, s, x: (dout - p) * s),
    }),
    **PROBABILITIES,
    **{name: mistake for name, mistake in SOFTMAX.items() if name.endswith("throughout")},
}, telling=normal(MATRICES))

IGNORED = -100


def cross_entropy(x, targets):
    counted = targets != IGNORED
    losses = np.where(counted, -np.log(softmax(x))[np.arange(len(x)), np.where(counted, targets, 0)], 0.0)
    return np.asarray(losses.sum() / counted.sum())


def at(p, rows, columns):
    """1 at (rows, columns), 0 elsewhere. The % is for swapped indices: without it they raise unless the shape is square."""
    hot = np.zeros_like(p)
    hot[rows % len(p), columns % p.shape[1]] = 1
    return hot


def ignored_are(chosen):
    """An ignored target is taken for this class."""
    def pass_all(counted, dx, targets):
        hot = np.zeros_like(dx)
        hot[~counted, chosen] = 1
        return np.where(counted[:, None] | (dx == 0), 1.0, (dx - hot) / dx)
    return pass_all


def only_row(i):
    return lambda counted, dx, targets: counted[:, None] & (np.arange(len(dx)) == i % len(dx))[:, None]


def cross_entropy_backward(
    dout, x, targets, *, probabilities=softmax, subtract=lambda p, hot, rows, classes: p - hot,
    mask=lambda counted, dx, targets: counted[:, None], count=lambda counted, dx: counted.sum(), upstream=same, finish=same,
    rows=lambda dx, counted: dx,
):
    counted = targets != IGNORED
    places, p = np.flatnonzero(counted), probabilities(x)
    dx = subtract(p, at(p, places, targets[places]), places, targets[places])
    dx = upstream(dout) * dx * mask(counted, dx, targets) / count(counted, dx)
    return rows(finish(dx), counted), None


def logits_and_targets(r):
    targets = r.integers(0, 4, size=5)
    targets[r.integers(5)] = IGNORED
    return [r.normal(size=(5, 4)), targets]


def square_logits_and_targets(r):
    """As many rows as classes, so that swapped indices still fit, and never agree. One row is ignored, two have class 0."""
    targets = r.integers(0, 6, size=6)
    targets[r.permutation(6)[:4]] = IGNORED, 0, 0, 1
    return [r.normal(size=(6, 6)), targets]


family("cross_entropy", cross_entropy, cross_entropy_backward, logits_and_targets, {
    **replaced("finish", {
        "sign": ("onehot - p replaces p - onehot: the sign is wrong", lambda dx: -dx),
        "twice": ("the gradient is twice too large", lambda dx: 2 * dx),
        "squared": ("the gradient is squared", lambda dx: dx**2),
        "summed over rows": ("the gradient is summed over the rows; each row of logits has its own", lambda dx: dx.sum(0)),
        "zero": ("the gradient is zero", lambda dx: 0 * dx),
    }),
    **replaced("upstream", {
        "no upstream": ("dout is not used: the loss may be followed by more, and then dout is not 1", lambda dout: 1.0),
        "upstream squared": ("multiplied by dout twice; the chain rule does it once", lambda dout: dout**2),
        "divided by the upstream": ("divided by dout instead of multiplied by it", lambda dout: 1 / dout),
    }),
    **replaced("rows", {
        "ignored rows left out": ("the rows with an ignored target are left out; they stay, with a gradient of zero",
                                  lambda dx, counted: dx[counted]),
    }),
    **replaced("count", {
        "no mean": ("not divided by the number of targets: the loss is their mean, not their sum", lambda counted, dx: 1.0),
        "mean over all": ("divided by the number of all rows; the mean runs over those whose target is not ignored",
                          lambda counted, dx: len(dx)),
        "mean over elements": ("divided by the number of logits that count; the mean runs over rows",
                               lambda counted, dx: counted.sum() * dx.shape[1]),
        "mean over all elements": ("divided by the number of all logits; the mean runs over rows",
                                   lambda counted, dx: dx.size),
        "mean over classes": ("divided by the number of classes; the mean runs over rows", lambda counted, dx: dx.shape[1]),
        "mean twice": ("divided twice by the number of targets", lambda counted, dx: counted.sum() ** 2),
        "multiplied by the count": ("multiplied by the number of targets instead of divided by it",
                                    lambda counted, dx: 1 / counted.sum()),
        "one more": ("divided by the number of targets + 1", lambda counted, dx: counted.sum() + 1),
    }),
    **replaced("mask", {
        "ignored rows count": ("rows with an ignored target get p as their gradient; it should be zero",
                               lambda counted, dx, targets: 1.0),
        "class 0 ignored": ("rows whose target is class 0 get no gradient: only -100 is ignored",
                            lambda counted, dx, targets: (targets > 0)[:, None]),
        "ignored as class 0": ("an ignored target is taken for class 0; its row's gradient should be zero", ignored_are(0)),
        "ignored as the last class": ("an ignored target is taken for the last class; its row's gradient should be zero",
                                      ignored_are(-1)),
        "mask inverted": ("only rows with an ignored target get a gradient: the mask is the wrong way round",
                          lambda counted, dx, targets: ~counted[:, None]),
        "first row": ("only the first row gets a gradient", only_row(0)),
        "last row": ("only the last row gets a gradient: in a loop, = overwrites where += adds", only_row(-1)),
    }),
    **replaced("subtract", {
        "no target": ("1 is not subtracted at the target: p replaces p - onehot", lambda p, hot, rows, classes: p),
        "target twice": ("2 is subtracted at the target instead of 1", lambda p, hot, rows, classes: p - 2 * hot),
        "target added": ("1 is added at the target instead of subtracted", lambda p, hot, rows, classes: p + hot),
        "target off by one": ("1 is subtracted at the class after the target",
                              lambda p, hot, rows, classes: p - at(p, rows, classes + 1)),
        "target off by one down": ("1 is subtracted at the class before the target",
                                   lambda p, hot, rows, classes: p - at(p, rows, classes - 1)),
        "in whole columns": ("dx[:, targets] -= 1 subtracts in all rows: each row has its own target, "
                             "dx[np.arange(N), targets]", lambda p, hot, rows, classes: p - hot.max(0)),
        "at the row's number": ("1 is subtracted at the class with the number of the row; the target is the class",
                                lambda p, hot, rows, classes: p - at(p, rows, rows)),
        "indices exchanged": ("dx[targets, rows] replaces dx[rows, targets]: the class is the second index",
                              lambda p, hot, rows, classes: p - at(p, classes, rows)),
        "everywhere": ("1 is subtracted from all of p; it belongs to the target only",
                       lambda p, hot, rows, classes: p - 1),
        "all but the target": ("1 is subtracted everywhere but at the target; it belongs to the target only",
                               lambda p, hot, rows, classes: p - (1 - hot)),
        "sign at the target": ("1 - p at the target: it should be p - 1",
                               lambda p, hot, rows, classes: np.where(hot, 1 - p, p)),
        "-1 at the target": ("-1 at the target: it should be p - 1",
                             lambda p, hot, rows, classes: np.where(hot, -1, p)),
        "zero at the target": ("zero at the target: it should be p - 1",
                               lambda p, hot, rows, classes: np.where(hot, 0, p)),
        "at the largest": ("1 is subtracted at the most probable class; it belongs to the target",
                           lambda p, hot, rows, classes: p - at(p, rows, p[rows].argmax(1))),
        "target only": ("only the target's logit gets a gradient; the others of the row get p, as all are in the sum",
                        lambda p, hot, rows, classes: (p - hot) * hot),
        "through the logarithm": ("-1 / p at the target is the gradient by the probabilities; softmax's must follow",
                                  lambda p, hot, rows, classes: -hot / p),
        "no p": ("p is missing: -onehot replaces p - onehot", lambda p, hot, rows, classes: -hot),
        "softmax once more": ("p - onehot goes back through softmax once more: it is the gradient of the logits already",
                              lambda p, hot, rows, classes: p * (p - hot - last(p * (p - hot)))),
        "only onehot divided": ("only onehot is divided by the number of targets: brackets are missing around p - onehot",
                                lambda p, hot, rows, classes: p * len(rows) - hot),
        "no logarithm": ("that is the gradient of -p, and the loss is -log p",
                         lambda p, hot, rows, classes: p * (last(p * hot) - hot)),
        "times p": ("p - onehot is multiplied by p: it is the whole gradient already",
                    lambda p, hot, rows, classes: (p - hot) * p),
        "times p (1 - p)": ("p - onehot is multiplied by p (1 - p), as for a squared error; it is the whole gradient "
                            "already", lambda p, hot, rows, classes: (p - hot) * (p * (1 - p))),
        "smoothed": ("label smoothing 0.1 in backward only",
                     lambda p, hot, rows, classes: p - 0.1 / p.shape[1] - 0.9 * hot),
    }),
    **{name: mistake for name, mistake in PROBABILITIES.items() if not name.endswith("over the last axis but one")},
}, constants=("targets",), telling=square_logits_and_targets)
