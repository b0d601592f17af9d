"""Products of numbers and of matrices."""
import numpy as np

from ..base import normal
from ..known import function


def product_backward(dout, a, b):
    def sum_of_copies(gradient, shape):
        in_front = tuple(range(gradient.ndim - len(shape)))
        summed = gradient.sum(axis=in_front)
        stretched = tuple(axis for axis, n in enumerate(shape) if n == 1)
        total = summed.sum(axis=stretched, keepdims=True)
        return total

    return sum_of_copies(dout * b, a.shape), sum_of_copies(dout * a, b.shape)


function("product", np.multiply, product_backward, normal((4, 4), (1, 4)), statement="out = a * b, broadcast", own={
    "mean": ("the copies' gradients are averaged: they should be added up",
             "summed = gradient.mean(axis=in_front); total = summed.mean(axis=stretched, keepdims=True)"),
    "leading axes only": ("only the axes that are missing in front are summed, and not those of size 1",
                          "total = summed"),
    "stretched axes only": ("only the axes of size 1 are summed, and not those that are missing in front",
                            "in_front = (); stretched = tuple(i for i, n in enumerate(shape) if n == 1)"),
    "not summed": ("nothing is summed: a number that was copied gets the gradients of all its copies",
                   "return dout * b, dout * a"),
    "summed early": ("dout is summed before it is multiplied by the other factor: multiply first, then sum",
                     "return sum_of_copies(dout, a.shape) * b, sum_of_copies(dout, b.shape) * a"),
    "the factors": ("da is b itself and db is a itself, without dout", "return b, a"),
})


def matmul_backward(dout, a, b):
    da = dout @ b.T
    db = a.T @ dout
    return da, db


function("matmul", np.matmul, matmul_backward, normal((4, 4), (4, 4)), statement="out = a @ b, of matrices")


def linear(x, weight, bias):
    return x @ weight.T + bias


def linear_backward(dout, x, weight, bias):
    rows_of_dout = dout.reshape(-1, dout.shape[-1])
    rows_of_x = x.reshape(-1, x.shape[-1])
    dx = dout @ weight
    dweight = rows_of_dout.T @ rows_of_x  # dweight: every row of x uses the weight, so their gradients add
    dbias = rows_of_dout.sum(axis=0)  # dbias: every row uses the bias, so their gradients add
    return dx, dweight, dbias


function("linear", linear, linear_backward, normal((4, 4), (4, 4), (4,)),
         statement="out = x @ weight^T + bias, with a row of x for each example; weight is (out, in)", own={
    "dbias of the last axis": ("dbias is summed along the last axis: it should be summed over the rows",
                               "dbias = dout.sum(axis=-1)"),
    "dbias of axis 0": ("dbias is summed over axis 0 alone: with leading axes, all but the last are rows",
                        "dbias = dout.sum(axis=0)"),
    "dbias not summed": ("dbias is dout itself: sum it over the rows, which all use the bias", "dbias = dout"),
    "dbias over everything": ("dbias is summed over the features too: each has a bias of its own",
                              "dbias = dout.sum()"),
    "batch not summed": ("dweight still has the batch's axes: sum over them", "dweight = np.swapaxes(dout, -1, -2) @ x"),
})
