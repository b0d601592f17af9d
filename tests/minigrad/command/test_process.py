"""The command as a process: its first moments, and an output that nobody takes."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import cli

ROOT = str(pathlib.Path(cli.__file__).parents[1])
INTERRUPT = f"import os, time\nos.kill(os.getpid(), {int(signal.SIGINT)})\ntime.sleep(60)\n"


def listen_to_ctrl_c() -> None:
    """As a command on a terminal does; a process in the background, and all that it starts, ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that runs Python with arguments, a line of shell; `numba` replaces that module."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # so that much is written at the exit only

    def run(arguments: str, numba: str | None = None) -> tuple[int, str, str]:
        if numba is not None:
            (tmp_path / "numba.py").write_text(numba)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), ROOT)))
        process = subprocess.run(f"{sys.executable} {arguments}", shell=True, cwd=tmp_path, capture_output=True, text=True,
                                 check=False, preexec_fn=listen_to_ctrl_c)
        return process.returncode, process.stdout, process.stderr

    return run


def test_ctrl_c_while_importing(start):
    assert start("-m cli info", INTERRUPT) == (130, "", "minigrad: interrupted\n")


def test_ctrl_c_while_the_command_itself_is_imported(start, tmp_path):
    (tmp_path / "argparse.py").write_text(INTERRUPT)
    assert start("-m cli info") == (130, "", "minigrad: interrupted\n")


@pytest.mark.parametrize("error", ["RuntimeError('NUMBA_NUM_THREADS\\nis 0')", "ImportError('NUMBA_NUM_THREADS is 0')"])
def test_what_cannot_be_imported(start, error):
    expected = "minigrad: error: cannot start: NUMBA_NUM_THREADS is 0\n"
    assert start("-m cli info", f"raise {error}") == (2, "", expected)


def test_settings_that_rule_kernels_out(start, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")
    line = "NUMBA_NUM_THREADS must be a whole number from 1, got '0'; unset it to use all cores"
    assert start("-m cli info") == (2, "", f"minigrad: error: cannot start: {line}\n")
    code, _, err = start("-c 'import models'")
    assert code == 1 and err.startswith("Traceback") and err.endswith(f"\nRuntimeError: {line}\n")


def test_closed_output(start):
    expected = "minigrad: error: the output is closed; send it to a file, or to /dev/null\n"
    assert start("-m cli info >&-") == (2, "", expected)
    code, out, err = start("-m cli info 2>&-")
    assert code == 0 and out.startswith("minigrad ") and err == ""


@pytest.mark.parametrize("arguments", ["info", "--help", "train --help"])
def test_reader_that_is_gone(start, arguments):
    assert start(f"-m cli {arguments} | sleep 0")[1:] == ("", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["info", "--help"])
def test_output_that_is_full(start, arguments):
    code, _, err = start(f"-m cli {arguments} > /dev/full")
    assert code == 1 and err.startswith("minigrad: error: output: No space left on device") and err.count("\n") == 1
    assert start(f"-m cli {arguments} 2> /dev/full")[0] == 0
    assert start("-m cli fly 2> /dev/full") == (2, "", "")
