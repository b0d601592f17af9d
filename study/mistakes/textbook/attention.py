"""Attention, from its scores to several heads and to tiles; rotary positions. Queries and keys are (..., T, D)."""
import numpy as np

from ..base import normal
from ..known import function
from .rows import softmax


def scores(q, k):
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


def scores_backward(dout, q, k):
    scale = 1 / np.sqrt(q.shape[-1])  # the scale: 1 / sqrt(d), as in forward
    dq = dout @ k * scale
    dk = np.swapaxes(dout, -1, -2) @ q * scale
    return dq, dk


function("scores", scores, scores_backward, normal((4, 4), (4, 4)),
         statement="out = q k^T / sqrt(d), of M queries and N keys", own={
    "no scale in dq": ("the scale 1 / sqrt(d) is missing in dq", "dq = dout @ k"),
    "no scale in dk": ("the scale 1 / sqrt(d) is missing in dk", "dk = np.swapaxes(dout, -1, -2) @ q"),
})


def masked_softmax(scores, mask):
    masked = np.where(mask, scores, -np.inf)
    largest = masked.max(axis=-1, keepdims=True)
    e = np.exp(masked - np.where(largest == -np.inf, 0, largest))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def masked_softmax_backward(dout, scores, mask):
    masked = np.where(mask, scores, -np.inf)
    largest = masked.max(axis=-1, keepdims=True)
    e = np.exp(masked - np.where(largest == -np.inf, 0, largest))
    total = e.sum(axis=-1, keepdims=True)  # the sum of e^x: each row has its own
    p = e / np.where(total == 0, 1, total)  # zeros in a fully masked row
    s = (dout * p).sum(axis=-1, keepdims=True)  # the sum over the row: every output depends on every score of its row
    return p * (dout - s)


def masked_by_weights(dout, scores, mask):
    e = np.exp(scores) * mask
    total = e.sum(axis=-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    return p * dout - p * (dout * p).sum(axis=-1, keepdims=True)


def scores_and_mask(r):
    mask = r.random((5, 5)) < 0.6
    mask[r.integers(5)] = False
    return [r.normal(size=(5, 5)), mask]


OF_ALL = "b = np.exp(scores - scores.max(axis=-1, keepdims=True)); a = b / b.sum(axis=-1, keepdims=True); "
ZEROS = ("a = np.where(mask, scores, 0); b = np.exp(a - a.max(axis=-1, keepdims=True)); "
         "p = b / b.sum(axis=-1, keepdims=True)")
MASKED = {
    "mask after the softmax": ("the weights are masked after the softmax: the masked scores are part of its sums",
                               OF_ALL + "p = a * mask"),
    "mask after the softmax, differentiated": (
        "the mask comes after the softmax in both directions, and the weights of a row do not add up to 1",
        OF_ALL + "p = a; return p * (dout * mask - (dout * mask * p).sum(axis=-1, keepdims=True))"),
    "mask sets scores to 0": ("masked scores are set to 0, and e^0 = 1 still counts: it should be -inf", ZEROS),
    "mask sets scores to 0, dscores masked": (
        "masked scores are set to 0, and e^0 = 1 still counts: it should be -inf; the gradient is masked",
        ZEROS + "; return p * (dout - (dout * p).sum(axis=-1, keepdims=True)) * mask"),
    "mask sets scores to 0, weights masked": (
        "masked scores are set to 0, and e^0 = 1 still counts: it should be -inf; weights are masked", f"{ZEROS} * mask"),
    "no mask": ("the mask is not used", "masked = scores"),
    "empty rows are NaN": ("a row in which nothing may be looked at is 0 / 0: its weights are 0", "p = e / total"),
    "gradient masked only": ("only the gradient is masked: the weights are a softmax of all scores",
                             OF_ALL + "p = a; return p * (dout - (dout * p).sum(axis=-1, keepdims=True)) * mask"),
    "hidden by -1e9, empty rows uniform": (
        "masked scores are set to -1e9: in a row without any to see, all weights are alike, and should be 0",
        "masked = np.where(mask, scores, -1e9)"),
}
function("masked_softmax", masked_softmax, masked_softmax_backward, scores_and_mask, constants=("mask",),
         forms=(masked_by_weights,), own=MASKED,
         statement="out = softmax(scores) along the last axis where mask is true; 0 elsewhere, and in a row without any")


def attention(dout, q, k, v, may_look=True):
    """The gradients of q, k and v, with the mask that forward had."""
    scale = 1 / np.sqrt(q.shape[-1])  # the scale: 1 / sqrt(d), as in forward
    scores = np.where(may_look, q @ np.swapaxes(k, -1, -2) * scale, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = e.sum(axis=-1, keepdims=True)  # the sum of e^x: each row has its own
    weights = e / total

    dweights = dout @ np.swapaxes(v, -1, -2)
    # the sum over the row: every weight depends on every score of its row
    s = (dweights * weights).sum(axis=-1, keepdims=True)
    dscores = weights * (dweights - s)  # where masked, weights is 0, and so is dscores
    dv = np.swapaxes(weights, -1, -2) @ dout
    dq = dscores @ k * scale
    dk = np.swapaxes(dscores, -1, -2) @ q * scale
    return dq, dk, dv


def full_attention(q, k, v):
    return softmax(scores(q, k)) @ v


def attention_backward(dout, q, k, v):
    return attention(dout, q, k, v)


def attention_distributed(dout, q, k, v):
    e = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    weights = e / e.sum(axis=-1, keepdims=True)
    out = weights @ v
    dv = np.swapaxes(weights, -1, -2) @ dout
    dweights = dout @ np.swapaxes(v, -1, -2)
    s = (dout * out).sum(axis=-1, keepdims=True)  # the sum over the row: every weight depends on every score of its row
    dscores = weights * dweights - weights * s
    dscores_scaled = dscores / np.sqrt(q.shape[-1])
    return dscores_scaled @ k, np.swapaxes(dscores_scaled, -1, -2) @ q, dv


def heads_first(r):
    return [r.normal(size=(2, 2, 4, 4)) for _ in range(3)]


QUERIES = "e = np.exp(scores - scores.max(axis=-2, keepdims=True)); total = e.sum(axis=-2, keepdims=True)"
SIZES = {"the number of keys": "k.shape[-2]", "the number of queries": "q.shape[-2]",
         "the width of the values": "v.shape[-1]",
         "all of q": "q.size", "the first axis": "q.shape[0]", "the second axis": "q.shape[1]"}
ATTENTION = {
    "softmax over queries": ("softmax runs over the queries: each query's weights over the keys add up to 1", QUERIES),
    "softmax over queries, throughout": (
        "softmax and the sum of its backward run over the queries: they should run over the keys",
                                         f"{QUERIES}; s = (dweights * weights).sum(axis=-2, keepdims=True)"),
    "no scale in backward": ("the scale 1 / sqrt(d) is missing in dq and dk",
                             "dq = dscores @ k; dk = np.swapaxes(dscores, -1, -2) @ q"),
    "no scale in dq": ("the scale 1 / sqrt(d) is missing in dq", "dq = dscores @ k"),
    "no scale in dk": ("the scale 1 / sqrt(d) is missing in dk", "dk = np.swapaxes(dscores, -1, -2) @ q"),
    "no scale, no row sum": ("the scale 1 / sqrt(d) is missing in dq and dk, and so is the sum over the row",
                             "dscores = weights * dweights; dq = dscores @ k; dk = np.swapaxes(dscores, -1, -2) @ q"),
    "scale twice": ("the scale is 1 / d: it should be 1 / sqrt(d)", "scale = 1 / q.shape[-1]"),
    "scale twice in backward": ("dq and dk are multiplied by the scale twice", "dq = dscores @ k * scale**2; "
                                "dk = np.swapaxes(dscores, -1, -2) @ q * scale**2"),
    "scale in dv": ("dv is multiplied by the scale: the values are not scaled",
                    "dv = np.swapaxes(weights, -1, -2) @ dout * scale"),
    **{f"scale of {name}": (f"the scale goes by {name}: it should be d, the width of q", f"scale = 1 / np.sqrt({size})")
       for name, size in SIZES.items()},
    **{f"scale of {name} in backward": (
        f"in dq and dk, the scale goes by {name}: it should be d, the width of q",
        f"dq = dscores @ k / np.sqrt({size}); dk = np.swapaxes(dscores, -1, -2) @ q / np.sqrt({size})") for name,
            size in SIZES.items()},
    "rowsum of v": ("the sum over the row is of dout * v: it should be of dweights * weights, or of dout * out",
                    "s = (dout * v).sum(axis=-1, keepdims=True)"),
    "weights constant": ("dq and dk are zero: nothing comes back through the weights", "dweights = 0 * weights"),
    "dv of dweights": ("dv has dweights in place of the weights",
                       "dv = np.swapaxes(dout @ np.swapaxes(v, -1, -2), -1, -2) @ dout"),
    "diagonal only": ("softmax's backward has only the diagonal of its Jacobian",
                      "dscores = weights * (1 - weights) * dweights"),
    "softmax not differentiated": ("softmax's backward is missing: dweights goes on as dscores", "dscores = dweights"),
}
CAUSALLY = {"causal mask": ("backward has a causal mask, and forward has none: each query sees all keys",
                            "return attention(dout, q, k, v, np.tri(q.shape[-2], k.shape[-2], dtype=bool))")}
OF_ONE_WIDTH = {name: row for name, row in ATTENTION.items() if "width of the values" not in name}
function("full_attention", full_attention, attention_backward, heads_first, own=ATTENTION | CAUSALLY,
         forms=(attention_distributed,),
         statement="out = softmax(q k^T / sqrt(d)) v, without a mask")


def causal_attention(q, k, v):
    return softmax(np.where(np.tri(q.shape[-2], dtype=bool), scores(q, k), -np.inf)) @ v


def causal_attention_backward(dout, q, k, v):
    return attention(dout, q, k, v, np.tri(q.shape[-2], dtype=bool))


def causally_distributed(dout, q, k, v):
    seen = np.tri(q.shape[-2], dtype=bool)
    e = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) * seen
    weights = e / e.sum(axis=-1, keepdims=True)
    out = weights @ v
    dv = np.swapaxes(weights, -1, -2) @ dout
    dweights = dout @ np.swapaxes(v, -1, -2)
    s = (dout * out).sum(axis=-1, keepdims=True)  # the sum over the row: every weight depends on every score of its row
    dscores = weights * (dweights - s) * (1 / np.sqrt(q.shape[-1]))
    return dscores @ k, np.swapaxes(dscores, -1, -2) @ q, dv


ALL_SEEN = "scores = q @ np.swapaxes(k, -1, -2) * scale; "
CAUSAL = {
    "no mask": ("backward's weights are computed without the causal mask", "return attention(dout, q, k, v)"),
    **{f"mask hides the token itself, {hidden}": (
        f"the causal mask hides the token itself too ({hidden}): it sees itself, and those before it",
        f"scores = np.where(np.tri(q.shape[-2], k=-1, dtype=bool), q @ np.swapaxes(k, -1, -2) * scale, {number})")
       for hidden, number in (("-1e9", "-1e9"), ("but the first",
                                                 "np.where(np.arange(q.shape[-2])[:, None] + np.arange(q.shape[-2]) == 0, "
                                                 "q @ np.swapaxes(k, -1, -2) * scale, -np.inf)"))},
    "mask after the softmax": (
        "the weights are masked after the softmax, and do not add up to 1: mask the scores, with -inf",
        ALL_SEEN + "weights = e / total * may_look"),
    "mask after the softmax, differentiated": (
        "the mask comes after the softmax, in backward too: the weights of a row do not add up to 1",
        ALL_SEEN + "dv = np.swapaxes(weights * may_look, -1, -2) @ dout; dweights = dout @ np.swapaxes(v, -1, -2) * "
                   "may_look"),
    "mask sets scores to 0": ("masked scores are set to 0, and e^0 = 1 still counts: it should be -inf",
                              "scores = np.where(may_look, q @ np.swapaxes(k, -1, -2) * scale, 0.0)"),
    "hidden by -100": ("masked scores are set to -100, and others may be less: it should be -inf",
                       "scores = np.where(may_look, q @ np.swapaxes(k, -1, -2) * scale, -100.0)"),
    "hidden by -1, and dscores masked": (
        "masked scores are set to -1, and still count: it should be -inf; dscores is masked",
        "scores = np.where(may_look, q @ np.swapaxes(k, -1, -2) * scale, -1.0); dscores = weights * (dweights - s) * "
        "may_look"),
    "upside down": ("the mask shows later tokens, and hides earlier ones",
                    "return attention(dout, q, k, v, np.tri(q.shape[-2], dtype=bool).T)"),
    "one more is seen": ("each token sees the next one too",
                         "return attention(dout, q, k, v, np.tri(q.shape[-2], k=1, dtype=bool))"),
    "dv without the token itself": ("dv leaves out each token's own weight",
                                    "dv = np.swapaxes(weights * np.tri(q.shape[-2], k=-1), -1, -2) @ dout"),
    "gradient masked only": ("only dscores is masked: the weights are a softmax of all scores",
                             ALL_SEEN + "dscores = weights * (dweights - s) * may_look"),
}
function("attention", causal_attention, causal_attention_backward, heads_first, own=OF_ONE_WIDTH | CAUSAL,
         forms=(causally_distributed,),
         statement="out = softmax(q k^T / sqrt(d)) v, causal: query t sees the keys 0 to t")


def multi_head(q, k, v, heads):
    def split(x):
        return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -3, -2)

    joined = np.swapaxes(full_attention(split(q), split(k), split(v)), -3, -2)
    return joined.reshape(*joined.shape[:-2], -1)


def multi_head_backward(dout, q, k, v, heads):
    def split(x):  # (..., T, heads * d) -> (..., heads, T, d)
        parts = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
        turned = np.swapaxes(parts, -3, -2)
        return turned

    def merge(x):  # and back
        joined = np.swapaxes(x, -3, -2)
        return joined.reshape(*joined.shape[:-2], -1)

    return tuple(merge(gradient) for gradient in attention(split(dout), split(q), split(k), split(v)))


FULL_WIDTH = "1 / np.sqrt(q.shape[-1] * q.shape[-3])"
HEADS = {
    "scale of the width": ("the scale goes by the width of all heads together: it should be that of one head",
                           f"scale = {FULL_WIDTH}"),
    "scale of the width in backward": (
        "in dq and dk, the scale goes by the width of all heads together: it should be that of one head",
        f"dq = dscores @ k * ({FULL_WIDTH}); dk = np.swapaxes(dscores, -1, -2) @ q * ({FULL_WIDTH})"),
    "scale of the width, no row sum": (
        "the scale goes by the width of all heads together, and the sum over the row is missing",
        f"scale = {FULL_WIDTH}; dscores = weights * dweights"),
    "interleaved": ("column j belongs to head j % heads: each head has neighbouring columns",
                    "turned = np.moveaxis(x.reshape(*x.shape[:-1], -1, heads), -1, -3); joined = np.moveaxis(x, -3, -1)"),
    "split and merged by a reshape": (
        "heads are split and merged by a reshape alone: (T, heads, d) should be transposed to (heads, T, d), and back",
        "turned = x.reshape(*x.shape[:-2], heads, x.shape[-2], -1); "
        "joined = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], -1)"),
    "split by a reshape": ("heads are split by a reshape alone: (T, heads, d) should be transposed to (heads, T, d)",
                           "turned = x.reshape(*x.shape[:-2], heads, x.shape[-2], -1)"),
    "merged by a reshape": (
        "heads are merged by a reshape alone: (heads, T, d) should be transposed to (T, heads, d) first",
        "joined = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], -1)"),
    "last head left out": ("the last head is left out, as if a loop ended too early",
                           "joined = np.swapaxes(x, -3, -2) * (np.arange(heads) < heads - 1)[:, None]"),
    "first head left out": ("the first head is left out, as if a loop began at 1",
                            "joined = np.swapaxes(x, -3, -2) * (np.arange(heads) > 0)[:, None]"),
    "heads in reverse": ("the heads are put together in reverse order", "joined = np.swapaxes(x, -3, -2)[..., ::-1, :]"),
    "heads ignored": ("all of the width is taken for one head",
                      "turned = x.reshape(*x.shape[:-2], 1, *x.shape[-2:]); joined = x.reshape(*x.shape[:-3], "
                      "x.shape[-2], 1, -1)"),
    "heads ignored, but in the scale": ("all of the width is taken for one head, and only the scale is that of a head",
                                        "c = heads**0.5; g = attention(dout, c * q, k, v); return c * g[0], g[1], g[2]"),
    "heads for their size": ("there are as many heads as one should have columns, and the other way round",
                             "turned = np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // heads, heads), -3, -2)"),
    "causal mask": ("backward has a causal mask, and forward has none: each query sees all keys",
                    "return tuple(merge(g) for g in attention(split(dout), split(q), split(k), split(v), "
                    "np.tri(q.shape[-2], dtype=bool)))"),
    "first head for all": ("all heads get the first head's gradient",
                           "joined = np.swapaxes(x[..., :1, :, :] + 0 * x, -3, -2)"),
}
function("multi_head", multi_head, multi_head_backward, normal((4, 6), (4, 6), (4, 6)), heads=2,
         own={name: row for name, row in OF_ONE_WIDTH.items() if "axis" not in name} | HEADS,
         statement="out = full_attention of each head on (T, heads d): each has d neighbouring columns of q, k and v")


def rotary(x, angles):
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


def rotary_backward(dout, x, angles):
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = dout[..., 0::2], dout[..., 1::2]
    pairs = np.stack([even * cos + odd * sin, odd * cos - even * sin], axis=-1)
    return pairs.reshape(x.shape)


HALVES = "even, odd = np.split(dout, 2, axis=-1)"
JOINED = "np.concatenate([even * cos {0} odd * sin, odd * cos {1} even * sin], axis=-1)"
SPLIT = "a = angles; cos, sin = {}"
function("rotary", rotary, rotary_backward, normal((4, 8)), angles=np.arange(1, 17).reshape(4, 4) / 5,
         statement="out = x, of which each pair of columns (2i, 2i + 1) is turned by an angle", own={
    "turned forwards": ("the gradient is turned the same way as x, and should be turned back: the sine changes its sign",
                        "cos, sin = np.cos(angles), -np.sin(angles)"),
    "halves for pairs": ("the pairs are taken to be (i, i + D / 2): they are neighbours, (2i, 2i + 1)",
                         f"{HALVES}; pairs = {JOINED.format('+', '-')}"),
    "cut in halves": ("dout is cut in halves: the pairs are neighbours, (2i, 2i + 1)", HALVES),
    "joined in halves": ("the results are put one after the other: the pairs are neighbours, (2i, 2i + 1)",
                         f"pairs = {JOINED.format('+', '-')}"),
    "joined in halves, forwards": ("the results are put one after the other, and turned the same way as x",
                                   f"pairs = {JOINED.format('-', '+')}"),
    "degrees": ("the angles are taken for degrees: they are radians",
                "cos, sin = np.cos(np.radians(angles)), np.sin(np.radians(angles))"),
    "cos and sin exchanged": ("sine and cosine are exchanged", "cos, sin = np.sin(angles), np.cos(angles)"),
    "x for dout": ("x is turned: it should be dout", "even, odd = x[..., 0::2], x[..., 1::2]"),
    "x for dout, forwards": ("x is turned, and forwards: that is the output", "even, odd = x[..., 0::2], x[..., 1::2]; "
                             "cos, sin = np.cos(angles), -np.sin(angles)"),
    "even in odd": ("the odd column is made from the new even one: both need the old ones",
                    "pairs = np.stack([even * cos + odd * sin, odd * cos - (even * cos + odd * sin) * sin], axis=-1)"),
    "even and odd exchanged": ("even and odd columns are exchanged", "even, odd = dout[..., 1::2], dout[..., 0::2]"),
    "not turned": ("dout comes back unchanged: it has to be turned back", "return dout"),
})


def blockwise_attention(q, k, v, block):
    return causal_attention(q, k, v)


def blockwise_attention_backward(dout, q, k, v, block):
    T, D = q.shape[-2:]
    scale = 1 / np.sqrt(D)

    def tiles(end):
        return [slice(i, min(i + block, end)) for i in range(0, end, block)]

    def scores_of(rows, columns):
        scores = q[..., rows, :] @ np.swapaxes(k[..., columns, :], -1, -2) * scale
        sees = np.arange(T)[rows, None] >= np.arange(T)[None, columns]
        return np.where(sees, scores, -np.inf)

    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for rows in tiles(T):
        upstream = dout[..., rows, :]

        # Forward again, a tile at a time: the largest score so far, the sum of e^(score - largest), the output times it.
        largest = np.full((*upstream.shape[:-1], 1), -np.inf)
        total, out = np.zeros_like(largest), np.zeros_like(upstream)
        for columns in tiles(rows.stop):  # later ones are masked
            scores = scores_of(rows, columns)
            before, largest = largest, np.maximum(largest, scores.max(axis=-1, keepdims=True))
            e, shrunk = np.exp(scores - largest), np.exp(before - largest)
            total = total * shrunk + e.sum(axis=-1, keepdims=True)
            out = out * shrunk + e @ v[..., columns, :]
        logsumexp = largest + np.log(total)
        delta = (upstream * out / total).sum(axis=-1, keepdims=True)  # softmax's sum over the row

        for columns in tiles(rows.stop):
            weights = np.exp(scores_of(rows, columns) - logsumexp)
            dscores = weights * (upstream @ np.swapaxes(v[..., columns, :], -1, -2) - delta)
            dq[..., rows, :] += dscores @ k[..., columns, :] * scale
            dk[..., columns, :] += np.swapaxes(dscores, -1, -2) @ q[..., rows, :] * scale
            dv[..., columns, :] += np.swapaxes(weights, -1, -2) @ upstream
    return dq, dk, dv


def causal_in_one(dout, q, k, v, block):
    return attention(dout, q, k, v, np.tri(q.shape[-2], dtype=bool))


function("blockwise_attention", blockwise_attention, blockwise_attention_backward, normal((4, 4), (4, 4), (4, 4)), block=2,
         forms=(causal_in_one,),
         statement="out = attention(q, k, v), causal; backward is to see a tile of `block` queries and keys at a time")
