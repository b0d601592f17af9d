"""Training on several ranks: the numbers of one process, and one line for any failure. Only the last part needs MPI."""
import os
import pathlib
import random as chance
import shutil
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad import fast
from minigrad.command import main
from models import checkpoint as checkpoints
from models import distributed
from models.commands.shared import UsageError
from models.commands.train import check_divisible, check_ranks
from models.training_config import TrainingConfig
from nn import functional as F
from ranks import ROOT, TINY, ours, ranks_of, started, train
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
    assert run(*train, "--out", "no") == (2, "", 'minigrad: error: this is one of 2 ranks, but mpi4py is not installed; pip install '
                                                 '"minigrad-transformers[mpi]"\n')
    assert not os.path.exists("no")


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("drops", [lambda x: F.dropout(x, 0.5), lambda x: F.packed_attention(x, 2, dropout_p=0.5)],
                         ids=["elements", "weights of attention"])
def test_dropout_of_a_portion_is_that_of_the_whole_batch(drops, size, is_compiled):
    """Sizes are odd, so that a portion begins within a group of counters; weights of attention have heads after the batch."""
    x = mg.ones(size, 3, 6)

    def outputs(rank, size):
        mg.manual_seed(0)
        drop = mg.compile(lambda x: drops(x)) if is_compiled else drops
        part = x[rank * len(x) // size : (rank + 1) * len(x) // size]
        with mg.random.portion(rank, size):
            return [drop(part).numpy() for _ in range(3)], mg.random.get_state()

    whole, state = outputs(0, 1)
    portions = [outputs(rank, size) for rank in range(size)]
    for i, expected in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([drawn[i] for drawn, _ in portions]), expected)
    assert all(reached == state for _, reached in portions)
    mg.manual_seed(0)
    np.testing.assert_array_equal(drops(x).numpy(), whole[0])  # outside the context there are no portions
    assert 0 < np.count_nonzero(whole[0]) < whole[0].size and not np.array_equal(whole[0], whole[1])


class Tied(nn.Module):
    """A read-out tied to the embedding, which gets the first and the last gradient, and a parameter that gets none."""

    def __init__(self):
        super().__init__()
        self.embedding, self.first, self.last = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.unused = nn.Parameter(mg.ones(3))

    def forward(self, ids: mg.Tensor) -> mg.Tensor:
        return F.linear(self.last(self.first(self.embedding(ids)).tanh()), self.embedding.weight).square().mean()


class Doubling:
    """An MPI of two ranks with the same gradients. At each sum it notes which parameters have a gradient."""

    IN_PLACE = None
    Request = types.SimpleNamespace(Testall=lambda requests: True)

    def __init__(self, model):
        self.model, self.noted = model, []
        self.rank, self.size = 0, 2

    def Iallreduce(self, _, array):
        array *= 2
        self.noted.append({name for name, p in self.model.named_parameters() if p.grad_array() is not None})


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("bytes_of_bucket", [1, 100, 10_000])
def test_gradients_are_summed_in_buckets(is_compiled, bytes_of_bucket, monkeypatch):
    monkeypatch.setattr(distributed, "BUCKET_BYTES", bytes_of_bucket)
    mg.manual_seed(0)
    model, ids = Tied(), mg.tensor([[0, 1], [4, 1]])
    model(ids).backward()
    expected = {name: None if p.grad is None else p.grad.numpy() for name, p in model.named_parameters()}
    mpi = Doubling(model)
    sums = distributed.Ranks(mpi, mpi).summing(list(model.parameters()))

    def step(ids):
        loss = model(ids)
        loss.backward()
        return loss.detach()

    step = mg.compile(step) if is_compiled else step
    for _ in range(3):
        model.zero_grad()
        mpi.noted.clear()
        step(ids)  # whose gradients are only accumulated
        assert not mpi.noted
        with sums:
            step(ids)
        for name, p in model.named_parameters():
            if is_compiled and fast.IS_FAST and expected[name] is not None:
                assert p.node.grad is sums.views[p]  # without a copy
            if expected[name] is None:
                assert p.grad is None
            else:
                np.testing.assert_allclose(p.grad.numpy(), 4 * expected[name], rtol=1e-6, err_msg=name)
    assert len(mpi.noted) == {1: 6, 100: 3, 10_000: 1}[bytes_of_bucket]


def test_gradients_are_summed_in_their_own_dtype():
    """Only float64 holds 1 + 2^-40."""
    for dtypes in ("f4 f4", "f4 f8", "f8 f4", "f4 f8 f8 f4", "f8 f4 f8"):
        gradients = [np.array([1 + 2.0**-40, 2, 3], kind) for kind in dtypes.split()]
        parameters = [nn.Parameter(mg.from_numpy(np.ones_like(gradient))) for gradient in gradients]
        mpi = Doubling(types.SimpleNamespace(named_parameters=list))
        with distributed.Ranks(mpi, mpi).summing(parameters):
            for parameter, gradient in zip(parameters, gradients):
                (parameter * 1).backward(mg.from_numpy(gradient))
        for parameter, gradient in zip(parameters, gradients):
            assert parameter.grad.dtype == gradient.dtype
            np.testing.assert_array_equal(parameter.grad.numpy(), 2 * gradient)


def test_buckets_are_sent_before_backward_reaches_earlier_layers(kernels, monkeypatch):
    monkeypatch.setattr(distributed, "BUCKET_BYTES", 1)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    mpi = Doubling(model)
    sums = distributed.Ranks(mpi, mpi).summing(list(model.parameters()))

    class Between(mg.Function):
        """Notes when backward passes between the layers."""

        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, dout):
            mpi.noted.append("between")
            return dout

    @mg.compile
    def step(x):
        first, last = model
        loss = last(Between.apply(first(x))).square().mean()
        loss.backward()
        return loss.detach()

    for _ in range(2):
        model.zero_grad()
        mpi.noted.clear()
        with sums:
            step(mg.ones(2, 3))
        last, first = {"1.weight", "1.bias"}, {"0.weight", "0.bias"}
        before, after = mpi.noted[:2], mpi.noted[3:]
        assert mpi.noted[2] == "between" and before[1] == last and before[0] < last
        assert last < after[0] < after[1] == first | last


class Machine:
    """A communicator whose ranks may run on these cores."""

    def __init__(self, *cores):
        self.rank, self.size, self.cores = 0, len(cores), cores

    def Split_type(self, _):
        return self

    def allgather(self, own):
        return list(self.cores)


def test_ranks_divide_the_cores_they_share(monkeypatch):
    for cores, threads in [([{0}, {1}], 1), ([{0, 1, 2, 3}, {4, 5, 6, 7}], 4), ([{0, 1, 2, 3}] * 2, 2), ([{0, 1, 2}] * 2, 1),
                           ([{0, 1}] * 4, 1)]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores[0], raising=False)
        ranks = distributed.Ranks(Machine(*cores), types.SimpleNamespace(COMM_TYPE_SHARED=None))
        assert ranks.default_threads() == threads


def test_batch_sizes_that_ranks_cannot_divide():
    ranks = types.SimpleNamespace(size=2)
    check_divisible(TrainingConfig(batch_size=2, final_batch_size=16), ranks)
    all_refused(lambda sizes: check_divisible(TrainingConfig(**sizes), ranks), [
        (sizes, f"{flag}, which 2 ranks cannot divide; make it a multiple of 2") for sizes, flag in (
            (dict(batch_size=9), "--batch-size is 9"), (dict(batch_size=2, final_batch_size=7), "--final-batch-size is 7"))], UsageError)


def test_ranks_that_differ(monkeypatch):
    def check(other):
        ranks = distributed.Ranks(types.SimpleNamespace(rank=0, size=2, allgather=lambda own: [own, other]), None)
        monkeypatch.setattr(ranks, "wait", lambda: None)
        check_ranks(ranks, {"version": 1})

    check({"version": "1"})
    all_refused(check, [
        ({"version": "2"}, "ranks differ: version is 1 on rank 0, but 2 on rank 1; use"),
        ({}, "ranks differ: version is 1 on rank 0, but absent on rank 1; use"),
        ({"version": "1", "--lr": "0.1"}, "ranks differ: --lr is absent on rank 0, but 0.1 on rank 1; use")], UsageError)


# ---- guardians ----

def guardian(job: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-I", "-S", ROOT / "minigrad/command/guardian.py", "1", job], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def rest(process: subprocess.Popen) -> bytes:
    """What a guardian prints when its rank ends; it stays a while to silence others, and is killed here."""
    with process:
        process.stdin.close()
        printed = process.stderr.read()
        process.kill()
    return printed


DIED = b"minigrad: error: rank 1 has died (killed, or out of memory?), which ends the run on all ranks; " \
       b"the last checkpoint is kept: continue with --resume\n"


def test_what_a_guardian_prints():
    for i, (pieces, printed) in enumerate([
        ([b"step 1\n", b"\0"], b"step 1\n"), ([b"a bar 1%\r", b"a bar 2%\r", b"\0"], b"a bar 1%\ra bar 2%\r"),
        ([b"step 1\n"], b"step 1\n" + DIED), ([], DIED), ([b"minigrad: err", b"or: no\n"], b"minigrad: error: no\n"),
        ([b"minigrad: compiling\n"], b"minigrad: compiling\n" + DIED), ([b"minimal\n\0"], b"minimal\n"),
        ([b"of ", b"minigrad: error: no\n", b"\0"], b"of minigrad: error: no\n"), ([b"no end\0"], b"no end"),
    ]):
        process = guardian(f"test-{os.getpid()}-{i}")
        for piece in pieces:
            process.stdin.write(piece)
            process.stdin.flush()
            time.sleep(0.02)
        assert rest(process) == printed, pieces


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each rank says its line")
def test_guardians_of_a_job_say_one_line():
    job = f"test-{os.getpid()}"
    first, second = guardian(job), guardian(job)
    first.stdin.write(b"minigrad: error: no\n")
    first.stdin.flush()
    assert first.stderr.readline() == b"minigrad: error: no\n"
    second.stdin.write(b"step 2\nminigrad: error: no\n")
    assert rest(second) == b"step 2\n"
    assert rest(guardian(f"of another {job}")) == DIED
    assert rest(first) == b""


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
    assert (code, ours(stderr)) == (0, []) and f"on {size} ranks" in stderr and stderr.count("step 4/") == 1
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


def left_over(pids: list[int]) -> list[int]:
    """Those still running after a while, as MPICH's mpiexec ends before its ranks."""
    deadline = time.monotonic() + SECONDS
    while (left := [pid for pid in pids if pathlib.Path(f"/proc/{pid}/exe").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.mark.skipif(sys.platform != "linux", reason="looks ranks up in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_or_interrupted_rank_stops_all(mpiexec, number, text_file):
    folder = pathlib.Path("run").absolute()
    process = train(mpiexec, 2, *TINY, "--text", text_file, "--steps", 10**6, "--eval-every", 5, "--out", folder)
    while not (folder / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(chance.uniform(0, 1))
    pids = ranks_of(process)
    assert len(pids) == 2
    os.kill(pids[1], number)
    code, stderr = finished(process)
    (line,) = ours(stderr)
    assert code != 0 and not left_over(pids)
    step = checkpoints.load(folder).step
    if number == signal.SIGKILL:
        assert line == DIED.decode().strip() or line == DIED.decode().strip().replace("rank 1", "rank 0")
    else:
        assert line == f"minigrad: stopped after step {step}; the checkpoint is saved: continue with --resume {folder}"
        assert metrics_of(folder)[-1]["step"] == step


FAILING = """
import sys
from models.train import Trainer
from minigrad.command import main
step = Trainer.train_step
def train_step(trainer):
    if trainer.step == 3 and trainer.ranks.rank == 1:
        {failure}
    return step(trainer)
Trainer.train_step = train_step
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("failure, words", [
    ("raise MemoryError", "error: out of memory"),
    ("next(trainer.model.parameters()).array[...] += 1", "error: ranks have different parameters at step 4"),
    ("next(trainer.model.parameters()).array[...] = float('nan')", "error: the loss became nan at step 4"),
], ids=["exception", "diverged", "nan"])
def test_a_failing_rank_stops_all(mpiexec, failure, words, text_file):
    flags = ["train", *TINY, "--text", text_file, "--steps", 10**6, "--eval-every", 2, "--out", pathlib.Path("run").absolute()]
    code, stderr = finished(started(mpiexec, (2, "-c", FAILING.format(failure=failure), *flags)))
    (line,) = ours(stderr)
    assert code == 1 and words in line and checkpoints.load("run").step == 2, stderr


@pytest.mark.parametrize("other, words", [
    (["--lr", 0.01], "error: ranks differ: --lr is 0.001 on rank 0, but 0.01 on rank 1;"),
    (["--lr", 0.001, "--hight", 3], "error: unrecognized arguments: --hight"),
], ids=["flags", "usage"])
def test_ranks_with_different_flags_stop(mpiexec, other, words):
    begin = ["-m", "minigrad", "train", *TINY, "--steps", 4, "--out", pathlib.Path("run").absolute()]
    code, stderr = finished(started(mpiexec, (1, *begin, "--lr", 0.001), (1, *begin, *other)))
    (line,) = ours(stderr)
    assert code != 0 and words in line and not os.path.exists("run")
