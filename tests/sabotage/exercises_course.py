"""Sabotages of the course: of its solutions, and of what a known mistake is made of."""
from sabotage.edit import edits

COURSE = "tests/study/exercises/test_course.py"


def of(exercise: str) -> tuple[str, ...]:
    return COURSE, "-k", f"{exercise} and (solution or another_way)"


SABOTAGES = [
    *edits(of("product"), "study.exercises.course.products", {
        "product: leading axes stay": ("product_backward", "gradient.sum(axis=in_front)", "gradient"),
        "product: averaged": ("product_backward", "gradient.sum(axis=stretched", "gradient.mean(axis=stretched"),
        "product: keepdims forgotten": ("product_backward", "keepdims=True", "keepdims=False"),
    }),
    *edits(of("matmul"), "study.exercises.course.products", {
        "matmul: b not transposed": ("matmul_backward", "b.T", "b"),
        "matmul: wrong side": ("matmul_backward", "a.T @ dout", "(dout.T @ a)"),
    }),
    *edits(of("linear"), "study.exercises.course.products", {
        "linear: weight transposed": ("linear_backward", "dout @ weight", "dout @ weight.T"),
        "linear: only matrices": ("linear_backward", "dout_rows.sum(axis=0)", "dout.sum(axis=0)"),
    }),
    *edits(of("tanh"), "study.exercises.course.pointwise", {
        "tanh: no square": ("tanh_backward", "out**2", "out"),
    }),
    *edits(of("dropout"), "study.exercises.course.pointwise", {
        "dropout: mask forgotten": ("dropout_backward", "* mask", ""),
        "dropout: always the same p": ("dropped", "p=p, ", ""),
    }),
    *edits(of("gelu"), "study.exercises.course.pointwise", {
        "gelu: density not normalised": ("gelu_backward", " / np.sqrt(2 * np.pi)", ""),
        "gelu_tanh: constant in the derivative": ("gelu_tanh_backward", "3 * 0.044715", "3 * 0.0447"),
    }),
    *edits(of("softmax"), "study.exercises.course.rows", {
        "softmax: sum over columns": ("softmax_backward", "(dout * p).sum(axis=-1", "(dout * p).sum(axis=0"),
        "log_softmax: weighted sum": ("log_softmax_backward", "p * dout.sum", "p * (p * dout).sum"),
    }),
    *edits(of("logsumexp"), "study.exercises.course.logsumexp", {
        "logsumexp: overflows": ("logsumexp", "x - largest", "x"),
        "logsumexp: maximum of everything": ("logsumexp", "x.max(axis=-1, keepdims=True)", "np.full_like(x[..., :1], x.max())"),
    }),
    *edits(of("cross_entropy"), "study.exercises.course.rows", {
        "cross_entropy: mean over all": ("cross_entropy_backward", "/ len(rows)", "/ len(logits)"),
        "cross_entropy: dout ignored": ("cross_entropy_backward", "dout * p", "p"),
    }),
    *edits(of("embedding"), "study.exercises.course.lookup", {
        "embedding: adds once": ("embedding_backward", "np.add.at(dweight, ids, dout)", "dweight[ids] += dout"),
    }),
    *edits((COURSE, "-k", "product and apart"), "study.mistakes.broadcast", {
        "mistakes: the mean of copies is their sum": ("mean_of_copies", "g.mean(front).mean(ones", "g.sum(front).sum(ones"),
        "mistakes: axes from the front are right": ("from_the_front", "return sum_of_ones(g, a).sum(front)", "return unbroadcast(g, a)"),
    }),
    *edits((COURSE, "-k", "embedding and apart"), "study.mistakes.lookup", {
        "mistakes: adding once is adding": ("add_once", "dweight[ids] += dout", "np.add.at(dweight, ids, dout)"),
        "mistakes: the first is the last": ("keep_first", "reversed(list(np.ndindex(ids.shape)))", "np.ndindex(ids.shape)"),
    }),
]
