"""Products of numbers and of matrices, and how broadcasting affects a gradient."""
import numpy as np

from study.exercises.exercise import Argument, Exercise
from study.mistakes import FUNCTIONS
from study.mistakes.broadcast import COPIES, EARLY, ENDINGS, FACTORS, SHAPES, mul_backward, summed_early
from study.mistakes.doctor import Known, Routine, routine_of


def product_backward(dout, a, b):
    def sum_of_copies(gradient, shape):
        in_front = tuple(range(gradient.ndim - len(shape)))
        gradient = gradient.sum(axis=in_front)
        stretched = tuple(axis for axis, n in enumerate(shape) if n == 1)
        return gradient.sum(axis=stretched, keepdims=True)

    return sum_of_copies(dout * b, a.shape), sum_of_copies(dout * a, b.shape)


def matmul_backward(dout, a, b):
    return dout @ b.T, a.T @ dout


def linear_backward(dout, x, weight, bias):
    dout_rows, x_rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    return dout @ weight, dout_rows.T @ x_rows, dout_rows.sum(axis=0)


def in_product() -> list[Known]:
    """The mistakes in a broadcast factor: in both factors, in a alone, in b alone."""
    tables = {"finish": ENDINGS, "for": FACTORS | EARLY, "sum": COPIES | SHAPES}
    in_both, in_one = [], []
    for part, table in tables.items():
        for name, (sentence, wrong) in table.items():
            in_both.append(Known(name, sentence.format(d="each gradient", a="its input"),
                                 {f"{part}_a": wrong, f"{part}_b": wrong}))
            in_one += [Known(f"{name} in d{a}", sentence.format(d=f"d{a}", a=a), {f"{part}_{a}": wrong}) for a in "ab"]
    return [*in_one, *in_both]


def the_other(dout, other, own):
    return other


def as_it_is(g, a):
    return g


PRODUCT = Routine("product", mul_backward, ("dout", "a", "b"), ("da", "db"), (
    Known("exchanged", "da and db are exchanged: the gradients come in the order of the arguments",
          dict(order=lambda da, db: (db, da))),
    Known("the factors", "da is b itself and db is a itself, without dout and in the other's shape",
          dict(for_a=the_other, for_b=the_other, sum_a=as_it_is, sum_b=as_it_is)),
    Known("upstream squared", "multiplied by dout twice; the chain rule does it once",
          dict(upstream=lambda dout: dout**2)),
    *in_product(),
    *(Known(f"summed early in d{a}", f"dout is summed before it is multiplied in d{a}; multiply first, then sum",
            {f"for_{a}": summed_early, f"sum_{a}": as_it_is}) for a in "ab"),
    Known("summed early", "dout is summed before it is multiplied by the other factor; multiply first, then sum",
          dict(for_a=summed_early, for_b=summed_early, sum_a=as_it_is, sum_b=as_it_is)),
))

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
        product_backward, PRODUCT, np.multiply,
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
        matmul_backward, routine_of("matmul"), np.matmul,
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
        linear_backward, routine_of("linear"), FUNCTIONS["linear"].forward,
        shapes=({"x": "B T I"},),
        special=(lambda r: {"x": r.uniform(-60, 60, (2, 3)), "weight": r.normal(size=(4, 3)), "bias": r.normal(size=4)},),
    ),
]
