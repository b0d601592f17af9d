"""`minigrad sweep`: a run for each combination of some settings and seeds, several at once; then a table.

The state of a sweep is in its runs' folders alone. So however it ended, the same command resumes it: finished runs stay,
started and failed ones continue from their checkpoints.
"""
import argparse
import concurrent.futures
import dataclasses
import itertools
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import minigrad as mg
from models import comparison
from models import run as runs
from models.checkpoint import CheckpointError
from models.commands import compare, train
from models.commands.grid import Grid, SeveralValues, combinations, name_of
from models.commands.shared import CheckFailed, UsageError, as_flag, check_writable
from models.commands.sweep_run import LOG, OnRanks, Processes
from models.distributed import Ranks, connected, own_cores
from models.extras import extra
from models.progress import Progress
from models.sweep_folder import Settings, is_sweep, read_plan, settings_of, write_plan
from models.training_config import TrainingConfig

TABLE, PICTURE = "sweep.csv", "sweep.png"
OWN = "out", "workers", "threads"  # flags of the sweep itself
SECONDS = 1.0  # between updates of the progress
SECONDS_BETWEEN_LINES = 60.0  # of progress, without a terminal


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", required=True, help="folder of the sweep; the same flags, or more values, "
                        "resume it")
    parser.add_argument("--workers", type=int, help="runs at once (default: as many as cores and memory allow)")
    parser.epilog = "Flags of `minigrad train` take several values, separated by commas: --lr 1e-3,3e-3 --seed 0,1,2,3,4"
    train.add_flags(SeveralValues(parser, without=("--out", "--resume")))


def run(options: argparse.Namespace) -> int:
    with connected() as ranks:
        if isinstance(ranks, Ranks):
            mg.set_num_threads(vars(options).get("threads") or ranks.default_threads())
            futures = extra("mpi", "mpi4py.futures")
            with futures.MPICommExecutor(ranks.communicator) as executor:  # the other ranks work inside this call
                folder = sweep(options, OnRanks(executor, ranks.size - 1)) if ranks.is_first else None
        else:
            folder = sweep(options)
    return show(folder) if folder else 0


@dataclasses.dataclass
class Planned:
    """A run of the sweep."""

    given: dict[str, Any]  # flags of `minigrad train`
    settings: Settings
    memory: int  # bytes, about
    folder: pathlib.Path  # the sweep's, until `name_folders`

    @property
    def steps(self) -> int:
        return self.settings["steps"]

    def steps_done(self) -> int:
        """About how many: the metrics have one line per step."""
        path = self.folder / runs.METRICS
        return min(path.read_bytes().count(b"\n"), self.steps) if path.is_file() else 0

    def notices(self) -> set[str]:
        """What minigrad has told its log, such as that it compiles kernels."""
        path = self.folder / LOG
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        return {line for line in lines if line.startswith("minigrad: ")}

    def loss(self) -> float | None:
        """The validation loss at the last step, if that was reached."""
        rows = [row for _, row in runs.read_metrics(self.folder / runs.METRICS) if row["step"] == self.steps]
        return rows[-1]["val_loss"] if rows else None

    def is_finished(self) -> bool:
        """Did it write its sample, which comes last?"""
        return (self.folder / runs.SAMPLE).exists() and self.loss() is not None


def sweep(options: argparse.Namespace, workers: Processes | OnRanks | None = None) -> pathlib.Path:
    """Plan the runs, and train the unfinished ones on ranks or in processes of this machine; the folder."""
    given = vars(options)
    grid = {name: values for name, values in given.items() if name not in OWN}
    folder = checked_folder(given["out"])
    planned = plan(grid, folder)
    check_writable(folder)
    with runs.locked(folder):
        name_folders(planned, grid, folder)
        write_plan(folder, {run.folder.name: run.settings for run in planned})
        to_do = [run for run in planned if not run.is_finished()]
        if workers is None:
            workers = Processes(*share_cores(given, to_do))
        elif "workers" in given:
            raise UsageError("--workers makes no sense under mpiexec, whose -n sets their number; leave it out")
        finished = len(planned) - len(to_do)
        state = f"{finished} of them finished" if finished else f"{workers.count} at once"
        print(f"{folder}: {len(planned)} runs, {state}", file=sys.stderr)
        train_all(planned, to_do, workers)
    return folder


# ---- planning ----

def checked_folder(out: str) -> pathlib.Path:
    """The folder of the sweep; UsageError if it holds anything else."""
    folder = pathlib.Path(out)
    if out == "":
        raise UsageError("--out is empty; name a folder")
    others = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())  # a kill may leave .*.tmp
    if others and not is_sweep(folder):
        raise UsageError(f"{folder} exists and is not a sweep; choose another --out")
    return folder


def plan(grid: Grid, folder: pathlib.Path) -> list[Planned]:
    """All runs of the grid; UsageError names the first combination that makes no sense."""
    planned, trainers = [], {}
    for given in combinations(grid):
        key = tuple((name, value) for name, value in given.items() if name != "seed")
        try:
            if key not in trainers:
                trainers[key] = planned_once(given)
            settings, memory = trainers[key]
            if "seed" in given:
                settings = settings | {"seed": TrainingConfig(seed=given["seed"]).seed}
        except (UsageError, CheckpointError, ValueError) as error:
            raise UsageError(f"{name_of(given, grid)}: {error}") from None
        planned.append(Planned(given, settings, memory, folder))
    return planned


def planned_once(given: dict[str, Any]) -> tuple[Settings, int]:
    """(The settings of a run, its memory), from a trainer that is then thrown away."""
    train.check_flags(given)
    trainer, _ = train.new_trainer(given)
    config, training = trainer.model.config, trainer.config
    settings = settings_of(trainer.architecture, dataclasses.asdict(config), dataclasses.asdict(training),
                           trainer.dataset.identity())
    if "init_from" in given:
        settings["init_from"] = str(pathlib.Path(given["init_from"]).resolve())
    return settings, config.training_bytes(training.final_batch_size or training.batch_size)


def name_folders(planned: list[Planned], grid: Grid, folder: pathlib.Path) -> None:
    """Give each run the folder in which it was started, or a new one. UsageError if the grid lacks runs of the sweep."""
    known = read_plan(folder) if is_sweep(folder) else {}
    for name, settings in known.items():
        alike = [run for run in planned if differences(run.settings, settings) == []]
        if not alike:
            raise UsageError(f"{folder / name} {closest_difference(settings, planned)}, or choose another --out")
        for run in [run for run in alike if run.folder == folder][:1]:  # runs with the same settings have their own folders
            run.folder = folder / name
    for run in planned:
        if run.folder == folder:
            name = name_of(run.given, grid)
            taken = {other.folder.name for other in planned}
            numbered = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
            run.folder = folder / next(name for name in numbered if name not in taken and not (folder / name).exists())


def differences(settings: Settings, known: Settings) -> list[str]:
    """The settings in which two runs differ, where both have them; the path of a text does not matter."""
    return [name for name in known if settings.get(name, known[name]) != known[name] and name != "text"]


def closest_difference(known: Settings, planned: list[Planned]) -> str:
    """How a run differs from the most similar planned one."""
    name = min((differences(run.settings, known) for run in planned), key=len)[0]
    if name.endswith("_sha256"):
        return f"has another {name.removesuffix('_sha256')}; give that one, too"
    return f"has {name} {known[name]}, which this grid lacks; add it to {as_flag(name)}"


def share_cores(given: dict[str, Any], to_do: list[Planned]) -> tuple[int, int]:
    """(Processes, threads for each): as many as cores and memory allow, unless flags say otherwise."""
    count = len(own_cores())
    largest = max((run.memory for run in to_do), default=1)
    fit = int(max(1, min(count // given.get("threads", 1), train.memory_size() // largest, len(to_do) or 1)))
    workers = given.get("workers", fit)
    if not 1 <= workers <= 10 * count:
        raise UsageError(f"--workers must be from 1 to {10 * count}, ten for each core, got {workers}")
    return workers, given.get("threads", max(1, count // workers))


# ---- training ----

def train_all(planned: list[Planned], to_do: list[Planned], workers: Processes | OnRanks) -> None:
    """Train, and show the progress. After Ctrl-C, running ones save and stop."""
    progress = SweepProgress(planned, to_do)
    futures = {workers.submit(run.given, run.folder): run for run in to_do}
    waiting = set(futures)
    try:
        while waiting:
            ended, waiting = concurrent.futures.wait(waiting, SECONDS, concurrent.futures.FIRST_COMPLETED)
            progress.show([futures[future] for future in waiting if future.running()],
                          {futures[future].folder.name: future.result() for future in ended})
    except KeyboardInterrupt:
        stop(workers)
        finished = sum(run.is_finished() for run in planned)
        raise KeyboardInterrupt(f"stopped with {finished} of {len(planned)} runs finished; the others are saved: resume "
                                "with the same command") from None
    finally:
        workers.stop()  # after an error; otherwise none is running
        workers.close()
        progress.close()


def stop(workers: Processes | OnRanks) -> None:
    """Let the runs save; if Ctrl-C is pressed again, kill them."""
    print("\nsaving the running models; Ctrl-C again kills them", file=sys.stderr)
    try:
        workers.stop()
        workers.close()
    except KeyboardInterrupt:
        workers.stop(at_once=True)


class SweepProgress:
    """Shows how many runs have ended, the best so far, and the time left."""

    def __init__(self, planned: list[Planned], to_do: list[Planned]):
        self._runs = {run.folder.name: run for run in planned}
        self._to_do = {run.folder.name for run in to_do}
        self._done = {run.folder.name: run.steps_done() for run in planned}
        self._said: set[str] = set()
        self._best = min(((run.loss(), name) for name, run in self._runs.items()
                          if name not in self._to_do), default=None)
        self._progress = Progress(sum(run.steps for run in planned), sum(self._done.values()),
                                  "{percentage:3.0f}% |{bar}| {desc}", SECONDS_BETWEEN_LINES)
        self.close: Callable[..., None] = self._progress.__exit__

    def show(self, running: list[Planned], ended: dict[str, str | None]) -> None:
        """Show what has changed; `ended` has {run: why it failed, or None}."""
        for name, failure in ended.items():
            self._to_do.discard(name)
            self._done[name] = self._runs[name].steps
            text = f"{name} failed: {failure}"
            if failure is None and (loss := self._runs[name].loss()) is not None:
                self._best = min(self._best or (loss, name), (loss, name))
                text = f"{name}: validation loss {loss:.4f}"
            self._progress.say(text, f"{self._text()}; {text}")
        for run in running:
            self._done[run.folder.name] = run.steps_done()
            for notice in () if run.steps_done() else run.notices() - self._said:  # why the first step takes longer
                self._said.add(notice)
                self._progress.say(notice, notice)
        text = self._text()
        self._progress.show(sum(self._done.values()), text, f"{text}; {len(running)} in training")

    def _text(self) -> str:
        best = f", best {self._best[0]:.4f} ({self._best[1]})" if self._best else ""
        left = self._progress.left(sum(self._done.values()))
        return f"{len(self._runs) - len(self._to_do)} of {len(self._runs)} runs{best}{left and f', {left}'}"


def show(folder: pathlib.Path) -> int:
    """Print the table, and write it and the plot; the exit code."""
    compared = comparison.compare(comparison.read_runs([str(folder)]))
    print(compared.table())
    paths = {"csv": folder / TABLE, "plot": folder / PICTURE}
    failed = len(compared.problems)
    if failed == sum(len(group.runs) for group in compared.groups):
        del paths["plot"]
    compare.write(compared, paths)
    if failed:
        raise CheckFailed(f"{failed} of the runs have no result; see the lines below the table")
    return 0
