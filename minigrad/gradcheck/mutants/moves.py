"""Mistakes in functions that move elements."""
import numpy as np

from .base import family, normal


def moves(name, forward, back, wrong, inputs=normal((3, 3, 3))):
    """A function that moves elements: dx = back(dout)."""
    changed = {key: (mistake, dict(back=wrong_back)) for key, (mistake, wrong_back) in wrong.items()}
    family(name, forward, lambda dout, x, *, back=back: back(dout).copy(), inputs, changed)


def placed(dout, shape, index, add=True):
    dx = np.zeros(shape)
    if add:
        np.add.at(dx, index, dout)
    else:
        dx[index] = dout
    return dx


moves("permute", lambda x: x.transpose(1, 2, 0), lambda dout: dout.transpose(2, 0, 1), {
    "same permutation": ("the permutation again instead of its inverse", lambda dout: dout.transpose(1, 2, 0)),
    "not permuted": ("the upstream as it is", lambda dout: dout),
})
moves("transpose", lambda x: x.T, lambda dout: dout.T, {
    "not transposed": ("the upstream as it is, on a square", lambda dout: dout),
}, normal((4, 4)))
moves("reshape", lambda x: x.reshape(4, 3), lambda dout: dout.reshape(3, 4), {
    "column order": ("reshaped in Fortran's order", lambda dout: dout.reshape(3, 4, order="F")),
    "transposed": ("a transpose for a reshape", lambda dout: dout.T),
}, normal((3, 4)))
moves("flip", lambda x: x[:, ::-1], lambda dout: dout[:, ::-1], {
    "not flipped": ("the upstream as it is", lambda dout: dout),
    "wrong axis": ("flipped along the other axis", lambda dout: dout[::-1]),
}, normal((4, 4)))
moves("roll", lambda x: np.roll(x, 1, 1), lambda dout: np.roll(dout, -1, 1), {
    "same way": ("rolled on instead of back", lambda dout: np.roll(dout, 1, 1)),
}, normal((3, 4)))
moves("slice", lambda x: x[1:3], lambda dout: placed(dout, (4, 3), slice(1, 3)), {
    "at the front": ("put back at the wrong rows", lambda dout: placed(dout, (4, 3), slice(0, 2))),
    "everywhere": ("the rows that were not taken get a gradient too", lambda dout: np.concatenate([dout, dout])),
}, normal((4, 3)))
REPEATED = np.array([0, 2, 0, 1, 2, 2])
moves("take", lambda x: x[REPEATED], lambda dout: placed(dout, (4, 3), REPEATED), {
    "overwrites": ("a repeated index keeps its last gradient", lambda dout: placed(dout, (4, 3), REPEATED, add=False)),
}, normal((4, 3)))
moves("repeat", lambda x: np.tile(x, (2, 1)), lambda dout: dout[:3] + dout[3:], {
    "first copy": ("only the first copy's gradient", lambda dout: dout[:3]),
    "mean": ("the mean of the copies", lambda dout: (dout[:3] + dout[3:]) / 2),
    "interleaved": ("the copies are taken to be neighbours", lambda dout: dout[0::2] + dout[1::2]),
}, normal((3, 4)))
moves("tril", np.tril, np.tril, {
    "upper": ("the other triangle", np.triu),
    "all": ("the part that was cut off gets a gradient", lambda dout: dout),
    "no diagonal": ("the diagonal is left out", lambda dout: np.tril(dout, -1)),
}, normal((4, 4)))


def cat_backward(dout, a, b, *, cut=lambda dout: (dout[:, :2], dout[:, 2:])):
    return tuple(part.copy() for part in cut(dout))


family("cat", lambda a, b: np.concatenate([a, b], 1), cat_backward, normal((3, 2), (3, 2)), {
    "exchanged": ("each input gets the other's part", dict(cut=lambda dout: (dout[:, 2:], dout[:, :2]))),
    "same part": ("both inputs get the first part", dict(cut=lambda dout: (dout[:, :2], dout[:, :2]))),
    "interleaved": ("cut into even and odd columns", dict(cut=lambda dout: (dout[:, ::2], dout[:, 1::2]))),
})


def reused_backward(dout, x, *, paths=lambda dout, x: dout * np.tanh(x) + dout * x * (1 - np.tanh(x) ** 2)):
    return paths(dout, x)


family("used_twice", lambda x: x * np.tanh(x), reused_backward, normal((3, 4)), {
    "first path": ("only the factor x", dict(paths=lambda dout, x: dout * np.tanh(x))),
    "last path": ("only the factor tanh(x)", dict(paths=lambda dout, x: dout * x * (1 - np.tanh(x) ** 2))),
    "counted twice": ("a path is counted twice", dict(
        paths=lambda dout, x: 2 * dout * np.tanh(x) + dout * x * (1 - np.tanh(x) ** 2))),
})
