"""Flash attention's backward (Dao et al., arXiv:2205.14135): a head's backward, tile by tile, without all of P.

Forward keeps the output and, for each query, lse = log(sum of e^scores). Backward takes the row sum from dO and O. Then it
goes through tiles of queries and keys, and computes their scores and weights again:

    S = s Q K^T,  P = e^(S - lse),  dP = dO V^T,  dS = P * (dP - r)
    dV += P^T dO,  dK += s dS^T Q,  dQ += s dS K
"""
from collections.abc import Iterable, Iterator

import numpy as np

from minigrad.tracing import Trace
from study.page import formulas
from study.page.attention import Head

AXES = {  # the last two of a tensor, by what its name is, or begins with
    **{name: ("query", None) for name in ("q", "output", "attended", "upstream", "row_sum", "lse")},
    **{name: ("key", None) for name in ("k", "v")},
    **{name: ("query", "key") for name in ("scores", "weights", "dropped", "keep", "bias")},
    "k_transposed": (None, "key"),
}
Tile = dict[str, list[int]]  # {"query": its queries, "key": its keys}


def axes(names: Iterable[str]) -> dict[str, tuple[str | None, ...]]:
    """What the last two axes of these tensors run over, of those that have queries or keys."""
    return {name: AXES[known] for name in names for known in AXES if name == known or name.startswith(f"{known}_")}


def parts(head: Head, trace: Trace, size: int) -> list[dict]:
    """The backward of scores and weights in tiles, as the page's extras have it."""
    made, all_tiles = {step.output.name: step for step in trace.steps}, list(tiles(head.mask, size))
    p, v = (tensor.name for tensor in made[head.product].inputs)
    q, k = (made[name].inputs[0].name for name in ("products", "k_transposed"))
    Q, K, V, P, out = (formulas.SYMBOLS[name] for name in (q, k, v, p, head.product))
    dropped = [p] if p != "weights" else []
    again = ["scores", "weights", *dropped]
    bias = " + B" if head.bias is not None else ""

    def of_tile(number: int, tile: Tile) -> Iterator[dict]:
        def step(steps: list[str], to: list[str], what: str, formula: list[str], *lines: str, way="backward") -> dict:
            words = {"formula": formula, "derivation": [f"This tile: {in_words(tile)}.", *lines]}
            return {"steps": steps, "way": way, "to": to, "part": tile, "words": words,
                    "title": f"Tile {number} of {len(all_tiles)}: {what}"}

        yield step(again, again, "S and P, computed again",
                   [f"S = s {Q} {K}^T{bias}", "P = e^(S - lse)", *(f"{P} = P * keep" for _ in dropped)],
                   "From what was kept, for this tile alone: more arithmetic, but never all of `P` in memory.",
                   way="forward")
        yield step([head.product], [v], "to the values", [f"d{V} += {P}^T d{out}"],
                   f"The rows of `d{V}` that belong to these keys get what these queries send. Other tiles of these keys "
                   "add to them.")
        yield step([head.product, *dropped, "weights"], [*dropped, "weights", "scores"], "softmax, backward",
                   [f"d{P} = d{out} {V}^T", *(f"dP = d{P} * keep" for _ in dropped), "dS = P * (dP - r)"],
                   "The row sum `r` runs over all keys, also those of other tiles. But it is known already, from "
                   f"`d{out}` and `{out}`, so a tile needs no other.")
        yield step(["scores"], [k], "to the keys", [f"d{K} += s dS^T {Q}"],
                   "Every query that sees a key sends it a gradient: the tiles of these keys, one after another, add "
                   f"to the same rows of `d{K}`.")
        yield step(["scores"], [q], "to the queries", [f"d{Q} += s dS {K}"],
                   f"The tiles of these queries add to the same rows of `d{Q}`. Then the tile is forgotten.")

    return [step for number, tile in enumerate(all_tiles, 1) for step in of_tile(number, tile)]


def tiles(mask: np.ndarray, size: int) -> Iterator[Tile]:
    """The tiles in which a query sees a key, column by column."""
    queries, keys = ([list(range(n))[start:start + size] for start in range(0, n, size)] for n in mask.shape)
    for columns in keys:
        for rows in queries:
            if mask[np.ix_(rows, columns)].any():
                yield {"query": rows, "key": columns}


def in_words(tile: Tile) -> str:
    """
    >>> in_words({"query": [4, 5], "key": [0]}), in_words({"query": [2], "key": [3, 4, 5]})
    ('queries 4 and 5, key 0', 'query 2, keys 3 to 5')
    """
    def counted(one: str, several: str) -> str:
        first, *_, final = found = tile[one] * 2 if len(tile[one]) == 1 else tile[one]
        return f"{one} {first}" if first == final else f"{several} {first} {'and' if len(found) == 2 else 'to'} {final}"

    return f"{counted('query', 'queries')}, {counted('key', 'keys')}"
