"""Seconds from the command to a trained model, and its loss, compared with PyTorch:

    python -m benchmarks.to_a_loss TEXT [--peer nanogpt muon muon:bfloat16] [--seeds 6] [--preset nano] [--steps N]
                                   [FLAGS OF minigrad train]

Whole processes, alternating: `minigrad train --text TEXT`, files included, and benchmarks/torch_training.py, once for each
peer: a recipe, in float32 or under autocast. Recipe muon is the default of `minigrad train`, and takes as many steps;
nanogpt takes its own 2,000. Losses are means over the whole validation text. Kernels have been compiled before.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

PEERS = "nanogpt", "nanogpt:bfloat16", "muon", "muon:bfloat16"


def timed(command: list[str]) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True)
    return time.perf_counter() - started, done.stdout


def minigrad(flags: list[str]) -> tuple[float, float]:
    """(Seconds, validation loss)."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        seconds, _ = timed(["minigrad", "train", "--out", str(run), *flags])
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return seconds, rows[-1]["full_val_loss"]


def pytorch(peer: str, text: str, flags: list[str]) -> tuple[float, float]:
    """(Seconds, validation loss)."""
    recipe, _, precision = peer.partition(":")
    seconds, printed = timed(["benchmarks.torch_training", text, "--recipe", recipe, "--precision", precision or "float32",
                              *flags])
    return seconds, json.loads(printed)["val_loss"]


def spread(values: np.ndarray, digits: int) -> str:
    """The median, the least and the most."""
    return "{:.{d}f} ({:.{d}f} to {:.{d}f})".format(np.median(values), values.min(), values.max(), d=digits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--peer", nargs="+", choices=PEERS, default=["nanogpt"])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--preset", default="nano")
    parser.add_argument("--steps", help="of minigrad, and of peers with recipe muon")
    options, flags = parser.parse_known_args()
    preset, steps = ["--preset", options.preset], ["--steps", options.steps] if options.steps else []
    command = ["--text", options.text, *preset, *flags]
    minigrad([*command, "--steps", "1"])  # compiles
    found = {name: [] for name in ("minigrad", *(f"PyTorch {peer}" for peer in options.peer))}
    for seed in map(str, range(options.seeds)):
        found["minigrad"].append(minigrad([*command, *steps, "--seed", seed]))
        for peer in options.peer:
            same_steps = steps if peer.startswith("muon") else []
            found[f"PyTorch {peer}"].append(pytorch(peer, options.text, [*preset, *same_steps, "--seed", seed]))
        print(f"seed {seed}: " + ", ".join(f"{name} {results[-1][0]:.1f} s, loss {results[-1][1]:.3f}"
                                           for name, results in found.items()), file=sys.stderr, flush=True)
    for name, results in found.items():
        seconds, losses = np.array(results).T
        print(f"{name}: {spread(seconds, 1)} s, validation loss {spread(losses, 3)}")
    for name in list(found)[1:]:
        ours, theirs = (np.array(found[one])[:, 0] for one in ("minigrad", name))
        print(f"minigrad / {name}, seconds: {spread(ours / theirs, 2)}")


if __name__ == "__main__":
    main()
