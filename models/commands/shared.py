"""What commands share: one-line errors and exit codes, flags from configs, and checks of user input."""
import argparse
import contextlib
import difflib
import inspect
import os
import pathlib
import re
import tempfile
import types
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import minigrad as mg
from models.checkpoint import CheckpointError
from models.config import Derived
from models.distributed import RanksError
from models.extras import MissingExtra, extra
from models.pictures import FORMATS, is_of_kind
from models.train import TrainingError


class UsageError(Exception):
    """The user asked for something impossible; the message names it and the fix, in one line."""

    exit_code = 2


@contextlib.contextmanager
def usage_errors(prefix: str = "") -> Iterator[None]:
    """Report a ValueError raised inside as a UsageError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{prefix}{error}") from None


class CheckFailed(Exception):
    """The check that the command ran has failed."""


def run(name: str, text: str, command: types.ModuleType, arguments: list[str]) -> int:
    """Run a command, a module with `add_flags(parser)` and `run(options)`, and return its exit code; on errors, SystemExit
    after one line on stderr. `options` has only the flags that were given, so that presets and runs fill in the rest."""
    parser = Parser(prog=f"minigrad {name}", description=text, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help="threads for the kernels (default: all cores)")
    command.add_flags(parser)
    if "_ARGCOMPLETE" in os.environ:  # see study/command/completion.py
        extra("completion", "argcomplete").autocomplete(parser)
    options = parser.parse_args(arguments)
    try:
        if "threads" in options:
            with usage_errors("--threads: "):
                mg.set_num_threads(options.threads)
        return command.run(options)
    except (UsageError, RanksError, CheckFailed, CheckpointError, MissingExtra, TrainingError) as error:
        parser.stop(f"error: {error}", getattr(error, "exit_code", 1))
    except MemoryError:
        parser.stop("error: out of memory; choose a smaller model, context or batch size", 1)


class Parser(argparse.ArgumentParser):
    """An argparse parser with one-line errors that suggest the nearest flag."""

    def parse_known_args(self, arguments: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        options, unknown = super().parse_known_args(arguments, namespace)
        if unknown:  # here, so that a subcommand's parser suggests its own flags
            flags = re.findall(r"--([\w-]+)", self.format_usage())
            similar = difflib.get_close_matches(unknown[0].lstrip("-").split("=")[0], flags, 1)
            hint = f" (did you mean --{similar[0]}?)" if similar else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options, []

    def error(self, message: str) -> NoReturn:
        self.stop(f"error: {message}; see `{self.prog} --help`", 2)

    def stop(self, reason: str, code: int) -> NoReturn:
        """Print the reason on stderr, in one line, and exit."""
        self.exit(code, f"minigrad: {' '.join(reason.split())}\n")


def add_fields(group: Any, config_class: type[Any], defaults: Mapping[str, Any]) -> None:
    """Add a flag for each field of a config; its help is the comment after the field, with the default from `defaults`, or
    the field's own."""
    comments = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(config_class), re.MULTILINE))
    for field in config_class.__dataclass_fields__.values():
        flag, kind = as_flag(field.name), getattr(field.type, "type", field.type)  # that of an InitVar
        kind = int if kind == int | None else kind
        default = defaults.get(field.name, field.default)
        text = comments[field.name].replace("%", "%%") + ("" if isinstance(default, Derived) else f" (default: {default})")
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            group.add_argument(flag, type=kind, metavar=kind.__name__.upper(), help=text)


def as_flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def check_writable(folder: pathlib.Path, flag: str | None = "--out") -> None:
    """Make the folder if necessary; UsageError if no file can be written there. `flag` can name another folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = f"choose another folder with {flag}" if flag else "make it writable"
        raise UsageError(f"cannot write to {folder} ({error.strerror}); {remedy}") from None


def check_ending(path: str | os.PathLike[str], flag: str) -> None:
    """UsageError if a picture's file has an ending that no picture can be written for."""
    if pathlib.Path(path).suffix not in FORMATS:
        raise UsageError(f"{flag} is {str(path)!r}, but pictures are PNG, PDF or SVG; choose a name that ends with "
                         f"{', '.join(FORMATS)}")


def check_output(path: pathlib.Path, flag: str, kind: str, mark: str) -> None:
    """UsageError if a picture cannot be written, or would replace anything but an earlier one of its kind, by its mark."""
    check_ending(path, flag)
    check_writable(path.parent, flag)
    if path.exists() and not is_of_kind(path, mark):
        raise UsageError(f"{path} exists and is not a {kind}; choose another {flag}")
