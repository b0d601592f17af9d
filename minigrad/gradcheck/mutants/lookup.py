"""Mistakes in embedding: rows of a table, looked up by number."""
import numpy as np

from .base import family


def embedding_backward(dout, weight, ids, *, scatter=np.add.at, after=lambda dweight, ids: dweight, shift=0):
    dweight = np.zeros_like(weight)
    scatter(dweight, (ids + shift) % len(weight), dout)
    return after(dweight, ids), None


def overwrite(dweight, ids, dout):
    dweight[ids] = dout


def add_once(dweight, ids, dout):
    dweight[ids] += dout


def per_use(dweight, ids):
    return dweight / np.maximum(np.bincount(ids, minlength=len(dweight)), 1)[:, None]


def some_ids(r):
    return [r.normal(size=(6, 3)), r.permuted(np.array([0, 1, 1, 3, 4, 4, 4]))]


family("embedding", lambda weight, ids: weight[ids], embedding_backward, some_ids, {
    "overwrites": ("a repeated id keeps its last gradient only", dict(scatter=overwrite)),
    "adds once": ("dweight[ids] += dout, which NumPy does once for a repeated id", dict(scatter=add_once)),
    "averages": ("divided by how often an id stands there", dict(after=per_use)),
    "off by one": ("the gradient goes to the next row", dict(shift=1)),
    "padding row": ("row 1 is taken for padding and gets zero",
                    dict(after=lambda dweight, ids: dweight * (np.arange(6) != 1)[:, None])),
}, constants=("ids",))
