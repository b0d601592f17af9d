"""What the page says of each step of attention and of a block, forward and backward: its formulas, and a short derivation.
Tensors have the SYMBOLS of textbooks.
"""
from minigrad.tracing import Trace
from models.config import PLACEMENTS

SYMBOLS = {
    "q": "Q", "k": "K", "v": "V", "x": "X", "w_q": "W_q", "w_k": "W_k", "w_v": "W_v", "w_o": "W_o", "bias": "B",
    "scores": "S", "weights": "P", "row_sum": "r", "attended": "A", "output": "O", "upstream": "U", "loss": "L",
    "expected": "Y", "probabilities": "Ŷ",
    # of heads, rotary positions, dropout and cross-entropy
    "q_heads": "Q_h", "k_groups": "K_g", "v_groups": "V_g", "k_heads": "K_h", "v_heads": "V_h", "q_rotated": "Q_θ",
    "k_rotated": "K_θ", "dropped": "P̃", "attended_heads": "A_h", "w_u": "W_u",
    # of a block; what a norm makes is N, in front of its sublayer or behind
    "attention_input": "N_1", "attention": "Z", "attention_sum": "R_1", "attention_output": "N_1",
    "mlp_input": "N_2", "w_in": "W_in", "hidden": "F", "activated": "G", "w_out": "W_out", "mlp": "E", "mlp_sum": "R_2",
    **{f"{name}_{sublayer}": f"{symbol}_{number}" for number, sublayer in ((1, "attention"), (2, "mlp"))
       for name, symbol in {"gain": "g", "mean": "mean", "mean_square": "ms", "rstd": "rstd", "x_hat": "x̂"}.items()},
}


def step(title: str, forward: tuple = (), backward: tuple = (), joins: tuple[str, ...] = (),
         derives: dict[str, str] | None = None) -> dict:
    """A step in the form of the page's extras; `forward` and `backward` are a formula, or a list of them, and the lines of
    its derivation."""
    words = {way: {"formula": lines[0], "derivation": list(lines[1:])}
             for way, lines in (("forward", forward), ("backward", backward)) if lines}
    return {"title": title, "joins": list(joins), "derives": derives or {}, **words}


def linear(title: str, out: str, x: str, w: str, *lines: str) -> dict:
    """out = x @ w"""
    return step(
        title,
        (f"{out} = {x} {w}", f"Each row of `{out}` is that row of `{x}`, multiplied by `{w}`."),
        ([f"d{x} = d{out} {w}^T", f"d{w} = {x}^T d{out}"],
         f"A number of `{x}` goes into its whole row of `{out}`, times a row of `{w}`. So its gradient is the scalar "
         f"product of that row of `d{out}` with the row of `{w}`: `d{out} {w}^T`.",
         f"A number of `{w}` is used by every token, so its gradient is a sum over the tokens: `{x}^T d{out}`.", *lines))


def scores(q: str, k: str, has_bias: bool) -> dict:
    return step(
        "Scores: how well each query matches each key" + (", plus a bias by distance" if has_bias else ""),
        ([f"S = s {q} {k}^T" + (" + B" if has_bias else ""), "S_ij = s sum_d Q_id K_jd" + (" + B_ij" if has_bias else "")],
         *each_head(q, k),
         "A score is the scalar product of query `i` and key `j`, times the scale `s`" + (
             ", plus what the model learned for their distance `i - j`." if has_bias else "."),
         "`s = 1 / sqrt(D)` keeps the variance of the scores the same for every `D`."),
        ([f"d{q} = s dS {k}", f"d{k} = s dS^T {q}"],
         "`S_ij = s sum_d Q_id K_jd`, so raising `Q_id` raises `S_ij` by `s K_jd`.",
         "`Q_id` is in all scores of row `i`: `dQ_id = s sum_j dS_ij K_jd`, the keys, weighted by the scores' gradients.",
         "`K_jd` is in all scores of column `j`: `dK_jd = s sum_i dS_ij Q_id`. Hence the transpose."),
        joins=("k_transposed", "products", *(["scaled_products"] if has_bias else [])))


WEIGHTS = step(
    "Softmax: from scores to weights",
    (["P = softmax(S)", "P_ij = e^(S_ij) / (sum_k e^(S_ik))"],
     "Each row is positive and sums to 1: what one key gains, the others lose.",
     "The sum runs over the keys that query `i` sees. Masked scores, which are hatched, count as `-inf`, so their weights "
     "are 0."),
    (["dS = P * (dP - r)", "dS_ij = P_ij (dP_ij - r_i)"],
     "Raise `S_ij` by a little `eps`. Its own weight gains `eps P_ij`, and then every weight `P_ik` of the row, its own "
     "too, gives up its share, `eps P_ij P_ik`.",
     "What each gains or gives up is worth `dP` of it: `dS_ij = dP_ij P_ij - sum_k dP_ik P_ik P_ij` "
     "`= P_ij (dP_ij - r_i)`, where `r_i = sum_k dP_ik P_ik`.",
     "So a score's gradient is positive where `dP_ij` is above the row's weighted mean of `dP`, and negative below. Each "
     "row of `dS` sums to 0. Where the mask hides a score, `P_ij = 0`, so `dS_ij = 0`."),
    joins=("masked_scores",), derives={"total": "row_sum"})


def row_sum(out: str, p: str) -> dict:
    """The row sum, from weights and from `out`, the symbol of weights @ v; `p` are the weights after dropout."""
    dropped = f"`= sum_k d{p}_ik {p}_ik` " if p != "P" else ""
    return step("Row sum: one number for each query", backward=(
        f"r_i = sum_k dP_ik P_ik = sum_d d{out}_id {out}_id",
        "The mean of the row's `dP_ik`, weighted by `P_ik`: what a score must beat for its gradient to be positive.",
        f"The two sums are equal: `sum_k dP_ik P_ik` {dropped}`= sum_k sum_d d{out}_id V_kd {p}_ik` `= sum_d d{out}_id "
        f"{out}_id`, as `{out}_id = sum_k {p}_ik V_kd`.",
        f"The second needs no row of `P`, so flash attention, which never stores `P`, takes it from `d{out}` and `{out}`."))


def each_head(*symbols: str) -> list[str]:
    """What letters stand for, if these symbols are not the plain ones."""
    others = [symbol for symbol in symbols if "_" in symbol]
    plain = " and ".join(f"`{symbol[0]}` is `{symbol}`" for symbol in others)
    alone = ", and each head is computed by itself" if others and others[-1].endswith("_h") else ""
    return [f"Here {plain}{alone}."] if others else []


def weighted_values(title: str, out: str, p: str, v: str) -> dict:
    """weights @ v"""
    o = out[0]
    return step(
        title,
        ([f"{out} = {p} {v}", f"{o}_id = sum_j {p}_ij V_jd"], *each_head(v, out),
         f"Each row is a mean of the values, weighted by that row of `{p}`."),
        ([f"d{p} = d{out} {v}^T", f"d{v} = {p}^T d{out}"],
         f"Raising `{p}_ij` adds that much of `V_j` to row `i`: `d{p}_ij = sum_d d{o}_id V_jd`.",
         f"Raising `V_jd` raises `{o}_id` by `{p}_ij` for each query `i`: `dV_jd = sum_i {p}_ij d{o}_id`. "
         "Hence the transpose."))


def heads(name: str, joins: tuple[str, ...]) -> dict:
    """q, k or v cut into heads"""
    letter, out = name[0].upper(), SYMBOLS[name]
    what = "head" if out.endswith("h") else "group"
    return step(
        f"{TITLES[name[0]]}: one matrix for each {what}",
        (f"{out} = {letter}", f"Each {what} gets its own columns of `{letter}`. No number changes."),
        (f"d{letter} = d{out}", "The gradients go back side by side: what was only moved keeps its gradient."), joins=joins)


def shared(name: str) -> dict:
    """Keys or values of groups, given to the heads"""
    groups, out = SYMBOLS[name.replace("heads", "groups")], SYMBOLS[name]
    return step(
        f"{TITLES[name[0]]} of each head: those of its group",
        (f"{out} = {groups}", "Heads of one group share keys and values, so that fewer have to be kept in memory."),
        (f"d{groups} = sum_h d{out}", "What is used by several heads gets the sum of their gradients: `h` runs over the "
         "heads of the group."))


def rotated(name: str, x: str) -> dict:
    """Rotary positions"""
    out = SYMBOLS[name]
    return step(
        f"{TITLES[name[0]]}, rotated by their positions",
        (f"{out} = {x} * cos + swap({x}) * sin",
         "Each pair of features is a vector in the plane, which is rotated by an angle proportional to its position: "
         "`swap` exchanges the two, and `sin` is negative for the first.",
         "A scalar product of two rotated vectors depends on the difference of their angles only: on how far apart the "
         "tokens are."),
        (f"d{x} = d{out} * cos + swap(d{out} * sin)", "The transpose of a rotation is the rotation back: the gradient is "
         "turned by the opposite angle. Its length stays the same."),
        joins=tuple(f"{name[0]}_{part}" for part in ("swapped", "kept", "crossed")))


DROPOUT = step(
    "Dropout: some weights become 0",
    ("P̃ = P * keep", "`keep` is 0 with probability p, and `1 / (1 - p)` otherwise, so that the mean of `P̃` is `P`. You "
     "can edit it."),
    ("dP = dP̃ * keep", "The same factors again: a weight that was dropped had no effect, so its gradient is 0."))


def side_by_side(out: str) -> dict:
    """The results of all heads in one matrix"""
    return step(
        "Heads side by side",
        (f"{out} = A_h", "The heads' results become the columns of one matrix. No number changes."),
        (f"dA_h = d{out}", "Each head gets the gradient of its columns."), joins=("tokens_first",))


def cross_entropy(targets: list[int]) -> dict:
    *others, final = map(str, targets)
    return step(
        "Loss: cross-entropy",
        ("L = - sum_i log softmax(logits)_{i y} / T",
         f"The next tokens are the classes y = {', '.join(others)} and {final}: the loss is the mean of minus the "
         "logarithm of the probabilities that they get."),
        (["probabilities = softmax(logits)", "dlogits = (probabilities - targets) / T"],
         "`targets` is 1 for the right class and 0 for all others. For one row, `L = log(sum_k e^(logits_k)) - logits_y`: "
         "the logarithm's derivative is the softmax, and the last term subtracts 1 at the target.",
         "So the gradient of each row sums to 0: what the target gains, the others lose."),
        derives={"probabilities": "probabilities"})


NEXT_WORDS = step(
    "Loss: cross-entropy of the next words",
    ("L = - sum_iw Y_iw log softmax(O_i)_w",
     "Each row of `O` holds votes for the next word, and softmax makes probabilities of them. `Y` is 1 at the right word: "
     "the loss is minus the logarithm of its probability, summed over the rows."),
    ("dO = probabilities - Y",
     "As for cross-entropy in general: the probabilities, less 1 at the right word. A gradient step takes votes from the "
     "wrong words and gives them to the right one.",
     "Each row sums to 0. (The page multiplies the probabilities by `total`, the sum of that row of `Y`, so that you can "
     "edit `Y` as you like.)"),
    joins=("losses",), derives={"probabilities": "probabilities"})

READ_OUT = step(
    "Loss",
    ("L = sum_id O_id U_id", "Any loss has some gradient at the output. This one has `U`, which you can edit."),
    ("dO = U", "`L` is linear in `O`: raising `O_id` raises `L` by `U_id` times as much."), joins=("read_out",))


def norm(title: str, out: str, x: str, gain: str, made: tuple, through: tuple) -> dict:
    """Layer norm or RMS norm; `made` is the formula of x_hat and its words, `through` those of the gradient at x."""
    n = gain.removeprefix("g_")
    (x_hat, *about), ((*means, dx), *ways) = made, through
    return step(
        title,
        ([*x_hat, f"{out} = x_hat_{n} {gain}"], *about, f"Then each column is multiplied by its gain `{gain}`."),
        ([f"dx_hat_{n} = d{out} {gain}", f"d{gain} = columnsum(d{out} x_hat_{n})", *means, f"d{x} = rstd_{n} ({dx})"],
         f"The gain is a factor: `d{out}` is multiplied by it, and its own gradient sums over the rows, which all use it.",
         *ways))


def scaling(way: str, n: str) -> str:
    """What the scale of a row does to its gradient."""
    return (f"Through the {way}: raising number i of a row by a little `delta` scales the whole row by 1 less "
            f"`{{delta x_hat_i rstd_{n}}} / C`. This subtracts the part of `dx_hat` along `x_hat`, which is `x_hat b`.")


def layer_norm(title: str, out: str, x: str, gain: str) -> dict:
    n = gain.removeprefix("g_")
    return norm(
        title, out, x, gain,
        ([f"x_hat_{n} = ({x} - mean_{n}) rstd_{n}"],
         f"Each row is shifted to mean 0 and scaled to variance 1: `mean_{n}` is the row's mean, and `rstd_{n}` is 1 over "
         "the square root of its variance."),
        (["a = mean(dx_hat),  b = mean(dx_hat x_hat)", "dx_hat - a - x_hat b"],
         "Through the mean: each number also goes into the mean of its row, which is subtracted from all of them. So the "
         "mean `a` of `dx_hat` is subtracted.",
         scaling("variance", n),
         "That is as it should be: shifting or scaling a row does not change the result, so the gradient has no part in "
         "these two directions."))


def rms_norm(title: str, out: str, x: str, gain: str) -> dict:
    n = gain.removeprefix("g_")
    return norm(
        title, out, x, gain,
        ([f"ms_{n} = mean({x}^2),  rstd_{n} = 1 / sqrt(ms_{n} + eps)", f"x_hat_{n} = {x} rstd_{n}"],
         f"Each row is scaled to mean square 1: `ms_{n}` is the mean of its squares, and `rstd_{n}` is 1 over the root of "
         "that. Unlike in layer norm, no mean is subtracted."),
        (["b = mean(dx_hat x_hat)", "dx_hat - x_hat b"],
         scaling("mean square", n),
         "That is as it should be: scaling a row does not change the result, so the gradient has no part in this "
         "direction. Shifting it does, so nothing else is subtracted."))


def residual(title: str, out: str, x: str, added: str) -> dict:
    return step(
        title,
        (f"{out} = {x} + {added}", "The sublayer adds to what it was given, and does not replace it."),
        ([f"d{x} = d{out}", f"d{added} = d{out}"],
         f"A sum sends its gradient to both terms unchanged: `d{x}` gets `d{out}` past the sublayer, whatever that does.",
         f"What comes back through the sublayer is added to `d{x}`."))


NORMS = {  # by their ops: what they are called, what they derive and its names as tensors, and their words
    "LayerNorm": ("Layer norm", {"mean": "mean", "rstd": "rstd", "x_hat": "x_hat"}, layer_norm),
    "RMSNorm": ("RMS norm", {"mean_square": "mean_square", "rrms": "rstd", "x_hat": "x_hat"}, rms_norm),
}

GELU = step(
    "MLP: gelu",
    ("G = F Phi(F)", "`Phi(z)` is the probability that a standard normal number is less than `z`. So large numbers pass, "
     "and negative ones become almost 0, without a corner."),
    ("dF = dG (Phi(F) + F phi(F))", "The product rule: both factors depend on `F`. The slope of `Phi` is the normal "
     "density, `phi(z) = e^(-z^2 / 2) / sqrt(2 pi)`.",
     "Each number has a gradient of its own: nothing is summed."))

TITLES = {
    "q": "Queries", "k": "Keys", "v": "Values", "attention": "Output projection", "output": "Output projection",
    "attention_input": "before attention", "attention_output": "after attention", "mlp_input": "before the MLP",
    "attention_sum": "Residual connection around attention", "mlp_sum": "Residual connection around the MLP",
    "logits": "Logits: a number for each class",
    "hidden": "MLP: expand", "mlp": "MLP: project back",
}


def of_trace(trace: Trace) -> dict[str, dict]:
    """What the page says of each step of a head or a block."""
    made = {step.output.name: step for step in trace.steps}
    found = {}
    for name, traced in made.items():
        symbols = [SYMBOLS.get(name, name) for name in (name, *(getattr(value, "name", None) for value in traced.inputs))]
        title = TITLES.get(name, "")
        if traced.op in NORMS:
            called, derives, words = NORMS[traced.op]
            where = title if name != "output" else "after the MLP: the block's output"
            found[name] = words(f"{called} {where}", *symbols[:3])
            sublayer = traced.inputs[1].name.removeprefix("gain_")
            found[name]["derives"] = {part: f"{tensor}_{sublayer}" for part, tensor in derives.items()}
        elif traced.op == "MatMul" and symbols[1] in ("P", "P̃"):
            found[name] = weighted_values("Output: weighted values" if name == "output" else "Weighted values", *symbols)
        elif name.endswith(("_heads", "_groups")) and traced.op == "Permute":
            found[name] = heads(name, (f"{name[0]}_cut",))
        elif name in ("k_heads", "v_heads"):
            found[name] = shared(name)
        elif name.endswith("_rotated"):
            found[name] = rotated(name, SYMBOLS[made[f"{name[0]}_kept"].inputs[0].name])
        elif traced.op == "Add" and name in ("attention_sum", "mlp_sum", "output"):
            found[name] = residual(title if name != "output" else TITLES["mlp_sum"] + ": the block's output", *symbols)
        elif name in ("q", "k", "v"):
            found[name] = linear(title, *symbols, f"`{symbols[1]}` goes into `Q`, `K` and `V`, so its gradient is the sum "
                                 "of what arrives through each.")
        elif traced.op == "MatMul" and name in TITLES:
            is_mlp = name == "output" and "activated" in made
            found[name] = linear(f"{TITLES['mlp']}: the block's output" if is_mlp else title, *symbols)
    letters = operands(trace)
    found |= {"scores": scores(letters["Q"], letters["K"], "scaled_products" in made), "weights": WEIGHTS,
              "row_sum": row_sum("A" if "attended" in made else "O", letters["P"]),
              "loss": cross_entropy(made["loss"].options["targets"].tolist()) if "logits" in made
              else NEXT_WORDS if "losses" in made else READ_OUT}
    if "attended_heads" in made:
        out = "attended" if "attended" in made else "output"
        found[out] = side_by_side(SYMBOLS[out])
    return found | {name: words for name, words in {"dropped": DROPOUT, "activated": GELU}.items() if name in made}


def operands(trace: Trace) -> dict[str, str]:
    """The symbols of Q and K in the product Q K^T, and of P, V and O in O = P V: those of heads, rotated, after dropout."""
    made = {step.output.name: step for step in trace.steps}
    product = next(step for step in trace.steps if step.op == "MatMul" and step.inputs[0].name in ("weights", "dropped"))
    tensors = made["products"].inputs[0], made["k_transposed"].inputs[0], *product.inputs, product.output
    return {letter: SYMBOLS[tensor.name] for letter, tensor in zip("QKPVO", tensors)}


def placement_in_words(name: str) -> str:
    """What a block of this placement computes.

    >>> placement_in_words("pre")
    'Placement pre: y = x + attention(norm(x)), output = y + mlp(norm(y))'
    >>> placement_in_words("post_attention_only")
    'Placement post_attention_only: y = norm(x + attention(x)), output = norm(mlp(y))'
    """
    parts = []
    for (x, out, function), rule in zip((("x", "y", "attention"), ("y", "output", "mlp")), PLACEMENTS[name]):
        inner = f"norm({x})" if rule.norm_before else x
        formula = f"{function}({inner})"
        if rule.residual is not None:
            formula = f"{x if rule.residual == 'x' else inner} + {formula}"
        parts.append(f"{out} = " + (f"norm({formula})" if rule.norm_after else formula))
    return f"Placement {name}: {', '.join(parts)}"
