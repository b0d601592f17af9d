"""The processes that compile the kernels of a training ahead."""
import os
import pathlib
import subprocess
import sys

import pytest

from minigrad.fast.kernels import ahead, cache

ROOT = pathlib.Path(__file__).parents[4]
ADD = "activations.add_forward (UniTuple(Array(float32, 1, 'C', False, aligned=True), 3),)"
TRAINING = """  # prints a line for each kernel that the default training needs, with its pictures and its sample, the last one first
import contextlib, pathlib, sys
from minigrad.fast.kernels.cache import KernelCache
from models.commands.train import new_trainer
from models.run import train

load, lines = KernelCache.load_overload, []

def noted(kernel, signature, target):
    lines.append(f"{kernel._name} {signature}")
    return load(kernel, signature, target)

KernelCache.load_overload = noted
with contextlib.redirect_stdout(sys.stderr):
    train(new_trainer({"precision": "bfloat16", "steps": 1})[0], pathlib.Path(sys.argv[1]))
apart = "threads.", "elementwise."  # those that every kernel needs, and those that are made when they are called
print(*[line for line in lines[::-1] if not line.startswith(apart)], sep="\\n")
"""


def run(code, cache_folder, *arguments):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache_folder), "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True,
                             check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.long
def test_the_list_has_the_kernels_of_a_training(tmp_path):
    needed, listed = run(TRAINING, os.environ.get("NUMBA_CACHE_DIR", ""), str(tmp_path)), ahead.KERNELS.read_text()
    if sorted(needed.splitlines()) != sorted(listed.splitlines()):
        ahead.KERNELS.write_text(needed)
        pytest.fail("training.txt was out of date, and has been written anew")


@pytest.mark.parametrize("line", ahead.KERNELS.read_text().splitlines())
def test_a_line_names_a_kernel(line):
    kernel, signature = ahead.read_line(line)
    assert f"{kernel._cache._name} {signature}" == line


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
        monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path)
        monkeypatch.setattr(ahead.numba.config, "NUMBA_NUM_THREADS", 3)
        monkeypatch.setattr(ahead.subprocess, "Popen", lambda command, **options: commands.append(command))
        monkeypatch.setattr(ahead.atexit, "register", lambda function, process: None)

        def start():
            ahead.start.__wrapped__()
            return len(commands)

        return start

    def test_each_further_core_gets_one(self, started):
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
