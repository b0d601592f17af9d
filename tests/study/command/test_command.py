"""The command `minigrad` itself: how it finds commands, and errors of one line."""
import io
import subprocess
import sys
import threading

import pytest

from study import command
from study.command import COMMANDS


def test_help_lists_all_commands(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "") and run("-h") == (code, out, err)
    for name, (_, text) in COMMANDS.items():
        assert f"  {name:10}  {text}\n" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run, name):
    code, out, err = run(name, "--help")
    assert (code, err) == (0, "") and out.startswith(f"usage: minigrad {name} [-h] [--threads THREADS]")


def test_version(run):
    code, out, err = run("--version")
    assert (code, err) == (0, "") and out.startswith("minigrad ")


def test_info(run):
    code, out, _ = run("info")
    assert code == 0
    for name in ("minigrad", "numpy", "numba", "python", "cpu", "cores", "threads", "threading layer", "kernel cache"):
        assert f"{name} " in out


def test_the_garbage_collector_skips_imported_objects():
    """Neither during imports nor at exit does it visit them; what a command makes later, it does."""
    program = ("import gc, sys\nsys.argv = sys.orig_argv = ['minigrad', 'info']\nearly = []\n"
               "def note(phase, facts): early.extend({'numpy'} & sys.modules.keys() if not gc.get_freeze_count() else [])\n"
               "gc.callbacks.append(note)\nfrom study.command import main\nmain()\n"
               "print(early, gc.isenabled(), gc.get_freeze_count() > 50_000)")
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[] True True"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_imports_that_take_long_say_so_on_a_terminal(is_terminal, monkeypatch):
    stream, begun, of_threading = io.StringIO(), [], threading.Timer

    def at_once(seconds, *what):
        begun.append(of_threading(0, *what))
        return begun[0]

    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(threading, "Timer", at_once)
    with command.starting():
        if is_terminal:
            begun[0].join()
    assert stream.getvalue() == "minigrad: starting ...\n" * is_terminal
