"""`minigrad look`: a picture and a line for each head of any run that attends, and one line for what a user gets wrong."""
import os
import pathlib

import pytest

from models import checkpoint as checkpoints
from models import pictures
from models import run as runs
from models.commands import look

TINY = ["--steps", "2", "--batch-size", "4", "--eval-every", "2", "--eval-windows", "6", "--width", "8"]
SIZES = [*TINY, "--layers", "2", "--heads", "2"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def drawn(monkeypatch):
    """The maps and titles of what is drawn from now on."""
    calls = []
    monkeypatch.setattr(look, "draw_maps", lambda maps, title, path: (
        calls.append((title, maps)), pictures.draw_maps(maps, title, path)))
    return calls


@pytest.fixture
def text_run(run, text_file):
    assert run("train", "--text", text_file, *SIZES, "--context", "16", "--out", "here")[0] == 0
    return "here"


def test_a_run_on_a_text(run, text_run, drawn):
    before = {file: pathlib.Path(text_run, file).read_bytes() for file in os.listdir(text_run)}
    code, out, err = run("look", text_run, "--prompt", "ab cd")
    assert (code, err) == (0, "")
    *lines, last = out.splitlines()
    assert [line.partition(": looks most at ")[0] for line in lines] == [f"layer {i}, head {h}" for i in (1, 2) for h in (1, 2)]
    assert last == "here/look.png shows it"
    ((title, maps),) = drawn
    assert title == "" and [found.keys for found in maps] == 2 * [["a", "b", "␣", "c", "d"]]
    assert pathlib.Path("here/look.png").read_bytes().startswith(b"\x89PNG")
    assert {file: pathlib.Path(text_run, file).read_bytes() for file in before} == before
    assert run("look", "here/checkpoint.npz", "--prompt", "abc")[0] == 0  # over its own picture
    assert len(drawn[1][1][0].keys) == 3


def test_one_layer_and_one_head(run, text_run, drawn):
    code, out, _ = run("look", text_run, "--prompt", "abc", "--layer", 2, "--head", 1, "--best", "--out", "new/one.png")
    assert code == 0 and out.startswith("layer 2, head 1: looks most at ") and out.endswith("\nnew/one.png shows it\n")
    assert run("look", text_run, "--prompt", "abc", "--out", "all.png")[0] == 0
    (_, (one,)), (_, both) = drawn
    assert one.titles() == ["layer 2, head 1"] and (one.weights == both[1].weights[:1]).all()


def test_the_best_checkpoint_or_the_last(run, text_run, drawn):
    best = checkpoints.load(text_run)
    best.model["blocks.0.attention.in_proj_weight"] *= 0
    checkpoints.save(text_run, best, checkpoints.BEST)
    for flags in ([], ["--best"]):
        assert run("look", text_run, "--prompt", "abcd", *flags)[0] == 0
    is_even = [(maps[0].weights[:, -1] == 0.25).all() for _, maps in drawn]
    assert is_even == [False, True]


@pytest.mark.parametrize("task, flags, prompt, title", [
    ("bank", [], "the boat bank", "bank: the boat bank → "),
    ("bank", [], None, "bank: the a boat a the near saw bank → "),
    ("stripes", [], None, "stripes: an image → "),
    ("reverse", [], "abc", "reverse: a b c → "),
    ("reverse", ["--model", "causal"], "abc", "reverse: a b c → "),
    ("reverse", ["--model", "rnn-attention"], None, "reverse: b c d d b e j j → "),
])
def test_a_run_on_a_task(run, drawn, task, flags, prompt, title):
    sizes = TINY if "rnn-attention" in flags else SIZES
    assert run("train", "--task", task, *flags, *sizes, "--out", "here")[0] == 0
    code, out, err = run("look", "here", *(["--prompt", prompt] if prompt else []))
    assert (code, err) == (0, "") and out.endswith("here/look.png shows it\n")
    assert drawn[-1][0].startswith(title)


@pytest.mark.parametrize("arguments, says", [
    ([], "the following arguments are required: RUN"),
    (["nowhere", "--prompt", "a"], "nowhere does not exist; give the folder of a run"),
    (["."], ". holds no checkpoint.npz; give the folder of a run"),
    (["here"], "there is no text to read; give at least one character with --prompt"),
    (["here", "--prompt", ""], "there is no text to read"),
    (["here", "--prompt", "aZ"], "the vocabulary has no 'Z'"),
    (["here", "--prompt", "a" * 17], "a prompt of 17 characters does not fit into the model's context of 16"),
    (["here", "--prompt", "a", "--layer", "3"], "the model has no layer 3; choose --layer from 1 to 2"),
    (["here", "--prompt", "a", "--layer", "0"], "the model has no layer 0"),
    (["here", "--prompt", "a", "--head", "-1"], "the model has no head -1; choose --head from 1 to 2"),
    (["here", "--prompt", "a", "--layer", "one"], "--layer: invalid int value: 'one'"),
    (["here", "--prompt", "a", "--out", "here/loss.png"], "here/loss.png exists, and is no picture of attention"),
    (["here", "--prompt", "a", "--out", "folder.png"], "folder.png exists, and is no picture of attention"),
    (["here", "--prompt", "a", "--out", "look.txt"], "the picture is a PNG, but --out is 'look.txt'"),
    (["here", "--prompt", "a", "--out", ""], "the picture is a PNG"),
    (["here", "--prompt", "a", "--out", "here/loss.png/x.png"], "cannot write to here/loss.png"),
    (["here", "--prompt", "a", "--tokens", "3"], "unrecognized arguments: --tokens 3"),
])
def test_bad_input(run, text_run, arguments, says):
    pathlib.Path("folder.png").mkdir()
    before = sorted(os.listdir("here"))
    code, out, err = run("look", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("minigrad: error: ") and err.count("\n") == 1 and says in err
    assert sorted(os.listdir("here")) == before


@pytest.mark.parametrize("task, model, arguments, says", [
    ("reverse", "rnn", ["--prompt", "abc"], "the model in here/checkpoint.npz has no attention, so there is nothing to look at"),
    ("bank", "no-attention", [], "has no attention, so there is nothing to look at; give a run whose --model and --layers have some"),
    ("bank", "encoder", ["--prompt", "the loft"], "expected symbols of task 'bank'"),
    ("bank", "encoder", ["--prompt", "the " * 33], "do not fit into the model's context of 32"),
    ("stripes", "encoder", ["--prompt", "abc"], "the sources of task 'stripes' are images, which no text describes"),
])
def test_what_cannot_be_looked_at(run, task, model, arguments, says):
    assert run("train", "--task", task, "--model", model, *(TINY if model == "rnn" else SIZES), "--out", "here")[0] == 0
    code, out, err = run("look", "here", *arguments)
    assert (code, out) == (2, "") and err.startswith("minigrad: error: ") and err.count("\n") == 1 and says in err
    assert not pathlib.Path("here/look.png").exists()


def test_pictures_of_training_are_ours_too(run, text_run):
    assert pictures.is_ours(pathlib.Path(text_run, pictures.PICTURE))
    assert not pictures.is_ours(pathlib.Path(text_run, runs.PLOT))
