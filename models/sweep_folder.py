"""The folder of a sweep: `sweep.json`, which lists the runs, and a folder for each run."""
import hashlib
import json
import os
import pathlib
from typing import Any

from minigrad.serialization import replacing
from models.checkpoint import CheckpointError
from models.extras import one_line
from models.recipes import nearest

PLAN, FAILURE = "sweep.json", "failure.txt"  # of a sweep; of a run that failed, with the reason
FORMAT = "minigrad sweep 1"
Settings = dict[str, Any]  # everything that determines a run's result, in JSON's types


def settings_of(architecture: str, config: dict[str, Any], training: dict[str, Any], dataset: dict[str, Any]) -> Settings:
    """The settings of a run from the fields of its checkpoint; a text and its tokenizer are identified by hashes."""
    data = {name: value for name, value in dataset.items() if name not in ("path", "sha256", "tokenizer")}
    if dataset.get("task") is None:
        path, state = dataset["path"], dataset["tokenizer"]
        data |= {"text": pathlib.Path(path).name if path else "the language reference", "text_sha256": dataset["sha256"],
                 "recipe": nearest(config | training), "tokenizer": state["kind"], "tokenizer_sha256": _digest(state)}
    return json.loads(json.dumps(data | {"model": architecture} | config | training))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write_plan(folder: pathlib.Path, runs: dict[str, Settings]) -> None:
    """Write {name of a run: its settings}."""
    with replacing(folder / PLAN) as file:
        file.write(json.dumps({"format": FORMAT, "runs": runs}, indent=1).encode())


def read_plan(folder: str | os.PathLike[str]) -> dict[str, Settings]:
    """{name of a run: its settings}; CheckpointError if the file is damaged."""
    path = pathlib.Path(folder, PLAN)
    try:
        plan = json.loads(path.read_bytes())
        if not isinstance(plan, dict) or plan.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        runs = plan["runs"]
        if not all(isinstance(settings, dict) and _is_name(name) for name, settings in runs.items()):
            raise ValueError("its runs are not folder names with settings")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({one_line(error)}); compare its runs one by one, or start another sweep "
                              "with another --out") from None
    return runs


def _is_name(name: str) -> bool:
    """Does the name stay inside the folder?"""
    return pathlib.Path(name).name == name and name != ".." and "\0" not in name


def is_sweep(folder: str | os.PathLike[str]) -> bool:
    return pathlib.Path(folder, PLAN).is_file()
