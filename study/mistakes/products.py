"""Mistakes in matrix products and linear layers."""
import numpy as np

from .base import family, normal, replaced, same, turned


def in_order(*gradients):
    return gradients


def matmul_backward(
    dout, a, b, *, upstream=same, for_a=lambda dout, a, b: dout @ turned(b), for_b=lambda dout, a, b: turned(a) @ dout,
    finish_a=same, finish_b=same, order=in_order,
):
    dout = upstream(dout)
    return order(finish_a(for_a(dout, a, b)), finish_b(for_b(dout, a, b)))


def endings(table):
    """Mistakes in finished gradients, {gradient: the part that finishes it}: wrong sign, twice, zero."""
    found = {}
    for d, part in table.items():
        found |= {
            f"sign in {d}": (f"{d} has the wrong sign", {part: lambda g: -g}),
            f"{d} twice": (f"{d} is twice too large", {part: lambda g: 2 * g}),
            f"{d} zero": (f"{d} is zero: {d.removeprefix('d')} is taken for a constant", {part: lambda g: 0 * g}),
        }
    return found


UPSTREAM = {
    "no upstream": ("dout is not used: what comes out for a dout of ones is only right if the loss is the sum of out",
                    np.ones_like),
    "upstream squared": ("multiplied by dout twice; the chain rule does it once", lambda dout: dout**2),
}

family("matmul", lambda a, b: a @ b, matmul_backward, normal((4, 4), (4, 4)), {
    **replaced("upstream", UPSTREAM),
    **endings({"da": "finish_a", "db": "finish_b"}),
    **replaced("for_a", {
        "b not transposed": ("da = dout @ b: b should be transposed, da = dout @ b^T (on squares the shapes fit by chance)",
                             lambda dout, a, b: dout @ b),
        "wrong side": ("da = b^T @ dout: b^T is on the wrong side: b was on the right",
                       lambda dout, a, b: turned(b) @ dout),
        "wrong side and not transposed": ("da = b @ dout: b should be transposed and on the right",
                                          lambda dout, a, b: b @ dout),
        "upstream transposed": ("da = dout^T @ b^T: dout is transposed, and should not be",
                                lambda dout, a, b: turned(dout) @ turned(b)),
        "upstream transposed, not b": ("da = dout^T @ b: the transpose is on dout instead of b",
                                       lambda dout, a, b: turned(dout) @ b),
        "b reshaped": ("b is reshaped to the shape of b^T, which mixes its elements up; it should be transposed",
                       lambda dout, a, b: dout @ b.reshape(turned(b).shape)),
        "elementwise": ("da = dout * b^T: the elementwise product for the matrix product",
                        lambda dout, a, b: dout * turned(b)),
        "elementwise, not transposed": ("da = dout * b: the elementwise product for the matrix product with b^T",
                                        lambda dout, a, b: dout * b),
        "da transposed": ("da is transposed: b @ dout^T is the gradient of a^T", lambda dout, a, b: b @ turned(dout)),
        "a for b": ("da = dout @ a^T: the factor is b, the other one", lambda dout, a, b: dout @ turned(a)),
        "a for b, not transposed": ("da = dout @ a: the factor is b^T, the other one, and transposed",
                                    lambda dout, a, b: dout @ a),
        "no dout in da": ("da does not use dout: it is the sum over the rows of b^T",
                          lambda dout, a, b: np.ones_like(dout) @ turned(b)),
        "da is b transposed": ("da is b^T itself, without dout: the derivative of a product of numbers",
                               lambda dout, a, b: turned(b)),
        "da is b": ("da is b itself, without dout: the derivative of a product of numbers", lambda dout, a, b: b),
        "da overwritten": ("da has the last term of its sum only: in a loop, = overwrites where += adds",
                           lambda dout, a, b: dout[..., -1:] @ turned(b[..., -1:])),
        "da averaged": ("da is divided by the number of columns of dout: its terms add, they are not averaged",
                        lambda dout, a, b: dout @ turned(b) / dout.shape[-1]),
    }),
    **replaced("for_b", {
        "a not transposed": ("db = a @ dout: a should be transposed, db = a^T @ dout (on squares the shapes fit by chance)",
                             lambda dout, a, b: a @ dout),
        "wrong side for b": ("db = dout @ a^T: a^T is on the wrong side: a was on the left",
                             lambda dout, a, b: dout @ turned(a)),
        "wrong side for b and not transposed": ("db = dout @ a: a should be transposed and on the left",
                                                lambda dout, a, b: dout @ a),
        "result transposed": ("db is transposed: dout^T @ a is the gradient of b^T", lambda dout, a, b: turned(dout) @ a),
        "upstream transposed in db": ("db = a^T @ dout^T: dout is transposed, and should not be",
                                      lambda dout, a, b: turned(a) @ turned(dout)),
        "upstream transposed in db, not a": ("db = a @ dout^T: the transpose is on dout instead of a",
                                             lambda dout, a, b: a @ turned(dout)),
        "a reshaped": ("a is reshaped to the shape of a^T, which mixes its elements up; it should be transposed",
                       lambda dout, a, b: a.reshape(turned(a).shape) @ dout),
        "elementwise in db": ("db = a^T * dout: the elementwise product for the matrix product",
                              lambda dout, a, b: turned(a) * dout),
        "elementwise in db, not transposed": ("db = a * dout: the elementwise product for the matrix product with a^T",
                                              lambda dout, a, b: a * dout),
        "b for a": ("db = b^T @ dout: the factor is a, the other one", lambda dout, a, b: turned(b) @ dout),
        "b for a, not transposed": ("db = b @ dout: the factor is a^T, the other one, and transposed",
                                    lambda dout, a, b: b @ dout),
        "no dout in db": ("db does not use dout: it is the sum over the columns of a^T",
                          lambda dout, a, b: turned(a) @ np.ones_like(dout)),
        "db is a transposed": ("db is a^T itself, without dout: the derivative of a product of numbers",
                               lambda dout, a, b: turned(a)),
        "db is a": ("db is a itself, without dout: the derivative of a product of numbers", lambda dout, a, b: a),
        "db overwritten": ("db has the last term of its sum only: in a loop, = overwrites where += adds",
                           lambda dout, a, b: turned(a[..., -1:, :]) @ dout[..., -1:, :]),
        "db averaged": ("db is divided by the number of rows: its terms add, they are not averaged",
                        lambda dout, a, b: turned(a) @ dout / dout.shape[-2]),
    }),
    "exchanged": ("da and db are exchanged: the gradients come in the order of the arguments",
                  dict(order=lambda da, db: (db, da))),
})


def batched_backward(dout, a, b, *, over=lambda g, a: g.reshape(-1, *a.shape).sum(0), turn=turned, finish_b=same):
    return over(dout @ turn(b), a), finish_b(turn(a) @ dout)


family("batched_matmul", lambda a, b: a @ b, batched_backward, normal((3, 3), (3, 3, 3)), {
    "batch averaged": ("the shared factor's gradient is averaged over the batch; its uses add",
                       dict(over=lambda g, a: g.reshape(-1, *a.shape).mean(0))),
    "first of the batch": ("the shared factor gets the gradient of the first of the batch only",
                           dict(over=lambda g, a: g.reshape(-1, *a.shape)[0])),
    "last of the batch": ("the shared factor keeps the gradient of the last of the batch only: = for +=",
                          dict(over=lambda g, a: g.reshape(-1, *a.shape)[-1])),
    "all axes reversed": (".T reverses all axes, and only the last two are to be exchanged", dict(turn=lambda a: a.T)),
    "not transposed": ("the factors are not transposed", dict(turn=same)),
    "batch over the wrong axis": ("the shared factor's gradient is summed over the rows instead of the batch",
                                  dict(over=lambda g, a: g.sum(-2))),
    "batch summed for both": ("the other factor's gradient is summed over the batch too, and it is not shared",
                              dict(finish_b=lambda g: np.broadcast_to(g.sum(0), g.shape).copy())),
})


def as_rows(x):
    """All leading axes as one."""
    return x.reshape(-1, x.shape[-1])


def linear_backward(
    dout, x, weight, bias, *, upstream=same, for_x=lambda dout, x, weight: dout @ weight,
    for_weight=lambda dout, x, weight: as_rows(dout).T @ as_rows(x), for_bias=lambda dout, bias: as_rows(dout).sum(0),
    finish_x=same, finish_weight=same, finish_bias=same, order=in_order,
):
    dout = upstream(dout)
    dx, dweight, dbias = for_x(dout, x, weight), for_weight(dout, x, weight), for_bias(dout, bias)
    return order(finish_x(dx), finish_weight(dweight), finish_bias(dbias))


def of_each(dout, x):
    """The weight's gradient for each matrix of a batch."""
    return turned(dout) @ x


# mistakes in the sum over rows that leave a shape other than the bias's
BIAS_SHAPES = {
    "bias over axis 1": ("dbias is summed over axis 1; sum over all axes but the last", lambda dout, bias: dout.sum(1)),
    "bias over the first axis": ("dbias is summed over axis 0 only: right for a matrix x, but with more axes in front "
                                 "all of them but the last are summed", lambda dout, bias: dout.sum(0)),
    "bias over the last but one axis": ("dbias is summed over the last axis but one only; sum over all but the last",
                                        lambda dout, bias: dout.sum(-2)),
    "bias over the last axis": ("dbias is summed over the features; sum over all axes but the last",
                                lambda dout, bias: dout.sum(-1)),
    "bias whole": ("dbias is dout itself: the bias was copied to every row, so sum over the rows", lambda dout, bias: dout),
    "bias number": ("dbias is one number; sum over the rows only, so that one number per feature stays",
                    lambda dout, bias: dout.sum()),
    "bias kept": ("dbias keeps the summed axis: sum without keepdims",
                  lambda dout, bias: as_rows(dout).sum(0, keepdims=True)),
}
# the same for the weight
WEIGHT_SHAPES = {
    "weight not summed": ("dweight is not summed over the axes in front: the weight is used by all of the batch, and the "
                          "gradients of its uses add", lambda dout, x, weight: of_each(dout, x)),
    "weight summed over axis 0 only": ("dweight is summed over the first axis only: all axes but the last are summed",
                                       lambda dout, x, weight: np.einsum("b...o,b...i->...oi", dout, x)),
}
# and for x
X_SHAPES = {
    "dx as rows": ("dx is right, but has become a matrix: it needs the shape of x, with all of its axes",
                   lambda dout, x, weight: as_rows(dout) @ weight),
}


family("linear", lambda x, weight, bias: x @ weight.T + bias, linear_backward, normal((4, 4), (4, 4), (4,)), {
    **replaced("upstream", UPSTREAM),
    **endings({"dx": "finish_x", "dweight": "finish_weight"}),
    "sign in dbias": ("dbias has the wrong sign", dict(finish_bias=lambda g: -g)),
    "dbias twice": ("dbias is twice too large", dict(finish_bias=lambda g: 2 * g)),
    **replaced("for_x", X_SHAPES), **replaced("for_weight", WEIGHT_SHAPES), **replaced("for_bias", BIAS_SHAPES),
    **replaced("for_x", {
        "weight transposed": ("dx = dout @ weight^T: forward has transposed the weight already, so dx = dout @ weight",
                              lambda dout, x, weight: dout @ weight.T),
        "x not needed": ("x gets no gradient: the layer below needs it", lambda dout, x, weight: None),
        "dx from the wrong side": ("dx = weight @ dout: the weight is on the wrong side",
                                   lambda dout, x, weight: weight @ dout),
        "dx from the wrong side, transposed": ("dx = weight^T @ dout: the weight is transposed and on the wrong side",
                                               lambda dout, x, weight: weight.T @ dout),
        "dx elementwise": ("dx = dout * weight: the elementwise product for the matrix product",
                           lambda dout, x, weight: dout * weight),
        "dx without dout": ("dx does not use dout: it is the sum over the weight's rows, whatever the loss",
                            lambda dout, x, weight: np.ones_like(dout) @ weight),
        "dx is the weight": ("dx is the weight itself, without dout: the derivative of a product of numbers",
                             lambda dout, x, weight: weight),
        "x for the weight": ("dx = dout @ x: the factor is the weight, not x", lambda dout, x, weight: dout @ x),
        "dx overwritten": ("dx has the last term of its sum only: in a loop, = overwrites where += adds",
                           lambda dout, x, weight: dout[..., -1:] @ weight[-1:]),
    }),
    **replaced("for_weight", {
        "weight's gradient transposed": ("dweight is transposed: x^T @ dout has the shape (in, out), and the weight (out, "
                                         "in)",
                                         lambda dout, x, weight: as_rows(x).T @ as_rows(dout)),
        "weight's gradient averaged": ("dweight is divided by the length of the first axis; the rows' shares add",
                                       lambda dout, x, weight: as_rows(dout).T @ as_rows(x) / len(x)),
        "weight's gradient averaged over all rows": (
            "dweight is divided by the number of rows; their shares add",
            lambda dout, x, weight: as_rows(dout).T @ as_rows(x) / len(as_rows(x))),
        "weight of the first of the batch": ("dweight comes from the first along x's first axis only; the weight is used "
                                             "by all", lambda dout, x, weight: as_rows(dout[:1]).T @ as_rows(x[:1])),
        "weight of the last of the batch": ("dweight keeps the last along x's first axis only: in a loop, = overwrites "
                                            "where += adds",
                                            lambda dout, x, weight: as_rows(dout[-1:]).T @ as_rows(x[-1:])),
        "weight averaged over the batch": ("dweight is averaged over the batch; the weight is used by all, and uses add",
                                           lambda dout, x, weight: of_each(dout, x).reshape(-1, *weight.shape).mean(0)),
        "weight of matrices only": ("dout.T reverses all axes: right for a matrix x, but with more axes in front x and "
                                    "dout must become rows first, reshape(-1, n)", lambda dout, x, weight: dout.T @ x),
        "weight by a reshape": ("dout is reshaped to (out, rows), which mixes its rows up; it should be transposed",
                                lambda dout, x, weight: dout.reshape(len(weight), -1) @ as_rows(x)),
        "weight untransposed": ("dweight = dout @ x: dout should be transposed", lambda dout, x, weight: dout @ x),
        "weight from the wrong side": ("dweight = dout @ x^T sums over the features: it should be summed over the rows",
                                       lambda dout, x, weight: dout @ turned(x)),
        "weight without dout": ("dweight does not use dout: each of its rows is the sum of x over the rows",
                                lambda dout, x, weight: as_rows(np.ones_like(dout)).T @ as_rows(x)),
        "weight for x": ("dweight = dout^T @ weight: the factor is x, not the weight",
                         lambda dout, x, weight: as_rows(dout).T @ weight),
        "weight of the last row": ("dweight comes from the last row only: in a loop, = overwrites where += adds",
                                   lambda dout, x, weight: as_rows(dout)[-1:].T @ as_rows(x)[-1:]),
        "weight of the first row": ("dweight comes from the first row only; the weight is used by all of them",
                                    lambda dout, x, weight: as_rows(dout)[:1].T @ as_rows(x)[:1]),
        "sums of weight": ("dweight is the sum of dout times the sum of x; multiply row by row, then sum",
                           lambda dout, x, weight: np.outer(as_rows(dout).sum(0), as_rows(x).sum(0))),
        "weight's gradient is x": ("dweight is x^T x, without dout", lambda dout, x, weight: as_rows(x).T @ as_rows(x)),
    }),
    **replaced("for_bias", {
        "bias over the wrong axis": ("dbias is summed within rows; sum over the rows, so that one number per feature stays",
                                     lambda dout, bias: as_rows(dout).sum(1)),
        "bias averaged": ("dbias is the mean over the rows; the bias is used by each of them, and uses add",
                          lambda dout, bias: as_rows(dout).mean(0)),
        "bias averaged over the first axis": ("dbias is divided by the length of the first axis; uses add",
                                              lambda dout, bias: as_rows(dout).sum(0) / len(dout)),
        "bias not summed": ("dbias is the first row of dout; the bias is used by all rows, so sum over them",
                            lambda dout, bias: as_rows(dout)[0]),
        "bias of the last row": ("dbias is the last row of dout: in a loop, = overwrites where += adds",
                                 lambda dout, bias: as_rows(dout)[-1]),
        "bias zero": ("dbias is zero: the bias is taken for a constant", lambda dout, bias: np.zeros_like(bias)),
        "bias one": ("dbias is 1, without dout: the derivative of a sum of numbers", lambda dout, bias: np.ones_like(bias)),
        "bias counted": ("dbias is the number of rows, without dout",
                         lambda dout, bias: np.full_like(bias, len(as_rows(dout)))),
        "bias total": ("dbias is the sum of all of dout; sum over the rows only",
                       lambda dout, bias: np.full_like(bias, dout.sum())),
        "bias times itself": ("dbias is multiplied by the bias; its derivative is 1",
                              lambda dout, bias: as_rows(dout).sum(0) * bias),
    }),
    "order": ("dweight and dx are exchanged: the gradients come in the order of the arguments",
              dict(order=lambda dx, dweight, dbias: (dweight, dx, dbias))),
    "order of the parameters": ("dweight and dbias are exchanged: the gradients come in the order of the arguments",
                                dict(order=lambda dx, dweight, dbias: (dx, dbias, dweight))),
}, telling=normal((3, 4, 4), (4, 4), (4,)))
