"""Mistakes in norms."""
import numpy as np

from .base import family, last, normal

SQUARE = (4, 4)
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
