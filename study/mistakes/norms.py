"""Mistakes in layer norm, RMS norm and a residual connection around a norm: x (..., N), weight and bias (N,)."""
from types import SimpleNamespace as Values

import numpy as np

from .base import family, last, mean, normal, replaced, same

EPS = 1e-5


def none(a):
    return 0.0


def over_rows(a):
    """The sum over all axes but the last."""
    return a.sum(tuple(range(a.ndim - 1)))


def average_of_rows(a):
    return a.mean(tuple(range(a.ndim - 1)))


def last_row(a):
    return a.reshape(-1, a.shape[-1])[-1]


def over_batch(a):
    return a.mean(0, keepdims=True)


def over_everything(a):
    return np.full_like(a, a.mean())


def variance_of(x, average):
    return average((x - average(x))**2)


def layer_norm(x, weight, bias, eps=EPS):
    c = x - mean(x)
    return c / np.sqrt(mean(c**2) + eps) * weight + bias


def layer_norm_backward(
    dout, x, weight, bias, *, eps=EPS, upstream=lambda dout: dout, centre=lambda x: x - mean(x),
    spread=lambda h: mean(h.c**2), inverse=lambda var, eps: 1 / np.sqrt(var + eps), normalise=lambda h: h.c * h.rstd,
    scaled=lambda h: h.dout * h.weight, first=lambda h: h.dx_hat, shifted=lambda h: h.dx_hat, shift=mean, shift_factor=1.0,
    stretched=lambda h: h.dx_hat * h.x_hat, stretch=mean, stretch_factor=1.0, direction=lambda h: h.x_hat,
    outer=lambda h: h.rstd, after=lambda h: h.dx, factor=1.0,
    gain=lambda h: h.dout * h.x_hat, gain_sum=over_rows, offset=lambda h: h.dout, offset_sum=over_rows,
    order=lambda dx, dweight, dbias: (dx, dweight, dbias), add=lambda h: 0.0,
):
    h = Values(dout=upstream(dout), x=x, weight=weight, bias=bias)
    h.c = centre(x)
    h.var = spread(h)
    h.rstd = inverse(h.var, eps)
    h.x_hat = normalise(h)
    h.dx_hat = scaled(h)
    inner = first(h) - shift_factor * shift(shifted(h)) - stretch_factor * direction(h) * stretch(stretched(h))
    h.dx = outer(h) * inner + add(h)
    return order(factor * after(h), gain_sum(gain(h)), offset_sum(offset(h)))


def rows_and_weight(r):
    return [r.normal(size=(4, 4)), 1 + 0.3 * r.normal(size=4)]


def layer_norm_inputs(r):
    return [*rows_and_weight(r), 0.3 * r.normal(size=4)]


def wrong_sums(name, parameter, part):
    """Mistakes in the sum over the rows that gives a parameter's gradient."""
    d = f"d{parameter}"
    return replaced(part, {
        f"{name} averaged": (f"{d} is averaged over the rows: each row used the {parameter}, so what they say adds",
                             average_of_rows),
        f"{name} over the wrong axis": (f"{d} is summed within the rows (axis -1), and should be summed over them",
                                        lambda a: a.sum(-1)),
        f"{name} not summed": (f"{d} is not summed over the rows: one {parameter} serves all of them", same),
        f"{name} over everything": (f"{d} is summed over the features too: each feature has a {parameter} of its own",
                                    np.sum),
        f"{name} of the last row": (f"{d} has the last row's part alone: it is overwritten row by row, not added to",
                                    last_row),
        f"{name} zero": (f"{d} is zero", lambda a: 0 * over_rows(a)),
    })


DEVIATION = {  # mistakes in what a row is divided by, in layer norm and RMS norm
    "wrong eps": ("eps is 1e-6 in backward, whatever eps is: use the eps that forward used",
                  dict(inverse=lambda var, eps: 1 / np.sqrt(var + 1e-6))),
    "no eps": ("eps is missing in backward: forward divides by sqrt(variance + eps)",
               dict(inverse=lambda var, eps: 1 / np.sqrt(var))),
    "eps outside of the root": ("eps is added to the deviation, outside of the square root: it belongs to the variance",
                                dict(inverse=lambda var, eps: 1 / (np.sqrt(var) + eps))),
    "eps outside of the inverse": ("eps is added to 1 / sqrt(variance): it belongs to the variance",
                                   dict(inverse=lambda var, eps: 1 / np.sqrt(var) + eps)),
    "eps squared": ("eps^2 is added to the variance, where forward adds eps",
                    dict(inverse=lambda var, eps: 1 / np.sqrt(var + eps**2))),
    "no eps at the end": ("the last factor 1 / sqrt(variance) has no eps, though x_hat has",
                          dict(outer=lambda h: 1 / np.sqrt(h.var))),
    "variance for the deviation": ("divided by the variance throughout: its square root is missing",
                                   dict(inverse=lambda var, eps: 1 / (var + eps))),
    "deviation for the variance": ("the square root of the deviation: the root is taken twice",
                                   dict(inverse=lambda var, eps: 1 / np.sqrt(np.sqrt(var) + eps))),
    "multiplied by the deviation": ("multiplied by the deviation where forward divides by it",
                                    dict(inverse=lambda var, eps: np.sqrt(var + eps))),
    "ddof 1 in the variance": ("the variance is divided by N - 1 (ddof=1), where forward divides by N",
                               dict(spread=lambda h: last(h.c**2) / (h.c.shape[-1] - 1))),
    "sum of squares": ("the sum of squares replaces their mean in the deviation: forward divides it by N",
                       dict(spread=lambda h: last(h.c**2))),
    "no rstd": ("dx is not divided by the deviation: x_hat is x times 1 / deviation, so its gradient is too",
                dict(outer=lambda h: 1.0)),
    "rstd squared": ("dx is divided by the variance instead of by the deviation", dict(outer=lambda h: h.rstd**2)),
    "rstd cubed": ("dx has 1 / deviation to the third power as a factor, and should have it once",
                   dict(outer=lambda h: h.rstd**3)),
    "deviation at the end": ("dx is multiplied by the deviation at the end, and should be divided by it",
                             dict(outer=lambda h: 1 / h.rstd)),
}
STRETCH = {  # mistakes in the path through the deviation
    "stretch halved": ("the path through the deviation is half of what it should be: the 2 of the square's derivative is "
                       "missing", dict(stretch_factor=0.5)),
    "stretch doubled": ("the path through the deviation is twice what it should be: the 1/2 of the root's derivative is "
                        "missing", dict(stretch_factor=2.0)),
    "stretch added": ("the path through the deviation has the wrong sign: x_hat * mean(dx_hat * x_hat) is subtracted",
                      dict(stretch_factor=-1.0)),
    "stretch of the sum": ("the path through the deviation has the sum of dx_hat * x_hat instead of its mean: 1 / N is "
                           "missing", dict(stretch=last)),
    "stretch with one rstd": ("the path through the deviation has too few factors 1 / deviation: x_hat is in it twice",
                              dict(direction=lambda h: h.c)),
    "stretch without rstd": ("the centred x replaces x_hat in the path through the deviation, both times",
                             dict(direction=lambda h: h.c, stretched=lambda h: h.dx_hat * h.c)),
    "stretch with rstd cubed": ("one factor 1 / deviation too many in the path through the deviation",
                                dict(direction=lambda h: h.x_hat * h.rstd)),
    "stretch with rstd to the fourth": ("two factors 1 / deviation too many in the path through the deviation",
                                        dict(direction=lambda h: h.x_hat * h.rstd**2)),
    "stretch of dx_hat": ("the path through the deviation has the mean of dx_hat, not of dx_hat * x_hat",
                          dict(stretched=lambda h: h.dx_hat)),
    "stretch of x_hat": ("the path through the deviation has the mean of x_hat * x_hat, without dout",
                         dict(stretched=lambda h: h.x_hat**2)),
    "stretch without x_hat": ("mean(dx_hat * x_hat) is subtracted as it is, and should be multiplied by x_hat first",
                              dict(direction=lambda h: 1.0)),
    "stretch without weight": ("the weight is missing inside mean(dx_hat * x_hat): dx_hat is dout * weight there, too",
                               dict(stretched=lambda h: h.dout * h.x_hat)),
    "stretch over the batch": ("the mean of dx_hat * x_hat runs over the rows (axis 0) instead of within each row",
                               dict(stretch=over_batch)),
    "diagonal only": ("dx_hat * x_hat is not averaged over the row: each x_i reaches all outputs of its row",
                      dict(stretch=lambda a: a)),
    "stretch without eps": ("the path through the deviation has (variance)^(-3/2) without eps",
                            dict(direction=lambda h: h.x_hat * (h.rstd * np.sqrt(h.var))**-3)),
    "ddof 1": ("N - 1 instead of N in the variance's path: forward's variance divides by N",
               dict(stretch=lambda a: last(a) / (a.shape[-1] - 1))),
}
GAIN = {  # mistakes in where the weight goes, and in its gradient
    "no weight": ("the weight is forgotten in dx: the gradient of x_hat is dout * weight", dict(scaled=lambda h: h.dout)),
    "weight at the end": ("the weight multiplies dx at the end; it should multiply dout before the means are taken",
                          dict(scaled=lambda h: h.dout, after=lambda h: h.dx * h.weight)),
    "weight twice": ("the weight multiplies twice in dx", dict(scaled=lambda h: h.dout * h.weight**2)),
    "divided by the weight": ("dout is divided by the weight in dx, and should be multiplied by it",
                              dict(scaled=lambda h: h.dout / h.weight)),
    "gain of x": ("dweight has x instead of x_hat: the weight multiplies what is normalised already",
                  dict(gain=lambda h: h.dout * h.x)),
    "gain without x_hat": ("dweight is the sum of dout alone, like a bias': x_hat is missing", dict(gain=lambda h: h.dout)),
    "gain without dout": ("dweight is the sum of x_hat: the upstream gradient is missing", dict(gain=lambda h: h.x_hat)),
    "gain with weight": ("dweight is multiplied by the weight: the derivative by the weight is x_hat alone",
                         dict(gain=lambda h: h.dout * h.x_hat * h.weight)),
    "gain divided by the deviation": ("dweight is divided by the deviation once more: x_hat has been already",
                                      dict(gain=lambda h: h.dout * h.x_hat * h.rstd)),
    **wrong_sums("gain", "weight", "gain_sum"),
    "gain's sign": ("dweight has the wrong sign", dict(gain_sum=lambda a: -over_rows(a))),
}
NORM = {  # the other mistakes that both have in common
    "sign": ("dx has the wrong sign", dict(factor=-1.0)),
    "first term divided": ("dx_hat itself is divided by N; only the sums over the row are", dict(
        first=lambda h: h.dx_hat / h.x.shape[-1])),
    "not divided by N": ("dx is N times too large: the factor 1 / N before N * dx_hat - sum - x_hat * sum is missing",
                         dict(outer=lambda h: h.rstd * h.x.shape[-1])),
    "only dx_hat": ("dx is dx_hat: the gradient of x_hat must still go through the norm",
                    dict(after=lambda h: h.dx_hat)),
    "no upstream": ("the upstream gradient is not used: 1 is used instead", dict(upstream=np.ones_like)),
    "x for x_hat": ("x replaces x_hat throughout: it is not normalised", dict(normalise=lambda h: h.x)),
    "output for x_hat": ("the output replaces x_hat throughout: x_hat is what it was before the weight",
                         dict(normalise=lambda h: h.c * h.rstd * h.weight + h.bias)),
}
LAYER_NORM = {  # mistakes in layer norm alone
    "no mean term": ("the path through the mean is missing: moving x_i moves the row's mean, and so all its outputs",
                     dict(shift=none)),
    "no x_hat term": ("the path through the variance is missing: moving x_i moves the row's variance, and so the whole row",
                      dict(stretch=none)),
    "statistics constant": ("mean and variance are taken as constants: both depend on every x of the row",
                            dict(shift=none, stretch=none)),
    "sums for means": ("sums over the row replace both means: 1 / N is missing", dict(shift=last, stretch=last)),
    "shift of the sum": ("the path through the mean has the sum of dx_hat instead of its mean: 1 / N is missing",
                         dict(shift=last)),
    "shift added": ("the path through the mean has the wrong sign: mean(dx_hat) is subtracted", dict(shift_factor=-1.0)),
    "both added": ("both means are added, and should be subtracted", dict(shift_factor=-1.0, stretch_factor=-1.0)),
    "shift without weight": ("the weight is missing inside mean(dx_hat): dx_hat is dout * weight there, too",
                             dict(shifted=lambda h: h.dout)),
    "means without weight": ("the weight is missing inside both means: dx_hat is dout * weight in all three terms",
                             dict(shifted=lambda h: h.dout, stretched=lambda h: h.dout * h.x_hat)),
    "shift over the batch": ("the mean of dx_hat runs over the rows (axis 0) instead of within each row",
                             dict(shift=over_batch)),
    "batch axis": ("both means run over the rows (axis 0) instead of within each row",
                   dict(shift=over_batch, stretch=over_batch)),
    "batch norm": ("mean and variance of the columns (axis 0): that is batch norm; a layer norm's are those of each row",
                   dict(centre=lambda x: x - over_batch(x), spread=lambda h: over_batch(h.c**2), shift=over_batch,
                        stretch=over_batch)),
    "statistics of the batch": ("x_hat is recomputed with mean and variance of the columns (axis 0) instead of the rows",
                                dict(centre=lambda x: x - over_batch(x), spread=lambda h: over_batch(h.c**2))),
    "centred over the batch": ("the mean is that of each column (axis 0) instead of each row",
                               dict(centre=lambda x: x - over_batch(x), spread=lambda h: variance_of(h.x, mean))),
    "variance of the batch": ("the variance is that of each column (axis 0) instead of each row",
                              dict(spread=lambda h: variance_of(h.x, over_batch))),
    "statistics of everything": ("one mean and variance of the whole array, where each row has its own",
                                 dict(centre=lambda x: x - x.mean(), spread=lambda h: over_everything(h.c**2),
                                      shift=over_everything, stretch=over_everything)),
    "not centred": ("the mean is not subtracted in x_hat", dict(normalise=lambda h: h.x * h.rstd)),
    "mean of squares": ("the mean of x^2 replaces the variance: x should be centred first",
                        dict(spread=lambda h: mean(h.x**2))),
    "rms norm": ("the mean is subtracted nowhere: that is the gradient of RMS norm", dict(centre=lambda x: x, shift=none)),
    "gain of the output": ("dweight has the output instead of x_hat", dict(
        gain=lambda h: h.dout * (h.x_hat * h.weight + h.bias))),
    "x in the stretch": ("the path through the deviation has x instead of x_hat, both times",
                         dict(direction=lambda h: h.x, stretched=lambda h: h.dx_hat * h.x)),
    "not divided": ("x_hat is centred, and not divided by the deviation", dict(normalise=lambda h: h.c)),
    "ddof 1 throughout": ("N - 1 for N (ddof=1) in the variance and in its path", dict(
        spread=lambda h: last(h.c**2) / (h.c.shape[-1] - 1), stretch=lambda a: last(a) / (a.shape[-1] - 1))),
    "rstd in the first term only": ("1 / deviation multiplies the first term of dx alone: it is a factor of all of them",
                                    dict(first=lambda h: h.dx_hat * h.rstd, outer=lambda h: 1.0)),
    "stretch with weight outside": (
        "the weight multiplies mean(dout * x_hat) from outside: it differs from feature to feature, and belongs inside",
        dict(direction=lambda h: h.x_hat * h.weight, stretched=lambda h: h.dout * h.x_hat)),
    "x in the mean": ("mean(dx_hat * x) replaces mean(dx_hat * x_hat)", dict(stretched=lambda h: h.dx_hat * h.x)),
    "x as the direction": ("the path through the variance is multiplied by x, and should be by x_hat",
                           dict(direction=lambda h: h.x)),
    "gain of the centred x": ("dweight has the centred x instead of x_hat: it is not divided by the deviation",
                              dict(gain=lambda h: h.dout * h.c)),
    **wrong_sums("bias", "bias", "offset_sum"),
    "both not summed": ("dweight and dbias are not summed over the rows: one weight and one bias serve all of them",
                        dict(gain_sum=lambda a: a, offset_sum=lambda a: a)),
    "both over features": ("dweight and dbias are summed within the rows (axis -1), and should be summed over them",
                           dict(gain_sum=lambda a: a.sum(-1), offset_sum=lambda a: a.sum(-1))),
    "both over everything": ("dweight and dbias are summed over the features too: each has a number for each feature",
                             dict(gain_sum=np.sum, offset_sum=np.sum)),
    "both averaged": ("dweight and dbias are averaged over the rows: each row used them, so what they say adds",
                      dict(gain_sum=average_of_rows, offset_sum=average_of_rows)),
    "bias' sign": ("dbias has the wrong sign", dict(offset_sum=lambda a: -over_rows(a))),
    "bias with weight": ("dbias is multiplied by the weight: the derivative by the bias is 1",
                         dict(offset=lambda h: h.dx_hat)),
    "bias with x_hat": ("dbias is multiplied by x_hat, like the weight's gradient: the derivative by the bias is 1",
                        dict(offset=lambda h: h.dout * h.x_hat)),
    "weight and bias exchanged": ("dweight and dbias are exchanged", dict(order=lambda dx, dw, db: (dx, db, dw))),
}
family("layer_norm", layer_norm, layer_norm_backward, layer_norm_inputs, {
    **LAYER_NORM, **DEVIATION, **STRETCH, **GAIN, **NORM,
}, {
    "variance through the mean": ("the path from x through the mean into the variance is included",
                                  dict(add=lambda h: mean(h.x_hat) * mean(h.dx_hat * h.x_hat)),
                                  "the derivative of the variance by the mean is -2 times the mean of the centred row, "
                                  "which is zero"),
})


def scaled_rms_norm(x, weight, eps=EPS):
    return x / np.sqrt(mean(x**2) + eps) * weight


def scaled_rms_norm_backward(dout, x, weight, *, centre=lambda x: x, shift=none, **parts):
    """Layer norm's backward, without mean and bias."""
    return layer_norm_backward(dout, x, weight, 0.0, centre=centre, shift=shift, **parts)[:2]


RMS_NORM = {
    "scale constant": ("the root mean square is taken as a constant: it depends on every x of the row", dict(stretch=none)),
    "sum": ("the sum of dx_hat * x_hat replaces its mean: 1 / N is missing", dict(stretch=last)),
    "batch axis": ("the mean of dx_hat * x_hat runs over the rows (axis 0) instead of within each row",
                   dict(stretch=over_batch)),
}
LAYER_NORM_FOR_RMS = {
    "mean taken out": ("mean(dx_hat) is subtracted, as in layer norm: RMS norm subtracts no mean, so there is no such path",
                       dict(shift=mean)),
    "centred": ("x is centred, as in layer norm: RMS norm subtracts no mean", dict(centre=lambda x: x - mean(x))),
    "layer norm": ("that is the gradient of layer norm: RMS norm subtracts no mean",
                   dict(centre=lambda x: x - mean(x), shift=mean)),
    "variance": ("x is divided by its deviation from the mean: RMS norm divides by the root of the mean of x^2",
                 dict(spread=lambda h: variance_of(h.x, mean))),
    "deviation of the batch": ("x_hat is recomputed with the mean square of each column (axis 0) instead of each row",
                               dict(spread=lambda h: over_batch(h.c**2))),
    "statistics of the batch": ("the mean square of each column (axis 0) replaces that of each row",
                                dict(spread=lambda h: over_batch(h.c**2), stretch=over_batch)),
    "statistics of everything": ("one mean square of the whole array, where each row has its own",
                                 dict(spread=lambda h: over_everything(h.c**2), stretch=over_everything)),
}
IN_RMS_NORM = {"the centred x": "x", "deviation": "RMS", "variance": "mean square"}  # layer norm's terms: RMS norm's


def in_rms_norm(wrong):
    """Layer norm's mistakes, in RMS norm's terms."""
    def said(sentence):
        for word, other in IN_RMS_NORM.items():
            sentence = sentence.replace(word, other)
        return sentence

    return {name: (said(sentence), changes) for name, (sentence, changes) in wrong.items()}


family("rms_norm", lambda x: scaled_rms_norm(x, 1.0),
       lambda dout, x, **parts: scaled_rms_norm_backward(dout, x, np.ones(x.shape[-1]), **parts)[0], normal((4, 4)),
       RMS_NORM)
family("scaled_rms_norm", scaled_rms_norm, scaled_rms_norm_backward, rows_and_weight,
       {"scale constant": RMS_NORM["scale constant"], **LAYER_NORM_FOR_RMS,
        **in_rms_norm(DEVIATION | STRETCH | GAIN | NORM)})


def residual_norm_backward(
    dout, x, weight, bias, *, residual=lambda dout, x, weight: dout, branch=1.0, join=np.add, **parts,
):
    dx, dweight, dbias = layer_norm_backward(dout, x, weight, bias, **parts)
    return join(branch * dx, residual(dout, x, weight)), dweight, dbias


def residual_norm(x, weight, bias, eps=EPS):
    return x + layer_norm(x, weight, bias, eps)


family("residual_norm", residual_norm, residual_norm_backward, layer_norm_inputs, {
    **LAYER_NORM, **DEVIATION, **STRETCH, **GAIN,
    "residual forgotten": ("the residual's own path is missing: x goes to the output unchanged too, so dout is added to dx",
                           dict(residual=lambda dout, x, weight: 0.0)),
    "residual twice": ("the residual's gradient dout is added twice", dict(residual=lambda dout, x, weight: 2 * dout)),
    "residual subtracted": ("the residual's gradient dout is subtracted, and should be added",
                            dict(residual=lambda dout, x, weight: -dout)),
    "residual of 1": ("1 is added to dx for the residual: by the chain rule it is dout * 1",
                      dict(residual=lambda dout, x, weight: 1.0)),
    "residual of x": ("x is added to dx for the residual, as in forward: backward adds the gradient, dout",
                      dict(residual=lambda dout, x, weight: x)),
    "residual with weight": ("the residual's gradient is multiplied by the weight, which is in the norm's path alone",
                             dict(residual=lambda dout, x, weight: dout * weight)),
    "paths averaged": ("the mean of the two paths to x replaces their sum",
                       dict(residual=lambda dout, x, weight: dout / 2, branch=0.5)),
    "paths multiplied": ("the two paths to x are multiplied, and should be added", dict(join=np.multiply)),
    "branch forgotten": ("only the residual's path is there: what comes back through the norm is missing in dx",
                         dict(branch=0.0)),
    "sign": ("what comes back through the norm is subtracted, and should be added", dict(branch=-1.0)),
    "branch twice": ("what comes back through the norm is added to dx twice", dict(branch=2.0)),
})
