"""`minigrad train --task`: what it leaves and prints, and one line for whatever a user gets wrong."""
import json
import os
import pathlib

import numpy as np
import pytest

import minigrad as mg
from models import run as runs
from models import task_run as task_runs
from models.encoder_decoder import STOP
from models.task_training import CLASS_MODELS, MODELS, SEQUENCE_MODELS, TaskTraining, make_model
from models.tasks import TASKS
from models.train import TrainingError
from models.transformer import TransformerConfig

TINY = ["--steps", "4", "--batch-size", "4", "--width", "8"]
TINY_TRANSFORMER = [*TINY, "--layers", "1", "--heads", "2"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(task_runs, "TEST_EXAMPLES", 10)


def rows_of(folder: str) -> list[dict]:
    return [json.loads(line) for line in pathlib.Path(folder, task_runs.METRICS).read_text().splitlines()]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_leaves_its_files(run, model):
    task = "reverse" if model in SEQUENCE_MODELS else "sentiment"
    sizes = TINY if model.startswith("rnn") else TINY_TRANSFORMER
    code, out, err = run("train", "--task", task, "--model", model, *sizes)
    folder = f"runs/{task}-{model}"
    assert code == 0 and f"{folder} (" in err and "step 4/4: loss" in err
    pictures = [task_runs.PICTURE] if model in task_runs.LOOK_AT_THE_SOURCE else []
    assert sorted(os.listdir(folder)) == sorted([task_runs.METRICS, task_runs.MODEL, *pictures])
    assert out.count("source: ") == out.count("wanted: ") == out.count("got: ") == 3
    assert "4 steps in" in out and "length 4:" in out and "overall:" in out and f"{folder}{os.sep} holds" in out


@pytest.mark.parametrize("task", TASKS)
def test_every_task_with_its_default_model(run, task):
    assert run("train", "--task", task, *TINY_TRANSFORMER)[0] == 0
    folder = f"runs/{task}-{'encoder-decoder' if TASKS[task].kind == 'sequence' else 'encoder'}"
    rows = rows_of(folder)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 4]
    shortest, longest = TASKS[task].lengths
    assert list(rows[-1]["accuracy_by_length"]) == [str(length) for length in range(shortest, longest + 1)]
    assert rows[-1]["accuracy"] == pytest.approx(np.mean(list(rows[-1]["accuracy_by_length"].values())))


def test_the_saved_model_is_the_trained_one_and_seeds_decide(run):
    flags = ["--task", "copy", *TINY_TRANSFORMER, "--lr", 0.01]
    for seed, out in ((5, "one"), (5, "same"), (6, "other")):
        assert run("train", *flags, "--seed", seed, "--out", out)[0] == 0
    one, same, other = ([row["loss"] for row in rows_of(out)[:-1]] for out in ("one", "same", "other"))
    assert one == same != other
    config = TransformerConfig(context=32, layers=1, heads=2, width=8)
    model = make_model(TASKS["copy"], "encoder-decoder", config, seed=5)
    saved = np.load(pathlib.Path("one", task_runs.MODEL))
    assert any(not np.array_equal(saved[name], value.array) for name, value in model.state_dict().items())
    model.load_state_dict(dict(saved))


def make_run(task: str, **fields) -> task_runs.TaskRun:
    return task_runs.TaskRun(task, None, TransformerConfig(layers=1, heads=2, width=8), TaskTraining(**fields))


def test_a_run_starts_from_its_seed_and_shows_new_examples():
    task_run = make_run("copy", seed=5)
    expected = make_model(TASKS["copy"], "encoder-decoder", TransformerConfig(layers=1, heads=2, width=8), seed=5)
    for parameter, other in zip(task_run.model.parameters(), expected.parameters(), strict=True):
        np.testing.assert_array_equal(parameter.array, other.array)
    source, _ = task_run.examples(4)
    assert source.shape == (4, 8)
    np.testing.assert_array_equal(source, TASKS["copy"].make(np.random.default_rng(task_runs.TEST_SEED), 4, 8)[0])


def test_accuracies_are_of_each_length(monkeypatch):
    monkeypatch.setattr(task_runs, "accuracy", lambda task, model, count, length: length / 10)
    by_length, overall = task_runs.accuracies(make_run("copy"))
    assert by_length == {length: length / 10 for length in range(3, 9)} and overall == pytest.approx(0.55)


def test_examples_show_what_the_model_says(monkeypatch):
    monkeypatch.setattr(task_runs, "greedy", lambda model, source, most: np.full((len(source), 2), [3, STOP]))
    for (source, wanted, got), ids in zip(task_runs.example_texts(copying := make_run("copy")), copying.examples(3)[0]):
        assert source == wanted == TASKS["copy"].text(ids) and got == "a"
    judging = make_run("sentiment")
    labels = judging.examples(task_runs.EXAMPLES)[1]
    monkeypatch.setattr(judging.model, "forward", lambda source: (mg.tensor(np.eye(2)[1 - labels]), None))  # always wrong
    assert [text[1:] for text in task_runs.example_texts(judging)] == [
        (("bad", "good")[label], ("good", "bad")[label]) for label in labels]


def test_a_context_that_is_too_short_is_noticed_before_training():
    with pytest.raises(ValueError, match="the examples of task 'copy' do not fit into --context 8"):
        task_runs.TaskRun("copy", None, TransformerConfig(context=8, layers=1, heads=2, width=8), TaskTraining())


def test_numbered_folders(run):
    for folder in ("runs/bank-no-attention", "runs/bank-no-attention-2"):
        assert run("train", "--task", "bank", "--model", "no-attention", *TINY_TRANSFORMER)[0] == 0
        assert pathlib.Path(folder, task_runs.MODEL).exists()


def test_batches_that_grow_and_accumulate(run):
    flags = ["--final-batch-size", 8, "--accumulation", 2, "--label-smoothing", 0.1]
    assert run("train", "--task", "sort", *TINY_TRANSFORMER, *flags)[0] == 0


def test_a_loss_that_is_not_finite(monkeypatch, tmp_path):
    monkeypatch.setattr(task_runs, "train", lambda task, model, training, report: report(1, float("nan")))
    task_run = task_runs.TaskRun("copy", None, TransformerConfig(layers=1, heads=2, width=8), TaskTraining(steps=4))
    with pytest.raises(TrainingError, match="the loss became nan at step 1; start anew with a smaller --lr"):
        task_runs.run(task_run, tmp_path)


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
    (["--task", "bank", "--model", "rnn"], "task 'bank' makes a class, so model must be one of encoder, no-attention"),
    (["--task", "copy", "--text", "words.txt"], "--text makes no sense with --task copy; leave it out"),
    (["--task", "copy", "--preset", "nano"], "--preset makes no sense with --task copy"),
    (["--task", "copy", "--resume"], "--resume makes no sense with --task copy"),
    (["--task", "copy", "--eval-every", "5"], "--eval-every makes no sense with --task copy"),
    (["--task", "copy", "--beta2", "0.9"], "--beta2 makes no sense with --task copy"),
    (["--task", "copy", "--vocabulary-size", "5"], "--vocabulary-size makes no sense with --task copy"),
    (["--task", "bank", "--label-smoothing", "0.1"], "--label-smoothing makes no sense with --task bank"),
    (["--task", "copy", "--model", "rnn", "--layers", "2"], "--layers makes no sense with --model rnn"),
    (["--task", "copy", "--context", "8"], "the examples of task 'copy' do not fit into --context 8"),
    (["--task", "copy", "--model", "causal", "--context", "16"], "do not fit into --context 16"),
    (["--task", "copy", "--steps", "0"], "steps must be a whole number from 1"),
    (["--task", "copy", "--lr", "nan"], "lr must be more than 0 and at most 1, got nan"),
    (["--task", "copy", "--seed", "-1"], "seed must be"),
    (["--task", "copy", "--final-batch-size", "2"], "final_batch_size must be a whole number from 64"),
    (["--task", "copy", "--label-smoothing", "1"], "label_smoothing must be"),
    (["--task", "copy", "--heads", "3"], "heads must divide width, got heads 3 and width 64"),
    (["--task", "copy", "--batch-size", "1000000000"], "GB to train"),
    (["--task", "copy", "--out", "old"], "old already holds model.npz; choose another --out"),
    (["--model", "rnn"], "--model needs --task; name a task, or leave it out"),
    (["--label-smoothing", "0.1"], "--label-smoothing needs --task"),
])
def test_bad_input(run, arguments, says, monkeypatch):
    for module in task_runs, runs:  # a mistake must not end in a long training
        monkeypatch.delattr(module, "train")
    precious = pathlib.Path("old/model.npz")
    precious.parent.mkdir()
    precious.write_text("precious")
    one_line(run("train", *arguments), says)
    assert os.listdir(".") == ["old"] and precious.read_text() == "precious"


def test_the_names_of_models_say_their_kind():
    assert not SEQUENCE_MODELS.keys() & CLASS_MODELS.keys()
    assert set(task_runs.DEFAULT_MODELS.values()) <= set(MODELS) >= set(task_runs.LOOK_AT_THE_SOURCE)
