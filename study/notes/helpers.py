"""What the checks of several notes share: numbers, formulas, layers, gradients."""
import dataclasses
import statistics
from collections.abc import Callable, Iterable

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.architectures import make_model
from models.task import Task
from models.train import Trainer, TrainingConfig
from models.transformer import Block, TransformerConfig
from study.notes.claims import Refuted, require

EXACT = 1e-12  # what rounding may leave in float64


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


def refusal(function: Callable, *arguments) -> str:
    """The message of the ValueError that the function raises; Refuted if it raises none."""
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)
    raise Refuted("it should raise a ValueError, and raises none")


# formulas

def softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normalised(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm without gain and bias."""
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def layer_norm(layer: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    return normalised(x, layer.eps) * layer.weight.array + layer.bias.array


def shift_map(table: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """(the matrix M for which p[t] @ M comes nearest to p[t + steps] for all rows p of a table, the largest error)"""
    before, after = table[:-steps], table[steps:]
    M, *_ = np.linalg.lstsq(before, after, rcond=None)
    return M, largest(before @ M, after)


# layers

def plain_attention(width: int, heads: int = 1, **switches) -> nn.Attention:
    """Attention without scale, values or read-out, unless switches say otherwise; float64."""
    return nn.Attention(width, heads, **{"scale": "none", "value": False, "output_projection": "none", **switches}).double()


def matrices(layer: nn.Attention) -> list[np.ndarray]:
    """Q, K and V of a layer as x @ Q multiplies them; a Linear holds the transpose."""
    return [projection.weight.array.T for projection in (layer.query, layer.key, layer.value)]


def silence(block: Block) -> Block:
    """Zero what attention and MLP give out."""
    for layer in (block.attention.out_proj, block.mlp.project):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return block


def trained(task: Task, name: str, config: TransformerConfig, **training) -> nn.Module:
    """A model of this name after its training on a task."""
    model = make_model(task, name, config, training.get("seed", 0))
    Trainer(model, task, TrainingConfig.of(task, **training)).train()
    return model


def fit(loss_of: Callable[..., Tensor], parameters: Iterable[Tensor], draw: Callable[[], tuple[np.ndarray, ...]],
        steps: int, lr: float) -> float:
    """Minimise loss_of(*draw()) with Adam, at a rate that falls to 0 in the second half; the mean of the last
    losses."""
    optimizer, losses = nn.optim.Adam(list(parameters), lr=lr), []

    @mg.compile
    def loss_and_gradients(*batch):
        loss = loss_of(*batch)
        loss.backward()
        return loss

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, 2 * (1 - step / steps))
        optimizer.zero_grad()
        losses.append(loss_and_gradients(*map(mg.tensor, draw())).item())
        optimizer.step()
    return float(np.mean(losses[-20:]))


def read_out_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of logits (..., V) for targets (...)."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def choices(model: nn.Module, x: np.ndarray) -> np.ndarray:
    """What a model that gives logits thinks the likeliest, (...)."""
    with mg.no_grad():
        return model(mg.tensor(x)).array.argmax(axis=-1)


# what depends on chance

@dataclasses.dataclass(frozen=True)
class Spread:
    """What was measured with several seeds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __format__(self, spec: str) -> str:
        middle, low, high = (format(value, spec) for value in (self.median, min(self.values), max(self.values)))
        return middle if low == high else f"{middle} ({low} to {high})"


def over_seeds(measure: Callable[[int], float], seeds: int = 5) -> Spread:
    """measure(seed) for each seed, which seeds all generators first. A claim then holds for the median.

    >>> f"{over_seeds(lambda seed: seed / 10):.1f}"
    '0.2 (0.0 to 0.4)'
    """

    def run(seed: int) -> float:
        mg.manual_seed(seed)
        return float(measure(seed))

    return Spread(tuple(run(seed) for seed in range(seeds)))


# gradients

def check_gradients(module: nn.Module, *inputs: np.ndarray | Tensor, **options) -> float:
    """The largest relative error of all parameters' and inputs' gradients, by finite differences; Refuted if one is
    wrong."""
    leaves = [mg.tensor(values(x), requires_grad=True) for x in inputs]
    report = mg.gradcheck_module(module, leaves, raise_exception=False, progress=False, **options)
    error = max(part.error for part in report.inputs)
    require(bool(report) and error < 1e-6, f"a gradient is wrong:\n{report}")
    return error


def influence(function: Callable[[Tensor], Tensor], x: np.ndarray | Tensor) -> np.ndarray:
    """(T, S): the largest derivative of what comes out at t with respect to what goes in at s; x (1, S, C)."""
    jacobian = mg.jacobian(function, mg.tensor(x)).array
    return np.abs(jacobian).max(axis=(0, 2, 3, 5))


def require_causal(reach: np.ndarray) -> None:
    """Of the influence (T, T): none of the future, some of all that is past."""
    future, past = reach[np.triu_indices(len(reach), 1)], reach[np.tril_indices(len(reach))]
    require(not future.any(), f"the future has an influence of {future.max():.0e}")
    require(past.all(), f"the least influence of the past is {past.min():.0e}")


def longest_chain(y: Tensor) -> int:
    """How many operations follow one another on the longest way from a leaf to y."""

    def length(node) -> int:
        parents = (parent for parent in getattr(node, "parents", ()) if parent is not None)  # leaves have none
        return 1 + max(map(length, parents), default=-1)

    return length(y.grad_fn)
