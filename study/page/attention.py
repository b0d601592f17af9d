"""Attention as plain steps in float64, which a trace records one by one. One head of causal attention:

    q, k, v       = x @ w_q, x @ w_k, x @ w_v      where it starts from x
    scores        = q @ k^T * scale                (Tq, Tk), + bias if there is one
    masked_scores = scores, and -inf where the mask is False
    weights       = softmax(masked_scores), row by row
    output        = weights @ v                    (Tq, Dv), and @ w_o where it starts from x
    loss          = sum(output * upstream)         so that the gradient at output is upstream

It can have more: several heads, whose keys and values can be shared by groups of queries; rotary positions; dropout of the
weights; and as the loss the cross-entropy of logits = output @ w_u, or of the output itself and the words expected next.
"""
import dataclasses
import math
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn.functional as F
from minigrad import Tensor
from nn.position import rotary_frequencies

FROM_Q_K_V = "q", "k", "v"
FROM_X = "x", "w_q", "w_k", "w_v", "w_o"
AXES_FROM_Q_K_V = {"q": ("T", "HD"), "k": ("S", "GD"), "v": ("S", "GV"), "upstream": ("T", "HV")}
AXES_FROM_X = {"x": ("T", "C"), "w_q": ("C", "HD"), "w_k": ("C", "GD"), "w_v": ("C", "GV"), "w_o": ("HV", "O"),
               "upstream": ("T", "O")}
T, C, V = 3, 4, 4  # of numbers that are drawn: tokens, their width, and classes


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The inputs of a computation by their names, and the upstream gradient of its output.

    Of H heads, groups share keys and values if there are only G `key_value_heads`: w_q (C, H D), w_k (C, G D).
    `keep` (H, Tq, Tk), or (Tq, Tk) for one head, are dropout's factors. With `targets`, the classes of the tokens, and w_u
    (C, V) among the inputs, the loss is the cross-entropy, and `upstream` what it sends to the output.
    """

    inputs: dict[str, np.ndarray]
    upstream: np.ndarray
    causal: bool = True
    heads: int = dataclasses.field(default=1, kw_only=True)
    key_value_heads: int | None = dataclasses.field(default=None, kw_only=True)
    rotary: bool = dataclasses.field(default=False, kw_only=True)
    keep: np.ndarray | None = dataclasses.field(default=None, kw_only=True)
    targets: tuple[int, ...] = dataclasses.field(default=(), kw_only=True)

    @property
    def tokens(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return len(self.upstream), len(self.inputs.get("k", self.upstream))

    @property
    def mask(self) -> np.ndarray:
        """(Tq, Tk), True where a query attends to a key."""
        return np.tri(*self.tokens, dtype=bool) if self.causal else np.ones(self.tokens, dtype=bool)

    @property
    def groups(self) -> int:
        """The number of heads of keys and values."""
        return self.key_value_heads or self.heads

    @property
    def size(self) -> int:
        """D, the width of a query of one head."""
        return self.inputs["w_q" if "w_q" in self.inputs else "q"].shape[1] // self.heads

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of the inputs and of upstream. Equal letters are equal lengths; HD are H heads of D features side by
        side, GD are G heads of keys or values."""
        found = AXES_FROM_X if "x" in self.inputs else AXES_FROM_Q_K_V
        return found | ({"w_u": (found["upstream"][1], "N")} if self.targets else {})

    def cut(self, **most: int) -> "Inputs":
        """The same in small: along the axis of each of these letters at most this length, in each head."""
        def short(array: np.ndarray, *axes: str) -> np.ndarray:
            for axis, (*heads, letter) in enumerate(axes, -len(axes)):
                count = {"H": self.heads, "G": self.groups}[heads[0]] if heads else 1
                places = np.arange(array.shape[axis]).reshape(count, -1)
                array = array.take(places[:, :most.get(letter)].ravel(), axis)
            return array

        per_score = {name: short(array, "T", "S") for name in ("keep", "bias")
                     if (array := getattr(self, name, None)) is not None}
        return dataclasses.replace(
            self, inputs={name: short(array, *self.axes[name]) for name, array in self.inputs.items()},
            upstream=short(self.upstream, *self.axes["upstream"]), targets=self.targets[:most.get("T")], **per_score)

    def tensors(self) -> dict[str, Tensor]:
        """The inputs as named Tensors in float64 that require gradients."""
        return {name: named(name, mg.tensor(array, dtype=mg.float64, requires_grad=True))
                for name, array in self.inputs.items()}


@dataclasses.dataclass(frozen=True)
class Head(Inputs):
    """The inputs of one or more heads, FROM_Q_K_V or FROM_X, and the upstream gradient of their output.

    q (Tq, H D), k (Tk, G D), v (Tk, G Dv), upstream (Tq, H Dv); or x (T, C), w_q (C, H D), w_k (C, G D), w_v (C, G Dv),
    w_o (H Dv, C') and upstream (T, C'). `bias` (Tq, Tk), or one for each head, is added to the scores.
    """

    scale: float | None = None  # of q @ k^T; None: 1 / sqrt(D)
    bias: np.ndarray | None = None
    labels: tuple[str, ...] = ()  # of the tokens
    expected: np.ndarray | None = None  # (T, V): 1 at the next word. The columns of v are votes for these `words`
    words: tuple[str, ...] = ()

    @property
    def starts_from_x(self) -> bool:
        return "x" in self.inputs

    @property
    def factor(self) -> float:
        """The scale as a number."""
        return 1 / math.sqrt(self.size) if self.scale is None else self.scale

    @property
    def product(self) -> str:
        """The name of weights @ v."""
        return "attended_heads" if self.heads > 1 else "attended" if self.starts_from_x else "output"


def named(name: str, tensor: Tensor) -> Tensor:
    tensor.name = name
    return tensor


def attention(head: Head, inputs: dict[str, Tensor]) -> Tensor:
    """The loss of a head with these Tensors as its inputs.

    >>> attention(DEFAULT, DEFAULT.tensors()).item()
    3.0364409...
    """
    if head.starts_from_x:
        output = projected(head, inputs, inputs["x"], head.factor, head.bias)
    else:
        output = weighted_values(head, *(inputs[name] for name in FROM_Q_K_V), head.factor, head.bias)
    return loss_of(head, inputs, named("output", output))


def loss_of(numbers: Inputs, inputs: dict[str, Tensor], output: Tensor) -> Tensor:
    """sum(output * upstream), or the cross-entropy if there are targets or words expected."""
    if numbers.targets:
        logits = output @ inputs["w_u"]
        loss = F.cross_entropy(logits, mg.tensor(list(numbers.targets)))
        return loss
    if getattr(numbers, "expected", None) is not None:
        expected = mg.tensor(numbers.expected, dtype=mg.float64)
        losses = F.cross_entropy(output, expected, reduction="none")
        loss = losses.sum()
        return loss
    upstream = mg.tensor(numbers.upstream, dtype=mg.float64)
    read_out = output * upstream
    loss = read_out.sum()
    return loss


def projected(numbers: Inputs, inputs: dict[str, Tensor], x: Tensor, factor: float, bias: np.ndarray | None = None
              ) -> Tensor:
    """Self-attention of x, with its projections."""
    q = x @ inputs["w_q"]
    k = x @ inputs["w_k"]
    v = x @ inputs["w_v"]
    return named("attended", weighted_values(numbers, q, k, v, factor, bias)) @ inputs["w_o"]


def weighted_values(numbers: Inputs, q: Tensor, k: Tensor, v: Tensor, factor: float, bias: np.ndarray | None) -> Tensor:
    """weights @ v, of all heads side by side."""
    H, G = numbers.heads, numbers.groups
    if H > 1:
        of_keys = "heads" if G == H else "groups"
        q = split("q", q, H, "heads")
        k, v = split("k", k, G, of_keys), split("v", v, G, of_keys)
    if numbers.rotary:
        cos, sin = map(mg.tensor, rotation(*q.shape[-2:]))
        q, k = rotated("q", q, cos, sin), rotated("k", k, cos, sin)
    if G < H:
        group = np.arange(H) // (H // G)  # of each head
        k, v = named("k_heads", k[group]), named("v_heads", v[group])
    k_transposed = k.mT
    products = q @ k_transposed
    if bias is None:
        scores = products * factor
    else:
        bias = mg.tensor(bias, dtype=mg.float64)
        scaled_products = products * factor
        scores = scaled_products + bias
    masked_scores = mg.where(mg.tensor(numbers.mask), scores, -math.inf)
    weights = masked_scores.softmax(-1)
    out = dropped_out(numbers, weights) @ v
    if H == 1:
        return out
    tokens_first = named("attended_heads", out).transpose(0, 1)
    return tokens_first.reshape(len(tokens_first), -1)


def dropped_out(numbers: Inputs, weights: Tensor) -> Tensor:
    """The weights after dropout, if there is any."""
    if numbers.keep is None:
        return weights
    keep = mg.tensor(numbers.keep)
    dropped = weights * keep
    return dropped


def split(name: str, x: Tensor, heads: int, into: str) -> Tensor:
    """The columns of x (T, heads D) cut into heads: (heads, T, D)."""
    cut = named(f"{name}_cut", x.reshape(len(x), heads, -1))
    return named(f"{name}_{into}", cut.transpose(0, 1))


def rotation(T: int, D: int) -> tuple[np.ndarray, np.ndarray]:
    """What rotary positions multiply features, and their partners in pairs, by: cos and -sin, or cos and sin, (T, D)."""
    angles = np.repeat(np.arange(T)[:, None] * rotary_frequencies(D), 2, axis=1)
    return np.cos(angles), np.sin(angles) * np.resize([-1.0, 1.0], D)


def rotated(name: str, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (..., T, D) with its pairs of features rotated by their positions, as `nn.position.rotate` does."""
    swapped = named(f"{name}_swapped", x[..., np.arange(x.shape[-1]) ^ 1])
    kept = named(f"{name}_kept", x * cos)
    crossed = named(f"{name}_crossed", swapped * sin)
    return named(f"{name}_rotated", kept + crossed)


def drawn(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Random numbers of one decimal, which are easy to read."""
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=shape, scale=0.5 if name.startswith("w_") else 1.0).round(1)
            for name, shape in shapes.items()}


def shapes_from_x(heads: int, key_value_heads: int | None) -> dict[str, tuple[int, int]]:
    of_keys = C * (key_value_heads or heads) // heads
    return {"x": (T, C), "w_q": (C, C), "w_k": (C, of_keys), "w_v": (C, of_keys), "w_o": (C, C)}


def dropout(p: float, heads: int, queries: int, keys: int | None = None, seed: int = 13) -> np.ndarray:
    """Dropout's factors for the weights of all heads: 0 with probability p, else 1 / (1 - p)."""
    shape = (heads,) * (heads > 1) + (queries, queries if keys is None else keys)
    return (np.random.default_rng(seed).random(shape) >= p) / (1 - p)


def heads_of(heads: int = 1, key_value_heads: int | None = None, seed: int = 1, **changes) -> Head:
    """Attention from x with random numbers, which are easy to read."""
    inputs = drawn(shapes_from_x(heads, key_value_heads), seed)
    head = Head(inputs, drawn({"upstream": (T, C)}, seed + 1)["upstream"], heads=heads, key_value_heads=key_value_heads)
    return dataclasses.replace(head, **changes)


def with_cross_entropy(numbers: Inputs, loss: Callable[[Inputs, dict[str, Tensor]], Tensor], seed: int = 4) -> Inputs:
    """The same numbers, with `loss` computing the cross-entropy of their targets, or of random classes."""
    if not numbers.targets:
        targets = np.random.default_rng(seed).integers(V, size=len(numbers.upstream)).tolist()
        w_u = drawn({"w_u": (numbers.upstream.shape[1], V)}, seed)
        numbers = dataclasses.replace(numbers, inputs=numbers.inputs | w_u, targets=tuple(targets))
    return with_its_upstream(numbers, loss)


def with_its_upstream(numbers: Inputs, loss: Callable[[Inputs, dict[str, Tensor]], Tensor]) -> Inputs:
    """The same numbers, with what their own loss sends to the output."""
    with mg.textbook(), mg.trace() as trace:
        loss(numbers, numbers.tensors()).backward()
    return dataclasses.replace(numbers, upstream=trace["output"].gradient)


DEFAULT = Head(  # the mask hides the largest scores of tokens 0 and 1
    {"q": np.array([[1.0, 0.5], [-0.5, 1.5], [2.0, -1.0], [0.5, 1.0]]),
     "k": np.array([[1.0, -0.5], [0.5, 1.0], [-1.0, 1.5], [1.5, 0.5]]),
     "v": np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [2.0, -1.0]])},
    upstream=np.array([[0.5, 0.0], [-0.5, 1.0], [1.0, 0.5], [1.0, -1.0]]),
)


WORDS = Head(  # token 3 looks mostly at token 2, and guesses wrong
    {"q": np.array([[1.0, 0.5], [0.5, 1.5], [-0.5, 1.0], [1.0, 2.0]]),
     "k": np.array([[1.0, 0.5], [0.5, -1.0], [-0.5, 2.0], [1.5, 0.0]]),
     "v": np.array([[3.0, -1.0, 0.5], [0.0, 0.5, 2.0], [-1.5, 3.0, 1.0], [1.0, 0.5, -0.5]])},
    upstream=np.zeros((4, 3)), labels=("cat", "sees", "fish", "it"), words=("purrs", "swims", "other"),
    expected=np.eye(3)[[2, 2, 2, 0]],
)


def next_words() -> Head:
    """Four words of a sentence, of which each guesses the next; the loss is the cross-entropy of the right ones."""
    return with_its_upstream(WORDS, attention)
