"""Every public op compared with PyTorch, forward and backward, in one run: python -m benchmarks.ops

Sizes are 4x4, 256x256 and 1e7 elements; for products, attention and tables of ids, sizes that take as long. Inputs are
contiguous, transposed or sliced. The two alternate, and times are medians over single calls. Results are compared first, so
that no wrong number is timed. The ratio is our time divided by PyTorch's. Both keep freed memory.
"""
import argparse
import inspect
import math
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch  # before minigrad: the libgomp that is loaded first serves both

import minigrad as mg
from benchmarks import ops_report
from benchmarks.common import seconds_of
from benchmarks.contest import ALLOCATOR
from benchmarks.op_rows import ROWS, Row
from benchmarks.report import describe_machine
from minigrad import ops
from minigrad.arrays.conversions import ConversionMethods
from minigrad.ops.in_place import Identity
from minigrad.runner import Observer
from minigrad.tape import Fused, Op
from nn import functional as F

SIZES = {"4x4": (4, 4), "256x256": (256, 256), "1e7": (2500, 4000)}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x,
    "sliced": lambda x: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x,
}
TOLERANCE = 5e-4  # relative to the largest entry; PyTorch's norm of 1e7 numbers is off by 3.7e-4
TURNS = 5
PAUSE_SECONDS = 0.02  # the other library's threads stop spinning
WARM_UP_SECONDS = 0.015  # this library's wake up; with 1e7 elements the first calls after a pause take twice as long
BLOCK_SECONDS = 2e-5

# Public names that compute nothing, or have rows as operators or under other names.
NO_OPS = {
    "astype", "bfloat16", "cpu", "cuda", "device", "half", "int", "is_cuda", "is_floating_point", "to",
    "type", "type_as", "write", *vars(ConversionMethods),
}


class Disagreement(Exception):
    """Ours and PyTorch's results differ."""


def steps(
    row: Row, arrays: list[np.ndarray], is_forward_only: bool
) -> tuple[Callable, Callable, np.ndarray | None]:
    """(our function, PyTorch's, the upstream gradient); the functions return the result and the gradients."""
    upstream = None
    found = []
    for library, functional, function in ((torch, torch.nn.functional, row.theirs or row.function), (mg, F, row.function)):
        tensors = [library.from_numpy(array) for array in arrays]
        leaves = [x for x in tensors if x.dtype == library.float32] if row.has_gradient and not is_forward_only else []
        for leaf in leaves:
            leaf.requires_grad_()
        if leaves and upstream is None:
            shape = tuple(function(library, functional, *tensors).shape)
            upstream = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        found.append(make_step(library, functional, function, tensors, leaves, upstream))
    theirs, ours = found
    return ours, theirs, upstream


def make_step(library, functional, function: Callable, tensors: list, leaves: list, upstream) -> Callable:
    dtypes = {}

    def step() -> list:
        out = function(library, functional, *tensors)
        if not leaves:
            return [out]
        for leaf in leaves:
            leaf.grad = None
        dout = dtypes.get(out.dtype)
        if dout is None:
            dout = dtypes[out.dtype] = library.from_numpy(upstream).to(out.dtype)
        out.backward(dout)
        return [out, *[leaf.grad for leaf in leaves]]

    return step


def compare(name: str, ours: list, theirs: list) -> None:
    """Disagreement if a result differs by more than the tolerance."""
    for i, (mine, peer) in enumerate(zip(ours, theirs, strict=True)):
        if mine is None and peer is None:
            continue  # of an input that only gives its shape
        what = f"{name}: the {'result' if i == 0 else f'gradient of input {i - 1}'}"
        a, b = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (mine, peer))
        if a.shape != b.shape:
            raise Disagreement(f"{what} has shape {a.shape}, PyTorch's {b.shape}")
        if a.dtype.kind != "f":
            agree = np.array_equal(a, b)
        else:
            tolerance = TOLERANCE * max(1.0, np.abs(b).max(initial=0))
            agree = np.abs(a - b).max(initial=0) <= tolerance or np.allclose(a, b, 0, TOLERANCE, equal_nan=True)
        if not agree:
            raise Disagreement(f"{what} differs from PyTorch's")


def alternate(functions: list[Callable], seconds: float) -> list[float]:
    """The seconds of a call of each function: the median over its blocks of calls, in all its turns.

    A block is one call, or as many as fill BLOCK_SECONDS, so that reading the clock costs nothing. A mean would include
    every interruption by the machine, which most users' calls do not meet.
    """
    once = [seconds_of(function) for function in functions]  # called before
    turns = max(3, min(TURNS, int(seconds / max(once))))
    counts = [math.ceil(BLOCK_SECONDS / took) for took in once]
    times = [[] for _ in functions]
    for _ in range(turns):
        for function, count, taken in zip(functions, counts, times):
            time.sleep(PAUSE_SECONDS)
            blocks(function, count, WARM_UP_SECONDS)
            taken += blocks(function, count, seconds / turns)
    return [statistics.median(taken) for taken in times]


def blocks(function: Callable, count: int, seconds: float) -> list[float]:
    """The seconds per call of each block of `count` calls that begins within `seconds`."""
    times = []
    started = now = time.perf_counter()
    while now < started + seconds:
        for _ in range(count):
            function()
        before, now = now, time.perf_counter()
        times.append((now - before) / count)
    return times


def measure(row: Row, size: str, layout: str, options: argparse.Namespace) -> dict:
    name = f"{row.name}, {size}, {layout}"
    arrays = [LAYOUTS[layout](draw(SIZES[size])) for draw in row.inputs]
    ours, theirs, upstream = steps(row, arrays, options.forward)
    mine, peer = ours(), theirs()
    if not row.is_random:
        compare(name, mine, peer)
    is_shared = any(x is not None and np.may_share_memory(x.numpy(), upstream) for x in peer[1:])
    del mine, peer
    mine, peer = alternate([ours, theirs], options.seconds)
    passes = "forward" if options.forward else "forward and backward"
    return dict(op=row.name, passes=passes, size=size, layout=layout, ours=mine, theirs=peer, ratio=mine / peer,
                is_shared=is_shared)


class Seen(Observer):
    """The ops that are applied, forward or backward"""

    def __init__(self):
        self.ops = set()

    def forward(self, op, inputs, arrays, options):
        self.ops.add(type(op))
        return super().forward(op, inputs, arrays, options)


def missing() -> list[str]:
    """Public functions without a row, and ops that no row applies."""
    named = {row.name.partition(",")[0] for row in ROWS}
    public = {}  # functions, by their names
    for family in ops.Methods.__mro__[1:-1]:
        public |= {name: value for name, value in vars(family).items() if not (name.startswith("_") or name.endswith("_"))}
    public |= {name: value for name, value in vars(mg).items()
               if inspect.isfunction(value) and value.__module__.startswith("minigrad.ops.")}
    public |= {name: value for name, value in vars(F).items()
               if inspect.isfunction(value) and value.__module__.startswith("nn.functional")}
    covered = {id(value) for name, value in public.items() if name in named}  # aliases are one function
    absent = [name for name, value in public.items() if name not in NO_OPS | named and id(value) not in covered]

    def below(cls):
        return {cls} | {leaf for child in cls.__subclasses__() for leaf in below(child)}

    with Seen() as seen:
        for row in ROWS:
            step, *_ = steps(row, [draw(SIZES["4x4"]) for draw in row.inputs], is_forward_only=False)
            out = step()[0]
            if isinstance(out, mg.Tensor) and out.requires_grad:
                leaves = [mg.from_numpy(draw(SIZES["4x4"])) for draw in row.inputs]
                leaves = [x.requires_grad_() if x.dtype == mg.float32 else x for x in leaves]
                wanted = [x for x in leaves if x.requires_grad]
                out = row.function(mg, F, *leaves)
                mg.grad((out * out).sum(), wanted, create_graph=True, allow_unused=True)
    concrete = {op for op in below(Op) if op.__module__.startswith("minigrad.ops.") and op not in (Op, Fused, Identity)}
    absent += [op.__name__ for op in concrete - seen.ops if not op.__subclasses__() or op in seen.ops]
    return absent


def short(seconds: float) -> str:
    return f"{1e6 * seconds:10.1f}"


def chosen(rows: Iterable[Row], only: str) -> list[Row]:
    wanted = [word.strip() for word in only.split(";") if word.strip()]
    return [row for row in rows if not wanted or any(word in (row.name, row.name.partition(",")[0]) for word in wanted)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="OP;OP", help="names of ops ('sum') or of rows ('sum, rows')")
    parser.add_argument("--size", action="append", choices=SIZES, help="default: all; may be repeated")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="default: all; may be repeated")
    parser.add_argument("--forward", action="store_true", help="forward alone")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each op, size, layout and library (default: 0.15)")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE", help="put the table there, figures and picture "
                        "beside it; sizes and layouts measured before, on this machine, stay")
    options = parser.parse_args()
    if not ALLOCATOR.items() <= os.environ.items():  # the C library reads them at its start
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.ops", *sys.argv[1:]], os.environ | ALLOCATOR)
    if absent := missing():
        print(f"error: no row for {', '.join(sorted(absent))}; add one in benchmarks/op_rows.py", file=sys.stderr)
        return 1
    results, wrong = [], []
    print(f"{'op':32} {'size':8} {'layout':10} {'minigrad, us':>13} {'PyTorch, us':>12} {'ratio':>6}")
    for row in chosen(ROWS, options.only):
        for size in options.size or SIZES:
            for layout in options.layout or LAYOUTS:
                try:
                    results.append(result := measure(row, size, layout, options))
                except Disagreement as error:
                    wrong.append(str(error))
                    continue
                print(f"{row.name:32} {size:8} {layout:10} {short(result['ours']):>13} {short(result['theirs']):>12} "
                      f"{result['ratio']:6.2f}{' shared' * result['is_shared']}", flush=True)
    print(f"\n{ops_report.make_table(results)}")
    if options.document:
        ops_report.write(options.document, describe_machine(torch.get_num_threads()), results)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
