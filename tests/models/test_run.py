"""Runs and their folders, on texts and on tasks: files, interruption, resuming, locks, repair, progress and loading."""
import contextlib
import errno
import json
import os
import pathlib
import re
import signal
import sys
import termios

import numpy as np
import pytest

import minigrad as mg
import models
from models import TASKS, TrainingError, data, generate, load
from models import checkpoint as checkpoints
from models import run as runs
from models.architectures import ARCHITECTURES
from models.commands import shared
from models.pictures import PICTURE
from models.run import locked, read_metrics
from models.task import Task
from models.train import Trainer
from models.training_config import CHOICES
from models.config import ATTENTION_POSITIONS, TABLE_POSITIONS
from refusals import all_refused
from small_runs import COPY, SIZES, STEPS, TEXT, assert_same_runs, metrics_of


@pytest.fixture(params=["text", "bank", *(pytest.param(task, marks=pytest.mark.long) for task in ("reverse", "stripes"))])
def flags(request, text_file) -> list:
    """Flags of `minigrad train` for a text and for tasks of every kind, with dropout."""
    return [*(["--text", text_file, *TEXT] if request.param == "text" else ["--task", request.param, *SIZES, *STEPS]),
            "--dropout", 0.1]


@pytest.fixture
def at_step(monkeypatch):
    """A function that has something happen once, before the step that follows the given one."""
    train_step = Trainer.train_step

    def arrange(step: int, what) -> None:
        def stepping(trainer):
            if trainer.step == step:
                monkeypatch.setattr(Trainer, "train_step", train_step)
                what(trainer)
            return train_step(trainer)

        monkeypatch.setattr(Trainer, "train_step", stepping)

    return arrange


def press_ctrl_c(*_) -> None:
    os.kill(os.getpid(), signal.SIGINT)


# ---- files and samples ----

@pytest.mark.parametrize("name", ARCHITECTURES["sequence"] | ARCHITECTURES["class"])
def test_every_model_of_a_task_leaves_its_files_and_can_be_sampled(run, name):
    task = "reverse" if name in ARCHITECTURES["sequence"] else "sentiment"
    sizes = SIZES[-2:] if name.startswith("rnn") else SIZES
    code, out, err = run("train", "--task", task, "--model", name, *STEPS, *sizes)
    folder = f"runs/{task}-{name}"
    assert code == 0 and f"{TASKS[task].description}, steps 0 to 6" in err and "step 6/6: loss" in err
    assert set(os.listdir(folder)) == {*runs.FILES} - {runs.PLOT}
    assert out.count("source: ") == out.count("wanted: ") == out.count("got: ") == 3
    assert pathlib.Path(folder, runs.SAMPLE).read_text() in out
    assert "6 steps in" in out and "length 4:" in out and "overall:" in out and f"{folder}{os.sep} holds" in out
    prompt = {"reverse": "abc", "sentiment": "it was good"}[task]
    for best in ([], ["--best"]):
        answer = "".join(models.respond(load(folder, best=bool(best)), prompt)) + "\n"
        assert run("sample", "--checkpoint", folder, "--prompt", prompt, *best) == (0, answer, "")


@pytest.mark.parametrize("task", TASKS)
def test_every_task_with_its_default_model(trained, task):
    folder = trained("--task", task, *SIZES, *STEPS)
    assert checkpoints.load(folder).architecture == ("encoder-decoder" if TASKS[task].kind == "sequence" else "encoder")
    rows = metrics_of(folder)
    assert [row["step"] for row in rows] == list(range(1, 7))
    assert [row["step"] for row in rows if row["val_loss"] is not None] == [2, 4, 6]
    shortest, longest = TASKS[task].lengths
    assert list(rows[-1]["accuracy_by_length"]) == [str(length) for length in range(shortest, longest + 1)]
    assert rows[-1]["accuracy"] == pytest.approx(np.mean(list(rows[-1]["accuracy_by_length"].values())))


@pytest.fixture
def figures(monkeypatch) -> list:
    """(figure, panels) of each plot of losses drawn during the test."""
    drawn, new_figure = [], runs.new_figure
    monkeypatch.setattr(runs, "new_figure", lambda *size, **options: drawn.append(new_figure(*size, **options)) or drawn[-1])
    return drawn


def test_files_of_a_run_on_a_text(make_trainer, tmp_path, capsys, monkeypatch, pictures, figures):
    trainer, evaluated = make_trainer(), []
    corpus, context = trainer.dataset, trainer.model.config.context
    windows = data.windows
    monkeypatch.setattr(data, "windows", lambda tokens, context, batch_size, limit: evaluated.append(
        (len(tokens), batch_size, limit)) or windows(tokens, context, batch_size, limit))
    runs.train(trainer, tmp_path)
    assert set(os.listdir()) == {*runs.FILES, PICTURE}
    last = data.LAST_TOKENS // context
    assert evaluated == [(len(corpus.validation), 16, limit) for limit in (4, 4, 4, last)] + [(len(corpus.train), 16, 4)]
    rows = metrics_of(tmp_path)
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["step"] for row in rows if row["val_loss"] is not None] == [4, 8, 10]
    measured = trainer.evaluate()  # at the end, on the whole validation text
    assert measured["val_tokens"] == len(corpus.validation) - 1 and rows[-1] | measured == rows[-1]
    assert all(row["grad_norm"] > 0 and row["lr"] > 0 for row in rows)
    assert (tmp_path / runs.PLOT).read_bytes().startswith(b"\x89PNG")
    sample = (tmp_path / runs.SAMPLE).read_text()
    ids = generate(trainer.model, [0], data.SAMPLE_LENGTH, temperature=0.8, seed=trainer.config.seed)
    assert len(sample) == data.SAMPLE_LENGTH + 1 and sample == corpus.tokenizer.decode(ids) + "\n"
    out, err = capsys.readouterr()
    assert f"training loss {measured['train_loss']:.4f}, validation loss {rows[-1]['val_loss']:.4f}; over all 399 tokens: " in out
    assert sample in out and f"tokens: {measured['full_val_loss']:.4f}, {measured['full_bits_per_byte']:.4f} bits per byte" in out
    assert all(name in out for name in (str(tmp_path), checkpoints.NAME, runs.METRICS, runs.PLOT, runs.SAMPLE))
    assert "step 10/10: loss" in err and err.endswith("\ndrawing pictures ...\n")  # plain lines, as this is no terminal

    ((_, panels),) = figures
    assert [axes.get_ylabel() for axes in (panels[0, 0], *panels[1])] == [
        "loss (nats per token)", "norm of the gradient, before clipping", "norm of the update / norm of the weights"]
    names = ["token_embedding", "position_embedding", "layer 1", "layer 2", "ln_f"]
    for axes, measure in zip(panels[1], ("grad_norm", "update_to_weight")):
        assert axes.get_xlabel() == "step" and axes.get_yscale() == "log"
        lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        assert lines == {words: [[step, rows[step - 1]["layers"][layer][measure]] for step in (4, 8, 10)]
                         for words, layer in zip(names, rows[9]["layers"], strict=True)}
    assert [text.get_text() for text in panels[0, 1].get_legend().get_texts()] == names


def test_the_plot_of_many_layers_and_of_none(tmp_path, figures):
    layers = {f"blocks.{i}": {"grad_norm": i, "update_to_weight": None} for i in range(45)}
    row = {"loss": 1.0, "val_loss": None}
    for name, rows in (("many", [row | {"step": 1, "layers": layers}, row | {"step": 2}]),
                       ("none", [row | {"step": 1, "layers": None}])):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert runs.plot_losses(tmp_path / name, tmp_path / f"{name}.png") == [f"{name}.png"]
    (_, many), (_, none) = figures
    assert [text.get_text() for text in many[0, 1].get_legend().get_texts()] == [f"layer {i}" for i in range(1, 46, 3)]
    assert none.shape == (1, 1)


def test_the_plot_of_layers_that_do_not_move(tmp_path, recwarn):
    layers = {"ln_f": {"grad_norm": 0.0, "update_to_weight": 0.0}}
    (tmp_path / "metrics").write_text(json.dumps({"step": 1, "loss": 0.0, "val_loss": 0.0, "layers": layers}) + "\n")
    assert runs.plot_losses(tmp_path / "metrics", tmp_path / "plot.png") == ["plot.png"] and not recwarn.list


def test_numbered_folders_and_samples(run, text_file):
    for folder in ("runs/nano", "runs/nano-2"):
        assert run("train", "--text", text_file, *TEXT)[0] == 0 and os.path.exists(folder)
    sample = "sample", "--checkpoint", "runs/nano", "--prompt", "abc", "--tokens", 20, "--seed", 1
    code, out, err = run(*sample)
    assert (code, err, out[:3], len(out)) == (0, "", "abc", 24) and run(*sample)[1] == out
    path = "runs/nano-2/checkpoint.npz"
    assert len(run("sample", "--checkpoint", path, "--tokens", 5, "--temperature", 0, "--top-k", 2)[1]) == 7


def test_the_last_evaluation_of_a_long_text_uses_part_of_it(make_trainer, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "LAST_TOKENS", 150)
    trainer = make_trainer()
    runs.train(trainer, tmp_path)
    last = metrics_of(tmp_path)[-1]
    loss, full = last["val_loss"], last["full_val_loss"]
    assert trainer.evaluate()["full_val_loss"] == full != loss
    runs.train(trainer, tmp_path)  # there are no steps left
    bits = full / np.log(2)  # each token is a byte
    assert capsys.readouterr().out.count(f"over 143 of 399 tokens, evenly spread: {full:.4f}, {bits:.4f} bits per byte") == 2
    monkeypatch.setattr(data, "LAST_TOKENS", 10 ** 6)
    assert trainer.evaluate()["full_val_loss"] != full
    trainer.step -= 1
    assert trainer.evaluate()["val_loss"] == loss, "in the last evaluation as in all others"


def test_the_best_checkpoint_has_the_lowest_validation_loss(run, monkeypatch):
    losses, evaluate = iter([3.0, 1.0, 2.0, 1.5, 0.5]), Task.evaluate
    monkeypatch.setattr(Task, "evaluate", lambda *arguments: evaluate(*arguments) | {"val_loss": next(losses)})
    for flags, best_step, best_loss in (([*COPY, "--out", "here"], 4, 1.0), (["--resume", "here", "--steps", 8], 4, 1.0),
                                        (["--resume", "here", "--steps", 9], 9, 0.5)):
        assert run("train", *flags)[0] == 0
        best, last = checkpoints.load("here", best=True), checkpoints.load("here")
        assert (best.step, best.best_loss, last.best_loss) == (best_step, best_loss, best_loss)
        assert (best.step == last.step) == all(np.array_equal(best.model[name], last.model[name]) for name in best.model)


# ---- interrupted and resumed ----

def test_an_interrupted_and_resumed_run_is_the_uninterrupted_one(run, flags, trained, at_step, monkeypatch):
    whole = trained(*flags)
    at_step(2, press_ctrl_c)
    monkeypatch.setattr(runs, "draw", lambda trainer, folder: pathlib.Path(folder, "drawn").touch() or [])
    code, out, err = run("train", *flags, "--out", "parts")
    assert (code, out) == (130, "") and os.path.exists("parts/drawn")
    assert err.endswith("minigrad: stopped after step 3; the checkpoint is saved: continue with --resume parts\n")
    assert checkpoints.load("parts").step == 3
    assert run("train", "--resume", "parts")[0] == 0
    assert_same_runs(whole, "parts")


@pytest.mark.parametrize("optimizer", CHOICES["optimizer"])
def test_a_run_is_resumed_from_its_last_checkpoint_after_a_power_cut(make_trainer, tmp_path, at_step, optimizer):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    runs.train(make_trainer(dropout=0.2, optimizer=optimizer), whole)
    at_step(7, lambda trainer: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runs.train(make_trainer(dropout=0.2, optimizer=optimizer), parts)
    assert len(metrics_of(parts)) == 7
    with open(parts / runs.METRICS, "a") as file:
        file.write('{"step": 8, "lo')  # a line that was cut off
    resumed = make_trainer(dropout=0.2, optimizer=optimizer)
    resumed.train_step()  # what came before restoring does not matter
    resumed.restore(checkpoints.load(parts))
    assert resumed.step == 4
    runs.train(resumed, parts)
    assert_same_runs(whole, parts)


def test_a_run_interrupted_in_its_first_step_can_be_resumed(run, text_file, monkeypatch):
    """Ctrl-C in the first step, which may compile kernels, stops at once."""
    def interrupted(self, batch, targets):
        press_ctrl_c()
        pytest.fail("the step goes on")

    with monkeypatch.context() as first_step:
        first_step.setattr(Trainer, "_part_of_loss", interrupted)
        code, out, err = run("train", "--text", text_file, *TEXT, "--out", "my run")
    assert (code, out) == (130, "") and checkpoints.load("my run").step == 0
    assert err.endswith("minigrad: stopped before step 1; continue with --resume 'my run'\n")
    assert run("train", "--resume", "my run")[0] == 0


def test_a_run_resumed_for_more_steps(run, text_run):
    code, out, err = run("train", "--resume", "here", "--steps", 9)
    assert code == 0 and "9 steps in" in out and [row["step"] for row in metrics_of("here")] == list(range(1, 10))
    assert "rises" not in err, "it is warming up"
    before = checkpoints.load("here")
    checkpoints.save("here", before.__class__(**vars(before) | {"training": before.training | {"warmup_steps": 0}}))
    err = run("train", "--resume", "here", "--steps", 20)[2]
    config = models.TrainingConfig(**checkpoints.load("here").training)
    was, risen = (models.TrainingConfig(**vars(config) | {"steps": steps}).learning_rate_at(step)
                  for steps, step in ((9, 8), (20, 9)))
    assert f"here: the learning rate rises from {was:.1e} to {risen:.1e}, that of step 9 of 20, not of 9\n" in err
    assert metrics_of("here")[9]["lr"] == risen
    assert "rises" not in run("train", "--resume", "--out", "here")[2]  # there are no steps left: the report again
    assert run("train", "--resume", "here/checkpoint.previous.npz")[0] == 0


def test_the_run_saved_last_is_the_default(run, here, text_file):
    for name in ("old", "new"):
        here("--text", text_file, *TEXT, name=f"runs/{name}")
    for file in ("checkpoint.npz", "checkpoint.previous.npz"):
        os.utime(f"runs/old/{file}", (0, 0))
    assert run("train", "--resume", "--steps", 7)[0] == 0
    assert (checkpoints.load("runs/old").step, checkpoints.load("runs/new").step) == (6, 7)
    for flags in ["--seed", 1], ["--seed", 1, "--best"]:
        code, out, err = run("sample", *flags)
        assert (code, err) == (0, "runs/new, the run saved last:\n")
        assert (0, out, "") == run("sample", "--checkpoint", "runs/new", *flags)


def test_a_resumed_run_keeps_its_seconds_without_lost_steps(run, here):
    path = here(*COPY) / runs.METRICS
    first = [row["seconds"] for _, row in read_metrics(path)]
    assert first == sorted(first) and 0 < first[0]
    checkpoints.save("here", checkpoints.load("here/checkpoint.previous.npz"))  # killed after step 4
    rows = [{"step": step, "loss": 1.0, "val_loss": None, "seconds": 1000.0 * step} for step in range(1, 7)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert " 6 steps in 40" in run("train", "--resume", "here")[1].replace("\n", " ")
    seconds = [row["seconds"] for _, row in read_metrics(path)]
    assert len(seconds) == 6 and seconds[3] == 4000 < seconds[4] < seconds[5] < 4900


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(make_trainer, tmp_path, at_step):
    at_step(6, lambda trainer: trainer.model.ln_f.weight.data.__setitem__(0, np.inf))
    with pytest.raises(TrainingError, match="the loss became (nan|inf) at step 7"):
        runs.train(make_trainer(), tmp_path)
    checkpoint = checkpoints.load(tmp_path)
    assert checkpoint.step == 4 and np.isfinite(checkpoint.model["ln_f.weight"]).all()


def test_a_full_disk_while_training(run, text_file, monkeypatch):
    fsync, calls = os.fsync, []

    def fill_up(descriptor):
        calls.append(descriptor)
        if len(calls) > 10:  # each flushes its file and its folder: tokens, a checkpoint, metrics, two of step 2; this is of step 4
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill_up)
    code, _, err = run("train", "--text", text_file, *TEXT, "--out", "here")
    assert code == 1 and err.splitlines()[-1].startswith("minigrad: error: cannot save here/checkpoint")
    assert checkpoints.load("here").step == 2
    monkeypatch.setattr(os, "fsync", fsync)
    assert run("train", "--resume", "here")[0] == 0


# ---- --init-from ----

@pytest.mark.parametrize("flags", ["text", "reverse"], indirect=True)
def test_a_new_run_starts_from_the_parameters_of_another(run, flags, trained):
    old_folder, data = trained(*flags), [*flags[:2], "--init-from", trained(*flags), "--steps", 1]
    assert run("train", *data, "--lr", "1e-9", "--optimizer", "adamw", "--out", "new")[0] == 0
    old, new = checkpoints.load(old_folder), checkpoints.load("new")
    assert new.step == 1 and new.config == old.config and new.architecture == old.architecture
    for name, array in old.model.items():
        np.testing.assert_allclose(new.model[name], array, atol=1e-8)
    assert run("train", *data, "--dropout", "0.5", "--out", "dropping")[0] == 0
    for flag, value, says in (("--width", "16", "width 8, not 16"), ("--placement", "post", "placement 'pre', not 'post'")):
        code, _, err = run("train", *data, flag, value, "--out", "wrong")
        assert code == 1 and f"is from another architecture: its model has {says}; leave out flags that change" in err
    assert not pathlib.Path("wrong").exists()


@pytest.mark.parametrize("positions", TABLE_POSITIONS + ATTENTION_POSITIONS)
def test_a_shorter_context_reads_the_same_in_short_texts(positions, text_file, run, refused, here):
    old, flags = here("--text", text_file, *TEXT, "--positions", positions), ["--text", text_file, "--init-from", "here"]
    checkpoint = checkpoints.load(old)
    for array in checkpoint.model.values():
        array += 0.3 * np.random.default_rng(1).standard_normal(array.shape)
    checkpoints.save(old, checkpoint)
    assert run("train", *flags, "--steps", 1, "--context", 8, "--lr", 1e-9, "--optimizer", "adamw", "--out", "new")[0] == 0
    tokens = mg.tensor([[1, 2, 3, 4, 5, 6, 7, 8]])
    logits, expected = (models.load(folder)(tokens)[0].array for folder in ("new", old))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    if positions in ("learned", "relative"):
        refused([([*flags, "--context", 17], "is from another architecture: its model has a context of at most 16, not 17")], "train", codes=(1,))


def test_a_run_on_a_task_starts_from_one_on_another_task(run, refused, here):
    here("--task", "copy", "--model", "rnn", *STEPS, *SIZES[-2:])
    assert run("train", "--task", "sort", "--init-from", "here", *STEPS)[0] == 0
    assert checkpoints.load("runs/sort-rnn").architecture == "rnn"
    other = "here/checkpoint.npz is from another architecture"
    refused([(["--task", "sort", "--model", "rnn-attention"], other), (["--task", "translation"], other),
             ([], "the data is a text, so model must be one of causal, got 'rnn'")], "train", "--init-from", "here",
            codes=(1, 2))


def test_a_run_on_another_text_keeps_the_vocabulary(run, refused, here, text_file):
    here("--text", text_file, *TEXT, name="first")
    for name, text in (("few", "abc" * 200), ("other", "xyz" * 200)):
        pathlib.Path(name).write_text(text)
    assert run("train", "--text", "few", "--init-from", "first", "--steps", "1", "--out", "second")[0] == 0
    assert checkpoints.load("second").dataset["tokenizer"]["symbols"] == " abcdefghij"
    assert run("train", "--resume", "second", "--steps", "2")[0] == 0
    refused([(["--init-from", "first"], "the vocabulary has no 'x' 'y' 'z'")], "train", "--text", "other")


# ---- locks, metrics and progress ----

def test_a_folder_is_locked_while_it_is_trained_in(refused, text_run, monkeypatch):
    with locked(text_run):
        refused([([], "another process is training in here; wait until it ends\n")],
                "train", "--resume", "here", "--steps", "9", codes=(1,))
    with monkeypatch.context() as patch:
        patch.setattr(shared.tempfile, "TemporaryFile", lambda **_: (_ for _ in ()).throw(OSError(errno.EROFS, os.strerror(errno.EROFS))))
        refused([([], "cannot write to here (Read-only file system); make it writable\n")], "train", "--resume", "here", "--steps", "9")
    monkeypatch.setattr(runs.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError("no locks here")))
    with locked(text_run), locked(text_run):
        pass
    monkeypatch.setattr(runs, "fcntl", None)
    with locked(text_run):
        pass


ROW = b'{"step": 2, "loss": 1.0, "val_loss": null}\n'
LAYERS = b'{"step": 1, "loss": 1.0, "val_loss": null, "layers": %s}\n'


def test_damaged_metrics_are_repaired(tmp_path):
    for content, kept in [
        (b"", []), (None, []), (b"garbage\n", []), (b"\xff\xfe\n", []), (b"[]\n5\n", []), (b'{"step": 1}\n', []),
        (b'{"step": 1, "loss": "x", "val_loss": null}\n' + ROW, [2]), (b'{"step": 1.0, "loss": 1, "val_loss": null}\n' + ROW, [2]),
        (ROW + b"\xff\n" + b'{"step": 3, "loss": NaN, "val_loss": null}\n', [2]), (ROW + b'{"step": 3, "lo', [2]),
        (ROW + b'{"step": 3, "loss": 1.0, "val_loss": 2.0, "seconds": "2"}\n', [2]), (b"[" * 100_000 + b"\n", []),
        (b'{"step": 1, "loss": null, "val_loss": null}\n' + ROW[:-2] + b', "layers": null}\n', [2]),
        (LAYERS % b"[1]", []), (LAYERS % b'{"a": 1}', []), (LAYERS % b'{"a": {"grad_norm": "x", "update_to_weight": 1}}', []),
        (LAYERS % b'{"a": {"grad_norm": 1, "update_to_weight": null}}', [1]),
        (ROW + ROW.replace(b"2", b"6") + ROW.replace(b"2", b"7"), [2, 6]),  # later than the checkpoint
    ]:
        path = tmp_path / "metrics"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with runs.keep_metrics(path, step=6) as file:
            assert [row["step"] for _, row in read_metrics(path)] == kept, content
            file.write('{"step": 7, "loss": 1, "val_loss": null}\n')
        assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [*kept, 7], content


def test_metrics_that_are_a_pipe(run, text_run):
    os.unlink("here/metrics.jsonl")
    os.mkfifo("here/metrics.jsonl")
    code, _, err = run("train", "--resume", "here")
    assert code == 1 and "here/metrics.jsonl is a folder, pipe, socket or device, not a file; remove it" in err


def test_the_first_line_describes_the_training(run, text_file, monkeypatch):
    monkeypatch.setattr(runs, "train", press_ctrl_c)
    code, _, err = run("train", "--recipe", "nanogpt", "--text", text_file, "--steps", 9)
    assert code == 130
    assert re.match(r"runs/nano: 802,944 parameters, 3,600 training tokens, 400 validation tokens, "
                    r"a vocabulary of 11 characters, steps 0 to 9\n", err)
    monkeypatch.setattr("models.commands.train.load_corpus", press_ctrl_c)
    assert run("train") == (130, "", "minigrad: interrupted\n")


def test_the_time_left_is_shown_from_the_second_step_on(make_trainer, capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(runs.time, "monotonic", lambda: now)
    trainer = make_trainer(steps=50, eval_every=50)
    with runs.show_progress(trainer) as show:
        for now in (60, 120):  # noqa: B007  the clock reads it
            show(trainer.train_step())
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("step 1/50: loss") and "left" not in first
    assert second.startswith("step 2/50: loss") and second.endswith(" tokens/s [48:00 left]")


@pytest.mark.parametrize("columns", [0, 80])
def test_a_terminal_gets_a_bar_and_one_without_columns_gets_lines(make_trainer, monkeypatch, columns):
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    trainer = make_trainer(steps=3)
    trainer.train_step()  # may report that it compiles
    with open(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with runs.show_progress(trainer) as show:
            show(trainer.train_step())
    shown = ""
    with contextlib.suppress(OSError):  # at the end of the output
        while True:
            shown += os.read(ours, 10_000).decode(errors="replace")
    os.close(ours)
    assert ("step 2/3: loss" in shown) == (columns == 0) and ("67% |" in shown) == (columns > 0), shown


# ---- loaded ----

def test_respond_encodes_generates_and_decodes(text_run):
    for where in (text_run, text_run / checkpoints.NAME, str(text_run)):
        model = load(where)
        tokens = model.tokenizer.encode("abc de")
        assert not model.training and model.tokenizer.decode(tokens) == "abc de"
        ids = list(generate(model, tokens, 20, temperature=0.5, seed=1))
        assert models.respond(model, "abc de", tokens=20, temperature=0.5, seed=1) == "abc de" + model.tokenizer.decode(ids)
    assert len(models.respond(model)) == 301 and models.respond(model)[0] == " "


def test_prompts_that_are_no_text(small_model):
    rows = [(5, "models.respond takes a prompt of text, got 5 (int); token ids are for models.generate"),
            ([1, 2], "got [1, 2] (list)"), (b"x" * 5000, f"got b'{'x' * 58} (bytes)")]
    model = small_model(256)
    for speaker in models.tokenizers.Bytes(), TASKS["copy"]:
        model.tokenizer = speaker
        all_refused(lambda prompt: models.respond(model, prompt), rows, TypeError)
    del model.tokenizer
    all_refused(lambda prompt: models.respond(model, prompt), [(5, "the model has no tokenizer, so it works on token ids only")])
