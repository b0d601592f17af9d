"""Attention, from its scores to several heads and to tiles; rotary positions."""
import math

import numpy as np

from study.exercises.course.elementwise import AROUND_1000
from study.exercises.course.rows import ROWS_APART
from study.exercises.exercise import Argument, Exercise
from study.mistakes.base import ROUTINES
from study.mistakes.textbook.attention import (
    attention_backward, blockwise_attention, blockwise_attention_backward, causal_attention,
    causal_attention_backward, full_attention, masked_softmax, masked_softmax_backward, multi_head,
    multi_head_backward, rotary, rotary_backward, scores, scores_backward,
)


MASKED_ABOVE = "masked scores around 1000"


def large(*shapes, factor=60.0):
    """q and k with scores up to about `factor`, and v."""
    def draw(generator):
        arrays = {name: generator.normal(size=shape) for name, shape in zip(("q", "k", "v"), shapes)}
        by = math.sqrt(factor / np.abs(scores(arrays["q"], arrays["k"])).max())
        return {name: array if name == "v" else by * array for name, array in arrays.items()}
    return draw


def rows_apart(q, k, v):
    """Scores around 1000 in some rows, and around -1000 in others, which vanish next to the overall maximum."""
    def draw(generator):
        sides = generator.permutation(np.arange(q[0]) % 2)[:, None] * 2 - 1
        towards = math.sqrt(1000.0 / math.sqrt(q[1]))
        return {"q": towards * sides + 0.05 * generator.normal(size=q), "k": towards + 0.05 * generator.normal(size=k),
                "v": generator.normal(size=v)}
    return draw


def future_above(T, D):
    """Small scores, except for those of the last key, around 1000, which only the last query sees."""
    def draw(generator):
        k = 0.05 * generator.normal(size=(T, D))
        towards = math.sqrt(1000.0 / math.sqrt(D))
        k[-1] += towards
        return {"q": towards + 0.05 * generator.normal(size=(T, D)), "k": k, "v": generator.normal(size=(T, D))}
    return draw


def masked_apart(generator):
    """Scores around 1000 in some rows, and around -1000 in others."""
    levels = generator.permutation([[1000.0], [1000.0], [-1000.0], [-1000.0]])
    mask = np.ones((4, 5), bool)
    mask[:, generator.integers(5)] = False
    return {"scores": levels + generator.normal(size=(4, 5)), "mask": mask}


def masked_above(generator):
    """Masked scores around 1000: next to their maximum the others vanish."""
    mask = some_mask(generator, (4, 5), {})
    return {"scores": generator.normal(size=(4, 5)) + np.where(mask, 0.0, 1000.0), "mask": mask}


def some_mask(generator, shape, sizes):
    """A mask that hides about half; if there are several rows, a random one sees everything and another nothing."""
    mask = generator.random(shape) < 0.6
    if len(mask) > 1:
        everything, nothing = generator.permutation(len(mask))[:2]
        mask[everything], mask[nothing] = True, False
    return mask


def scores_and_mask(scores, mask, factor=1.0):
    return lambda generator: {"scores": factor * generator.normal(size=scores), "mask": some_mask(generator, mask, {})}


def nothing_hidden(generator):
    return {"scores": generator.normal(size=(4, 4)), "mask": np.ones((4, 4), bool)}


def far_below_zero(generator):
    """Scores around -200: a finite number in place of -inf, such as -100, is larger. One row sees nothing."""
    mask = np.tri(4, 5, -1, dtype=bool)[:, generator.permutation(5)]
    return {"scores": generator.normal(size=(4, 5)) - 200.0, "mask": mask}


def far_apart(generator):
    """Queries and keys in opposite directions, so that all scores are around -200."""
    q, k, v = generator.normal(size=(3, 5, 4))
    return {"q": 10 + 0.5 * q, "k": -10 + 0.5 * k, "v": v}


def causal_mask(generator):
    return {"scores": generator.normal(size=(2, 5, 5)), "mask": np.tri(5, dtype=bool)}


def any_block(generator, shape, sizes):
    return int(generator.integers(1, sizes["T"] + 2))


def heads(generator, shape, sizes):
    return sizes["H"]


Q, K, V = (Argument("M D", about="a query in each row"), Argument("N D", about="a key in each row"),
           Argument("N E", about="a value for each key, of a width of its own"))
TOKENS = {"q": Argument("T D", about="a query for each token"), "k": Argument("T D", about="a key for each token"),
          "v": Argument("T D", about="a value for each token")}
IN_HEADS = {"q": "B H T D", "k": "B H T D", "v": "B H T D"}


EXERCISES = [
    Exercise(
        "scores", "The scores of attention", 2, """
        Attention compares each query with each key: scores_ij is the product of query i and key j, divided by sqrt(d), so
        that scores don't grow with the length of the vectors. There are M queries and N keys, and M may differ from N.
        Given the gradient of the scores, find those of q and k. Each is a matrix product, times the scale; the question is
        which factor is on which side, and what is transposed. There may be leading axes, as in (B, H, M, D).
        """,
        "scores = q @ k^T / sqrt(D)", "7. To queries and keys", {"q": Q, "k": K},
        ("Write down one element: scores_ij = sum_d q_id k_jd / sqrt(D). Which scores does q_id reach?",
         "The factor 1 / sqrt(D) multiplies both gradients. The rest is the backward of a matrix product with k^T, whose "
         "gradient is transposed once more to be that of k.",
         "dq = dout @ k / sqrt(D), (M, N) @ (N, D); dk = dout^T @ q / sqrt(D), (N, M) @ (M, D). Transpose the last two "
         "axes only: np.swapaxes(dout, -1, -2)."),
        scores_backward, ROUTINES["scores"], scores,
        shapes=({"q": "B H M D", "k": "B H N D"},),
        special=(lambda r: {"q": r.normal(size=(3, 2, 4)), "k": r.normal(size=(3, 5, 4))},),
    ),
    Exercise(
        "masked_softmax", "Softmax with a mask", 3, """
        A mask says which scores count: where it is False, the score is set to -inf, so that its weight is 0 and nothing
        comes back to it. The others are a softmax among themselves. In a fully masked row, which padding can cause, all
        weights are 0, forward and backward, and there must be no NaN.
        The mask has the shape of the scores, or one that broadcasts to it: (T, T) for scores (B, H, T, T). Find dscores.
        """,
        "out = e^scores / (sum of e^scores where mask), where mask; 0 elsewhere; 0 in a row without any True",
        "6. The mask",
        {"scores": Argument("M N", about="each row along the last axis is a softmax of its own"),
         "mask": Argument("M N", some_mask, "True: may look; it gets no gradient")},
        ("Recompute the weights first, with the mask. What is e^-inf? And what goes wrong in a row of -inf alone?",
         "With the right weights, softmax's own backward is enough: it multiplies by the weights, which are 0 where the "
         "mask is False.",
         "p * (dout - (dout * p).sum(-1, keepdims=True)), where p = e / total: take 0 for the maximum of a row of -inf, "
         "and 1 for its total."),
        masked_softmax_backward, ROUTINES["masked_softmax"], masked_softmax,
        shapes=({"scores": "B H T T", "mask": "T T"},),
        special=(nothing_hidden, causal_mask, far_below_zero, scores_and_mask((4, 3), (4, 3), 60.0),
                 scores_and_mask((3, 4), (4,)), scores_and_mask((2, 3, 4), (2, 1, 4)), scores_and_mask((2, 3, 4), (3, 1))),
        beyond={AROUND_1000: scores_and_mask((3, 4), (3, 4), 1000.0), ROWS_APART: masked_apart,
                MASKED_ABOVE: masked_above},
    ),
    Exercise(
        "attention", "Attention", 4, """
        Each query looks at all keys: its scores become weights that add up to 1, and its output is the mean of the values
        with these weights. Everything that a transformer knows of other tokens comes through here. You have the parts, the
        scores and the softmax; put them together, from the last line of forward to the first.
        Find dq, dk and dv, without a loop over rows. There are M queries and N keys with a value each. Queries and keys
        have D numbers, values E; q, k and v may have leading axes, as in (B, H, M, D).
        """,
        "weights = softmax(q @ k^T / sqrt(D));  out = weights @ v", "7. To queries and keys", {"q": Q, "k": K, "v": V},
        ("Recompute the weights. Then go backwards: out = weights @ v is a matrix product, what are the gradients of its "
         "factors?",
         "dv = weights^T @ dout and dweights = dout @ v^T. From dweights to dscores leads softmax's backward, row by "
         "row; from there to dq and dk, the exercise `scores`.",
         "dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True)); dq = dscores @ k / sqrt(D); "
         "dk = dscores^T @ q / sqrt(D)."),
        attention_backward, ROUTINES["full_attention"], full_attention,
        shapes=({"q": "B H M D", "k": "B H N D", "v": "B H N E"},),
        special=(large((4, 3), (5, 3), (5, 2)), lambda r: dict(zip("qkv", r.normal(size=(3, 4, 3, 5))))),
        beyond={AROUND_1000: large((4, 3), (5, 3), (5, 2), factor=1000.0), ROWS_APART: rows_apart((4, 3), (5, 3), (5, 2))},
    ),
    Exercise(
        "causal_attention", "Causal attention", 4, """
        A language model must not see what comes next. So token i looks at the tokens j <= i only: the scores of later ones
        are set to -inf before the softmax. The rest is the exercise "attention", with as many queries as keys.
        If backward has another mask than forward, nothing fails, and the model learns from wrong gradients. Which tokens
        reach dq of the first one, and which reach dk of the last?
        Find dq, dk and dv. There may be leading axes, as in (B, H, T, D).
        """,
        "scores = q @ k^T / sqrt(D), -inf where j > i;  weights = softmax(scores);  out = weights @ v",
        "7. To queries and keys", TOKENS,
        ("Recompute the weights with the same mask: np.tri(T, dtype=bool) is True where j <= i.",
         "A score that was set to -inf had no influence, so its gradient is 0. What does softmax's backward give where the "
         "weight is 0?",
         "The backward of attention as it is, with weights = softmax(np.where(np.tri(T, dtype=bool), scores, -np.inf)): "
         "dscores is 0 where the weights are."),
        causal_attention_backward, ROUTINES["attention"], causal_attention,
        shapes=(IN_HEADS,),
        special=(large((5, 3), (5, 3), (5, 3)), far_apart, lambda r: dict(zip("qkv", r.normal(size=(3, 3, 4, 2))))),
        beyond={AROUND_1000: large((5, 3), (5, 3), (5, 3), factor=1000.0), ROWS_APART: rows_apart((5, 3), (5, 3), (5, 3)),
                MASKED_ABOVE: future_above(5, 3)},
    ),
    Exercise(
        "multi_head", "Several heads", 4, """
        Attention with several heads is attention several times, side by side: of the heads * d columns of q, k and v, each
        head takes d neighbouring ones. The first head takes the columns 0 to d - 1, the next one those after it. Each head
        has its own weights, divided by sqrt(d). Their outputs, side by side, have heads * d columns again.
        Splitting and merging move numbers and compute nothing, but a reshape in the wrong place mixes tokens and heads, and
        all shapes still fit. There is no mask. Find dq, dk and dv, of the shape of q, k and v.
        """,
        "split: (..., T, heads * d) -> (..., heads, T, d);  out = merge(attention(split(q), split(k), split(v)))",
        "13. From X, and with several heads",
        {"q": Argument("T HD", about="a query for each token, its columns head by head"),
         "k": Argument("T HD", about="a key for each token, its columns head by head"),
         "v": Argument("T HD", about="a value for each token, its columns head by head"),
         "heads": Argument("", heads, "the number of heads, which divides the number of columns")},
        ("To split: reshape the last axis to (heads, d), then bring the axis of the heads before that of the tokens. How "
         "is that undone?",
         "The output was merged, so dout is split, just as q, k and v are. Then each head is the exercise `attention`.",
         "np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -3, -2) splits; np.swapaxes back, then reshape, merges. Split "
         "dout, q, k, v; attention's backward; merge dq, dk and dv."),
        multi_head_backward, ROUTINES["multi_head"], multi_head,
        shapes=({"q": "B T HD", "k": "B T HD", "v": "B T HD"},),
        special=(lambda r: {**large((5, 6), (5, 6), (5, 6))(r), "heads": 3},
                 lambda r: {**dict(zip("qkv", r.normal(size=(3, 4, 8)))), "heads": 4},
                 lambda r: {**dict(zip("qkv", r.normal(size=(3, 2, 3, 4, 6)))), "heads": 2}),
        beyond={AROUND_1000: lambda r: {**large((5, 6), (5, 6), (5, 6), factor=1000.0)(r), "heads": 3},
                ROWS_APART: lambda r: {**rows_apart((5, 6), (5, 6), (5, 6))(r), "heads": 3}},
    ),
    Exercise(
        "rotary", "Rotary positions", 3, """
        Rotary positions turn each pair of neighbouring elements of a query or key, (x_2i, x_2i+1), by an angle that grows
        with the token's position. The product of a query and a key then depends on their distance only. Forward is linear
        in x, so x is not in the gradient: dout goes back through the transposed matrix. What is that of a rotation?
        Find dx. The angles get no gradient, and x may have leading axes, as in (B, H, T, D).
        """,
        "out_2i = x_2i cos a - x_2i+1 sin a;  out_2i+1 = x_2i sin a + x_2i+1 cos a;  a = angles[t, i]",
        "10. No Jacobian is built",
        {"x": Argument("T 2E", about="queries or keys, D = 2E numbers for each token"),
         "angles": Argument("T E", lambda r, shape, sizes: r.uniform(-3, 3, size=shape),
                            "by which angle, in radians, each pair of each token is turned; constant")},
        ("Which two outputs does x_2i reach, and with which factors?",
         "x_2i reaches out_2i by cos a, and out_2i+1 by sin a. x_2i+1 reaches them by -sin a and cos a.",
         "dx_2i = dout_2i cos a + dout_2i+1 sin a, and dx_2i+1 = dout_2i+1 cos a - dout_2i sin a. x[..., 0::2] are the "
         "even elements."),
        rotary_backward, ROUTINES["rotary"], rotary,
        shapes=({"x": "B H T 2E"},),
    ),
    Exercise(
        "blockwise_attention", "Attention in tiles, without its weights", 5, """
        The weights of causal attention are a matrix of T x T, too large to keep for long texts, and even to hold. Flash
        attention's backward never has more of it than a tile: `block` queries by `block` keys. Two numbers for each query
        make that possible, the logsumexp of its scores, and softmax's sum over the row, which is rowsum(dout * out).
        Find dq, dk and dv of causal attention with no array of T x T: first pass over the tiles of a row for its logsumexp
        and output, then a second pass for the gradients. `block` need not divide T. Only the numbers are judged, not how
        much memory it takes; tracemalloc.get_traced_memory() tells you.
        """,
        "out = causal_attention(q, k, v), whatever block is", "18. All of it, in tiles",
        {**TOKENS, "block": Argument("", any_block, "how many queries and keys a tile has; the last one may have fewer")},
        ("Write a function for the scores of one tile: some rows, some columns, masked by their positions in the whole "
         "sequence. Which tiles need not be visited at all?",
         "The weights of a tile are e^(scores - logsumexp). For the logsumexp keep the largest score so far and the sum of "
         "e^(score - largest), and multiply the sum by e^(old - new) when a larger one comes.",
         "For each tile: dscores = weights * (dout @ v^T - rowsum(dout * out)). It adds to dq of its rows, and to dk and "
         "dv of its columns, as in `causal_attention`."),
        blockwise_attention_backward, ROUTINES["blockwise_attention"], blockwise_attention,
        shapes=(IN_HEADS,),
        special=(lambda r: {**dict(zip("qkv", r.normal(size=(3, 7, 3)))), "block": 3},
                 lambda r: {**dict(zip("qkv", r.normal(size=(3, 6, 2)))), "block": 2},
                 lambda r: {**large((7, 3), (7, 3), (7, 3))(r), "block": 2}),
        beyond={AROUND_1000: lambda r: {**large((7, 3), (7, 3), (7, 3), factor=1000.0)(r), "block": 3},
                ROWS_APART: lambda r: {**rows_apart((7, 3), (7, 3), (7, 3))(r), "block": 3},
                MASKED_ABOVE: lambda r: {**future_above(7, 3)(r), "block": 3}},
    ),
]
