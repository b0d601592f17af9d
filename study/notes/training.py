"""Shared by the claims that train models: tasks, loops, and a record of how each model was trained, for their rows."""
import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.architectures import make_model
from models.task import Task
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig
from models.transformer import TransformerConfig
from study.notes.helpers import Spread, over_seeds


# a record

@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model was trained."""

    optimizer: str  # and how its rate changes
    steps: int
    lr: float  # the highest rate
    batch_size: int


SEEDS: dict[Recipe, set[int]] = collections.defaultdict(set)  # those used with each recipe, since the last clear


def in_words(seeds_of: dict[Recipe, set[int]]) -> str:
    """As "Trained with Adam: 300 steps at a rate of 0.003 on batches of 32; 5 seeds each"; "" for none."""
    parts = []
    ordered = sorted(seeds_of.items(), key=lambda item: (item[0].optimizer, len(item[1]), *dataclasses.astuple(item[0])))
    for (optimizer, seeds), group in itertools.groupby(ordered, lambda item: (item[0].optimizer, len(item[1]))):
        runs = (f"{recipe.steps} steps at a rate of {recipe.lr:g} on batches of {recipe.batch_size}" for recipe, _ in group)
        parts.append(f"{optimizer}: {', '.join(runs)}; {seeds} seeds each")
    return "Trained with " + ". ".join(parts) if parts else ""


# loops

def train(task: Task, name: str, config: TransformerConfig, *, seed: int, **training) -> tuple[nn.Module, list[float]]:
    """A model of this name, trained on a task, and its losses."""
    model, settings = make_model(task, name, config, seed), TrainingConfig.of(task, seed=seed, **training)
    decay = f"{settings.annealing} decay to {settings.final_lr:.0%} after a warm-up of {settings.warmup_steps} steps"
    clipping = f"clipping at a norm of {settings.max_grad_norm:g}" if settings.max_grad_norm < 1e6 else "no clipping"
    SEEDS[Recipe(f"AdamW ({decay}, {clipping})", settings.steps, settings.lr, settings.batch_size)].add(seed)
    return model, Trainer(model, task, settings).train()


def trained(task: Task, name: str, config: TransformerConfig, **training) -> nn.Module:
    """The model alone."""
    return train(task, name, config, **training)[0]


def fit(loss_of: Callable[..., Tensor], parameters: Iterable[Tensor], draw: Callable[[], tuple[np.ndarray, ...]],
        steps: int, lr: float, seed: int) -> float:
    """Minimise loss_of(*draw()) with Adam, at a rate that falls to 0 in the second half; the mean of the last losses.

    `seed` is the one that made the parameters and `draw`, for the record.
    """
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
        batch = draw()
        losses.append(loss_and_gradients(*map(mg.tensor, batch)).item())
        optimizer.step()
    SEEDS[Recipe("Adam (linear decay to 0 in the second half)", steps, lr, len(batch[0]))].add(seed)
    return float(np.mean(losses[-20:]))


def after_fit(make: Callable[[], nn.Module], draw: Callable[[np.random.Generator], tuple[np.ndarray, ...]],
              measure: Callable[..., float], steps: int, lr: float, loss: Callable[..., Tensor] | None = None) -> Spread:
    """measure(model, generator) for models of five seeds, after `steps` of training on batches from `draw`.

    The loss is loss(model, *batch); without one, the cross-entropy of model(inputs) for the targets.
    """
    def run(seed: int) -> float:
        model, generator = make(), np.random.default_rng(seed)
        fit(lambda *batch: (loss or classes_loss)(model, *batch), model.parameters(), lambda: draw(generator), steps, lr,
            seed)
        return measure(model, generator)

    return over_seeds(run)


# models and tasks

class Tagger(nn.Module):
    """Logits (B, T, outputs) from one layer of attention over tokens (B, T) with positions."""

    def __init__(self, symbols: int, outputs: int, width: int, positions: str = "none", size: int | None = None,
                 combine: str = "add", **attention):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.positions = nn.PositionEncoding(positions, width, size, combine)
        self.attention = nn.Attention(self.positions.out_width, **attention)
        self.out = nn.Linear(width, outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.attention(self.positions(self.embedding(tokens))))


def of_one_length(name: str, length: int) -> Task:
    return dataclasses.replace(TASKS[name], lengths=(length, length))


def classes_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return read_out_loss(model(inputs), targets)


def read_out_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of logits (..., V) for targets (...)."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def choices(model: nn.Module, x: np.ndarray) -> np.ndarray:
    """The most likely classes according to a model that returns logits, (...)."""
    with mg.no_grad():
        return model(mg.tensor(x)).array.argmax(axis=-1)
