"""The folder of a sweep: `sweep.json` says which runs there are, and a folder for each run holds it."""
import hashlib
import json
import os
import pathlib
import textwrap
from typing import Any

from minigrad.serialization import replacing
from models.checkpoint import CheckpointError
from models.recipes import nearest

PLAN, FAILURE = "sweep.json", "failure.txt"  # the second is in a run's folder: why it failed
FORMAT = "minigrad sweep 1"
Settings = dict[str, Any]  # all that decides how a run goes, in JSON's types


def settings_of(architecture: str, config: dict[str, Any], training: dict[str, Any], dataset: dict[str, Any]) -> Settings:
    """The settings of a run, by the fields of its checkpoint; of a text and its tokenizer what tells them from others."""
    data = {name: value for name, value in dataset.items() if name not in ("path", "sha256", "tokenizer")}
    if dataset.get("task") is None:
        path, state = dataset["path"], dataset["tokenizer"]
        data |= {"text": pathlib.Path(path).name if path else "the language reference", "text_sha256": dataset["sha256"],
                 "recipe": nearest(config | training), "tokenizer": state["kind"], "tokenizer_sha256": _digest(state)}
    return json.loads(json.dumps(data | {"model": architecture} | config | training))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write_plan(folder: pathlib.Path, runs: dict[str, Settings]) -> None:
    """Keep the settings of each run by its name, before it begins."""
    with replacing(folder / PLAN) as file:
        file.write(json.dumps({"format": FORMAT, "runs": runs}, indent=1).encode())


def read_plan(folder: str | os.PathLike) -> dict[str, Settings]:
    """The settings of each run by its name; CheckpointError if what is there makes no sense."""
    path = pathlib.Path(folder, PLAN)
    try:
        plan = json.loads(path.read_bytes())
        if not isinstance(plan, dict) or plan.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        runs = plan["runs"]
        if not all(isinstance(settings, dict) and _is_name(name) for name, settings in runs.items()):
            raise ValueError("its runs are not names of folders with settings")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        reason = textwrap.shorten(f"{error}", 160, placeholder=" ...")
        raise CheckpointError(f"{path} is damaged ({reason}); compare the runs in it one by one, or sweep anew with "
                              "another --out") from None
    return runs


def _is_name(name: str) -> bool:
    """Of something in the folder, not elsewhere."""
    return pathlib.Path(name).name == name and name != ".." and "\0" not in name


def is_sweep(folder: str | os.PathLike) -> bool:
    """Does the folder hold a sweep?"""
    return pathlib.Path(folder, PLAN).is_file()
