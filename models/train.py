"""The trainer: it knows `model(tokens, targets) -> (logits, loss)`, and nothing of the model's architecture."""
import collections
import dataclasses
import math
import numbers
import os
import sys
import textwrap
import time

import numpy as np

import minigrad as mg
import nn
from models.checkpoint import Checkpoint, CheckpointError, check_arrays, check_values, remedy
from models.data import IGNORED, Corpus, RandomBatches, windows
from models.transformer import TransformerConfig, check_choice, check_whole

# Fields of configs that checkpoints of earlier versions lack; their defaults are what those versions did.
ADDED_LATER = {"placement", "final_norm", "activation", "mlp_ratio", "positions", "annealing", "accumulation"}


class TrainingError(Exception):
    """Training cannot go on; the message says at which step, why, and what to try, in one line."""


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained; ValueError names the field that makes no sense.

    >>> TrainingConfig(lr=float("nan"))
    Traceback (most recent call last):
    ...
    ValueError: lr must be more than 0 and at most 1, got nan
    """

    steps: int = 2000  # how often the parameters are updated
    batch_size: int = 12  # B, windows of text in a batch
    lr: float = 1e-3  # the highest learning rate, at the end of the warm-up
    final_lr: float = 0.1  # the learning rate at the last step, as a share of lr
    warmup_steps: int = 100  # steps in which the learning rate rises from 0
    annealing: str = "cosine"  # how it falls then: cosine, linear, quadratic, steps or constant
    accumulation: int = 1  # batches whose gradients are averaged for an update
    beta1: float = 0.9  # how slowly AdamW's mean of gradients forgets
    beta2: float = 0.99  # how slowly its mean of squared gradients forgets
    weight_decay: float = 0.1  # AdamW's decay, of matrices and embeddings only
    max_grad_norm: float = 1.0  # longer gradients (all parameters as one vector) are scaled down to this length
    eval_every: int = 250  # steps from one evaluation and checkpoint to the next
    eval_windows: int = 240  # windows of the validation text in an evaluation; the last takes up to a million characters
    seed: int = 42  # of initialisation, dropout and batches

    def __post_init__(self):
        for name, least in (("steps", 1), ("batch_size", 1), ("warmup_steps", 0), ("accumulation", 1),
                            ("eval_every", 1), ("eval_windows", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), least)
        check_choice("annealing", self.annealing, nn.optim.ANNEALING)
        for name, least, most, holds in (("lr", "more than 0", "at most 1", lambda x: 0 < x <= 1),
                                         ("final_lr", "at least 0", "at most 1", lambda x: 0 <= x <= 1),
                                         ("beta1", "at least 0", "less than 1", lambda x: 0 <= x < 1),
                                         ("beta2", "at least 0", "less than 1", lambda x: 0 <= x < 1),
                                         ("weight_decay", "at least 0", "at most 100", lambda x: 0 <= x <= 100),
                                         ("max_grad_norm", "more than 0", "finite", lambda x: 0 < x <= sys.float_info.max)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not holds(value):
                raise ValueError(f"{name} must be {least} and {most}, got {value!r}")


def model_config(checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> TransformerConfig:
    """The config of the model in a checkpoint; CheckpointError if there is no such model, or it would be of another size
    than the parameters that are there: so building it takes no more than the file."""
    check_values(checkpoint, path)
    config = _make_config(TransformerConfig, checkpoint.config, path)
    symbols, count = len(checkpoint.corpus["symbols"]), sum(array.size for array in checkpoint.model.values())
    if config.vocabulary_size != symbols:
        raise CheckpointError(f"{path} is damaged: its model has {config.vocabulary_size} tokens, its vocabulary {symbols} "
                              f"symbols{remedy(path)}")
    if config.parameter_count() != count:
        raise CheckpointError(f"{path} is from another architecture: it holds {count:,} parameters in "
                              f"{len(checkpoint.model)} arrays, a model of {config.layers} layers and width {config.width} "
                              f"has {config.parameter_count():,}{remedy(path)}")
    return config


def training_config(checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> TrainingConfig:
    """The TrainingConfig in a checkpoint; CheckpointError if it makes no sense."""
    check_values(checkpoint, path)
    return _make_config(TrainingConfig, checkpoint.training, path)


def _make_config(config_class: type, values: dict, path: str | os.PathLike):
    try:
        lacking = {field.name for field in dataclasses.fields(config_class)} - values.keys() - ADDED_LATER
        if lacking:
            raise ValueError(f"it lacks {', '.join(sorted(lacking))}")
        return config_class(**values)
    except (TypeError, ValueError) as error:
        reason = textwrap.shorten(str(error), 160, placeholder=" ...")
        raise CheckpointError(f"{path} is not of a model that this version knows ({reason}); use a checkpoint of this "
                              "version, or train anew") from None


def load_parameters(model: nn.Module, checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> None:
    """Copy the parameters of a checkpoint into a model; CheckpointError if they are of another architecture, or broken."""
    check_arrays(checkpoint, "model", {name: value.array for name, value in model.state_dict().items()}, path)
    model.load_state_dict(checkpoint.model)


class Trainer:
    """A model, its optimiser and its batches, at the end of some step of a training."""

    def __init__(self, model: nn.Module, corpus: Corpus, context: int, config: TrainingConfig):
        self.model, self.corpus, self.context, self.config = model, corpus, context, config
        self.step = 0  # updates done
        self.batches = RandomBatches(corpus.train, config.batch_size, context, config.seed)
        parameters = list(model.parameters())
        groups = [{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
                  {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}]
        self.optimizer = nn.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2),
                                        max_grad_norm=config.max_grad_norm)
        self._replayed = mg.compile(self._loss_and_gradients)

    def _loss_and_gradients(self, tokens: mg.Tensor, targets: mg.Tensor) -> mg.Tensor:
        _, loss = self.model(tokens, targets)
        (loss / self.config.accumulation if self.config.accumulation > 1 else loss).backward()
        return loss

    def train_step(self) -> dict:
        """One update: forward, backward, clip, AdamW. Returns what it measured, for metrics.jsonl.

        TrainingError if the loss or the gradient is not finite.
        """
        started = time.perf_counter()
        lr = self._learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        losses = []
        for _ in range(self.config.accumulation):
            tokens, targets = self.batches.draw()
            losses.append(self._replayed(mg.tensor(tokens), mg.tensor(targets)).item())
        loss = sum(losses) / len(losses)
        self._check_finite("loss", loss)
        self.optimizer.step()
        self._check_finite("norm of the gradient", self.optimizer.grad_norm)
        self.optimizer.zero_grad()
        self.step += 1
        return {"step": self.step, "loss": loss, "val_loss": None, "lr": lr,
                "grad_norm": float(self.optimizer.grad_norm),
                "tokens_per_second": round(len(losses) * tokens.size / (time.perf_counter() - started))}

    def _learning_rate(self) -> float:
        config = self.config
        return nn.optim.warmup_annealing(self.step, config.annealing,
                                         warmup_steps=min(config.warmup_steps, config.steps), total_steps=config.steps,
                                         peak=config.lr, floor=config.final_lr * config.lr)

    def _check_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise TrainingError(f"the {name} became {value} at step {self.step + 1}; the last checkpoint is from "
                                "before that, and resuming would lead here again: start anew with a smaller --lr")

    def is_finished(self) -> bool:
        """Have all steps been done?"""
        return self.step >= self.config.steps

    def evaluate(self, tokens: np.ndarray, limit: int | None = None) -> float:
        """The mean loss over a split (or `limit` windows of it), each token once, without dropout."""
        total, count = 0.0, 0
        self.model.eval()
        with mg.no_grad():
            for inputs, targets in windows(tokens, self.context, self.config.batch_size, limit):
                _, loss = self.model(mg.tensor(inputs), mg.tensor(targets))
                real = np.count_nonzero(targets != IGNORED)
                total, count = total + real * loss.item(), count + real
        self.model.train()
        self._check_finite("validation loss", total)
        return float(total / count)

    def checkpoint(self) -> Checkpoint:
        """All that `restore` needs to go on as if nothing had happened."""
        corpus, state = self.corpus, self.optimizer.state_dict()["state"]
        return Checkpoint(
            step=self.step, config=dataclasses.asdict(self.model.config), training=dataclasses.asdict(self.config),
            corpus={"path": corpus.path, "sha256": corpus.sha256, "symbols": corpus.vocabulary.symbols},
            generators={"batches": self.batches.get_state(), "minigrad": mg.random.get_state()},
            model={name: value.array for name, value in self.model.state_dict().items()},
            optimizer={f"{i}.{name}": np.asarray(value) for i, entries in state.items()
                       for name, value in entries.items()},
        )

    def restore(self, checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> None:
        """Go on from a checkpoint; CheckpointError, which names its path, if it doesn't fit the model."""
        check_values(checkpoint, path)
        self._check_moments(checkpoint, path)
        load_parameters(self.model, checkpoint, path)
        state = collections.defaultdict(dict)
        for key, array in checkpoint.optimizer.items():
            number, _, name = key.partition(".")
            state[int(number)][name] = array if array.ndim else array.item()
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.batches.set_state(checkpoint.generators["batches"])
        mg.random.set_state(checkpoint.generators["minigrad"])
        self.step = checkpoint.step

    def _check_moments(self, checkpoint: Checkpoint, path: str | os.PathLike) -> None:
        """CheckpointError unless the optimiser's state is that of these parameters: none before the first step."""
        members = [(parameter, group) for group in self.optimizer.param_groups for parameter in group["params"]]
        expected = {f"{i}.{name}": np.zeros((), np.int64) if name == "step" else parameter.array
                    for i, (parameter, group) in enumerate(members) for name in self.optimizer.state_names(group)
                    if checkpoint.step > 0 and parameter.numel()}
        check_arrays(checkpoint, "optimizer", expected, path)
        for name, array in checkpoint.optimizer.items():
            most = {"step": checkpoint.step, "exp_avg_sq": math.inf}.get(name.partition(".")[2])
            if most is not None and not (0 <= array.min() and array.max() <= most):
                raise CheckpointError(f"{path} is damaged: its optimizer/{name} is not from 0 to {most}{remedy(path)}")
