"""Mistakes in embedding: rows of a table, looked up by number."""
import numpy as np

from .base import family, replaced, same


def embedding_backward(
    dout, weight, ids, *, upstream=same, start=np.zeros_like, value=lambda dout, weight, ids: dout, shift=0,
    scatter=np.add.at, after=lambda dweight, ids: dweight, result=lambda dweight, dout, weight, ids: dweight,
):
    dweight = start(weight)
    scatter(dweight, (ids + shift) % len(weight), value(upstream(dout), weight, ids))
    return result(after(dweight, ids), dout, weight, ids), None


def overwrite(dweight, ids, dout):
    for i in np.ndindex(ids.shape):
        dweight[ids[i]] = dout[i]


def keep_first(dweight, ids, dout):
    for i in reversed(list(np.ndindex(ids.shape))):
        dweight[ids[i]] = dout[i]


def add_once(dweight, ids, dout):
    dweight[ids] += dout


def once_in_a_row(dweight, ids, dout):
    """Adds row by row of ids, or one by one if ids has a single axis."""
    for row, values in zip(ids, dout):
        dweight[row] += values


def once_in_a_column(dweight, ids, dout):
    for t in range(ids.shape[-1]):
        dweight[ids[..., t]] += dout[..., t, :]


def only(part):
    """Adds only for this part of the ids, along their first axis."""
    return lambda dweight, ids, dout: np.add.at(dweight, ids[part], dout[part])


def at_its_place(dweight, ids, dout):
    """As if the ids were 0, 1, 2, ..."""
    dout = dout.reshape(-1, dout.shape[-1])
    dweight[: len(dout)] += dout


def times_of_use(dweight, ids):
    return np.bincount(ids.ravel(), minlength=len(dweight))[:, None]


def but(row):
    """The gradient with one row set to zero."""
    return lambda dweight, ids: dweight * (np.arange(len(dweight)) != row)[:, None]


def a_row_of_ids(r):
    return [r.normal(size=(6, 3)), r.permuted(np.array([0, 1, 1, 3, 4, 4, 4]))]


def some_ids(r):
    """One id occurs so often that it repeats within a row and within a column."""
    return [r.normal(size=(6, 3)), r.permuted(np.array([0, 1, 4, 4, 4, 4])).reshape(2, 3)]


family("embedding", lambda weight, ids: weight[ids], embedding_backward, a_row_of_ids, {
    **replaced("scatter", {
        "overwrites": ("a repeated id keeps its last gradient only: dweight[ids] = dout overwrites, and dweight[ids] += "
                       "dout adds once for each row that occurs; np.add.at adds each time", overwrite),
        "adds once": ("dweight[ids] += dout adds once only for a repeated id: NumPy reads all rows first, then writes; "
                      "np.add.at adds each time", add_once),
        "keeps the first": ("a repeated id keeps its first gradient only: the gradients of all its uses add", keep_first),
        "adds once in a row": ("an id that repeats within a row of ids is added once only, as dweight[ids[i]] += dout[i] "
                               "does; np.add.at adds each time", once_in_a_row),
        "adds once in a column": ("an id that repeats within a column of ids is added once only, as "
                                  "dweight[ids[:, t]] += dout[:, t] does; np.add.at adds each time", once_in_a_column),
        "first of the batch": ("only the first row of ids counts: the table is used by all of the batch", only(slice(1))),
        "last of the batch": ("only the last row of ids counts: the table is used by all of the batch",
                              only(slice(-1, None))),
        "one too few": ("the last along the first axis of ids is left out: a loop that ends one too early",
                        only(slice(-1))),
        "at its place": ("the gradient goes to row i instead of row ids[i] of the table", at_its_place),
        "largest": ("a repeated id gets the largest of its gradients; they add", np.maximum.at),
        "subtracts": ("the gradients are subtracted: they add", np.subtract.at),
    }),
    **replaced("after", {
        "averages": ("divided by how often an id occurs: the gradients of its uses add, they are not averaged",
                     lambda dweight, ids: dweight / np.maximum(times_of_use(dweight, ids), 1)),
        "times its uses": ("multiplied by how often an id occurs: adding has counted them already",
                           lambda dweight, ids: dweight * times_of_use(dweight, ids)),
        "divided by the ids": ("divided by the number of ids: forward takes no mean",
                               lambda dweight, ids: dweight / ids.size),
        "divided by the batch": ("divided by the length of ids' first axis: forward takes no mean",
                                 lambda dweight, ids: dweight / len(ids)),
        "padding row": ("row 1 is taken for padding and gets zero: all ids are ids here", but(1)),
        "row 0 is padding": ("row 0 is taken for padding and gets zero: all ids are ids here", but(0)),
        "twice": ("dweight is twice too large", lambda dweight, ids: 2 * dweight),
        "zero": ("dweight is zero", lambda dweight, ids: 0 * dweight),
    }),
    **replaced("shift", {
        "off by one": ("the gradient goes to the next row: row ids + 1 for row ids", 1),
        "off by one down": ("the gradient goes to the row before: row ids - 1 for row ids", -1),
    }),
    **replaced("value", {
        "counts": ("dout is not used: dweight counts how often each id occurs",
                   lambda dout, weight, ids: np.ones_like(dout)),
        "times the weight": ("multiplied by the row of the table: looking up is linear, the factor is 1",
                             lambda dout, weight, ids: dout * weight[ids]),
        "adds the weight": ("the rows of the table are added up instead of dout", lambda dout, weight, ids: weight[ids]),
        "dout summed": ("every id gets the sum of dout over its features",
                        lambda dout, weight, ids: dout.sum(-1, keepdims=True)),
        "upstream squared": ("multiplied by dout twice; the chain rule does it once", lambda dout, weight, ids: dout**2),
    }),
    **replaced("result", {
        "not scattered": ("dout itself is returned, a row for each id; its rows should be added to those of the table",
                          lambda dweight, dout, weight, ids: dout),
        "looked up": ("rows are looked up, as in forward, and multiplied by dout; backward adds dout to the rows of zeros",
                      lambda dweight, dout, weight, ids: dout * weight[ids]),
    }),
    **replaced("start", {
        "starts from the weight": ("the gradients are added to a copy of the table; start from zeros", np.copy),
        "starts from ones": ("the gradients are added to ones; a row that is not used has the gradient zero", np.ones_like),
    }),
}, constants=("ids",), telling=some_ids)
