"""The trainer: it relies on `model(*batch, targets) -> (logits, loss)`, and knows no architecture and no data."""
import collections
import dataclasses
import hashlib
import math
import os
import pathlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import minigrad as mg
import nn
from minigrad.extend import multiplies_bfloat16, norm
from models.checkpoint import Checkpoint, CheckpointError, check_arrays, remedy
from models.distributed import ALONE, Alone
from models.loading import load_parameters
from models.training_config import BLOCK, TrainingConfig, grouped


MEASUREMENTS = 20  # of each layer in a run; one takes 1% to 25% of the time of a step
FEWEST_BETWEEN = 10  # steps between measurements


class TrainingError(Exception):
    """Training cannot continue; the message names the step, the reason and what to try, in one line."""


class Dataset(Protocol):
    """What the trainer and a run's folder need of a Corpus or a Task. Its only state is in the generator."""

    @property
    def description(self) -> str:
        """What it is, in a line."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The fields of a TrainingConfig."""

    @property
    def ignored(self) -> int:
        """A target that does not count."""

    def batch(self, generator: np.random.Generator, size: int, context: int) -> tuple[np.ndarray, ...]:
        """The next arguments of the model; the last are the targets."""

    def evaluate(self, model: nn.Module, training: TrainingConfig, is_last: bool, ranks: Alone) -> dict[str, Any]:
        """Measures for a row of metrics.jsonl: "val_loss", and more the last time. The ranks share the work."""

    def summary(self, measured: dict[str, Any]) -> str:
        """The last evaluation as text."""

    def sample(self, model: nn.Module, seed: int) -> str:
        """The model's output for sample.txt."""

    def illustrate(self, model: nn.Module, folder: pathlib.Path) -> list[str]:
        """Draw pictures of the model, and return their names."""

    def identity(self) -> dict[str, Any]:
        """What identifies it in a checkpoint: "task", and more for a text."""


def loss_and_gradients_of(model: nn.Module, label_smoothing: float, is_divided: bool) -> Callable[..., mg.Tensor]:
    """The step of a model: it holds nothing but what it needs, as `compile` looks at all that a step can reach."""
    options = {"label_smoothing": label_smoothing} if label_smoothing else {}

    def loss_and_gradients(divisor: mg.Tensor, *batch: mg.Tensor) -> mg.Tensor:
        _, loss = model(*batch, **options)
        (loss / divisor if is_divided else loss).backward()
        return loss

    return loss_and_gradients


class Trainer:
    """A model in training, with its optimiser and batches. `architecture` is its key in ARCHITECTURES, for checkpoints.
    With several `ranks`, each has such a trainer, and all have the same numbers.

    >>> from models.architectures import make_model
    >>> from models.tasks import TASKS
    >>> task = TASKS["copy"]
    >>> model = make_model(task, "encoder-decoder", task.config, seed=0)
    >>> losses = Trainer(model, task, TrainingConfig.of(task, steps=2, batch_size=4)).train()
    >>> len(losses), model.training
    (2, False)
    """

    def __init__(self, model: nn.Module, dataset: Dataset, config: TrainingConfig, architecture: str = "causal",
                 ranks: Alone = ALONE):
        self.model: nn.Module = model.train()
        self.dataset = dataset
        self.config: TrainingConfig = dataclasses.replace(
            config, precision=ranks.of_first(precision, config.precision, model.config.dtype))
        self.architecture = architecture
        self.ranks = ranks
        self.step: int = 0  # updates done
        self.best_loss: float = math.inf  # the lowest validation loss so far
        # The generator is only for batches, so that nothing else shifts them.
        self.generator: np.random.Generator = np.random.default_rng(config.seed)
        self.optimizer: nn.optim.Joined = make_optimizer(model, config)
        self._layers = layers_of(model)
        self._rounding = mg.autocast("cpu", enabled=self.config.precision == "bfloat16")
        self._loss_and_gradients = mg.compile(
            loss_and_gradients_of(model, config.label_smoothing, is_divided=config.accumulation * ranks.size > 1))

    def train_step(self) -> dict[str, Any]:
        """One update: forward, backward, clipping, optimiser. Returns a row of metrics.jsonl, sometimes with measurements
        of each layer (`is_measured`, `LayerNorms`).

        TrainingError if the loss or the gradient is not finite.
        """
        started, config = time.perf_counter(), self.config
        lr, size = config.learning_rate_at(self.step), config.batch_size_at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate_at(self.step, group["initial_lr"])
        batches = [self.dataset.batch(self.generator, size, self.model.config.context) for _ in range(config.accumulation)]
        targets = sum(map(self._count_targets, batches))
        if not targets:
            raise TrainingError(f"step {self.step + 1} has nothing to learn: all its targets are {self.dataset.ignored}, "
                                "which does not count; give batches with other targets")
        loss = 0.0
        for batch in batches:
            loss += self._part_of_loss(batch, targets)
        (loss,) = self.ranks.sum([loss]).tolist()
        self.ranks.sum_gradients(list(self.model.parameters()))
        self._check_finite("loss", loss)
        before = LayerNorms(self._layers) if self.is_measured(self.step + 1) else None
        with self._rounding:
            self.optimizer.step()
        self._check_finite("norm of the gradient", self.optimizer.grad_norm)
        layers = before.measured() if before else None
        self.optimizer.zero_grad()
        self.step += 1
        return {"step": self.step, "loss": loss, "val_loss": None, "lr": lr,
                "grad_norm": float(self.optimizer.grad_norm), "layers": layers,
                "tokens_per_second": round(sum(batch[0].size for batch in batches) / (time.perf_counter() - started))}

    def _part_of_loss(self, batch: tuple[np.ndarray, ...], targets: int) -> float:
        """The contribution of this rank's rows of a batch to the mean loss over so many targets, with its gradients."""
        own = [array[self.ranks.rows(len(array))] for array in batch]
        counted = self._count_targets(own)  # the model returns the mean over these: NaN if there are none, and no gradient
        divisor = mg.tensor(targets / counted if counted else math.inf, dtype=self.model.config.dtype)
        with self._rounding:
            loss = self._loss_and_gradients(divisor, *map(mg.tensor, own)).item()
        return counted / targets * loss if counted else 0.0

    def _count_targets(self, batch: Sequence[np.ndarray]) -> int:
        return int(np.count_nonzero(batch[-1] != self.dataset.ignored))

    def is_stop(self, step: int) -> bool:
        """Is the model evaluated and saved after this step?"""
        return step % self.config.eval_every == 0 or step >= self.config.steps

    def is_measured(self, step: int) -> bool:
        """Are gradients and updates of the layers measured in this step (from 1)?"""
        return self.is_stop(step) or step % max(FEWEST_BETWEEN, self.config.steps // MEASUREMENTS) == 0

    def train(self) -> list[float]:
        """The losses of all remaining steps, without evaluations; leaves the model in evaluation mode."""
        losses = [self.train_step()["loss"] for _ in range(self.step, self.config.steps)]
        self.model.eval()
        return losses

    def _check_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise TrainingError(f"the {name} became {value} at step {self.step + 1}; resuming from the last checkpoint "
                                "would lead here again: start a new run with a smaller --lr")

    def is_finished(self) -> bool:
        """Are all steps done?"""
        return self.step >= self.config.steps

    def evaluate(self) -> dict[str, Any]:
        """The dataset's measures of the model, without dropout; after the last step there are more."""
        self.model.eval()
        with mg.no_grad(), self._rounding:
            measured = self.dataset.evaluate(self.model, self.config, self.is_finished(), self.ranks)
        self.model.train()
        self._check_finite("validation loss", measured["val_loss"])
        self.best_loss = min(self.best_loss, measured["val_loss"])
        return measured

    def check_ranks(self) -> None:
        """TrainingError unless all ranks have the same parameters, bit for bit."""
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(np.ascontiguousarray(parameter.array).data)
        if not self.ranks.agree(digest.hexdigest()):
            raise TrainingError(f"ranks have different parameters at step {self.step}, due to different flags, versions or "
                                "processors; the last checkpoint is intact: continue with --resume on equal ones")

    def checkpoint(self) -> Checkpoint:
        """Everything that `restore` needs to continue bit for bit."""
        state = self.optimizer.state_dict()["state"]
        return Checkpoint(
            step=self.step, best_loss=self.best_loss, architecture=self.architecture,
            config=dataclasses.asdict(self.model.config), training=dataclasses.asdict(self.config),
            dataset=self.dataset.identity(),
            generators={"batches": self.generator.bit_generator.state, "minigrad": mg.random.get_state()},
            model={name: value.array for name, value in self.model.state_dict().items()},
            optimizer={f"{i}.{name}": np.asarray(value) for i, entries in state.items()
                       for name, value in entries.items()},
        )

    def restore(self, checkpoint: Checkpoint, path: str | os.PathLike[str] = "the checkpoint") -> None:
        """Continue from a checkpoint; CheckpointError, which names its path, if it does not fit the model."""
        self._check_moments(checkpoint, path)
        load_parameters(self.model, checkpoint, path)
        state: dict[int, dict[str, Any]] = collections.defaultdict(dict)
        for key, array in checkpoint.optimizer.items():
            number, _, name = key.partition(".")
            state[int(number)][name] = array if array.ndim else array.item()
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.generator.bit_generator.state = checkpoint.generators["batches"]
        mg.random.set_state(checkpoint.generators["minigrad"])
        self.step = checkpoint.step
        self.best_loss = checkpoint.best_loss

    def _check_moments(self, checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
        """CheckpointError unless the optimiser's state fits these parameters; before the first step it is empty."""
        members = [(parameter, group) for group in self.optimizer.param_groups for parameter in group["params"]]
        expected = {f"{i}.{name}": np.zeros((), np.int64) if name == "step" else parameter.array
                    for i, (parameter, group) in enumerate(members) for name in self.optimizer.state_names(group)
                    if checkpoint.step > 0 and parameter.numel()}
        check_arrays(checkpoint, "optimizer", expected, path)
        for name, array in checkpoint.optimizer.items():
            most = {"step": checkpoint.step, "exp_avg_sq": math.inf}.get(name.partition(".")[2])
            if most is not None and not (0 <= array.min() and array.max() <= most):
                raise CheckpointError(f"{path} is damaged: its optimizer/{name} is not from 0 to {most}{remedy(path)}")


def precision(asked: str, dtype: str) -> str:
    """The precision of products: `auto` means bfloat16 if the processor has instructions for it.

    ValueError for bfloat16 if the model is in float64, or if there are no kernels.
    """
    if asked == "auto":
        return "bfloat16" if multiplies_bfloat16() and dtype == "float32" else "float32"
    if asked == "bfloat16":
        if dtype != "float32":
            raise ValueError(f"precision bfloat16 needs a model in float32, and this one is in {dtype}")
        try:
            mg.autocast("cpu")
        except RuntimeError as error:
            raise ValueError(f"precision bfloat16: {error}") from None
    return asked


def make_optimizer(model: nn.Module, config: TrainingConfig) -> nn.optim.Joined:
    """AdamW, or Muon for the matrices of the blocks and AdamW for all other parameters. Muon orthogonalises the query, key
    and value of each head separately.

    ValueError for Muon if there are no such matrices.

    >>> from models.recipes import PRESETS
    >>> from models.transformer import CausalTransformer
    >>> model = CausalTransformer(PRESETS["micro"].config)
    >>> muon, adamw = make_optimizer(model, TrainingConfig(optimizer="muon")).optimizers
    >>> [(group["blocks"], [tuple(p.shape) for p in group["params"]][:3]) for group in muon.param_groups]
    [(6, [(96, 32), (96, 32)]), (1, [(32, 32), (128, 32), (32, 128)])]
    """
    parameters = dict(model.named_parameters())
    names = grouped({name: parameter.shape for name, parameter in parameters.items()}, config.decay_all,
                    model.config.head_size if config.optimizer == "muon" else None)
    groups = {kind: {"params": [parameters[name] for name in chosen]} for kind, chosen in names.items()}
    decaying = groups.pop("decaying") | {"weight_decay": config.weight_decay}
    others = groups.pop("others") | {"weight_decay": 0.0}
    optimizers: list[nn.optim.Adam | nn.optim.Muon] = []
    if config.optimizer == "muon":
        if not groups:
            raise ValueError("optimizer muon is for matrices of blocks, and this model has none; give --layers 1 or more, "
                             "or --optimizer adamw")
        optimizers.append(nn.optim.Muon([group | {"blocks": blocks} for blocks, group in groups.items()], lr=config.muon_lr,
                                        momentum=config.muon_momentum, weight_decay=config.weight_decay))
    optimizers.append(nn.optim.AdamW([decaying, others], lr=config.lr, betas=(config.beta1, config.beta2)))
    optimizer = nn.optim.Joined(optimizers, max_grad_norm=config.max_grad_norm)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def layers_of(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The parameters of each block of a model, and of each layer outside the blocks.

    >>> from models.recipes import PRESETS
    >>> from models.transformer import CausalTransformer
    >>> list(layers_of(CausalTransformer(PRESETS["micro"].config)))
    ['token_embedding', 'position_embedding', 'blocks.0', 'blocks.1', 'ln_f']
    """
    layers = collections.defaultdict(list)
    for name, parameter in model.named_parameters():
        block = re.match(BLOCK, name)
        layers[block[0] if block else name.rpartition(".")[0]].append(parameter)
    return dict(layers)


class LayerNorms:
    """The size of gradients and updates in each layer: created before an optimiser's step, `measured` after it.

    Norms take all parameters of a layer as one vector: that of the gradient before clipping, and that of the update
    relative to the weights before it, which is None if these are all zero or the update overflows.
    """

    def __init__(self, layers: dict[str, list[nn.Parameter]]):
        self._layers = layers
        self._weights = {name: [p.array.copy() for p in parameters] for name, parameters in layers.items()}

    def measured(self) -> dict[str, dict[str, float | None]]:
        """{layer: {"grad_norm": ..., "update_to_weight": ...}}"""
        found = {}
        for name, parameters in self._layers.items():
            gradients = [p.grad_array() for p in parameters]
            weight = norm(self._weights[name])
            update = norm([p.array - before for p, before in zip(parameters, self._weights[name])])
            found[name] = {"grad_norm": norm([g for g in gradients if g is not None]),
                           "update_to_weight": update / weight if weight and math.isfinite(update) else None}
        return found
