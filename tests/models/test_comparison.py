"""`minigrad compare`: groups of runs, their statistics, doubts, folders and the picture."""
import dataclasses
import json
import pathlib
import statistics

import pytest

from models import checkpoint as checkpoints
from models import comparison
from models import run as runs
from models.comparison import Run, compare, draw, read_run, table
from models.recipes import RECIPES, nearest
from models.run import read_metrics
from small_runs import SIZES

TEXT = {"text": "aaa", "tokenizer": "characters t"}
MICRO = "--task", "copy", *SIZES, "--batch-size", "4", "--eval-windows", "6"


def row(step: int, val_loss: float | None = None, **more) -> dict:
    return {"step": step, "loss": 1.0, "val_loss": val_loss, "seconds": 1.0, **more}


def made(name: str, *losses: float, problem: str = "", more: dict | None = None, **settings) -> Run:
    """A Run without a folder, evaluated at steps 10, 20, ..."""
    rows = [row(10 * i, loss, **more or {}) for i, loss in enumerate(losses or (1.0,), start=1)]
    return Run(pathlib.Path(name), TEXT | {"lr": 0.1, "seed": 0} | settings, rows, problem)


def test_statistics_follow_their_definitions(random):
    losses = {lr: random.uniform(1, 3, size=size).tolist() for lr, size in ((0.1, 5), (0.2, 4), (0.3, 2), (0.4, 1), (0.5, 1))}
    losses[0.5] = [0.0]  # no loss is better
    found = [made(f"{lr}-{seed}", loss, lr=lr, seed=seed) for lr, group in losses.items() for seed, loss in enumerate(group)]
    groups, measure = compare([found[i] for i in random.permutation(len(found))])
    assert [group.name for group in groups] == [f"lr {lr}" for lr in sorted(losses, key=lambda lr: statistics.fmean(losses[lr]))]
    lines = table(groups, measure).splitlines()
    assert len(lines) == 6
    for line, group in zip(lines[1:], groups):
        values = losses[group.runs[0].settings["lr"]]
        mean = sum(values) / len(values)
        sd = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else None
        assert line.split("  ")[0] == group.name and f" {len(values)} " in line and f"{min(values):.4f} to {max(values):.4f}" in line
        assert f" {mean:.4f}" + (f" +- {sd:.4f}" if sd is not None else "  ") in line


OTHER_DATA = "losses on other data, or of another tokenizer without bits per byte, cannot be compared"
DOUBTS = [
    ([made("a"), made("b", seed=1)], []),
    ([made("a"), made("b")], ["all runs: seed 0 occurs 2 times"]),
    ([made("a"), made("b", problem="is unfinished")], ["b: is unfinished"]),
    ([made("a", 2), made("c", text="bbb")], [OTHER_DATA]),
    ([made("a", 2), made("c", text="bbb", tokenizer="characters u", more={"bits_per_byte": 1.0})], [OTHER_DATA]),
    ([made("a", task="copy"), made("b", task="sort")], [OTHER_DATA]),
    ([made("a", 2), made("c", 1, tokenizer="bytes u", more={"bits_per_byte": 1.0})], [OTHER_DATA]),
]


def test_doubts_are_below_the_table():
    for made_runs, doubts in DOUBTS:
        groups, measure = compare(made_runs)
        assert measure == ("bits_per_byte" if all("bits_per_byte" in run.rows[-1] for run in made_runs) else "val_loss")
        assert table(groups, measure).splitlines()[1 + len(groups):] == doubts


def test_different_tokenizers_are_compared_in_bits_per_byte():
    groups, measure = compare([made("a", 1.0, more={"bits_per_byte": 3.0}), made("b", 5.0, more={"bits_per_byte": 2.0}, tokenizer="bpe u")])
    assert measure == "bits_per_byte" and [group.name for group in groups] == ["tokenizer bpe u", "tokenizer characters t"]
    assert OTHER_DATA not in table(groups, measure)


def names(*made_runs: Run) -> list[str]:
    return sorted(group.name for group in compare(made_runs)[0])


def test_a_recipe_stands_for_its_fields():
    muon, nanogpt = ({"recipe": nearest(recipe.fields), **recipe.fields} for recipe in RECIPES.values())
    both = [made("a", **muon), made("b", **nanogpt)]
    assert names(*both) == ["recipe muon", "recipe nanogpt"]
    assert names(made("a", **muon | {"positions": "relative"}), both[1]) == ["recipe muon, positions relative", "recipe nanogpt, positions learned"]
    assert names(made("a", **muon | {"steps": 10}), made("b", **nanogpt | {"steps": 10})) == ["recipe muon", "recipe nanogpt"]
    assert names(both[0], made("b", **muon | {"muon_lr": 0.1})) == ["muon_lr 0.02", "muon_lr 0.1"]
    assert "optimizer adamw" in names(*both, made("c", task="copy", optimizer="adamw"))[2]


# ---- folders ----


def copied(here, name: str, step: int | None = None, **training) -> pathlib.Path:
    """A run of 4 steps, with other fields of its training."""
    folder = here(*MICRO, "--steps", "4", "--eval-every", "2", "--seed", "3", name=name)
    checkpoint = checkpoints.load(folder)
    checkpoints.save(folder, dataclasses.replace(checkpoint, training=checkpoint.training | training,
                                                 step=checkpoint.step if step is None else step))
    return folder


def write_metrics(folder: pathlib.Path, *rows: dict) -> None:
    (folder / runs.METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_run_is_read_from_its_folder(here):
    found = read_run(copied(here, "a"))
    last = [row for _, row in read_metrics(pathlib.Path("a", runs.METRICS))][-1]
    assert (found.settings["lr"], found.settings["task"], found.settings["seed"], found.problem) == (2e-3, "copy", 3, "")
    assert [found.result(measure) for measure in ("val_loss", "seconds", "accuracy", "bits_per_byte")] == [
        last["val_loss"], last["seconds"], last["accuracy"], None]
    assert list(compare([found])[0][0].curve("val_loss")) == [2, 4]
    write_metrics(pathlib.Path("a"), row(2, 0.25), row(4, 0.75, bits_per_byte=3, full_val_loss=0.125, full_bits_per_byte=1.5))
    found = read_run("a")
    assert (found.result("val_loss"), found.result("bits_per_byte")) == (0.125, 1.5)
    assert compare([found])[0][0].curve("val_loss") == {2: [0.25], 4: [0.75]}


def test_texts_are_told_by_their_content(run, text_file, small_texts=("one.txt", "other.txt")):
    for name in small_texts:
        pathlib.Path(name).write_text(text_file.read_text())
    pathlib.Path("another.txt").write_text("abcdefghij " * 99)
    flags = *SIZES, "--context", 8, "--steps", 1, "--batch-size", 2, "--eval-windows", 2
    for name in (*small_texts, "another.txt"):
        assert run("train", "--text", name, *flags, "--out", name[:-4])[0] == 0
    assert "all runs" in run("compare", "one", "other")[1]
    out = run("compare", "one", "other", "another")[1]
    assert "text " in out and OTHER_DATA not in run("compare", "one", "other")[1] and OTHER_DATA in out


def test_runs_without_a_result(run, here):
    copied(here, "good"), copied(here, "again"), copied(here, "unfinished", steps=9), copied(here, "earlier", step=2)
    write_metrics(copied(here, "lost"), row(1), row(2, 1.0))
    (copied(here, "damaged") / checkpoints.NAME).write_bytes(b"damaged")
    code, out, err = run("compare", "good", "good/", "again", "unfinished", "earlier", "lost", "damaged")
    assert (code, err) == (0, "") and out.startswith("group") and "seed 3 occurs 2 times" in out
    for problem in ("unfinished: is unfinished: it has done 4 of 9 steps", "earlier: is unfinished: it has done 2 of 4 steps",
                    "lost: its metrics.jsonl lacks the last step, 4",
                    "damaged: damaged/checkpoint.npz is not an .npz file, or only part of one; use the one before it: "
                    "damaged/checkpoint.previous.npz"):
        assert f"\n{problem}\n" in out


def test_bad_input(refused, here):
    folder = copied(here, "a")
    (folder / "loss.png").write_text("precious")
    pathlib.Path("empty").mkdir()
    pathlib.Path("some.csv").touch()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    refused([
        ([], "the following arguments are required: RUN"),
        (["nowhere"], "nowhere does not exist; give the folder of a run"),
        (["empty"], "empty holds no checkpoint.npz"), ([""], "the name of the run is empty; give the folder"),
        (["a", "some.csv"], "some.csv is not in the folder of a run; give that"),
        (["a", "--plot", "a.jpg"], "--plot is 'a.jpg', but pictures are PNG, PDF or SVG"),
        (["a", "--plot", "a/loss.png"], "a/loss.png exists and is not a comparison of runs; choose another --plot"),
        (["a", "--plott", "x"], "unrecognized arguments: --plott x (did you mean --plot?)"),
    ], "compare")
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


# ---- the picture ----


def test_a_picture_is_overwritten(run, here):
    copied(here, "a"), copied(here, "b", lr=0.5)
    for _ in range(2):
        code, out, err = run("compare", "a", "b", "--plot", "t.pdf")
        assert (code, err) == (0, "") and out.endswith("t.pdf shows it\n")
    assert pathlib.Path("t.pdf").read_bytes().startswith(b"%PDF")
    write_metrics(copied(here, "c", step=1, steps=9), row(1))
    code, out, err = run("compare", "c", "--plot", "t.png")
    assert code == 1 and "there is nothing to plot: no run has been evaluated" in err and "is unfinished" in out
    assert not pathlib.Path("t.png").exists()


@pytest.fixture
def drawn(monkeypatch):
    """A function that draws runs, and returns the panel."""
    new_figure, panels = comparison.new_figure, []
    monkeypatch.setattr(comparison, "new_figure", lambda *size: panels.append(new_figure(*size)) or panels[-1])

    def draw_runs(*made_runs: Run):
        assert draw(*compare(made_runs), "t.png")
        return panels[-1][1]

    return draw_runs


def test_curves_are_means(drawn):
    axes = drawn(*(made(str(seed), *losses, seed=seed) for seed, losses in enumerate([(3, 1), (2, 1.5), (2.5, 0.5)])),
                 made("x", 4, 3, lr=0.2), made("y", 4, 2, lr=0.2, seed=1))
    assert [(list(line.get_xdata()), list(line.get_ydata()), line.get_label()) for line in axes.get_lines()] == [
        ([10, 20], [2.5, 1], "lr 0.1"), ([10, 20], [4, 2.5], "lr 0.2")]
    low, high = axes.get_ylim()
    assert low < 0.5 and high > 3.2


def test_diverging_losses_and_many_groups_do_not_hide_the_others(drawn):
    assert drawn(made("a", 3, 1), made("b", 4, 1e6, lr=0.2)).get_ylim()[1] < 5
    axes = drawn(*(made(str(i), 3, 1 + i, lr=0.1 * i) for i in range(30)))
    assert len(axes.get_lines()) == 8 and "the best 8 of 30 groups" in axes.get_title()
