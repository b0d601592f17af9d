"""`minigrad export`: a run's model as a folder in the Hugging Face format."""
import argparse
import os
from typing import Any

from models import hub, loading
from models.checkpoint import CheckpointError
from models.extras import quoted


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder of a run, a checkpoint file, or a Hugging Face folder")
    parser.add_argument("--to", metavar="FOLDER", required=True, help="the folder to write; it must not exist yet")
    parser.add_argument("--best", action="store_true", help="the checkpoint of the lowest validation loss, not the last")
    parser.add_argument("--dtype", choices=hub.DTYPES, help="dtype of the numbers in the files (default: the model's)")


def run(options: argparse.Namespace) -> int:
    source = loading.source(options.run, best="best" in options)
    if source.task:
        raise CheckpointError(f"{source.path} was trained on task {source.task.name!r}; only text models can be exported")
    model: Any = loading.model_in(source)
    family = hub.write(model, options.to, source.tokenizer, vars(options).get("dtype"))
    print(f"{options.to}{os.sep} holds a {family.architecture}; load it with: minigrad sample --checkpoint "
          f"{quoted(options.to)}, or transformers.AutoModelForCausalLM.from_pretrained({options.to!r})")
    return 0
