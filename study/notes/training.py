"""Shared by the claims that train models: loops, models and tasks."""
import dataclasses
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
from models.config import TransformerConfig
from study.notes.attention import Attention
from study.notes.helpers import Spread, over_seeds


# loops

def train(task: Task, name: str, config: TransformerConfig, *, seed: int, **training) -> tuple[nn.Module, list[float]]:
    """A model of this name, trained on a task, and its losses."""
    model, settings = make_model(task, name, config, seed), TrainingConfig.of(task, seed=seed, **training)
    return model, Trainer(model, task, settings).train()


def trained(task: Task, name: str, config: TransformerConfig, **training) -> nn.Module:
    """The model alone."""
    return train(task, name, config, **training)[0]


def fit(loss_of: Callable[..., Tensor], parameters: Iterable[Tensor], draw: Callable[[], tuple[np.ndarray, ...]],
        steps: int, lr: float) -> None:
    """Minimise loss_of(*draw()) with Adam, at a rate that falls to 0 in the second half."""
    optimizer = nn.optim.Adam(list(parameters), lr=lr)

    @mg.compile
    def loss_and_gradients(*batch):
        loss = loss_of(*batch)
        loss.backward()
        return loss

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, 2 * (1 - step / steps))
        optimizer.zero_grad()
        loss_and_gradients(*map(mg.tensor, draw()))
        optimizer.step()


def after_fit(make: Callable[[], nn.Module], draw: Callable[[np.random.Generator], tuple[np.ndarray, ...]],
              measure: Callable[..., float], steps: int, lr: float,
              loss: Callable[..., Tensor] = lambda model, inputs, targets: read_out_loss(model(inputs), targets)) -> Spread:
    """measure(model, generator) for models of five seeds, after `steps` of training on batches from `draw`."""
    def run(seed: int) -> float:
        model, generator = make(), np.random.default_rng(seed)
        fit(lambda *batch: loss(model, *batch), model.parameters(), lambda: draw(generator), steps, lr)
        return measure(model, generator)

    return over_seeds(run)


# models and tasks

class Tagger(nn.Module):
    """Logits (B, T, outputs) from one layer of attention over tokens (B, T) with positions."""

    def __init__(self, symbols: int, outputs: int, width: int, positions: str = "none", size: int | None = None,
                 **attention):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.positions = nn.PositionEncoding(positions, width, size)
        self.attention = Attention(width, **attention)
        self.out = nn.Linear(width, outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.attention(self.positions(self.embedding(tokens))))


def of_one_length(name: str, length: int) -> Task:
    return dataclasses.replace(TASKS[name], lengths=(length, length))


def read_out_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of logits (..., V) for targets (...)."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def choices(model: nn.Module, x: np.ndarray) -> np.ndarray:
    """The most likely classes according to a model that returns logits, (...)."""
    with mg.no_grad():
        return model(mg.tensor(x)).array.argmax(axis=-1)
