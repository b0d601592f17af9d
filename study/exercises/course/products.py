"""Products of numbers and of matrices, and how broadcasting affects a gradient."""
import numpy as np

from study.exercises.exercise import Argument, Exercise
from study.mistakes.base import ROUTINES
from study.mistakes.textbook.products import linear, linear_backward, matmul_backward, product_backward


EXERCISES = [
    Exercise(
        "product", "A product with broadcasting", 2, """
        a and b are multiplied element by element, and NumPy broadcasts: an axis that one of them lacks in front, or where
        it has size 1, is filled with copies of it. A number that was copied is used several times, and the gradients of
        its uses add. Find da and db, each in the shape of its input. Scales, biases and masks are broadcast everywhere in
        a network, and the sum over the copies is what is forgotten most often.
        """,
        "out = a * b, broadcast", "8. Gradients add",
        {"a": Argument("M N", about="the first factor, of any shape"),
         "b": Argument("N", about="the second factor, of any shape that fits the first: (N,), (M, 1), () ...")},
        ("Forget the broadcast at first: if both have the same shape, what is da, and what is db? Both have a factor dout.",
         "dout * b has the shape of out. Where a was copied, each copy has a gradient there: add them, along all the axes "
         "where the shapes of a and out differ.",
         "Sum dout * b over the leading axes that a lacks, without keepdims, then over the axes where a has size 1, with "
         "keepdims=True. Do the same for dout * a and the shape of b."),
        product_backward, ROUTINES["product"], np.multiply,
        any_axes=True,
        shapes=(
            {"a": "M N", "b": "M 1"},
            {"a": "M N", "b": ""},
            {"a": "M N", "b": "M N"},
            {"a": "M 1", "b": "1 N"},
            {"a": "N", "b": "B M N"},
            {"a": "B M N", "b": "M 1"},
            {"a": "M 1", "b": "B M N"},
            {"a": "M N", "b": "B 1 N"},
        ),
        special=tuple(lambda r, a=a, b=b: {"a": r.uniform(-60, 60, a), "b": r.uniform(-60, 60, b)}
                      for a, b in [((2, 3), (3,)), ((4, 1), (3, 2, 1, 5))]),
    ),
    Exercise(
        "matmul", "Matrix product", 2, """
        The product of two matrices, out = a @ b: each element of out is a row of a times a column of b. Find da and db.
        Nearly all of a network's work is products of matrices, forward once, and backward twice: both gradients are
        products again. On squares every product fits, also a wrong one, so do not go by the shapes alone.
        """,
        "out = a @ b", "2. A matrix product, backward",
        {"a": Argument("M K", about="a matrix, the left factor"), "b": Argument("K N", about="a matrix, the right factor")},
        ("Write out_ij as a sum over k. Which elements of out depend on a_mk, and with which factor?",
         "da_mk is the sum over j of dout_mj b_kj. Which product of matrices is that? Mind the order of b's indices.",
         "da is dout times b transposed, in this order. For db, a transposed is on the left."),
        matmul_backward, ROUTINES["matmul"], np.matmul,
        special=(lambda r: {"a": r.uniform(-60, 60, (2, 3)), "b": r.uniform(-60, 60, (3, 4))},),
    ),
    Exercise(
        "linear", "A linear layer", 3, """
        A layer's weight and bias are the same for all rows of x: for each example of a batch, and in a transformer for each
        token, as x is (batch, tokens, features). So x may have any axes in front of the last, and weight and bias get a
        gradient from each row, and these add. Find dx, dweight and dbias, each in the shape of its input.
        """,
        "out = x @ weight.T + bias", "2. A matrix product, backward",
        {"x": Argument("N I", about="the input; there may be more axes in front of its features: (..., in)"),
         "weight": Argument("O I", about="(out, in), as PyTorch has it: forward transposes it"),
         "bias": Argument("O", about="(out,), added to each row")},
        ("Take x as a matrix first: out = x @ weight.T is a product of matrices. And bias is copied to all rows.",
         "For a matrix x: dx = dout @ weight, dweight = dout.T @ x, and dbias is the sum of dout over the rows.",
         "With more axes, dx stays as it is; for the others make matrices of dout and x: dout.reshape(-1, "
         "dout.shape[-1])."),
        linear_backward, ROUTINES["linear"], linear,
        shapes=({"x": "B T I"},),
        special=(lambda r: {"x": r.uniform(-60, 60, (2, 3)), "weight": r.normal(size=(4, 3)), "bias": r.normal(size=4)},),
    ),
]
