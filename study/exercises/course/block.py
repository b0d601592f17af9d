"""Parts put together: a whole block, and an embedding that also reads out."""
import numpy as np

from study.exercises.exercise import Argument, Exercise, below
from study.mistakes.solutions import routine_of
from study.mistakes.textbook.attention import attention

ADDING = "np.add.at(dweight, ids, rows)"


def normalise(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return centred * rstd, rstd


def normalise_backward(dn, n, rstd):
    shift = dn.mean(axis=-1, keepdims=True)
    stretch = (dn * n).mean(axis=-1, keepdims=True)
    dx = rstd * (dn - shift - n * stretch)
    return dx


def causal_weights(q, k):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    masked = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    e = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def for_weight(dy, x):  # of y = x @ w.T: each sequence of the batch uses w
    products = np.swapaxes(dy, -1, -2) @ x
    dw = products.sum(axis=0)
    return dw


# A whole block


def block(x, wq, wk, wv, w1, w2):
    n = normalise(x)[0]
    h = x + causal_weights(n @ wq.T, n @ wk.T) @ (n @ wv.T)
    return h + np.tanh(normalise(h)[0] @ w1.T) @ w2.T


def block_backward(dout, x, wq, wk, wv, w1, w2):
    # forward, to have what backward needs
    n1, rstd1 = normalise(x)
    q, k, v = n1 @ wq.T, n1 @ wk.T, n1 @ wv.T
    attended = causal_weights(q, k) @ v
    h = x + attended
    n2, rstd2 = normalise(h)
    inner = n2 @ w1.T
    hidden = np.tanh(inner)

    # out = h + hidden @ w2.T
    dw2 = for_weight(dout, hidden)
    dinner = dout @ w2 * (1 - hidden**2)
    dw1 = for_weight(dinner, n2)
    dh = dout + normalise_backward(dinner @ w1, n2, rstd2)

    # h = x + attended
    causal = np.tri(x.shape[-2], dtype=bool)
    dq, dk, dv = attention(dh, q, k, v, causal)

    # q, k, v = n1 @ wq.T, n1 @ wk.T, n1 @ wv.T
    dn1 = dq @ wq + dk @ wk + dv @ wv
    dx_norm = normalise_backward(dn1, n1, rstd1)
    dwq, dwk, dwv = for_weight(dq, n1), for_weight(dk, n1), for_weight(dv, n1)
    return dh + dx_norm, dwq, dwk, dwv, dw1, dw2


BLOCK = routine_of(block_backward, ("dx", "dwq", "dwk", "dwv", "dw1", "dw2"), {
    "no residual at the MLP": ("h goes straight to the output too: its gradient, dout itself, is missing in dh",
                               "dh = normalise_backward(dinner @ w1, n2, rstd2)"),
    "no residual at attention": ("x goes straight into h too: dh itself is missing in dx",
                                 "return dx_norm, dwq, dwk, dwv, dw1, dw2"),
    "no residuals": ("both residual connections are missing: dout belongs to dh, and dh to dx",
                     "dh = normalise_backward(dinner @ w1, n2, rstd2); return dx_norm, dwq, dwk, dwv, dw1, dw2"),
    "residual at the MLP twice": ("the residual around the MLP is counted twice",
                                  "dh = 2 * dout + normalise_backward(dinner @ w1, n2, rstd2)"),
    "residual at attention twice": ("the residual around attention is counted twice",
                                    "return 2 * dh + dx_norm, dwq, dwk, dwv, dw1, dw2"),
    "attention gets dout": ("attention's output gets dout: h also reaches the output through the second norm and the "
                            "MLP, so it gets all of dh", "dq, dk, dv = attention(dout, q, k, v, causal)"),
    "both sublayers from x": ("backward runs the second norm on x: it is h = x + attention that goes into it", "h = x"),
    "attention only into the norm": ("backward's h lacks the residual: h = x + attention", "h = attended"),
    "no mask": ("backward's weights are computed without the causal mask",
                "masked = scores; causal = True"),
    "no row sum": ("softmax's sum over the row is missing: every weight depends on every score of its row",
                   "dscores = weights * dweights"),
    "diagonal only": ("softmax's backward has only the diagonal of its Jacobian",
                      "dscores = weights * (dweights - weights * dweights)"),
    "no scale": ("1 / sqrt(d) is missing in dq and dk",
                 "dq = dscores @ k; dk = np.swapaxes(dscores, -1, -2) @ q"),
    "scale of the width": ("the scale is 1 / sqrt(C): it goes by the width of q and k, 1 / sqrt(d)",
                           "dq = dscores @ k / np.sqrt(v.shape[-1]); "
                           "dk = np.swapaxes(dscores, -1, -2) @ q / np.sqrt(v.shape[-1])"),
    "no slope": ("tanh's slope, 1 - tanh^2, is missing", "dinner = dout @ w2"),
    "slope of the inner": ("tanh's slope is 1 - tanh(a)^2: a is there without the tanh",
                           "dinner = dout @ w2 * (1 - inner**2)"),
    "slope without the square": ("tanh's slope is 1 - tanh^2: the square is missing",
                                 "dinner = dout @ w2 * (1 - hidden)"),
    "w2 without tanh": ("w2 multiplies tanh(...): its gradient uses the tanh's input",
                        "dw2 = for_weight(dout, inner)"),
    "w1 without norm": ("w1 multiplies norm(h): its gradient takes h itself", "dw1 = for_weight(dinner, h)"),
    "wq, wk, wv without norm": ("wq, wk and wv multiply norm(x): their gradients take x itself",
                                "dwq, dwk, dwv = for_weight(dq, x), for_weight(dk, x), for_weight(dv, x)"),
    "norms without the mean": ("in both norms the path through the mean is missing", "shift = 0.0"),
    "norms without the variance": ("in both norms the path through the variance is missing", "stretch = 0.0"),
    "norms' statistics constant": ("both norms take mean and variance as constants", "shift = 0.0; stretch = 0.0"),
    "norms' sums for means": ("in both norms sums replace means",
                              "shift = dn.sum(axis=-1, keepdims=True); stretch = (dn * n).sum(axis=-1, keepdims=True)"),
    "first norm at h": ("the first norm's backward is taken at h: its input was x",
                        "dx_norm = normalise_backward(dn1, n2, rstd2)"),
    "second norm at x": ("the second norm's backward is taken at x: its input was h",
                         "dh = dout + normalise_backward(dinner @ w1, n1, rstd1)"),
    "norms without rstd": ("in both norms nothing is divided by the deviation", "dx = dn - shift - n * stretch"),
    "query's path only": ("norm(x) is used three times: the paths through k and v are missing in dx", "dn1 = dq @ wq"),
    "query's path missing": ("norm(x) is used three times: the path through q is missing in dx",
                             "dn1 = dk @ wk + dv @ wv"),
    "key's path missing": ("norm(x) is used three times: the path through k is missing in dx", "dn1 = dq @ wq + dv @ wv"),
    "value's path missing": ("norm(x) is used three times: the path through v is missing in dx", "dn1 = dq @ wq + dk @ wk"),
    "value's path only": ("norm(x) is used three times: the paths through q and k are missing in dx", "dn1 = dv @ wv"),
    "batch averaged": ("the weights' gradients are averaged over the batch: uses add up", "dw = products.mean(axis=0)"),
    "first of the batch": ("the weights' gradients are those of the first sequence only: all of the batch use the "
                           "weights", "dw = products[0]"),
    "batch not summed": ("the weights' gradients still have the batch's axis: sum over it, as all of the batch use the "
                         "weights", "dw = products"),
    "dwq and dwk exchanged": ("dwq and dwk are exchanged", "return dh + dx_norm, dwk, dwq, dwv, dw1, dw2"),
})

def large_scores(generator):
    """The block's inputs, with scores up to 1000 in attention."""
    shapes = {"x": (2, 4, 3), "wq": (2, 3), "wk": (2, 3), "wv": (3, 3), "w1": (5, 3), "w2": (3, 5)}
    inputs = {name: generator.normal(size=shape) for name, shape in shapes.items()}
    n, _ = normalise(inputs["x"])
    largest = np.abs(n @ inputs["wq"].T @ np.swapaxes(n @ inputs["wk"].T, -1, -2)).max() / np.sqrt(2)
    return inputs | {"wq": inputs["wq"] * 1000 / largest}


# A tied embedding


def tied_embedding(ids, weight):
    return np.tanh(weight[ids]) @ weight.T


def tied_embedding_backward(dout, ids, weight):
    hidden = np.tanh(weight[ids])
    rows = dout @ weight * (1 - hidden**2)
    dweight = dout.reshape(-1, len(weight)).T @ hidden.reshape(-1, weight.shape[1])  # as the matrix that reads out
    np.add.at(dweight, ids, rows)  # as the table that embeds
    return dweight


TIED = routine_of(tied_embedding_backward, ("dweight",), {
    "read-out only": ("only the path of the read-out is there: the same matrix embeds as well, and both gradients add",
                      "rows = 0 * hidden"),
    "embedding only": ("only the path of the embedding is there: the same matrix reads out as well, and both gradients"
                       " add", "dweight = np.zeros_like(weight)"),
    "averaged": ("the mean of the two paths replaces their sum", "return dweight / 2"),
    "overwritten": ("the embedding's rows overwrite what the read-out has put there: add them, once for each use",
                    "dweight[ids] = rows", ADDING),
    "repeated ids once": ("dweight[ids] += ... adds only once for an id that repeats: np.add.at adds each time",
                          "dweight[ids] += rows", ADDING),
    "no slope": ("tanh's slope, 1 - tanh^2, is missing on the way to the embedding", "rows = dout @ weight"),
    "slope without the square": ("tanh's slope is 1 - tanh^2: the square is missing",
                                 "rows = dout @ weight * (1 - hidden)"),
    "no tanh": ("the tanh between embedding and read-out is forgotten", "hidden = weight[ids]; rows = dout @ weight"),
})


EXERCISES = [
    Exercise(
        "tied_embedding", "A tied embedding", 3, """
        Many language models use one matrix twice: its rows embed the tokens, and at the end the scores of the next token
        are products with the same rows. That saves many parameters. Here a tanh stands for the model in between. Given
        is the gradient of the scores; find that of the matrix. As always when something is used twice, it is a sum. And
        an id may occur in several places.
        """,
        "out = tanh(weight[ids]) @ weight.T", "8. Gradients add",
        {"ids": Argument("B T", below("V"), "the tokens: each names a row of weight"),
         "weight": Argument("V C", about="the matrix that embeds and reads out: a row for each token")},
        ("Give the two uses two names, out = tanh(a[ids]) @ b.T. What is da, and what is db?",
         "As read-out: the sum over all places of dout^T tanh(weight[ids]). As embedding: dout @ weight goes back through "
         "tanh, and each place's row goes to the row of its id.",
         "Reshape dout to (B T, V) and the hidden rows to (B T, C) for dweight = dout.T @ hidden; then "
         "np.add.at(dweight, ids, (dout @ weight) * (1 - hidden**2))."),
        tied_embedding_backward, TIED, tied_embedding,
        special=(lambda r: {"ids": np.array([2, 0, 2, 2]), "weight": r.normal(size=(4, 3))},
                 lambda r: {"ids": np.array([[1, 1, 1], [0, 1, 0]]), "weight": r.normal(size=(2, 2))}),
    ),
    Exercise(
        "block", "A whole block", 5, """
        A block of a transformer, with its norms before the sublayers, as in GPT-2: causal attention with one head, then an
        MLP, each with a residual connection around it. To keep it short, the norms have neither weight nor bias (eps is
        1e-5), nothing projects attention's output, and the MLP has a tanh. Nothing here is new: you have the backward
        of each part from earlier exercises. What counts is what is used twice: x, h, norm(x), and the weights, which all
        sequences of the batch share. Return dx, dwq, dwk, dwv, dw1, dw2.
        """,
        "n = norm(x);  h = x + attention(n @ wq.T, n @ wk.T, n @ wv.T);  out = h + tanh(norm(h) @ w1.T) @ w2.T\n"
        "norm(x) = (x - mean) / sqrt(var + 1e-5);  attention(q, k, v) = softmax(q @ k^T / sqrt(d), causal) @ v",
        "23. A whole block",
        {"x": Argument("B T C", about="B sequences of T tokens, each of C numbers"),
         "wq": Argument("D C", about="makes queries of width d = D"), "wk": Argument("D C", about="makes keys"),
         "wv": Argument("C C", about="makes values, as wide as x"),
         "w1": Argument("F C", about="the MLP's first layer"), "w2": Argument("C F", about="its second layer")},
        ("Write the forward with a name for each value, one operation a line. Then go through the lines from the last to "
         "the first; each value's gradient is complete once all lines that use it have been passed.",
         "h is used by the second norm and by the output: dh = dout + (what comes back through norm and MLP). In the same "
         "way dx = dh + (what comes back through norm and attention); norm(x) gets three gradients, from q, k and v.",
         "A weight of y = x @ w.T gets the sum over the batch of dy^T @ x: (np.swapaxes(dy, -1, -2) @ x).sum(axis=0). "
         "dp = dh @ v^T, dv = p^T @ dh, dscores = p * (dp - row sum of p * dp), dq = dscores @ k / sqrt(d)."),
        block_backward, BLOCK, block, beyond={"scores around 1000": large_scores},
    ),
]
