"""Flash attention's backward (Dao et al., arXiv:2205.14135) as plain steps in float64: tile by tile, without all of P.

Forward keeps the output and, for each query, lse = log(sum of e^scores). Backward takes the row sum from dO and O. Then it
goes through tiles of queries and keys, and computes their scores and weights again:

    S = scale q k^T,  P = e^(S - lse),  dP = dO v^T,  dS = P * (dP - row_sum)
    dV += P^T dO,  dK += scale dS^T q,  dQ += scale dS k
"""
import math
import re
from collections.abc import Iterator

import minigrad as mg
from minigrad import Tensor
from study.page.attention import FROM_Q_K_V, Head, named
from study.page.formulas import step

Words = dict[str, dict]


class Tiles:
    """A head's backward in tiles of `size` queries and keys, as steps to be traced, and what a page says of them."""

    def __init__(self, head: Head, size: int):
        self.head, self.size = head, size
        self.words: Words = {}
        self.symbols = {"q": "Q", "k": "K", "v": "V", "scores": "S", "weights": "P", "output": "O", "upstream": "dO",
                        "lse": "lse", "row_sum": "r"}
        self.layout = [["q", "k", "scores", "weights", "v", "output", "lse"], ["upstream", "row_sum"]]
        self.labels: dict[str, dict[str, list[str]]] = {}
        self.joined: list[str] = []  # steps that are shown with the next one
        self.hidden: list[str] = []
        self.sums: dict[str, Tensor] = {}  # dQ, dK and dV of the tiles so far

    def run(self, inputs: dict[str, Tensor]) -> None:
        """Trace forward and backward."""
        q, k, v = (inputs[name] for name in FROM_Q_K_V)
        upstream = named("upstream", mg.tensor(self.head.upstream, dtype=mg.float64, requires_grad=True))
        self.kept = {"q": q, "k": k, "v": v, "upstream": upstream}
        self.forward(q, k, v)
        self.backward(upstream)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        scores = self.join("products", q @ self.join("k_transposed", k.mT)) * self.head.factor
        self.show("scores", scores, "Scores", (
            "S = s Q K^T", "The scalar product of each query and each key, times a scale."))
        masked = self.join("masked_scores", mg.where(mg.tensor(self.head.mask), scores, -math.inf))
        total = self.join("totals", self.join("powers", masked.exp()).sum(-1, keepdim=True))
        lse = self.show("lse", total.log(), "One number for each query, which is kept", (
            "lse_i = log(sum_k e^(S_ik))",
            "With it, each weight can be computed again by itself: `P_ij = e^(S_ij - lse_i)`."))
        weights = self.show("weights", self.join("differences", masked - lse).exp(), "Weights", (
            "P_ij = e^(S_ij - lse_i)", "The softmax. Flash attention computes `S` and `P` in tiles here too, and keeps "
            "neither: of T tokens they would take `T^2` numbers."))
        self.kept |= {"lse": lse, "output": self.show("output", weights @ v, "Output", (
            "O = P V", "What is kept for backward is `Q`, `K`, `V`, `O` and `lse`."))}

    def backward(self, upstream: Tensor) -> None:
        products = self.join("row_products", upstream * self.kept["output"])
        self.kept["row_sum"] = self.show("row_sum", products.sum(-1, keepdim=True), "The row sum, before all tiles", (
            "r_i = sum_d dO_id O_id",
            "Equal to `sum_k dP_ik P_ik`, but it needs no row of `P`, which would cross many tiles."))
        for j in self.tiles(1):
            for i in self.tiles(0):
                if self.head.mask[self.slice(i), self.slice(j)].any():
                    self.tile(i, j)

    def tiles(self, axis: int) -> Iterator[int]:
        return range(math.ceil(self.head.tokens[axis] / self.size))

    def slice(self, i: int) -> slice:
        return slice(i * self.size, (i + 1) * self.size)

    def tile(self, i: int, j: int) -> None:
        """What one tile adds to dQ_i, dK_j and dV_j."""
        at, self.row = f"{i}{j}", []
        queries, keys = (", ".join(map(str, self.tokens(*place))) for place in ((i, 0), (j, 1)))
        title = f"Tile of queries {queries} and keys {keys}"
        self.layout.append(self.row)
        k_transposed = self.join(f"turned_k_{at}", self.rows("k", j, at).mT)
        products = self.join(f"products_{at}", self.rows("q", i, at) @ k_transposed)
        scores = self.join(f"scores_{at}", products * self.head.factor, is_hidden=False)
        self.place(f"scores_{at}", f"S_{at}", i, j)
        seen = self.head.mask[self.slice(i), self.slice(j)]
        masked = self.join(f"masked_{at}", mg.where(mg.tensor(seen), scores, -math.inf))
        weights = self.join(f"differences_{at}", masked - self.rows("lse", i, at)).exp()
        self.place(f"weights_{at}", f"P_{at}", i, j)
        self.show(f"weights_{at}", weights, f"{title}: scores and weights, computed again", (
            [f"S_{at} = s Q_{i} K_{j}^T", f"P_{at} = e^(S_{at} - lse_{i})"],
            "Computed again from what was kept: this costs time, and saves the memory of all `P`."))
        self.add(f"dV_{j}", at, weights.mT, ("upstream", i), 1.0, f"P_{at}^T dO_{i}", f"{title}: to the values")
        dweights = self.join(f"dweights_{at}", self.rows("upstream", i, at) @ self.join(
            f"turned_v_{at}", self.rows("v", j, at).mT), is_hidden=False)
        self.place(f"dweights_{at}", f"dP_{at}", i, j)
        dscores = weights * self.join(f"excess_{at}", dweights - self.rows("row_sum", i, at))
        self.place(f"dscores_{at}", f"dS_{at}", i, j)
        self.show(f"dscores_{at}", dscores, f"{title}: the softmax, backward", (
            [f"dP_{at} = dO_{i} V_{j}^T", f"dS_{at} = P_{at} (dP_{at} - r_{i})"],
            "`dS = P (dP - r)`, of this tile alone: the row sum is known already."))
        factor = self.head.factor
        self.add(f"dK_{j}", at, dscores.mT, ("q", i), factor, f"s dS_{at}^T Q_{i}", f"{title}: to the keys")
        self.add(f"dQ_{i}", at, dscores, ("k", j), factor, f"s dS_{at} K_{j}", f"{title}: to the queries")

    def add(self, symbol: str, at: str, factor: Tensor, rows: tuple[str, int], scale: float, formula: str, title: str
            ) -> None:
        """Add factor @ these rows of what was kept * scale to a sum."""
        letter, number = symbol[1].lower(), int(symbol[3:])
        name, before = f"d{letter}_{number}_after_{at}", self.sums.get(symbol)
        if symbol[1] != "Q":
            self.join(f"turned_{name}", factor)
        part = factor @ self.rows(*rows, name)
        if scale != 1.0:
            part = self.join(f"unscaled_{name}", part) * scale
        total = part if before is None else before + self.join(f"part_{name}", part)
        self.sums[symbol] = total
        self.place(name, symbol, number)
        sign, why = ("=", "The first tile that reaches these rows.") if before is None else (
            "+=", "Added to what earlier tiles have sent: these rows are used by several tiles.")
        whole = f"`{symbol[:2]} = {re.sub('_[0-9]+', '', formula)}`"
        lines = f"As for whole matrices, {whole}, with this tile's numbers.", why
        self.show(name, total, title, (f"{symbol} {sign} {formula}", *lines))

    def rows(self, name: str, i: int, at: str) -> Tensor:
        """A tile's rows of what was kept."""
        return self.join(f"{name}_{i}_in_{at}", self.kept[name][self.slice(i)])

    def join(self, name: str, tensor: Tensor, is_hidden: bool = True) -> Tensor:
        """A step that is shown with the next one."""
        self.joined.append(name)
        self.hidden += [name] * is_hidden
        return named(name, tensor)

    def show(self, name: str, tensor: Tensor, title: str, words: tuple) -> Tensor:
        self.words[name] = step(title, words, joins=tuple(self.joined))
        if "row_sum" in self.words:
            self.words[name]["forward"]["direction"] = "backward"
        self.joined = []
        return named(name, tensor)

    def place(self, name: str, symbol: str, i: int, j: int | None = None) -> None:
        """Put a tile's matrix into its row, labelled with its tokens."""
        self.row.append(name)
        self.symbols[name] = symbol
        axes = {"rows": (i, 1 if symbol[1] in "KV" else 0)} | ({} if j is None else {"columns": (j, 1)})
        self.labels[name] = {axis: [str(token) for token in self.tokens(*place)] for axis, place in axes.items()}

    def tokens(self, i: int, axis: int) -> list[int]:
        return list(range(self.head.tokens[axis]))[self.slice(i)]
