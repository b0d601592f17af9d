"""Seconds from the command to a trained model, and its loss, compared with nanoGPT's recipe in PyTorch:

    python -m benchmarks.to_a_loss TEXT [--seeds 6] [FLAGS OF minigrad train]

Whole processes, alternating: `minigrad train --text TEXT`, files included, and benchmarks/torch_training.py. Losses are
means over the whole validation text. Kernels have been compiled before.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np


def timed(command: list[str]) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True)
    return time.perf_counter() - started, done.stdout


def minigrad(text: str, seed: int, flags: list[str]) -> tuple[float, float]:
    """(Seconds, validation loss)."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        seconds, _ = timed(["minigrad", "train", "--text", text, "--seed", str(seed), "--out", str(run), *flags])
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return seconds, [row["val_loss"] for row in rows if row["val_loss"] is not None][-1]


def pytorch(text: str, seed: int) -> tuple[float, float]:
    """(Seconds, validation loss)."""
    seconds, printed = timed(["benchmarks.torch_training", text, "--seed", str(seed)])
    return seconds, json.loads(printed)["val_loss"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--seeds", type=int, default=6)
    options, flags = parser.parse_known_args()
    minigrad(options.text, 0, ["--steps", "1", *flags])  # compiles
    found = {"minigrad": [], "PyTorch": []}
    for seed in range(options.seeds):
        found["minigrad"].append(minigrad(options.text, seed, flags))
        found["PyTorch"].append(pytorch(options.text, seed))
        print(f"seed {seed}: " + ", ".join(f"{name} {results[-1][0]:.1f} s, loss {results[-1][1]:.3f}"
                                           for name, results in found.items()), file=sys.stderr, flush=True)
    for name, results in found.items():
        seconds, losses = np.array(results).T
        print(f"{name}: {np.median(seconds):.1f} s ({seconds.min():.1f} to {seconds.max():.1f}), validation loss "
              f"{np.median(losses):.3f} ({losses.min():.3f} to {losses.max():.3f})")
    ours, theirs = (np.array(found[name])[:, 0] for name in found)
    print(f"ratio of seconds: {np.median(ours / theirs):.2f}")


if __name__ == "__main__":
    main()
