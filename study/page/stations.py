"""The guided path on the page of a head: stations from one score to a whole head, each with a question.

The page computes the answers from its own numbers, so that they follow every edit and switch; tests/study/test_stations.py
answers them with NumPy.
"""


def cell(tensor: str, *index: int, kind: str = "gradient") -> dict:
    return {"tensor": tensor, "index": list(index), "kind": kind}


def station(section: int, title: str, opens: str, text: tuple[str, ...], question: dict, **turns: int) -> dict:
    """A station in the form of the page's extras. `section` is the guide's of the same title, `opens` a step and its way;
    `turns` are switches with the choices that they have while the station is open."""
    step, way = opens.split()
    return {"title": title, "step": step, "way": way, "guide": f"{section}. {title}", "text": list(text),
            "question": question, "turns": turns}


ROW_3 = [cell("scores", 3, j) for j in range(4)]

STATIONS = [
    station(
        1, "One score", "scores backward",
        ("`S_31 = s (Q_30 K_10 + Q_31 K_11)` measures how well query 3 matches key 1; `s` is the scale.",
         "Backward brings `dS_31`: how fast `L` changes with `S_31`. And `S_31` changes `s K_10` times as fast as "
         "`Q_30`."),
        {"text": "How much does `dS_31` add to `dQ_30`?", "number": cell("q", 3, 0), "term": 1,
         "reason": "By the chain rule, it adds `dS_31` times `s K_10`. Query 3 is in a whole row of scores, so "
                   "`dQ_30` is the sum of four such terms, one for each key."}),
    station(
        2, "A matrix product, backward", "output backward",
        ("Raise `P_21` by `eps`, and row 2 of `O` moves by `eps V_1`. `dO_2` says what each number in that row is "
         "worth to `L`.",
         "So `dP_21` is the dot product of `dO_2` and `V_1`. In matrices, `dP = dO V^T`."),
        {"text": "What is `dP_21`?", "number": cell("weights", 2, 1),
         "reason": "It is row 2 of `dO` times row 1 of `V`: how fast `L` rises as token 2 attends more to token 1."}),
    station(
        3, "Keys compete", "weights forward",
        ("Softmax turns each row of scores into weights that sum to 1. So when one weight rises, the others in its "
         "row fall, each in proportion to its size.",
         "When you check your answer, the page raises `K_30` by 1."),
        {"text": "Which numbers of `P` will change?", "changes": {"tensor": "weights", "kind": "value"},
         "edit": {"tensor": "k", "index": [3, 0], "by": 1},
         "reason": "Key 3 enters one score of each query that sees it. In such a row that weight changes, and the "
                   "others make up for it. A query that does not see key 3 keeps its weights."}),
    station(
        4, "The weighted mean", "row_sum backward",
        ("A weight can only grow at the expense of its row. So what counts is not `dP_ij` itself, but how it "
         "compares with the mean of its row.",
         "In this mean, each key counts as much as its weight: `r_i = sum_k dP_ik P_ik`."),
        {"text": "What is `r_1`?", "number": cell("row_sum", 1, 0),
         "reason": "Each `dP_{1k}` counts `P_{1k}` times, and the weights sum to 1. So `r_1` lies between the "
                   "smallest and the largest `dP_{1k}` of the keys that token 1 sees."}),
    station(
        5, "Above or below the mean", "weights backward",
        ("`dS_ij = P_ij (dP_ij - r_i)`: positive above the mean, negative below. Because of the factor `P_ij`, a key "
         "with little weight gets little gradient.",
         "Each row of `dS` sums to 0: raising all scores of a row by the same amount changes no weight."),
        {"text": "Row 3 of `dS` is veiled. Which of its numbers is the smallest, furthest below 0?", "smallest": ROW_3,
         "reason": "It takes both: a `dP_{3j}` far below `r_3`, and a weight `P_{3j}` that is not small."}),
    station(
        6, "The mask", "weights backward",
        ("A masked score has weight 0, so `dS_ij = P_ij (dP_ij - r_i)` is 0 there, whatever `dP_ij` is.",
         "Under the causal mask, token 0 sees only itself, and the softmax of a single score is 1."),
        {"text": "What is the sign of `dS_00`?", "sign": cell("scores", 0, 0),
         "reason": "If a token sees only one key, `r` is that key's `dP`, and the difference is 0: no score can "
                   "change a weight of 1. If it sees more keys, `dP_00` can lie above or below their mean."}),
    station(
        7, "To queries and keys", "scores backward",
        ("Station 1 was a single term. `dQ_i` adds up one for each key that query i sees, and `dK_j` one for each "
         "query that sees key j.",
         "In matrices, `dQ = s dS K` and `dK = s dS^T Q`. The scale multiplies backward just as it does forward."),
        {"text": "What is `dK_30`?", "number": cell("k", 3, 0),
         "reason": "It is column 3 of `dS` times column 0 of `Q`, times `s`. A query that does not see key 3 has a 0 "
                   "in that column and sends nothing."}),
    station(
        8, "Gradients add", "output backward",
        ("Every query that sees token j reads `V_j`, so each sends it a gradient, and these add up: `dV_jd += P_ij "
         "dO_id`, one query i after another. With `=`, only the last would survive.",
         "When you check your answer, the page raises `U_20`, and with it `dO_20`, by 1."),
        {"text": "Which numbers of `dV` will change?", "changes": {"tensor": "v", "kind": "gradient"},
         "edit": {"tensor": "upstream", "index": [2, 0], "by": 1},
         "reason": "Query 2 sends `P_{2j} dO_20` to column 0 of each `V_j` that it sees. What the other queries send "
                   "stays the same."}),
    station(
        16, "The same mean without P", "row_sum backward",
        ("Substitute `dP_ik = sum_d dO_id V_kd` into `r_i`, and sum over the keys first:",
         "`r_i = sum_d dO_id sum_k P_ik V_kd`",
         "`r_i = sum_d dO_id O_id`",
         "So the mean needs neither `P` nor `dP`, which are too large to keep for long texts. Flash attention's "
         "backward starts by computing it; papers call it D."),
        {"text": "From `dO` and `O` alone: what is `r_3`?", "number": cell("row_sum", 3, 0),
         "reason": "It is row 3 of `dO` times row 3 of `O`: one product per feature, instead of one per key."},
        row_sum=1),
]
