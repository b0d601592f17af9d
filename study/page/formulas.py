"""What the page says of each step of attention and of a block, forward and backward: its formula, and a short derivation.
Tensors have the SYMBOLS of textbooks.
"""
from collections.abc import Container

from models.transformer import PLACEMENTS
from study.page.attention import Head

SYMBOLS = {
    "q": "Q", "k": "K", "v": "V", "x": "X", "w_q": "W_q", "w_k": "W_k", "w_v": "W_v", "w_o": "W_o", "bias": "B",
    "scores": "S", "weights": "P", "row_sum": "r", "attended": "A", "output": "O", "upstream": "U",
    "loss": "L",
}


def step(title: str, forward: tuple = (), backward: tuple = (), joins: tuple[str, ...] = (),
         derives: dict[str, str] | None = None) -> dict:
    """A step in the form of the page's extras; `forward` and `backward` are a formula, or a list of them, and the lines of
    its derivation."""
    words = {way: {"formula": lines[0], "derivation": list(lines[1:])}
             for way, lines in (("forward", forward), ("backward", backward)) if lines}
    return {"title": title, "joins": list(joins), "derives": derives or {}, **words}


def projection(name: str, title: str) -> dict:
    """x @ w_q, x @ w_k or x @ w_v"""
    out, weight = SYMBOLS[name], SYMBOLS[f"w_{name}"]
    return step(
        title,
        (f"{out} = X {weight}", f"Each row of `{out}` is that token's row of `X`, multiplied by `{weight}`."),
        (f"d{weight} = X^T d{out}",
         f"A matrix product sends a gradient to both factors: `d{weight} = X^T d{out}`, and `d{out} {weight}^T` to `X`.",
         "`X` is used three times, so `dX` is the sum of what arrives through `Q`, `K` and `V`."))


SCORES_BACK = (
    "dQ = s dS K,  dK = s dS^T Q",
    "`S_ij = s sum_d Q_id K_jd`, so raising `Q_id` raises `S_ij` by `s K_jd`.",
    "`Q_id` is in all scores of row `i`: `dQ_id = s sum_j dS_ij K_jd`, the keys weighted by the gradients of their scores.",
    "`K_jd` is in all scores of column `j`: `dK_jd = s sum_i dS_ij Q_id`. Hence the transpose.")
VARIANCE = "`s = 1 / sqrt(D)` keeps the variance of the scores the same for every `D`."
SCORES = step(
    "Scores: how well each query matches each key",
    ("S_ij = s sum_d Q_id K_jd", "`S = s Q K^T`: the scalar product of query `i` and key `j`, times a scale.", VARIANCE),
    SCORES_BACK, joins=("k_transposed", "products"))
SCORES_WITH_BIAS = step(
    "Scores: how well each query matches each key, plus a bias by distance",
    ("S_ij = s sum_d Q_id K_jd + B_ij", "`S = s Q K^T + B`, where `B` is what the model learned for each distance `i - j`.",
     VARIANCE),
    SCORES_BACK, joins=("k_transposed", "products", "scaled_products"))
WEIGHTS = step(
    "Softmax: from scores to weights",
    ("P_ij = e^(S_ij) / (sum_k e^(S_ik))", "Each row is positive and sums to 1: what one key gains, the others lose.",
     "The sum runs over the keys that query `i` sees. Masked scores, which are hatched, count as `-inf`, so their weights "
     "are 0."),
    ("dS_ij = P_ij (dP_ij - r_i)",
     "By the quotient rule `(∂P_ik) / (∂S_ij) = P_ik (delta_jk - P_ij)`, where `delta_jk` is 1 for j = k, else 0: "
     "raising a score adds to its weight, and takes a proportional share from every weight of the row.",
     "Summed over the row's weights, `dS_ij = sum_k dP_ik P_ik (delta_jk - P_ij)`. Factoring out `P_ij` leaves `dP_ij` "
     "less the row sum `r_i = sum_k dP_ik P_ik`.",
     "So a score's gradient is positive where `dP_ij` is above the row's weighted mean of `dP`, and negative below. Each "
     "row of `dS` sums to 0. Where the mask hides a score, `P_ij = 0`, so `dS_ij = 0`."),
    joins=("masked_scores",), derives={"row_sum": "row_sum"})


def row_sum(out: str) -> dict:
    """The row sum, from weights and from `out`, the symbol of weights @ v."""
    return step("Row sum: one number for each query", backward=(
        f"r_i = sum_k dP_ik P_ik = sum_d d{out}_id {out}_id",
        "The mean of the row's `dP_ik`, weighted by `P_ik`: what a score must beat for its gradient to be positive.",
        f"The two sums are equal: `sum_k dP_ik P_ik` `= sum_k sum_d d{out}_id V_kd P_ik` `= sum_d d{out}_id {out}_id`, as "
        f"`{out}_id = sum_k P_ik V_kd`.",
        f"The second needs no row of `P`, so flash attention, which never stores `P`, takes it from `d{out}` and `{out}`."))


READ_OUT = step(
    "Loss",
    ("L = sum_id O_id U_id", "Any loss has some gradient at the output. This one has `U`, which you can edit."),
    ("dO = U", "`L` is linear in `O`: raising `O_id` raises `L` by `U_id` times as much."), joins=("read_out",))


def product(name: str, title: str) -> dict:
    """weights @ v"""
    out = SYMBOLS[name]
    return step(
        title,
        (f"{out}_id = sum_j P_ij V_jd", f"`{out} = P V`: each row is a mean of the values, weighted by that row of `P`."),
        (f"dP = d{out} V^T,  dV = P^T d{out}",
         f"Raising `P_ij` adds that much of `V_j` to row `i`: `dP_ij = sum_d d{out}_id V_jd`.",
         f"Raising `V_jd` raises `{out}_id` by `P_ij` for each query `i`: `dV_jd = sum_i P_ij d{out}_id`. "
         "Hence the transpose."))


PROJECTED = step(
    "Output projection", ("O = A W_o", "Maps what the head has gathered back to the width of the tokens."),
    ("dA = dO W_o^T,  dW_o = A^T dO", "A matrix product sends a gradient to both factors."))


def of_head(head: Head) -> dict[str, dict]:
    """What the page says of each step of a head."""
    steps = {"scores": SCORES if head.bias is None else SCORES_WITH_BIAS, "weights": WEIGHTS,
             "row_sum": row_sum("A" if head.starts_from_x else "O"), "loss": READ_OUT}
    if not head.starts_from_x:
        return steps | {"output": product("output", "Output: weighted values")}
    projections = {"q": "Queries", "k": "Keys", "v": "Values"}
    return {name: projection(name, title) for name, title in projections.items()} | steps | {
        "attended": product("attended", "Weighted values"), "output": PROJECTED}


BLOCK_TITLES = {
    "q": "Queries", "k": "Keys", "v": "Values",
    "attention_input": "Layer norm before attention", "attention": "Output projection",
    "attention_sum": "Residual connection around attention", "attention_output": "Layer norm after attention",
    "mlp_input": "Layer norm before the MLP", "hidden": "MLP: expand", "activated": "MLP: gelu",
    "mlp": "MLP: project back", "mlp_sum": "Residual connection around the MLP", "output": "Output of the block",
}


def of_block(names: Container[str]) -> dict[str, dict]:
    """What the page says of each step that a block has."""
    words = {name: {"title": title} for name, title in BLOCK_TITLES.items()}
    words |= {"scores": SCORES, "weights": WEIGHTS, "row_sum": row_sum("A"),
              "attended": product("attended", "Weighted values"), "loss": READ_OUT}
    return {name: step for name, step in words.items() if name in names or name == "row_sum"}


def placement_in_words(name: str) -> str:
    """What a block of this placement computes.

    >>> placement_in_words("pre")
    'pre: y = x + attention(norm(x)), output = y + mlp(norm(y))'
    >>> placement_in_words("post_attention_only")
    'post_attention_only: y = norm(x + attention(x)), output = norm(mlp(y))'
    """
    parts = []
    for (x, out, function), rule in zip((("x", "y", "attention"), ("y", "output", "mlp")), PLACEMENTS[name]):
        inner = f"norm({x})" if rule.norm_before else x
        formula = f"{function}({inner})"
        if rule.residual is not None:
            formula = f"{x if rule.residual == 'x' else inner} + {formula}"
        parts.append(f"{out} = " + (f"norm({formula})" if rule.norm_after else formula))
    return f"{name}: {', '.join(parts)}"
