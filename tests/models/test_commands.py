"""`minigrad train`, `sample`, `look` and `gradcheck`: what their flags do, and the one-line errors of bad input."""
import dataclasses
import errno
import os
import pathlib
import re
import shlex

import numpy as np
import pytest

from minigrad.implementations import implementations
from minigrad.ops.matmul import MLP, MatMul
from models import TrainingConfig, TransformerConfig, pictures
from models import checkpoint as checkpoints
from models import run as runs
from models.commands import gradcheck, look
from models.pictures import draw_maps
from models.recipes import DEFAULT, RECIPES, given_fields
from models.train import precision
from refusals import one_line
from small_runs import COPY, SIZES, STEPS, TEXT


# ---- what flags do ----

def test_presets_recipes_and_flags_reach_the_checkpoint(run, text_file):
    flags = "--text", text_file, "--preset", "micro", "--steps", 1
    for arguments, fields, changes in (
            ((), RECIPES[DEFAULT], {}), (("--recipe", "nanogpt"), RECIPES["nanogpt"], {}),
            (("--recipe", DEFAULT, "--positions", "learned", "--lr", 0.5, "--bias", "--seed", 5), RECIPES[DEFAULT],
             {"positions": "learned", "lr": 0.5, "bias": True, "seed": 5})):
        folder = " ".join(map(str, arguments)) or "by default"
        assert run("train", *flags, *arguments, "--out", folder)[0] == 0
        checkpoint = checkpoints.load(folder)
        came = given_fields(TransformerConfig(**checkpoint.config)) | checkpoint.training
        changes = changes | {"precision": precision(fields.fields["precision"], "float32")}
        assert came | fields.fields | {"width": 32, "layers": 2, "context": 32, "batch_size": 4, "steps": 1} | changes == came
        assert run("train", "--resume", folder, "--preset", "micro", *arguments, "--steps", 2)[0] == 0


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_resumed_run_keeps_its_precision(run, text_file, precision):
    run("train", "--text", text_file, "--preset", "micro", "--steps", 1, "--precision", precision, "--out", "r")
    for asked in (), ("--precision", "auto"), ("--recipe", DEFAULT):
        assert run("train", "--resume", "r", *asked, "--steps", 2)[0] == 0
        assert checkpoints.load("r").training["precision"] == precision
    if precision == "float32":  # the only one before there was the field
        before = checkpoints.load("r")
        before.training.pop("precision")
        checkpoints.save("r", before)
    other = {"float32": "bfloat16", "bfloat16": "float32"}[precision]
    code, _, err = run("train", "--resume", "r", "--precision", other)
    assert code == 2 and f"--precision is {other}, but r/checkpoint.npz was trained with {precision}" in err


def test_a_run_in_bfloat16_cannot_be_resumed_without_kernels(run, text_file, monkeypatch):
    run("train", "--text", text_file, "--preset", "micro", "--steps", 1, "--precision", "bfloat16", "--out", "r")
    monkeypatch.delitem(implementations, MatMul)
    code, _, err = run("train", "--resume", "r", "--steps", 2)
    assert code == 2 and re.fullmatch("minigrad: error: r: precision bfloat16: [^\n]* need the kernels, but Numba[^\n]*\n", err)


def test_the_recipe_nanogpt_is_the_defaults_of_the_configs():
    recipe = RECIPES["nanogpt"]
    assert TransformerConfig(**recipe.model) == TransformerConfig() and TrainingConfig(**recipe.training) == TrainingConfig()
    assert {name for other in RECIPES.values() for name in other.fields} == recipe.fields.keys()


def test_gradcheck(run, monkeypatch):
    small = TransformerConfig(vocabulary_size=5, context=3, layers=1, heads=2, width=4, dtype="float64")
    monkeypatch.setattr(gradcheck, "CONFIG", small)
    code, out, _ = run("gradcheck")
    rows = [line for line in out.splitlines() if line.startswith(("  token_", "  position_", "  blocks.", "  ln_f", "  read_"))]
    assert code == 0 and len(rows) == 26 and all(row.endswith("pass") for row in rows)
    assert out.count("side checks: all") == 2 and all(f"recipe {name}, " in out for name in RECIPES)
    assert out.endswith("26 of 26 gradients are right\n")
    right = MLP.backward
    monkeypatch.setattr(MLP, "backward", lambda self, dout, *saved: right(self, 1.0001 * dout, *saved))
    code, out, _ = run("gradcheck")
    assert code == 1 and re.findall(r"gradcheck of CausalTransformer: (\w+)", out) == ["PASS", "FAIL"]
    assert re.search("[0-9]+ of 26 gradients are right", out)


# ---- bad input ----

BAD_TRAINING = [
    (["--quickly"], "unrecognized arguments: --quickly; see `minigrad train --help`"),
    (["--layer", "2"], "unrecognized arguments: --layer 2 (did you mean --layers?); see `minigrad train --help`"),
    (["--step=1000000"], "unrecognized arguments: --step=1000000 (did you mean --steps?)"),
    (["steps", "3"], "unrecognized arguments: steps 3 (did you mean --steps?)"),
    (["--no-bia"], "unrecognized arguments: --no-bia (did you mean --no-bias?)"),
    (["--steps"], "--steps: expected one argument"),
    (["--steps", "many"], "--steps: invalid int value: 'many'"),
    (["--preset", "giant"], "'giant'"),
    (["--recipe", "soup"], "'soup' (choose from"),
    (["--task", "fly"], "'fly'"),
    (["--task"], "--task: expected one argument"),
    (["--lr", "nan"], "lr must be more than 0 and at most 1, got nan"),
    (["--layers", "0"], "this model has none; give --layers 1 or more, or --optimizer adamw"),
    (["--heads", "5"], "heads must divide width, got heads 5 and width 128; change one of them"),
    (["--width", "1000000000", "--heads", "1"], "GB to train, and this computer has"),
    (["--batch-size", "1000000000"], "GB to train"),
    (["--task", "copy", "--final-batch-size", "1000000000"], "GB to train"),
    (["--vocabulary-size", "50"], "--vocabulary-size is 50, but the tokenizer has 96 tokens; leave the flag out"),
    (["--threads", "0"], "--threads: expected a number of threads from 1"),
    (["--threads", "9999"], "--threads: expected a number of threads from 1"),
    (["--text", "nowhere.txt"], "cannot read nowhere.txt (No such file or directory)"),
    (["--text", "."], "cannot read . (Is a directory); give a text file with --text"),
    (["--text", ""], "cannot read '' (No such file or directory)"),
    (["--text", "/dev/zero"], "/dev/zero is a pipe, socket or device; write its text into a file"),
    (["--text", "x" * 300], "(File name too long)"),
    (["--text", "empty.txt"], "empty.txt is empty"),
    (["--text", "short.txt"], "short.txt is too short"),
    (["--out", ""], "--out is empty"),
    (["--out", "empty.txt"], "cannot write to empty.txt"),
    (["--out", "empty.txt/run"], "cannot write to empty.txt/run (Not a directory)"),
    (["--out", "old"], "old already holds attention.png; continue with --resume old"),
    (["--resume"], "there is no run in runs/; name one: --resume RUN"),
    (["--resume", ""], "the name of the run is empty"), (["--init-from", ""], "the name of the run is empty"),
    (["--resume", "--out", ""], "the name of the run is empty"),
    (["--resume", "/dev/zero"], "/dev/zero is a pipe, socket or device, not a file"),
    (["--resume", "nowhere"], "nowhere does not exist"),
    (["--resume", "old"], "old holds no checkpoint.npz"),
    (["--task", "copy", "--model", "oracle"],
     "task 'copy' outputs a sequence, so model must be one of encoder-decoder, causal, rnn, rnn-attention, got 'oracle'"),
    (["--task", "copy", "--model", ""], "got ''"),
    (["--model", "rnn"], "the data is a text, so model must be one of causal, got 'rnn'"),
    (["--task", "copy", "--text", "words.txt"], "--text makes no sense with --task copy; leave it out"),
    (["--task", "copy", "--preset", "nano"], "--preset makes no sense with --task copy"),
    (["--task", "copy", "--recipe", "muon"], "--recipe makes no sense with --task copy"),
    (["--task", "copy", "--vocabulary-size", "5"], "--vocabulary-size makes no sense with --task copy"),
    (["--task", "copy", "--tokenizer", "bytes"], "--tokenizer makes no sense with --task copy"),
    (["--task", "copy", "--model", "rnn", "--layers", "2"], "--layers makes no sense with --model rnn"),
    (["--task", "copy", "--model", "rnn", "--norm", "rms_norm"], "--norm makes no sense with --model rnn"),
    (["--task", "bank", "--no-tied"], "tied makes no sense for a classifier, got False; leave tied out"),
    (["--task", "bank", "--model", "no-attention", "--head-size", "4"], "head_size makes no sense for a model without attention"),
    (["--hidden-width", "64", "--mlp-ratio", "2"], "mlp_ratio 2 makes hidden_width 256, got 64; leave one of them out"),
    (["--task", "copy", "--context", "8"], "the examples of task 'copy' do not fit into --context 8"),
    (["--task", "copy", "--model", "causal", "--context", "16"], "do not fit into --context 16"),
    (["--task", "reverse", "--layers", "0"], "layers must be at least 1, got 0"),
    (["--task", "copy", "--muon-lr", "0.1"], "--muon-lr makes no sense with --optimizer adamw, the default here; leave it out"),
    (["--optimizer", "adamw", "--muon-momentum", "0.5"], "--muon-momentum makes no sense with --optimizer adamw"),
    (["--annealing", "constant", "--final-lr", "0.1"], "--final-lr makes no sense with --annealing constant; leave it out"),
    (["--init-from", "old", "--preset", "nano"], "--preset makes no sense with --init-from old"),
    (["--init-from", "old", "--recipe", "muon"], "--recipe makes no sense with --init-from old"),
    (["--init-from", "old", "--tokenizer", "bytes"], "--tokenizer makes no sense with --init-from old"),
    (["--resume", "--init-from", "old"], "--init-from makes no sense with --resume; leave it out"),
    (["--tokenizer", "words"], "--tokenizer 'words' is neither characters nor bytes, nor a readable file or folder"),
    (["--tokenizer", ""], "--tokenizer is empty; choose characters, bytes, or a file or folder"),
    (["--tokenizer", "bytes", "--vocabulary-size", 300], "--vocabulary-size is 300, but the tokenizer has 256 tokens"),
]
BAD_SAMPLING = [
    (["--checkpoint", "/dev/zero"], "/dev/zero is a pipe, socket or device, not a file"),
    (["--checkpoint", ""], "the name of the run is empty"), (["--checkpoint", "nowhere"], "nowhere does not exist"),
]


def test_bad_input_without_a_run(refused, monkeypatch):
    monkeypatch.delattr(runs, "train")  # so that no mistake here starts a long training
    pathlib.Path("empty.txt").touch()
    pathlib.Path("short.txt").write_text("a" * 99)
    precious = pathlib.Path("old/attention.png")
    precious.parent.mkdir()
    precious.write_text("precious")
    before = sorted(os.listdir("."))
    refused(BAD_TRAINING, "train")
    refused(BAD_SAMPLING, "sample")
    assert sorted(os.listdir(".")) == before and precious.read_text() == "precious"


TEXT_SAMPLING = [
    (["--prompt", "Ä?"], "the vocabulary has no 'Ä' '?'; it knows these 11: ' abcdefghij'"),
    (["--prompt", ""], "the prompt is empty"), (["--tokens", "0"], "tokens must be"), (["--temperature", "-1"], "temperature must be"),
    (["--top-k", "0"], "top_k must be"), (["--top-p", "1.1"], "top_p must be"), (["--seed", "-1"], "seed must be"),
]
RESUMING_A_TEXT = [
    (["--width", "32"], "--width is 32, but"),
    (["--preset", "micro"], "--preset micro has --layers 2, but"),
    (["--preset", "micro", "--layers", "1", "--width", "8"], "with 16; a resumed run cannot change it: leave --preset micro out, or"),
    (["--recipe", "muon"], "--recipe muon has --positions rotary, but"),
    (["--recipe", "muon", "--lr", "0.5"], "--lr is 0.5, but"),
    (["--lr", "0.5"], "--lr is 0.5, but"),
    (["--muon-lr", "0.02"], "--muon-lr makes no sense with --optimizer adamw, that of the run; leave it out"),
    (["--steps", "5"], "--steps is 5, but"), (["--steps", "0"], "steps must be"),
    (["--text", "other.txt"], "is not the text that"), (["--out", "elsewhere"], "; drop --out"),
    (["--tokenizer", "bytes"], "--tokenizer is bytes, but here/checkpoint.npz was trained with characters"),
    *((["--" + name, "auto"], f"--{name} is auto, but") for name in ("positions", "dtype", "rotary-scaling", "model")),
]
LOOKING_AT_A_TEXT = [
    (["--prompt", ""], "there is no text to read; give at least one character with --prompt"),
    (["--prompt", "aZ"], "the vocabulary has no 'Z'"),
    (["--prompt", "a" * 17], "a prompt of 17 characters does not fit into the model's context of 16"),
    (["--prompt", "a", "--layer", "3"], "the model has no layer 3; choose --layer from 1 to 1"),
    (["--prompt", "a", "--layer", "0"], "the model has no layer 0"),
    (["--prompt", "a", "--head", "-1"], "the model has no head -1; choose --head from 1 to 2"),
    (["--prompt", "a", "--layer", "one"], "--layer: invalid int value: 'one'"),
    (["--prompt", "a", "--out", "here/loss.png"], "here/loss.png exists and is not a picture of attention"),
    (["--prompt", "a", "--out", "folder.png"], "folder.png exists and is not a picture of attention"),
    (["--prompt", "a", "--out", "look.txt"], "--out is 'look.txt', but pictures are PNG, PDF or SVG; choose a name that ends with .png, .pdf, .svg"),
    (["--prompt", "a", "--out", ""], "--out is '.', but pictures are PNG"),
    (["--prompt", "a", "--out", "here/loss.png/x.png"], "cannot write to here/loss.png"),
    (["--prompt", "a", "--tokens", "3"], "unrecognized arguments: --tokens 3"),
]


def test_bad_input_with_a_run_on_a_text(refused, text_run):
    pathlib.Path("other.txt").write_text("abcdefghij " * 100)
    pathlib.Path("folder.png").mkdir()
    pathlib.Path("here/loss.png").write_text("precious")
    before = {path: path.read_bytes() for path in text_run.iterdir()}
    refused(TEXT_SAMPLING, "sample", "--checkpoint", "here")
    refused(RESUMING_A_TEXT, "train", "--resume", "here")
    refused(LOOKING_AT_A_TEXT, "look", "here")
    refused([(["nowhere"], "nowhere does not exist; give the folder of a run"),
             (["."], ". holds no checkpoint.npz; give the folder of a run")], "look")
    assert before == {path: path.read_bytes() for path in text_run.iterdir()}


def test_the_next_command_is_for_a_shell(run, text_file):
    pytest.importorskip("safetensors")
    for command in (["train", "--text", text_file, *TEXT, "--out", "a run's"], ["export", "a run's", "--to", "a folder"]):
        out = run(*command)[1]
        _, flag, name = shlex.split(re.search("minigrad ((sample|train) --[^,\n]*)", out)[1])
        assert name == command[-1] and flag == "--checkpoint"


@pytest.mark.parametrize("command", [["look", "here", "--out", "x.png"], ["compare", "here", "--plot", "x.svg"]])
def test_what_a_full_disk_cuts_short_is_not_in_the_way(command, run, text_run, monkeypatch):
    path, kept = pathlib.Path(command[-1]), pathlib.Path("kept").resolve()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        code, _, err = run(*command)
    assert (code, err) == (1, f"minigrad: error: {path.resolve()}: No space left on device; make room or choose another place\n")
    assert not path.exists() and run(*command)[0] == 0
    path.rename(kept)
    path.symlink_to(kept)  # which stays
    assert run(*command)[0] == 0 and path.resolve() == kept and kept.stat().st_size > 100


TASK_RUNS = {  # by name: (flags of a run, rows of (command, error))
    "copy": (COPY, [
        (["train", "--task", "sort"], "--task is sort, but copy/checkpoint.npz was trained with copy; a resumed run cannot change it"),
        (["train", "--model", "rnn"], "--model is rnn, but copy/checkpoint.npz was trained with encoder-decoder"),
        (["train", "--text", "words.txt"], "--text makes no sense with copy/checkpoint.npz, which was trained on task copy"),
        (["train", "--tokenizer", "bytes"], "--tokenizer makes no sense with copy/checkpoint.npz, which was trained on task copy"),
        (["train", "--muon-lr", "0.02"], "--muon-lr makes no sense with --optimizer adamw"),
        (["train", "--beta2", "0.9"], "--beta2 is 0.9, but copy/checkpoint.npz was trained with 0.98"),
        (["sample", "--prompt", "abz"], "expected symbols of task 'copy', which are a b c d e f g h i j; got 'z'"),
        (["sample"], "got none"),
        (["sample", "--prompt", "abc", "--tokens", "5"], "tokens makes no sense with task 'copy'"),
        (["sample", "--prompt", "a" * 40], "a source of 40 symbols and its answer do not fit into the model's context of 32"),
    ]),
    "stripes": (["--task", "stripes", *SIZES, *STEPS], [
        (["sample", "--prompt", "abc"], "the sources of task 'stripes' are images, not text"),
        (["sample"], "the sources of task 'stripes' are images, not text"),
        (["look", "--prompt", "abc"], "the sources of task 'stripes' are images, not text"),
    ]),
    "bank": (["--task", "bank", *SIZES, *STEPS], [
        (["look", "--prompt", "the loft"], "expected symbols of task 'bank'"),
        (["look", "--prompt", "the " * 33], "do not fit into the model's context of 32"),
    ]),
    "no-attention": (["--task", "bank", "--model", "no-attention", *SIZES, *STEPS], [
        (["look"], "has no attention, so there is nothing to look at; give a run whose --model and --layers have some")]),
    "rnn": (["--task", "copy", "--model", "rnn", *STEPS, *SIZES[-2:]], [
        (["look", "--prompt", "abc"], "the model in rnn/checkpoint.npz has no attention, so there is nothing to look at")]),
}


@pytest.mark.parametrize("name", TASK_RUNS)
def test_bad_input_with_a_run_on_a_task(refused, here, name):
    flags, rows = TASK_RUNS[name]
    folder = here(*flags, name=name)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    run_of = {"train": ["--resume", name], "sample": ["--checkpoint", name], "look": [name]}
    refused([([command, *run_of[command], *arguments], says) for (command, *arguments), says in rows])
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_bad_checkpoints(run, text_run, tmp_path):
    checkpoint = checkpoints.load(text_run)

    def saved(**fields) -> bytes:
        return checkpoints.save(tmp_path, dataclasses.replace(checkpoint, **fields)).read_bytes()

    for damaged, says in (
        ((text_run / checkpoints.NAME).read_bytes()[:-100], "is not an .npz file, or only part of one"),
        (saved(config=checkpoint.config | {"width": 32}), "is from another architecture"),
    ):
        (tmp_path / "bad.npz").write_bytes(damaged)
        for command in (["sample", "--checkpoint"], ["train", "--resume"]):
            one_line(run(*command, "bad.npz"), f"error: bad.npz {says}", codes=(1,))
    saved(model={name: np.full_like(array, 1e15) for name, array in checkpoint.model.items()})
    code, _, err = run("sample", "--checkpoint", ".")
    assert code == 1 and err.count("\n") == 1 and "checkpoint.npz: the model's logits are not finite" in err


# ---- minigrad look ----

@pytest.fixture
def drawn(monkeypatch):
    """The titles and maps of the pictures drawn during the test."""
    calls = []
    monkeypatch.setattr(look, "draw_maps", lambda maps, title, path: (
        calls.append((title, maps)), draw_maps([maps[0].of_head(1)], title, path)))
    return calls


def test_look_on_a_text(run, here, text_file, drawn):
    folder = here("--text", text_file, *TEXT, "--layers", 2)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, out, err = run("look", folder, "--prompt", "ab cd")
    *lines, last = out.splitlines()
    assert (code, err, last) == (0, "", "here/look.png shows it")
    assert [line.partition(": looks most at ")[0] for line in lines] == [f"layer {i}, head {h}" for i in (1, 2) for h in (1, 2)]
    assert pictures.OURS.encode() in (folder / "look.png").read_bytes() and {path: path.read_bytes() for path in before} == before
    code, out, _ = run("look", folder, "--prompt", "ab cd", "--layer", 2, "--head", 2, "--out", "new/one.png")
    assert code == 0 and out.startswith("layer 2, head 2: looks most at ") and out.endswith("\nnew/one.png shows it\n")
    assert run("look", "here/checkpoint.npz", "--prompt", "abc")[0] == 0  # over its own picture
    (title, both), (_, (one,)), (_, short) = drawn
    assert title == "" and [found.keys for found in both] == 2 * [["a", "b", "␣", "c", "d"]] and len(short[0].keys) == 3
    assert one.titles() == ["layer 2, head 2"] and (one.weights == both[1].weights[1:]).all()


def test_look_at_the_best_or_the_last_checkpoint(run, text_run, drawn):
    best = checkpoints.load(text_run)
    best.model["blocks.0.attention.in_proj_weight"] *= 0
    checkpoints.save(text_run, best, checkpoints.BEST)
    for flags in ([], ["--best"]):
        assert run("look", text_run, "--prompt", "abcd", *flags)[0] == 0
    assert [(maps[0].weights[:, -1] == 0.25).all() for _, maps in drawn] == [False, True]


@pytest.mark.parametrize("flags, prompt, title", [
    (["bank"], "the boat bank", "bank: the boat bank → "),
    (["bank"], None, "bank: went a the the river to went bank → "),
    (["stripes"], None, "stripes: an image → "),
    (["copy"], "abc", "copy: a b c → "),
    (["copy", "--model", "causal"], "abc", "copy: a b c → "),
])
def test_look_on_a_task(run, here, drawn, flags, prompt, title):
    here("--task", *flags, *SIZES, *STEPS)
    code, out, err = run("look", "here", *(["--prompt", prompt] if prompt else []))
    assert (code, err) == (0, "") and out.endswith("here/look.png shows it\n")
    assert drawn[-1][0].startswith(title)
