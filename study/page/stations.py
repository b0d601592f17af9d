"""The guided path on the page of a head: stations from one score to a whole head, each with a question.

The page computes the answers from its own numbers, so that they follow every edit and switch; tests/study/test_stations.py
answers them with NumPy.

In the stations, i stands for the last of the first four queries, m for the one before it, and n for the last of the first
four keys: `S_[i1]` is an index in a formula, [i] a token, with its label if it has one.
"""
import re
from typing import Any

from minigrad.tracing import Trace
from study.page.attention import Head


def cell(tensor: str, *index: int | str, kind: str = "gradient") -> dict:
    return {"tensor": tensor, "index": list(index), "kind": kind}


def station(section: int | str, title: str, opens: str, text: tuple[str, ...], question: dict, **turns: int) -> dict:
    """A station in the form of the page's extras. `section` is the guide's of the same title, or with its
    own; `opens` is a step and its way; `turns` are switches with the choices that they have while the station is open."""
    step, way = opens.split()
    section = section if isinstance(section, str) else f"{section}. {title}"
    return {"title": title, "step": step, "way": way, "guide": section, "text": list(text), "question": question,
            "turns": turns}


COUNTS = {2: "two", 3: "three", 4: "four"}
WHY = {  # before the first: one ambiguous word, whom should it ask?
    "title": "Whom should it ask?", "name": "why", "step": "output", "way": "forward", "turns": {},
    "text": ["*cat sees fish, it* ... and the next word is *purrs*. But *it* can be either animal. Alone it cannot know "
             "which: it has to ask the words before it.",
             "Attention is this asking. Row *it* of `P` says how much it takes from each word: mostly from *fish*, whose "
             "values in `V` vote for *swims*. So it guesses wrong, and the loss is high.",
             "Backward says how to mend that: at which words to look more, and at which less. It is a number for each "
             "pair of words, `dS`, and the path leads to it."],
    "question": {"text": "To guess *purrs*, at which word should *it* look more?", "smallest": cell("scores", "i"),
                 "reason": "There `dS` is furthest below 0: the loss falls as *it* looks more at that word. The stations "
                           "show where these numbers come from."}}
STATIONS = [
    station(
        1, "One score", "scores forward",
        ("Query [i] says what token [i] looks for, key [1] what token [1] can be found by. How well they match is the "
         "score `S_[i1] = s [score]`, where `s` is the scale, whose value stands above.",
         "So `S_[i1]` rises `s K_10` times as fast as `Q_[i0]`. What reaches `dS_[i1]` on the way back goes on to "
         "`Q_[i0]` with this factor. When you check your answer, the page raises `Q_[i0]` by 1."),
        {"text": "Which numbers of `S` will change?", "changes": {"tensor": "scores", "kind": "value"},
         "edit": {"tensor": "q", "index": ["i", 0], "by": 1},
         "reason": "Query [i] is in a whole row of scores, masked ones too. By the chain rule each score sends its "
                   "gradient back, so `dQ_[i0]` is the sum of [keys] terms, `s dS_[ij] K_{j0}`, one for each key."}),
    station(
        2, "A matrix product, backward", "output backward",
        ("Raise `P_[m1]` by `eps`, and row [m] of `O` moves by `eps V_1`. `dO_[m]` says what each number in that row is "
         "worth to `L`.",
         "So `dP_[m1]` is the dot product of `dO_[m]` and `V_1`: how far they point the same way. In matrices, `dP = dO "
         "V^T`."),
        {"text": "Of which value should token [m] take more, so that `L` falls fastest? Find the smallest number of row "
                 "[m].",
         "smallest": cell("weights", "m"),
         "reason": "It is the value that points most against `dO_[m]`. Whether token [m] may look there at all is up to "
                   "the mask, which `dP` does not know."}),
    station(
        3, "Keys compete", "weights forward",
        ("Softmax turns each row of scores into weights that sum to 1. So when one weight rises, the others in its "
         "row fall, each in proportion to its size.",
         "A hatched score is masked: its query does not see that key. When you check your answer, the page raises "
         "`K_[n0]` by 1."),
        {"text": "Which numbers of `P` will change?", "changes": {"tensor": "weights", "kind": "value"},
         "edit": {"tensor": "k", "index": ["n", 0], "by": 1},
         "reason": "Key [n] enters one score of each query that sees it. In such a row that weight changes, and the "
                   "others make up for it. A query that does not see key [n] keeps its weights."}),
    station(
        4, "The weighted mean", "row_sum backward",
        ("A weight can only grow at the expense of its row: what it gains, the others give, in proportion to their size. "
         "So what counts is not `dP_ij` itself, but how it compares with what the row is worth now, on average:",
         "`r_i = sum_k dP_ik P_ik`",
         "In the picture each key is as wide as its weight and as high as its `dP`. At the height `r`, as much stands "
         "above as is missing below."),
        {"text": "Where does `r_[i]` lie? Find the number of row [i] of `dP` that is nearest.",
         "smallest": cell("weights", "i"), "to": cell("row_sum", "i", 0),
         "reason": "Each `dP_[ik]` counts `P_[ik]` times, and the weights sum to 1. So `r_[i]` lies between the smallest "
                   "and the largest `dP_[ik]` of the keys that token [i] sees. Those with much weight pull most, and it "
                   "need not be near any of them."}),
    station(
        5, "Above or below the mean", "weights backward",
        ("Raise `S_ij` by a little `eps`: its weight gains `eps P_ij`, and then every weight of the row gives up its "
         "share, `eps P_ij P_ik`. What each is worth is its `dP`:",
         "`dS_ij = dP_ij P_ij - sum_k dP_ik P_ik P_ij` `= P_ij (dP_ij - r_i)`",
         "In the picture, that is an area: as wide as `P_ij`, from the line `r_i` to `dP_ij`. Each row of `dS` sums to 0."),
        {"text": "Row [b] of `dS` is veiled. Which of its numbers is the smallest, furthest below 0?",
         "smallest": cell("scores", "b"),
         "reason": "It takes both: a `dP_[bj]` far below `r_[b]`, and a weight `P_[bj]` that is not small."}),
    station(
        6, "The mask", "weights backward",
        ("A masked score has weight 0, so `dS_ij = P_ij (dP_ij - r_i)` is 0 there, whatever `dP_ij` is.",
         "Under the causal mask, token [0] sees only itself, and the softmax of a single score is 1."),
        {"text": "What is the sign of `dS_00`?", "sign": cell("scores", 0, 0),
         "reason": "If a token sees only one key, `r` is that key's `dP`, and the difference is 0: no score can "
                   "change a weight of 1. If it sees more keys, `dP_00` can lie above or below their mean."}),
    station(
        7, "To queries and keys", "scores backward",
        ("A score is a product of a query and a key, so its gradient goes to both. `dQ_i` adds up one term for each key "
         "that query i sees, and `dK_j` one for each query that sees key j.",
         "In matrices, `dQ = s dS K` and `dK = s dS^T Q`. The scale multiplies backward just as it does forward. When "
         "you check your answer, the page adds 1 to [raised] and so changes row [m] of `dO`."),
        {"text": "Which numbers of `dQ` will change?", "changes": {"tensor": "q", "kind": "gradient"},
         "edit": {"tensor": "raised", "index": ["m", 0], "by": 1},
         "reason": "Row [m] of `dO` goes into row [m] of `dP` and of `dS`, and `dQ_[m]` is made of that row alone. `dK`, "
                   "made of columns, changes for every key that token [m] sees. Where a token sees one key only, nothing "
                   "changes."}),
    station(
        8, "Gradients add", "output backward",
        ("Every query that sees token j reads `V_j`, so each sends it a gradient, and these add up: `dV_jd += P_ij "
         "dO_id`, one query i after another. With `=`, only the last would survive.",
         "When you check your answer, the page adds 1 to [raised] and so changes row [m] of `dO`."),
        {"text": "Which numbers of `dV` will change?", "changes": {"tensor": "v", "kind": "gradient"},
         "edit": {"tensor": "raised", "index": ["m", 0], "by": 1},
         "reason": "Query [m] sends `P_[mj] dO_[m]` to each `V_j` that it sees. What the other queries send stays the "
                   "same."}),
    station(
        16, "The same mean without P", "row_sum backward",
        ("Substitute `dP_ik = sum_d dO_id V_kd` into `r_i`, and sum over the keys first:",
         "`r_i = sum_d dO_id sum_k P_ik V_kd`",
         "`r_i = sum_d dO_id O_id`",
         "So the mean needs neither `P` nor `dP`, which are too large to keep for long texts. Flash attention's "
         "backward starts by computing it; papers call `r` D, which is a query's length here. When you check your "
         "answer, the page raises `K_00` by 1."),
        {"text": "Which numbers of `r` will change?", "changes": {"tensor": "row_sum", "kind": "gradient"},
         "edit": {"tensor": "k", "index": [0, 0], "by": 1},
         "reason": "`r_i` changes where row i of `O` does. A query that sees only key 0 takes all of `V_0`, whatever the "
                   "score."},
        row_sum=1),
    station(
        "25. An answer of your own trains a model", "Break it, train it", "weights backward",
        ("Is a backward right because a model learns with it? Here one trains: choose *no row sum* under *Make a mistake*, "
         "and press *Train*. What wins a row by its weight alone wins ever more of it, and the model stalls.",
         "Or write your own `dS`. It is compared with finite differences first."),
        {"text": "Now backward forgets the scale `s`, so `dQ` and `dK` are too large. What becomes of the training?",
         "choices": ["It stalls", "It learns, but slowly", "Nothing happens: it learns as well"], "right": 2,
         "reason": "Try it: *no scale*. Adam divides each gradient by its usual size, and so a constant factor is lost. A "
                   "loss that falls does not show that gradients are right; that is why a gradient check is needed."}),
]


HEADS = [
    station(
        "13. From X, and with several heads", "Several heads", "weights forward",
        ("Each head has its own columns of `Q`, `K` and `V`, and does with them what one head does. So there are as many "
         "`P` as heads, and as many `dS`: each row of each sums to 0 by itself.",
         "When you check your answer, the page raises `W_q00` by 1. Column 0 of `W_q` makes the first number of each "
         "query of head 0."),
        {"text": "Which numbers of `P` will change?", "changes": {"tensor": "weights", "kind": "value"},
         "edit": {"tensor": "w_q", "index": [0, 0], "by": 1},
         "reason": "Only those of head 0: heads meet again in `W_o`, and in the sum that is `dX`. A query that sees one "
                   "key only keeps its weight of 1."}),
]
NORM = [
    station(
        "19. Layer norm", "Shift", "attention_input forward",
        ("Layer norm subtracts its mean from each row of `X`, and divides by the row's deviation: `x_hat = (X - mean) "
         "rstd`.",
         "So each number of a row goes into the whole row of `x_hat`, by the mean and by the deviation. Backward has to "
         "bring all of that back. When you check your answer, the page raises row [i] of `X` by 1, all numbers alike."),
        {"text": "Which numbers of `x_hat` will change?", "changes": {"tensor": "x_hat_attention", "kind": "value"},
         "edit": {"tensor": "x", "index": ["i"], "by": 1},
         "reason": "None: the mean rises as much. What does not change the result has no gradient, so backward takes the "
                   "mean out of `dx_hat`: `dx_hat - mean(dx_hat)`."}),
    station(
        "19. Layer norm", "Stretch", "attention_input forward",
        ("The other thing that layer norm does not see is how far a row spreads: its deviation is divided out, and `rstd` "
         "is 1 over it.",
         "When you check your answer, the page doubles row [i] of `X`."),
        {"text": "Which numbers of `rstd` will change?", "changes": {"tensor": "rstd_attention", "kind": "value"},
         "edit": {"tensor": "x", "index": ["i"], "times": 2},
         "reason": "One, which halves, so that `x_hat` stays, but for `eps`. Stretching a row moves it along `x_hat`; so "
                   "backward takes the part of `dx_hat` along `x_hat` out, `x_hat mean(dx_hat x_hat)`."}),
    station(
        "19. Layer norm", "What is left", "attention_input backward",
        ("Without its mean, and without its part along `x_hat`, `dx_hat` is projected onto the directions that layer norm "
         "does see: `dX = rstd (dx_hat - mean(dx_hat) - x_hat mean(dx_hat x_hat))`. Softmax does the same with one "
         "direction: each row of `dS` sums to 0.",
         "Here the norm before the MLP does not see a shift either. When you check your answer, the page raises row [i] "
         "of `X` by 1 once more."),
        {"text": "Which numbers of `dX` will change?", "changes": {"tensor": "x", "kind": "gradient"},
         "edit": {"tensor": "x", "index": ["i"], "by": 1},
         "reason": "None. Behind both norms all is as before, and what the residual connection adds goes on to the loss "
                   "as a plain sum."}),
]


def fits(head: Head) -> bool:
    """Is all that the stations speak of there?"""
    is_plain = head.heads == 1 and not head.starts_from_x and not head.rotary and not head.targets
    return is_plain and head.keep is None and head.bias is None and min(head.tokens) >= 2


def stations(head: Head) -> list[dict]:
    """The stations for a head that `fits`."""
    (queries, keys), width = head.tokens, head.size
    i = min(queries, 4) - 1  # further rows are hidden in their scroll boxes
    numbers = {"i": i, "m": max(i - 1, 1), "n": min(i, keys - 1)}
    numbers["raised"] = "expected" if head.words else "upstream"
    numbers["b"] = numbers["m"] if head.words else i  # where the smallest dP has little weight
    products = " + ".join(f"Q_[i{d}] K_1{d}" for d in range(width)) if width < 4 else "sum_d Q_[id] K_[1d]"
    raised = "`Y_[m0]`, as if the next word could be two," if head.words else "`U_[m0]`, the factor of `O_[m0]` in `L`,"
    words = {"raised": raised, "score": f"({products})" if 1 < width < 4 else products, "keys": COUNTS.get(keys, str(keys))}

    path = [filled(one, numbers, words, head.labels) for one in STATIONS]
    if not head.words:
        return path
    return [filled(WHY, numbers), *({**one, "name": str(number)} for number, one in enumerate(path, 1))]


def filled(part: Any, numbers: dict[str, Any], words: dict[str, str] | None = None, labels: tuple[str, ...] = ()) -> Any:
    """A part of a station, with tokens and words in place of the letters in brackets."""
    def place(found: re.Match) -> str:
        index = "".join(str(numbers.get(letter, letter)) for letter in found[2])
        if found[1]:
            return f"_{index}" if index.isdigit() else f"_{{{index}}}"
        label = dict(enumerate(labels)).get(int(index), "").replace("`", "'")
        return f"{index} ({label})" if label else index

    if isinstance(part, dict):
        return {key: filled(value, numbers, words, labels) for key, value in part.items()}
    if isinstance(part, list):
        return [filled(numbers.get(value, value) if isinstance(value, str) else value, numbers, words, labels)
                for value in part]
    if not isinstance(part, str):
        return part
    if part == "raised":  # what decides about the gradient of the output
        return numbers["raised"]
    part = re.sub(r"\[(score|keys|raised)\]", lambda found: (words or {})[found[1]], part)
    return re.sub(r"(_?)\[(\w+)\]", place, part)


def of_heads(head: Head) -> list[dict]:
    """The station for several heads, where they have queries and keys of their own."""
    is_plain = head.heads > 1 and head.starts_from_x and not head.rotary and len(head.upstream) > 1
    return HEADS if is_plain else []


def of_norms(trace: Trace) -> list[dict]:
    """The stations for layer norm, if there is one before attention, and one before the MLP."""
    norms = {step.output.name for step in trace.steps if step.op == "LayerNorm"}
    rows = len(trace.steps[0].output.value)
    return [filled(one, {"i": rows - 1}) for one in NORM] if norms == {"attention_input", "mlp_input"} else []
