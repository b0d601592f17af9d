"""The process in which a submission runs: `python worker FOLDER PIPE SITE`, started by `Sandbox`.

It loads NumPy, then the student's file, and then answers calls until it is killed. Nothing in it helps to cheat: the judge
sends inputs, gets the answers, and compares them on its side.
"""
import __future__
import ast
import builtins
import os
import random
import resource
import signal
import sys
import threading
import traceback
import types
from importlib.machinery import PathFinder

FOLDER, PIPE, SITE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
REQUESTS, REPLIES = open(PIPE, "rb"), open(PIPE, "wb", closefd=False)
STANDARD = sys.path[1:]
sys.path.append(SITE)

import numpy as np  # noqa: E402
import wire  # noqa: E402  next to this file
from returned import unwrap  # noqa: E402

sys.path[:] = [*STANDARD, FOLDER]
sys.argv[:] = ["submission"]

LIBRARIES = "numpy", "scipy"  # that may be imported
LONGEST_TEXT = 500
TURN = threading.Lock()


class Libraries:
    """The last finder of modules: knows where NumPy and SciPy are, and nothing else."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in LIBRARIES and (found := PathFinder.find_spec(name, path or [SITE], target)):
            return found
        raise ModuleNotFoundError(f"only NumPy is available in exercises, not {name}; each file is judged alone, so copy "
                                  "what it needs from other files of yours into it", name=name)


def set_limits(limits):
    """The limits that the system enforces. Where it cannot (macOS, in part), the judge's deadlines remain."""
    megabyte = 2**20
    for name, value in (
        ("RLIMIT_CPU", limits["processor_seconds"]), ("RLIMIT_AS", limits["megabytes"] * megabyte), ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", limits["file_megabytes"] * megabyte), ("RLIMIT_NOFILE", 64),
        ("RLIMIT_NPROC", limits["processes"] + running()),
    ):
        try:
            kind = getattr(resource, name)
            _, hard = resource.getrlimit(kind)
            soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (soft, max(soft, value + 1) if name == "RLIMIT_CPU" and soft == value else soft))
        except (AttributeError, ValueError, OSError):
            pass


def running():
    """At least the number of this user's processes and threads, which all count towards the limit."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 4096


def load(text, filename):
    """Run the file: (its names, the first error or None).

    Each statement runs on its own, so that one that fails, such as a plot or a comparison with another library, does not
    stop the others.
    """
    module = types.ModuleType("submission")
    module.__file__ = filename
    sys.modules["submission"] = module
    failed, flags = None, 0
    for statement in ast.parse(text, filename).body:
        try:
            code = compile(ast.Module([statement], []), filename, "exec", flags, True)
            flags |= code.co_flags & __future__.annotations.compiler_flag
            exec(code, vars(module))
        except BaseException as error:  # noqa: BLE001  all that a student's code may do
            failed = failed or described(error, filename)
    return vars(module), failed


def described(error, filename):
    """An exception, and its line in the student's file."""
    try:
        text = str(error)[:LONGEST_TEXT]
    except BaseException:  # noqa: BLE001
        text = "(its message cannot be read)"
    places = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == filename]
    return {"type": type(error).__name__, "message": text, "line": places[-1] if places else None}


def reply(header, tree=None):
    REPLIES.write(wire.packed(header, tree))
    REPLIES.flush()


def proxy(number):
    """A function that runs in the judge's process. Threads of the submission take turns."""

    def function(*arguments):
        with TURN:
            try:
                reply({"kind": "callback", "function": number}, arguments)
            except wire.TooLarge as error:
                raise ValueError(f"this function was given {error}") from None
            header, result = wire.receive(REQUESTS, proxy)
        if header["kind"] == "raised":
            raise ValueError(header["message"])
        return result

    return function


def answer(function, arguments):
    """(header, tree) of one call."""
    container, given, results = unwrap(function(*arguments))
    return {"kind": "returned", "container": container, "given": given}, [results, arguments]


def main():
    settings, _ = wire.receive(REQUESTS)
    filename, seconds = settings["filename"], 2 * int(settings["limits"]["total_seconds"]) + 1
    set_limits(settings["limits"])
    os.chdir(FOLDER)
    np.random.seed(0)
    random.seed(0)
    np.seterr(all="ignore")
    builtins.exit = builtins.quit = sys.exit  # which `site` defines otherwise
    sys.meta_path.append(Libraries)
    reply({"kind": "ready"})

    function = None
    while True:
        header, arguments = wire.receive(REQUESTS, proxy)
        signal.alarm(seconds)  # it ends even if the judge is gone
        try:
            if function is None:
                names, failed = load(header["text"], filename)
                function = names.get(settings["function"])
                found = "callable" if callable(function) else type(function).__name__
                reply({"kind": "loaded", "found": found, "failed": failed})
            else:
                reply(*answer(function, arguments))
        except wire.TooLarge as error:
            reply({"kind": "raised", "type": "ValueError", "message": f"it returns {error}", "line": None})
        except BaseException as error:  # noqa: BLE001  all that a student's code may do
            reply({"kind": "raised", **described(error, filename)})
        signal.alarm(0)


if __name__ == "__main__":
    try:
        main()
    except EOFError:
        os._exit(0)  # the judge is gone
