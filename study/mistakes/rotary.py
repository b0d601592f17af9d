"""Mistakes in rotary positions: each pair of neighbours in x (..., T, D) is turned by an angle (T, D / 2)."""
from types import SimpleNamespace as Values

import numpy as np

from .base import family, normal


def angles_of(x):
    """As in nn.position.rotate: t / 10000^(2i / D)."""
    T, D = x.shape[-2:]
    return np.arange(1, T + 1)[:, None] / 10000 ** (np.arange(0, D, 2) / D)


def neighbours(x):
    return x[..., 0::2], x[..., 1::2]


def halves(x):
    return np.split(x, 2, axis=-1)


def side_by_side(even, odd):
    return np.stack([even, odd], axis=-1).reshape(*even.shape[:-1], -1)


def one_after_the_other(even, odd):
    return np.concatenate([even, odd], axis=-1)


def rotary(x, angles=None):
    angles = angles_of(x) if angles is None else angles
    even, odd = neighbours(x)
    return side_by_side(even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles))


def rotary_backward(
    dout, x, *, angles=None, upstream=lambda h: h.dout, turned_by=lambda angles: angles, cos=np.cos, sin=np.sin,
    cut=neighbours, join=side_by_side, even=lambda h: h.even * h.cos + h.odd * h.sin,
    odd=lambda h: h.odd * h.cos - h.even * h.sin,
):
    h = Values(dout=dout, x=x, angles=turned_by(angles_of(x) if angles is None else angles))
    h.cos, h.sin = cos(h.angles), sin(h.angles)
    h.even, h.odd = cut(upstream(h))
    return join(even(h), odd(h))


def in_two_halves(angles):
    """The angles of the even and the odd elements, if [angles, angles] is split into neighbours."""
    return neighbours(np.concatenate([angles, angles], axis=-1))


def one_further(x):
    """Pairs (i, i + 1), which overlap."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., 1:half + 1]


def overwritten(even, odd):
    """Overlapping pairs, written one after the other: all but the last keep only their first element."""
    return np.concatenate([even, odd[..., -1:], 0 * odd[..., 1:]], axis=-1)


def repeated(angles):
    """The angles of the two halves of a row, if each angle is repeated twice in a row."""
    return halves(np.repeat(angles, 2, axis=-1))


family("rotary", rotary, rotary_backward, normal((4, 8)), {
    "turned forwards": ("the gradient is turned the same way as x, and should be turned back: the sine changes its sign",
                        dict(sin=lambda angles: -np.sin(angles))),
    "halves for pairs": ("the pairs are taken to be (i, i + D / 2): they are neighbours, (2i, 2i + 1)",
                         dict(cut=halves, join=one_after_the_other)),
    "halves for pairs, forwards": (
        "the pairs are taken to be (i, i + D / 2), and turned the same way as in forward: they are (2i, 2i + 1)",
        dict(cut=halves, join=one_after_the_other, sin=lambda angles: -np.sin(angles))),
    "halves for pairs, repeated angles": (
        "the halves of a row are exchanged, and should be the elements of each pair: they are neighbours, (2i, 2i + 1)",
        dict(cut=halves, join=one_after_the_other,
             even=lambda h: h.even * np.cos(repeated(h.angles)[0]) + h.odd * np.sin(repeated(h.angles)[0]),
             odd=lambda h: h.odd * np.cos(repeated(h.angles)[1]) - h.even * np.sin(repeated(h.angles)[1]))),
    "pairs that overlap": ("the pairs are taken to be (i, i + 1), which overlap: they are (2i, 2i + 1)",
                           dict(cut=one_further, join=overwritten)),
    "cut in halves": ("dout is cut into halves, and should be into even and odd elements", dict(cut=halves)),
    "joined in halves": ("the even elements of the gradient come first, then the odd: they should alternate",
                         dict(join=one_after_the_other)),
    "even's sign": ("the sign of the sine is wrong in the even elements: they are even * cos + odd * sin of dout",
                    dict(even=lambda h: h.even * h.cos - h.odd * h.sin)),
    "odd's sign": ("the sign of the sine is wrong in the odd elements: they are odd * cos - even * sin of dout",
                   dict(odd=lambda h: h.odd * h.cos + h.even * h.sin)),
    "sign of the odd": ("the odd elements have the wrong sign", dict(odd=lambda h: h.even * h.sin - h.odd * h.cos)),
    "sign of the even": ("the even elements have the wrong sign", dict(even=lambda h: -h.even * h.cos - h.odd * h.sin)),
    "sign": ("the whole gradient has the wrong sign",
             dict(cos=lambda angles: -np.cos(angles), sin=lambda angles: -np.sin(angles))),
    "cos and sin exchanged": ("cosine and sine are exchanged", dict(cos=np.sin, sin=np.cos)),
    "cos and sin exchanged, forwards": ("cosine and sine are exchanged, and the sign is that of forward",
                                        dict(cos=np.sin, sin=lambda angles: -np.cos(angles))),
    "no sine": ("only dout * cos is there: each element of a pair goes into both outputs of it", dict(sin=np.zeros_like)),
    "no cosine": ("only the sine's terms are there: each element of a pair goes into both outputs of it",
                  dict(cos=np.zeros_like)),
    "no sine in even": ("the odd part of dout is missing in the even elements", dict(even=lambda h: h.even * h.cos)),
    "no sine in odd": ("the even part of dout is missing in the odd elements", dict(odd=lambda h: h.odd * h.cos)),
    "elements exchanged": ("the elements of each pair are exchanged", dict(join=lambda even, odd: side_by_side(odd, even))),
    "dout's elements exchanged": ("the elements of each pair of dout are exchanged",
                                  dict(cut=lambda x: neighbours(x)[::-1])),
    "even in odd": ("the odd elements use the new even ones: keep dout's until both are computed",
                    dict(odd=lambda h: h.odd * h.cos - (h.even * h.cos + h.odd * h.sin) * h.sin)),
    "even alone": ("only the even elements are turned: the odd ones are those of dout", dict(odd=lambda h: h.odd)),
    "odd alone": ("only the odd elements are turned: the even ones are those of dout", dict(even=lambda h: h.even)),
    "odd zero": ("the odd elements are zero", dict(odd=lambda h: 0 * h.odd)),
    "even zero": ("the even elements are zero", dict(even=lambda h: 0 * h.even)),
    "not turned": ("dout is returned as it came: it should be turned back by the angles",
                   dict(even=lambda h: h.even, odd=lambda h: h.odd)),
    "x for dout": ("x is turned back, and should be dout: a rotation is linear, so x is not in its gradient",
                   dict(upstream=lambda h: h.x)),
    "times x": ("multiplied by x: a rotation is linear, so x is not in its gradient",
                dict(upstream=lambda h: h.dout * h.x)),
    "no upstream": ("the upstream gradient is not used: 1 is used instead", dict(upstream=lambda h: np.ones_like(h.dout))),
    "next position": ("each row is turned by the angles of the next position",
                      dict(turned_by=lambda angles: np.roll(angles, -1, axis=0))),
    "position before": ("each row is turned by the angles of the position before",
                        dict(turned_by=lambda angles: np.roll(angles, 1, axis=0))),
    "position before, first zero": ("each row is turned by the angles of the position before, and the first not at all",
                                    dict(turned_by=lambda angles: np.concatenate([0 * angles[:1], angles[:-1]]))),
    "first position": ("all rows are turned by the angles of the first position: each has its own",
                       dict(turned_by=lambda angles: angles[:1] + 0 * angles)),
    "first pair": ("all pairs are turned by the angle of the first one: each has its own",
                   dict(turned_by=lambda angles: angles[:, :1] + 0 * angles)),
    "positions in reverse": ("the positions' angles are in reverse order", dict(turned_by=lambda angles: angles[::-1])),
    "pairs in reverse": ("the pairs' angles are in reverse order", dict(turned_by=lambda angles: angles[:, ::-1])),
    "angle twice": ("turned by twice the angle", dict(turned_by=lambda angles: 2 * angles)),
    "angle halved": ("turned by half of the angle", dict(turned_by=lambda angles: angles / 2)),
    "angles in halves": (
        "the angles are repeated one after the other (np.tile, concatenate), and should be for both of a pair (np.repeat)",
        dict(even=lambda h: h.even * np.cos(in_two_halves(h.angles)[0]) + h.odd * np.sin(in_two_halves(h.angles)[0]),
             odd=lambda h: h.odd * np.cos(in_two_halves(h.angles)[1]) - h.even * np.sin(in_two_halves(h.angles)[1]))),
    "degrees": ("the angles are taken to be degrees: they are radians", dict(turned_by=np.deg2rad)),
    "derivative of the sine": ("cosine and sine are differentiated: the angles are constants here, and x is not in them",
                               dict(cos=lambda angles: -np.sin(angles), sin=np.cos)),
})
