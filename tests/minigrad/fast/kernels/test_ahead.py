"""The processes that compile the kernels of a training ahead."""
import os
import pathlib
import subprocess
import sys

import pytest

import first_training
from minigrad.fast.kernels import ahead, cache

ROOT = pathlib.Path(__file__).parents[4]
ADD = "activations.add_forward (UniTuple(Array(float32, 1, 'C', False, aligned=True), 3),)"


def run(code, cache_folder, *arguments):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache_folder), "NUMBA_NUM_THREADS": "1", "PYTHONPATH": paths}
    process = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True,
                             check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.long
def test_the_list_has_the_kernels_of_a_training():
    code = "import first_training; print(*first_training.lines_of_a_training(), sep='\\n')"
    needed = run(code, os.environ.get("NUMBA_CACHE_DIR", "")).split("\n")
    listed = ahead.KERNELS.read_text().split("\n")
    assert sorted(listed) == sorted(needed), "run `NUMBA_NUM_THREADS=1 python tests/first_training.py`"


@pytest.mark.parametrize("line", ahead.KERNELS.read_text().splitlines())
def test_reading_a_line_reverses_writing_it(line):
    kernel, signature = ahead.read_line(line)
    assert f"{first_training.kernels()[kernel]} {signature}" == line


@pytest.mark.skipif(cache.fcntl is None, reason="the system knows no locks")
class TestProcesses:
    def test_it_compiles_the_list(self, tmp_path):
        (tmp_path / "kernels.txt").write_text(ADD)
        run(ahead.COMMAND, tmp_path / "cache", str(os.getpid()), str(tmp_path / "kernels.txt"))
        kept = {path.name.partition("-")[0] for path in (tmp_path / "cache").rglob("kernels-*/*")}
        assert {"activations.add_forward", "training.done"} <= kept

    def test_it_stops_when_its_parent_has_died(self, monkeypatch):
        monkeypatch.setattr(ahead, "read_line", lambda line: pytest.fail("it goes on"))
        ahead.compile_listed(str(os.getppid() + 1), str(ahead.KERNELS))

    @pytest.fixture
    def started(self, tmp_path, monkeypatch):
        """A function that starts them, on a machine with three cores and an empty cache, and counts them."""
        commands = []

        class Started:
            def __init__(self, command, env, pass_fds, **streams):
                commands.append(command)
                self.held = [os.dup(descriptor) for descriptor in pass_fds]

        monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path)
        monkeypatch.setattr(ahead.numba.config, "NUMBA_NUM_THREADS", 3)
        monkeypatch.setattr(ahead.subprocess, "Popen", Started)
        monkeypatch.setattr(ahead.atexit, "register", lambda function, process: processes.append(process))
        processes = []

        def start():
            ahead.start.__wrapped__()
            return len(commands)

        yield start
        for process in processes:
            for descriptor in process.held:
                os.close(descriptor)

    def test_each_further_core_gets_one_and_no_more_if_started_again(self, started):
        assert started() == 2
        assert started() == 2

    def test_none_starts_if_everything_is_compiled(self, started, tmp_path):
        (tmp_path / "training.done").touch()
        assert started() == 0

    def test_none_starts_without_a_cache(self, started, monkeypatch):
        monkeypatch.setattr(ahead, "cache_folder", lambda: None)
        assert started() == 0

    def test_none_starts_in_a_program_that_embeds_python(self, started, monkeypatch):
        monkeypatch.setattr(sys, "executable", "/usr/bin/editor")
        assert started() == 0
