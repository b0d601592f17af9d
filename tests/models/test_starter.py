"""The model that comes with minigrad, which commands use where there is no run."""
import pathlib
import shutil

import numpy as np

import minigrad as mg
import models
from models import checkpoint as checkpoints
from models import data
from minigrad.extend import to_bfloat16
from refusals import one_line
from small_runs import STEPS
from study.page import pages

LARGEST = 300_000  # bytes, in every wheel
SAYS = "starter, the small model that comes with minigrad (`minigrad train` makes your own):\n"


def test_it_is_small_finished_and_in_bfloat16():
    path = checkpoints.find("starter")
    with np.load(path) as arrays:
        assert {arrays[name].dtype for name in arrays.files} == {np.dtype("uint8"), np.dtype("uint16")}
    checkpoint = checkpoints.load(path)
    assert path.stat().st_size < LARGEST and not checkpoint.optimizer and checkpoint.dataset["path"] is None
    model = models.load("starter")
    assert all(np.array_equal(to_bfloat16(value.array), to_bfloat16(checkpoint.model[name]))
               for name, value in model.state_dict().items())


def test_loading_draws_no_random_numbers():
    def drawn_after(step):
        mg.manual_seed(1)
        step()
        return mg.rand(4).tolist()

    assert drawn_after(lambda: models.load("starter")) == drawn_after(lambda: None)


def test_it_has_learnt():
    """Of Python's language reference, which it has not read, it predicts a character better than one with frequencies alone."""
    model = models.load("starter")
    ids = model.tokenizer.encode(data.default_text()[:40_000])
    loss, _ = data.mean_loss(model, data.windows(ids, model.config.context, 16), data.IGNORED)
    counts = np.bincount(ids, minlength=len(model.tokenizer)) / len(ids)
    entropy = -np.sum(counts[counts > 0] * np.log(counts[counts > 0]))
    assert loss < 0.7 * entropy


def test_commands_use_it_in_an_empty_folder(run, monkeypatch):
    monkeypatch.setattr(pages, "checker", lambda head: lambda mistake: "")  # gradient checks of mistakes take half a minute
    code, out, err = run("sample", "--prompt", "module ", "--tokens", 20)
    assert code == 0 and err.startswith(SAYS) and out.startswith("module ") and len(out) == len("module ") + 20 + 1
    for prompt in [], ["--prompt", "import this"]:
        code, out, err = run("look", *prompt, "--out", "look.png")
        assert code == 0 and err.startswith(SAYS) and out.endswith("look.png shows it\n") and pathlib.Path("look.png").is_file()
    for text, read in ([], models.respond(models.load("starter"), tokens=16, temperature=0).strip()), (["--text", "import"], "import"):
        code, out, err = run("study", "--checkpoint", *text, "--no-open")
        page = pathlib.Path("study.html").read_text(encoding="utf-8")
        assert code == 0 and err.startswith(SAYS) and f"As starter computes it on '{read}'" in page


def test_a_run_comes_first_and_so_does_a_folder_of_its_name(run, text_run):
    pathlib.Path("runs").mkdir()
    shutil.move(text_run, "runs/own")
    code, _, err = run("sample", "--prompt", "a", "--tokens", 3)
    assert code == 0 and err.startswith(f"{pathlib.Path('runs/own')}, the run saved last:\n")
    assert run("look", "--prompt", "abc")[0] == 0 and pathlib.Path("runs/own/look.png").is_file()
    pathlib.Path("starter").mkdir()
    one_line(run("sample", "--checkpoint", "starter"), "starter holds no checkpoint.npz")


def test_training_starts_from_it_but_does_not_resume_it(run, text_file):
    code, _, _ = run("train", "--init-from", "starter", "--text", text_file, *STEPS, "--out", "more")
    assert code == 0
    assert models.load("more").config == models.load("starter").config
    one_line(run("train", "--resume", "starter"), "model.npz cannot be resumed: it holds a finished model without its optimizer; "
             "start a new run from it with --init-from starter")


def test_a_damaged_one_is_refused(run, tmp_path, monkeypatch):
    content = bytearray(checkpoints.STARTER_FILE.read_bytes())
    content[len(content) // 2] ^= 1
    monkeypatch.setattr(checkpoints, "STARTER_FILE", tmp_path / "model.npz")
    for damaged in (content, content[:1000], b""):
        checkpoints.STARTER_FILE.write_bytes(damaged)
        one_line(run("sample", "--checkpoint", "starter"), "; install minigrad again", (1,))
