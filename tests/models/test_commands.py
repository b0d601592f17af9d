"""Commands on models: what they do, and one line for whatever a user gets wrong."""
import dataclasses
import errno
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import models
from minigrad.command import main
from minigrad.ops.matmul import MLP
from models import TrainingConfig, TransformerConfig
from models import checkpoint as checkpoints
from models import gradcheck
from models import run as runs
from models.pictures import PICTURE
from models.recipes import DEFAULT, RECIPES
from refusals import one_line

TINY = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--batch-size", "2", "--steps", "6",
        "--eval-every", "3", "--eval-windows", "2"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def finished_run(text_file, tmp_path_factory):
    """A run of 6 steps, for tests that only read it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert main(["train", *TINY, "--text", str(text_file), "--out", str(folder)]) == 0
    return folder


def test_train_sample_and_numbered_folders(run, text_file):
    for folder in ("runs/nano", "runs/nano-2"):
        code, out, err = run("train", *TINY, "--text", text_file)
        assert code == 0 and "6 steps in" in out and "step 6/6: loss" in err
        assert set(os.listdir(folder)) == {*runs.FILES, PICTURE}
    code, out, err = run("sample", "--checkpoint", "runs/nano", "--prompt", "abc", "--tokens", 20, "--seed", 1)
    assert (code, err, out[:3], len(out)) == (0, "", "abc", 24)
    assert run("sample", "--checkpoint", "runs/nano", "--prompt", "abc", "--tokens", 20, "--seed", 1)[1] == out
    path = "runs/nano-2/checkpoint.npz"
    assert len(run("sample", "--checkpoint", path, "--tokens", 5, "--temperature", 0, "--top-k", 2)[1]) == 7


def test_presets_and_flags_reach_the_checkpoint(run, text_file):
    code, _, _ = run("train", "--preset", "micro", "--text", text_file, "--steps", 1, "--no-bias", "--dropout", 0.1,
                     "--lr", 0.01, "--seed", 5, "--beta2", 0.95, "--out", "here")
    checkpoint = checkpoints.load("here")
    assert code == 0 and checkpoint.step == 1
    assert checkpoint.config | dict(width=32, context=32, bias=False, dropout=0.1) == checkpoint.config
    assert checkpoint.training | dict(batch_size=4, lr=0.01, seed=5, beta2=0.95, steps=1) == checkpoint.training


def test_recipes_and_flags_that_change_them_reach_the_checkpoint(run, text_file):
    flags = "--text", text_file, "--preset", "micro", "--steps", 1
    for folder, arguments, fields in (
            ("by default", (), RECIPES[DEFAULT]), ("named", ("--recipe", DEFAULT), RECIPES[DEFAULT]),
            ("nanogpt", ("--recipe", "nanogpt"), RECIPES["nanogpt"]),
            ("changed", ("--recipe", DEFAULT, "--positions", "learned", "--lr", 0.5), dataclasses.replace(
                RECIPES[DEFAULT], model={**RECIPES[DEFAULT].model, "positions": "learned"},
                training={**RECIPES[DEFAULT].training, "lr": 0.5}))):
        assert run("train", *flags, *arguments, "--out", folder)[0] == 0
        checkpoint = checkpoints.load(folder)
        assert checkpoint.config | dict(fields.model) | {"width": 32, "layers": 2} == checkpoint.config
        assert checkpoint.training | dict(fields.training) | {"batch_size": 4, "steps": 1} == checkpoint.training
        assert run("train", "--resume", folder, "--preset", "micro", *arguments, "--steps", 2)[0] == 0


def test_the_recipe_nanogpt_is_the_defaults_of_the_configs():
    recipe, fields = RECIPES["nanogpt"], {**RECIPES["nanogpt"].model, **RECIPES["nanogpt"].training}
    assert TransformerConfig(**recipe.model) == TransformerConfig() and TrainingConfig(**recipe.training) == TrainingConfig()
    assert {name for other in RECIPES.values() for name in {**other.model, **other.training}} == fields.keys()


def test_resume_for_more_steps(run, text_file):
    train = ["train", *TINY, "--text", text_file, "--out", "here"]
    assert run(*train)[0] == 0
    code, out, _ = run("train", "--resume", "here", "--steps", 9)
    assert code == 0 and "9 steps in" in out
    metrics = pathlib.Path("here/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in metrics] == list(range(1, 10))
    assert run("train", "--resume", "--out", "here")[0] == 0  # nothing left to do: the report again
    assert run("train", "--resume", "here/checkpoint.previous.npz")[0] == 0


def test_the_last_run_need_not_be_named(run, text_file):
    for name in ("old", "new"):
        assert run("train", *TINY, "--text", text_file, "--out", f"runs/{name}")[0] == 0
    os.utime("runs/old/checkpoint.npz", (0, 0))
    os.utime("runs/old/checkpoint.previous.npz", (0, 0))
    assert run("train", "--resume", "--steps", 7)[0] == 0
    assert (checkpoints.load("runs/old").step, checkpoints.load("runs/new").step) == (6, 7)
    for flags in ["--seed", 1], ["--seed", 1, "--best"]:
        code, out, err = run("sample", *flags)
        assert (code, err) == (0, "runs/new, the run saved last:\n")
        assert (0, out, "") == run("sample", "--checkpoint", "runs/new", *flags)


def test_gradcheck(run, monkeypatch):
    code, out, _ = run("gradcheck")
    rows = [line for line in out.splitlines() if line.startswith(("  token_", "  position_", "  blocks.", "  ln_f", "  read_"))]
    assert code == 0 and len(rows) == 45 and all(row.endswith("pass") for row in rows)
    assert out.count("side checks: all") == 2 and all(f"recipe {name}, " in out for name in RECIPES)
    assert out.endswith("45 of 45 gradients are right\n")


def test_gradcheck_sees_a_wrong_gradient(run, monkeypatch):
    right = MLP.backward
    monkeypatch.setattr(MLP, "backward", lambda self, dout, *saved: right(self, 1.0001 * dout, *saved))
    small = TransformerConfig(vocabulary_size=5, context=3, layers=1, heads=2, width=4, dtype="float64")
    monkeypatch.setattr(gradcheck, "CONFIG", small)
    code, out, _ = run("gradcheck")
    assert code == 1 and re.findall(r"gradcheck of CausalTransformer: (\w+)", out) == ["PASS", "FAIL"]
    assert re.search("[0-9]+ of 26 gradients are right", out)


@pytest.mark.parametrize("arguments, says", [
    (["train", "--quickly"], "unrecognized arguments: --quickly; see `minigrad train --help`"),
    (["train", "--layer", "2"], "unrecognized arguments: --layer 2 (did you mean --layers?); see `minigrad train --help`"),
    (["train", "--step=1000000"], "unrecognized arguments: --step=1000000 (did you mean --steps?)"),
    (["train", "steps", "3"], "unrecognized arguments: steps 3 (did you mean --steps?)"),
    (["train", "--no-bia"], "unrecognized arguments: --no-bia (did you mean --no-bias?)"),
    (["train", "--steps"], "--steps: expected one argument"),
    (["train", "--steps", "many"], "--steps: invalid int value: 'many'"),
    (["train", "--preset", "giant"], "'giant'"),
    (["train", "--recipe", "soup"], "'soup' (choose from"),
    (["train", "--steps", "0"], "steps must be a whole number from 1"),
    (["train", "--batch-size", "-4"], "batch_size must be"),
    (["train", "--lr", "nan"], "lr must be more than 0 and at most 1, got nan"),
    (["train", "--lr", "inf"], "lr must be"),
    (["train", "--lr", "0"], "lr must be"),
    (["train", "--width", "0"], "width must be"),
    (["train", "--layers", "0"], "this model has none; give --layers 1 or more, or --optimizer adamw"),
    (["train", "--layers", "100000", "--width", "1"], "layers must be a whole number from 0 to 10000, got 100000"),
    (["train", "--heads", "5"], "heads must divide width, got heads 5 and width 128; change one of them"),
    (["train", "--dropout", "1"], "dropout must be"),
    (["train", "--dtype", "int8"], "dtype must be float32 or float64"),
    (["train", "--seed", "-1"], "seed must be"),
    (["train", "--eval-every", "0"], "eval_every must be"),
    (["train", "--width", "1000000000", "--heads", "1"], "GB to train, and this computer has"),
    (["train", "--batch-size", "1000000000"], "GB to train"),
    (["train", "--context", "100000", "--batch-size", "1"], "too short"),
    (["train", "--vocabulary-size", "50"], "--vocabulary-size is 50, but the tokenizer has 96 tokens; leave the flag out"),
    (["train", "--threads", "0"], "--threads: expected a number of threads from 1"),
    (["train", "--threads", "9999"], "--threads: expected a number of threads from 1"),
    (["train", "--text", "nowhere.txt"], "cannot read nowhere.txt (No such file or directory)"),
    (["train", "--text", "."], ". holds no index.json; write one with `minigrad prepare FILES --to .`"),
    (["train", "--text", ""], "cannot read '' (No such file or directory)"),
    (["train", "--text", "/dev/zero"], "/dev/zero is a pipe, socket or device; write its text into a file"),
    (["train", "--text", "x" * 300], "(File name too long)"),
    (["train", "--out", ""], "--out is empty"),
    (["train", "--resume", ""], "the name of the run to resume is empty"),
    (["train", "--resume", "--out", ""], "the name of the run to resume is empty"),
    (["train", "--resume", "/dev/zero"], "/dev/zero is a pipe, socket or device, not a file"),
    (["sample", "--checkpoint", "/dev/zero"], "/dev/zero is a pipe, socket or device, not a file"),
    (["sample", "--checkpoint", ""], "holds no checkpoint.npz"),
    (["train", "--text", "empty.txt"], "empty.txt is empty"),
    (["train", "--text", "binary.txt"], "binary.txt is binary"),
    (["train", "--text", "latin.txt"], "latin.txt is not UTF-8"),
    (["train", "--text", "short.txt"], "short.txt is too short"),
    (["train", "--out", "empty.txt"], "cannot write to empty.txt"),
    (["train", "--out", "empty.txt/run"], "cannot write to empty.txt/run (Not a directory)"),
    (["train", "--out", "old"], "old already holds metrics.jsonl; go on with --resume old"),
    (["train", "--resume"], "there is no run in runs/; name one: --resume RUN"),
    (["train", "--resume", "nowhere"], "nowhere does not exist"),
    (["train", "--resume", "old"], "old holds no checkpoint.npz"),
    (["sample"], "there is no run in runs/; name one: --checkpoint RUN"),
    (["sample", "--checkpoint", "nowhere"], "nowhere does not exist"),
])
def test_bad_input(run, arguments, says):
    for name, content in (("empty.txt", b""), ("binary.txt", b"a\0" * 500), ("latin.txt", "ä".encode("latin-1") * 500),
                          ("short.txt", b"a" * 99)):
        pathlib.Path(name).write_bytes(content)
    precious = pathlib.Path("old/metrics.jsonl")
    precious.parent.mkdir()
    precious.write_text("precious")
    before = sorted(os.listdir("."))
    one_line(run(*arguments), says, codes=(2,))
    assert sorted(os.listdir(".")) == before and precious.read_text() == "precious"


@pytest.mark.parametrize("arguments, says", [
    (["--prompt", "Ä?"], "the vocabulary has no 'Ä' '?'; it knows these 11: ' abcdefghij'"),
    (["--prompt", ""], "the prompt is empty"),
    (["--tokens", "0"], "tokens must be"),
    (["--temperature", "-1"], "temperature must be"),
    (["--temperature", "nan"], "temperature must be"),
    (["--top-k", "0"], "top_k must be"),
    (["--top-p", "1.1"], "top_p must be"),
    (["--seed", "-1"], "seed must be"),
])
def test_bad_sampling(run, finished_run, arguments, says):
    one_line(run("sample", "--checkpoint", finished_run, *arguments), says, codes=(2,))


@pytest.mark.parametrize("arguments, says", [
    (["--width", "32"], "--width is 32, but"),
    (["--preset", "micro"], "--preset micro has --layers 2, but"),
    (["--preset", "micro", "--layers", "1", "--width", "16"], "with 16; a resumed run keeps it: leave --preset micro out, or"),
    (["--recipe", "nanogpt"], "--recipe nanogpt has --bias True, but"),
    (["--recipe", "nanogpt", "--lr", "0.5"], "--lr is 0.5, but"),
    (["--muon-lr", "0.5"], "--muon-lr is 0.5, but"),
    (["--lr", "0.5"], "--lr is 0.5, but"),
    (["--steps", "5"], "--steps is 5, but"),
    (["--steps", "0"], "steps must be"),
    (["--text", "other.txt"], "is not the text that"),
    (["--out", "elsewhere"], "; drop --out"),
])
def test_bad_resume(run, finished_run, arguments, says):
    pathlib.Path("other.txt").write_text("abcdefghij " * 100)
    before = (finished_run / checkpoints.NAME).read_bytes()
    one_line(run("train", "--resume", finished_run, *arguments), says, codes=(2,))
    assert (finished_run / checkpoints.NAME).read_bytes() == before


def test_bad_checkpoints(run, finished_run, tmp_path):
    content = (finished_run / checkpoints.NAME).read_bytes()
    checkpoint, flipped = checkpoints.load(finished_run), bytearray(content)
    flipped[content.index(checkpoint.model["token_embedding.weight"].tobytes()) + 50] ^= 1
    checkpoint.config["width"] = 32
    wrong_shapes = checkpoints.save(tmp_path, checkpoint).read_bytes()
    checkpoint.config = {"experts": 8}
    wrong_config = checkpoints.save(tmp_path, checkpoint).read_bytes()
    for damaged, says in (
        (content[:-100], "is no .npz file, or only a part of one"), (bytes(flipped), "is damaged (Bad CRC-32"),
        (pickle.dumps({"model": 1}), "is no .npz file"), (b"", "is no .npz file"),
        (wrong_shapes, "is from another architecture"), (wrong_config, "is not of a model that this version knows"),
    ):
        (tmp_path / "bad.npz").write_bytes(damaged)
        one_line(run("sample", "--checkpoint", "bad.npz"), f"bad.npz {says}")
        one_line(run("train", "--resume", "bad.npz"), f"bad.npz {says}")


def change(finished_run, **fields) -> None:
    """Save the checkpoint of a run here, with other fields."""
    checkpoints.save(".", dataclasses.replace(checkpoints.load(finished_run), **fields))


@pytest.mark.parametrize("number, says", [(np.nan, "holds NaN or infinity"), (1e15, "the model's logits are not finite")])
def test_parameters_that_are_broken(run, finished_run, number, says):
    arrays = {name: np.full_like(array, number) for name, array in checkpoints.load(finished_run).model.items()}
    change(finished_run, model=arrays)
    code, _, err = run("sample", "--checkpoint", ".")
    assert code == 1 and err.startswith("minigrad: error: checkpoint.npz") and err.count("\n") == 1 and says in err


def test_many_layers_that_are_not_there(run, finished_run):
    for layers in (9999, 10 ** 7):
        change(finished_run, config=checkpoints.load(finished_run).config | {"layers": layers})
        one_line(run("sample", "--checkpoint", "."), "checkpoint.npz is", codes=(1,))
        one_line(run("train", "--resume", "."), "checkpoint.npz is", codes=(1,))


def test_text_larger_than_memory(run, text_file, monkeypatch):
    monkeypatch.setattr("models.commands.train.memory_size", lambda: 10_000)
    monkeypatch.setattr("models.commands.train.check_memory", lambda config, batch_size: None)
    one_line(run("train", *TINY, "--text", text_file), "takes about 0 GB to read, and this computer has 0 GB", codes=(2,))


def test_what_will_be_trained_is_said_before(run, text_file, monkeypatch):
    def interrupt(trainer, folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "train", interrupt)
    code, _, err = run("train", "--recipe", "nanogpt", "--text", text_file, "--steps", 9)
    assert code == 130
    assert re.match(r"runs/nano: 802,944 parameters, 3,600 tokens to train on, 400 to validate, "
                    r"a vocabulary of 11 characters, steps 0 to 9\n", err)


def test_full_disk_while_training(run, text_file, monkeypatch):
    arguments = ["train", *TINY, "--text", text_file, "--out", "here"]
    fsync, calls = os.fsync, []

    def fill_up(descriptor):
        calls.append(descriptor)
        if len(calls) > 8:  # each flushes its file and its folder: a checkpoint, metrics, two of step 3; this is of step 6
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill_up)
    code, _, err = run(*arguments)
    assert code == 1 and err.splitlines()[-1].startswith("minigrad: error: cannot save here/checkpoint")
    assert checkpoints.load("here").step == 3
    monkeypatch.setattr(os, "fsync", fsync)
    assert run("train", "--resume", "here")[0] == 0


def test_ctrl_c_saves_and_can_be_resumed(run, text_file, monkeypatch):
    arguments = ["train", *TINY, "--text", text_file, "--out"]
    code, _, err = run(*arguments, "whole")
    assert code == 0 and re.fullmatch(r"(?s).*step 6/6.*\ndrawing pictures ...\n", err)
    train_step = runs.Trainer.train_step

    def press_ctrl_c(trainer):
        if trainer.step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return train_step(trainer)

    monkeypatch.setattr(runs.Trainer, "train_step", press_ctrl_c)
    code, _, err = run(*arguments, "here")
    assert code == 130
    assert err.endswith("\ndrawing pictures ...\n"
                        "minigrad: stopped after step 2; the checkpoint is saved: go on with --resume here\n")
    assert checkpoints.load("here").step == 2
    monkeypatch.setattr(runs.Trainer, "train_step", train_step)
    assert run("train", "--resume", "here")[0] == 0
    one, two = checkpoints.load("whole"), checkpoints.load("here")
    assert all(np.array_equal(array, two.model[name]) for name, array in one.model.items())


def test_ctrl_c_in_the_first_step_which_may_compile_kernels_stops_at_once(run, text_file, monkeypatch):
    def press_ctrl_c(self, batch):
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the step goes on")

    with monkeypatch.context() as first_step:
        first_step.setattr(runs.Trainer, "_part_of_loss", press_ctrl_c)
        code, out, err = run("train", *TINY, "--text", text_file, "--out", "here")
    assert (code, out) == (130, "") and checkpoints.load("here").step == 0
    assert err.endswith("minigrad: stopped before step 1; go on with --resume here\n")
    assert run("train", "--resume", "here")[0] == 0


def test_ctrl_c_before_training(run, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("models.commands.train.load_corpus", interrupt)
    assert run("train") == (130, "", "minigrad: interrupted\n")


def test_real_process_interrupted_and_its_reader_gone(text_file, finished_run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(models.__file__).parents[1]))
    train = [sys.executable, "-m", "minigrad", "train", *TINY, "--steps", "1000000", "--text", str(text_file)]
    with subprocess.Popen(train, stderr=subprocess.PIPE, text=True) as process:
        while not process.stderr.readline().startswith("step 1/"):
            pass
        process.send_signal(signal.SIGINT)
        assert "the checkpoint is saved: go on with --resume runs/nano" in process.stderr.read()
    assert process.returncode == 130 and checkpoints.load("runs/nano").step >= 1

    sample = [sys.executable, "-m", "minigrad", "sample", "--checkpoint", str(finished_run), "--tokens", "1000000"]
    with subprocess.Popen(sample, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(5)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
