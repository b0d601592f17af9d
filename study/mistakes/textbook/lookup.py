"""Rows of a table, looked up by number."""
import numpy as np

from ..known import function


def embedding(ids, weight):
    return weight[ids]


def embedding_backward(dout, ids, weight):
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dout)
    return dweight


ADDING = "np.add.at(dweight, ids, dout)"
FIRST = "first = np.unique(ids.reshape(-1), return_index=True)[1]; seen = np.isin(np.arange(ids.size), first); "
function("embedding", embedding, embedding_backward, lambda r: [r.integers(0, 5, size=8), r.normal(size=(5, 4))],
         constants=("ids",), statement="out = weight[ids]; ids may repeat, and get no gradient", own={
    "overwrites": ("what is written for an id replaces what was there: the gradients of an id that repeats add up; += on "
                   "an array of ids adds only once, np.add.at each time", "dweight[ids] = dout", ADDING),
    "averages": ("the gradients of an id that repeats are averaged: they add up",
                 "np.add.at(dweight, ids, dout / np.bincount(ids.reshape(-1), minlength=len(weight))[ids][..., None])",
                     ADDING),
    "off by one down": ("each id's gradient goes to the row before",
                        "np.add.at(dweight, (ids - 1) % len(weight), dout)", ADDING),
    "off by one up": ("each id's gradient goes to the row after", "np.add.at(dweight, (ids + 1) % len(weight), dout)",
                      ADDING),
    "keeps the first": ("only the first place where an id occurs counts: all of them do",
                        "np.add.at(dweight, ids, dout * np.isin(np.arange(ids.size), np.unique(ids, return_index=True)[1])"
                        ".reshape(*ids.shape, 1))", ADDING),
    "times weight": ("multiplied by the weight: looking up is linear, and the derivative 1", "return dweight * weight"),
    "starts at weight": ("the sum begins with the weight itself: it should begin with zeros", "dweight = weight.copy()"),
    "rows of dout": ("dweight is dout[ids]: forward looks up, backward adds dout to the rows that were looked up",
                     "return dout.reshape(-1, dout.shape[-1])[ids % dout.reshape(-1, dout.shape[-1]).shape[0]]"),
})
