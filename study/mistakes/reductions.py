"""Mistakes in reductions over the last axis, and in sums that run along it."""
import numpy as np

from .base import family, mean, normal, replaced, same, unary

SQUARE = (4, 4)


EVERYWHERE = {  # mistakes in any reduction
    "no upstream": ("dout is not used; each row should be multiplied by its own", dict(upstream=np.ones_like)),
    "sign": ("dx has the wrong sign", dict(finish=lambda dx: -dx)),
    "twice": ("dx is twice too large", dict(finish=lambda dx: 2 * dx)),
}


def reduction(name, forward, slope, wrong, inputs=normal(SQUARE)):
    """out = a reduction over the last axis: dx = dout * slope(x, out), with that axis kept."""

    def backward(dout, x, *, upstream=same, slope=slope, spread=lambda dout: dout[..., None], finish=same):
        return finish(spread(upstream(dout)) * slope(x, forward(x)[..., None]))

    family(name, forward, backward, inputs, EVERYWHERE | replaced("slope", wrong))


reduction("sum", lambda x: x.sum(-1), lambda x, out: np.ones_like(x), {
    "wrong axis": ("the gradient is spread along the wrong axis", dict(spread=lambda dout: dout[..., None, :])),
    "divided": ("the mean's gradient", lambda x, out: np.full_like(x, 1 / x.shape[-1])),
})
reduction("mean", lambda x: x.mean(-1), lambda x, out: np.full_like(x, 1 / x.shape[-1]), {
    "not divided": ("the sum's gradient", lambda x, out: np.ones_like(x)),
    "divided by all": ("divided by all elements", lambda x, out: np.full_like(x, 1 / x.size)),
})
reduction("var", lambda x: x.var(-1, ddof=1), lambda x, out: 2 / (x.shape[-1] - 1) * (x - mean(x)), {
    "ddof": ("divided by N", lambda x, out: 2 / x.shape[-1] * (x - mean(x))),
    "no 2": ("the factor 2 is missing", lambda x, out: (x - mean(x)) / (x.shape[-1] - 1)),
    "not centred": ("the mean is not subtracted", lambda x, out: 2 / (x.shape[-1] - 1) * x),
})
reduction("logsumexp", lambda x: np.log(np.exp(x).sum(-1)), lambda x, out: np.exp(x - out), {
    "not normalised": ("e^x", lambda x, out: np.exp(x)),
    "max's": ("all goes to the largest", lambda x, out: (x == x.max(-1, keepdims=True)) * 1.0),
})
reduction("norm", lambda x: np.sqrt((x**2).sum(-1)), lambda x, out: x / out, {
    "not divided": ("x: half the gradient of the square", lambda x, out: x),
    "divided twice": ("x / norm^2", lambda x, out: x / out**2),
})
reduction("prod", lambda x: x.prod(-1), lambda x, out: out / x, {
    "not divided": ("the product of all, not of the others", lambda x, out: out + 0 * x),
    "as a sum": ("the upstream itself", lambda x, out: np.ones_like(x)),
})


def is_largest(x, out):
    return x == out


reduction("max", lambda x: x.max(-1), lambda x, out: is_largest(x, out) / is_largest(x, out).sum(-1, keepdims=True), {
    "ties twice": ("equal maxima get the whole gradient each", is_largest),
    "everything": ("all elements get it", lambda x, out: np.ones_like(x)),
    "the smallest": ("the smallest gets it", lambda x, out: x == x.min(-1, keepdims=True)),
}, lambda r: [np.round(r.normal(size=(4, 1)) + np.array([[0.5, 0.5, -1.0, -2.0]]) + r.normal(size=(4, 1)), 1)])


unary("cumsum", lambda x: np.cumsum(x, -1), lambda dout, x: np.cumsum(dout[..., ::-1], -1)[..., ::-1], {
    "forwards": ("summed from the front, not from the end", lambda dout, x: np.cumsum(dout, -1)),
    "exclusive": ("an element's own output is left out", lambda dout, x: np.cumsum(dout[..., ::-1], -1)[..., ::-1] - dout),
}, normal(SQUARE))
