"""The cases of each benchmark."""
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator

from benchmarks.alone import peak_memory, seconds_to_first_step, seconds_to_import
from benchmarks.contest import Case, time_in_turns
from models import PRESETS

VOCABULARY_SIZE = 65  # of tinyshakespeare
MS = 1e3  # in a second
ROUNDED = "compiled", "ours in bfloat16", "PyTorch", "PyTorch in bfloat16"
TRAINED = "minigrad", "compiled", "PyTorch", "torch.compile", "JAX"  # compiled: by minigrad.compile


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Cases and what they share; `seconds` is how long each contestant is timed for each case."""

    title: str
    unit: str
    cases: list[Case]
    heading: str = "preset"  # of the cases' names
    seconds: float = 10


def sizes(preset: str, **changes) -> dict:
    """The config of a preset as a dict."""
    return dataclasses.asdict(PRESETS[preset].config) | {"vocabulary_size": VOCABULARY_SIZE} | changes


def training(preset: str, batch_size: int | None = None, **changes) -> dict:
    """The arguments of a training step."""
    return dict(sizes=sizes(preset, **changes), batch_size=batch_size or PRESETS[preset].batch_size)


def training_case(name: str, preset: str, measure: Callable, scale: float = 1.0, contestants: tuple[str, ...] = TRAINED,
                  **options) -> Case:
    """A training step of every contestant."""
    return Case("", name, "training_step", training(preset), contestants, measure, scale, **options)


def generation_cases() -> Iterator[Case]:
    for name in ("nano", "small", "baby"):
        count = PRESETS[name].config.context - 1
        yield Case("", name, "generation", dict(sizes=sizes(name), count=count), ("minigrad", "PyTorch", "Hugging Face"),
                   time_in_turns, scale=MS / count)


def scaling_cases() -> Iterator[Case]:
    """A training step of nano with one size changed at a time; a longer T has a smaller batch."""
    both = dict(function="training_step", contestants=("minigrad", "compiled", "PyTorch"), measure=time_in_turns,
                scale=MS)
    for T in (32, 64, 128, 256, 512, 1024):
        yield Case("T, with 1024 tokens in a batch", T, arguments=training("nano", 1024 // T, context=T), **both)
    for width in (32, 64, 128, 256, 512):
        yield Case("width", width, arguments=training("nano", width=width), **both)
    for layers in (1, 2, 4, 8, 16):
        yield Case("layers", layers, arguments=training("nano", layers=layers), **both)
    for threads in range(1, os.cpu_count() + 1):
        yield Case("threads", threads, arguments=training("small"), threads=threads, **both)


BENCHMARKS = {
    "training_step": Benchmark("A training step", "ms", [
        training_case(name, name, time_in_turns, MS) for name in PRESETS]),
    "bfloat16": Benchmark("A training step with products in bfloat16", "ms", [
        training_case(name, name, time_in_turns, MS, ROUNDED, tolerance=2e-2) for name in PRESETS]),
    "generation": Benchmark("Generation", "ms per token", list(generation_cases())),
    "start": Benchmark("Start", "s", [
        Case("", "import", "", {}, ("minigrad", "PyTorch", "JAX"), seconds_to_import),
        training_case("a step of nano, empty caches", "nano", functools.partial(seconds_to_first_step, is_warm=False)),
        training_case("a step of nano, warm caches", "nano", functools.partial(seconds_to_first_step, is_warm=True))],
                       heading="until the end of", seconds=5),
    "memory": Benchmark("Peak memory of training", "MB", [
        training_case(name, name, peak_memory) for name in ("nano", "small")]),
    "scaling": Benchmark("A training step of nano, scaled; threads: of small", "ms", list(scaling_cases()),
                         heading="size", seconds=3),
}
