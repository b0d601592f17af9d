"""`minigrad sweep`: grids, bad input, runs and their table, failures, cores, and sweeps that are killed."""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from models import checkpoint as checkpoints
from models import run as runs
from models import task
from models.commands import sweep, sweep_run
from models.commands.grid import MOST_RUNS, SeveralValues, combinations, name_of
from models.commands.shared import UsageError
from models.sweep_folder import FAILURE, PLAN, read_plan
from models.train import Trainer, TrainingError
from ranks import ROOT, children, has_ended, started
from refusals import all_refused, one_line
from small_runs import SIZES, TEXT, assert_same_runs

MICRO = "--task", "copy", *SIZES, "--batch-size", 4, "--eval-windows", 6, "--steps", 6, "--eval-every", 3
GRID = "--lr", "1e-3,0.01", "--seed", "0,1"
FOLDERS = ["lr=0.001,seed=0", "lr=0.001,seed=1", "lr=0.01,seed=0", "lr=0.01,seed=1"]


class Here:
    """In place of Processes: runs in this process, one by one; after `until_interrupt` of them Ctrl-C is pressed."""

    until_interrupt = 1_000

    def __init__(self, workers: int = 1, threads: int = 1):
        self.count = workers

    def submit(self, given: dict, folder: pathlib.Path) -> concurrent.futures.Future:
        future = concurrent.futures.Future()
        Here.until_interrupt -= 1
        if Here.until_interrupt < 0:
            future.set_exception(KeyboardInterrupt())
        else:
            future.set_result(sweep_run.train_run(given, folder))
        return future

    def stop(self, at_once: bool = False) -> None:
        pass

    close = stop


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(sweep, "Processes", Here)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The folder of a sweep of GRID, once `swept` has made it."""
    return tmp_path_factory.mktemp("sweep") / "whole"


@pytest.fixture
def swept(run, here, whole):
    """A copy of that sweep, as `all`."""
    if not whole.exists():
        code, out, err = run("sweep", *MICRO, *GRID, "--out", "whole")
        assert code == 0 and out.splitlines()[0].split()[:2] == ["lr", "runs"]
        assert "whole: 4 runs, " in err and "4 of 4 runs, best " in err and "lr=0.01,seed=1: validation loss " in err
        shutil.move("whole", whole)
    shutil.copytree(whole, "all")
    return pathlib.Path("all")


def test_what_runs_wait_for_before_their_first_step_is_said_once(tmp_path, capsys):
    run, other = (sweep.Planned({}, {"steps": 2}, 0, tmp_path / name) for name in ("a", "b"))
    progress = sweep.SweepProgress([run, other], [run, other])
    shown = []
    for log, metrics in (("", ""), ("runs/a: 26,784 parameters\nminigrad: compiling kernels ...\n", ""),
                         ("minigrad: compiling kernels ...\nminigrad: another\n", "{}\n")):
        for each in (run, other):
            each.folder.mkdir(exist_ok=True)
            (each.folder / sweep_run.LOG).write_text(log)
            (each.folder / runs.METRICS).write_text(metrics)
        progress.show([run, other], {})
        progress.show([run, other], {})
        shown.append(capsys.readouterr().err)
    assert shown == ["", "minigrad: compiling kernels ...\n", ""]


def table_of(path) -> list[dict[str, str]]:
    """The rows of sweep.csv without times."""
    with open(path, encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if "seconds" not in name and "per_second" not in name}
                for row in csv.DictReader(file)]


# ---- grids ----

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


def test_flags_take_several_values(capsys):
    for arguments, grid in [
        ("--lr 1e-3,0.1", {"lr": [0.001, 0.1]}), ("--lr .5 --seed=1,2", {"lr": [0.5], "seed": [1, 2]}),
        ("--lr 1 --lr 0.5,0.25", {"lr": [1.0, 0.5, 0.25]}),
        ("--preset nano,micro --final-lr 0", {"preset": ["nano", "micro"], "final_lr": [0.0]}),
        ("--bias", {"bias": [True]}), ("--no-bias", {"bias": [False]}), ("--bias yes,no", {"bias": [True, False]}),
        ("--bias --no-bias", {"bias": [True, False]}), ("", {}),
    ]:
        assert parsed(*arguments.split()) == grid
    for arguments, says in [
        (["--lr", "1,x"], "argument --lr: invalid float value: 'x'"), (["--lr", ""], "argument --lr: invalid float value: ''"),
        (["--lr", "1,"], "argument --lr: invalid float value: ''"), (["--seed", "1.5"], "invalid int value: '1.5'"),
        (["--preset", "micro,giant"], "argument --preset: invalid choice: 'giant' (choose from micro, nano)"),
        (["--bias", "maybe"], "argument --bias: invalid choice: 'maybe' (choose from yes, no)"),
        (["--out", "x"], "unrecognized arguments: --out x"),
    ]:
        with pytest.raises(SystemExit):
            parsed(*arguments)
        assert says in capsys.readouterr().err


def test_combinations_are_ordered_by_seed():
    grid = {"seed": [0, 1], "lr": [0.1, 0.2], "steps": [9], "bias": [True, False]}
    found = combinations(grid)
    assert [name_of(run, grid) for run in found] == [
        f"lr={lr},bias={bias},seed={seed}" for seed in (0, 1) for lr in (0.1, 0.2) for bias in (True, False)]
    assert all(run["steps"] == 9 for run in found)
    assert name_of({"lr": 0.1, "seed": 0}, {"lr": [0.1], "seed": [0]}) == "seed=0"
    assert combinations({}) == [{}] and name_of({}, {}) == "run"
    assert name_of({"text": "../a b/c.txt"}, {"text": ["../a b/c.txt", "d"]}) == "text=.._a_b_c.txt"
    all_refused(combinations, [
        ({"final_lr": [0.1, 0.2, 0.1]}, "--final-lr has 0.1 twice; give each value once"),
        ({"lr": list(range(40)), "seed": list(range(26)), "steps": [1]},
         f"this grid has 1,040 runs (40 of --lr x 26 of --seed), but a sweep takes at most {MOST_RUNS:,}")], UsageError)


# ---- bad input ----

def test_bad_input(refused):
    pathlib.Path("full").mkdir()
    pathlib.Path("full/file").write_text("precious")
    refused([
        (["--layer", "1,2"], "unrecognized arguments: --layer 1,2 (did you mean --layers?); see `minigrad sweep --help`"),
        (["--resume", "x"], "unrecognized arguments: --resume x"),
        (["--lr", "1e-3,2"], "lr=2.0: lr must be more than 0 and at most 1, got 2.0"),
        (["--heads", "3", "--seed", "0,1"], "heads=3,seed=0: heads must divide width, got heads 3 and width 8"),
        (["--seed", "0,-1"], "seed=-1: seed must be a whole number from 0"),
        (["--seed", "1,2,1"], "--seed has 1 twice"),
        (["--optimizer", "adamw,muon", "--muon-lr", "0.1,0.2"], "optimizer=adamw,muon-lr=0.1: --muon-lr makes no sense with"),
        (["--seed", ""], "argument --seed: invalid int value: ''"),
        (["--model", "causal,encoder"], "model=encoder: task 'copy' outputs a sequence"),
        (["--text", "words.txt"], "--text makes no sense with --task copy"),
        (["--init-from", "nowhere,elsewhere"], "init-from=nowhere: nowhere does not exist"),
        (["--workers", "0"], "--workers must be from 1"), (["--workers", "99999"], "--workers must be from 1"),
        (["--threads", "0"], "--threads: expected a number of threads from 1"),
        (["--out", ""], "--out is empty"),
        (["--out", "full"], "full exists and is not a sweep; choose another --out"),
        (["--out", "full/file"], "cannot write to full/file"),
    ], "sweep", *MICRO, "--out", "new")
    refused([([], "the following arguments are required: --out")], "sweep")
    assert pathlib.Path("full/file").read_text() == "precious"
    assert not [path for path in pathlib.Path().glob("new/*") if path.name != PLAN]


def test_a_damaged_plan(run):
    pathlib.Path("old").mkdir()
    start = '{"format": "minigrad sweep 1"'
    for content in ["", "{}", "[1]", '{"format": "minigrad sweep 2", "runs": {}}', f"{start}}}", f'{start}, "runs": [1]}}',
                    f'{start}, "runs": {{"../elsewhere": {{}}}}}}', f'{start}, "runs": {{"..": {{}}}}}}',
                    f'{start}, "runs": {{"a": 5}}}}', "[" * 100_000]:
        pathlib.Path("old", PLAN).write_text(content)
        for command in (["sweep", *MICRO, "--out", "old"], ["compare", "old"]):
            one_line(run(*command), f"old/{PLAN} is damaged", codes=(1,))


def test_other_flags_in_the_same_folder(run, refused, swept, text_file):
    before, (task, name, *sizes) = (swept / PLAN).read_bytes(), MICRO
    refused([
        ([task, name, *sizes[:4], *sizes[6:], *GRID],
         "all/lr=0.001,seed=0 has width 8, which this grid lacks; add it to --width, or choose"),
        ([task, "sort", *sizes, *GRID], "has task copy, which this grid lacks; add it to --task"),
        ([*MICRO, "--lr", "0.01", "--seed", "0,1"], "has lr 0.001, which this grid lacks; add it to --lr"),
        ([*MICRO, "--lr", "1e-3,0.01", "--seed", "1"], "has seed 0, which this grid lacks; add it to --seed"),
    ], "sweep", "--out", "all")
    assert (swept / PLAN).read_bytes() == before
    for text in ("one.txt", "other.txt"):
        pathlib.Path(text).write_text(text_file.read_text())
        assert run("sweep", "--text", text, *TEXT, "--out", "texts")[0] == 0
    pathlib.Path("one.txt").write_text("abcdefghij " * 99)
    refused([(["--text", "one.txt"], "texts/run has another text; give that one, too")], "sweep", *TEXT, "--out", "texts")


# ---- runs ----

def test_a_sweep_is_the_same_runs_one_by_one(run, swept):
    assert sorted(read_plan("all")) == FOLDERS and set(os.listdir("all")) == {*FOLDERS, PLAN, sweep.TABLE, sweep.PICTURE}
    for name in FOLDERS:
        lr, seed = (part.split("=")[1] for part in name.split(","))
        assert run("train", *MICRO, "--lr", lr, "--seed", seed, "--out", name)[0] == 0
        assert_same_runs(swept / name, name)
        assert pathlib.Path(name, runs.SAMPLE).read_text() in (swept / name / sweep_run.LOG).read_text()
    assert run("compare", *FOLDERS, "--csv", "alone.csv")[0] == 0 and table_of("alone.csv") == table_of(f"all/{sweep.TABLE}")
    assert run("sample", "--checkpoint", f"all/{FOLDERS[0]}", "--prompt", "abc")[0] == 0


def test_finished_runs_are_kept_and_values_can_be_added(run, here, monkeypatch):
    pathlib.Path("all").mkdir()
    pathlib.Path("all/.sweep.json-123.tmp").write_text("")  # left by a kill
    assert run("sweep", *MICRO, "--seed", "0,1", "--out", "all")[0] == 0
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path("all").glob("seed=*/*")}
    trained, train_run = [], sweep_run.train_run
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
    arguments = *TEXT, "--text", "one.txt,other.txt", "--out", "all"
    assert run("sweep", *arguments)[0] == 0
    assert [settings["recipe"] for settings in read_plan("all").values()] == ["nanogpt"] * 2
    folders = sorted(path.name for path in pathlib.Path("all").iterdir() if path.is_dir())
    code, _, err = run("sweep", *arguments)
    assert code == 0 and "all: 2 runs, 2 of them finished" in err
    assert folders == sorted(path.name for path in pathlib.Path("all").iterdir() if path.is_dir()) and len(folders) == 2


def test_runs_that_fail_are_rows_and_are_retried(run, swept, monkeypatch):
    train_step = Trainer.train_step

    def diverging(trainer):
        if trainer.config.lr == 0.01 and trainer.step == 4:
            if trainer.config.seed:
                raise MemoryError
            raise TrainingError("the loss became nan\nat step 5")
        return train_step(trainer)

    monkeypatch.setattr(Trainer, "train_step", diverging)
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "parts")
    assert code == 1 and err.endswith("minigrad: error: 2 of the runs have no result; see the lines below the table\n")
    assert "lr=0.01,seed=0 failed: the loss became nan at step 5" in err
    assert "parts/lr=0.01,seed=0: failed: the loss became nan at step 5\n" in out
    assert "parts/lr=0.01,seed=1: failed: out of memory" in out
    good, bad = table_of(f"parts/{sweep.TABLE}")
    assert (good["lr"], good["runs"], good["without_result"]) == ("0.001", "2", "0")
    assert (bad["lr"], bad["runs"], bad["val_loss_median"], bad["remarks"]) == ("0.01", "0", "", "2 of 2 without result")

    monkeypatch.setattr(Trainer, "train_step", train_step)  # the machine has been repaired
    monkeypatch.setattr(Here, "until_interrupt", 1)
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "parts")
    assert (code, out) == (130, "") and err.endswith("saving the running models; Ctrl-C again kills them\nminigrad: stopped with 3 of 4 "
                                                     "runs finished; the others are saved: resume with the same command\n")
    monkeypatch.setattr(Here, "until_interrupt", 9)
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "parts")
    assert code == 0 and "failed" not in out + err and not list(pathlib.Path("parts").glob(f"*/{FAILURE}"))
    assert_same_sweeps("parts", swept)


def assert_same_sweeps(one, other) -> None:
    for name in FOLDERS:
        assert_same_runs(pathlib.Path(one, name), pathlib.Path(other, name))
    assert table_of(f"{one}/{sweep.TABLE}") == table_of(f"{other}/{sweep.TABLE}")


def test_a_damaged_checkpoint_and_a_sweep_whose_runs_all_fail(run, swept, monkeypatch):
    folder = swept / FOLDERS[0]
    (folder / checkpoints.NAME).write_bytes(b"damaged")
    (folder / runs.SAMPLE).unlink()
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "all")
    assert code == 1 and f"{folder}: all/{FOLDERS[0]}/checkpoint.npz is not an .npz file, or only part of one" in out
    assert "3 of them finished" in err
    monkeypatch.setattr(Trainer, "train_step", lambda trainer: (_ for _ in ()).throw(TrainingError("the loss became nan")))
    code, out, err = run("sweep", *MICRO, *GRID, "--out", "failing")
    assert code == 1 and out.count("failed: the loss became nan") == 4 and not pathlib.Path("failing", sweep.PICTURE).exists()
    assert "4 of the runs have no result" in err


def test_init_from_is_a_column(run, swept):
    for name, seed in (("7", 0), ("8", 1)):
        os.rename(swept / FOLDERS[seed], name)
    flags = *MICRO[:2], *MICRO[8:], "--init-from", "7,8", "--seed", "0,1"
    code, out, _ = run("sweep", *flags, "--out", "new")
    assert code == 0 and [row["runs"] for row in table_of(f"new/{sweep.TABLE}")] == ["2", "2"]
    assert "init_from" in out.splitlines()[0]


def test_cores_are_shared(run, monkeypatch):
    asked = []

    def stop_here(workers, threads):
        asked.append((workers, threads))
        raise UsageError("enough")

    monkeypatch.setattr("models.commands.train.check_memory", lambda config, training: None)
    monkeypatch.setattr("minigrad.set_num_threads", lambda count: None)  # there may be fewer cores
    monkeypatch.setattr(sweep, "Processes", stop_here)
    for flags, cores, memory, shared in [
        ([], 8, 1e12, (4, 2)), ([], 2, 1e12, (2, 1)), ([], 3, 1e12, (3, 1)), ([], 8, 1e3, (1, 8)),
        (["--threads", "4"], 8, 1e12, (2, 4)), (["--threads", "4", "--workers", "3"], 8, 1e12, (3, 4)),
        (["--workers", "1"], 8, 1e12, (1, 8)), (["--workers", "3"], 8, 1e12, (3, 2)), (["--workers", "9"], 2, 1e12, (9, 1)),
    ]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: set(range(cores)))
        monkeypatch.setattr("models.commands.train.memory_size", lambda memory=memory: memory)
        run("sweep", *MICRO, *GRID, *flags, "--out", "all")
        assert asked.pop() == shared, (flags, cores, memory)


# ---- processes and kills ----

SECONDS = 300  # enough for a busy machine


def wait_until(condition) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


def steps_of(folder: str) -> dict[pathlib.Path, int]:
    """The number of steps of each run."""
    return {path.parent: path.read_bytes().count(b"\n") for path in pathlib.Path(folder).glob(f"*/{runs.METRICS}")}


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_a_killed_sweep_ends_like_an_undisturbed_one(run, here, monkeypatch):
    """A worker is killed, then the parent, then Ctrl-C stops all of them and saves."""
    monkeypatch.setattr(task, "TEST_EXAMPLES", 200)  # as in other processes
    flags = *MICRO[:-4], "--steps", 120, "--eval-every", 40, *GRID
    assert run("sweep", *flags, "--out", "whole")[0] == 0

    def start() -> subprocess.Popen:
        command = [sys.executable, "-m", "minigrad", "sweep", *map(str, flags), "--workers", "2", "--threads", "1", "--out", "parts"]
        return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True, start_new_session=True)

    def lines() -> int:
        return sum(steps_of("parts").values())

    process = start()
    wait_until(lambda: lines() > 50)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    done = lines()
    wait_until(lambda: lines() > done + 50)
    assert not list(pathlib.Path("parts").glob(f"*/{FAILURE}"))
    workers = children(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: all(map(has_ended, workers)))

    before, process = steps_of("parts"), start()
    wait_until(lambda: any(steps > before.get(run, 0) + 5 for run, steps in steps_of("parts").items()))
    running = [run for run, steps in steps_of("parts").items() if steps > before.get(run, 0)]
    one_line(run("sweep", *flags, "--out", "parts"), "another process is training in parts", codes=(1,))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and out == ""
    assert "of 4 runs finished; the others are saved: resume with the same command" in err and "Traceback" not in err
    assert all(checkpoints.load(run).step == steps_of("parts")[run] for run in running)

    assert run("sweep", *flags, "--out", "parts")[0] == 0 and not list(pathlib.Path("parts").glob(f"*/{FAILURE}"))
    assert_same_sweeps("parts", "whole")


def test_a_sweep_on_ranks_is_the_same_as_one_in_processes(swept, mpiexec):
    def on_ranks(*flags) -> tuple[int, str, str]:
        process = started(mpiexec, (3, "-m", "minigrad", "sweep", *MICRO, *GRID, *flags, "--out", pathlib.Path("ranks").absolute()))
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    code, out, err = on_ranks()
    assert code == 0 and "ranks: 4 runs, 2 at once" in err and out.startswith("lr "), err
    assert_same_sweeps("ranks", swept)
    code, _, err = on_ranks("--workers", "2")
    assert code != 0 and "--workers makes no sense under mpiexec" in err


def test_a_run_whose_process_dies_three_times_is_given_up(monkeypatch, tmp_path):
    begun = []

    def dying(log):
        begun.append(1)
        return subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    monkeypatch.setattr(sweep_run, "start_process", dying)
    processes = sweep_run.Processes(1, 1)
    reason = processes.submit({"task": "copy"}, tmp_path / "run").result()
    assert len(begun) == sweep_run.MOST_DEATHS and reason.startswith("its process ended by signal 9, 3 times; is there")
    assert (tmp_path / "run" / FAILURE).read_text() == reason + "\n"
    (tmp_path / "file").write_text("a file")
    assert "File exists" in processes.submit({"task": "copy"}, tmp_path / "file").result()
    processes.close()


def test_a_locked_run_is_waited_for(monkeypatch, tmp_path):
    released, is_held = [], threading.Event()

    def hold():
        with runs.locked(tmp_path):
            is_held.set()
            time.sleep(0.5)
            released.append(1)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    sweep_run.wait_for(tmp_path)
    assert released
    holder.join()
    monkeypatch.setattr(sweep_run, "PATIENCE", 0.0)
    with runs.locked(tmp_path):
        assert "another process is training in" in sweep_run.train_run({"task": "copy"}, tmp_path)
