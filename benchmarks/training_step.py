"""Times a training step (forward, backward, clip, AdamW) against PyTorch's, side by side in one run.

    python -m benchmarks.training_step nano small            milliseconds, and the ratio
    python -m benchmarks.training_step nano --memory         peak memory, each library alone in a process

The models have the same parameters and their losses are compared first. The libraries take turns in short blocks, after
a pause in which the other one's threads stop spinning; medians of steps.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

try:  # before minigrad: where PyTorch finds Numba's OpenMP already loaded, its threads are 50 times slower
    import torch
except ModuleNotFoundError:
    sys.exit("this benchmark compares with PyTorch: pip install 'minigrad[bench]'")

import minigrad as mg
from benchmarks import minigrad_gpt, torch_gpt
from benchmarks.common import random_batch
from models import PRESETS, CausalTransformer, TransformerConfig

VOCABULARY_SIZE = 65  # of tinyshakespeare
SETTINGS = dict(weight_decay=0.1, max_norm=1.0, lr=1e-3, betas=(0.9, 0.99))
BLOCK_SECONDS, PAUSE_SECONDS = 0.2, 0.02
LOSS_TOLERANCE = 1e-4
MEMORY_STEPS = 30


def compare_times(config: TransformerConfig, batch_size: int, seconds: float) -> tuple[float, float]:
    """Milliseconds of a step, ours and PyTorch's."""
    mg.manual_seed(0)
    model, peer = CausalTransformer(config), torch_gpt.TorchGPT(config)
    peer.copy_parameters({name: value.array for name, value in model.state_dict().items()})
    batch = random_batch(config, batch_size)
    steps = minigrad_gpt.make_step(model, *batch, **SETTINGS), torch_gpt.make_step(peer, *batch, **SETTINGS)
    for _ in range(3):  # warm both up, and see that they do the same
        ours, theirs = (step() for step in steps)
        if not abs(ours - theirs) <= LOSS_TOLERANCE * theirs:
            sys.exit(f"the losses differ: minigrad {ours}, torch {theirs}")
    times = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for step, own_times in zip(steps, times):
            own_times += time_block(step)
    return tuple(map(statistics.median, times))


def time_block(step: Callable[[], float]) -> list[float]:
    """Milliseconds of steps in a row, after a pause and a step that is not counted."""
    time.sleep(PAUSE_SECONDS)
    step()
    times = []
    while sum(times) < 1000 * BLOCK_SECONDS:
        started = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - started))
    return times


def compare_memory(config: TransformerConfig, batch_size: int) -> tuple[float, float]:
    """Peak resident megabytes, ours and PyTorch's, after some steps alone in a fresh process."""
    arguments = [json.dumps(dataclasses.asdict(config)), str(batch_size), str(MEMORY_STEPS)]
    run_alone("benchmarks.minigrad_gpt", *arguments)  # so that all kernels are compiled
    return run_alone("benchmarks.minigrad_gpt", *arguments), run_alone("benchmarks.torch_gpt", *arguments)


def run_alone(module: str, *arguments: str) -> float:
    """The number that a module prints, run in a process of its own."""
    root = pathlib.Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run([sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True,
                            env=environment)
    return float(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=f"of {', '.join(PRESETS)} (default: all)")
    parser.add_argument("--threads", type=int, default=mg.get_num_threads(), help="for both (default: all cores)")
    parser.add_argument("--seconds", type=float, default=10, help="for each preset (default: 10)")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    options = parser.parse_args()
    if unknown := set(options.presets) - set(PRESETS):
        parser.error(f"there is no preset {', '.join(unknown)}")
    mg.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    unit = "MB" if options.memory else "ms"
    print(f"{'preset':8}{'minigrad, ' + unit:>14}{'torch, ' + unit:>14}{'ratio':>8}", flush=True)
    for name in options.presets or PRESETS:
        config = dataclasses.replace(PRESETS[name].config, vocabulary_size=VOCABULARY_SIZE)
        sizes = config, PRESETS[name].batch_size
        ours, theirs = compare_memory(*sizes) if options.memory else compare_times(*sizes, options.seconds)
        print(f"{name:8}{ours:14.2f}{theirs:14.2f}{ours / theirs:8.2f}", flush=True)


if __name__ == "__main__":
    main()
