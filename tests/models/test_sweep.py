"""Sweeps: which runs a grid has, what is refused before anything runs, and that they go on whatever ended them."""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from models import checkpoint as checkpoints
from models import run as runs
from models.commands import sweep, sweep_run
from models.commands.grid import MOST_RUNS, SeveralValues, combinations, name_of
from models.commands.shared import UsageError
from models.run import read_metrics
from models.sweep_folder import FAILURE, PLAN, read_plan
from models.train import Trainer, TrainingError

ROOT = pathlib.Path(__file__).parents[2]
MICRO = ["--task", "copy", "--width", "8", "--layers", "1", "--heads", "2", "--batch-size", "4", "--eval-windows", "6",
         "--steps", "6", "--eval-every", "3"]
GRID = ["--lr", "1e-3,0.01", "--seed", "0,1"]
FOLDERS = ["lr=0.001,seed=0", "lr=0.001,seed=1", "lr=0.01,seed=0", "lr=0.01,seed=1"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Here:
    """Runs in this process, one after the other, in place of Processes."""

    def __init__(self, workers: int = 1, threads: int = 1):
        self.count = workers

    def submit(self, given: dict, folder: pathlib.Path) -> concurrent.futures.Future:
        future = concurrent.futures.Future()
        future.set_result(sweep_run.train_run(given, folder))
        return future

    def stop(self, at_once: bool = False) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(sweep, "Processes", Here)
    monkeypatch.setattr(runs, "draw", lambda trainer, folder: [])  # a second for each run


def metrics_of(folder: pathlib.Path) -> list[dict]:
    """Without what depends on the clock."""
    return [{name: value for name, value in row.items() if name not in ("tokens_per_second", "seconds")}
            for _, row in read_metrics(folder / runs.METRICS)]


def table_of(path: str) -> list[dict[str, str]]:
    """sweep.csv without times."""
    with open(path, encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if "seconds" not in name and "per_second" not in name}
                for row in csv.DictReader(file)]


# ------------------------------------------------------------------------------------------------ grids


def parsed(*arguments: str) -> dict:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    flags = SeveralValues(parser, without=["--out"])
    flags.add_argument("--lr", type=float)
    flags.add_argument("--final-lr", type=float)
    flags.add_argument("--seed", type=int)
    flags.add_argument("--preset", choices=["micro", "nano"])
    flags.add_argument("--out")
    flags.add_argument_group("model").add_argument("--bias", action=argparse.BooleanOptionalAction)
    return vars(parser.parse_args(arguments))


@pytest.mark.parametrize("arguments, grid", [
    (["--lr", "1e-3,0.1"], {"lr": [0.001, 0.1]}),
    (["--lr", " .5 ", "--seed=1,2"], {"lr": [0.5], "seed": [1, 2]}),
    (["--lr", "1", "--lr", "0.5,0.25"], {"lr": [1.0, 0.5, 0.25]}),
    (["--preset", "nano,micro", "--final-lr", "0"], {"preset": ["nano", "micro"], "final_lr": [0.0]}),
    (["--bias"], {"bias": [True]}), (["--no-bias"], {"bias": [False]}), (["--bias", "yes,no"], {"bias": [True, False]}),
    (["--bias", "--no-bias"], {"bias": [True, False]}), ([], {}),
])
def test_flags_take_several_values(arguments, grid):
    assert parsed(*arguments) == grid


@pytest.mark.parametrize("arguments, says", [
    (["--lr", "1,x"], "argument --lr: invalid float value: 'x'"), (["--lr", ""], "argument --lr: invalid float value: ''"),
    (["--lr", "1,"], "argument --lr: invalid float value: ''"), (["--seed", "1.5"], "invalid int value: '1.5'"),
    (["--preset", "micro,giant"], "argument --preset: invalid choice: 'giant' (choose from micro, nano)"),
    (["--bias", "maybe"], "argument --bias: invalid choice: 'maybe' (choose from yes, no)"),
    (["--out", "x"], "unrecognized arguments: --out x"),
])
def test_values_that_are_none(capsys, arguments, says):
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert says in capsys.readouterr().err


def test_all_combinations_seed_by_seed():
    grid = {"seed": [0, 1], "lr": [0.1, 0.2], "steps": [9], "bias": [True, False]}
    runs = combinations(grid)
    assert [name_of(run, grid) for run in runs] == [
        f"lr={lr},bias={bias},seed={seed}" for seed in (0, 1) for lr in (0.1, 0.2) for bias in (True, False)]
    assert all(run["steps"] == 9 for run in runs)
    assert name_of({"lr": 0.1, "seed": 0}, {"lr": [0.1], "seed": [0]}) == "seed=0"
    assert combinations({}) == [{}] and name_of({}, {}) == "run"
    assert name_of({"text": "../a b/c.txt"}, {"text": ["../a b/c.txt", "d"]}) == "text=.._a_b_c.txt"


@pytest.mark.parametrize("grid, says", [
    ({"final_lr": [0.1, 0.2, 0.1]}, "--final-lr has 0.1 twice; give each value once"),
    ({"lr": list(range(40)), "seed": list(range(26)), "steps": [1]},
     f"this grid has 1,040 runs (40 of --lr x 26 of --seed), and a sweep at most {MOST_RUNS:,}"),
])
def test_grids_that_make_no_sense(grid, says):
    with pytest.raises(UsageError) as caught:
        combinations(grid)
    assert says in str(caught.value)


# ------------------------------------------------------------------------------------------------ what is refused


def one_line(code_and_output, says: str, code: int = 2) -> None:
    came, out, err = code_and_output
    said = [line for line in err.splitlines() if "kernels" not in line]  # that are compiled if no test has done so
    assert (came, out, len(said)) == (code, "", 1), err
    assert said[0].startswith("minigrad: error: ") and says in said[0]


@pytest.mark.parametrize("arguments, says", [
    (["--layer", "1,2"], "unrecognized arguments: --layer 1,2 (did you mean --layers?); see `minigrad sweep --help`"),
    (["--resume", "x"], "unrecognized arguments: --resume x"),
    (["--lr", "1e-3,2"], "lr=2.0: lr must be more than 0 and at most 1, got 2.0"),
    (["--heads", "3", "--seed", "0,1"], "heads=3,seed=0: heads must divide width, got heads 3 and width 8"),
    (["--seed", "0,-1"], "seed=-1: seed must be a whole number from 0"),
    (["--seed", "1,2,1"], "--seed has 1 twice"),
    (["--optimizer", "adamw,muon", "--muon-lr", "0.01,0.02"], "optimizer=adamw,muon-lr=0.01: --muon-lr makes no sense with"),
    (["--seed", ""], "argument --seed: invalid int value: ''"),
    (["--model", "causal,encoder"], "model=encoder: task 'copy' makes a sequence"),
    (["--text", "words.txt"], "--text makes no sense with --task copy"),
    (["--init-from", "nowhere,elsewhere"], "init-from=nowhere: nowhere does not exist"),
    (["--workers", "0"], "--workers must be from 1"),
    (["--workers", "99999"], "--workers must be from 1"),
    (["--threads", "0"], "--threads: expected a number of threads from 1"),
    (["--out", ""], "--out is empty"),
    (["--out", "full"], "full holds something else than a sweep; choose another --out"),
    (["--out", "full/file"], "cannot write to full/file"),
])
def test_bad_input(run, arguments, says):
    pathlib.Path("full").mkdir()
    pathlib.Path("full/file").write_text("precious")
    arguments = arguments if "--out" in arguments else [*arguments, "--out", "new"]
    one_line(run("sweep", *MICRO, *arguments), says)
    assert pathlib.Path("full/file").read_text() == "precious"
    assert not [path for path in pathlib.Path().glob("new/*") if path.name != PLAN]


def test_out_is_needed(run):
    one_line(run("sweep", *MICRO), "the following arguments are required: --out")


@pytest.mark.parametrize("content", [
    "", "{}", "[1]", '{"format": "minigrad sweep 2", "runs": {}}', '{"format": "minigrad sweep 1"}', '{"format": "minigrad sweep 1", "runs": [1]}',
    '{"format": "minigrad sweep 1", "runs": {"../elsewhere": {}}}', '{"format": "minigrad sweep 1", "runs": {"..": {}}}',
    '{"format": "minigrad sweep 1", "runs": {"a": 5}}', "[" * 100_000,
])
def test_a_damaged_plan(run, content):
    pathlib.Path("old").mkdir()
    pathlib.Path("old", PLAN).write_text(content)
    for command in (["sweep", *MICRO, "--out", "old"], ["compare", "old"]):
        one_line(run(*command), f"old/{PLAN} is damaged", code=1)


# ------------------------------------------------------------------------------------------------ runs


def test_a_sweep_is_its_runs_one_by_one(run, here):
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "all")
    assert code == 0 and sorted(read_plan("all")) == FOLDERS
    assert "all: 4 runs, " in err and "4 of 4 runs, best " in err and "lr=0.01,seed=1: validation loss " in err
    assert set(os.listdir("all")) == {*FOLDERS, PLAN, sweep.TABLE, sweep.PICTURE}
    for name in FOLDERS:
        lr, seed = (part.split("=")[1] for part in name.split(","))
        assert run("train", *MICRO, "--lr", lr, "--seed", seed, "--out", name)[0] == 0
        assert metrics_of(pathlib.Path("all", name)) == metrics_of(pathlib.Path(name))
        assert pathlib.Path(name, runs.SAMPLE).read_text() in pathlib.Path("all", name, sweep_run.LOG).read_text()
    code, _, _ = run("compare", *FOLDERS, "--csv", "alone.csv")
    assert code == 0 and table_of("alone.csv") == table_of(f"all/{sweep.TABLE}")
    assert out.splitlines()[0].split()[:2] == ["lr", "runs"]
    assert run("sample", "--checkpoint", f"all/{FOLDERS[0]}", "--prompt", "abc")[0] == 0


def test_what_is_finished_is_not_done_again_and_values_can_be_added(run, here, monkeypatch):
    pathlib.Path("all").mkdir()
    pathlib.Path("all/.sweep.json-123.tmp").write_text("")  # what a kill may leave
    assert run("sweep", *MICRO, "--seed", "0,1", "--out", "all")[0] == 0
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path("all").glob("seed=*/*")}
    trained = []
    train_run = sweep_run.train_run
    monkeypatch.setattr(sweep_run, "train_run", lambda given, folder: trained.append(folder.name) or train_run(given, folder))
    assert run("sweep", *MICRO, "--seed", "0,1", "--out", "all")[0] == 0 and trained == []
    code, _, err = run("sweep", *MICRO, "--seed", "0,2,1", "--lr", "2e-3,0.01", "--out", "all")  # 2e-3 is the default
    assert code == 0 and "all: 6 runs, 2 of them finished" in err
    assert trained == ["lr=0.01,seed=0", "lr=0.002,seed=2", "lr=0.01,seed=2", "lr=0.01,seed=1"]
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert {row["lr"]: row["runs"] for row in table_of(f"all/{sweep.TABLE}")} == {"0.002": "3", "0.01": "3"}


def test_two_texts_of_the_same_content_are_two_runs(run, here, text_file):
    for name in ("one.txt", "other.txt"):
        pathlib.Path(name).write_text(text_file.read_text())
    arguments = [*MICRO[2:], "--context", "8", "--text", "one.txt,other.txt", "--out", "all"]
    assert run("sweep", *arguments)[0] == 0
    assert [settings["recipe"] for settings in read_plan("all").values()] == ["muon"] * 2
    folders = sorted(path.name for path in pathlib.Path("all").iterdir() if path.is_dir())
    code, _, err = run("sweep", *arguments)
    assert code == 0 and "all: 2 runs, 2 of them finished" in err
    assert folders == sorted(path.name for path in pathlib.Path("all").iterdir() if path.is_dir()) and len(folders) == 2


def test_other_flags_in_the_same_folder(run, here, text_file):
    assert run("sweep", *MICRO, *GRID, "--out", "all")[0] == 0
    before = pathlib.Path("all", PLAN).read_bytes()
    for flags, says in (
        ([*MICRO[:2], *MICRO[4:], *GRID], "all/lr=0.001,seed=0 has width 8, which this grid lacks; add it to --width, or choose"),
        ([*MICRO[2:], "--task", "sort", *GRID], "has task copy, which this grid lacks; add it to --task"),
        ([*MICRO, "--lr", "0.01", "--seed", "0,1"], "has lr 0.001, which this grid lacks; add it to --lr"),
        ([*MICRO, "--lr", "1e-3,0.01", "--seed", "1"], "has seed 0, which this grid lacks; add it to --seed"),
    ):
        one_line(run("sweep", *flags, "--out", "all"), says)
        assert pathlib.Path("all", PLAN).read_bytes() == before
    one, other = pathlib.Path("one.txt"), pathlib.Path("other.txt")
    one.write_text(text_file.read_text())
    other.write_text(text_file.read_text())
    text = [*MICRO[2:], "--context", "8", "--out", "texts"]
    assert run("sweep", "--text", "one.txt", *text)[0] == run("sweep", "--text", "other.txt", *text)[0] == 0
    one.write_text("abcdefghij " * 99)
    one_line(run("sweep", "--text", "one.txt", *text), "texts/run is of another text; give that one, too")


def test_a_run_that_fails_is_a_row_and_the_others_go_on(run, here, monkeypatch):
    train_step = Trainer.train_step

    def diverging(trainer):
        if trainer.config.lr == 0.01 and trainer.step == 4:
            if trainer.config.seed:
                raise MemoryError
            raise TrainingError("the loss became nan\nat step 5")
        return train_step(trainer)

    monkeypatch.setattr(Trainer, "train_step", diverging)
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "all")
    assert code == 1 and err.endswith("minigrad: error: 2 of the runs have no result; the lines below the table say why\n")
    assert "lr=0.01,seed=0 failed: the loss became nan at step 5" in err
    assert "all/lr=0.01,seed=0: failed: the loss became nan at step 5\n" in out
    assert "all/lr=0.01,seed=1: failed: out of memory" in out
    good, bad = table_of(f"all/{sweep.TABLE}")
    assert (good["lr"], good["runs"], good["without_result"]) == ("0.001", "2", "0")
    assert (bad["lr"], bad["runs"], bad["val_loss_median"], bad["remarks"]) == ("0.01", "0", "", "2 of 2 without result")

    monkeypatch.setattr(Trainer, "train_step", train_step)  # it was the machine's fault
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "all")
    assert code == 0 and "failed" not in out + err and not list(pathlib.Path("all").glob(f"*/{FAILURE}"))


def test_all_runs_fail(run, here, monkeypatch):
    def fail(trainer):
        raise TrainingError("the loss became nan")

    monkeypatch.setattr(Trainer, "train_step", fail)
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "all")
    assert code == 1 and out.count("failed: the loss became nan") == 4 and not pathlib.Path("all", sweep.PICTURE).exists()
    assert "4 of the runs have no result" in err


def test_a_damaged_checkpoint_is_a_failure(run, here):
    assert run("sweep", *MICRO, *GRID, "--out", "all")[0] == 0
    folder = pathlib.Path("all", FOLDERS[0])
    (folder / checkpoints.NAME).write_bytes(b"damaged")
    (folder / runs.SAMPLE).unlink()
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "all")
    assert code == 1 and f"{folder}: all/{FOLDERS[0]}/checkpoint.npz is no .npz file, or only a part of one" in out
    assert "3 of them finished" in err


def test_runs_from_other_parameters_are_told_apart(run, here):
    for seed in ("7", "8"):
        assert run("train", *MICRO, "--seed", seed, "--out", seed)[0] == 0
    flags = [*MICRO[:2], *MICRO[8:], "--init-from", "7,8", "--seed", "0,1"]
    code, out, _ = run("sweep", *flags, "--out", "all")
    assert code == 0 and [row["runs"] for row in table_of(f"all/{sweep.TABLE}")] == ["2", "2"]
    assert "init_from" in out.splitlines()[0]


@pytest.mark.parametrize("flags, cores, memory, shared", [
    ([], 8, 1e12, (4, 2)), ([], 2, 1e12, (2, 1)), ([], 3, 1e12, (3, 1)), ([], 8, 1e3, (1, 8)),
    (["--threads", "4"], 8, 1e12, (2, 4)), (["--threads", "4", "--workers", "3"], 8, 1e12, (3, 4)), (["--workers", "1"], 8, 1e12, (1, 8)), (["--workers", "3"], 8, 1e12, (3, 2)),
    (["--workers", "9"], 2, 1e12, (9, 1)),
])
def test_cores_are_shared(run, monkeypatch, flags, cores, memory, shared):
    asked = []

    def stop_here(workers, threads):
        asked.append((workers, threads))
        raise UsageError("enough")

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setattr("models.commands.train.memory_size", lambda: memory)
    monkeypatch.setattr("models.commands.train.check_memory", lambda config, training: None)
    monkeypatch.setattr("models.commands.shared.set_threads", lambda options: None)  # there may be fewer cores
    monkeypatch.setattr(sweep, "Processes", stop_here)
    run("sweep", *MICRO, *GRID, *flags, "--out", "all")
    assert asked == [shared]


# ------------------------------------------------------------------------------------------------ kills


LONG = [*MICRO[:-4], "--steps", "200", "--eval-every", "20"]


def start(*flags: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "minigrad", "sweep", *LONG, *GRID, "--workers", "2", "--threads", "1", *flags],
                            env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, start_new_session=True)


def wait_until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


def steps_of(folder: str) -> dict[pathlib.Path, int]:
    """How many steps each run has done."""
    return {path.parent: path.read_bytes().count(b"\n") for path in pathlib.Path(folder).glob(f"*/{runs.METRICS}")}


def lines_of(folder: str) -> int:
    return sum(steps_of(folder).values())


def children(process: int) -> list[int]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(path.parent.name))
        except OSError:  # it has ended
            pass
    return found


def has_ended(process: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_killed_sweeps_end_as_if_they_had_not_been(run, here, capsys):
    """A worker, then the parent, then all at once by Ctrl-C, which saves."""
    assert run("sweep", *LONG, *GRID, "--out", "whole")[0] == 0
    capsys.readouterr()

    process = start("--out", "parts")
    wait_until(lambda: lines_of("parts") > 50)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    done = lines_of("parts")
    wait_until(lambda: lines_of("parts") > done + 50)
    assert not list(pathlib.Path("parts").glob(f"*/{FAILURE}"))
    workers = children(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: all(map(has_ended, workers)), seconds=10)

    before = steps_of("parts")
    process = start("--out", "parts")
    wait_until(lambda: any(steps > before.get(run, 0) + 5 for run, steps in steps_of("parts").items()))
    running = [run for run, steps in steps_of("parts").items() if steps > before.get(run, 0)]
    one_line(run("sweep", *LONG, *GRID, "--out", "parts"), "another process is training in parts", code=1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    assert "of 4 runs finished; the others are saved: go on with the same command" in err and "Traceback" not in err
    assert all(checkpoints.load(run).step == steps_of("parts")[run] for run in running)

    process = start("--out", "parts")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    for name in FOLDERS:
        assert metrics_of(pathlib.Path("parts", name)) == metrics_of(pathlib.Path("whole", name))
        one, other = (checkpoints.load(f"{folder}/{name}") for folder in ("parts", "whole"))
        assert all((array == other.model[key]).all() for key, array in one.model.items())
        assert not pathlib.Path("parts", name, FAILURE).exists()
    assert table_of(f"parts/{sweep.TABLE}") == table_of(f"whole/{sweep.TABLE}")


def test_a_sweep_on_ranks_is_that_of_processes(run, here, mpiexec):
    lrs = "--lr", "1e-3,0.01", "--seed", "0"
    assert run("sweep", *MICRO, *lrs, "--out", "alone")[0] == 0
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def on_ranks(*flags: str) -> subprocess.CompletedProcess:
        return subprocess.run([mpiexec, "-n", "3", *oversubscribed, sys.executable, "-m", "minigrad", "sweep", *MICRO, *lrs, *flags],
                              env=environment, check=False, capture_output=True, text=True, timeout=120)

    version = subprocess.run([mpiexec, "--version"], check=False, capture_output=True, text=True).stdout
    oversubscribed = ["--oversubscribe"] if "Open MPI" in version or "prte" in version.lower() else []
    done = on_ranks("--out", "ranks")
    assert done.returncode == 0 and "ranks: 2 runs, 2 at once" in done.stderr and done.stdout.startswith("lr "), done.stderr
    for name in FOLDERS[::2]:
        assert metrics_of(pathlib.Path("ranks", name)) == metrics_of(pathlib.Path("alone", name))
    assert table_of(f"ranks/{sweep.TABLE}") == table_of(f"alone/{sweep.TABLE}")
    refused = on_ranks("--out", "ranks", "--workers", "2")
    assert refused.returncode != 0 and "--workers makes no sense under mpiexec" in refused.stderr


def test_a_run_whose_processes_die_is_given_up(monkeypatch, tmp_path):
    started = []

    def dying(log):
        started.append(1)
        return subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    monkeypatch.setattr(sweep_run, "start_process", dying)
    processes = sweep_run.Processes(1, 1)
    reason = processes.submit({"task": "copy"}, tmp_path / "run").result()
    processes.close()
    assert len(started) == sweep_run.MOST_DEATHS and reason.startswith("its process ended by signal 9, 3 times; is there")
    assert (tmp_path / "run" / FAILURE).read_text() == reason + "\n"


def test_processes_that_are_about_to_end_are_waited_for(monkeypatch, tmp_path):
    released = []

    def hold():
        with runs.locked(tmp_path):
            is_held.set()
            time.sleep(0.5)
            released.append(1)

    is_held, holder = threading.Event(), threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    sweep_run.wait_for(tmp_path)
    assert released
    holder.join()
    monkeypatch.setattr(sweep_run, "PATIENCE", 0.0)
    with runs.locked(tmp_path):
        assert "another process is training in" in sweep_run.train_run({"task": "copy"}, tmp_path)


def test_a_folder_of_a_run_that_cannot_be_made(tmp_path):
    (tmp_path / "run").write_text("a file")
    processes = sweep_run.Processes(1, 1)
    assert "File exists" in processes.submit({"task": "copy"}, tmp_path / "run").result()
    processes.close()
