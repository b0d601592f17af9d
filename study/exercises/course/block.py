"""What a transformer is put together from: a whole block, and a table that embeds and reads out."""
import numpy as np

from study.exercises.exercise import Argument, Exercise
from study.mistakes.doctor import Known, Routine


def normalise(x):
    """Layer norm without weight and bias, and 1 / deviation of each row."""
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred * rstd, rstd


def turned(a):
    return np.swapaxes(a, -1, -2)


def mean(a):
    return a.mean(-1, keepdims=True)


def row_sum(a):
    return a.sum(-1, keepdims=True)


def causal_weights(q, k):
    scores = np.where(np.tri(q.shape[-2], dtype=bool), q @ turned(k) / np.sqrt(q.shape[-1]), -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / row_sum(e)


# A whole block


def block(x, wq, wk, wv, w1, w2):
    n = normalise(x)[0]
    h = x + causal_weights(n @ wq.T, n @ wk.T) @ (n @ wv.T)
    return h + np.tanh(normalise(h)[0] @ w1.T) @ w2.T


def block_backward(dout, x, wq, wk, wv, w1, w2):
    def normalise(x):
        centred = x - x.mean(axis=-1, keepdims=True)
        rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return centred * rstd, rstd

    def normalise_backward(dn, n, rstd):
        return rstd * (dn - dn.mean(axis=-1, keepdims=True) - n * (dn * n).mean(axis=-1, keepdims=True))

    def turned(a):
        return np.swapaxes(a, -1, -2)

    def for_weight(dy, x):  # of y = x @ w.T: each sequence of the batch uses w
        return (turned(dy) @ x).sum(axis=0)

    # forward, to have what backward needs
    n1, rstd1 = normalise(x)
    q, k, v = n1 @ wq.T, n1 @ wk.T, n1 @ wv.T
    scale = 1 / np.sqrt(q.shape[-1])
    may_look = np.tri(x.shape[1], dtype=bool)
    scores = np.where(may_look, q @ turned(k) * scale, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    h = x + p @ v
    n2, rstd2 = normalise(h)
    hidden = np.tanh(n2 @ w1.T)

    # out = h + hidden @ w2.T
    dw2 = for_weight(dout, hidden)
    dscaled = (dout @ w2) * (1 - hidden**2)
    dw1 = for_weight(dscaled, n2)
    dh = dout + normalise_backward(dscaled @ w1, n2, rstd2)

    # h = x + p @ v
    dp, dv = dh @ turned(v), turned(p) @ dh
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq, dk = dscores @ k * scale, turned(dscores) @ q * scale

    # q, k, v = n1 @ wq.T, n1 @ wk.T, n1 @ wv.T
    dn1 = dq @ wq + dk @ wk + dv @ wv
    dx = dh + normalise_backward(dn1, n1, rstd1)
    return dx, for_weight(dq, n1), for_weight(dk, n1), for_weight(dv, n1), dw1, dw2


def parts_of_block(
    dout, x, wq, wk, wv, w1, w2, *, weights=causal_weights, into_mlp=lambda h, x: h, around_mlp=1.0, around_attention=1.0,
    shift=mean, stretch=mean, rstd_power=1, slope=lambda hidden, inner: 1 - hidden**2,
    mlp_output=lambda hidden, inner: hidden, mlp_input=lambda n2, h: n2, attention_input=lambda n1, x: n1,
    to_attention=lambda dh, dout: dh, total=row_sum, scale=lambda d, c: 1 / np.sqrt(d),
    paths=lambda dq, dk, dv: dq + dk + dv, batch=lambda products: products.sum(0),
    order=lambda dwq, dwk, dwv: (dwq, dwk, dwv),
):
    def norm_backward(dn, n, rstd):
        return rstd**rstd_power * (dn - shift(dn) - n * stretch(dn * n))

    def for_weight(dy, x):
        return batch(turned(dy) @ x)

    n1, rstd1 = normalise(x)
    q, k, v = n1 @ wq.T, n1 @ wk.T, n1 @ wv.T
    p = weights(q, k)
    h = into_mlp(x + p @ v, x)
    n2, rstd2 = normalise(h)
    inner = n2 @ w1.T
    hidden = np.tanh(inner)

    dinner = dout @ w2 * slope(hidden, inner)
    dh = around_mlp * dout + norm_backward(dinner @ w1, n2, rstd2)
    dattended = to_attention(dh, dout)
    dp, dv = dattended @ turned(v), turned(p) @ dattended
    dscores = p * (dp - total(p * dp)) * scale(q.shape[-1], x.shape[-1])
    dq, dk = dscores @ k, turned(dscores) @ q
    dx = around_attention * dh + norm_backward(paths(dq @ wq, dk @ wk, dv @ wv), n1, rstd1)
    dw = (for_weight(d, attention_input(n1, x)) for d in (dq, dk, dv))
    return dx, *order(*dw), for_weight(dinner, mlp_input(n2, h)), for_weight(dout, mlp_output(hidden, inner))


def unmasked_weights(q, k):
    e = np.exp(q @ turned(k) / np.sqrt(q.shape[-1]))
    return e / row_sum(e)


def none(*arrays):
    return 0.0


BLOCK = Routine(
    "block", parts_of_block, ("dout", "x", "wq", "wk", "wv", "w1", "w2"), ("dx", "dwq", "dwk", "dwv", "dw1", "dw2"),
    tuple(Known(name, sentence, changes) for name, (sentence, changes) in {
        "no residual at the MLP": ("h goes straight to the output too: its gradient, dout itself, is missing in dh",
                                   dict(around_mlp=0.0)),
        "no residual at attention": ("x goes straight into h too: dh itself is missing in dx", dict(around_attention=0.0)),
        "no residuals": ("both residual connections are missing: dout belongs to dh, and dh to dx",
                         dict(around_mlp=0.0, around_attention=0.0)),
        "residual at the MLP twice": ("the residual around the MLP is counted twice", dict(around_mlp=2.0)),
        "residual at attention twice": ("the residual around attention is counted twice", dict(around_attention=2.0)),
        "attention gets dout": ("attention's output gets dout: h also reaches the output through the second norm and the "
                                "MLP, so it gets all of dh", dict(to_attention=lambda dh, dout: dout)),
        "both sublayers from x": ("backward runs the second norm on x: it is h = x + attention that goes into it",
                                  dict(into_mlp=lambda h, x: x)),
        "attention only into the norm": ("backward's h lacks the residual: h = x + attention",
                                         dict(into_mlp=lambda h, x: h - x)),
        "no mask": ("backward's weights are computed without the causal mask", dict(weights=unmasked_weights)),
        "no row sum": ("softmax's sum over the row is missing: every weight depends on every score of its row",
                       dict(total=np.zeros_like)),
        "diagonal only": ("softmax's backward has only the diagonal of its Jacobian", dict(total=lambda a: a)),
        "no scale": ("1 / sqrt(d) is missing in dq and dk", dict(scale=lambda d, c: 1.0)),
        "scale of the width": ("the scale is 1 / sqrt(C): it goes by the width of q and k, 1 / sqrt(d)",
                               dict(scale=lambda d, c: 1 / np.sqrt(c))),
        "no slope": ("tanh's slope, 1 - tanh^2, is missing", dict(slope=lambda hidden, inner: 1.0)),
        "slope of the inner": ("tanh's slope is 1 - tanh(a)^2: a stands there without the tanh",
                               dict(slope=lambda hidden, inner: 1 - inner**2)),
        "slope without the square": ("tanh's slope is 1 - tanh^2: the square is missing",
                                     dict(slope=lambda hidden, inner: 1 - hidden)),
        "w2 without tanh": ("w2 multiplies tanh(...): its gradient takes what stands inside the tanh",
                            dict(mlp_output=lambda hidden, inner: inner)),
        "w1 without norm": ("w1 multiplies norm(h): its gradient takes h itself", dict(mlp_input=lambda n2, h: h)),
        "wq, wk, wv without norm": ("wq, wk and wv multiply norm(x): their gradients take x itself",
                                    dict(attention_input=lambda n1, x: x)),
        "norms without the mean": ("in both norms the path through the mean is missing", dict(shift=none)),
        "norms without the variance": ("in both norms the path through the variance is missing", dict(stretch=none)),
        "norms' statistics constant": ("both norms take mean and variance as constants", dict(shift=none, stretch=none)),
        "norms' sums for means": ("in both norms sums stand where means belong", dict(shift=row_sum, stretch=row_sum)),
        "norms without rstd": ("in both norms nothing is divided by the deviation", dict(rstd_power=0)),
        "query's path only": ("norm(x) is used three times: the paths through k and v are missing in dx",
                              dict(paths=lambda dq, dk, dv: dq)),
        "query's path missing": ("norm(x) is used three times: the path through q is missing in dx",
                                 dict(paths=lambda dq, dk, dv: dk + dv)),
        "key's path missing": ("norm(x) is used three times: the path through k is missing in dx",
                               dict(paths=lambda dq, dk, dv: dq + dv)),
        "value's path only": ("norm(x) is used three times: the paths through q and k are missing in dx",
                              dict(paths=lambda dq, dk, dv: dv)),
        "batch averaged": ("the weights' gradients are averaged over the batch: uses add up",
                           dict(batch=lambda products: products.mean(0))),
        "first of the batch": ("the weights' gradients are those of the first sequence only: all of the batch use the "
                               "weights",
                               dict(batch=lambda products: products[0])),
        "batch not summed": ("the weights' gradients still have the batch's axis: sum over it, as all of the batch use the "
                             "weights", dict(batch=lambda products: products)),
        "dwq and dwk exchanged": ("dwq and dwk are exchanged", dict(order=lambda dwq, dwk, dwv: (dwk, dwq, dwv))),
    }.items()))

# A tied embedding


def tied_embedding(ids, weight):
    return np.tanh(weight[ids]) @ weight.T


def tied_embedding_backward(dout, ids, weight):
    hidden = np.tanh(weight[ids])
    dhidden = dout @ weight
    width = weight.shape[1]
    dweight = dout.reshape(-1, len(weight)).T @ hidden.reshape(-1, width)  # as the matrix that reads out
    np.add.at(dweight, ids, dhidden * (1 - hidden**2))  # as the table that embeds
    return dweight


def add_at(dweight, ids, rows):
    np.add.at(dweight, ids, rows)
    return dweight


def add_once(dweight, ids, rows):
    dweight[ids] += rows
    return dweight


def overwrite(dweight, ids, rows):
    dweight[ids] = rows
    return dweight


def parts_of_tied(
    dout, ids, weight, *, embed=lambda weight, ids: np.tanh(weight[ids]), slope=lambda hidden: 1 - hidden**2, read_out=1.0,
    embedded=1.0, scatter=add_at, factor=1.0,
):
    hidden = embed(weight, ids)
    rows = embedded * (dout @ weight) * slope(hidden)
    flat = hidden.reshape(-1, weight.shape[1])
    return factor * scatter(read_out * (dout.reshape(-1, len(weight)).T @ flat), ids, rows)


TIED = Routine("tied_embedding", parts_of_tied, ("dout", "ids", "weight"), ("dweight",), tuple(
    Known(name, sentence, changes) for name, (sentence, changes) in {
        "read-out only": ("only the path of the read-out is there: the same matrix embeds as well, and both gradients add",
                          dict(embedded=0.0)),
        "embedding only": ("only the path of the embedding is there: the same matrix reads out as well, and both gradients "
                           "add", dict(read_out=0.0)),
        "averaged": ("the mean of the two paths stands where their sum belongs", dict(factor=0.5)),
        "overwritten": ("the embedding's rows overwrite what the read-out has put there: add them, once for each use",
                        dict(scatter=overwrite)),
        "repeated ids once": ("dweight[ids] += ... adds only once for an id that repeats: np.add.at adds each time",
                              dict(scatter=add_once)),
        "no slope": ("tanh's slope, 1 - tanh^2, is missing on the way to the embedding", dict(slope=lambda hidden: 1.0)),
        "slope without the square": ("tanh's slope is 1 - tanh^2: the square is missing",
                                     dict(slope=lambda hidden: 1 - hidden)),
        "no tanh": ("the tanh between embedding and read-out is forgotten",
                    dict(embed=lambda weight, ids: weight[ids], slope=lambda hidden: 1.0)),
    }.items()))


def some_ids(generator, shape, sizes):
    """Ids of the V rows."""
    return generator.integers(0, sizes["V"], size=shape)


EXERCISES = [
    Exercise(
        "tied_embedding", "A tied embedding", 3, """
        Many language models use one matrix twice: its rows embed the tokens, and at the end the scores of the next token
        are products with the same rows. That saves many parameters. Here a tanh stands for the model in between. Given
        is the gradient of the scores; find that of the matrix. As always when something is used twice, it is a sum. And
        an id may stand in several places.
        """,
        "out = tanh(weight[ids]) @ weight.T", "4. Used twice: gradients add",
        {"ids": Argument("B T", some_ids, "the tokens: each names a row of weight"),
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
        block_backward, BLOCK, block,
    ),
]
