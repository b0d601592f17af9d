"""A folder in the Hugging Face format: reading the model in it, and writing a model as one."""
import dataclasses
import math
import os
import pathlib
import re
import shutil

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from models.checkpoint import CheckpointError, has_checkpoint
from models.config import TransformerConfig
from models.extras import one_line
from models.hub import tokenizer as tokenizers
from models.hub import weights
from models.hub.families import FAMILIES, Family
from models.hub.tokenizer import CONFIG, GENERATION
from models.tokenizers import Tokenizer
from models.transformer import CausalTransformer

POSITIONS, READ_OUT = "transformer.wpe.weight", "lm_head.weight"


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

    @mg.no_grad()
    def load_into(self, model: nn.Module) -> None:
        """Copy the tensors into a model of this config, one at a time; a shorter context takes the first learned positions.
        CheckpointError names a tensor that is missing, unexpected or of another shape or dtype."""
        views = self.family.views(model)
        shapes = {name: shape_of(view) for name, view in views.items()}
        if POSITIONS in shapes:
            shapes[POSITIONS] = self.config.context, self.config.width
        for name in dict.fromkeys((*shapes, *self.tensors)):
            found, shape = self.tensors.get(name), shapes.get(name)
            if found is None or found.shape != shape or found.dtype not in weights.DTYPES:
                came = f"{found.dtype} {found.shape}" if found else "missing"
                raise CheckpointError(f"the tensors in {self.path} are not those of this model: {name} is {came}, expected "
                                      f"{f'{shape} in ' + ', '.join(weights.DTYPES) if shape else 'none'}")
        for name, view in views.items():
            given = self.tensors[name].read().astype(view.dtype, copy=False)
            if not np.isfinite(given).all():
                raise CheckpointError(f"{self.path} is unusable: {name} contains NaN or infinity in {view.dtype}")
            view.copy_(mg.from_numpy(given[: len(view)] if view.ndim < 3 else given.reshape(view.shape)))


def read(path: str | os.PathLike[str]) -> Folder:
    """The contents of a folder, without the numbers; CheckpointError if its family is not supported, or it is damaged."""
    path = pathlib.Path(path)
    given = weights.read_json(path / CONFIG)
    family = FAMILIES.get(str(given.get("model_type")))
    if family is None:
        raise CheckpointError(f"{path} has model_type {given.get('model_type')!r}, supported are {', '.join(FAMILIES)}")
    found = {name: stored for name, stored in weights.find(path).items()
             if not re.fullmatch(family.buffers, name.removeprefix(family.prefix))}
    tensors = {family.full_name(name): stored for name, stored in found.items()}
    if len(tensors) != len(found):
        raise CheckpointError(f"{path} holds tensors twice, with {family.prefix!r} before their names and without")
    dtype = "float64" if any(stored.dtype == "F64" for stored in tensors.values()) else "float32"
    try:
        config = family.read_config(given, dtype)
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path / CONFIG} describes an unsupported model: {one_line(error, 400)}") from None
    count = sum(math.prod(stored.shape) for stored in tensors.values())
    if config.parameter_count() > 2 * max(count, 1):  # then building the model could take too much memory
        raise CheckpointError(f"{path} holds {count:,} numbers in {len(tensors)} tensors, but a model of {config.layers} "
                              f"layers, width {config.width} and {config.vocabulary_size} tokens, as in its {CONFIG}, has "
                              "many more")
    if config.tied and READ_OUT in tensors:  # some folders have a second copy of the token embedding
        copy, embedding = tensors.pop(READ_OUT), tensors.get(family.rows[0][0])
        if embedding and not np.array_equal(copy.read(), embedding.read()):
            raise CheckpointError(f"{path} has an {READ_OUT} that differs from the token embedding, although its {CONFIG} "
                                  'ties them; set "tie_word_embeddings" to false there')
    tokenizer = tokenizers.read(path)
    if tokenizer is not None and not tokenizer.fits(config.vocabulary_size):
        raise CheckpointError(f"{path} has a tokenizer of {len(tokenizer)} tokens, which does not fit its model of "
                              f"{config.vocabulary_size}")
    return Folder(path, family, config, tokenizer, tensors)


@mg.no_grad()
def write(model: CausalTransformer, folder: str | os.PathLike[str], tokenizer: Tokenizer | None = None,
          dtype: str | None = None) -> Family:
    """Write a model as a new folder, in a dtype (by default the model's own); return its family.

    CheckpointError if no family can express it, or the folder exists or cannot be written; then nothing is written.
    """
    config, folder, dtype = model.config, pathlib.Path(folder), dtype or model.config.dtype
    misfits = {name: family.misfits(config) for name, family in FAMILIES.items()}
    family = next((FAMILIES[name] for name, found in misfits.items() if not found), None)
    if family is None:
        others = "; ".join(f"{name} does not have {', '.join(found)}" for name, found in misfits.items())
        raise CheckpointError(f"no supported family can express this model: {others}")
    before, ends = (tokenizer.before_prompt, list(tokenizer.ends)) if tokenizer is not None else ([], [])
    ids = {"bos_token_id": before[0] if before else None, "eos_token_id": ends[0] if len(ends) == 1 else ends or None,
           "pad_token_id": None}
    tensors = {name: view.array.reshape(shape_of(view)) for name, view in family.views(model).items()}
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the folder {folder}: {error.strerror}; choose another name") from None
    try:
        weights.write(folder / weights.FILE, tensors, dtype)
        weights.write_json(folder / GENERATION, ids)
        if tokenizer is not None:
            tokenizers.write(tokenizer, folder, config.context)
        weights.write_json(folder / CONFIG, {**family.write_config(config), "dtype": dtype, **ids})  # last: `is_folder`
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise CheckpointError(f"cannot write {folder}: {error.strerror}; free some space, or choose another folder"
                                  ) from None
        raise
    return family


def shape_of(view: Tensor) -> tuple[int, ...]:
    """The shape of the tensor that has the numbers of this view, whose rows may be in three dimensions."""
    return view.shape if view.ndim < 3 else (math.prod(view.shape[:3]), *view.shape[3:])
