"""Layer norm, RMS norm, and a norm with a residual connection."""

from study.exercises.exercise import Argument, Exercise
from study.mistakes.base import ROUTINES
from study.mistakes.textbook.norms import (
    layer_norm, layer_norm_backward, residual_norm, residual_norm_backward, rms_norm, rms_norm_backward,
)


def either_eps(generator, shape, sizes):
    return float(generator.choice([1e-5, 0.1]))


X = Argument("T D", about="one row of D features for each token; there may be leading axes, as in (B, T, D)")
WEIGHT = Argument("D", about="what each feature is multiplied by, the same for all rows")
BIAS = Argument("D", about="what is added to each feature, the same for all rows")
EPS = Argument("", either_eps, "a small number inside the square root, such as 1e-5; take the one that you are given")


def inputs_of_norms(*learned):
    """Draws of x, the learned arguments and eps in which eps matters, or something else that is easily overlooked."""
    def draw(x, eps):
        def inputs(generator):
            rows = x(generator)
            return {"x": rows, **{name: generator.normal(size=rows.shape[-1]) for name in learned}, "eps": eps}
        return inputs

    def constant_rows(r):
        x = r.normal(size=(3, 4))
        x[1] = 2.0
        return x

    return (
        draw(lambda r: 1 + 1e-3 * r.normal(size=(3, 5)), 1e-5),  # the variance is smaller than eps
        draw(lambda r: 3 + 0.1 * r.normal(size=(5, 2)), 0.1),
        draw(constant_rows, 1e-5),
        draw(constant_rows, 0.1),
        draw(lambda r: 5 + 100 * r.normal(size=(4, 3)), 1e-5),
        draw(lambda r: r.normal(size=(3, 3, 3)), 0.1),
        draw(lambda r: r.normal(size=(2, 3, 2, 5)), 1e-5),
    )


EXERCISES = [
    Exercise(
        "layer_norm", "Layer norm", 4, """
        layer_norm shifts each row of x to mean 0, scales it to variance 1 (the sum of squares over N, not over N - 1), and
        then multiplies each feature by its weight and adds its bias. A block of a transformer does this twice. Mean and
        variance depend on the whole row, so dx has three terms, and two of them are easily forgotten.
        Find dx, dweight and dbias. x may have leading axes, as in (B, T, D).
        """,
        "c = x - mean(x);  x_hat = c / sqrt(mean(c^2) + eps);  out = x_hat * weight + bias   (means along the last axis)",
        "19. Layer norm", {"x": X, "weight": WEIGHT, "bias": BIAS, "eps": EPS},
        ("Start at the end: every row uses the same weight and bias. What does this say of dweight and dbias? And what is "
         "dx_hat, the gradient of x_hat?",
         "x_hat = c * rstd is a product, and both factors depend on x. One path leads through c alone, one through rstd; "
         "and c itself has the mean in it. So there are three terms.",
         "dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat)) with dx_hat = dout * weight. dweight and "
         "dbias are sums over all axes but the last."),
        layer_norm_backward, ROUTINES["layer_norm"], layer_norm,
        shapes=({"x": "B T D"},), special=inputs_of_norms("weight", "bias"),
    ),
    Exercise(
        "rms_norm", "RMS norm", 3, """
        rms_norm divides each row of x by its root mean square, and multiplies each feature by its weight. It is layer norm
        without the mean, and most language models of today use it instead. Every x of a row is part of the root mean
        square, so every x reaches all outputs of its row.
        Find dx and dweight. x may have leading axes, as in (B, T, D).
        """,
        "x_hat = x / sqrt(mean(x^2) + eps);  out = x_hat * weight   (the mean along the last axis)",
        "19. Layer norm", {"x": X, "weight": WEIGHT, "eps": EPS},
        ("Write r for 1 / sqrt(mean(x^2) + eps), so that x_hat = x * r. Both factors depend on x: how many paths are there "
         "from x to the output?",
         "dr/dx_i = -r^3 x_i / N. What comes back to r is one number for each row: the sum of dx_hat * x.",
         "dx = r * (dx_hat - x_hat * mean(dx_hat * x_hat)) with dx_hat = dout * weight, and dweight is the sum of "
         "dout * x_hat over all axes but the last."),
        rms_norm_backward, ROUTINES["scaled_rms_norm"], rms_norm,
        shapes=({"x": "B T D"},), special=inputs_of_norms("weight"),
    ),
    Exercise(
        "residual_norm", "A residual connection around layer norm", 3, """
        A residual connection adds the input of a layer to its output, here x + layer_norm(x). So x is used twice, and its
        gradient comes back on two paths. Nothing is multiplied with it on the direct one, which is why deep networks can
        be trained at all. layer_norm is that of the exercise of this name.
        Find dx, dweight and dbias. x may have leading axes, as in (B, T, D).
        """,
        "out = x + layer_norm(x, weight, bias, eps)", "23. A whole block",
        {"x": X, "weight": WEIGHT, "bias": BIAS, "eps": EPS},
        ("x goes into two terms of a sum. What is the gradient of something that is used twice?",
         "Through the sum, dout reaches both terms unchanged: x itself, and layer_norm's output.",
         "dx = dout + (layer_norm's dx). dweight and dbias are those of layer_norm: the residual knows nothing of them."),
        residual_norm_backward, ROUTINES["residual_norm"], residual_norm,
        shapes=({"x": "B T D"},), special=inputs_of_norms("weight", "bias"),
    ),
]
