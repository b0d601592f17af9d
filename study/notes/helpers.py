"""Shared by the claims of several notes: numbers, formulas, layers, gradients."""
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Iterable
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
Pairs = Iterable[tuple[np.ndarray | Tensor, np.ndarray | Tensor | float]]


# numbers

def normal(seed: int, *shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def values(x: np.ndarray | Tensor) -> np.ndarray:
    return x.array if isinstance(x, Tensor) else np.asarray(x)


def largest(a: np.ndarray | Tensor, b: np.ndarray | Tensor | float = 0.0) -> float:
    """The largest difference |a - b|."""
    return float(np.abs(values(a) - values(b)).max())


def require_equal(a: np.ndarray | Tensor, b: np.ndarray | Tensor, bound: float = EXACT) -> float:
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


def heads_of(layer: Attention, x: np.ndarray, memory: np.ndarray | None = None, scale: float | None = None,
             is_causal: bool = False) -> np.ndarray:
    """The heads' outputs, concatenated (T, heads * value size), in loops; scale: by default 1 / sqrt(key size)."""
    scale, memory = layer.key_size**-0.5 if scale is None else scale, x if memory is None else memory
    parts = [source @ W for source, W in zip((x, memory, memory), matrices(layer))]
    heads = zip(*(np.split(part, layer.heads, axis=1) for part in parts))
    return np.hstack([attend(scale * q, k, v, is_causal) for q, k, v in heads])


def mhsa(layer: nn.MultiHeadAttention, x: np.ndarray, is_causal: bool = False) -> np.ndarray:
    """The layer, head by head."""
    weights, biases = (np.split(p.array, 3) for p in (layer.in_proj_weight, layer.in_proj_bias))
    q, k, v = (np.split(x @ weight.T + bias, layer.num_heads, axis=1) for weight, bias in zip(weights, biases))
    heads = [attend(q_h / math.sqrt(q_h.shape[1]), k_h, v_h, is_causal) for q_h, k_h, v_h in zip(q, k, v)]
    return np.hstack(heads) @ layer.out_proj.weight.array.T + layer.out_proj.bias.array


def feed_forward(layer: MLP, x: np.ndarray) -> np.ndarray:
    hidden = x @ layer.expand.weight.array.T + layer.expand.bias.array
    gelu = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return gelu @ layer.project.weight.array.T + layer.project.bias.array


BLOCKS = {  # {placement: a block, from its input x, attention a, MLP m and norms n1, n2}
    "none": lambda x, a, m, n1, n2: m(a(x)),
    "residual": lambda x, a, m, n1, n2: (y := x + a(x)) + m(y),
    "post": lambda x, a, m, n1, n2: n2((y := n1(x + a(x))) + m(y)),
    "pre": lambda x, a, m, n1, n2: (y := x + a(n1(x))) + m(n2(y)),
    "inner": lambda x, a, m, n1, n2: (y := n2((z := n1(x)) + a(z))) + m(y),
    "mixed": lambda x, a, m, n1, n2: (y := (z := n1(x)) + a(z)) + m(n2(y)),
    "post_attention_only": lambda x, a, m, n1, n2: n2(m(n1(x + a(x)))),
}


def require_block(block: Block, placement: str, x: np.ndarray) -> float:
    """How far a bidirectional block is from its formula at x (T, C); Refuted if it is far, or a gradient is wrong."""
    parts = (functools.partial(mhsa, block.attention), functools.partial(feed_forward, block.mlp),
             *(functools.partial(layer_norm, norm) for norm in (block.ln_1, block.ln_2)))
    difference = require_equal(block(mg.tensor(x[None]))[0], BLOCKS[placement](x, *parts))
    check_gradients(block, x[None], fast_mode=True)
    return difference


def make_block(placement: str, width: int = 4, heads: int = 2) -> Block:
    """A bidirectional block in float64, with random parameters that are not small."""
    block = Block(TransformerConfig(context=8, heads=heads, width=width, placement=placement), is_causal=False).double()
    for seed, parameter in enumerate(block.parameters()):
        parameter.data[...] = 0.5 * normal(seed, *parameter.shape)
    return block


def stack(depth: int, **config) -> nn.Sequential:
    """Bidirectional blocks of width 16 in float64, as they start."""
    mg.manual_seed(0)
    blocks = (Block(TransformerConfig(context=8, heads=2, width=16, **config), is_causal=False) for _ in range(depth))
    return nn.Sequential(*blocks).double()


def slope_of(block: Block, x: np.ndarray) -> np.ndarray:
    """The Jacobian of a block at x (T, C), (T C, T C)."""
    return mg.jacobian(lambda x: block(x[None])[0], mg.tensor(x)).array.reshape(x.size, x.size)


def normalised(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm without gain and bias."""
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def layer_norm(layer: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    return normalised(x, layer.eps) * layer.weight.array + layer.bias.array


def shift_map(table: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """(the matrix M for which p[t] @ M is closest to p[t + steps] for all rows p of a table, the largest error)"""
    before, after = table[:-steps], table[steps:]
    M, *_ = np.linalg.lstsq(before, after, rcond=None)
    return M, largest(before @ M, after)


# randomness

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


def over_seeds(measure: Callable[[int], float], seeds: int = 5) -> Spread:
    """measure(seed) for each seed, with all generators seeded. A claim should hold for the median.

    >>> f"{over_seeds(lambda seed: seed / 10):.1f}"
    '0.2 (0.0 to 0.4)'
    """

    def run(seed: int) -> float:
        mg.manual_seed(seed)
        return float(measure(seed))

    return Spread(tuple(run(seed) for seed in range(seeds)))


# layers

def plain_attention(width: int, heads: int = 1, **switches) -> Attention:
    """Attention in float64, without scale, values or read-out unless switches say otherwise."""
    return Attention(width, heads, **{"scale": "none", "value": False, "output_projection": "none", **switches}).double()


def matrices(layer: Attention) -> list[np.ndarray]:
    """Q, K and V of a layer, for x @ Q; a Linear holds the transpose."""
    return [projection.weight.array.T for projection in (layer.query, layer.key, layer.value)]


def silence(block: Block) -> Block:
    """Make attention and MLP output zeros."""
    for layer in (block.attention.out_proj, block.mlp.project):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return block


# gradients

def check_gradients(module: nn.Module, *inputs: np.ndarray | Tensor, **options) -> float:
    """The largest relative error of the gradients of parameters and inputs; Refuted if one is wrong."""
    leaves = [mg.tensor(values(x), requires_grad=True) for x in inputs]
    report = mg.gradcheck_module(module, leaves, raise_exception=False, progress=False, **options)
    error = max(part.error for part in report.inputs)
    require(bool(report) and error < 1e-6, f"a gradient is wrong:\n{report}")
    return error


def influence(function: Callable[[Tensor], Tensor], x: np.ndarray | Tensor) -> np.ndarray:
    """(T, S): the largest derivative of the output at t with respect to the input at s; x (1, S, C)."""
    jacobian = mg.jacobian(function, mg.tensor(x)).array
    return np.abs(jacobian).max(axis=(0, 2, 3, 5))


def require_causal(reach: np.ndarray) -> None:
    """Refuted unless the influence (T, T) is 0 for the future, and nonzero for all of the past."""
    future, past = reach[np.triu_indices(len(reach), 1)], reach[np.tril_indices(len(reach))]
    require(not future.any(), f"the future has an influence of {future.max():.0e}")
    require(past.all(), f"the least influence of the past is {past.min():.0e}")


def longest_chain(y: Tensor) -> int:
    """The number of operations on the longest path from a leaf to y."""

    @functools.cache
    def length(node) -> int:
        parents = (parent for parent in getattr(node, "parents", ()) if parent is not None)  # leaves have none
        return 1 + max(map(length, parents), default=-1)

    return length(y.grad_fn)
