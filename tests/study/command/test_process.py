"""The command as a process: how it starts, and output that nobody reads."""
import os
import pathlib
import shlex
import signal
import subprocess
import sys

import pytest

import minigrad

ROOT = str(pathlib.Path(minigrad.__file__).parents[1])
SCRIPT = "import sys\nfrom study.command import main\nsys.exit(main())\n"  # as pip writes one for the command
INTERRUPT = f"import os, time\nos.kill(os.getpid(), {int(signal.SIGINT)})\ntime.sleep(60)\n"


def listen_to_ctrl_c() -> None:
    """As a command in a terminal does; a background process and all that it starts ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that runs Python with arguments, a line of shell; `html` replaces that module, which the package imports."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # so that output is written at exit only
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/minigrad").write_text(SCRIPT)

    def run(arguments: str, html: str | None = None) -> tuple[int, str, str]:
        if html is not None:
            (tmp_path / "html.py").write_text(html)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), ROOT)))
        process = subprocess.run(f"{sys.executable} {arguments}", shell=True, cwd=tmp_path, capture_output=True, text=True,
                                 check=False, preexec_fn=listen_to_ctrl_c)
        return process.returncode, process.stdout, process.stderr

    return run


LOST = f"try:\n    exec({INTERRUPT!r})\nexcept BaseException:\n    pass\n"  # as a compiled module may while it starts
CANNOT = "minigrad: error: cannot start: so much is lost\n"


@pytest.mark.parametrize("html, expected", [
    (LOST, (130, "", "minigrad: interrupted\n")), ("raise RuntimeError('so much\\nis lost')", (2, "", CANNOT)),
    ("raise ImportError('so much is lost')", (2, "", CANNOT))], ids=["Ctrl-C", "RuntimeError", "ImportError"])
def test_what_cannot_be_imported(start, html, expected):
    assert start("bin/minigrad info", html) == expected


def test_ctrl_c_while_the_command_itself_is_imported(start, tmp_path):
    (tmp_path / "argparse.py").write_text(INTERRUPT)
    assert start("bin/minigrad info") == (130, "", "minigrad: interrupted\n")


def test_unexpected_errors_while_importing_have_a_traceback(start):
    code, out, err = start("bin/minigrad info", "raise KeyError('lost')")
    assert (code, out) == (1, "") and err.count("Traceback") == 1 and err.endswith("\nKeyError: 'lost'\n")


def test_settings_that_make_kernels_impossible(start, monkeypatch, kernels):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")
    line = "NUMBA_NUM_THREADS must be a whole number from 1, got '0'; unset it to use all cores"
    assert start("bin/minigrad info") == (2, "", f"minigrad: error: cannot start: {line}\n")
    code, _, err = start("-c 'import models'")
    assert code == 1 and err.startswith("Traceback") and err.endswith(f"\nRuntimeError: {line}\n")


WITHOUT_NUMBA = """
import subprocess, sys
sys.modules["numba"] = None  # so that it cannot be found
import minigrad as mg, nn
from study.command import main
for line in "--help", "gradcheck --help", "info", "gradcheck --fly", "sample --run nowhere":
    main(line.split())
nn.Linear(2, 2)
print("so far nothing was computed", file=sys.stderr)
{}
"""


@pytest.mark.parametrize("computes", [
    "mg.ones(2) + 1; mg.ones(2) * 2", pytest.param("main(['gradcheck'])", marks=pytest.mark.long),
    pytest.param("with mg.trace():\n  mg.ones(2) * 2 * 3.0", marks=pytest.mark.long),
    "mg.ones(2) + 1; subprocess.run([sys.executable, '-c', 'import minigrad as mg; mg.ones(2) + 1'])",
], ids=["ops", "command", "trace", "child"])
def test_a_missing_numba_is_reported_once_when_something_is_computed(start, monkeypatch, computes):
    monkeypatch.delenv("MINIGRAD_FAST", raising=False)
    notice = "minigrad: Numba is not installed, so NumPy computes everything, slower: pip install numba\n"
    before, after = start(f"-c {shlex.quote(WITHOUT_NUMBA.format(computes))}")[2].split("so far nothing was computed")
    assert (before.count(notice), after.count(notice)) == (0, 1)


def test_output_that_nobody_reads(start):
    closed = "minigrad: error: the output is closed; send it to a file, or to /dev/null\n"
    assert start("bin/minigrad info >&-") == (2, "", closed)
    code, out, err = start("bin/minigrad info 2>&-")
    assert code == 0 and out.startswith("minigrad ") and err == ""
    for arguments in ("info", "train --help"):
        assert start(f"bin/minigrad {arguments} | sleep 0")[1:] == ("", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_to_a_full_device(start):
    for arguments in ("info", "--help"):
        code, _, err = start(f"bin/minigrad {arguments} > /dev/full")
        assert code == 1 and err.startswith("minigrad: error: output: No space left on device") and err.count("\n") == 1
    assert start("bin/minigrad --help 2> /dev/full")[0] == 0
    assert start("bin/minigrad fly 2> /dev/full") == (2, "", "")


@pytest.mark.parametrize("arguments, foreign", [
    ("--help", {"minigrad", "numpy", "numba", "models"}),
    ("info", {"study.mistakes", "matplotlib", "models.commands.train"}),
    ("train --help", {"study.mistakes", "matplotlib"}),
])
def test_a_command_imports_only_what_it_uses(start, arguments, foreign):
    _, _, err = start(f"-X importtime bin/minigrad {arguments}")
    imported = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "study.command" in imported and not foreign & imported


def test_python_runs_the_command_by_name(start):
    assert start("-m minigrad --version")[1] == start("bin/minigrad --version")[1]
    assert start("-c 'import sys; sys.argv[:] = [\"minigrad\", \"fly\"]; import minigrad'") == (0, "", "")
