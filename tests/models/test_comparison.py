"""`minigrad compare`: groups of runs, their statistics, warnings, folders, files and the picture."""
import csv
import dataclasses
import json
import math
import pathlib

import pytest

import models
from models import checkpoint as checkpoints
from models import comparison, comparison_picture
from models import run as runs
from models.comparison import Comparison, Group, Run, compare, read_runs
from models.recipes import RECIPES, nearest
from models.run import read_metrics
from small_runs import SIZES

TEXT = {"task": None, "text": "a.txt", "text_sha256": "aaa", "tokenizer": "characters", "tokenizer_sha256": "t"}
MICRO = "--task", "copy", *SIZES, "--batch-size", "4", "--eval-windows", "6"


def made(name: str, loss: float = 1.0, problem: str = "", rows: tuple = (), more: dict | None = None, **settings) -> Run:
    """A Run without a folder."""
    measured = {"val_loss": loss, "best_val_loss": loss, "seconds": 1.0, "parameters": 10} | (more or {})
    return Run(pathlib.Path(name), TEXT | {"lr": 0.1, "seed": 0} | settings, list(rows), {} if problem else measured, problem)


def row(step: int, val_loss: float | None = None, **more) -> dict:
    return {"step": step, "loss": 1.0, "val_loss": val_loss, **more}


# ---- statistics ----


def slow(values: list[float]) -> dict[str, float | None]:
    """By the definitions."""
    n, ordered = len(values), sorted(values)
    mean = sum(values) / n
    variance = sum((value - mean) ** 2 for value in values) / (n - 1) if n > 1 else None
    return {"mean": mean, "sd": None if n == 1 else math.sqrt(variance), "min": ordered[0], "max": ordered[-1],
            "median": (ordered[(n - 1) // 2] + ordered[n // 2]) / 2}


def test_statistics_follow_their_definitions(random):
    losses = {lr: random.uniform(1, 3, size=size).tolist() for lr, size in ((0.1, 5), (0.2, 4), (0.3, 2), (0.4, 1))}
    made_runs = [made(f"{lr}-{seed}", loss, lr=lr, seed=seed, more={"seconds": 10 * loss, "best_val_loss": loss / 2})
                 for lr, found in losses.items() for seed, loss in enumerate(found)]
    compared = compare([made_runs[i] for i in random.permutation(len(made_runs))])
    by_lr = {record["lr"]: record for record in compared.records()}
    for lr, found in losses.items():
        assert by_lr[lr]["runs"] == len(found) and by_lr[lr]["remarks"] == ""
        for measure, factor in (("val_loss", 1), ("best_val_loss", 0.5), ("seconds", 10)):
            for statistic, value in slow([factor * loss for loss in found]).items():
                assert by_lr[lr][f"{measure}_{statistic}"] == (value if value is None else pytest.approx(value, rel=1e-12))
    medians = [record["val_loss_median"] for record in compared.records()]
    assert medians == sorted(medians) and compared.columns == ["lr"]
    lines = compared.table().splitlines()
    best = compared.records()[0]
    assert len(lines) == 5 and lines[1].startswith(f"{best['lr']}  {best['runs']} ")
    expected = f"{best['val_loss_median']:.4f} ({best['val_loss_min']:.4f} to {best['val_loss_max']:.4f})"
    assert expected in lines[1]
    first = next(csv.DictReader(compared.as_csv().splitlines()))
    assert first["val_loss_mean"] == str(best["val_loss_mean"])
    group = json.loads(compared.as_json())["groups"][0]
    assert group["val_loss_mean"] == best["val_loss_mean"] and len(group["members"]) == best["runs"]
    assert "seed" not in group["settings"] and group["members"][0]["val_loss"] in losses[best["lr"]]


def test_a_loss_of_zero_is_the_best():
    assert [group.settings["lr"] for group in compare([made("a", 0.5, lr=1), made("b", 0.0, lr=2)]).groups] == [2, 1]


def test_one_group_has_no_columns():
    compared = compare([made("a", seed=0), made("b", seed=1)])
    assert compared.columns == [] and compared.label(compared.groups[0]) == "all runs"
    assert compared.groups[0].summary("val_loss")["sd"] == 0 and compared.table().startswith("runs")


REMARKS = [
    ([made("a"), made("b", text="b.txt", seed=1)], [""]),  # the same text under another name
    ([made("a"), made("b", seed=0)], ["seed 0 occurs 2 times"]),
    ([made("a"), made("b", problem="is unfinished", seed=1)], ["1 of 2 without result"]),
    ([made("a"), made("b", problem="is unfinished", seed=0)], ["1 of 2 without result"]),
    ([made("a", 2), made("b", 2, seed=1), made("c", 1, text_sha256="bbb")], ["", "not comparable: another text"]),
    ([made("a", 2, problem="x"), made("b", 2, seed=1, problem="x"), made("c", 1, text_sha256="bbb")],
     ["", "not comparable: another text; 2 of 2 without result"]),
    ([made("a", 2, task="copy"), made("b", 1, task="sort")], ["", "not comparable: another task"]),
    ([made("a", 2, task="copy"), made("b", 1)], ["", "not comparable: another text"]),
    ([made("a", 2), made("b", 2, seed=1), made("c", 1, tokenizer_sha256="u")],
     ["", "not comparable: another tokenizer, and not all have bits per byte"]),
    ([made("a", 2), made("c", 1, tokenizer_sha256="u", more={"bits_per_byte": 1.0})],
     ["", "not comparable: another tokenizer, and not all have bits per byte"]),
]


def test_remarks():
    for made_runs, remarks in REMARKS:
        compared = compare(made_runs)
        assert [record["remarks"] for record in compared.records()] == remarks
        assert [group.is_comparable for group in compared.groups] == ["not comparable" not in text for text in remarks]
        assert compared.measure == "val_loss"


def test_different_tokenizers_are_compared_in_bits_per_byte():
    compared = compare([made("a", 1.0, more={"bits_per_byte": 3.0}),
                        made("b", 5.0, more={"bits_per_byte": 2.0}, tokenizer="bpe", tokenizer_sha256="u"),
                        made("c", 0.1, more={"bits_per_byte": 4.0}, text_sha256="bbb")])
    assert compared.measure == "bits_per_byte" and [group.runs[0].folder.name for group in compared.groups] == list("bac")
    assert [group.is_comparable for group in compared.groups] == [True, True, False]


def test_hashes_are_columns_only_if_nothing_else_differs():
    other = {"tokenizer": "bpe", "tokenizer_sha256": "u"}
    assert compare([made("a"), made("b", **other)]).columns == ["tokenizer"]
    assert compare([made("a", **other), made("b", **other | {"tokenizer_sha256": "v"})]).columns == ["tokenizer_sha256"]


def test_a_recipe_stands_for_its_fields():
    muon, nanogpt = ({"recipe": nearest(recipe.fields), **recipe.fields} for recipe in RECIPES.values())
    both = [made("a", **muon), made("b", **nanogpt)]
    assert compare(both).columns == ["recipe"] and [record["recipe"] for record in compare(both).records()] == ["muon", "nanogpt"]
    assert compare([made("a", **muon | {"positions": "relative"}), both[1]]).columns == ["recipe", "positions"]
    assert compare([made("a", **muon | {"steps": 10}), made("b", **nanogpt | {"steps": 10})]).columns == ["recipe"]
    assert compare([both[0], made("b", **muon | {"muon_lr": 0.1})]).columns == ["muon_lr"]
    assert "optimizer" in compare([*both, made("c", task="copy", optimizer="adamw")]).columns


def test_runs_without_a_result_come_last_and_are_listed():
    compared = compare([made("a", problem="failed: x", lr=0.1), made("b", 9.0, lr=0.2), made("c", lr=0.3, text_sha256="bbb")])
    assert [group.runs[0].folder.name for group in compared.groups] == list("bca")
    assert compared.table().endswith("a: failed: x") and compared.problems == [(pathlib.Path("a"), "failed: x")]


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
    found, = read_runs([str(copied(here, "a"))])
    rows = [row for _, row in read_metrics(pathlib.Path("a", runs.METRICS))]
    assert found.settings["lr"] == 2e-3 and found.settings["task"] == "copy" and found.settings["seed"] == 3
    assert found.measured["val_loss"] == rows[-1]["val_loss"] and found.measured["seconds"] == rows[-1]["seconds"]
    assert found.measured["parameters"] == sum(p.numel() for p in models.load("a").parameters())
    assert found.measured["accuracy"] == rows[-1]["accuracy"] and found.problem == ""
    assert found.curve("val_loss") == [(2, rows[1]["val_loss"]), (4, rows[3]["val_loss"])]
    folder = copied(here, "b")
    write_metrics(folder, row(1, 0.5, tokens_per_second=1, bits_per_byte=2.0), row(2, 0.25, tokens_per_second=7),
                  row(3, tokens_per_second="x", bits_per_byte=math.inf), row(4, 0.75, tokens_per_second=9, bits_per_byte=3,
                                                                             full_val_loss=0.125, full_bits_per_byte=1.5))
    found, = read_runs([str(folder)])
    assert found.measured == {"parameters": found.measured["parameters"], "val_loss": 0.125, "best_val_loss": 0.25,
                              "bits_per_byte": 1.5, "best_bits_per_byte": 2.0, "tokens_per_second": 7}
    assert found.curve("val_loss")[-1] == (4, 0.75)


def test_runs_without_a_result(run, here):
    copied(here, "good"), copied(here, "again"), copied(here, "unfinished", steps=9), copied(here, "earlier", step=2)
    write_metrics(copied(here, "lost"), row(1), row(2, 1.0))
    (copied(here, "damaged") / checkpoints.NAME).write_bytes(b"damaged")
    names = ["good", "again", "unfinished", "earlier", "lost", "damaged"]
    assert {found.folder.name: found.problem for found in read_runs(names)} == {
        "good": "", "again": "", "unfinished": "is unfinished: it has done 4 of 9 steps",
        "earlier": "is unfinished: it has done 2 of 4 steps", "lost": "its metrics.jsonl lacks the last step, 4",
        "damaged": "damaged/checkpoint.npz is not an .npz file, or only part of one; use the one before it: "
                   "damaged/checkpoint.previous.npz"}
    code, out, err = run("compare", *names)
    assert (code, err) == (0, "") and "seed 3 occurs 2 times" in out and "lost: its metrics.jsonl lacks" in out
    assert out.startswith("steps  runs")


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
        (["a", "--csv", "a/metrics.jsonl"], "a/metrics.jsonl exists and is not a comparison"),
        (["a", "--json", "empty"], "empty exists and is not a comparison"),
        (["a", "--json", "a/metrics.jsonl/x"], "cannot write to a/metrics.jsonl"),
        (["a", "--cvs", "x"], "unrecognized arguments: --cvs x (did you mean --csv?)"),
    ], "compare")
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_files_are_overwritten(run, here):
    copied(here, "a"), copied(here, "b", lr=0.5)
    for _ in range(2):
        code, out, err = run("compare", "a", "b", "--csv", "x/t.csv", "--json", "t.json", "--plot", "t.pdf")
        assert (code, err) == (0, "") and out.endswith("x/t.csv and t.json and t.pdf show it\n")
    assert [record["lr"] for record in csv.DictReader(pathlib.Path("x/t.csv").read_text().splitlines())] == ["0.002", "0.5"]
    assert [group["lr"] for group in json.loads(pathlib.Path("t.json").read_text())["groups"]] == [0.002, 0.5]
    assert pathlib.Path("t.pdf").read_bytes().startswith(b"%PDF")


def test_nothing_to_draw(run, here):
    write_metrics(copied(here, "a", step=1, steps=9), row(1))
    code, out, err = run("compare", "a", "--plot", "t.png")
    assert code == 1 and "there is nothing to plot: no run has been evaluated" in err and "is unfinished" in out
    assert not pathlib.Path("t.png").exists()


# ---- the picture ----


def group_of(losses: list[list[float]], **settings) -> Group:
    """A run for each list of losses, at steps 10, 20, ..."""
    return Group([made(str(seed), found[-1], rows=[row(10 * i + 10, loss) for i, loss in enumerate(found)], seed=seed,
                       **settings) for seed, found in enumerate(losses)], [], True)


@pytest.fixture
def drawn(monkeypatch):
    """A function that draws groups, and returns the two panels."""
    panels = []

    def new_figure(*arguments, **options):
        figure, axes = comparison_picture_figure(*arguments, **options)
        panels.append(axes)
        return figure, axes

    comparison_picture_figure = comparison_picture.new_figure
    monkeypatch.setattr(comparison_picture, "new_figure", new_figure)

    def draw(*groups: Group):
        columns = comparison._columns([group.settings for group in groups])
        assert comparison_picture.draw(Comparison(list(groups), "val_loss", columns), "t.png")
        return panels[-1]

    return draw


def test_the_curves_are_medians_and_the_dots_are_seeds(drawn):
    curves, dots = drawn(group_of([[3, 1], [2, 1.5], [2.5, 0.5]], lr=0.1), group_of([[4, 3], [4, 2]], lr=0.2))
    lines = {tuple(line.get_ydata()): line.get_xdata() for line in curves.get_lines()}
    assert set(lines) == {(2.5, 1), (4, 2.5)} and list(lines[2.5, 1]) == [10, 20]
    assert sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in dots.get_lines() if len(line.get_xdata()) == 1) == [
        (0.5, 0), (1, 0), (1.5, 0), (2, 1), (3, 1)]
    assert [line.get_xdata()[0] for line in dots.get_lines() if len(line.get_xdata()) == 2] == [1, 2.5]
    assert [text.get_text() for text in dots.get_yticklabels()] == ["lr=0.1", "lr=0.2"]
    low, high = curves.get_ylim()
    assert low < 0.5 and high > 4


def test_diverging_losses_do_not_hide_the_others(drawn):
    curves, dots = drawn(group_of([[3, 1]], lr=0.1), group_of([[4, 1e6]], lr=0.2))
    assert 4 < curves.get_ylim()[1] < 5 and dots.get_xlim()[1] < 12
    assert [line.get_marker() for line in dots.get_lines() if len(line.get_xdata()) == 1] == ["o", ">"]


def test_many_groups_and_groups_without_result(drawn):
    groups = [group_of([[3, 1 + i]], lr=0.1 * i) for i in range(30)]
    dots = drawn(*groups)[1]
    assert len(dots.get_yticklabels()) == comparison_picture.MOST_GROUPS and "6 groups are not shown" in dots.get_title()
    unfinished = Group([made("x", problem="is unfinished", rows=[row(10, 3.0)])], ["1 of 1 without result"], True)
    curves, dots = drawn(groups[0], unfinished)
    assert [text.get_text() for text in dots.texts] == ["no result"] and curves.get_lines()[0].get_linestyle() == ":"
