"""`minigrad export`: a run's model as a folder in the Hugging Face format."""
import argparse
import os
import re
from typing import Any

from models import hub, loading
from models.checkpoint import CheckpointError
from models.commands.shared import UsageError
from models.extras import quoted

UNITS = {"": 1, "K": 10 ** 3, "M": 10 ** 6, "G": 10 ** 9}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder of a run, a checkpoint file, or a Hugging Face folder")
    parser.add_argument("--to", metavar="FOLDER", required=True, help="the folder to write; it must not exist yet")
    parser.add_argument("--best", action="store_true", help="the checkpoint of the lowest validation loss, not the last")
    parser.add_argument("--dtype", choices=hub.DTYPES, help="dtype of the numbers in the files (default: the model's)")
    parser.add_argument("--shard-size", metavar="SIZE", help="the largest file, such as 500MB (default: 5GB)")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    size = shard_size(given["shard_size"]) if "shard_size" in given else hub.SHARD_SIZE
    source = loading.source(options.run, best="best" in given)
    if source.task:
        raise CheckpointError(f"{source.path} was trained on task {source.task.name!r}; only text models can be exported")
    hub.family_of(source.config)
    hub.check_free(options.to)
    model: Any = loading.model_in(source)
    family = hub.write(model, options.to, source.tokenizer, given.get("dtype"), size)
    print(f"{options.to}{os.sep} holds a {family.architecture}; load it with: minigrad sample --checkpoint "
          f"{quoted(options.to)}, or transformers.AutoModelForCausalLM.from_pretrained({options.to!r})")
    return 0


def shard_size(text: str) -> int:
    """The bytes of a size such as 500MB; UsageError if it is not one."""
    found = re.fullmatch(r"(\d{1,15})\s*([KMG]?)B?", text.strip().upper())
    if not found or int(found[1]) == 0:
        raise UsageError(f"--shard-size must be a size such as 500MB or 5GB, got {text!r}")
    return int(found[1]) * UNITS[found[2]]
