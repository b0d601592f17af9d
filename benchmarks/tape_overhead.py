"""The overhead of the tape: a tiny expression, alternating with PyTorch in one run, and a graph of a million nodes.

    python -m benchmarks.tape_overhead
"""
import statistics
import time
from collections.abc import Callable

import torch  # before minigrad: the libgomp that is loaded first serves both, and PyTorch is slow with another one

import minigrad as mg

ROUNDS, REPETITIONS = 40, 500
NODES = 1_000_000


def expression(library) -> Callable[[], None]:
    """Forward and backward of (a * b + c).tanh().sum() on 4 x 4 leaves."""
    a, b, c = (library.randn(4, 4, requires_grad=True) for _ in range(3))

    def run() -> None:
        (a * b + c).tanh().sum().backward()

    return run


def microseconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    for _ in range(REPETITIONS):
        run()
    return 1e6 * (time.perf_counter() - started) / REPETITIONS


def seconds_to_walk(nodes: int) -> float:
    """Backward over a chain of additions and multiplications of one number."""
    y = mg.tensor([1.0], requires_grad=True)
    for _ in range(nodes // 2):
        y = y * 1.0 + 0.0
    started = time.perf_counter()
    y.backward()
    return time.perf_counter() - started


def main() -> None:
    ours, theirs = expression(mg), expression(torch)
    times = [(microseconds(ours), microseconds(theirs)) for _ in range(ROUNDS)]
    mine, peer = (statistics.median(column) for column in zip(*times))
    ratio = statistics.median(a / b for a, b in times)
    print(f"(a * b + c).tanh().sum() on 4 x 4, forward and backward: minigrad {mine:.1f} us, PyTorch {peer:.1f} us, "
          f"ratio {ratio:.2f}")
    print(f"backward over {NODES:,} nodes: {seconds_to_walk(NODES):.2f} s")


if __name__ == "__main__":
    main()
