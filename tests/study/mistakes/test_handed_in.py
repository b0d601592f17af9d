"""Someone's backward in NumPy: right in any style, or wrong, and told so in its author's terms."""
import math
import pathlib

import numpy as np
from tables import each

import minigrad as mg
from minigrad.gradcheck import gradcheck_report
from study.mistakes import FUNCTIONS, with_backward



def report_on(name, backward, seed=0):
    function = with_backward(name, backward)
    return gradcheck_report(function, function.draw(seed))


def layer_norm_with(deviation):
    """layer_norm's backward, where deviation(x, mean) is its sqrt(variance + eps)."""

    def backward(dout, x, weight, bias):
        mean = x.mean(-1, keepdims=True)
        std = deviation(x, mean)
        x_hat = (x - mean) / std
        g = dout * weight
        dx = (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std
        return dx, (dout * x_hat).sum(0), dout.sum(0)

    return backward


def softmax_by_row(dout, x):
    dx = np.empty_like(x)
    for i, row in enumerate(x):
        p = [math.exp(float(value) - max(row.tolist())) for value in row]
        p = [value / sum(p) for value in p]
        for j in range(len(row)):
            dx[i, j] = p[j] * (float(dout[i, j]) - sum(p[k] * dout[i, k].item() for k in range(len(row))))
    return dx


def softmax_in_place(dout, x):
    p = x - x.max(-1, keepdims=True)
    np.exp(p, out=p)
    p /= np.sum(p, axis=-1, keepdims=True)
    dx = dout.copy()
    dx -= np.einsum("ij,ij->i", dx, p)[:, None]
    dx *= p
    return dx


def softmax_by_jacobian(dout, x):
    e = np.exp(x)
    p = e / e.sum(1).reshape(-1, 1)
    jacobians = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    return (jacobians @ dout[:, :, np.newaxis])[:, :, 0]


def max_with_ties_shared(dout, x):
    is_largest = np.array(x == x.max(axis=-1, keepdims=True), dtype=float)
    return is_largest / is_largest.sum(-1, keepdims=True) * np.expand_dims(dout, -1)


RIGHT = {
    "layer_norm, x.var": ("layer_norm", layer_norm_with(lambda x, mean: np.sqrt(x.var(-1, keepdims=True) + 1e-5))),
    "layer_norm, np.var": ("layer_norm", layer_norm_with(lambda x, mean: np.sqrt(np.var(x, -1, keepdims=True) + 1e-5))),
    "layer_norm, x.std": ("layer_norm", layer_norm_with(lambda x, mean: np.sqrt(x.std(1)[:, None] ** 2 + 1e-5))),
    "layer_norm, by hand": ("layer_norm", layer_norm_with(
        lambda x, mean: (np.square(x - mean).sum(-1, keepdims=True) / x.shape[-1] + 1e-5) ** 0.5)),
    "var, ddof": ("var", lambda dout, x: 2 * dout[:, None] * (x - x.mean(-1)[:, None]) / (x.shape[1] - 1)),
    "softmax, loops": ("softmax", softmax_by_row),
    "softmax, in place": ("softmax", softmax_in_place),
    "softmax, Jacobians": ("softmax", softmax_by_jacobian),
    "softmax, in a tuple": ("softmax", lambda dout, x: (softmax_in_place(dout, x),)),
    "max, x.max": ("max", max_with_ties_shared),
    "sum, a broadcast view": ("sum", lambda dout, x: np.broadcast_to(dout[:, None], x.shape)),
    "matmul, names of its own": ("matmul", lambda upstream, left, right: (upstream.dot(right.T), left.T.dot(upstream))),
    "matmul, any arguments": ("matmul", lambda *given: (given[0] @ given[2].T, given[1].T @ given[0])),
    "embedding, learned only": ("embedding", lambda dout, ids, weight: (
        np.eye(len(weight))[ids].T @ dout)),
    "dropout, all inputs": ("dropout", lambda dout, x, mask: (np.where(mask, dout / 0.6, 0.0), None)),
    "cross_entropy, floats": ("cross_entropy", lambda dout, x, targets: np.array([
        [float(dout) * (math.exp(v) / sum(math.exp(u) for u in row) - (j == t)) / np.sum(targets != -100) if t != -100
         else 0.0 for j, v in enumerate(row)] for row, t in zip(x.tolist(), targets.tolist())])),
}


def test_a_right_backward_passes_in_any_style():
    def passes(style, row):
        for seed in range(2):
            report = report_on(*row, seed)
            assert report, report

    each(RIGHT, passes)
    assert report_on("sum_of_products", lambda dout, x, y: (dout * y, float(dout) * x))  # a number is an array without axes


def test_a_backward_gets_plain_arrays_only():
    seen = set()

    def backward(dout, x):
        seen.update({type(dout), type(x)})
        return dout * (1 - np.tanh(x) ** 2)

    assert report_on("tanh", backward) and seen == {np.ndarray}


def sum_in_the_end(dout, x, weight, bias):
    x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return FUNCTIONS["layer_norm"].gradients(dout, x, weight, bias)[0], dout * x_hat, dout


UNFIT = {  # gradients that do not fit their inputs, and what is said about them
    "bias not summed": ("add", lambda d, a, b: (d, d.copy()), [
        "db has shape (4, 4), and b has shape (4,): sum it over axis 0, along which b was broadcast"]),
    "factor not summed": ("mul", lambda d, a, b: (d * b, d * a), [
        "db has shape (4, 4), and b has shape (1, 4): sum it over axis 0, along which b was broadcast"]),
    "linear's bias not summed": ("linear", lambda d, x, w, b: (d @ w, d.T @ x, d), [
        "dbias has shape (4, 4), and bias has shape (4,): sum it over axis 0"]),
    "weight and bias not summed": ("layer_norm", sum_in_the_end, [
        "dweight has shape (4, 4), and weight has shape (4,): sum it over axis 0",
        "dbias has shape (4, 4), and bias has shape (4,): sum it over axis 0"]),
    "shared factor not summed": ("batched_matmul", lambda d, a, b: (d @ b.swapaxes(1, 2), a.T @ d), [
        "da has shape (3, 3, 3), and a has shape (3, 3): sum it over axis 0"]),
    "keepdims": ("linear", lambda d, x, w, b: (d @ w, d.T @ x, d.sum(0, keepdims=True)), [
        "dbias has shape (1, 4), and bias has shape (4,): drop axis 0, of length 1"]),
    "summed too far": ("linear", lambda d, x, w, b: (d @ w, d.T @ x, d.sum()), [
        "dbias has shape (), and bias has shape (4,)"]),
    "transposed": ("reshape", lambda d, x: d, ["dx has shape (4, 3), and x has shape (3, 4)"]),
    "too few": ("linear", lambda d, x, w, b: (d @ w, d.T @ x), [
        "backward returned 2 gradients, and there are 3 to return: dx, dweight, dbias"]),
    "one of three": ("linear", lambda d, x, w, b: d @ w, ["backward returned 1 gradient, and there are 3 to return"]),
    "too many": ("tanh", lambda d, x: (d, d), ["backward returned 2 gradients, and there is 1 to return: dx"]),
    "nothing": ("tanh", lambda d, x: None, ["dx is None, and x needs a gradient"]),
    "nothing for one": ("linear", lambda d, x, w, b: (d @ w, None, d.sum(0)), ["dweight is None, and weight needs a"]),
    "a list of numbers": ("tanh", lambda d, x: (d * (1 - np.tanh(x) ** 2)).tolist(), [
        "dx is a list, not an array"]),
    "a dict": ("tanh", lambda d, x: {"dx": d}, ["dx is a dict, not an array"]),
    "float32": ("tanh", lambda d, x: (d * (1 - np.tanh(x) ** 2)).astype("f"), ["dx is float32, and x is float64"]),
    "integers": ("abs", lambda d, x: np.sign(x).astype(int), ["dx is int64, and x is float64"]),
    "objects": ("abs", lambda d, x: (d * np.sign(x)).astype(object), ["dx is object, and x is float64"]),
    "complex": ("abs", lambda d, x: d * np.sign(x) + 0j, ["dx is complex128, and x is float64"]),
}


def test_gradients_that_do_not_fit_their_inputs_fail_and_say_why():
    def fails(case, row):
        name, backward, said = row
        report = report_on(name, backward)
        assert report.verdict == "fail" and all(sentence in str(report) for sentence in said), report

    each(UNFIT, fails)


def without_a_transpose(dout, a, b):
    half = 1
    da = np.swapaxes(dout[:, :half], 0, 2)  # raises inside NumPy
    return da, a.T @ dout


def unknown_name(dout, x):
    return helper(x) * dout


def helper(x):
    return 1 - sqaure(np.tanh(x))  # noqa: F821


def divided(dout, x):
    raise ZeroDivisionError("by the student")


RAISES = {  # a backward that raises, the error, and the line that is quoted
    "in a function of NumPy": ("matmul", without_a_transpose, "AxisError: ", "da = np.swapaxes(dout[:, :half], 0, 2)"),
    "in a function that it calls": ("tanh", unknown_name, "NameError: name 'sqaure' is not", "return 1 - sqaure(np.tanh(x))"),
    "by raise": ("tanh", divided, "ZeroDivisionError: by the student", 'raise ZeroDivisionError("by the student")'),
    "for its arguments": ("tanh", lambda dout: dout, "TypeError: ", ""),
}


def test_an_error_is_reported_with_its_line():
    lines = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()

    def is_told(case, row):
        name, backward, error, code = row
        report = report_on(name, backward)
        assert report.verdict == "fail" and error in str(report) and (", in line" in str(report)) == bool(code)
        if code:
            number = next(i for i, line in enumerate(lines, 1) if line.strip().startswith(code))
            assert f", in line {number} of test_handed_in.py: {code}" in str(report)

    each(RAISES, is_told)


def test_an_error_in_a_custom_function_is_reported_with_its_line():
    class Squared(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, dout):
            return dout @ mg.ones(7, 7)

    said = str(gradcheck_report(Squared.apply, mg.ones(2, 3, dtype="float64", requires_grad=True)))
    assert "of test_handed_in.py: return dout @ mg.ones(7, 7)" in said


def test_each_function_says_what_it_computes():
    def says(name, function):
        assert function.statement
        drawn = dict(zip(function.arguments, function.inputs(np.random.default_rng(1)), strict=True))
        for told in (str(function), str(with_backward(name, function.gradients))):
            assert function.statement in told
            assert all(f"{argument} {array.shape}" in told for argument, array in drawn.items())

    each(FUNCTIONS, says)
