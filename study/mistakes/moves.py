"""Mistakes in functions that move elements."""
import numpy as np

from .base import family, normal, replaced, turned, unary


def untouched(dout, x):
    return dout


def placed(dout, x, index, add=True):
    dx = np.zeros_like(x)
    if add:
        np.add.at(dx, index, dout)
    else:
        dx[index] = dout
    return dx


unary("permute", lambda x: np.moveaxis(x, -3, -1), lambda dout, x: np.moveaxis(dout, -1, -3), {
    "same permutation": ("the permutation again instead of its inverse", lambda dout, x: np.moveaxis(dout, -3, -1)),
    "not permuted": ("the upstream as it is", untouched),
}, normal((3, 3, 3)))
unary("transpose", turned, lambda dout, x: turned(dout), {
    "not transposed": ("the upstream as it is, on a square", untouched),
}, normal((4, 4)))
unary("reshape", lambda x: x.reshape(turned(x).shape), lambda dout, x: dout.reshape(x.shape), {
    "column order": ("reshaped in Fortran's order", lambda dout, x: turned(turned(dout).reshape(dout.shape))),
    "transposed": ("a transpose for a reshape", lambda dout, x: turned(dout)),
}, normal((3, 4)))
unary("flip", lambda x: x[..., ::-1], lambda dout, x: dout[..., ::-1], {
    "not flipped": ("the upstream as it is", untouched),
    "wrong axis": ("flipped along the other axis", lambda dout, x: dout[..., ::-1, :]),
}, normal((4, 4)))
unary("roll", lambda x: np.roll(x, 1, -1), lambda dout, x: np.roll(dout, -1, -1), {
    "same way": ("rolled on instead of back", lambda dout, x: np.roll(dout, 1, -1)),
}, normal((3, 4)))
unary("slice", lambda x: x[1:3], lambda dout, x: placed(dout, x, slice(1, 3)), {
    "at the front": ("put back at the wrong rows", lambda dout, x: placed(dout, x, slice(0, len(dout)))),
    "everywhere": ("the rows that were not taken get a gradient too", lambda dout, x: np.resize(dout, x.shape)),
}, normal((4, 3)))
REPEATED = np.array([0, 2, 0, 1, 2, 2])
unary("take", lambda x: x[REPEATED], lambda dout, x: placed(dout, x, REPEATED), {
    "overwrites": ("a repeated index keeps its last gradient", lambda dout, x: placed(dout, x, REPEATED, add=False)),
}, normal((4, 3)))


def halves(dout):
    return np.split(dout, 2, -2)


unary("repeat", lambda x: np.concatenate([x, x], -2), lambda dout, x: sum(halves(dout)), {
    "first copy": ("only the first copy's gradient", lambda dout, x: halves(dout)[0]),
    "mean": ("the mean of the copies", lambda dout, x: sum(halves(dout)) / 2),
    "interleaved": ("the copies are taken to be neighbours", lambda dout, x: dout[..., 0::2, :] + dout[..., 1::2, :]),
}, normal((3, 4)))
unary("tril", np.tril, lambda dout, x: np.tril(dout), {
    "upper": ("the other triangle", lambda dout, x: np.triu(dout)),
    "all": ("the part that was cut off gets a gradient", untouched),
    "no diagonal": ("the diagonal is left out", lambda dout, x: np.tril(dout, -1)),
}, normal((4, 4)))


def cat_backward(dout, a, b, *, cut=lambda dout, n: (dout[..., :n], dout[..., n:])):
    return tuple(part.copy() for part in cut(dout, a.shape[-1]))


family("cat", lambda a, b: np.concatenate([a, b], -1), cat_backward, normal((3, 2), (3, 2)), replaced("cut", {
    "exchanged": ("each input gets the other's part", lambda dout, n: (dout[..., n:], dout[..., :n])),
    "same part": ("both inputs get the first part", lambda dout, n: (dout[..., :n], dout[..., :n])),
    "interleaved": ("cut into even and odd columns", lambda dout, n: (dout[..., ::2], dout[..., 1::2])),
}))


def through_both(dout, x, first=1.0, last=1.0):
    """The gradient of x tanh(x), with each of the two paths to x multiplied by a number."""
    return dout * (first * np.tanh(x) + last * x * (1 - np.tanh(x) ** 2))


unary("used_twice", lambda x: x * np.tanh(x), through_both, {
    "first path": ("only the factor x", lambda dout, x: through_both(dout, x, last=0.0)),
    "last path": ("only the factor tanh(x)", lambda dout, x: through_both(dout, x, first=0.0)),
    "counted twice": ("a path is counted twice", lambda dout, x: through_both(dout, x, first=2.0)),
}, normal((3, 4)))
