"""Functions of PyTorch in many forms: a known mistake is named in each of them, and what is not known gets no name."""
import itertools
import math
from types import SimpleNamespace as Values

import numpy as np
import pytest
from pytorch_functions import autograd, function, torch
from tables import each, one_in

from minigrad.gradcheck import gradcheck_report

F = torch.nn.functional


def leaf(*shape, seed=0):
    return torch.tensor(np.random.default_rng((seed, *shape)).normal(size=shape), requires_grad=True)


def with_gradients(forward, wrong):
    """forward as a function of PyTorch; {input: its gradient by what `wrong` says} for those that are wrong."""

    def backward(dout, *inputs):
        found = dict(enumerate(autograd(forward, dout, *inputs)))
        return *(found | wrong(dout, *inputs)).values(),

    return function(forward, backward, once=True).apply


def mean(a):
    return a.mean(-1, keepdim=True)


def last(a):
    return a.sum(-1, keepdim=True)


def rows(a):
    return a.reshape(-1, a.shape[-1])


# ---- values of a right backward, from which the wrong gradients below are made ----


def norm_values(dout, x, weight, eps, is_centred=True):
    c = x - mean(x) if is_centred else x
    rstd = 1 / torch.sqrt(mean(c * c) + eps)
    h = Values(dout=dout, x=x, rstd=rstd, x_hat=c * rstd, dx_hat=dout * weight, weight=weight)
    h.stretch = mean(h.dx_hat * h.x_hat)
    return h


def attention_values(dout, q, k, v, scale, seen=None):
    scores = q @ k.mT * scale
    seen = torch.ones_like(scores, dtype=torch.bool) if seen is None else seen
    h = Values(dout=dout, q=q, k=k, v=v, scale=scale, scores=scores, seen=seen)
    h.p = scores.masked_fill(~seen, -math.inf).softmax(-1)
    h.dp = dout @ v.mT
    h.ds = h.p * (h.dp - last(h.p * h.dp))
    return h


def of_scores(h, ds):
    return {0: ds @ h.k * h.scale, 1: ds.mT @ h.q * h.scale}


ATTENTION = {  # {name: (wrong gradients from the values, part of the diagnosis)}
    "no rowsum": (lambda h: of_scores(h, h.p * h.dp), "sum over the row is missing"),
    "rowsum of dP": (lambda h: of_scores(h, h.p * (h.dp - last(h.dp))), "the row's sum is that of dP alone"),
    "no weights": (lambda h: of_scores(h, h.dp - last(h.p * h.dp)), "is not multiplied by P"),
    "no scale in dk": (lambda h: {1: h.ds.mT @ h.q}, "is missing in dk"),
    "no scale": (lambda h: {0: h.ds @ h.k, 1: h.ds.mT @ h.q}, "is missing in dq and dk"),
    "dv from dout": (lambda h: {2: h.p @ h.dout}, "weights should be transposed"),
    "dk without transpose": (lambda h: {1: h.ds @ h.q * h.scale}, "should be transposed, so that the keys come first"),
    "dv from dS": (lambda h: {2: h.ds.mT @ h.dout}, "dv is made from dS"),
    "softmax left out": (lambda h: of_scores(h, h.dp), "it should go back through the softmax"),
}
MASKED = {
    "no mask": (lambda h: (lambda g: {**of_scores(g, g.ds), 2: g.p.mT @ g.dout})(
        attention_values(h.dout, h.q, h.k, h.v, h.scale)), "without the mask"),
    "mask sets scores to 0": (lambda h: (lambda p: {
        **of_scores(h, p * (h.dp - last(p * h.dp))), 2: p.mT @ h.dout})((h.scores * h.seen).softmax(-1)),
        "masked scores are set to 0"),
}
NORM = {
    "no weight": (lambda h: {0: h.rstd * (h.dout - mean(h.dout) - h.x_hat * mean(h.dout * h.x_hat))},
                  "the weight is forgotten in dx"),
    "gain of x": (lambda h: {1: rows(h.dout * h.x).sum(0)}, "dweight has x instead of x_hat"),
    "gain averaged": (lambda h: {1: rows(h.dout * h.x_hat).mean(0)}, "dweight is averaged over the rows"),
    "gain without x_hat": (lambda h: {1: rows(h.dout).sum(0)}, "x_hat is missing"),
    "gain of the last row": (lambda h: {1: rows(h.dout * h.x_hat)[-1]}, "last row's part alone"),
}
BARE = {
    "no mean term": (lambda h: {0: h.rstd * (h.dx_hat - h.x_hat * h.stretch)}, "the path through the mean is missing"),
    "no x_hat term": (lambda h: {0: h.rstd * (h.dx_hat - mean(h.dx_hat))}, "the path through the variance is missing"),
    "statistics constant": (lambda h: {0: h.rstd * h.dx_hat}, "mean and variance are taken as constants"),
    "no rstd": (lambda h: {0: h.dx_hat - mean(h.dx_hat) - h.x_hat * h.stretch}, "dx is not divided by the deviation"),
    "sums for means": (lambda h: {0: h.rstd * (h.dx_hat - last(h.dx_hat) - h.x_hat * last(h.dx_hat * h.x_hat))},
                       "1 / N is missing"),
    "stretch halved": (lambda h: {0: h.rstd * (h.dx_hat - mean(h.dx_hat) - h.x_hat * h.stretch / 2)},
                       "half of what it should be"),
    "not centred": (lambda h: {0: h.rstd * (h.dx_hat - mean(h.dx_hat) - h.x * h.rstd * mean(h.dx_hat * h.x * h.rstd))},
                    "the mean is not subtracted in x_hat"),
}
RMS = {
    "scale constant": (lambda h: {0: h.rstd * h.dx_hat}, "taken as a constant"),
    "sum": (lambda h: {0: h.rstd * (h.dx_hat - h.x_hat * last(h.dx_hat * h.x_hat))}, "1 / N is missing"),
}
RMS_WEIGHT = {
    "no rstd": (lambda h: {0: h.dx_hat - h.x_hat * h.stretch}, "not divided by the RMS"),
    "mean term": (lambda h: {0: h.rstd * (h.dx_hat - mean(h.dx_hat) - h.x_hat * h.stretch)}, "RMS norm subtracts no mean"),
    "no weight": (lambda h: {0: h.rstd * (h.dout - h.x_hat * mean(h.dout * h.x_hat))}, "the weight is forgotten"),
    "gain of x": (lambda h: {1: rows(h.dout * h.x).sum(0)}, "dweight has x instead of x_hat"),
}
SOFTMAX = {
    "no rowsum": (lambda h: {0: h.back(h.p * h.dp)}, "the sum over the row is missing"),
    "rowsum of dout": (lambda h: {0: h.back(h.p * (h.dp - last(h.dp)))}, "that of dout alone"),
    "no p": (lambda h: {0: h.back(h.dp - last(h.p * h.dp))}, "the factor p is missing"),
    "sum added": (lambda h: {0: h.back(h.p * (h.dp + last(h.p * h.dp)))}, "added instead of subtracted"),
    "slope alone": (lambda h: {0: h.back(h.p * (1 - h.p) * h.dp)}, "diagonal only"),
    "mean": (lambda h: {0: h.back(h.p * (h.dp - mean(h.p * h.dp)))}, "the mean over the row is used"),
    "log_softmax": (lambda h: {0: h.back(h.dp - h.p * last(h.dp))}, "is the gradient of log_softmax"),
}
CROSS_ENTROPY = {
    "no target": (lambda h: {0: h.back(h.p)}, "1 is not subtracted at the target"),
    "sign": (lambda h: {0: -h.back(h.p - h.hot)}, "wrong"),
    "no p": (lambda h: {0: h.back(-h.hot)}, "p is missing"),
    "softmax again": (lambda h: {0: h.back(h.p * (h.p - h.hot - last(h.p * (h.p - h.hot))))}, "softmax once more"),
    "averaged again": (lambda h: {0: h.back(h.p - h.hot) / h.p.shape[0]}, ""),
    "upstream": (lambda h: {0: h.back(h.p - h.hot, 1.0)}, "dout is not used"),
}
LINEAR = {
    "averaged": (lambda h: {1: h.right_weight / len(rows(h.x))}, "number of rows"),
    "first of the batch": (lambda h: {1: h.weight_of(h.dout[:1], h.x[:1])}, "first"),
    "last of the batch": (lambda h: {1: h.weight_of(h.dout[-1:], h.x[-1:])}, "last"),
    "batch averaged": (lambda h: {1: h.right_weight / len(h.x)}, "axis"),
    "result transposed": (lambda h: {1: h.right_weight.T}, "transposed"),
}


def softmax_case(axis=-1, scale=1.0):
    def values(dout, x):
        moved = [a.movedim(axis, -1) for a in (dout, (x * scale).softmax(axis))]
        return Values(dp=moved[0], p=moved[1], back=lambda a: a.movedim(-1, axis) * scale)
    return lambda x: (x * scale).softmax(axis), [leaf(4, 4, 4)], values, SOFTMAX


def cross_entropy_case(shape=(6, 6), axis=-1, **options):
    def values(dout, x, targets):
        moved, flat = x.movedim(axis, -1), targets.reshape(-1)
        keep = (flat != -100)[:, None]
        p = rows(moved).softmax(-1)
        smoothing, count = options.get("label_smoothing", 0.0), keep.sum() if "reduction" not in options else 1

        def back(dx, upstream=None):
            up = dout.reshape(-1, 1) if upstream is None else upstream
            return (up * dx * keep / count).reshape(moved.shape).movedim(-1, axis).contiguous()

        hot = F.one_hot(flat.clamp(min=0), p.shape[-1]).double() * (1 - smoothing) + smoothing / p.shape[-1]
        return Values(p=p, hot=hot, back=back)

    classes = shape[axis]
    targets = torch.tensor(np.random.default_rng(1).integers(0, classes, size=np.delete(shape, axis)))
    targets.view(-1)[1] = -100
    return lambda x, t: F.cross_entropy(x.movedim(axis, 1), t, **options), [leaf(*shape), targets], values, CROSS_ENTROPY


def linear_case(forward, weight_shape, weight_of, *more):
    def values(dout, x, weight, *_):
        return Values(dout=dout, x=x, weight=weight, weight_of=weight_of, right_weight=weight_of(dout, x))
    return forward, [leaf(3, 4, 4), leaf(*weight_shape), *more], values, LINEAR


def norm_case(forward, inputs, eps, *tables, is_centred=True, flat=None, weight=1, residual=False):
    def values(dout, x, *others):
        w = torch.ones(()) if weight is None else others[weight - 1].reshape(-1)
        shape = x.shape
        x = x + others[0] if residual else x
        if flat:
            dout, x = (a.flatten(-flat) for a in (dout, x))
        h = norm_values(dout, x, w, eps, is_centred)
        h.shape = shape
        return h

    table = {name: (lambda h, make=make, x=inputs: {place: g.reshape(x[place].shape) for place, g in make(h).items()}, said)
             for one in tables for name, (make, said) in one.items()}
    return forward, inputs, values, table


def attention_case(forward, inputs, *tables, scale=None, seen=None, enter=lambda x: x, leave=lambda x: x, share=1):
    def values(dout, q, k, v, *mask):
        q, dout = enter(q), enter(dout)
        k, v = (enter(x).repeat_interleave(share, 1) for x in (k, v))
        scale_ = scale or 1 / math.sqrt(q.shape[-1])
        visible = seen(*mask) if seen else None
        return attention_values(dout, q, k, v, scale_, visible)

    def own(place, g):
        if place and share > 1:
            g = g.reshape(g.shape[0], -1, share, *g.shape[2:]).sum(2)
        return leave(g)

    table = {name: (lambda h, make=make: {place: own(place, g) for place, g in make(h).items()}, said)
             for one in tables for name, (make, said) in one.items()}
    return forward, inputs, values, table


def rms_norm(x, weight=1.0, eps=1e-6):
    return x / torch.sqrt(mean(x * x) + eps) * weight


X, W, B = leaf(4, 5, 6), leaf(6), leaf(6, seed=1)
QKV = [leaf(2, 2, 4, 4, seed=i) for i in range(3)]
TOKENS_FIRST = [leaf(2, 4, 2, 4, seed=i) for i in range(3)]
SHARED = [leaf(2, 4, 4, 4), leaf(2, 2, 4, 4, seed=1), leaf(2, 2, 4, 4, seed=2)]
MASK = torch.tensor(np.random.default_rng(3).random((4, 4)) < 0.6) | torch.eye(4, dtype=torch.bool)
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
ADDED = torch.zeros(4, 4, dtype=torch.float64).masked_fill(~MASK, -math.inf)
BIAS = leaf(4, 4).detach()
sdpa = F.scaled_dot_product_attention


def tokens_first(q, k, v):
    return sdpa(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


ANGLES = torch.tensor(np.tile(np.arange(4)[:, None] / 10000 ** (np.arange(0, 8, 2) / 8), 2))
COS, SIN = ANGLES.cos(), ANGLES.sin()


def plain_values(dout, *inputs):
    return Values(dout=dout, inputs=inputs, x=inputs[0])


FORMS = {  # form: (function, inputs, the values of a right backward, {mistake: (wrong gradients, part of the diagnosis)})
    "layer_norm": norm_case(lambda x, w, b: F.layer_norm(x, (6,), w, b, 1e-6), [X, W, B], 1e-6, BARE, NORM),
    "layer_norm without bias": norm_case(lambda x, w: F.layer_norm(x, (6,), w, eps=1e-12), [X, W], 1e-12, BARE, NORM),
    "layer_norm without weight and bias": norm_case(lambda x: F.layer_norm(x, (6,)), [X], 1e-5, BARE, weight=None),
    "layer_norm over two axes": norm_case(lambda x, w, b: F.layer_norm(x, (5, 6), w, b), [X, leaf(5, 6), leaf(5, 6, seed=1)],
                                          1e-5, BARE, NORM, flat=2),
    "group_norm of one group": norm_case(lambda x: F.group_norm(x, 1), [X], 1e-5, BARE, weight=None, flat=2),
    "rms_norm": norm_case(lambda x, w: rms_norm(x, w), [X, W], 1e-6, RMS, RMS_WEIGHT, is_centred=False),
    "rms_norm without weight": norm_case(rms_norm, [X], 1e-6, RMS, is_centred=False, weight=None),
    "layer_norm(x + residual)": norm_case(
        lambda x, r, w, b: F.layer_norm(x + r, (6,), w, b), [X, leaf(4, 5, 6, seed=2), W, B], 1e-5,
        {name: (lambda h, make=make: (lambda g: {0: g[0], 1: g[0]})(make(h)), said) for name, (make, said) in BARE.items()},
        weight=2, residual=True),
    "linear": linear_case(F.linear, (4, 4), lambda dout, x: rows(dout).T @ rows(x), leaf(4)),
    "linear without bias": linear_case(F.linear, (4, 4), lambda dout, x: rows(dout).T @ rows(x)),
    "x @ w": linear_case(lambda x, w: x @ w, (4, 4), lambda dout, x: rows(x).T @ rows(dout)),
    "softmax of a batch": softmax_case(),
    "softmax along axis 1": softmax_case(1),
    "softmax along axis 0": softmax_case(0),
    "softmax with temperature": softmax_case(scale=0.4),
    "cross_entropy": cross_entropy_case(),
    "cross_entropy, sum": cross_entropy_case(reduction="sum"),
    "cross_entropy, none": cross_entropy_case(reduction="none"),
    "cross_entropy with smoothing": cross_entropy_case(label_smoothing=0.1),
    "cross_entropy of a batch": cross_entropy_case((2, 3, 6)),
    "attention": attention_case(sdpa, QKV, ATTENTION),
    "causal attention": attention_case(lambda q, k, v: sdpa(q, k, v, is_causal=True), QKV, ATTENTION, MASKED,
                                       seen=lambda: CAUSAL),
    "attention with a scale": attention_case(lambda q, k, v: sdpa(q, k, v, scale=0.3), QKV, ATTENTION, scale=0.3),
    "attention with a mask": attention_case(sdpa, [*QKV, MASK], ATTENTION, MASKED, seen=lambda mask: mask),
    "attention with an added mask": attention_case(sdpa, [*QKV, ADDED], ATTENTION, MASKED, seen=lambda mask: mask == 0),
    "attention on (B, T, H, D)": attention_case(tokens_first, TOKENS_FIRST, ATTENTION, MASKED, seen=lambda: CAUSAL,
                                                enter=lambda x: x.transpose(1, 2), leave=lambda x: x.transpose(1, 2)),
    "attention with grouped keys": attention_case(
        lambda q, k, v: sdpa(q, *(x.repeat_interleave(2, 1) for x in (k, v))), SHARED, ATTENTION, share=2),
    "attention with a bias": (sdpa, [*QKV, BIAS], plain_values, {
        "no bias": (lambda h: (lambda g: {**of_scores(g, g.ds), 2: g.p.mT @ g.dout})(
            attention_values(h.dout, *h.inputs[:3], 0.5)), "without what is added to the scores")}),
    "rotary of halves": (lambda x: x * COS + rotate_half(x) * SIN, [leaf(2, 3, 4, 8)], plain_values, {
        "turned forwards": (lambda h: {0: h.dout * COS + rotate_half(h.dout) * SIN}, "turned the same way as x"),
        "no sine": (lambda h: {0: h.dout * COS}, "only dout * cos is there"),
        "not turned": (lambda h: {0: h.dout}, "dout"),
        "times x": (lambda h: {0: (h.x * h.dout) * COS - rotate_half(h.x * h.dout) * SIN}, "multiplied by x"),
        "next position": (lambda h: {0: h.dout * COS.roll(-1, 0) - rotate_half(h.dout) * SIN.roll(-1, 0)},
                          "the next position")}),
    "rotary with cos and sin": (lambda x, c, s: x * c + rotate_half(x) * s, [leaf(2, 3, 4, 8), COS, SIN], plain_values, {
        "turned forwards": (lambda h: {0: h.dout * COS + rotate_half(h.dout) * SIN}, "turned the same way as x"),
        "no sine": (lambda h: {0: h.dout * COS}, "only dout * cos is there"),
        "exchanged": (lambda h: {0: h.dout * SIN - rotate_half(h.dout) * COS}, "cosine and sine are exchanged")}),
    "swiglu": (lambda gate, x: F.silu(gate) * x, [leaf(3, 4), leaf(3, 4, seed=1)],
               lambda dout, gate, x: Values(dout=dout, gate=gate, x=x, s=gate.sigmoid()), {
        "no activation": (lambda h: {1: h.dout * h.gate}, "after its activation"),
        "no slope": (lambda h: {0: h.dout * h.x}, "derivative of the activation is missing"),
        "no x": (lambda h: {0: h.dout * h.s * (1 + h.gate * (1 - h.s))}, "lacks the factor x"),
        "sigmoid is constant": (lambda h: {0: h.dout * h.x * h.s}, "the term through the sigmoid is missing"),
        "only the gate": (lambda h: {0: h.dout * h.x * h.gate * h.s * (1 - h.s)}, "the term sigmoid(gate) is missing"),
        "exchanged": (lambda h: {1: h.dout * h.x * h.s * (1 + h.gate * (1 - h.s)), 0: h.dout * F.silu(h.gate)},
                      "exchanged")}),
    "silu": (F.silu, [leaf(3, 4)], lambda dout, x: Values(dout=dout, x=x, s=x.sigmoid()), {
        "gate is constant": (lambda h: {0: h.dout * h.s}, "the term through the sigmoid is missing"),
        "no x": (lambda h: {0: h.dout * h.s * (1 + (1 - h.s))}, "x is missing in the term"),
        "sigmoid's": (lambda h: {0: h.dout * h.s * (1 - h.s)}, "the derivative of sigmoid"),
        "no upstream": (lambda h: {0: h.s * (1 + h.x * (1 - h.s))}, "dout is not used"),
        "minus": (lambda h: {0: h.dout * h.s * (1 - h.x * (1 - h.s))}, "subtracted")}),
    "mean of squares": (lambda x: (x * x).mean(), [leaf(3, 4)], plain_values, {
        "no 2": (lambda h: {0: h.dout * h.x / 12}, "the factor 2 is missing"),
        "no mean": (lambda h: {0: h.dout * 2 * h.x}, "not divided by the number of elements"),
        "mean over rows": (lambda h: {0: h.dout * 2 * h.x / 3}, "first axis"),
        "no upstream": (lambda h: {0: 2 * h.x / 12}, "dout is not used"),
        "sign": (lambda h: {0: -h.dout * 2 * h.x / 12}, "wrong")}),
    "mse_loss, sum": (lambda x, y: F.mse_loss(x, y, reduction="sum"), [leaf(3, 4), leaf(3, 4, seed=1)],
                      lambda dout, x, y: Values(dout=dout, e=x - y), {
        "no 2": (lambda h: {0: h.dout * h.e, 1: -h.dout * h.e}, "the factor 2 is missing"),
        "target's sign": (lambda h: {1: 2 * h.dout * h.e}, "dy has the sign of dx"),
        "sign of the error": (lambda h: {0: h.dout * h.e.sign(), 1: -h.dout * h.e.sign()}, "the gradient of |e|"),
        "target is constant": (lambda h: {1: 0 * h.e}, "zero")}),
    "embedding": (lambda ids, weight: F.embedding(ids, weight), [torch.tensor([[0, 4, 4], [4, 1, 4]]), leaf(6, 3)],
                  lambda dout, ids, weight: Values(dout=rows(dout), ids=ids.reshape(-1), zero=torch.zeros_like(weight)), {
        "overwrites": (lambda h: {1: h.zero.index_put((h.ids,), h.dout)}, "keeps its last gradient"),
        "averages": (lambda h: {1: h.zero.index_add(0, h.ids, h.dout) / torch.bincount(h.ids, minlength=6).clamp(1)[:, None]},
                     "divided by how often an id occurs"),
        "off by one": (lambda h: {1: h.zero.index_add(0, (h.ids + 1) % 6, h.dout)}, "the next row"),
        "row 0 is padding": (lambda h: {1: h.zero.index_add(0, h.ids, h.dout * (h.ids > 0)[:, None])}, "taken for padding")}),
    "dropout": (lambda x, keep: x * keep / 0.9, [leaf(4, 5), torch.tensor(np.arange(20.0).reshape(4, 5) % 3 > 0).double()],
                lambda dout, x, keep: Values(dout=dout, keep=keep, x=x), {
        "no scale": (lambda h: {0: h.dout * h.keep}, "1 / (1 - p) is missing"),
        "no mask": (lambda h: {0: h.dout / 0.9}, "the mask is missing"),
        "p for 1 - p": (lambda h: {0: h.dout * h.keep / 0.1}, "divided by p"),
        "times x": (lambda h: {0: h.dout * h.keep * h.x / 0.9}, "multiplied by x as well"),
        "inverted": (lambda h: {0: h.dout * (1 - h.keep) / 0.9}, "the mask is the wrong way round")}),
    "x + layer_norm(x)": (lambda x, w, b: x + F.layer_norm(x, (6,), w, b, 1e-6), [X, W, B],
                          lambda dout, x, w, b: norm_values(dout, x, w, 1e-6), {
        "residual forgotten": (lambda h: {0: h.rstd * (h.dx_hat - mean(h.dx_hat) - h.x_hat * h.stretch)},
                               "the residual's own path is missing"),
        "branch forgotten": (lambda h: {0: h.dout}, "what comes back through the norm is missing"),
        "no mean term": (lambda h: {0: h.dout + h.rstd * (h.dx_hat - h.x_hat * h.stretch)}, "")}),
}
ROWS = {f"{form}: {mistake}": (*case[:3], *wrong) for form, case in FORMS.items() for mistake, wrong in case[3].items()}


def outcome(row):
    """The report on a wrong backward."""
    forward, inputs, values, wrong, _ = row
    return gradcheck_report(with_gradients(forward, lambda *arrays: wrong(values(*arrays))), inputs, fast_mode=True)


BLOCK = 4  # rows


def fused_layer_norm(mistakes):
    """Row by row forward, in blocks of rows backward, with partial sums of dweight and dbias, as a kernel does it."""

    class FusedLayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            rstd = 1 / torch.sqrt(x.var(-1, correction=0, keepdim=True) + 1e-5)
            ctx.save_for_backward(x, weight, mean(x), rstd)
            out = torch.empty_like(x)
            out[:] = (x - mean(x)) * rstd * weight + bias  # not of broadcast inputs
            return out

        @staticmethod
        def backward(ctx, dout):
            x, weight, average, rstd = ctx.saved_tensors
            dx, blocks = torch.empty_like(x), math.ceil(len(x) / BLOCK)
            dweight, dbias = torch.zeros(2, blocks, x.shape[1], dtype=x.dtype)
            for block in range(blocks):
                at = slice(block * BLOCK, (block + 1) * BLOCK)
                x_hat, dx_hat = (x[at] - average[at]) * rstd[at], weight * dout[at]
                projection = 0 if "no projection" in mistakes else x_hat * mean(x_hat * dx_hat)
                dx[at] = (dx_hat - mean(dx_hat) - projection) * rstd[at]
                dweight[block], dbias[block] = (dout[at] * x_hat).sum(0), dout[at].sum(0)
            dweight = dweight[:len(x) // BLOCK] if "incomplete block" in mistakes else dweight
            return dx, dweight.sum(0), dbias.sum(0) / (len(x) if "bias averaged" in mistakes else 1)

    return FusedLayerNorm


PLANTED = {
    "no projection": "the path through the variance is missing",
    "incomplete block": "dweight is what would be right if the last 2 rows of dout were left out",
    "bias averaged": "dbias is averaged over the rows",
}


@pytest.mark.parametrize("count", range(4))
def test_all_mistakes_of_a_fused_layer_norm_are_named_in_one_run(count):
    def are_named(planted):
        report = gradcheck_report(fused_layer_norm(planted), [leaf(6, 5), leaf(5), leaf(5, seed=1)])
        assert bool(report) == (not planted)
        assert all(PLANTED[mistake] in report.diagnosis.mistake for mistake in planted), report
        assert not planted or len(report.diagnosis.mistakes) == len(planted)

    each(itertools.combinations(PLANTED, count), are_named)


@pytest.mark.parametrize("share", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 12))])
def test_mistakes_are_named_in_all_forms(share):
    def is_named(name, row):
        report = outcome(row)
        assert report.verdict == "fail" and report.diagnosis, report
        assert row[-1] in report.diagnosis.mistake, report.diagnosis.mistake

    each({name: row for place, (name, row) in enumerate(ROWS.items()) if place % 12 == share}, is_named)


@pytest.mark.parametrize("form", one_in(6, FORMS))
def test_an_unknown_mistake_is_described_and_a_right_backward_is_not_accused(form):
    forward, inputs, *_ = FORMS[form]
    learned = [place for place, x in enumerate(inputs) if x.requires_grad]
    unknown = with_gradients(forward, lambda dout, *arrays: {
        place: torch.sin(3 * arrays[place] + dout.sum()) * dout.norm() for place in learned})
    found = gradcheck_report(unknown, inputs, fast_mode=True).diagnosis
    assert not found and found.facts
    right = gradcheck_report(with_gradients(forward, lambda *arrays: {}), inputs)
    assert right and right.diagnosis is None
