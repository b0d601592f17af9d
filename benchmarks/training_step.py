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
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

try:  # before minigrad: where PyTorch finds Numba's OpenMP already loaded, its threads are 50 times slower
    import torch

    from benchmarks import torch_gpt
except ModuleNotFoundError:
    sys.exit("this benchmark compares with PyTorch: pip install 'minigrad[bench]'")

import minigrad as mg
import nn
from benchmarks.common import peak_megabytes, random_batch
from models import PRESETS, CausalTransformer, TransformerConfig

VOCABULARY_SIZE = 65  # of tinyshakespeare
SETTINGS = dict(lr=1e-3, betas=(0.9, 0.99))
WEIGHT_DECAY, MAX_NORM = 0.1, 1.0
BLOCK_SECONDS, PAUSE_SECONDS = 0.2, 0.02
LOSS_TOLERANCE = 1e-4
MEMORY_STEPS = 30


def make_step(model: CausalTransformer, batch_size: int) -> Callable[[], float]:
    """A function that takes one training step and returns the loss."""
    tokens, targets = map(mg.tensor, random_batch(model.config, batch_size))
    parameters = list(model.parameters())
    optimizer = nn.optim.AdamW([{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
                                {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}],
                               max_grad_norm=MAX_NORM, **SETTINGS)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(tokens, targets)[1]
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def compare_times(config: TransformerConfig, batch_size: int, seconds: float, torch_gpt) -> dict[str, list[float]]:
    """Milliseconds of each step, by library."""
    mg.manual_seed(0)
    model = CausalTransformer(config)
    peer = torch_gpt.TorchGPT(config)
    peer.copy_parameters({name: value.data for name, value in model.state_dict().items()})
    steps = {
        "minigrad": make_step(model, batch_size),
        "torch": torch_gpt.make_step(peer, *random_batch(config, batch_size), WEIGHT_DECAY, MAX_NORM, **SETTINGS),
    }
    for _ in range(3):  # warm both up, and see that they do the same
        ours, theirs = (step() for step in steps.values())
        if abs(ours - theirs) > LOSS_TOLERANCE * theirs:
            sys.exit(f"the losses differ: minigrad {ours}, torch {theirs}")
    times = {library: [] for library in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for library, step in steps.items():
            times[library] += time_block(step)
    return times


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


def run_alone(module: str, *arguments: str) -> float:
    """The megabytes that a module prints, run in a process of its own."""
    root = pathlib.Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run([sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True,
                            env=environment)
    return float(result.stdout)


def compare_memory(preset: str, config: TransformerConfig, batch_size: int) -> dict[str, float]:
    """Peak resident megabytes of each library, after some steps alone in a fresh process."""
    arguments = [json.dumps(dataclasses.asdict(config)), str(batch_size), str(MEMORY_STEPS)]
    alone = ["benchmarks.training_step", preset, "--alone"]
    peak_megabytes(alone)  # so that all kernels are compiled
    return {"minigrad": peak_megabytes(alone), "torch": peak_megabytes(["benchmarks.torch_gpt", *arguments])}


def print_own_peak(config: TransformerConfig, batch_size: int) -> None:
    """Take some steps, and print the peak memory of this process in kB."""
    step = make_step(CausalTransformer(config), batch_size)
    for _ in range(MEMORY_STEPS):
        step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=f"of {', '.join(PRESETS)} (default: all)")
    parser.add_argument("--threads", type=int, help="for both libraries (default: all cores)")
    parser.add_argument("--seconds", type=float, default=10, help="for each preset (default: 10)")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.presets) - set(PRESETS)
    if unknown:
        parser.error(f"there is no preset {', '.join(unknown)}")
    mg.set_num_threads(options.threads or mg.get_num_threads())
    presets = {name: (dataclasses.replace(PRESETS[name].config, vocabulary_size=VOCABULARY_SIZE),
                      PRESETS[name].batch_size) for name in options.presets or PRESETS}
    if options.alone:
        print_own_peak(*presets[options.presets[0]])
        return
    try:
        import torch

        from benchmarks import torch_gpt
    except ModuleNotFoundError:
        sys.exit("this benchmark compares with PyTorch: pip install 'minigrad[bench]'")
    torch.set_num_threads(mg.get_num_threads())
    unit = "MB" if options.memory else "ms"
    print(f"{'preset':8}{'minigrad, ' + unit:>14}{'torch, ' + unit:>14}{'ratio':>8}", flush=True)
    for name, sizes in presets.items():
        if options.memory:
            ours, theirs = compare_memory(name, *sizes).values()
        else:
            ours, theirs = map(statistics.median, compare_times(*sizes, options.seconds, torch_gpt).values())
        print(f"{name:8}{ours:14.2f}{theirs:14.2f}{ours / theirs:8.2f}", flush=True)


if __name__ == "__main__":
    main()
