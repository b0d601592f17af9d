"""Runs in their folders, on texts and on tasks: what they leave, how they are interrupted, resumed, locked and repaired."""
import json
import os
import pathlib
import signal
import sys
import termios

import numpy as np
import pytest

from models import TASKS, load
from models import checkpoint as checkpoints
from models import run as runs
from models import task as tasks
from models.pictures import PICTURE
from models.architectures import ARCHITECTURES
from models.run import locked, read_metrics
from models.task import Task
from models.train import Trainer

SIZES = ["--width", "8", "--layers", "1", "--heads", "2"]
TINY = ["--steps", "6", "--batch-size", "4", "--eval-every", "2", "--eval-windows", "6"]
PICTURES = {  # of attention, beside runs.FILES
    "encoder-decoder": {PICTURE, tasks.ALIGNMENT}, "rnn-attention": {PICTURE, tasks.ALIGNMENT}, "causal": {PICTURE},
    "rnn": set(), "encoder": {PICTURE}, "no-attention": set(),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "TEST_EXAMPLES", 10)


@pytest.fixture(params=["text", "reverse", "bank", "stripes"])
def flags(request, text_file) -> list[str]:
    """What `minigrad train` is called with, for a text and for tasks of every kind; with dropout."""
    data = ["--text", str(text_file), "--context", "16"] if request.param == "text" else ["--task", request.param]
    return ["train", *data, *TINY, *SIZES, "--dropout", "0.1"]


def metrics_of(folder: str) -> list[dict]:
    """The rows of metrics.jsonl, without what depends on the clock."""
    rows = [json.loads(line) for line in pathlib.Path(folder, runs.METRICS).read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in ("tokens_per_second", "seconds")} for row in rows]


def assert_same_runs(one: str, other: str) -> None:
    assert metrics_of(one) == metrics_of(other)
    for best in (False, True):
        a, b = checkpoints.load(one, best), checkpoints.load(other, best)
        assert (a.step, a.best_loss, a.generators) == (b.step, b.best_loss, b.generators)
        for group in a.ARRAYS:
            assert all(np.array_equal(array, getattr(b, group)[name]) for name, array in getattr(a, group).items())
    assert pathlib.Path(one, runs.SAMPLE).read_text() == pathlib.Path(other, runs.SAMPLE).read_text()


def press_ctrl_c(monkeypatch, at_step: int) -> None:
    """As soon as a trainer has done so many steps."""
    train_step = Trainer.train_step

    def pressed(trainer):
        if trainer.step == at_step:
            os.kill(os.getpid(), signal.SIGINT)
            monkeypatch.setattr(Trainer, "train_step", train_step)
        return train_step(trainer)

    monkeypatch.setattr(Trainer, "train_step", pressed)


@pytest.mark.parametrize("name", ARCHITECTURES["sequence"] | ARCHITECTURES["class"])
def test_every_model_of_a_task_leaves_its_files_and_can_be_sampled(run, name):
    task = "reverse" if name in ARCHITECTURES["sequence"] else "sentiment"
    code, out, err = run("train", "--task", task, "--model", name, *TINY, *(SIZES[:2] if name.startswith("rnn") else SIZES))
    folder = f"runs/{task}-{name}"
    assert code == 0 and f"{TASKS[task].description}, steps 0 to 6" in err and "step 6/6: loss" in err
    assert set(os.listdir(folder)) == {*runs.FILES, *PICTURES[name]}
    assert out.count("source: ") == out.count("wanted: ") == out.count("got: ") == 3
    assert pathlib.Path(folder, runs.SAMPLE).read_text() in out
    assert "6 steps in" in out and "length 4:" in out and "overall:" in out and f"{folder}{os.sep} holds" in out
    prompt = {"reverse": "abc", "sentiment": "it was good"}[task]
    for best in ([], ["--best"]):
        code, out, err = run("sample", "--checkpoint", folder, "--prompt", prompt, *best)
        model = load(folder, best=bool(best))
        assert (code, out, err) == (0, "".join(model.tokenizer.respond(model, prompt)) + "\n", "")


@pytest.mark.parametrize("task", TASKS)
def test_every_task_with_its_default_model(run, task):
    assert run("train", "--task", task, *TINY, *SIZES)[0] == 0
    rows = metrics_of(f"runs/{task}-{'encoder-decoder' if TASKS[task].kind == 'sequence' else 'encoder'}")
    assert [row["step"] for row in rows] == list(range(1, 7))
    assert [row["step"] for row in rows if row["val_loss"] is not None] == [2, 4, 6]
    shortest, longest = TASKS[task].lengths
    assert list(rows[-1]["accuracy_by_length"]) == [str(length) for length in range(shortest, longest + 1)]
    assert rows[-1]["accuracy"] == pytest.approx(np.mean(list(rows[-1]["accuracy_by_length"].values())))


def test_interrupted_and_resumed_is_as_never_interrupted(run, flags, monkeypatch):
    assert run(*flags, "--out", "whole")[0] == 0
    press_ctrl_c(monkeypatch, at_step=2)
    code, out, err = run(*flags, "--out", "parts")
    assert (code, out) == (130, "")
    assert err.endswith("minigrad: stopped after step 3; the checkpoint is saved: go on with --resume parts\n")
    assert checkpoints.load("parts").step == 3 and pathlib.Path("parts", runs.PLOT).exists()
    assert pathlib.Path("parts", PICTURE).exists()
    assert pathlib.Path("parts", tasks.ALIGNMENT).exists() == ("reverse" in flags)
    assert run("train", "--resume", "parts")[0] == 0
    assert_same_runs("whole", "parts")


def test_seconds_go_on_when_a_run_is_resumed_but_for_lost_steps(run):
    assert run("train", "--task", "copy", *TINY, *SIZES, "--out", "here")[0] == 0
    first = [row["seconds"] for _, row in read_metrics(pathlib.Path("here", runs.METRICS))]
    assert first == sorted(first) and 0 < first[0]
    checkpoints.save("here", checkpoints.load("here/checkpoint.previous.npz"))  # killed after step 4
    rows = [{"step": step, "loss": 1.0, "val_loss": None, "seconds": 1000.0 * step} for step in range(1, 7)]
    pathlib.Path("here", runs.METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert " 6 steps in 40" in run("train", "--resume", "here")[1].replace("\n", " ")
    seconds = [row["seconds"] for _, row in read_metrics(pathlib.Path("here", runs.METRICS))]
    assert len(seconds) == 6 and seconds[3] == 4000 < seconds[4] < seconds[5] < 4900


def test_the_best_checkpoint_is_the_one_of_the_lowest_validation_loss(run, monkeypatch):
    losses, evaluate = iter([3.0, 1.0, 2.0, 1.5, 0.5]), Task.evaluate
    monkeypatch.setattr(Task, "evaluate", lambda *arguments: evaluate(*arguments) | {"val_loss": next(losses)})
    for flags, best_step, best_loss in ((["--task", "copy", *TINY, *SIZES, "--out", "here"], 4, 1.0),
                                        (["--resume", "here", "--steps", "8"], 4, 1.0),
                                        (["--resume", "here", "--steps", "9"], 9, 0.5)):
        assert run("train", *flags)[0] == 0
        best, last = checkpoints.load("here", best=True), checkpoints.load("here")
        assert (best.step, best.best_loss, last.best_loss) == (best_step, best_loss, best_loss)
        assert (best.step == last.step) == all(np.array_equal(best.model[name], last.model[name]) for name in best.model)


def test_a_new_run_from_the_parameters_of_another(run, flags):
    assert run(*flags, "--out", "old")[0] == 0
    data = flags[1:3]
    assert run("train", *data, "--init-from", "old", "--steps", "1", "--lr", "1e-9", "--out", "new")[0] == 0
    old, new = checkpoints.load("old"), checkpoints.load("new")
    assert new.step == 1 and new.config == old.config and new.architecture == old.architecture
    for name, array in old.model.items():
        np.testing.assert_allclose(new.model[name], array, atol=1e-8)
    assert run("train", *data, "--init-from", "old", "--steps", "1", "--dropout", "0.5", "--out", "dropping")[0] == 0
    for flag, value, says in (("--width", "16", "width 8, not 16"), ("--placement", "post", "placement 'pre', not 'post'")):
        code, _, err = run("train", *data, "--init-from", "old", flag, value, "--out", "wrong")
        assert code == 1 and f"is from another architecture: its model has {says}; leave out flags that change" in err
    assert not pathlib.Path("wrong").exists()


def test_a_task_from_a_run_on_another_task(run):
    assert run("train", "--task", "copy", "--model", "rnn", *TINY, *SIZES[:2], "--out", "old")[0] == 0
    assert run("train", "--task", "sort", "--init-from", "old", *TINY)[0] == 0
    assert checkpoints.load("runs/sort-rnn").architecture == "rnn"
    for flags in (["--task", "sort", "--model", "rnn-attention"], ["--task", "translation"]):
        code, _, err = run("train", *flags, "--init-from", "old")
        assert code == 1 and "old/checkpoint.npz is from another architecture" in err
    code, _, err = run("train", "--init-from", "old")
    assert code == 2 and "the data is a text, so model must be one of causal, got 'rnn'" in err


def test_another_text_in_the_vocabulary_of_the_first(run, text_file):
    assert run("train", "--text", text_file, *TINY, *SIZES, "--context", "16", "--out", "runs/first")[0] == 0
    for name, text in (("few", "abc" * 200), ("other", "xyz" * 200)):
        pathlib.Path(name).write_text(text)
    assert run("train", "--text", "few", "--init-from", "runs/first", "--steps", "1")[0] == 0
    assert checkpoints.load("runs/first-2").dataset["tokenizer"]["symbols"] == " abcdefghij"
    assert run("train", "--resume", "runs/first-2", "--steps", "2")[0] == 0
    code, _, err = run("train", "--text", "other", "--init-from", "runs/first")
    assert code == 2 and "the vocabulary has no 'x' 'y' 'z'" in err


def test_more_steps_say_how_the_learning_rate_rises(run, flags):
    assert run(*flags, "--out", "here", "--warmup-steps", "0")[0] == 0
    rates = [row["lr"] for row in metrics_of("here")]
    err = run("train", "--resume", "here", "--steps", "9")[2]
    risen = metrics_of("here")[6]["lr"]
    assert f"here: the learning rate rises from {rates[-1]:.1e} to {risen:.1e}, that of step 6 of 9, not of 6\n" in err
    assert "rises" not in run("train", "--resume", "here")[2]


def test_a_folder_is_locked_while_it_is_trained_in(run, flags):
    assert run(*flags, "--out", "here")[0] == 0
    with locked(pathlib.Path("here")):
        code, out, err = run("train", "--resume", "here", "--steps", "9")
        assert (code, out) == (1, "") and err.count("\n") == 1
        assert "another process is training in here; wait until it ends, or choose another --out" in err
    assert run("train", "--resume", "here", "--steps", "9")[0] == 0


def test_without_locks(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError("no locks here")

    monkeypatch.setattr(runs.fcntl, "flock", refuse)
    with locked(tmp_path):
        pass
    monkeypatch.setattr(runs, "fcntl", None)
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("content, kept", [
    (b"", []), (None, []), (b"garbage\n", []), (b"\xff\xfe\n", []), (b"[]\n5\n", []), (b'{"step": 1}\n', []),
    (b'{"step": 1, "loss": "x", "val_loss": null}\n{"step": 2, "loss": 1.0, "val_loss": null}\n', [2]),
    (b'{"step": 1, "loss": 1.0, "val_loss": null}\n\xff\n{"step": 2, "loss": NaN, "val_loss": null}\n', [1]),
    (b'{"step": 1, "loss": 1.0, "val_loss": 2.0}\n{"step": 2, "lo', [1]),
    (b'{"step": 1, "loss": 1.0, "val_loss": null, "seconds": 2}\n{"step": 2, "loss": 1.0, "val_loss": null, '
     b'"seconds": "2"}\n', [1]),
    (b"[" * 100_000 + b"\n", []),
    (b'{"step": 1, "loss": null, "val_loss": null}\n{"step": 2, "loss": 1.0, "val_loss": null, "layers": null}\n', [2]),
    (b'{"step": 1, "loss": 1.0, "val_loss": null, "layers": [1]}\n', []),
    (b'{"step": 1, "loss": 1.0, "val_loss": null, "layers": {"a": 1}}\n', []),
    (b'{"step": 1, "loss": 1.0, "val_loss": null, "layers": {"a": {"grad_norm": "x", "update_to_weight": 1}}}\n', []),
    (b'{"step": 1, "loss": 1.0, "val_loss": null, "layers": {"a": {"grad_norm": 1, "update_to_weight": null}}}\n', [1]),
])
def test_damaged_metrics_are_repaired(run, text_file, content, kept):
    assert run("train", "--text", text_file, *TINY, *SIZES, "--context", "16", "--out", "here")[0] == 0
    path = pathlib.Path("here", runs.METRICS)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert run("train", "--resume", "here")[0] == 0  # nothing left to do
    assert [row["step"] for _, row in read_metrics(path)] == kept
    assert run("train", "--resume", "here", "--steps", "7")[0] == 0
    assert [row["step"] for row in metrics_of("here")] == [*kept, 7]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_metrics_that_are_no_file(run, text_file, make):
    assert run("train", "--text", text_file, *TINY, *SIZES, "--context", "16", "--out", "here")[0] == 0
    os.unlink("here/metrics.jsonl")
    make("here/metrics.jsonl")
    code, _, err = run("train", "--resume", "here")
    assert code == 1 and "here/metrics.jsonl is a folder, pipe, socket or device, not a file; remove it" in err


def test_how_long_it_will_take_is_said_after_the_first_steps(make_trainer, tmp_path, capsys, monkeypatch):
    clock = iter(range(0, 10 ** 6, 60))
    monkeypatch.setattr(runs.time, "monotonic", lambda: next(clock))
    trainer = make_trainer(steps=50, eval_every=50)
    with runs.show_progress(trainer) as show:
        for _ in range(2):
            show(trainer.train_step())
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("step 1/50: loss") and "left" not in first
    assert second.startswith("step 2/50: loss") and second.endswith(" tokens/s [48:00 left]")


@pytest.mark.parametrize("columns", [0, 80])
def test_a_terminal_of_no_columns_gets_lines(make_trainer, monkeypatch, columns):
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    trainer = make_trainer(steps=3)
    trainer.train_step()  # which may say that it compiles
    with open(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with runs.show_progress(trainer) as show:
            show(trainer.train_step())
        stream.flush()
        shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert ("step 2/3: loss" in shown) == (columns == 0) and ("67% |" in shown) == (columns > 0), shown


def one_line(code_and_output, says: str) -> None:
    code, out, err = code_and_output
    assert (code, out) == (2, ""), err
    assert err.startswith("minigrad: error: ") and err.count("\n") == 1 and err.endswith("\n"), err
    assert says in err


@pytest.mark.parametrize("arguments, says", [
    (["--task", "fly"], "'fly'"),
    (["--task"], "--task: expected one argument"),
    (["--task", "copy", "--model", "oracle"],
     "task 'copy' makes a sequence, so model must be one of encoder-decoder, causal, rnn, rnn-attention, got 'oracle'"),
    (["--task", "copy", "--model", "encoder"], "task 'copy' makes a sequence"),
    (["--task", "copy", "--model", ""], "got ''"),
    (["--task", "bank", "--model", "rnn"], "task 'bank' makes a class, so model must be one of encoder, no-attention"),
    (["--task", "copy", "--text", "words.txt"], "--text makes no sense with --task copy; leave it out"),
    (["--task", "copy", "--preset", "nano"], "--preset makes no sense with --task copy"),
    (["--task", "copy", "--recipe", "muon"], "--recipe makes no sense with --task copy"),
    (["--task", "copy", "--vocabulary-size", "5"], "--vocabulary-size makes no sense with --task copy"),
    (["--task", "copy", "--model", "rnn", "--layers", "2"], "--layers makes no sense with --model rnn"),
    (["--task", "copy", "--model", "rnn", "--norm", "rms_norm"], "--norm makes no sense with --model rnn"),
    (["--task", "bank", "--no-tied"], "tied makes no sense for model encoder, got False; leave tied out"),
    (["--task", "bank", "--model", "no-attention", "--head-size", "4"], "head_size makes no sense for model no-attention"),
    (["--task", "copy", "--rotary-base", "5"], "rotary_base is of positions 'rotary', got positions 'learned'"),
    (["--hidden-width", "64", "--mlp-ratio", "2"], "--mlp-ratio makes no sense with --hidden-width 64"),
    (["--rotary-scaling", "yarn:4", "--positions", "rotary"], "rotary_scaling must be 'none', 'linear:FACTOR'"),
    (["--heads", "4", "--key-value-heads", "3"], "key_value_heads must divide heads, got 3 and 4"),
    (["--task", "copy", "--context", "8"], "the examples of task 'copy' do not fit into --context 8"),
    (["--task", "copy", "--model", "causal", "--context", "16"], "do not fit into --context 16"),
    (["--task", "reverse", "--layers", "0"], "layers must be at least 1, got 0"),
    (["--task", "copy", "--muon-lr", "0.1"], "--muon-lr makes no sense with --optimizer adamw; leave it out"),
    (["--optimizer", "adamw", "--muon-momentum", "0.5"], "--muon-momentum makes no sense with --optimizer adamw"),
    (["--annealing", "constant", "--final-lr", "0.1"], "--final-lr makes no sense with --annealing constant; leave it out"),
    (["--task", "copy", "--steps", "0"], "steps must be a whole number from 1"),
    (["--task", "copy", "--lr", "nan"], "lr must be more than 0 and at most 1, got nan"),
    (["--task", "copy", "--final-batch-size", "2"], "final_batch_size must be a whole number from 64"),
    (["--task", "copy", "--label-smoothing", "1"], "label_smoothing must be"),
    (["--task", "copy", "--heads", "3"], "heads must divide width, got heads 3 and width 64"),
    (["--task", "copy", "--batch-size", "1000000000"], "GB to train"),
    (["--task", "copy", "--final-batch-size", "1000000000"], "GB to train"),
    (["--task", "copy", "--out", "old"], "old already holds attention.png; go on with --resume old, or choose another"),
    (["--model", "rnn"], "the data is a text, so model must be one of causal, got 'rnn'"),
    (["--init-from", "old", "--preset", "nano"], "--preset makes no sense with --init-from old"),
    (["--init-from", "old", "--recipe", "muon"], "--recipe makes no sense with --init-from old"),
    (["--resume", "--init-from", "old"], "--init-from makes no sense with --resume; leave it out"),
])
def test_bad_input(run, arguments, says, monkeypatch):
    monkeypatch.delattr(runs, "train")  # a mistake must not end in a long training
    precious = pathlib.Path("old/attention.png")
    precious.parent.mkdir()
    precious.write_text("precious")
    one_line(run("train", *arguments), says)
    assert os.listdir(".") == ["old"] and precious.read_text() == "precious"


@pytest.mark.parametrize("arguments, says", [
    (["--task", "sort"], "--task is sort, but here/checkpoint.npz was trained with copy; a resumed run keeps it"),
    (["--model", "rnn"], "--model is rnn, but here/checkpoint.npz was trained with encoder-decoder"),
    (["--text", "words.txt"], "--text makes no sense with here/checkpoint.npz, which is of task copy"),
    (["--muon-lr", "0.02"], "--muon-lr makes no sense with --optimizer adamw"),
    (["--beta2", "0.9"], "--beta2 is 0.9, but here/checkpoint.npz was trained with 0.98"),
])
def test_bad_resume_of_a_task(run, arguments, says):
    assert run("train", "--task", "copy", *TINY, *SIZES, "--out", "here")[0] == 0
    one_line(run("train", "--resume", "here", *arguments), says)


@pytest.mark.parametrize("task, arguments, says", [
    ("copy", ["--prompt", "abz"], "expected symbols of task 'copy', which are a b c d e f g h i j; got 'z'"),
    ("copy", [], "got none"),
    ("copy", ["--prompt", "abc", "--tokens", "5"], "tokens makes no sense with task 'copy'"),
    ("copy", ["--prompt", "a" * 40], "a source of 40 symbols and its answer do not fit into the model's context of 32"),
    ("stripes", ["--prompt", "abc"], "the sources of task 'stripes' are images, which no text describes"),
    ("stripes", [], "the sources of task 'stripes' are images, which no text describes"),
])
def test_bad_sampling_of_a_task(run, task, arguments, says):
    assert run("train", "--task", task, *TINY, *SIZES, "--out", "here")[0] == 0
    one_line(run("sample", "--checkpoint", "here", *arguments), says)
