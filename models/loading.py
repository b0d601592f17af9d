"""Models from checkpoints, ready to use."""
import dataclasses
import os
import textwrap

import nn
from models.architectures import architecture_for, make_model
from models.checkpoint import Checkpoint, CheckpointError, check_arrays, find, remedy
from models.checkpoint import load as load_checkpoint
from models.task import Task
from models.tasks import TASKS
from models.tokenizers import tokenizer_of
from models.training_config import TrainingConfig
from models.transformer import TransformerConfig

LARGEST = 20  # times as many parameters as a checkpoint has numbers: no architecture has fewer of what its config says


def load(run: str | os.PathLike, best: bool = False) -> nn.Module:
    """The model of a run's folder or of a checkpoint file, ready to use, in evaluation mode; with `best`, the one of
    the lowest validation loss. CheckpointError if there is none, or if it is damaged.

    The model has its `config`, and a `tokenizer`: the Vocabulary of its text, or its Task. Either has `encode(text)`, which
    makes token ids, and `decode(ids)`. `models.respond` goes from text to text:

        model = models.load("runs/nano")
        logits, _ = model(mg.tensor(model.tokenizer.encode("The ")[None]))
        models.respond(model, "The ", tokens=100, temperature=0.5)  # the prompt and 100 tokens

        model = models.load("runs/reverse-encoder-decoder")
        models.respond(model, "abc")  # "c b a"
    """
    path = find(run, best)
    checkpoint = load_checkpoint(path)
    model = model_of(checkpoint, path).eval()
    model.tokenizer = task_of(checkpoint) or tokenizer_of(checkpoint.dataset["tokenizer"])
    return model


def respond(model: nn.Module, prompt: str | None = None, **sampling) -> str:
    """What a model from `load` says: a prompt with its continuation, or the answer to the source of a task."""
    return "".join(model.tokenizer.respond(model, prompt, **sampling))


def task_of(checkpoint: Checkpoint) -> Task | None:
    """The task that was learnt; None if it was a text."""
    return TASKS.get(checkpoint.dataset["task"])


def model_of(checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> nn.Module:
    """The model in a checkpoint; CheckpointError if there is none, or not all of it."""
    model = make_model(task_of(checkpoint), checkpoint.architecture, model_config(checkpoint, path))
    load_parameters(model, checkpoint, path)
    return model


def model_config(checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> TransformerConfig:
    """The config of the model in a checkpoint; CheckpointError if it makes no sense, or is of a far larger model than the
    parameters there are: so building it takes no more than a multiple of the file."""
    config, task = _make_config(TransformerConfig, checkpoint.config, path), task_of(checkpoint)
    tokenizer = None if task else tokenizer_of(checkpoint.dataset["tokenizer"])
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
                              f"{len(checkpoint.model)} arrays, a model of {config.layers} layers and width {config.width} "
                              f"has many more{remedy(path)}")
    return config


def training_config(checkpoint: Checkpoint, path: str | os.PathLike = "the checkpoint") -> TrainingConfig:
    """The TrainingConfig in a checkpoint; CheckpointError if it makes no sense."""
    return _make_config(TrainingConfig, checkpoint.training, path)


def _make_config(config_class: type, values: dict, path: str | os.PathLike):
    try:
        lacking = {field.name for field in dataclasses.fields(config_class)} - values.keys()
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
