"""The cases of each benchmark."""
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator

from benchmarks.alone import peak_memory, seconds_to_first_step, seconds_to_import
from benchmarks.contest import Case, time_in_turns
from models import PRESETS

VOCABULARY_SIZE = 65  # of tinyshakespeare
MS, US = 1e3, 1e6  # in a second
ALL = "minigrad", "PyTorch", "torch.compile", "JAX"
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
    is_rate: bool = False  # is more better?


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


MATRICES = """768x128x512 768x512x128 768x128x384 768x128x65 2048x256x1024 2048x1024x256 4096x384x1536 128x32x128
              128x128x32 64x32x64 1x384x1536 4x128x512 100x100x100 256x256x256 512x512x512 1024x1024x1024"""


def matmul_cases() -> Iterator[Case]:
    for layout in ("NN", "NT", "TN"):
        for shape in MATRICES.split():
            M, K, N = map(int, shape.split("x"))
            yield Case(layout, shape, "matmul", dict(M=M, K=K, N=N, layout=layout), ("minigrad", "PyTorch", "NumPy"),
                       time_in_turns, scale=2e-9 * M * K * N)


WIDENED = {"layer_norm": 1, "gelu": 4, "gelu_tanh": 4, "softmax": 1}  # the rows' width, in widths of the model


def row_cases() -> Iterator[Case]:
    presets = {name: PRESETS[name] for name in ("nano", "small", "baby")}
    for op in (*WIDENED, "cross_entropy"):
        for name, preset in presets.items():
            rows = preset.batch_size * preset.config.context
            width = VOCABULARY_SIZE if op == "cross_entropy" else WIDENED[op] * preset.config.width
            arguments = dict(op=op, rows=rows, width=width)
            yield Case(op.replace("_", " "), f"{name}, {rows} x {width}", "row_op", arguments, ALL, time_in_turns, scale=US)
    for name in presets:
        yield Case("AdamW", name, "adamw", dict(sizes=sizes(name)), ALL, time_in_turns, scale=US)


def attention_cases(heads: int = 4, head_size: int = 32, tokens: int = 4096) -> Iterator[Case]:
    for T in (64, 256, 1024, 2048, 4096, 8192):
        arguments = dict(batch_size=max(1, tokens // T), T=T, heads=heads, head_size=head_size)
        names = ALL if T <= 4096 else ("minigrad", "PyTorch")  # JAX would store all scores
        yield Case("", T, "attention", arguments, names, time_in_turns, scale=MS)


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
    "matmul": Benchmark("Matrix products of float32", "GFLOP/s", list(matmul_cases()), heading="M x K x N", seconds=1,
                        is_rate=True),
    "rows": Benchmark("Operations on rows, forward and backward, and AdamW", "µs", list(row_cases()), heading="size",
                      seconds=3),
    "attention": Benchmark("Causal attention, forward and backward", "ms", list(attention_cases()), heading="T",
                           seconds=5),
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
