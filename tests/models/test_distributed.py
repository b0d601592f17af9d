"""Training on several ranks: the numbers of one process, and an end of all if one fails. Only the last part needs MPI."""
import os
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

import minigrad as mg
import nn
from study.command import main
from models import checkpoint as checkpoints
from models import distributed
from models.commands.shared import UsageError
from models.commands.train import check_divisible
from models.training_config import TrainingConfig
from nn import functional as F
from ranks import TINY, started, train
from refusals import all_refused
from small_runs import metrics_of

SECONDS = 100  # within which all ranks must end, also on a busy machine


# ---- without MPI ----

def test_the_number_of_ranks_is_read_from_the_launchers_environment():
    for variables, size in [({}, 1), ({"OMPI_COMM_WORLD_SIZE": "3"}, 3), ({"PMI_SIZE": "2"}, 2), ({"PMI_SIZE": "two"}, 1),
                            ({"SLURM_STEP_NUM_TASKS": "5"}, 1), ({"SLURM_STEP_NUM_TASKS": "5", "PMIX_RANK": "0"}, 5)]:
        assert distributed.launched_size(variables) == size


def test_only_several_ranks_need_mpi4py(run, text_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # it cannot be imported
    train = "train", *TINY, "--steps", 1, "--text", text_file
    for name, variables in (("plain", {}), ("one rank", {"PMI_SIZE": "1"})):
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        assert run(*train, "--out", name)[0] == 0 and checkpoints.load(name).step == 1
    monkeypatch.setenv("PMI_SIZE", "2")
    code, out, err = run(*train, "--out", "no")
    assert (code, out, err.count("\n")) == (2, "", 1) and not os.path.exists("no")
    assert err.startswith("minigrad: error: this is one of 2 ranks, and mpi4py cannot be imported (") and "pip install" in err


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("drops", [lambda x: F.dropout(x, 0.5), lambda x: F.packed_attention(x, 2, dropout_p=0.5)],
                         ids=["elements", "weights of attention"])
def test_dropout_of_a_part_is_that_of_the_whole_batch(drops, size, is_compiled, monkeypatch):
    """Sizes are odd, so that a part begins within a group of counters; weights of attention have heads after the batch."""
    x = mg.ones(size, 3, 6)
    monkeypatch.setattr(mg.random, "_part", 0)  # and back at the end

    def outputs(rank, size):
        mg.manual_seed(0)
        drop = mg.compile(lambda x: drops(x)) if is_compiled else drops
        mg.random.set_part(rank)
        return [drop(x[rank * len(x) // size : (rank + 1) * len(x) // size]).numpy() for _ in range(3)], mg.random.get_state()

    whole, state = outputs(0, 1)
    parts = [outputs(rank, size) for rank in range(size)]
    for i, expected in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([drawn[i] for drawn, _ in parts]), expected)
    assert all(reached == state for _, reached in parts)
    assert 0 < np.count_nonzero(whole[0]) < whole[0].size and not np.array_equal(whole[0], whole[1])


class Pair:
    """A communicator of two ranks that have the same numbers."""

    rank, size = 0, 2

    def Allreduce(self, own, total):
        total[...] = 2 * own


@pytest.mark.parametrize("dtypes", ["f4 f4", "f4 f8", "f8 f4 f4"])
def test_gradients_are_summed_in_their_own_dtype(dtypes):
    """Only float64 holds 1 + 2^-40. A parameter without a gradient keeps none."""
    gradients = [np.array([[1 + 2.0**-40, 2, 3]] * rows, kind) for rows, kind in enumerate(dtypes.split(), 1)]
    parameters = [nn.Parameter(mg.from_numpy(np.ones_like(gradient))) for gradient in gradients]
    unused = nn.Parameter(mg.ones(3))
    for parameter, gradient in zip(parameters, gradients):
        (parameter * 1).backward(mg.from_numpy(gradient))
    distributed.Ranks(Pair()).sum_gradients([unused, *parameters])
    assert unused.grad is None
    for parameter, gradient in zip(parameters, gradients):
        assert parameter.grad.dtype == gradient.dtype
        np.testing.assert_array_equal(parameter.grad.numpy(), 2 * gradient)


def test_ranks_divide_the_cores_they_share(monkeypatch):
    for cores, threads in [([{0}, {1}], 1), ([{0, 1, 2, 3}, {4, 5, 6, 7}], 4), ([{0, 1, 2, 3}] * 2, 2), ([{0, 1, 2}] * 2, 1),
                           ([{0, 1}] * 4, 1)]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores[0], raising=False)
        for node, expected in ((os.uname().nodename, threads), ("another machine", len(cores[0]))):
            others = [(node, each) for each in cores[1:]]
            ranks = types.SimpleNamespace(rank=0, size=len(cores), allgather=lambda own, others=others: [own, *others])
            assert distributed.Ranks(ranks).default_threads() == expected


def test_batch_sizes_that_ranks_cannot_divide():
    ranks = types.SimpleNamespace(size=2)
    check_divisible(TrainingConfig(batch_size=2, final_batch_size=16), ranks)
    all_refused(lambda sizes: check_divisible(TrainingConfig(**sizes), ranks), [
        (sizes, f"{flag}, which 2 ranks cannot divide; make it a multiple of 2") for sizes, flag in (
            (dict(batch_size=9), "--batch-size is 9"), (dict(batch_size=2, final_batch_size=7), "--final-batch-size is 7"))], UsageError)


# ---- with MPI ----

def finished(process: subprocess.Popen) -> tuple[int, str]:
    """(exit code, stderr)"""
    try:
        _, stderr = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    return process.returncode, stderr


KEYS = 1  # of the three parts of a packed projection


def assert_same_training(folder, expected) -> None:
    """Losses and parameters within rounding, generators exactly."""
    for row, other in zip(metrics_of(folder), metrics_of(expected), strict=True):
        assert row.keys() == other.keys()
        for name in ("loss", "val_loss", "train_loss", "grad_norm", "accuracy"):
            assert row.get(name) == (None if other.get(name) is None else pytest.approx(other[name], abs=1e-5)), (row["step"], name)
    checkpoint, wanted = checkpoints.load(folder), checkpoints.load(expected)
    assert checkpoint.generators == wanted.generators and checkpoint.training == wanted.training
    for name, array in wanted.model.items():
        parts = range(3) if name.endswith("in_proj_bias") else range(1)
        for part, came, due in zip(parts, np.split(checkpoint.model[name], len(parts)), np.split(array, len(parts))):
            if part != KEYS:  # softmax ignores their bias, so its gradient is rounding alone, which AdamW scales up
                np.testing.assert_allclose(came, due, atol=2e-4, err_msg=name)
    assert sorted(os.listdir(folder)) == sorted(os.listdir(expected))


TRAININGS = {
    "text": ["--dropout", 0.2, "--steps", 8, "--final-batch-size", 16],
    "accumulated": ["--dropout", 0.1, "--steps", 4, "--accumulation", 3, "--dtype", "float64", "--optimizer", "muon"],
    "reverse": ["--task", "reverse", "--dropout", 0.1, "--steps", 6],
    "sentiment": ["--task", "sentiment", "--label-smoothing", 0.1, "--steps", 4],
}


@pytest.mark.parametrize("name, size", [("text", 2), ("text", 4), ("accumulated", 2), ("reverse", 4), ("sentiment", 2)])
def test_training_matches_one_process(mpiexec, name, size, text_file):
    data = [] if "--task" in TRAININGS[name] else ["--text", text_file]
    flags = [*TINY, *data, *TRAININGS[name], "--eval-every", 4, "--precision", "float32"]
    assert main(["train", *map(str, flags), "--out", "one"]) == 0
    code, stderr = finished(train(mpiexec, size, *flags, "--out", pathlib.Path("many").absolute()))
    assert code == 0 and f"on {size} ranks" in stderr and stderr.count("step 4/") == 1, stderr
    assert_same_training("many", "one")


def test_a_run_is_resumed_on_another_number_of_ranks(mpiexec, text_file):
    flags = [*TINY, "--text", text_file, "--dropout", 0.2, "--eval-every", 2, "--steps", 4, "--precision", "float32"]
    assert main(["train", *map(str, flags), "--out", "one"]) == 0
    shutil.copytree("one", "one to four")
    assert main(["train", "--resume", "one", "--steps", "8"]) == 0
    assert finished(train(mpiexec, 2, *flags, "--out", pathlib.Path("two to one").absolute()))[0] == 0
    assert main(["train", "--resume", "two to one", "--steps", "8"]) == 0
    assert finished(train(mpiexec, 4, "--resume", pathlib.Path("one to four").absolute(), "--steps", 8))[0] == 0
    assert_same_training("two to one", "one")
    assert_same_training("one to four", "one")


FAILING = """
import os, signal, sys
from models.train import Trainer
from study.command import main
step = Trainer.train_step
def train_step(trainer):
    if trainer.step == 3 and trainer.ranks.rank == 1:
        {failure}
    return step(trainer)
Trainer.train_step = train_step
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("failure, code, words", [
    ("raise MemoryError", 1, "minigrad: error: out of memory"),
    ("next(trainer.model.parameters()).array[...] += 1", 1, "minigrad: error: ranks have different parameters at step 4"),
    ("next(trainer.model.parameters()).array[...] = float('nan')", 1, "minigrad: error: the loss became nan at step 4"),
    ("os.kill(os.getpid(), signal.SIGINT)", None, "minigrad: stopped after step"),
    ("os.kill(os.getpid(), signal.SIGKILL)", None, "signal 9"),  # by mpiexec: "exited on signal 9", or "KILLED BY SIGNAL: 9"
], ids=["exception", "diverged", "nan", "interrupted", "killed"])
def test_a_failing_rank_stops_all(mpiexec, failure, code, words, text_file):
    flags = ["train", *TINY, "--text", text_file, "--steps", 10**6, "--eval-every", 2, "--out", pathlib.Path("run").absolute()]
    came, stderr = finished(started(mpiexec, 2, "-c", FAILING.format(failure=failure), *flags))
    assert came == code if code else came, stderr
    assert words.lower() in stderr.lower() and checkpoints.load("run").step == (4 if "SIGINT" in failure else 2), stderr
