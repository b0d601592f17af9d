"""Mistakes in softmax, norms, cross-entropy, reductions and dropout."""
import numpy as np

from .base import family, last, normal

SQUARE = (4, 4)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def softmax_backward(dout, x, *, total=last, product=lambda p, dout: p * dout, outer=lambda p, x: p, factor=1.0):
    p = softmax(x)
    return factor * (outer(p, x) * dout - p * total(product(p, dout)))


def through_the_maximum(dout, x):
    """Also the gradient through the maximum that is subtracted first."""
    dx = softmax_backward(dout, x)
    return dx - last(dx) * (x == x.max(-1, keepdims=True))


family("softmax", softmax, softmax_backward, normal(SQUARE), {
    "no rowsum": ("the sum over the row is missing: as if all outputs were independent", dict(total=np.zeros_like)),
    "diagonal only": ("p (1 - p) dout: only the Jacobian's diagonal", dict(total=lambda a: a)),
    "wrong axis": ("the sum runs over columns", dict(total=lambda a: a.sum(0, keepdims=True))),
    "mean": ("the mean over the row for the sum", dict(total=lambda a: a.mean(-1, keepdims=True))),
    "no upstream in the sum": ("the row's sum of p instead of p * dout", dict(product=lambda p, dout: p)),
    "no p in the sum": ("the row's sum of dout instead of p * dout", dict(product=lambda p, dout: dout)),
    "of x": ("the input for the output, in the first term", dict(outer=lambda p, x: x)),
    "twice": ("twice too large", dict(factor=2.0)),
    "sign": ("the sign is wrong", dict(factor=-1.0)),
    "sum is added": ("the sum is added instead of subtracted", dict(total=lambda a: -last(a))),
    "relative error 1e-4": ("a constant with too few digits", dict(factor=1.0001)),
})
family("stable_softmax", softmax, lambda dout, x, *, way=softmax_backward: way(dout, x), normal(SQUARE), {
    "one token": ("as if the row had one element: the gradient is zero", dict(way=lambda dout, x: np.zeros_like(x))),
}, {
    "through the maximum": ("the gradient through the subtracted maximum is included", dict(way=through_the_maximum),
                            "softmax does not change when a row is shifted, so the row's gradient sums to zero, and so "
                            "does what goes through the maximum"),
})


def log_softmax_backward(dout, x, *, weight=softmax, total=last):
    return dout - weight(x) * total(dout)


family("log_softmax", lambda x: np.log(softmax(x)), log_softmax_backward, normal(SQUARE), {
    "no sum": ("dout - p: the sum of dout is missing, right only for a one-hot upstream",
               dict(total=lambda dout: 1.0)),
    "diagonal only": ("(1 - p) dout: only the Jacobian's diagonal", dict(total=lambda dout: dout)),
    "log for p": ("the output for e^output", dict(weight=lambda x: np.log(softmax(x)))),
    "wrong axis": ("the sum runs over columns", dict(total=lambda dout: dout.sum(0, keepdims=True))),
    "no p": ("the weight p is 1 / N", dict(weight=lambda x: np.full_like(x, 1 / x.shape[-1]))),
    "only dout": ("the term of the logarithm's sum is missing", dict(total=np.zeros_like)),
})

EPS = 1e-5


def normalised(x, eps=EPS):
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return centred * rstd, rstd


def layer_norm(x, weight, bias):
    return normalised(x)[0] * weight + bias


def mean(a):
    return a.mean(-1, keepdims=True)


def layer_norm_backward(
    dout, x, weight, bias, *, eps=EPS, scaled=lambda dout, weight: dout * weight, shift=mean, stretch=mean,
    rstd_power=1, after=lambda dx, weight: dx, dweight=lambda dout, x, x_hat: (dout * x_hat).sum(0),
    dbias=lambda dout: dout.sum(0), factor=1.0, add=lambda dx_hat, x_hat, rstd: 0.0,
):
    x_hat, rstd = normalised(x, eps)
    dx_hat = scaled(dout, weight)
    dx = rstd**rstd_power * (dx_hat - shift(dx_hat) - x_hat * stretch(dx_hat * x_hat)) + add(dx_hat, x_hat, rstd)
    return factor * after(dx, weight), dweight(dout, x, x_hat), dbias(dout)


def none(a):
    return 0.0


family("layer_norm", layer_norm, layer_norm_backward,
       lambda r: [r.normal(size=SQUARE), 1 + 0.3 * r.normal(size=4), 0.3 * r.normal(size=4)], {
    "no mean term": ("the path through the mean is missing", dict(shift=none)),
    "no x_hat term": ("the path through the variance is missing", dict(stretch=none)),
    "statistics constant": ("mean and variance are taken as constants", dict(shift=none, stretch=none)),
    "ddof 1": ("N - 1 instead of N in the variance's path", dict(stretch=lambda a: mean(a) * 4 / 3)),
    "sums for means": ("sums instead of means over the row", dict(shift=last, stretch=last)),
    "batch axis": ("means over the rows instead of within them",
                   dict(shift=lambda a: a.mean(0, keepdims=True), stretch=lambda a: a.mean(0, keepdims=True))),
    "no weight": ("the gain is forgotten", dict(scaled=lambda dout, weight: dout)),
    "weight at the end": ("the gain multiplies at the end instead of before the means",
                          dict(scaled=lambda dout, weight: dout, after=lambda dx, weight: dx * weight)),
    "no rstd": ("not divided by the deviation", dict(rstd_power=0)),
    "rstd squared": ("divided by the variance", dict(rstd_power=2)),
    "wrong eps": ("eps is 1e-6 in backward", dict(eps=1e-6)),
    "no eps": ("eps is missing in backward", dict(eps=0.0)),
    "sign": ("the sign is wrong", dict(factor=-1.0)),
    "gain of x": ("the gain's gradient with x for x_hat", dict(dweight=lambda dout, x, x_hat: (dout * x).sum(0))),
    "gain without x_hat": ("the gain's gradient is the bias'", dict(dweight=lambda dout, x, x_hat: dout.sum(0))),
    "gain averaged": ("the gain's gradient is averaged", dict(dweight=lambda dout, x, x_hat: (dout * x_hat).mean(0))),
    "gain over the wrong axis": ("the gain's gradient is summed within rows",
                                 dict(dweight=lambda dout, x, x_hat: (dout * x_hat).sum(1))),
    "bias averaged": ("the bias' gradient is averaged", dict(dbias=lambda dout: dout.mean(0))),
    "bias over the wrong axis": ("the bias' gradient is summed within rows", dict(dbias=lambda dout: dout.sum(1))),
    "bias of the last row": ("the bias' gradient is overwritten row by row", dict(dbias=lambda dout: dout[-1])),
}, {
    "variance through the mean": ("the path from x through the mean into the variance is included",
                                  dict(add=lambda dx_hat, x_hat, rstd: mean(x_hat) * mean(dx_hat * x_hat)),
                                  "the derivative of the variance by the mean is -2 times the mean of the centred row, "
                                  "which is zero"),
})


def rms(x):
    return np.sqrt((x**2).mean(-1, keepdims=True) + EPS)


def rms_norm_backward(dout, x, *, stretch=mean, dx_hat=lambda dout, x: dout):
    scale = rms(x)
    return (dout - x / scale * stretch(dout * x / scale)) / scale


family("rms_norm", lambda x: x / rms(x), rms_norm_backward, normal(SQUARE), {
    "scale constant": ("the root mean square is taken as a constant", dict(stretch=none)),
    "sum": ("the sum for the mean", dict(stretch=last)),
    "batch axis": ("the mean over the rows", dict(stretch=lambda a: a.mean(0, keepdims=True))),
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


def reduction(name, forward, slope, wrong, inputs=normal(SQUARE)):
    """out = a reduction over the last axis: dx = dout * slope(x, out), with the axis kept."""

    def backward(dout, x, *, slope=slope, spread=lambda dout: dout[..., None]):
        return spread(dout) * slope(x, forward(x)[..., None])

    family(name, forward, backward, inputs, wrong)


reduction("sum", lambda x: x.sum(-1), lambda x, out: np.ones_like(x), {
    "wrong axis": ("the gradient is spread along the wrong axis", dict(spread=lambda dout: dout[None])),
    "divided": ("the mean's gradient", dict(slope=lambda x, out: np.full_like(x, 0.25))),
})
reduction("mean", lambda x: x.mean(-1), lambda x, out: np.full_like(x, 1 / x.shape[-1]), {
    "not divided": ("the sum's gradient", dict(slope=lambda x, out: np.ones_like(x))),
    "divided by all": ("divided by all elements", dict(slope=lambda x, out: np.full_like(x, 1 / x.size))),
})
reduction("var", lambda x: x.var(-1, ddof=1), lambda x, out: 2 / (x.shape[-1] - 1) * (x - mean(x)), {
    "ddof": ("divided by N", dict(slope=lambda x, out: 2 / x.shape[-1] * (x - mean(x)))),
    "no 2": ("the factor 2 is missing", dict(slope=lambda x, out: (x - mean(x)) / (x.shape[-1] - 1))),
    "not centred": ("the mean is not subtracted", dict(slope=lambda x, out: 2 / (x.shape[-1] - 1) * x)),
})
reduction("logsumexp", lambda x: np.log(np.exp(x).sum(-1)), lambda x, out: np.exp(x - out), {
    "not normalised": ("e^x", dict(slope=lambda x, out: np.exp(x))),
    "max's": ("all goes to the largest", dict(slope=lambda x, out: (x == x.max(-1, keepdims=True)) * 1.0)),
})
reduction("norm", lambda x: np.sqrt((x**2).sum(-1)), lambda x, out: x / out, {
    "not divided": ("x: half the gradient of the square", dict(slope=lambda x, out: x)),
    "divided twice": ("x / norm^2", dict(slope=lambda x, out: x / out**2)),
})
reduction("prod", lambda x: x.prod(-1), lambda x, out: out / x, {
    "not divided": ("the product of all, not of the others", dict(slope=lambda x, out: out + 0 * x)),
    "as a sum": ("the upstream itself", dict(slope=lambda x, out: np.ones_like(x))),
})


def is_largest(x, out):
    return x == out


reduction("max", lambda x: x.max(-1), lambda x, out: is_largest(x, out) / is_largest(x, out).sum(-1, keepdims=True), {
    "ties twice": ("equal maxima get the whole gradient each", dict(slope=is_largest)),
    "everything": ("all elements get it", dict(slope=lambda x, out: np.ones_like(x))),
    "the smallest": ("the smallest gets it", dict(slope=lambda x, out: x == x.min(-1, keepdims=True))),
}, lambda r: [np.round(r.normal(size=(4, 1)) + np.array([[0.5, 0.5, -1.0, -2.0]]) + r.normal(size=(4, 1)), 1)])


def cumsum_backward(dout, x, *, way=lambda dout: np.cumsum(dout[:, ::-1], -1)[:, ::-1]):
    return way(dout)


family("cumsum", lambda x: np.cumsum(x, -1), cumsum_backward, normal(SQUARE), {
    "forwards": ("summed from the front, not from the end", dict(way=lambda dout: np.cumsum(dout, -1))),
    "exclusive": ("an element's own output is left out",
                  dict(way=lambda dout: np.cumsum(dout[:, ::-1], -1)[:, ::-1] - dout)),
})
KEEP = 0.6


def dropout_backward(dout, x, keep, *, mask=lambda keep: keep, scale=1 / KEEP):
    return dout * mask(keep) * scale, None


family("dropout", lambda x, keep: x * keep / KEEP, dropout_backward,
       lambda r: [r.normal(size=(4, 5)), r.permuted(np.arange(20) < 12).reshape(4, 5)], {
    "new mask": ("backward draws a mask of its own",
                 dict(mask=lambda keep: np.random.default_rng().random(keep.shape) < KEEP)),
    "no mask": ("the gradient passes where forward dropped", dict(mask=lambda keep: 1.0)),
    "inverted": ("the gradient passes only where forward dropped", dict(mask=lambda keep: ~keep)),
    "no scale": ("1 / (1 - p) is missing", dict(scale=1.0)),
    "scale twice": ("1 / (1 - p) is applied twice", dict(scale=1 / KEEP**2)),
}, constants=("keep",))
