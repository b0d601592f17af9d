"""The command `minigrad`: it imports the module of a subcommand, and runs it.

Every user error ends in one line on stderr, before any long work: exit code 2 for bad usage, such as a file or run that
does not exist; 1 for a run or check that failed, or a damaged file; 130 after Ctrl-C.

To import `minigrad` takes half a second, and may fail. So nothing of the library is imported before the arguments are read:
help comes at once, and a failed import is reported in one line. `python -m minigrad` has imported it before.
"""
import atexit
import contextlib
import gc
import os
import signal
import sys
import types
from collections.abc import Iterator
from importlib import import_module

# {name: (a module with `add_flags(parser)` and `run(options) -> exit code`, a description)}
COMMANDS = {
    "train": ("models.commands.train", "Train a causal transformer on a text, or a model on a task, and show it."),
    "compare": ("models.commands.compare", "Compare runs: the mean and spread over seeds, as a table and a picture."),
    "sample": ("models.commands.sample", "Continue a prompt with a trained model."),
    "look": ("models.commands.look", "Show where each head of a trained model looks while it reads a text."),
    "export": ("models.commands.export", "Write a trained model as a folder in the Hugging Face format."),
    "gradcheck": ("models.commands.gradcheck",
                  "Check the gradients of a function in a file, or of small models, by finite differences."),
    "notes": ("study.notes.command", "Check, claim by claim, whether the lecture notes are right."),
    "study": ("study.page.command", "Follow attention's backward number by number, on a page in your browser."),
    "exercises": ("study.exercises.command", "Write backwards yourself; they are judged, and the mistake is named."),
    "info": ("study.command.info", "Show versions, cores, threads and where compiled kernels are kept."),
}
GONE = {  # commands of earlier versions, and what to do instead; for now
    "sweep": "call `minigrad train` in a shell loop, and compare the runs: `minigrad compare RUN...`",
    "prepare": "`minigrad train --text FILE` takes the text itself",
}
DISTRIBUTION = "minigrad-transformers"  # on package indexes, where another project has the name minigrad


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code. If it ends early, a line says why."""
    if sys.stderr is None:  # closed, by `2>&-`
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        return stop("error: the output is closed; send it to a file, or to /dev/null", 2)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a text may have characters that the terminal's encoding lacks
    try:
        code = run_command(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except SystemExit as exit:  # help, or one line on stderr, has been printed
        code = exit.code  # type: ignore[assignment]
    except KeyboardInterrupt as reason:
        code = stop(str(reason) or "interrupted", 130)
    except BrokenPipeError:  # `minigrad sample | head`: the reader is gone
        code = 1
    except OSError as error:
        code = stop(f"error: {error.filename or 'output'}: {error.strerror or error}; make room or choose another "
                    "place", 1)
    finish_output()
    return code


def run_command(arguments: list[str]) -> int:
    """Run what the arguments ask for, and return its exit code."""
    name, *flags = arguments or [""]
    if "_ARGCOMPLETE" in os.environ:  # Tab was pressed
        name = import_module("study.command.completion").command_to_complete(COMMANDS)
    if name in ("-h", "--help"):
        print(help_text())
        return 0
    if name == "--version":
        print("minigrad", version(DISTRIBUTION))
        return 0
    if name not in COMMANDS:
        return refuse(name)
    module, text = COMMANDS[name]
    with contextlib.nullcontext() if module in sys.modules else starting():
        for package in "nn", "models", "study":
            import_module("minigrad.packages").refuse_shadows(package)
        shared, command = import_module("models.commands.shared"), import_module(module)
    return shared.run(name, text, command, flags)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Around imports: exit code 130 after Ctrl-C, 2 if they fail; on a terminal, a word if they take more than a second.

    The garbage collector never visits the imported objects, neither now nor at exit: it would take a quarter of the time.
    """
    before, is_collecting = signal.getsignal(signal.SIGINT), gc.isenabled()
    word = import_module("threading").Timer(1.0, stop, ["starting ...", 0])
    word.daemon = True
    if sys.stderr.isatty():
        word.start()
    gc.disable()
    if before is signal.default_int_handler:  # whose exception a compiled module may swallow while it starts
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    except (ImportError, RuntimeError) as error:
        sys.exit(stop(f"error: cannot start: {error}", 2))
    finally:
        word.cancel()
        signal.signal(signal.SIGINT, before)
        gc.freeze()
        atexit.register(gc.freeze)  # matplotlib's, for example
        if is_collecting:
            gc.enable()


def leave(number: int, frame: types.FrameType | None) -> None:
    os.write(2, b"minigrad: interrupted\n")
    os._exit(130)


def version(package: str) -> str:
    """The installed version of a package."""
    metadata = import_module("importlib.metadata")
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def help_text() -> str:
    """What `minigrad --help` prints."""
    return "\n".join([
        "usage: minigrad COMMAND ...\n",
        "Train, sample and check tiny transformers on a CPU.\n",
        *(f"  {name:10}  {text}" for name, (_, text) in COMMANDS.items()),
        "\n`minigrad COMMAND --help` lists the flags of a command; `minigrad --version` shows the version.",
    ])


def refuse(name: str) -> int:
    """Report that there is no such command, with a suggestion."""
    if name in GONE:
        return stop(f"error: `minigrad {name}` is gone: {GONE[name]}", 2)
    similar = import_module("difflib").get_close_matches(name, COMMANDS, 1)
    known = f"did you mean {similar[0]}?" if similar else f"choose from {', '.join(COMMANDS)}"
    problem = f"{name!r} is not a command" if name else "a command is missing"
    return stop(f"error: {problem} ({known}); see `minigrad --help`", 2)


def stop(reason: str, code: int) -> int:
    """Print the reason in one line on stderr, unless that is closed, and return the exit code."""
    with contextlib.suppress(OSError):
        print("minigrad:", " ".join(reason.split()), file=sys.stderr)
    return code


def finish_output() -> None:
    """Discard what can no longer be written, or Python would complain about it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

