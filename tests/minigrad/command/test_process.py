"""The command as a process: its first moments, and an output that nobody takes."""
import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys

import pytest

import minigrad
from minigrad import command

ROOT = str(pathlib.Path(minigrad.__file__).parents[1])
SCRIPT = "import sys\nfrom minigrad.command import main\nsys.exit(main())\n"  # as pip writes one for the command
INTERRUPT = f"import os, time\nos.kill(os.getpid(), {int(signal.SIGINT)})\ntime.sleep(60)\n"


def listen_to_ctrl_c() -> None:
    """As a command on a terminal does; a process in the background, and all that it starts, ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


as_module_and_script = pytest.mark.parametrize("way", ["-m minigrad", "bin/minigrad"])


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that runs Python with arguments, a line of shell; `html` replaces that module, which the package imports."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # so that much is written at the exit only
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


@as_module_and_script
def test_ctrl_c_while_importing(start, way):
    lost = f"try:\n    exec({INTERRUPT!r})\nexcept BaseException:\n    pass\n"  # as an exception may be as a compiled module starts
    assert start(f"{way} info", lost) == (130, "", "minigrad: interrupted\n")


def test_ctrl_c_while_the_command_itself_is_imported(start, tmp_path):
    (tmp_path / "argparse.py").write_text(INTERRUPT)
    assert start("-m minigrad info") == (130, "", "minigrad: interrupted\n")


@as_module_and_script
@pytest.mark.parametrize("error", ["RuntimeError('so much\\nis lost')", "ImportError('so much is lost')"])
def test_what_cannot_be_imported(start, way, error):
    expected = "minigrad: error: cannot start: so much is lost\n"
    assert start(f"{way} info", f"raise {error}") == (2, "", expected)


def test_mistakes_of_others_while_importing_have_their_traceback(start):
    code, out, err = start("-m minigrad info", "raise KeyError('lost')")
    assert (code, out) == (1, "") and err.count("Traceback") == 1 and err.endswith("\nKeyError: 'lost'\n")


def test_settings_that_rule_kernels_out(start, monkeypatch, kernels):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")
    line = "NUMBA_NUM_THREADS must be a whole number from 1, got '0'; unset it to use all cores"
    assert start("-m minigrad info") == (2, "", f"minigrad: error: cannot start: {line}\n")
    code, _, err = start("-c 'import models'")
    assert code == 1 and err.startswith("Traceback") and err.endswith(f"\nRuntimeError: {line}\n")


NO_NUMBA = "import sys; sys.modules['numba'] = None; "  # it cannot be found then
COMMAND = NO_NUMBA + "from minigrad.command import main; sys.exit(main('{}'.split()))"


@pytest.mark.parametrize("code, is_told", [
    (COMMAND.format("--help"), False), (COMMAND.format("gradcheck --help"), False), (COMMAND.format("info"), False),
    (COMMAND.format("gradcheck --fly"), False), (COMMAND.format("sample --run nowhere"), False),
    (COMMAND.format("gradcheck"), True), (NO_NUMBA + "import nn; nn.Linear(2, 2)", False),
    (NO_NUMBA + "import minigrad as mg; x = mg.ones(2) + 1; x * x", True),
    (NO_NUMBA + "import minigrad as mg\nwith mg.trace():\n x = mg.ones(2)*2\nx * 3.0", True),
    (NO_NUMBA + "import subprocess, minigrad as mg; mg.ones(2) + 1; subprocess.run([sys.executable, '-c', "
     "'import minigrad as mg; mg.ones(2) + 1'])", True),
])
def test_that_numba_is_missing_is_said_once_when_something_is_computed(start, monkeypatch, code, is_told):
    monkeypatch.delenv("MINIGRAD_FAST", raising=False)
    notice = "minigrad: Numba is not installed, so NumPy computes everything, slower: pip install numba\n"
    assert start(f"-c {shlex.quote(code)}")[2].count(notice) == is_told


def test_closed_output(start):
    expected = "minigrad: error: the output is closed; send it to a file, or to /dev/null\n"
    assert start("-m minigrad info >&-") == (2, "", expected)
    code, out, err = start("-m minigrad info 2>&-")
    assert code == 0 and out.startswith("minigrad ") and err == ""


@pytest.mark.parametrize("arguments", ["info", "--help", "train --help"])
def test_reader_that_is_gone(start, arguments):
    assert start(f"-m minigrad {arguments} | sleep 0")[1:] == ("", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["info", "--help"])
def test_output_that_is_full(start, arguments):
    code, _, err = start(f"-m minigrad {arguments} > /dev/full")
    assert code == 1 and err.startswith("minigrad: error: output: No space left on device") and err.count("\n") == 1
    assert start(f"-m minigrad {arguments} 2> /dev/full")[0] == 0
    assert start("-m minigrad fly 2> /dev/full") == (2, "", "")


@as_module_and_script
@pytest.mark.parametrize("arguments, foreign", [
    ("--help", {"numpy", "numba", "models", "study"}),
    ("--version", {"numpy", "numba", "models", "study"}),
    ("fly", {"numpy", "numba", "models", "study"}),
    ("info", {"study", "matplotlib", "models.commands.train"}),
    ("train --help", {"study", "matplotlib"}),
])
def test_a_command_imports_what_it_uses_only(start, way, arguments, foreign):
    _, _, err = start(f"-X importtime {way} {arguments}")
    imported = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "minigrad.command" in imported and not foreign & imported


@pytest.mark.parametrize("python, argv, is_begun", [
    ("python -m minigrad fly", "-m fly", True),
    ("python -X dev -m minigrad fly", "-m fly", True),
    ("python /bin/minigrad fly", "/bin/minigrad fly", True),
    ("python minigrad.exe fly", "minigrad.exe fly", True),
    ("python /bin/minigrad.py fly", "/bin/minigrad.py fly", False),
    ("python mine.py minigrad fly", "mine.py minigrad fly", False),
    ("python mine.py minigrad", "other", False),
    ("python -m mine minigrad", "-m minigrad", False),
    ("python -m minigrad.mine fly", "-m fly", False),
    ("python -c from_multiprocessing_import_main", "/bin/minigrad fly", False),  # a child of the command
    ("python -", "-", False),
    ("", "", False),
])
def test_the_import_begins_the_command_only_if_this_process_is_the_command(python, argv, is_begun, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", python.split())
    monkeypatch.setattr(sys, "argv", argv.split())
    with pytest.raises(SystemExit, match="2") if is_begun else contextlib.nullcontext():
        command.begin()
