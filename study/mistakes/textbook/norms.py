"""Layer norm, RMS norm, and a norm with a residual connection: x (..., N), weight and bias (N,)."""
import numpy as np

from ..known import function

EPS = 1e-5


def layer_norm(x, weight, bias, eps):
    c = x - x.mean(axis=-1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + eps) * weight + bias


def layer_norm_backward(dout, x, weight, bias, eps):
    c = x - x.mean(axis=-1, keepdims=True)
    var = (c * c).mean(axis=-1, keepdims=True)  # the variance: of each row, over N
    rstd = 1 / np.sqrt(var + eps)
    x_hat = c * rstd

    dx_hat = dout * weight
    # the path through the mean: moving x_i moves the row's mean, and so all its outputs
    shift = dx_hat.mean(axis=-1, keepdims=True)
    # the path through the variance: moving x_i moves the row's variance, and so the whole row
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - shift - x_hat * stretch)

    rows = tuple(range(x.ndim - 1))  # all axes but the last
    dweight = (dout * x_hat).sum(axis=rows)  # dweight: one weight serves all rows, so their gradients add
    dbias = dout.sum(axis=rows)  # dbias: one bias serves all rows, so their gradients add
    return dx, dweight, dbias


def step_by_step(dout, x, weight, bias, eps):
    n = x.shape[-1]
    c = x - x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)  # the variance: of each row, over N
    x_hat = c / np.sqrt(var + eps)
    dx_hat = dout * weight
    dvar = (dx_hat * c).sum(axis=-1, keepdims=True) * -0.5 * (var + eps) ** -1.5
    dmean = -dx_hat.sum(axis=-1, keepdims=True) / np.sqrt(var + eps)
    dx = dx_hat / np.sqrt(var + eps) + dvar * 2 * c / n + dmean / n
    rows = tuple(range(x.ndim - 1))
    return dx, (dout * x_hat).sum(axis=rows), dout.sum(axis=rows)


SUMS = {
    f"{name} over axis {axis}": (f"{name} is summed over axis {axis} alone: all axes but the last are rows",
                                 f"{name} = ({terms}).sum(axis={axis})")
    for name, terms in (("dweight", "dout * x_hat"), ("dbias", "dout")) for axis in (0, 1)
}
BATCH = "b = x - x.mean(axis=0); r = 1 / np.sqrt((b * b).mean(axis=0) + eps); "
NORM = {
    "batch norm": ("mean and variance are those of the columns, over the batch: each row has its own",
                   "b = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps); "
                   "dx = (dx_hat - dx_hat.mean(axis=0) - b * (dx_hat * b).mean(axis=0)) / np.sqrt(x.var(axis=0) + eps)"),
    "no eps at the end": ("eps is missing in the factor of dx, where 1 / deviation is written again",
                          "dx = (dx_hat - shift - x_hat * stretch) / np.sqrt(var)"),
    "out for x_hat": ("out replaces x_hat: it has weight and bias", "x_hat = c * rstd * weight + bias"),
    "weight at the end": ("weight multiplies dx at the end: it belongs into dx_hat, inside of the means",
                          "dx_hat = dout; dx = rstd * weight * (dx_hat - shift - x_hat * stretch)"),
    "sums for means": ("both means are sums: they are divided by N",
                       "shift = dx_hat.sum(axis=-1, keepdims=True); stretch = (dx_hat * x_hat).sum(axis=-1, "
                       "keepdims=True)"),
    "means of dout": ("both means are of dout: they should be of dx_hat = dout * weight",
                      "shift = dout.mean(axis=-1, keepdims=True); stretch = (dout * x_hat).mean(axis=-1, keepdims=True)"),
    "mean and variance constant": ("mean and variance are taken as constants: both depend on x", "shift = 0; stretch = 0"),
}
function("layer_norm", layer_norm, layer_norm_backward,
         lambda r: [r.normal(size=(4, 4)), 1 + 0.3 * r.normal(size=4), 0.3 * r.normal(size=4)], eps=EPS, own=NORM | SUMS,
         forms=(step_by_step,), statement="out = (x - mean) / sqrt(variance + eps) * weight + bias; mean and variance "
                                          "of each row")


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def rms_norm_backward(dout, x, weight, eps):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    x_hat = x * r
    dx_hat = dout * weight
    # the path through the mean square: moving x_i moves it, and so the whole row
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = r * (dx_hat - x_hat * stretch)
    # dweight: one weight serves all rows, so their gradients add
    dweight = (dout * x_hat).sum(axis=tuple(range(x.ndim - 1)))
    return dx, dweight


def with_cubes(dout, x, weight, eps):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    dx_hat = dout * weight
    dx = dx_hat * r - x * r**3 * (dx_hat * x).mean(axis=-1, keepdims=True)
    return dx, (dout * x * r).sum(axis=tuple(range(x.ndim - 1)))


function("scaled_rms_norm", rms_norm, rms_norm_backward, lambda r: [r.normal(size=(4, 4)), 1 + 0.3 * r.normal(size=4)],
         eps=EPS,
         forms=(with_cubes,), statement="out = x / sqrt(mean of x^2 + eps) * weight, the mean over each row", own={
    "layer norm": ("the mean is subtracted: that is layer norm, RMS norm leaves it",
                   "x = x - x.mean(axis=-1, keepdims=True); dx = r * (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - "
                   "x_hat * stretch)"),
    "variance": ("the variance replaces the mean of x^2: RMS norm does not subtract the mean",
                 "r = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)"),
    "no eps at the end": ("eps is missing in the factor of dx",
                          "dx = (dx_hat - x_hat * stretch) / np.sqrt((x * x).mean(axis=-1, keepdims=True))"),
    "weight at the end": ("weight multiplies dx at the end: it belongs into dx_hat, inside of the mean",
                          "dx_hat = dout; dx = r * weight * (dx_hat - x_hat * stretch)"),
    "mean square constant": ("the root mean square is taken as a constant: it depends on x", "stretch = 0"),
    "dweight over axis 0": SUMS["dweight over axis 0"], "dweight over axis 1": SUMS["dweight over axis 1"],
})


def residual_norm(x, weight, bias, eps):
    return x + layer_norm(x, weight, bias, eps)


def residual_norm_backward(dout, x, weight, bias, eps):
    of_norm, dweight, dbias = layer_norm_backward(dout, x, weight, bias, eps)
    dx = dout + of_norm
    return dx, dweight, dbias


function("residual_norm", residual_norm, residual_norm_backward,
         lambda r: [r.normal(size=(4, 4)), 1 + 0.3 * r.normal(size=4), 0.3 * r.normal(size=4)], eps=EPS,
         statement="out = x + layer_norm(x), with weight and bias", own={
    "residual forgotten": ("the residual's own path is missing: x goes to the output unchanged too, so dout is added to dx",
                           "return of_norm, dweight, dbias"),
    "residual only": ("only the residual's path is there: x goes through the norm too", "return dout, dweight, dbias"),
    "residual with weight": ("the residual's dout is multiplied by weight: nothing is, on that path",
                             "return of_norm + dout * weight, dweight, dbias"),
    "residual of 1": ("1 is added to dx for the residual: by the chain rule it is dout * 1",
                      "return of_norm + 1, dweight, dbias"),
    "residual of x": ("x is added to dx for the residual, as in forward: backward adds the gradient, dout",
                      "return of_norm + x, dweight, dbias"),
    "norm of the sum": ("dout is added before the norm's backward, and should be added after it",
                        "dx_hat = dout * weight + dout; return of_norm, dweight, dbias"),
    "parameters of dout": ("dweight and dbias get twice their gradients: the residual has no weight and no bias",
                           "return dx, 2 * dweight, 2 * dbias"),
    **{name: NORM[name] for name in ("sums for means", "mean and variance constant")},
})
