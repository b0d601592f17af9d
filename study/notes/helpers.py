"""Shared by the claims of several notes: numbers, formulas, layers, derivatives."""
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from models.config import TransformerConfig
from models.transformer import MLP, Block
from study.notes.attention import Attention
from study.notes.claims import Refuted, require

EXACT = 1e-12  # more than rounding errors in float64
Array = np.ndarray | Tensor
Pairs = Iterable[tuple[Array, Array | float]]
Layer = Callable[[Tensor], Tensor]


# numbers

def normal(seed: int, *shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def randn(*shape: int, seed: int = 0) -> Tensor:
    """The same, as a Tensor in float64."""
    return mg.tensor(normal(seed, *shape))


def values(x: Array | float) -> np.ndarray:
    return x.array if isinstance(x, Tensor) else np.asarray(x)


def largest(a: Array, b: Array | float = 0.0) -> float:
    """The largest difference |a - b|."""
    return float(np.abs(values(a) - values(b)).max())


def require_equal(a: Array, b: Array | float, bound: float = EXACT) -> float:
    """The largest difference; Refuted if it reaches the bound."""
    difference = largest(a, b)
    require(difference < bound, f"they differ by {difference:.0e}")
    return difference


def refusal(function: Callable[..., Any], *arguments) -> str:
    """The message of the ValueError that the function raises; Refuted if there is none."""
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)
    raise Refuted("it should raise a ValueError, but does not")


def misprint(mended: Pairs, printed: Pairs = (), refused: Iterable[Callable[[], Any]] = (), least: float = 0.1) -> dict:
    """What a misprinted formula gives: the pairs are equal if it is mended, and differ by more than `least` if it is taken
    as printed, or it has shapes that do not fit. Refuted if not."""
    for product in refused:
        require("shapes" in (message := refusal(product)), message)
    off = [largest(*pair) for pair in printed]
    require(min(off, default=1.0) > least, f"as printed it differs by {off} only")
    return dict(mended=max(require_equal(*pair) for pair in mended), **{"as_printed": off} if off else {})


@dataclasses.dataclass(frozen=True)
class Spread:
    """Measurements with several seeds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __format__(self, spec: str) -> str:
        middle, low, high = (format(value, spec) for value in (self.median, min(self.values), max(self.values)))
        return middle if low == high else f"{middle} ({low} to {high})"


def over_seeds(measure: Callable[..., float], *arguments, seeds: int = 5) -> Spread:
    """measure(seed, *arguments) for each seed, with all generators seeded. A claim should hold for the median.

    >>> f"{over_seeds(lambda seed: seed / 10):.1f}"
    '0.2 (0.0 to 0.4)'
    """

    def run(seed: int) -> float:
        mg.manual_seed(seed)
        return float(measure(seed, *arguments))

    return Spread(tuple(run(seed) for seed in range(seeds)))


# formulas

def softmax(scores: np.ndarray) -> np.ndarray:
    """Row by row."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, is_causal: bool = False) -> np.ndarray:
    """Row t: the sum of exp(q_t . k_s) v_s over s, divided by the sum of exp(q_t . k_s); s ends at t if causal."""
    rows = []
    for t, query in enumerate(queries):
        seen = range(t + 1 if is_causal else len(keys))
        weights = [math.exp(sum(a * b for a, b in zip(query, keys[s]))) for s in seen]
        rows.append(sum(weights[s] * values[s] for s in seen) / sum(weights))
    return np.array(rows)


def heads_of(layer: Attention, x: np.ndarray, memory: np.ndarray | None = None) -> np.ndarray:
    """The heads' outputs, concatenated (T, heads * value size), in loops."""
    memory = x if memory is None else memory
    parts = [source @ W for source, W in zip((x, memory, memory), matrices(layer))]
    heads = zip(*(np.split(part, layer.heads, axis=1) for part in parts))
    return np.hstack([attend(layer.scale * q, k, v, layer.causal) for q, k, v in heads])


def mhsa(layer: nn.MultiHeadAttention, x: np.ndarray, is_causal: bool = False) -> np.ndarray:
    """The layer, head by head."""
    weights, biases = (np.split(p.array, 3) for p in (layer.in_proj_weight, layer.in_proj_bias))
    q, k, v = (np.split(x @ weight.T + bias, layer.num_heads, axis=1) for weight, bias in zip(weights, biases))
    heads = [attend(q_h / math.sqrt(q_h.shape[1]), k_h, v_h, is_causal) for q_h, k_h, v_h in zip(q, k, v)]
    return np.hstack(heads) @ layer.out_proj.weight.array.T + layer.out_proj.bias.array


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def feed_forward(layer: MLP, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray] = gelu) -> np.ndarray:
    hidden = activation(x @ layer.expand.weight.array.T + layer.expand.bias.array)
    return hidden @ layer.project.weight.array.T + layer.project.bias.array


def normalised(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm without gain and bias."""
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def layer_norm(layer: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    return normalised(x, layer.eps) * layer.weight.array + layer.bias.array


def sinusoids(T: int, D: int, L: float = 10_000.0) -> np.ndarray:
    """Row t: sin(t / L^(i / D)) in the even places i, and the cosine of the same in the place after it."""
    return np.array([[(math.cos if i % 2 else math.sin)(t / L ** (i // 2 * 2 / D)) for i in range(D)] for t in range(T)])


def products_vary(table: np.ndarray) -> float:
    """How much p_t . p_s varies for the same t - s, for the rows p of a table."""
    products = table @ table.T
    return max(float(np.ptp(np.diag(products, k))) for k in range(len(table)))


# layers

def scrambled(module: nn.Module, std: float = 0.5, seed: int = 0) -> Any:
    """In float64, with random parameters that are not small."""
    generator = np.random.default_rng(seed)
    for parameter in module.double().parameters():
        parameter.data[...] = std * generator.standard_normal(parameter.shape)
    return module


def size(module: nn.Module) -> int:
    """The number of its parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def plain_attention(width: int, heads: int = 1, **switches) -> Attention:
    """Attention in float64, without scale, values or read-out unless switches say otherwise."""
    return Attention(width, heads, **{"scale": 1.0, "value": False, "output_projection": False, **switches}).double()


def matrices(layer: Attention) -> list[np.ndarray]:
    """Q, K and V of a layer, for x @ Q; a Linear holds the transpose."""
    return [projection.weight.array.T for projection in (layer.query, layer.key, layer.value)]


def states_of(rnn: nn.RNN) -> Layer:
    """The function from inputs to all states."""
    return lambda x: rnn(x)[0]


def make_block(placement: str, width: int = 4, heads: int = 2) -> Block:
    """A bidirectional block, with the same parameters for all placements."""
    return scrambled(Block(TransformerConfig(context=8, heads=heads, width=width, placement=placement), is_causal=False))


BLOCKS = {  # {placement: a block, from its input x, attention a, MLP m and norms n1, n2}
    "none": lambda x, a, m, n1, n2: m(a(x)),
    "residual": lambda x, a, m, n1, n2: (y := x + a(x)) + m(y),
    "post": lambda x, a, m, n1, n2: n2((y := n1(x + a(x))) + m(y)),
    "pre": lambda x, a, m, n1, n2: (y := x + a(n1(x))) + m(n2(y)),
    "inner": lambda x, a, m, n1, n2: (y := n2((z := n1(x)) + a(z))) + m(y),
    "mixed": lambda x, a, m, n1, n2: (y := (z := n1(x)) + a(z)) + m(n2(y)),
    "post_attention_only": lambda x, a, m, n1, n2: n2(m(n1(x + a(x)))),
}


def require_block(placement: str, x: Tensor) -> float:
    """How far a block is from its formula at x (1, T, C); Refuted if it is far."""
    block = make_block(placement, x.shape[-1])
    parts = (functools.partial(mhsa, block.attention), functools.partial(feed_forward, block.mlp),
             *(functools.partial(layer_norm, norm) for norm in (block.ln_1, block.ln_2)))
    return require_equal(block(x)[0], BLOCKS[placement](x.array[0], *parts))


def apart(x: Tensor, placement: str, *others: str) -> float:
    """The least difference of a block from others with the same parameters; Refuted if they are hardly different."""
    y, *rest = (make_block(name, x.shape[-1])(x) for name in (placement, *others))
    least = min(largest(other, y) for other in rest)
    require(least > 0.1, f"{placement} is {least:.0e} from {others}")
    return least


def stack(depth: int, **config) -> nn.Sequential:
    """Bidirectional blocks of width 16 in float64, as they start."""
    mg.manual_seed(0)
    blocks = (Block(TransformerConfig(context=8, heads=2, width=16, **config), is_causal=False) for _ in range(depth))
    return nn.Sequential(*blocks).double()


def silence(block: Block, *layers: nn.Linear) -> Block:
    """Make these layers output zeros, by default the last of attention and of the MLP."""
    for layer in layers or (block.attention.out_proj, block.mlp.project):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return block


# derivatives, and what depends on what

def slope_of(function: Layer, x: Tensor) -> np.ndarray:
    """The Jacobian of a function at x that keeps the shape, as a matrix."""
    return mg.jacobian(function, x).array.reshape(x.numel(), x.numel())


def influence(function: Layer, x: Tensor) -> np.ndarray:
    """(T, S): the largest derivative of the output at t with respect to the input at s; x (1, S, C)."""
    return np.abs(mg.jacobian(function, x).array).max(axis=(0, 2, 3, 5))


def require_causal(reach: np.ndarray) -> float:
    """The least influence (T, T) of the past; Refuted if it is 0, or one of the future is not."""
    future = reach[np.triu_indices(len(reach), 1)]
    past = reach[np.tril_indices(len(reach))]
    require(not future.any(), f"the future has an influence of {future.max():.0e}")
    require(past.all(), f"the least influence of the past is {past.min():.0e}")
    return past.min()


def moved_by_order(function: Layer, x: Tensor, order: Sequence[int]) -> float:
    """How much the last output changes if the inputs (1, T, ...) come in another order, whose last is the last."""
    return largest(function(x[:, order])[:, -1], function(x)[:, -1])


def operations_in_a_row(y: Tensor) -> int:
    """The number of operations on the longest path from a leaf to y."""

    @functools.cache
    def length(node) -> int:
        parents = (parent for parent in getattr(node, "parents", ()) if parent is not None)  # leaves have none
        return 1 + max(map(length, parents), default=-1)

    return length(y.grad_fn)
