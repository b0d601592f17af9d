"""Gradients in training, and two derivatives that are not gradients."""
import numpy as np

from study.exercises.exercise import Argument, Exercise, below
from study.mistakes.solutions import routine_of


def between(low: float, high: float):
    """A random number."""
    return lambda generator, shape, sizes: round(float(generator.uniform(low, high)), 3)


def positive(generator, shape, sizes):
    return generator.uniform(0.2, 2.0, size=shape)


# Clipping by the global norm


def clip_by_global_norm(da, db, dc, max_norm):
    squares = [(g**2).sum() for g in (da, db, dc)]
    norm = np.sqrt(sum(squares))
    factor = max_norm / norm if norm > max_norm else 1.0
    return da * factor, db * factor, dc * factor


CLIPPED = routine_of(clip_by_global_norm, ("da", "db", "dc"), {
    "each by its own norm": ("each array is clipped by its own norm, so the step points elsewhere; there is one norm, "
                             "of all arrays together, and one factor",
                             "return tuple(g * np.minimum(1, max_norm / np.sqrt((g**2).sum())) for g in (da, db, dc))"),
    "always scaled": ("gradients whose norm is below max_norm are stretched to it: they are to stay as they are",
                      "factor = max_norm / norm"),
    "by value": ("each entry is clipped to [-max_norm, max_norm]: that is clipping by value, and it changes the "
                 "direction", "return tuple(np.clip(g, -max_norm, max_norm) for g in (da, db, dc))"),
    "never": ("nothing is clipped: the gradients come out as they went in", "factor = 1.0"),
    "max for min": ("short gradients are stretched and long ones left: it should be the smaller of 1 and max_norm / norm",
                    "factor = np.maximum(1, max_norm / norm)"),
    "ratio upside down": ("the factor is upside down: it is max_norm / norm, not norm / max_norm",
                          "factor = norm / max_norm if norm > max_norm else 1.0"),
    "to norm 1": ("long gradients get norm 1 instead of max_norm", "factor = 1 / norm if norm > max_norm else 1.0"),
    "eps in the norm": ("a small number is added to the norm (PyTorch adds 1e-6): where norm > max_norm it can't be 0,"
                        " so nothing needs to be added, and the result is exact without",
                        "factor = np.minimum(1, max_norm / (norm + 1e-6))"),
    "no root": ("the root is missing: the norm is the root of the sum of the squares", "norm = sum(squares)"),
    "sum of norms": ("the arrays' norms are added up: norms don't add, their squares do", "norm = sum(np.sqrt(squares))"),
    "sum of absolute values": ("that is the sum of absolute values (the 1-norm); it should be the root of the sum of "
                               "squares", "norm = sum(np.abs(g).sum() for g in (da, db, dc))"),
    "largest entry": ("that is the largest absolute value of all: it should be the root of the sum of squares",
                      "norm = max(np.abs(g).max() for g in (da, db, dc))"),
    "mean of squares": ("squares are averaged instead of added: the norm doesn't divide by the number of entries",
                        "squares = [(g**2).mean() for g in (da, db, dc)]"),
})

# Adam


def adam_step(parameter, gradient, m, v, t, lr, beta1, beta2, eps):
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    root = np.sqrt(v_hat) + eps
    step = lr * m_hat / root
    return parameter - step, m, v


ADAM = routine_of(adam_step, ("parameter", "m", "v"), {
    "no bias correction": ("the bias correction is missing: m and v start at 0, so early on they are too small, by the "
                           "factor 1 - beta^t", "m_hat = m; v_hat = v"),
    "m not corrected": ("m isn't divided by 1 - beta1^t: early steps are too short", "m_hat = m"),
    "v not corrected": ("v isn't divided by 1 - beta2^t: early steps are too long", "v_hat = v"),
    "correction without t": ("the bias correction divides by 1 - beta: it should be 1 - beta^t, which tends to 1",
                             "m_hat = m / (1 - beta1); v_hat = v / (1 - beta2)"),
    "beta t for beta^t": ("beta * t replaces beta to the power of t",
                          "m_hat = m / (1 - beta1 * t); v_hat = v / (1 - beta2 * t)"),
    "multiplied by the correction": ("the bias correction multiplies by 1 - beta^t: it should divide",
                                     "m_hat = m * (1 - beta1**t); v_hat = v * (1 - beta2**t)"),
    "t from 0": ("the steps are counted from 0: the first step has t = 1, and with t = 0 the correction would divide "
                 "by 0", "t = t - 1"),
    "t one ahead": ("t is raised once too often: it already counts this step", "t = t + 1"),
    "corrected moments kept": ("the corrected m and v are handed back: the next step needs them uncorrected, or they are "
                               "corrected twice", "return parameter - step, m_hat, v_hat"),
    "old moments": ("the parameter moves by the m and v from before the step: update them first",
                    "m_hat = (m - (1 - beta1) * gradient) / beta1 / (1 - beta1**t); "
                    "v_hat = np.maximum(v - (1 - beta2) * gradient**2, 0) / beta2 / (1 - beta2**t)"),
    "old m": ("the parameter moves by the m from before the step: update it first",
              "m_hat = (m - (1 - beta1) * gradient) / beta1 / (1 - beta1**t)"),
    "old v": ("the parameter's step is divided by the v from before it: update it first",
              "v_hat = np.maximum(v - (1 - beta2) * gradient**2, 0) / beta2 / (1 - beta2**t)"),
    "correction without its root": ("m is multiplied by 1 - beta2^t: v's correction is in the root, so it is its root",
                                    "m_hat = m * np.sqrt(1 - beta2**t) / (1 - beta1**t)"),
    "eps in the root": ("eps is added inside the root: it belongs outside, sqrt(v_hat) + eps",
                        "root = np.sqrt(v_hat + eps)"),
    "eps before the correction": ("eps is added to sqrt(v) before v is corrected: it belongs to sqrt(v_hat)",
                                  "root = (np.sqrt(v) + eps) / np.sqrt(1 - beta2**t)"),
    "no eps": ("eps is missing: where all gradients were 0 the step is 0 / 0", "root = np.sqrt(v_hat)"),
    "no root": ("the root of v_hat is missing: the step would depend on the gradient's scale", "root = v_hat + eps"),
    "uphill": ("the sign is wrong: this goes uphill, the step is subtracted", "return parameter + step, m, v"),
    "update only": ("lr is missing", "step = m_hat / root"),
    "not squared": ("v takes the gradient itself: it needs its square", "v = beta2 * v + (1 - beta2) * gradient"),
    "absolute value": ("v takes the gradient's absolute value: it needs its square",
                       "v = beta2 * v + (1 - beta2) * np.abs(gradient)"),
    "betas exchanged": ("beta1 and beta2 are exchanged: beta1 is for m, beta2 for v", "beta1, beta2 = beta2, beta1"),
    "beta1 for both": ("v is averaged with beta1: it has beta2", "beta2 = beta1"),
    "m the other way": ("the weights in m are exchanged: beta1 keeps the old m, 1 - beta1 is for the gradient",
                        "m = (1 - beta1) * m + beta1 * gradient"),
    "v the other way": ("the weights in v are exchanged: beta2 keeps the old v, 1 - beta2 is for the square",
                        "v = (1 - beta2) * v + beta2 * gradient**2"),
    "m as a sum": ("the gradient's weight in m, 1 - beta1, is missing: m is an average, not SGD's momentum",
                   "m = beta1 * m + gradient"),
    "v as a sum": ("the square's weight in v, 1 - beta2, is missing", "v = beta2 * v + gradient**2"),
})
ADAM_ARGUMENTS = ADAM.arguments


def first_step(r):
    """m = v = 0, and a parameter whose gradient is 0."""
    gradient = r.normal(size=(2, 3))
    gradient[0, 1] = 0.0
    return dict(zip(ADAM_ARGUMENTS, (r.normal(size=(2, 3)), gradient, np.zeros((2, 3)), np.zeros((2, 3)), 1, 1e-2,
                                     0.9, 0.999, 1e-8)))


def late_step(r):
    a = [r.normal(size=(3,)) for _ in range(3)]
    return dict(zip(ADAM_ARGUMENTS, (*a, r.uniform(0.1, 2, size=3), 5000, 1e-3, 0.9, 0.999, 1e-8)))


# Forward mode


def layer_norm_jvp(x, weight, bias, eps, vx, vweight, vbias):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = centred * rstd
    shift = vx.mean(axis=-1, keepdims=True)
    stretch = (x_hat * vx).mean(axis=-1, keepdims=True)
    vx_hat = rstd * (vx - shift - x_hat * stretch)
    by_x = vx_hat * weight
    by_weight = x_hat * vweight
    return by_x + by_weight + vbias


LAYER_NORM_JVP = routine_of(layer_norm_jvp, ("vout",), {
    "backward": ("that is the backward: vx is multiplied by the weight before the norm; forward mode goes the way of the "
                 "forward, and multiplies by the weight at the end", "vx = vx * weight; by_x = vx_hat"),
    "no way of the weight": ("the weight moves too: x_hat * vweight is missing", "by_weight = 0.0"),
    "no way of the bias": ("the bias moves too: + vbias is missing", "vbias = 0.0"),
    "bias for vbias": ("the bias itself is added: what is asked for is how the output moves, so it is vbias",
                       "vbias = bias"),
    "weight's way with x": ("the weight's way has x for x_hat", "by_weight = x * vweight"),
    "only through x_hat": ("vx_hat isn't multiplied by the weight", "by_x = vx_hat"),
    "no mean term": ("the mean moves too: - mean(vx) is missing", "shift = 0.0"),
    "no variance term": ("the variance moves too: - x_hat * mean(x_hat * vx) is missing", "stretch = 0.0"),
    "statistics constant": ("mean and variance are taken as constants: both move with x", "shift = 0.0; stretch = 0.0"),
    "sums for means": ("sums over the row replace the means",
                       "shift = vx.sum(axis=-1, keepdims=True); stretch = (x_hat * vx).sum(axis=-1, keepdims=True)"),
    "N - 1": ("N - 1 instead of N in the variance's term",
              "stretch = (x_hat * vx).sum(axis=-1, keepdims=True) / max(x.shape[-1] - 1, 1)"),
    "no rstd": ("vx_hat isn't divided by the deviation", "vx_hat = vx - shift - x_hat * stretch"),
    "rstd squared": ("vx_hat is divided by the variance instead of the deviation",
                     "vx_hat = rstd**2 * (vx - shift - x_hat * stretch)"),
    "no eps": ("eps is missing", "eps = 0.0"),
})
JVP_ARGUMENTS = LAYER_NORM_JVP.arguments

# A Hessian, times a vector


def cross_entropy_hvp(x, weight, targets, v):
    scores = x @ weight.T
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    vscores = x @ v.T
    mean = (p * vscores).sum(axis=-1, keepdims=True)
    vp = p * (vscores - mean)
    return vp.T @ x / len(x)


CROSS_ENTROPY_HVP = routine_of(cross_entropy_hvp, ("hv",), {
    "gradient moved along": ("1 is subtracted at the target: that belongs to the gradient; it is a constant, and "
                             "doesn't move with weight", "vp = p * (vscores - mean) - np.eye(len(weight))[targets]"),
    "gradient": ("that is the gradient, dweight, and v is not used: how does it move along v?",
                 "vp = p - np.eye(len(weight))[targets]"),
    "no row sum": ("softmax's sum over the row is missing: all scores of a row move all its probabilities", "mean = 0.0"),
    "diagonal only": ("p (1 - p) is only the diagonal of softmax's Jacobian: all scores of a row move all its "
                      "probabilities", "mean = p * vscores"),
    "row mean": ("the mean over the row replaces the sum in softmax's derivative",
                 "mean = (p * vscores).mean(axis=-1, keepdims=True)"),
    "no p": ("vp isn't multiplied by p", "vp = vscores - mean"),
    "not divided": ("the loss is a mean: the division by the number of rows is missing", "return vp.T @ x"),
    "divided by all": ("divided by the number of scores: the mean is over the rows only", "return vp.T @ x / x.size"),
    "weight for v": ("the scores replace their movement along v, which is x @ v.T",
                     "vscores = x @ weight.T"),
    "sign": ("the sign is wrong", "return -vp.T @ x / len(x)"),
})


EXERCISES = [
    Exercise(
        "clip_by_global_norm", "Clipping by the global norm", 1, """
        One bad batch can make a gradient so long that its step destroys what was learned. Training therefore clips: if
        the norm of all gradients together, as one long vector, exceeds max_norm, all are multiplied by the one factor
        that makes it max_norm; else they stay as they are. So the direction of the step never changes. Given are three
        gradients and max_norm; return the three clipped ones. Add no small number to the norm: the result is exact.
        """,
        "norm = sqrt(sum of the squares of all entries of da, db and dc);  each g -> g * min(1, max_norm / norm)",
        "",
        {"da": Argument("M N", about="the gradient of one parameter"),
         "db": Argument("N", about="that of another one"),
         "dc": Argument("K M", about="and of a third"),
         "max_norm": Argument("", between(0.3, 1.5), "a number: the longest that all gradients together may be")},
        ("How long is the vector that has the entries of all three arrays, one after the other?",
         "The squares of all entries add up to norm^2. Compute the norm once, before you scale anything.",
         "If norm > max_norm, multiply all three by max_norm / norm; else return them unchanged (all zeros, too)."),
        clip_by_global_norm, CLIPPED, stub="# multiply all three by the same factor, where they are too long",
        special=(
            lambda r: {"da": r.normal(size=(2, 3)), "db": r.normal(size=3), "dc": r.normal(size=(1, 2)), "max_norm": 50.0},
            lambda r: {"da": 3 * r.normal(size=(2, 3)), "db": 0.1 * r.normal(size=3), "dc": r.normal(size=(1, 2)),
                       "max_norm": 5.0},
            lambda r: {"da": np.zeros((2, 2)), "db": np.zeros(2), "dc": np.zeros((3, 2)), "max_norm": 1.0}),
    ),
    Exercise(
        "adam_step", "One step of Adam", 2, """
        Adam moves each entry of a parameter by about lr, however large its gradients are: it divides a running mean of
        the gradients (m) by the root of a running mean of their squares (v). Both start at 0, so early on they are too
        small, and each is corrected by 1 - beta^t. Given are the parameter, its gradient, m and v from before this step,
        and t, which counts the steps from 1 and already counts this one. Return the new parameter, m and v; what is kept
        in m and v is not corrected. Leave the arrays that you are given as they are.
        """,
        "m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;\n"
        "parameter - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)",
        "",
        {"parameter": Argument("M N", about="the values that are learned"),
         "gradient": Argument("M N", about="the loss's gradient there"),
         "m": Argument("M N", about="the running mean of the gradients, from before this step"),
         "v": Argument("M N", positive, "the running mean of their squares, from before this step"),
         "t": Argument("", lambda r, shape, sizes: int(r.integers(2, 12)), "which step this is: 1 for the first"),
         "lr": Argument("", between(0.01, 0.3), "the learning rate"),
         "beta1": Argument("", between(0.5, 0.9), "how much of m stays"),
         "beta2": Argument("", between(0.9, 0.99), "how much of v stays"),
         "eps": Argument("", between(0.01, 0.1), "added to the root, so that nothing is divided by 0")},
        ("Do it in the order of the formula: first the new m and v, then the corrected ones, then the parameter.",
         "Give the corrected values names of their own, m_hat and v_hat: m and v are returned without the correction.",
         "parameter - lr * m_hat / (np.sqrt(v_hat) + eps), with m_hat = m / (1 - beta1**t) and the same for v and beta2."),
        adam_step, ADAM, stub="# new values of all three", special=(first_step, late_step),
    ),
    Exercise(
        "layer_norm_jvp", "Forward mode: layer norm", 4, """
        Backward asks how one number depends on everything; forward mode asks how everything moves if the inputs move. It
        needs no tape: each value travels with its velocity, and the velocities of all inputs add up. Given are the inputs
        of layer norm and the velocity of each (vx is how x moves, and so on); find vout, how the output moves, without
        building a Jacobian. It has the shape of the output. Many use it to check a backward: for any dout,
        sum(dout * vout) equals sum(dx * vx) + sum(dweight * vweight) + sum(dbias * vbias).
        """,
        "out = x_hat * weight + bias, x_hat = (x - mean) / sqrt(var + eps), both over the last axis, var divided by N",
        "19. Layer norm",
        {"x": Argument("M N", about="each row along the last axis is normalised"),
         "weight": Argument("N", about="the gain"), "bias": Argument("N", about="added at the end"),
         "eps": Argument("", between(0.05, 0.5), "added to the variance; a constant"),
         "vx": Argument("M N", about="how x moves"), "vweight": Argument("N", about="how the weight moves"),
         "vbias": Argument("N", about="how the bias moves")},
        ("Differentiate line by line, in the order of the forward: how does the mean move, the variance, x_hat, out?",
         "out is x_hat * weight + bias: by the product rule, vout = vx_hat * weight + x_hat * vweight + vbias.",
         "vx_hat = rstd * (vx - mean(vx) - x_hat * mean(x_hat * vx)), means over the last axis and rstd = "
         "1 / sqrt(var + eps)."),
        layer_norm_jvp, LAYER_NORM_JVP, stub="vout = np.zeros_like(x)  # your formula",
        special=(lambda r: dict(zip(JVP_ARGUMENTS, (5 + r.normal(size=(2, 3, 4)), 1 + r.normal(size=4), r.normal(size=4),
                                                    1e-5, r.normal(size=(2, 3, 4)), r.normal(size=4), r.normal(size=4)))),),
    ),
    Exercise(
        "cross_entropy_hvp", "A Hessian times a vector", 5, """
        The Hessian says how the gradient changes if the weights move: it tells sharp from flat minima, and which step is
        safe. It has (V C)^2 entries and is never built; its product with one direction v costs no more than a gradient.
        Given are a linear layer without bias, the rows x that it sees, their right classes, and v, of the shape of the
        weight. The loss is the mean cross-entropy of the scores x @ weight.T. Find the derivative, along v, of the loss's
        gradient: the gradient at weight + h v, minus the gradient at weight, over h, as h goes to 0.
        """,
        "loss = mean over rows of (log(sum of e^scores) - scores[target]), scores = x @ weight.T;\n"
        "dweight = (p - one_hot(targets)).T @ x / N, p = softmax(scores);  hv = d/dh dweight(weight + h v) at h = 0",
        "21. Cross-entropy",
        {"x": Argument("N C", about="the rows that the layer sees; a constant"),
         "weight": Argument("V C", about="one row for each class"),
         "targets": Argument("N", below("V"), "the right class of each row, from 0 to V - 1"),
         "v": Argument("V C", about="the direction in which the weight moves")},
        ("Which parts of dweight depend on weight at all? Only those move along v.",
         "Scores move by vscores = x @ v.T. How do p's rows move then? The Jacobian of a row is diag(p) - p p^T.",
         "vp = p * (vscores - sum(p * vscores) of the row), and hv = vp.T @ x / N. The targets are not needed."),
        cross_entropy_hvp, CROSS_ENTROPY_HVP, stub="hv = np.zeros_like(weight)  # your formula",
        special=(lambda r: {"x": r.normal(size=(4, 2)), "weight": 20 * r.normal(size=(3, 2)),
                            "targets": np.array([0, 2, 2, 1]), "v": r.normal(size=(3, 2))},),
    ),
]
