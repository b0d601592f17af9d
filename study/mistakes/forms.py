"""The forms in which the doctor recognises known functions, and what they are called."""
import numpy as np

from .attention import ATTENTION, CAUSAL, FULL, GIVEN, OTHER_SCALES, SCALED, causal, everything, given, scales
from .form import Form
from .heads import MULTI_HEAD
from .rotary import OF_HALVES, halves, neighbours, one_after_the_other, side_by_side
from .softmax import SMOOTHED, WITHOUT_A_MEAN

# ---- norms ----


def flat(x, axes):
    """The last axes as one."""
    return x.reshape(*x.shape[:x.ndim - axes], -1)


def over_last(norm):
    """norm(rows, *parameters) over as many of the last axes as the parameters have."""
    return lambda x, *parameters: norm(flat(x, parameters[0].ndim), *(flat(p, p.ndim) for p in parameters)).reshape(x.shape)


def ones(x):
    return np.ones(x.shape[-1])


def plain(f, rows, eps):
    """Layer norm without weight and bias."""
    return f.layer_norm(rows, ones(rows), 0 * ones(rows), eps=eps)


def per_channel(parameter, x):
    """A parameter of the channels, which are axis 1."""
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


def of_groups(f, x, groups, eps):
    return plain(f, x.reshape(len(x), groups, -1), eps).reshape(x.shape)


def of_the_batch(f, x, eps):
    """Batch norm: the mean and the variance of each channel."""
    channels = x.swapaxes(0, 1)
    return plain(f, flat(channels, x.ndim - 1), eps).reshape(channels.shape).swapaxes(0, 1)


GROUPS = 1, 2, 3, 4, 8, 16, 32
NORMS = [
    Form("layer_norm with eps {eps:g}", lambda f, x, weight, bias, *, eps=1e-5:
         over_last(lambda *a: f.layer_norm(*a, eps=eps))(x, weight, bias)),
    Form("layer_norm without a bias, eps {eps:g}", lambda f, x, weight, *, eps=1e-5:
         over_last(lambda x, weight: f.layer_norm(x, weight, 0 * ones(x), eps=eps))(x, weight)),
    Form("layer_norm over the last axes ({axes}), without weight and bias, eps {eps:g}",
         lambda f, x, *, axes=(1, 2, 3), eps=1e-5: plain(f, flat(x, axes), eps).reshape(x.shape)),
    Form("rms_norm with eps {eps:g}", lambda f, x, weight, *, eps=1e-5:
         over_last(lambda *a: f.scaled_rms_norm(*a, eps=eps))(x, weight)),
    Form("rms_norm without a weight, over the last axes ({axes}), eps {eps:g}", lambda f, x, *, axes=(1, 2, 3), eps=1e-5:
         f.scaled_rms_norm(rows := flat(x, axes), ones(rows), eps=eps).reshape(x.shape)),
    Form("group_norm of {groups} groups, eps {eps:g}", lambda f, x, weight, bias, *, groups=GROUPS, eps=1e-5:
         of_groups(f, x, groups, eps) * per_channel(weight, x) + per_channel(bias, x)),
    Form("group_norm of {groups} groups, without weight and bias, eps {eps:g}",
         lambda f, x, *, groups=GROUPS, eps=1e-5: of_groups(f, x, groups, eps)),
    Form("batch_norm with eps {eps:g}", lambda f, x, weight, bias, *, eps=1e-5:
         of_the_batch(f, x, eps) * per_channel(weight, x) + per_channel(bias, x)),
    Form("batch_norm without weight and bias, eps {eps:g}", lambda f, x, *, eps=1e-5: of_the_batch(f, x, eps)),
    Form("x + layer_norm(x) with eps {eps:g}",
         lambda f, x, weight, bias, *, eps=1e-5: f.residual_norm(x, weight, bias, eps=eps)),
    Form("x + layer_norm(x) without weight and bias, eps {eps:g}",
         lambda f, x, *, eps=1e-5: f.residual_norm(x, ones(x), 0 * ones(x), eps=eps)),
    Form("layer_norm(x + residual) with eps {eps:g}",
         lambda f, x, residual, weight, bias, *, eps=1e-5: f.layer_norm(x + residual, weight, bias, eps=eps)),
    Form("layer_norm(x + residual) without weight and bias, eps {eps:g}",
         lambda f, x, residual, *, eps=1e-5: plain(f, x + residual, eps)),
    Form("rms_norm(x + residual) with eps {eps:g}",
         lambda f, x, residual, weight, *, eps=1e-5: f.scaled_rms_norm(x + residual, weight, eps=eps)),
]

# ---- matrix products, lookups, elementwise functions ----


def rows_times(f, x, weight):
    """x @ weight, where all axes of x but the last are rows."""
    return f.matmul(x.reshape(-1, x.shape[-1]), weight).reshape(*x.shape[:-1], -1)


ACTIVATIONS = "silu", "gelu", "gelu_tanh", "sigmoid", "relu", "tanh"
PRODUCTS = [
    Form("linear without a bias", lambda f, x, weight: f.linear(x, weight, np.zeros(len(weight)))),
    Form("x @ weight", rows_times),
    Form("x @ weight + bias", lambda f, x, weight, bias: rows_times(f, x, weight) + bias),
    Form("embedding", lambda f, ids, weight: f.embedding(weight, ids)),
    Form("dropout of {p:g}", lambda f, x, keep, *, p=tuple(n / 20 for n in range(1, 20)): f.dropout(x, keep != 0, p=p)),
    Form("silu({beta:g} x) / {beta:g}", lambda f, x, *, beta=1.702: f.silu(x * beta) / beta),
    Form("x * {act}(gate)", lambda f, x, gate, *, act=ACTIVATIONS: f.swiglu(x, gate, act=act)),
    Form("{act}(gate) * x", lambda f, gate, x, *, act=ACTIVATIONS: f.swiglu(x, gate, act=act)),
    Form("the {reduction} of the squared differences",
         lambda f, x, y, *, reduction=("mean", "sum"): f.squared_error(x, y, reduction=reduction)),
    Form("the {reduction} of squares",
         lambda f, x, *, reduction=("mean", "sum"): f.squared_error(x, np.zeros(x.shape), reduction=reduction)),
]

# ---- softmax and cross-entropy ----


def along(axis, function):
    return lambda x: np.moveaxis(function(np.moveaxis(x, axis, -1)), -1, axis)


def mean_loss(f, x, targets, axis, reduction, smoothing, ignored):
    rows = np.moveaxis(x, axis, -1)
    targets = np.where(targets.array == ignored, -100, targets.array)
    losses = f.cross_entropy(rows.reshape(-1, rows.shape[-1]), targets.reshape(-1), reduction=reduction,
                             smoothing=smoothing)
    return losses.reshape(targets.shape) if reduction == "none" else losses


SOFTMAXES = [
    Form("softmax along axis {axis}", lambda f, x, *, axis=(-2, -3, -4): along(axis, f.softmax)(x)),
    Form("log_softmax along axis {axis}", lambda f, x, *, axis=(-2, -3, -4): along(axis, f.log_softmax)(x)),
    Form("softmax of {scale:g} x", lambda f, x, *, scale=1.0: f.softmax(x * scale)),
    Form("log_softmax of {scale:g} x", lambda f, x, *, scale=1.0: f.log_softmax(x * scale)),
    Form("causal softmax of {scale:g} x",
         lambda f, x, *, scale=1.0: f.masked_softmax(x * scale, np.tri(*x.shape[-2:], dtype=bool))),
    Form("masked_softmax of {scale:g} x", lambda f, x, mask, *, scale=1.0: f.masked_softmax(x * scale, mask)),
    Form("masked_softmax of {scale:g} x, with a mask that hides",
         lambda f, x, mask, *, scale=1.0: f.masked_softmax(x * scale, ~mask.array)),
    Form("softmax of {scale:g} x + mask", lambda f, x, mask, *, scale=1.0: f.softmax(x * scale + mask)),
    *(Form(f"cross_entropy along axis {{axis}}, reduction {reduction}, smoothing {{smoothing:g}}, ignoring {{ignored}}",
           lambda f, x, targets, *, axis=(-1, 1), ignored=(-100, -1), smoothing=0.0, reduction=(reduction,):
           mean_loss(f, x, targets, axis, reduction, smoothing, ignored), {"cross_entropy": wrong})
      for reduction, wrong in (("mean", SMOOTHED), ("sum", WITHOUT_A_MEAN), ("none", WITHOUT_A_MEAN))),
]

# ---- attention ----

LAYOUTS = {"(B, H, T, D)": lambda x: x, "(B, T, H, D)": lambda x: x.swapaxes(-2, -3)}
UNUSUAL = ATTENTION | scales(SCALED, OTHER_SCALES)  # with another scale
BIASED = {"no bias": ("the weights are recomputed without what is added to the scores", dict(bias=0.0))}
UNMASKED = {"causal attention": (CAUSAL, causal), "attention without a mask": (FULL, everything)}
MASKED = {  # how the mask is used
    "attention with a mask": (GIVEN, lambda mask: dict(see=given, mask=mask != 0)),
    "attention with a mask of 0 and -inf": (GIVEN, lambda mask: dict(see=given, mask=mask > -1e4)),
    "attention with a mask that hides": (GIVEN, lambda mask: dict(see=given, mask=mask == 0)),
    "attention with a bias on the scores": (BIASED, lambda mask: dict(see=everything, bias=mask)),
}


def attend(f, q, k, v, layout, relative, **options):
    """Attention with the scale relative / sqrt(D); keys and values may serve several heads of queries each."""
    q, k, v = map(LAYOUTS[layout], (q, k, v))
    heads = 1 if q.ndim < 4 else q.shape[-3] // k.shape[-3]
    k, v = (x if heads == 1 else f.shared_heads(x, heads=heads) for x in (k, v))
    return LAYOUTS[layout](f.attention(q, k, v, factor=relative / np.sqrt(q.shape[-1]), **options))


def unmasked(see, relative):
    return lambda f, q, k, v, *, layout=tuple(LAYOUTS), relative=relative: attend(f, q, k, v, layout, relative, see=see)


def masked(use, relative):
    return lambda f, q, k, v, mask, *, layout=tuple(LAYOUTS), relative=relative: attend(
        f, q, k, v, layout, relative, **use(mask.array))


ATTENTIONS = [
    Form(f"{name} on {{layout}}, scale {{relative:g}} / sqrt(d)", expression(use, relative), {"attention": table | wrong})
    for relative, table in (((1.0,), ATTENTION), (1.0, UNUSUAL))  # the usual scale, then any
    for expression, masks in ((unmasked, UNMASKED), (masked, MASKED)) for name, (wrong, use) in masks.items()]
HEADS = [
    Form(f"{name} of {{heads}} heads", lambda f, q, k, v, *, heads=(2, 3, 4, 6, 8, 12, 16), see=(see,):
         f.multi_head(q, k, v, heads=heads, see=see), {"multi_head": MULTI_HEAD | ATTENTION | wrong})
    for name, (wrong, see) in UNMASKED.items()]

# ---- rotary positions ----

PAIRS = {"neighbours": (neighbours, side_by_side), "halves": (halves, one_after_the_other)}


def rotated(f, x, angles, pairs, layout):
    cut, join = PAIRS[pairs]
    return LAYOUTS[layout](f.rotary(LAYOUTS[layout](x), angles=angles, cut=cut, join=join))


def from_tables(f, x, cos, sin, pairs, layout):
    angles = np.arctan2(sin.array, cos.array)
    return rotated(f, x, angles if angles.shape[-1] < x.shape[-1] else PAIRS[pairs][0](angles)[0], pairs, layout)


def from_positions(f, x, first, base, pairs, layout):
    tokens, width = LAYOUTS[layout](x).shape[-2:]
    return rotated(f, x, (np.arange(tokens) + first)[:, None] / base ** (np.arange(0, width, 2) / width), pairs, layout)


def rotaries(pairs, mistakes):
    return [
        Form(f"rotary of {pairs} on {{layout}}, from position {{first}}, base {{base}}",
             lambda f, x, *, layout=tuple(LAYOUTS), first=(0, 1), base=(10000, 500000, 1000000):
             from_positions(f, x, first, base, pairs, layout), mistakes),
        Form(f"rotary of {pairs} on {{layout}} with cos and sin",
             lambda f, x, cos, sin, *, layout=tuple(LAYOUTS): from_tables(f, x, cos, sin, pairs, layout), mistakes)]


ROTARIES = rotaries("neighbours", {}) + rotaries("halves", {"rotary": OF_HALVES})

FORMS = [*NORMS, *PRODUCTS, *SOFTMAXES, *ATTENTIONS, *HEADS, *ROTARIES]
