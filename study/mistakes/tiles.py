"""Mistakes in attention computed tile by tile."""
import numpy as np

from .attention import ATTENTION, attention_backward, causal_attention
from .base import family, last, normal, softmax


def tiles(n, block):
    """The tile of each of n positions."""
    return np.arange(n) // block


def is_in(h, relation):
    """For each pair of positions, relation(tile of the query, tile of the key)."""
    row, column = (tiles(n, h.block) for n in h.scores.shape[-2:])
    return relation(row[:, None], column)


def in_each_tile(h, a):
    """The sum over the keys of each tile, at each of them."""
    return a @ (tiles(a.shape[-1], h.block)[:, None] == tiles(a.shape[-1], h.block)).astype(float)


def softmax_of_tiles(h):
    """Each tile's weights add up to 1."""
    e = np.exp(np.where(h.seen, h.scores - h.scores.max(-1, keepdims=True), -np.inf))
    return e / np.maximum(in_each_tile(h, e), 1e-300)


def unscaled(h):
    """e^(scores - maximum)"""
    return np.exp(h.hidden - h.hidden.max(-1, keepdims=True))


def not_rescaled(h):
    """e^(scores - maximum until this tile)"""
    tile = tiles(h.scores.shape[-1], h.block)
    return np.exp(h.hidden - np.stack([h.hidden[..., tile <= one].max(-1) for one in tile], -1))


def in_last_tile(h, a):
    """Zero except in the last tile visited, the one on the diagonal."""
    return np.where(is_in(h, np.equal), a, 0.0)


def kept_where(relation, *parts):
    """Only some tiles add to these gradients."""
    def part(name):
        return lambda h: np.where(is_in(h, relation), h.p if name == "weights" else h.ds, 0.0)
    return {name: part(name) for name in parts}


def last_queries(row, column):
    return row + 0 * column == row.max()


def all_but_the_rest(h):
    n = h.scores.shape[-2]
    return np.where(np.arange(n)[:, None] < n // h.block * h.block, h.p, 0.0)


def position_in_tile(h):
    row, column = (np.arange(n) % h.block for n in h.scores.shape[-2:])
    return row[:, None] >= column


SQUARE = normal(*[(5, 5)] * 3)


def rising(r):
    """The last query's scores rise from key to key, so that each tile replaces its maximum."""
    q, k, v = SQUARE(r)
    return [q, k[np.argsort(k @ q[-1])], v]


family("blockwise_attention", causal_attention, attention_backward, SQUARE, {
    "softmax in each tile": ("each tile is a softmax of its own: a row's weights add up to 1 over all tiles",
                             dict(normalise=softmax_of_tiles, total=lambda h: in_each_tile(h, h.weighed))),
    "weights of each tile": ("the weights of each tile add up to 1: those of a row do, over all tiles",
                             dict(normalise=softmax_of_tiles)),
    "weights of each tile, rowsum of all": (
        "the weights of each tile add up to 1, and only the output is right: those of a row do, over all tiles",
        dict(normalise=softmax_of_tiles, weigh=lambda h: softmax(h.hidden) * h.dp)),
    "rowsum of each tile": ("softmax's sum over the row runs over one tile's keys only: it is rowsum(dout * out), the same "
                            "in all tiles", dict(total=lambda h: in_each_tile(h, h.weighed))),
    "logsumexp of the last tile": ("the logsumexp is that of the last tile alone: it is overwritten from tile to tile",
                                   dict(normalise=lambda h: unscaled(h) / last(in_last_tile(h, unscaled(h))))),
    "all of the last tile": ("logsumexp and output are those of the last tile alone: they are overwritten, tile by tile",
                             dict(normalise=lambda h: unscaled(h) / last(in_last_tile(h, unscaled(h))),
                                  weigh=lambda h: in_last_tile(h, h.p) * h.dp)),
    "sums not rescaled": ("when a tile has a larger maximum, the sum so far is not multiplied by e^(old - new maximum)",
                          dict(normalise=lambda h: unscaled(h) / last(not_rescaled(h)))),
    "sums and output not rescaled": (
        "when a tile has a larger maximum, the sum and the output are not multiplied by e^(old - new maximum)",
        dict(normalise=lambda h: unscaled(h) / last(not_rescaled(h)),
             weigh=lambda h: not_rescaled(h) / last(not_rescaled(h)) * h.dp)),
    "output not rescaled": ("when a tile has a larger maximum, the output is not multiplied by e^(old - new maximum)",
                            dict(weigh=lambda h: not_rescaled(h) / last(unscaled(h)) * h.dp)),
    "output not divided": ("in rowsum(dout * out), out is not divided by the sum of e^(scores - maximum)",
                           dict(weigh=lambda h: unscaled(h) * h.dp)),
    **{name: ATTENTION[name] for name in ("rowsum of v", "rowsum of the output")},
    "dq overwritten": ("dq has the last tile's part alone: it is overwritten from tile to tile, and should be added to",
                       kept_where(np.equal, "for_q")),
    "dk and dv overwritten": ("dk and dv have the last queries' part alone: they are overwritten, and should be added to",
                              kept_where(last_queries, "for_k", "weights")),
    "dk overwritten": ("dk has the last queries' part alone: it is overwritten, and should be added to",
                       kept_where(last_queries, "for_k")),
    "dv overwritten": ("dv has the last queries' part alone: it is overwritten, and should be added to",
                       kept_where(last_queries, "weights")),
    "only tiles on the diagonal": ("only the tiles on the diagonal are visited",
                                   kept_where(np.equal, "for_q", "for_k", "weights")),
    "no tiles on the diagonal": ("the tiles on the diagonal are skipped",
                                 kept_where(np.greater, "for_q", "for_k", "weights")),
    "rest forgotten": ("the last queries are left out where the block does not divide T", dict(masked=all_but_the_rest)),
    "diagonal tiles not masked": ("in the tiles on the diagonal nothing is masked: half of their keys come later",
                                  dict(see=lambda h: is_in(h, np.greater_equal))),
    "mask by the position in the tile": (
        "the causal mask compares positions within the tiles, and should compare those in the whole sequence",
        dict(see=position_in_tile)),
    "each tile causal": ("each tile is masked by the positions in it: below the diagonal nothing is masked",
                         dict(see=lambda h: position_in_tile(h) & is_in(h, np.greater_equal))),
}, telling=rising)
