"""A folder in the Hugging Face format: reading the model in it, and writing a model as one."""
import contextlib
import dataclasses
import math
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

import minigrad as mg
import nn
from models.checkpoint import CheckpointError, has_checkpoint
from models.extras import one_line
from models.hub import tokenizer as tokenizers
from models.hub import weights
from models.hub.family import Family, Row
from models.hub.gpt2 import GPT2
from models.hub.llama import LLAMA
from models.hub.tokenizer import CONFIG, GENERATION
from models.tokenizers import Tokenizer
from models.config import TransformerConfig, differences
from models.transformer import CausalTransformer

FAMILIES = {family.model_type: family for family in (GPT2, LLAMA)}
READ_OUT = "lm_head.weight"
SHARD_SIZE = 5_000_000_000  # bytes


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Does this folder have a config.json and no checkpoint?"""
    return path != "" and os.path.exists(os.path.join(path, CONFIG)) and not has_checkpoint(path)


@dataclasses.dataclass(frozen=True)
class Folder:
    """The contents of a folder, except for the numbers, which `load_into` reads."""

    path: pathlib.Path
    family: Family
    config: TransformerConfig
    tokenizer: Tokenizer | None
    tensors: dict[str, weights.Stored]

    def load_into(self, model: nn.Module) -> None:
        """Copy the tensors into a model of this config, one at a time; a shorter context takes the first learned positions.
        CheckpointError names all missing, unexpected and misshapen tensors."""
        parameters = dict(model.named_parameters())
        rows = [row for row in self.family.rows_of(self.config.layers) if row.ours in parameters]
        self._check_config(model, rows)
        self._check_names(rows, parameters)
        for row in rows:
            given: Any = self.tensors[row.theirs].read(parameters[row.ours].dtype)
            if not weights.is_finite(given.array):
                raise CheckpointError(f"{self.path} is unusable: {row.theirs} contains NaN or infinity in {given.dtype}")
            with mg.no_grad():
                given = row.change.read(given, self.config.head_size)
                held = row.part_of(parameters[row.ours], self.config)
                held.copy_(given[: len(held)] if row.ours == "position_embedding.weight" else given)

    def _check_config(self, model: nn.Module, rows: list[Row]) -> None:
        """CheckpointError if the model's config differs where it must not."""
        others = differences(self.config, model.config)
        if model.config.context > self.config.context and self.config.positions == "learned":
            others.append(f"a context of at most {self.config.context}, not {model.config.context}")
        if others or {row.ours for row in rows} != dict(model.named_parameters()).keys():
            raise CheckpointError(f"the model in {self.path} has {', '.join(others) or 'other parameters'}; leave out "
                                  "flags that change the model")

    def _check_names(self, rows: list[Row], parameters: dict[str, nn.Parameter]) -> None:
        expected = {row.theirs: self._shape(row, parameters[row.ours]) for row in rows}
        missing = [f"{name} {shape}" for name, shape in expected.items() if name not in self.tensors]
        extra = [name for name in self.tensors if name not in expected and not self._is_the_embedding(name)]
        misshapen = [f"{name} is {self.tensors[name].shape}, expected {shape}" for name, shape in expected.items()
                     if name in self.tensors and self.tensors[name].shape != shape]
        integers = [f"{name} is {self.tensors[name].dtype}" for name in expected
                    if name in self.tensors and self.tensors[name].dtype not in weights.DTYPES]
        problems = [f"{word}{weights.shortened(names)}" for word, names in (
            ("missing: ", missing), ("not expected: ", extra), ("", misshapen),
            (f"of other dtypes than {', '.join(weights.DTYPES)}: ", integers)) if names]
        if problems:
            raise CheckpointError(f"{self.path} does not have the tensors that its {CONFIG} describes; "
                                  f"{'; '.join(problems)}")

    def _shape(self, row: Row, parameter: nn.Parameter) -> tuple[int, ...]:
        shape = row.part_of(parameter.array, self.config).shape
        if row.ours == "position_embedding.weight":
            shape = self.config.context, self.config.width
        return row.change.write(np.broadcast_to(np.int8(0), shape), self.config.head_size).shape

    def _is_the_embedding(self, name: str) -> bool:
        """Is this the read-out of a tied model? Some folders contain it as a second copy of the token embedding."""
        embedding = self.tensors.get(self.family.rows[0].theirs)
        if name != READ_OUT or not self.config.tied or embedding is None:
            return False
        copy, original = (stored.read(self.config.dtype).array for stored in (self.tensors[name], embedding))
        if not np.array_equal(copy, original):
            raise CheckpointError(f"{self.path} has an {READ_OUT} that differs from the token embedding, although its "
                                  f'{CONFIG} ties them; set "tie_word_embeddings" to false there')
        return True


def read(path: str | os.PathLike[str]) -> Folder:
    """The contents of a folder, without the numbers; CheckpointError if its family is not supported, or it is damaged."""
    path = pathlib.Path(path)
    given = weights.read_json(path / CONFIG)
    named = given.get("model_type")
    family = FAMILIES.get(named) if isinstance(named, str) else None
    if family is None:
        raise CheckpointError(f"{path} has model_type {given.get('model_type')!r}, supported are {', '.join(FAMILIES)}")
    tensors = _tensors(path, family)
    dtype = "float64" if any(stored.dtype == "F64" for stored in tensors.values()) else "float32"
    try:
        config = family.read_config(given, dtype)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path / CONFIG} describes an unsupported model: {one_line(error, 400)}") from None
    count = sum(math.prod(stored.shape) for stored in tensors.values())
    if config.parameter_count() > 2 * max(count, 1):  # then building the model could take too much memory
        raise CheckpointError(f"{path} holds {count:,} numbers in {len(tensors)} tensors, but a model of {config.layers} "
                              f"layers, width {config.width} and {config.vocabulary_size} tokens, as in its {CONFIG}, has "
                              "many more")
    tokenizer = tokenizers.read(path)
    if tokenizer is not None and not tokenizer.fits(config.vocabulary_size):
        raise CheckpointError(f"{path} has a tokenizer of {len(tokenizer)} tokens, which does not fit its model of "
                              f"{config.vocabulary_size}")
    return Folder(path, family, config, tokenizer, tensors)


def _tensors(path: pathlib.Path, family: Family) -> dict[str, weights.Stored]:
    """The tensors by their full names, without buffers; CheckpointError if two have the same name."""
    found = {name: stored for name, stored in weights.find(path).items() if not family.is_buffer(name)}
    full = {family.full_name(name): stored for name, stored in found.items()}
    if len(full) != len(found):
        raise CheckpointError(f"{path} holds tensors twice, with {family.prefix!r} before their names and without")
    return full


def write(model: CausalTransformer, folder: str | os.PathLike[str], tokenizer: Tokenizer | None = None,
          dtype: str | None = None, shard_size: int = SHARD_SIZE) -> Family:
    """Write a model as a folder of its family, in a dtype (by default the model's own).

    CheckpointError if no family can express it, or the folder exists and is not empty; then nothing is written.
    """
    config, folder = model.config, pathlib.Path(folder)
    family = family_of(config)
    parameters = dict(model.named_parameters())
    rows = {row.theirs: row for row in family.rows_of(config.layers) if row.ours in parameters}
    if {row.ours for row in rows.values()} != parameters.keys():
        raise CheckpointError(f"{family.model_type} has no name for all parameters of this model")
    dtype = config.dtype if dtype is None else dtype

    def make(name: str) -> np.ndarray:
        row = rows[name]
        return row.change.write(row.part_of(parameters[row.ours].array, config), config.head_size)

    with replacing_nothing(folder) as new:
        weights.write(new, rows, make, dtype, shard_size)
        before, ends = (tokenizer.before_prompt, list(tokenizer.ends)) if tokenizer is not None else ([], [])
        ids = {"bos_token_id": before[0] if before else None, "eos_token_id": ends[0] if len(ends) == 1 else ends or None,
               "pad_token_id": None}
        weights.write_json(new / CONFIG, {**family.write_config(config), "dtype": dtype, **ids})
        weights.write_json(new / GENERATION, ids)
        if tokenizer is not None:
            tokenizers.write(tokenizer, new, config.context)
    return family


def family_of(config: TransformerConfig) -> Family:
    """The family that can express a config; CheckpointError names the obstacles if there is none."""
    misfits = {name: family.misfits(config) for name, family in FAMILIES.items()}
    for name, found in misfits.items():
        if not found:
            return FAMILIES[name]
    others = "; ".join(f"{name} does not have {', '.join(found)}" for name, found in misfits.items())
    raise CheckpointError(f"no supported family can express this model: {others}")


def check_free(folder: str | os.PathLike[str]) -> None:
    """CheckpointError if the path exists, unless it is an empty folder."""
    folder = pathlib.Path(folder)
    if folder.name in ("", ".."):
        raise CheckpointError(f"{folder} cannot be the name of a new folder; choose one with --to")
    if folder.is_symlink() or folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise CheckpointError(f"{folder} already exists, and nothing is overwritten; choose another folder with --to")


@contextlib.contextmanager
def replacing_nothing(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new folder to fill, which gets its name only once it is complete. CheckpointError if the name is taken, or it
    cannot be written."""
    temporary = folder.with_name(f".{folder.name}-{os.getpid()}.tmp")
    try:
        check_free(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        os.replace(temporary, folder)
    except OSError as error:
        raise CheckpointError(f"cannot write {folder}: {error.strerror or error}; free some space, or choose another "
                              "folder") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
