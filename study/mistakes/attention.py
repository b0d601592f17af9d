"""Mistakes in attention and its parts: scores, masked softmax, causal and full attention.

Queries are (..., M, D), keys and values (..., N, D). All parts of a backward get `h`, the values computed so far.
"""
import math
import re
from functools import partial
from types import SimpleNamespace as Values

import numpy as np

from .base import family, last, normal, safe_softmax, softmax, turned
from .softmax import SOFTMAX

B, H, T, D = 2, 2, 4, 4  # T = D, so that a missing transpose still has the right shape

# ---- the parts, and mistakes common to several functions ----


def causal(h):
    return np.tri(*h.scores.shape[-2:], dtype=bool)


def everything(h):
    return np.ones(h.scores.shape[-2:], bool)


def with_infinity(h):
    return np.where(h.seen, h.scores, -np.inf)


def with_a_billion(h):
    return np.where(h.seen, h.scores, -1e9)


def plus_a_billion(h):
    return h.scores + np.where(h.seen, 0.0, -1e9)


def row(h):
    return last(h.weighed)


def root(h):
    """The scale, 1 / sqrt(d) unless the caller has another."""
    return 1 / math.sqrt(h.q.shape[-1]) if h.factor is None else h.factor


def of_the_width(h):
    """The scale for the width of all heads (..., heads, M, D) together; a matrix is one head."""
    return 1 / math.sqrt(math.prod(h.q.shape[-3:-2]) * h.q.shape[-1])


WRONG_SCALES = {
    "no scale": (lambda h: 1.0, "the scale 1 / sqrt(d) is missing"),
    "scale twice": (lambda h: root(h) ** 2, "1 / d replaces 1 / sqrt(d) (no square root, or the scale twice)"),
    "scale inverted": (lambda h: 1 / root(h), "multiplied by sqrt(d) where it should be divided"),
}
SCALED = {  # where the scale is wrong
    "": (("scale_q", "scale_k"), "in dq and dk"),
    " in dq": (("scale_q",), "in dq"),
    " in dk": (("scale_k",), "in dk"),
    " in the weights": (("scale",), "where backward recomputes the weights"),
    " everywhere": (("scale", "scale_q", "scale_k"), "everywhere"),
}


def scales(places, wrong=WRONG_SCALES):
    """Each wrong scale at each place."""
    return {name + place: (f"{what} {SCALED[place][1]}", dict.fromkeys(SCALED[place][0], scale))
            for name, (scale, what) in wrong.items() for place in places}


PRODUCTS = {  # q @ k^T
    "dk without transpose": ("dk is {dS} @ q: {dS} should be transposed, so that the keys come first",
                             dict(turn_k=lambda a: a)),
    "dq with transpose": ("dq is {dS}^T @ k: {dS} must not be transposed here, the queries are first already",
                          dict(turn_q=turned)),
    "dq from q": ("dq is made from q: in q k^T, the other factor is k", dict(keys=lambda h: h.q)),
    "dk from k": ("dk is made from k: in q k^T, the other factor is q", dict(queries=lambda h: h.k)),
    "dq from q and dk from k": ("dq is made from q and dk from k: each needs the other factor of the product",
                                dict(keys=lambda h: h.q, queries=lambda h: h.k)),
    "dq's sign": ("dq has the wrong sign", dict(scale_q=lambda h: -root(h))),
    "dk's sign": ("dk has the wrong sign", dict(scale_k=lambda h: -root(h))),
}
PARTS = {  # softmax's: how the same part of attention is written with it
    "probabilities": ("normalise", lambda p: lambda h: p(h.hidden)),
    "product": ("weigh", lambda product: lambda h: product(h.p, h.dp, h.hidden)),
    "total": ("total", lambda total: lambda h: total(h.weighed)),
    "combine": ("inner", lambda combine: lambda h: combine(h.p, h.dp, h.rowsum, h.hidden)),
    "upstream": ("upstream", lambda upstream: upstream),
}
IN_ATTENTION = {  # softmax's mistakes that have another name in attention
    "wrong axis": "rowsum over axis 0", "last axis but one": "rowsum over queries", "axis 1": "rowsum over axis 1",
    "total": "rowsum over everything", "mean": "rowsum averaged", "sum is added": "rowsum added",
    "no p in the sum": "rowsum without weights", "no upstream in the sum": "rowsum of the weights",
    "no keepdims": "rowsum along the wrong way", "p squared": "weights twice", "slope alone": "upstream skipped",
    "p in the first term only": "rowsum not times weights", "p before the sum": "weights outside of the sum",
    "softmax over the last axis but one": "weights over queries", "softmax over the batch": "weights over axis 0",
    "last axis but one throughout": "softmax over queries", "axis 0 throughout": "softmax over axis 0",
    "no normalisation": "not normalised", "no normalisation, less the maximum": "not normalised, less the maximum",
}


def with_softmax(**words):
    """Softmax's mistakes, for a backward that contains one and calls its x, p, dout and dx by these letters."""
    def said(sentence, changes):
        if "upstream" in changes:
            return sentence
        sentence = re.sub(r"\b(x|p|dout|dx)\b", lambda word: words.get(word[0], word[0]), sentence)
        if "probabilities" in changes:
            return sentence
        is_on_the_sum = sentence.startswith("the sum ")
        return sentence.replace("the", "softmax's", 1) if is_on_the_sum else f"in softmax's backward, {sentence}"

    return {IN_ATTENTION.get(name, name): (said(sentence, changes), dict(
        (PARTS[part][0], PARTS[part][1](change)) for part, change in changes.items()))
        for name, (sentence, changes) in SOFTMAX.items() if name != "no p outside"}


DSCORES = {
    "no weights in dscores": ("{dP} - rowsum is not multiplied by {P}", dict(outer=lambda h: np.where(h.seen, 1.0, 0.0))),
    "softmax skipped": ("{dS} is {dP}: it should go back through the softmax", dict(inner=lambda h: h.dp)),
    "sign": ("{dS} has the wrong sign", dict(sign=-1.0)),
}
HIDDEN = {  # how a mask is used wrongly
    "softmax skipped, but masked": ("{dS} is {dP} where the mask is: it should go back through the softmax",
                                    dict(inner=lambda h: np.where(h.seen, h.dp, 0.0))),
    "no weights in dscores, even where masked": ("{dP} - rowsum is not multiplied by {P}, which is 0 where masked",
                                                 dict(inner=lambda h: h.dp - h.rowsum)),
    "no mask": ("backward recomputes the weights without the mask", dict(hide=lambda h: h.scores)),
    "mask sets scores to 0": ("masked scores are set to 0: e^0 is 1, and should be e^-inf = 0",
                              dict(hide=lambda h: np.where(h.seen, h.scores, 0.0))),
    "mask sets scores to 0, dscores masked": (
        "masked scores are set to 0: e^0 is 1, and should be e^-inf = 0; masking {dS} does not mend it",
        dict(hide=lambda h: np.where(h.seen, h.scores, 0.0), keep=lambda h: np.where(h.seen, h.ds, 0.0))),
    "mask sets scores to 0, weights masked": (
        "masked scores are set to 0: e^0 is 1, and should be e^-inf = 0; masking the weights leaves them in the row's sum",
        dict(hide=lambda h: np.where(h.seen, h.scores, 0.0), masked=lambda h: h.p * h.seen)),
    "mask added as numbers": ("the mask is added to the scores as 0 and 1: what is masked should become -inf",
                              dict(hide=lambda h: h.scores + h.seen)),
    "mask after the softmax": ("the mask multiplies the weights after the softmax, so those left do not add up to 1",
                               dict(hide=lambda h: h.scores, masked=lambda h: h.p * h.seen)),
    "mask after the softmax, differentiated": (
        "forward is taken to mask the weights after the softmax: the scores are masked, before it",
        dict(hide=lambda h: h.scores, masked=lambda h: h.p * h.seen, outer=lambda h: softmax(h.scores),
             inner=lambda h: softmax(h.scores) * (np.where(h.seen, h.dp, 0.0) - h.rowsum))),
    "mask in dscores only": ("the mask is applied to {dS} only: the weights were recomputed without it",
                             dict(hide=lambda h: h.scores, keep=lambda h: np.where(h.seen, h.ds, 0.0))),
    "upstream passes where masked": ("masked elements of {dS} are those of {dP}: they are constant, and get zeros",
                                     dict(keep=lambda h: np.where(h.seen, h.ds, h.dp))),
    "dweights masked transposed": ("{dP} is masked with the transposed mask", dict(
        weigh=lambda h: h.p * np.where(turned(h.seen), h.dp, 0.0),
        inner=lambda h: h.outer * (np.where(turned(h.seen), h.dp, 0.0) - h.rowsum))),
    "dscores set to -inf": ("masked elements of {dS} are set to -inf: those of the scores are, and their gradient is 0",
                            dict(keep=lambda h: np.where(h.seen, h.ds, -np.inf))),
    "dscores masked transposed": ("{dS} is masked with the transposed mask",
                                  dict(keep=lambda h: np.where(turned(h.seen), h.ds, 0.0))),
}


def in_words(wrong, S="S", P="P", dP="dP", dS="dS"):
    """These mistakes with the names of scores, weights and their gradients in the sentences."""
    return {name: (sentence.format(S=S, P=P, dP=dP, dS=dS), *rest) for name, (sentence, *rest) in wrong.items()}


# ---- scores and masked softmax ----


def scores(q, k):
    return q @ turned(k) / math.sqrt(q.shape[-1])


def scores_backward(
    dout, q, k, *, upstream=lambda dout: dout, scale_q=root, scale_k=root, turn_q=lambda a: a, turn_k=turned,
    keys=lambda h: h.k, queries=lambda h: h.q, order=lambda dq, dk: (dq, dk),
):
    h = Values(dout=upstream(dout), q=q, k=k, factor=None)
    return order(turn_q(h.dout) @ keys(h) * scale_q(h), turn_k(h.dout) @ queries(h) * scale_k(h))


family("scores", scores, scores_backward, normal((T, D), (T, D)), {
    **scales(("", " in dq", " in dk")),
    **in_words(PRODUCTS, dS="dout"),
    "dq and dk exchanged": ("dq and dk are exchanged: the gradients come in the order of the arguments",
                            dict(order=lambda dq, dk: (dk, dq))),
    "q has no gradient": ("dq is zero: only k gets a gradient", dict(order=lambda dq, dk: (0 * dq, dk))),
    "k has no gradient": ("dk is zero: only q gets a gradient", dict(order=lambda dq, dk: (dq, 0 * dk))),
    "both signs": ("dq and dk have the wrong sign", dict(upstream=np.negative)),
    "no upstream": ("the upstream gradient is not used: 1 is used instead", dict(upstream=np.ones_like)),
})


def masked_softmax(scores, mask):
    return safe_softmax(np.where(mask, scores, -np.inf))


def masked_softmax_backward(
    dout, scores, mask, *, upstream=lambda dout: dout, see=lambda mask: mask, hide=with_infinity,
    normalise=lambda h: safe_softmax(h.hidden), masked=lambda h: h.p, weigh=lambda h: h.p * h.dp, total=row,
    outer=lambda h: h.p, inner=lambda h: h.outer * (h.dp - h.rowsum), keep=lambda h: h.ds, sign=1.0,
):
    h = Values(scores=scores, seen=see(mask) & np.ones(scores.shape, bool), dp=upstream(dout), softmax=safe_softmax)
    h.hidden = hide(h)
    h.p = normalise(h)
    return sign * dscores(h, masked, weigh, total, outer, inner, keep), None


def dscores(h, masked, weigh, total, outer, inner, keep):
    """The gradient of the scores from that of the weights."""
    h.p = masked(h)
    h.weighed = weigh(h)
    h.rowsum = total(h)
    h.outer = outer(h)
    h.ds = inner(h)
    h.ds = keep(h)
    return h.ds


def scores_and_mask(r):
    mask = r.random((T, T)) < 0.6
    mask[0], mask[1], mask[2, :2] = False, True, (True, False)
    return [r.normal(size=(B, T, T)), mask]


EMPTY_ROWS = {  # rows in which everything is masked
    "empty rows are NaN": ("a row in which nothing may be looked at becomes NaN: the softmax of -inf alone is 0 / 0; it "
                           "should be zeros", dict(normalise=lambda h: softmax(h.hidden))),
    "empty rows are uniform": ("a row in which nothing may be looked at gets equal weights, as all of it is -1e9: it has "
                               "to be zeros", dict(hide=with_a_billion)),
    "empty rows are softmax of all": ("a row in which nothing may be looked at gets weights, as -1e9 is added to all of "
                                      "it: it should be zeros", dict(hide=plus_a_billion)),
}
UPSIDE_DOWN = {  # other masks
    "mask inverted": ("the mask is used the wrong way round: True means that a query may look",
                      dict(see=lambda mask: ~mask)),
    "mask transposed": ("the mask is transposed", dict(see=turned)),
}
family("masked_softmax", masked_softmax, masked_softmax_backward, scores_and_mask, {
    **with_softmax(x="scores", dx="dS"), **in_words(DSCORES | HIDDEN, S="scores", P="p", dP="dout", dS="dS"),
    **UPSIDE_DOWN, **EMPTY_ROWS,
    "empty rows pass the upstream": ("a row in which nothing may be looked at gets dout itself: its outputs are constant",
                                     dict(keep=lambda h: np.where(h.seen.any(-1, keepdims=True), h.ds, h.dp))),
    "zero": ("dS is all zero, as if it were masked the wrong way round, or 1 replaced dout",
             dict(keep=lambda h: 0 * h.ds)),
}, constants=("mask",))

# ---- attention ----


def causal_attention(q, k, v):
    h = Values(scores=scores(q, k))
    h.seen = causal(h)
    return softmax(with_infinity(h)) @ v


def full_attention(q, k, v):
    return softmax(scores(q, k)) @ v


def attention_values(
    dout, q, k, v, *, block=2, factor=None, bias=0.0, upstream=lambda dout: dout, products=lambda h: h.q @ turned(h.k),
    scale=root, see=causal, hide=with_infinity, normalise=lambda h: softmax(h.hidden), masked=lambda h: h.p,
    for_weights=lambda h: h.dout @ turned(h.v), weigh=lambda h: h.p * h.dp, total=row, outer=lambda h: h.p,
    inner=lambda h: h.outer * (h.dp - h.rowsum), keep=lambda h: h.ds, sign=1.0, turn_q=lambda a: a, turn_k=turned,
    turn_v=turned, keys=lambda h: h.k, queries=lambda h: h.q, scale_q=root, scale_k=root, weights=lambda h: h.p,
    values=lambda h: h.dout, scale_v=lambda h: 1.0, for_q=lambda h: h.ds, for_k=lambda h: h.ds,
    order=lambda dq, dk, dv: (dq, dk, dv),
):
    """Causal attention's backward, as all that it computes: the recomputed scores and weights p, and every gradient.

    `block` is the size of the tiles, for mistakes in combining them; `bias` is added to the scores.
    """
    h = Values(q=q, k=k, v=v, dout=upstream(dout), block=block, factor=factor, softmax=softmax)
    h.scores = products(h) * scale(h) + bias
    h.seen = see(h)
    h.hidden = hide(h)
    h.p = normalise(h)
    h.dp = for_weights(h)
    h.ds = sign * dscores(h, masked, weigh, total, outer, inner, keep)
    dq = turn_q(for_q(h)) @ keys(h) * scale_q(h)
    dk = turn_k(for_k(h)) @ queries(h) * scale_k(h)
    dv = turn_v(weights(h)) @ values(h) * scale_v(h)
    h.dq, h.dk, h.dv = order(dq, dk, dv)
    return h


def attention_backward(dout, q, k, v, **parts):
    h = attention_values(dout, q, k, v, **parts)
    return h.dq, h.dk, h.dv


def averaged(a, axis):
    """The mean over a leading axis in place of each of its elements; unchanged if there is no such axis."""
    return a if a.ndim < 3 + axis else np.broadcast_to(a.mean(axis, keepdims=True), a.shape)


def heads_first(r):
    return [r.normal(size=(B, H, T, D)) for _ in range(3)]


def one_query_behind(h):
    """A causal mask that also hides the token itself."""
    return np.tri(*h.scores.shape[-2:], -1, dtype=bool)


def but_the_first(h):
    seen = one_query_behind(h)
    seen[0, 0] = True
    return seen


def softmax_of_all(h):
    return softmax(h.scores)


ATTENTION = {  # mistakes unrelated to the mask
    **scales(SCALED),
    "scale of the width": ("1 / sqrt(heads * d) for 1 / sqrt(d) in dq and dk: a score is the product of one head's q and k",
                           dict.fromkeys(("scale_q", "scale_k"), of_the_width)),
    "scale of the width everywhere": ("1 / sqrt(heads * d) for 1 / sqrt(d) everywhere: a score is the product of one "
                                      "head's q and k", dict.fromkeys(("scale", "scale_q", "scale_k"), of_the_width)),
    "scale in dv": ("dv is multiplied by the scale, which is part of the scores alone", dict(scale_v=root)),
    **in_words(PRODUCTS),
    "dq from v": ("dq is made from v: in q k^T, the other factor is k", dict(keys=lambda h: h.v)),
    "dk from v": ("dk is made from v: in q k^T, the other factor is q", dict(queries=lambda h: h.v)),
    "dq from weights": ("dq is made from the weights, and should be from dS", dict(for_q=lambda h: h.p)),
    "dk from weights": ("dk is made from the weights, and should be from dS", dict(for_k=lambda h: h.p)),
    "dq from dweights": ("dq is made from dP, and should be from dS: the softmax is left out in it",
                         dict(for_q=lambda h: h.dp)),
    "dk from dweights": ("dk is made from dP, and should be from dS: the softmax is left out in it",
                         dict(for_k=lambda h: h.dp)),
    **with_softmax(x="S", p="P", dout="dP", dx="dS"), **in_words(DSCORES),
    "rowsum of v": ("rowsum(dout * v) is used instead of rowsum(dout * out)", dict(weigh=lambda h: h.dout * h.v)),
    "rowsum of the output": ("rowsum(out) is used instead of rowsum(dout * out)", dict(weigh=lambda h: h.p @ h.v)),
    "rowsum of the output squared": ("rowsum(out * out) is used instead of rowsum(dout * out)",
                                     dict(weigh=lambda h: (h.p @ h.v) ** 2)),
    "rowsum of the products over queries": (
        "dout * out is summed over the queries, and should be within each row, over the last axis",
        dict(total=lambda h: (h.dout * (h.p @ h.v)).sum(-2, keepdims=True))),
    "rowsum of the upstream": ("softmax's sum over the row is that of dout: it should be that of dP * weights",
                               dict(weigh=lambda h: h.dout)),
    "dweights without transpose": ("dP is dout @ v: v should be transposed",
                                   dict(for_weights=lambda h: h.dout @ h.v)),
    "dweights from k": ("dP is made from k: the output is weights @ v, so the other factor is v",
                        dict(for_weights=lambda h: h.dout @ turned(h.k))),
    "dweights from q": ("dP is made from q: the output is weights @ v, so the other factor is v",
                        dict(for_weights=lambda h: h.dout @ turned(h.q))),
    "dweights from dv": ("dP is made from dv: the output is weights @ v, so the other factor is v",
                         dict(for_weights=lambda h: h.dout @ turned(turned(h.p) @ h.dout))),
    "dv without transpose": ("dv is weights @ dout: the weights should be transposed, so that the keys come first",
                             dict(turn_v=lambda a: a)),
    "dv from scores": ("dv is made from the scores, and should be from the weights",
                       dict(weights=lambda h: np.where(h.seen, h.scores, 0.0))),
    "dv from dscores": ("dv is made from dS, and should be from the weights", dict(weights=lambda h: h.ds)),
    "dv from dweights": ("dv is made from dP, and should be from the weights", dict(weights=lambda h: h.dp)),
    "dv from v": ("dv is weights^T @ v: by the chain rule it is weights^T @ dout", dict(values=lambda h: h.v)),
    "dv from the output": ("dv is made from the output, and should be from dout", dict(values=lambda h: h.p @ h.v)),
    "dq and dk exchanged": ("dq and dk are exchanged: the gradients come in the order of the arguments",
                            dict(order=lambda dq, dk, dv: (dk, dq, dv))),
    "dk and dv exchanged": ("dk and dv are exchanged: the gradients come in the order of the arguments",
                            dict(order=lambda dq, dk, dv: (dq, dv, dk))),
    "dq and dv exchanged": ("dq and dv are exchanged: the gradients come in the order of the arguments",
                            dict(order=lambda dq, dk, dv: (dv, dk, dq))),
    "dv first": ("the gradients come as dv, dq, dk, and should in the order of the arguments: dq, dk, dv",
                 dict(order=lambda dq, dk, dv: (dv, dq, dk))),
    "dq last": ("the gradients come as dk, dv, dq, and should in the order of the arguments: dq, dk, dv",
                dict(order=lambda dq, dk, dv: (dk, dv, dq))),
    "q has no gradient": ("dq is zero: only k and v get a gradient", dict(order=lambda dq, dk, dv: (0 * dq, dk, dv))),
    "k has no gradient": ("dk is zero: only q and v get a gradient", dict(order=lambda dq, dk, dv: (dq, 0 * dk, dv))),
    "v has no gradient": ("dv is zero: only q and k get a gradient", dict(order=lambda dq, dk, dv: (dq, dk, 0 * dv))),
    "weights constant": ("the gradient through the weights is missing: only v gets one",
                         dict(for_weights=lambda h: 0 * h.p)),
    "no upstream": ("the upstream gradient is not used: 1 is used instead", dict(upstream=np.ones_like)),
    "upstream twice": ("all gradients are twice too large", dict(upstream=lambda dout: 2 * dout)),
    "batch summed": ("dv is averaged over the batch: each of its elements has keys and values of its own",
                     dict(order=lambda dq, dk, dv: (dq, dk, averaged(dv, 0)))),
    "heads summed": ("dq is averaged over the heads: each head has queries of its own",
                     dict(order=lambda dq, dk, dv: (averaged(dq, 1), dk, dv))),
    "gradients averaged over the batch": ("the gradients are averaged over the batch: each of its elements has its own",
                                          dict(order=lambda *all: tuple(averaged(g, 0) for g in all))),
    "gradients averaged over the heads": ("the gradients are averaged over the heads: each head has its own",
                                          dict(order=lambda *all: tuple(averaged(g, 1) for g in all))),
}
CAUSAL = {  # mistakes in the causal mask
    **in_words(HIDDEN),
    "no mask in dv": ("dv is made from weights without the mask", dict(weights=softmax_of_all)),
    "no mask in dscores": ("dS is made from weights without the mask",
                           dict(outer=softmax_of_all, weigh=lambda h: softmax(h.scores) * h.dp)),
    "mask off by one": ("backward's causal mask hides the token itself, except the first: a token sees itself",
                        dict(see=but_the_first)),
    "mask hides the token itself": ("backward's causal mask hides the token itself, so the first sees nothing, and is NaN",
                                    dict(see=one_query_behind)),
    "mask hides the token itself, -1e9": (
        "backward's causal mask hides the token itself, so the first sees nothing, and with -1e9 everything alike",
        dict(see=one_query_behind, hide=with_a_billion)),
    "mask hides the token itself, -1e9 added": (
        "backward's causal mask hides the token itself, so the first sees nothing, and with -1e9 added everything",
        dict(see=one_query_behind, hide=plus_a_billion)),
    "mask hides the token itself, the first is zero": (
        "backward's causal mask hides the token itself: the first sees nothing, and its output is taken to be zero",
        dict(see=one_query_behind, normalise=lambda h: safe_softmax(h.hidden))),
    "mask sees one ahead": ("backward's causal mask shows one token too many: the next one",
                            dict(see=lambda h: np.tri(*h.scores.shape[-2:], 1, dtype=bool))),
    "mask transposed": ("backward's mask hides the past, and should hide what comes after the token",
                        dict(see=lambda h: turned(np.tri(*h.scores.shape[:-3:-1], dtype=bool)))),
    "mask inverted": ("backward's mask is used the wrong way round: it hides the past and the token itself, so the last "
                      "sees nothing, and is NaN", dict(see=lambda h: ~causal(h))),
    "mask inverted, -1e9 added": ("backward's mask is used the wrong way round: -1e9 is added where a token may look",
                                  dict(see=lambda h: ~causal(h), hide=plus_a_billion)),
    "mask inverted, the last is zero": (
        "backward's mask is used the wrong way round: it hides the past and the token itself, so the last sees nothing",
        dict(see=lambda h: ~causal(h), normalise=lambda h: safe_softmax(h.hidden))),
    "dscores without the token itself": ("dS's diagonal is masked as well: a token sees itself",
                                         dict(keep=lambda h: np.tril(h.ds, -1))),
    "dv without the token itself": ("dv is made from the weights below the diagonal: a token's own weight is missing",
                                    dict(weights=lambda h: np.tril(h.p, -1))),
    **{f"{fill} for -inf{more}": (f"masked scores are set to {fill}{more}: e^{fill} is not zero, it should be -inf",
                                  {"hide": lambda h, fill=fill: np.where(h.seen, h.scores, float(fill)), **parts})
       for fill in (-1, -10)
       for more, parts in (("", {}), (", and dscores masked", {"keep": lambda h: np.where(h.seen, h.ds, 0.0)}))},
    "dweights set to -inf": ("masked elements of dP are set to -inf: the scores are, and 0 * -inf is NaN",
                             dict(for_weights=lambda h: np.where(h.seen, h.dout @ turned(h.v), -np.inf))),
    "mask inverted, -1e9": ("backward's mask is used the wrong way round: it hides the past and the token itself, and the "
                            "last, with -1e9, sees everything alike", dict(see=lambda h: ~causal(h), hide=with_a_billion)),
}
family("attention", causal_attention, attention_backward, heads_first, {**ATTENTION, **CAUSAL}, {
    "mask skipped": ("dS is not masked, or masked again",
                     dict(keep=lambda h: np.where(h.seen, h.ds, 0.0)),
                     "dS = P * (...), and the weights of masked positions are exactly zero"),
})

full_attention_backward = partial(attention_backward, see=everything)
family("full_attention", full_attention, full_attention_backward, heads_first, {
    **ATTENTION,
    "causal mask": ("backward has a causal mask, and forward has none: each query sees all keys", dict(see=causal)),
})
