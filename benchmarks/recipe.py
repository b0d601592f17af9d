"""The value of each part of a recipe: trainings with one part changed at a time, over several seeds.

    python -m benchmarks.recipe RESULTS [--text FILE] [--seeds 5] [--only WORD] [--time] [--document docs/recipe.md]

Adds a line to RESULTS, a .jsonl file, for each training that it lacks, and so continues after an interruption. Losses do
not depend on the load of the machine, but seconds do: on an idle machine, --time then trains all variants for a few steps,
in turn, and adds a line with the seconds of a step of each. Then prints the table of all results, and with --document puts
it between its markers there and draws the plot into a folder of the document's name.

The reported loss is that of the second half of the validation text. To change the recipe, look at the first half alone.
Seconds are those of training steps, without evaluations.
"""
import argparse
import collections
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import time

import numpy as np

import minigrad as mg
from benchmarks import report
from benchmarks.recipe_parts import begin_at_zero, norm_queries_and_keys, square_relu
from minigrad.drawing.figures import new_figure
from minigrad.drawing.palette import CURVES, MARKERS
from models import PRESETS, Trainer, TrainingConfig, TransformerConfig, load_corpus
from models.architectures import make_model
from models.data import IGNORED, mean_loss, windows
from models.recipes import DEFAULT, RECIPES

GOAL = 1.90  # the validation loss that tinyshakespeare is trained to
TIMED = 30  # steps of each variant
LOOKS = 20  # at the loss, in a training
WINDOWS = 240  # of the second half, at each look but the last
BATCH = 64  # windows in a batch of an evaluation
TICKS = 1, 2, 5, 10, 20, 40  # seconds
SHOWN = 5  # variants whose curves are drawn, apart from whole recipes


def variants() -> dict[str, dict]:
    """{name: changes of the default recipe}: each part alone as in the recipe nanogpt, parts that no recipe has (some are
    functions that change the model), and all of nanogpt."""
    recipe, nanogpt = RECIPES[DEFAULT], RECIPES["nanogpt"].fields
    return {
        f"recipe {DEFAULT}": {},
        "AdamW for all, lr 3e-3": dict(optimizer="adamw", lr=3e-3),
        "learned positions": dict(positions="learned"),
        "layer norm": dict(norm="layer_norm"),
        "GELU, no gate": dict(activation="gelu", mlp_ratio=4),
        "biases": dict(bias=True),
        "tied embeddings": dict(tied=True),
        "cosine to a tenth": dict(annealing="cosine", final_lr=0.1),
        "weight decay 0.1": dict(weight_decay=0.1),
        "100 steps of warm-up": dict(warmup_steps=100),
        "momentum 0.95": dict(muon_momentum=0.95),
        "both rates halved": dict(muon_lr=recipe.training["muon_lr"] / 2, lr=recipe.training["lr"] / 2),
        "both rates doubled": dict(muon_lr=recipe.training["muon_lr"] * 2, lr=recipe.training["lr"] * 2),
        "squared ReLU, no gate": dict(activation="relu", mlp_ratio=4, model=square_relu),
        "norm of queries and keys": dict(model=norm_queries_and_keys),
        "blocks' outputs begin at zero": dict(model=begin_at_zero),
        "batches grow from 6 to 24": dict(batch_size=6, final_batch_size=24, steps=260),  # as many tokens
        "recipe nanogpt, as many steps": {**nanogpt, "steps": recipe.training["steps"]},
        "recipe nanogpt": nanogpt,
    }


def make_trainer(text: str | None, changes: dict, seed: int) -> Trainer:
    """A Trainer of preset nano on a text, by the default recipe with changes."""
    preset, recipe = PRESETS["nano"], RECIPES[DEFAULT]
    fields = {"batch_size": preset.batch_size, **recipe.fields, **changes, "seed": seed}
    corpus = load_corpus(text, preset.config.context)
    config = dataclasses.replace(preset.config, vocabulary_size=len(corpus.tokenizer), **of(TransformerConfig, fields))
    model = make_model(None, None, config, seed)
    changes.get("model", lambda model: None)(model)
    return Trainer(model, corpus, TrainingConfig(**of(TrainingConfig, fields)))


def train(text: str | None, changes: dict, seed: int) -> dict:
    """A whole training: the losses on both halves of the validation text, and the second's over the steps."""
    trainer, curve = make_trainer(text, changes, seed), []
    validation = trainer.dataset.validation
    first, second = validation[:len(validation) // 2], validation[len(validation) // 2:]
    for step in range(1, trainer.config.steps + 1):
        trainer.train_step()
        if step % (trainer.config.steps // LOOKS) == 0 and step < trainer.config.steps:
            curve.append((step, evaluate(trainer, second, WINDOWS)))
    losses = {name: evaluate(trainer, tokens) for name, tokens in (
        ("first half", first), ("second half", second), ("whole", validation))}
    return {"seed": seed, **losses, "steps": step, "curve": [*curve, (step, losses["second half"])]}


def time_steps(text: str | None, chosen: dict[str, dict]) -> dict[str, float]:
    """{variant: seconds of a step}: medians over steps in turn, averaged over batch sizes."""
    trainers = {name: make_trainer(text, {**changes, "steps": TIMED}, 0) for name, changes in chosen.items()}
    seconds = {name: collections.defaultdict(list) for name in chosen}
    for step in range(TIMED):
        for name, trainer in trainers.items():
            size = trainer.config.batch_size_at(step)
            trainer.train_step()  # refills the caches
            trainer.step = step
            started = time.perf_counter()
            trainer.train_step()
            seconds[name][size].append(time.perf_counter() - started)
    return {name: statistics.mean(statistics.median(of_size) for of_size in by_size.values())
            for name, by_size in seconds.items()}


def of(kind: type, fields: dict) -> dict:
    """The fields that a config has."""
    return {field.name: fields[field.name] for field in dataclasses.fields(kind) if field.name in fields}


def evaluate(trainer: Trainer, tokens, limit: int | None = None) -> float:
    """The mean loss over tokens."""
    trainer.model.eval()
    with mg.no_grad():
        loss, _ = mean_loss(trainer.model, windows(tokens, trainer.model.config.context, BATCH, limit), IGNORED,
                            trainer.ranks)
    trainer.model.train()
    return loss


def reached(row: dict) -> int | None:
    """The steps to GOAL; None if the loss stayed above it."""
    return next((step for step, loss in row["curve"] if loss <= GOAL), None)


def table(rows: dict[str, list[dict]], step_seconds: dict[str, float]) -> str:
    """Markdown: medians over the seeds, ranges of losses, and how many seeds reached the goal if not all did."""
    header = ["", "second half", "whole", "steps", "ms a step", "seconds", f"steps to {GOAL:.2f}", "seconds to it", "seeds"]
    lines = [header, ["---"] * len(header)]
    for name, own in rows.items():
        goal = [step for row in own if (step := reached(row)) is not None]
        few = "" if len(goal) == len(own) else f" ({len(goal)} of {len(own)})"
        middle = statistics.median(goal) if goal else None
        each, steps = step_seconds.get(name, math.nan), own[0]["steps"]
        to_goal = [f"{middle:.0f}{few}", f"{middle * each:.1f}"] if goal else ["never", "never"]
        lines.append([name, spread(own, "second half"), spread(own, "whole"), f"{steps:,}", f"{1000 * each:.1f}",
                      f"{steps * each:.1f}", *to_goal, f"{len(own)}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(rows: list[dict], name: str) -> str:
    losses = [row[name] for row in rows]
    return f"{statistics.median(losses):.3f} ({min(losses):.3f} to {max(losses):.3f})"


def draw(rows: dict[str, list[dict]], step_seconds: dict[str, float], path: pathlib.Path) -> None:
    """The loss over seconds, as medians of the seeds, and the last losses of each variant."""
    figure, (curves, ends) = new_figure(1, 2, 11, max(4.5, 1.5 + 0.3 * len(rows)))
    for place, (name, own) in enumerate(rows.items()):
        colour = CURVES[place] if place < SHOWN else "black" if name == "recipe nanogpt" else "0.6"
        steps, losses = np.median([row["curve"] for row in own], axis=0).T
        if place < SHOWN or name == "recipe nanogpt":
            seconds = steps * step_seconds.get(name, math.nan)
            curves.plot(seconds, losses, color=colour, marker=MARKERS[min(place, SHOWN)], markersize=5, label=name,
                        markevery=(place, SHOWN))
        ends.plot([row["second half"] for row in own], [place] * len(own), "o", color=colour, markersize=4)
    curves.axhline(GOAL, color="black", linewidth=0.8, linestyle=":")
    curves.set(xlabel="seconds of training", ylabel="loss on the second half of the validation text", ylim=(None, 2.6),
               xscale="log", xlim=(0.7, None))
    curves.set_xticks(TICKS, TICKS)
    curves.legend()
    ends.set_yticks(range(len(rows)), rows)
    ends.set(xlabel="loss at the end, a dot for each seed", ylim=(len(rows) - 0.5, -0.5))
    for panel in (curves, ends):
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=90)


def read(path: pathlib.Path) -> tuple[dict[str, list[dict]], dict[str, float]]:
    """The trainings by variant, in the order of `variants`; and the seconds of a step of each that was timed."""
    found, step_seconds = collections.defaultdict(list), {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        if "step seconds" in row:
            step_seconds |= row["step seconds"]
        else:
            found[row["variant"]].append(row)
    return {name: found[name] for name in variants() if name in found}, step_seconds


def add(path: pathlib.Path, row: dict) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--text", help="tinyshakespeare, for the document (default: the default corpus)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="variants with this word")
    parser.add_argument("--time", action="store_true", help="time steps, on an idle machine")
    parser.add_argument("--document", type=pathlib.Path)
    parser.add_argument("--section", default="recipe", help="of the document, between markers, and of the picture's name")
    options = parser.parse_args()
    chosen = {name: changes for name, changes in variants().items() if options.only in name}
    for seed in range(options.seeds):
        for name, changes in chosen.items():
            if seed not in [row["seed"] for row in read(options.results)[0].get(name, [])]:
                row = {"variant": name, **train(options.text, changes, seed)}
                add(options.results, row)
                print(f"{name}, seed {seed}: {row['second half']:.3f}", file=sys.stderr)
    if options.time:
        add(options.results, {"step seconds": time_steps(options.text, chosen)})
    rows, step_seconds = read(options.results)
    print(table(rows, step_seconds))
    if options.document:
        machine = report.describe_machine(mg.get_num_threads())
        caption = report.caption(machine)
        report.fill_in(options.document, options.section, f"{table(rows, step_seconds)}\n\n{caption}")
        picture = options.document.with_suffix("") / f"{options.section}.png"
        picture.parent.mkdir(exist_ok=True)
        draw(rows, step_seconds, picture)


if __name__ == "__main__":
    main()
