"""Models from checkpoints and Hugging Face folders, ready to use."""
import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import nn
from models import hub
from models.architectures import architecture_for, make_model
from models.checkpoint import Checkpoint, CheckpointError, check_arrays, find, remedy
from models.checkpoint import load as load_checkpoint
from models.extras import one_line
from models.task import Task
from models.tasks import TASKS
from models.tokenizers import Tokenizer, tokenizer_of
from models.training_config import TrainingConfig
from models.config import TransformerConfig, differences
from nn.utils import skip_init

LARGEST = 20  # the most parameters that a config may describe, in multiples of the checkpoint's numbers
NEWER = {"rotary_scaling", "optimizer", "muon_lr", "muon_momentum", "precision"}  # fields that older checkpoints lack


@dataclasses.dataclass(frozen=True)
class Source:
    """A trained model on disk, in a run or a Hugging Face folder."""

    path: pathlib.Path  # the checkpoint, or the folder
    name: str  # of the run, or of the folder
    architecture: str
    config: TransformerConfig
    task: Task | None
    tokenizer: Tokenizer | None
    fill: Callable[[nn.Module], None]  # copy the parameters

    def load_into(self, model: nn.Module) -> None:
        """Copy the parameters into a model of this config, whose dropout may differ, and whose context may be shorter;
        CheckpointError if they do not fit."""
        config = self.config
        others = differences(config, dataclasses.replace(model.config, vocabulary_size=config.vocabulary_size))
        if model.config.context > config.context and config.positions in ("learned", "relative"):
            others.append(f"a context of at most {config.context}, not {model.config.context}")
        if others:
            raise CheckpointError(f"{self.path} is from another architecture: its model has {', '.join(others)}; leave out "
                                  "flags that change the model")
        self.fill(model)

    def codec(self) -> Task | Tokenizer:
        """The task or tokenizer that encodes and decodes text; CheckpointError if there is none."""
        codec = self.task or self.tokenizer
        if codec is None:
            raise CheckpointError(f"{self.path} has no tokenizer.json, so it cannot read or write text; put the tokenizer "
                                  "there that the model was trained with")
        return codec


def source(run: str | os.PathLike[str], best: bool = False) -> Source:
    """The model in a run's folder, a checkpoint file, or a Hugging Face folder (one with a config.json and no checkpoint).
    CheckpointError if it is missing or damaged."""
    if not best and hub.is_folder(run):
        folder = hub.read(run)
        return Source(folder.path, folder.path.resolve().name, "causal", folder.config, None, folder.tokenizer,
                      folder.load_into)
    path = find(run, best)
    checkpoint = load_checkpoint(path)
    config, task = model_config(checkpoint, path), task_of(checkpoint)
    tokenizer = None if task else tokenizer_of(checkpoint.dataset["tokenizer"])

    def fill(model: nn.Module) -> None:
        arrays = {name: shortened(name, array, model.config.context) for name, array in checkpoint.model.items()}
        load_parameters(model, dataclasses.replace(checkpoint, model=arrays), path)

    return Source(path, path.resolve().parent.name, checkpoint.architecture, config, task, tokenizer, fill)


def shortened(name: str, array: np.ndarray, context: int) -> np.ndarray:
    """What a parameter keeps with a shorter context: of learned positions the first, of relative ones the nearest."""
    if name == "position_embedding.weight" and array.ndim:
        return array[:context]
    if name.endswith(".relative_bias") and array.ndim:
        middle = array.shape[-1] // 2
        return array[..., max(middle - context, 0) : middle + context + 1]
    return array


def load(run: str | os.PathLike[str], best: bool = False, dtype: Any = None) -> nn.Module:
    """The model in a run's folder, a checkpoint file or a Hugging Face folder (docs/training.md), in evaluation
    mode; with `best`, the one with the lowest validation loss. CheckpointError if it is missing or damaged.
    `load("starter")` is the small model that comes with minigrad, unless a file or folder is called so.

    dtype: of the parameters; by default float32, or float64 if they are stored so.

    The model has its `config` and a `tokenizer`: that of its text, or its Task, with `encode(text)` and `decode(ids)`; None
    if the folder has none. `models.respond` goes from text to text:

        model = models.load("runs/nano")
        logits, _ = model(mg.tensor(model.tokenizer.encode("The ")[None]))
        models.respond(model, "The ", tokens=100, temperature=0.5)  # the prompt and 100 tokens

        model = models.load("runs/reverse-encoder-decoder")
        models.respond(model, "abc")  # "c b a"
    """
    return model_in(source(run, best), dtype)


def model_in(source: Source, dtype: Any = None) -> nn.Module:
    """The model of a source, as `load` returns it."""
    try:
        model = skip_init(make_model, source.task, source.architecture, source.config, seed=None)
    except ValueError as error:
        raise CheckpointError(f"{source.path} is damaged: {error}") from None
    source.load_into(model)
    model.tokenizer = source.task or source.tokenizer
    if dtype is not None:
        for name, parameter in model.to(dtype).named_parameters():
            if not np.isfinite(parameter.array).all():
                raise CheckpointError(f"{source.path} is unusable: {name} contains NaN or infinity in {parameter.dtype}")
    return model.eval()


def respond(model: nn.Module, prompt: str | None = None, **sampling: Any) -> str:
    """The response of a model from `load`: a prompt with its continuation, or the answer to a task's source. ValueError if
    it has no tokenizer, TypeError if the prompt is not a string."""
    if getattr(model, "tokenizer", None) is None:
        raise ValueError("the model has no tokenizer, so it works on token ids only; see models.generate")
    if not isinstance(prompt, str | None):
        raise TypeError(f"models.respond takes a prompt of text, got {prompt!r:.60} ({type(prompt).__name__}); token ids "
                        "are for models.generate")
    return "".join(model.tokenizer.respond(model, prompt, **sampling))


def task_of(checkpoint: Checkpoint) -> Task | None:
    """The task of a checkpoint; None if it was trained on a text."""
    return TASKS.get(checkpoint.dataset["task"])


def model_config(checkpoint: Checkpoint, path: str | os.PathLike[str] = "the checkpoint") -> TransformerConfig:
    """The config of the model in a checkpoint; CheckpointError if it makes no sense, or describes a far larger model than
    the file holds, which must not be built."""
    config, task = _make_config(TransformerConfig, checkpoint.config, path), task_of(checkpoint)
    tokenizer: Tokenizer | Any = None if task else tokenizer_of(checkpoint.dataset["tokenizer"])
    tokens = task.vocabulary_size if task else len(tokenizer)
    if not (config.vocabulary_size == tokens or tokenizer and tokenizer.fits(config.vocabulary_size)):
        raise CheckpointError(f"{path} is damaged: its model has {config.vocabulary_size} tokens, its tokenizer {tokens}"
                              f"{remedy(path)}")
    try:
        architecture_for(task, checkpoint.architecture, config)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}{remedy(path)}") from None
    count = sum(array.size for array in checkpoint.model.values())
    if config.parameter_count() > LARGEST * max(count, 1):
        raise CheckpointError(f"{path} is from another architecture: it holds {count:,} parameters in "
                              f"{len(checkpoint.model)} arrays, but a model of {config.layers} layers and width "
                              f"{config.width} has many more{remedy(path)}")
    return config


def training_config(checkpoint: Checkpoint, path: str | os.PathLike[str] = "the checkpoint") -> TrainingConfig:
    """The TrainingConfig in a checkpoint; CheckpointError if it makes no sense."""
    return _make_config(TrainingConfig, checkpoint.training, path)


def _make_config(config_class: type[Any], values: dict[str, Any], path: str | os.PathLike[str]) -> Any:
    """The config with these values; the defaults of NEWER fields are what older versions did."""
    try:
        lacking = {field.name for field in dataclasses.fields(config_class)} - values.keys() - NEWER
        if lacking:
            raise ValueError(f"it lacks {', '.join(sorted(lacking))}")
        if values.get("hidden_width") is not None:  # older versions saved an idle mlp_ratio beside it
            values = {name: value for name, value in values.items() if name != "mlp_ratio"}
        return config_class(**values)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path} holds a model that this version does not know ({one_line(error)}); use a checkpoint "
                              "of this version, or train again") from None


def load_parameters(model: nn.Module, checkpoint: Checkpoint, path: str | os.PathLike[str] = "the checkpoint") -> None:
    """Copy the parameters of a checkpoint into a model; CheckpointError if they are damaged, or of another architecture."""
    check_arrays(checkpoint, "model", {name: value.array for name, value in model.state_dict().items()}, path)
    model.load_state_dict(checkpoint.model)
