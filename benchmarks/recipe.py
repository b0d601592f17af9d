"""What each part of a recipe is worth: trainings with one part changed at a time, over several seeds.

    python -m benchmarks.recipe RESULTS [--text FILE] [--seeds 5] [--only WORD] [--document docs/recipe.md]

Adds a line to RESULTS, a .jsonl file, for each training that is not there yet; so it goes on where it was interrupted.
Then prints the table of all that are there, and with --document puts it there, between its markers, and draws the picture
into a folder of the document's name.

What is reported is the second half of the validation text. Whoever changes the recipe looks at the first half alone.
Seconds are those of training steps, without evaluations; run it alone on the machine.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import statistics
import sys
import time

import minigrad as mg
from benchmarks import report
from minigrad.figures import new_figure
from models import PRESETS, Trainer, TrainingConfig, TransformerConfig, load_corpus
from models.architectures import make_model
from models.data import IGNORED, mean_loss, windows
from models.recipes import DEFAULT, RECIPES

GOAL = 1.90  # the validation loss that tinyshakespeare is trained to
LOOKS = 20  # at the loss, in a training
WINDOWS = 240  # of the second half, at each look but the last
BATCH = 64  # windows in a batch of an evaluation
SHOWN = 5  # variants whose curves are in the picture, beside the whole recipes


def variants() -> dict[str, dict]:
    """{name: what is changed of the default recipe}: each part by itself as in the recipe nanogpt, and all of them."""
    recipe, plain = RECIPES[DEFAULT], RECIPES["nanogpt"]
    nanogpt = {**plain.model, **plain.training}
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
        "both rates halved": dict(muon_lr=recipe.training["muon_lr"] / 2, lr=recipe.training["lr"] / 2),
        "both rates doubled": dict(muon_lr=recipe.training["muon_lr"] * 2, lr=recipe.training["lr"] * 2),
        "recipe nanogpt, as many steps": {**nanogpt, "steps": recipe.training["steps"]},
        "recipe nanogpt": nanogpt,
    }


def train(text: str | None, changes: dict, seed: int) -> dict:
    """A training of preset nano: losses of both halves of the validation text, and when the loss was first below GOAL."""
    preset, recipe = PRESETS["nano"], RECIPES[DEFAULT]
    fields = {"batch_size": preset.batch_size, **recipe.model, **recipe.training, **changes, "seed": seed}
    corpus = load_corpus(text, preset.config.context)
    config = dataclasses.replace(preset.config, vocabulary_size=len(corpus.tokenizer), **of(TransformerConfig, fields))
    trainer = Trainer(make_model(None, None, config, seed), corpus, TrainingConfig(**of(TrainingConfig, fields)))
    half = len(corpus.validation) // 2
    first, second = corpus.validation[:half], corpus.validation[half:]
    seconds, curve = 0.0, []
    for step in range(1, trainer.config.steps + 1):
        started = time.perf_counter()
        trainer.train_step()
        seconds += time.perf_counter() - started
        if step % (trainer.config.steps // LOOKS) == 0 and step < trainer.config.steps:
            curve.append((step, seconds, evaluate(trainer, second, WINDOWS)))
    losses = {name: evaluate(trainer, tokens) for name, tokens in (
        ("first half", first), ("second half", second), ("whole", corpus.validation))}
    curve.append((step, seconds, losses["second half"]))
    return {"seed": seed, **losses, "steps": step, "seconds": seconds, "curve": curve}


def of(kind: type, fields: dict) -> dict:
    """Those of a config's fields."""
    return {field.name: fields[field.name] for field in dataclasses.fields(kind) if field.name in fields}


def evaluate(trainer: Trainer, tokens, limit: int | None = None) -> float:
    """The mean loss over tokens."""
    trainer.model.eval()
    with mg.no_grad():
        loss, _ = mean_loss(trainer.model, windows(tokens, trainer.model.config.context, BATCH, limit), IGNORED,
                            trainer.ranks)
    trainer.model.train()
    return loss


def reached(row: dict) -> tuple[int, float] | None:
    """(Steps, seconds) to GOAL; None if the loss stayed above it."""
    return next(((step, seconds) for step, seconds, loss in row["curve"] if loss <= GOAL), None)


def table(rows: dict[str, list[dict]]) -> str:
    """Markdown: medians over the seeds, and the range of losses; of what not all seeds reach, how many did."""
    lines = [["", "second half", "whole", "steps", "seconds", f"steps to {GOAL:.2f}", f"seconds to {GOAL:.2f}", "seeds"]]
    lines.append(["---"] * len(lines[0]))
    for name, own in rows.items():
        goal = [found for row in own if (found := reached(row)) is not None]
        few = "" if len(goal) == len(own) else f" ({len(goal)} of {len(own)})"
        to_goal = [f"{middle:.{digits}f}{few}" for middle, digits in zip(map(statistics.median, zip(*goal)), (0, 1))]
        lines.append([name, spread(own, "second half"), spread(own, "whole"), f"{own[0]['steps']:,}",
                      f"{statistics.median(row['seconds'] for row in own):.1f}", *(to_goal or ["never", "never"]),
                      f"{len(own)}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(rows: list[dict], name: str) -> str:
    losses = [row[name] for row in rows]
    return f"{statistics.median(losses):.3f} ({min(losses):.3f} to {max(losses):.3f})"


def draw(rows: dict[str, list[dict]], path: pathlib.Path) -> None:
    """The loss over seconds, the median of the seeds, and how low each variant ends."""
    figure, (curves, ends) = new_figure(1, 2, 13, max(4.5, 1.5 + 0.3 * len(rows)))
    for place, (name, own) in enumerate(rows.items()):
        colour = f"C{place}" if place < SHOWN else "0.6"
        points = [[statistics.median(row["curve"][i][part] for row in own) for i in range(len(own[0]["curve"]))]
                  for part in (1, 2)]
        if place < SHOWN or name.startswith("recipe"):
            curves.plot(*points, color=colour if place < SHOWN else "black", label=name)
        ends.plot([row["second half"] for row in own], [place] * len(own), "o", color=colour, markersize=4)
    curves.axhline(GOAL, color="black", linewidth=0.8, linestyle=":")
    curves.set(xlabel="seconds of training", ylabel="loss on the second half of the validation text", ylim=(None, 2.6))
    curves.legend(fontsize=8)
    ends.set_yticks(range(len(rows)), rows)
    ends.set(xlabel="loss at the end, a dot for each seed", ylim=(len(rows) - 0.5, -0.5))
    for panel in (curves, ends):
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=90)


def read(path: pathlib.Path) -> dict[str, list[dict]]:
    """The trainings by variant, in the order of `variants`."""
    found = collections.defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        found[row["variant"]].append(row)
    return {name: found[name] for name in variants() if name in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--text", help="tinyshakespeare, for the document (default: the default corpus)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="variants with this word")
    parser.add_argument("--document", type=pathlib.Path)
    options = parser.parse_args()
    for seed in range(options.seeds):
        for name, changes in variants().items():
            if options.only in name and seed not in [row["seed"] for row in read(options.results).get(name, [])]:
                row = {"variant": name, **train(options.text, changes, seed)}
                with open(options.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{name}, seed {seed}: {row['second half']:.3f} in {row['seconds']:.1f} s", file=sys.stderr)
    rows = read(options.results)
    print(table(rows))
    if options.document:
        machine = report.describe_machine(mg.get_num_threads())
        report.fill_in(options.document, "recipe", f"{table(rows)}\n\n{report.caption({**machine, 'quick': False})}")
        picture = options.document.with_suffix("") / "losses.png"
        picture.parent.mkdir(exist_ok=True)
        draw(rows, picture)


if __name__ == "__main__":
    main()
