"""Shared by the fuzzers: try one seed after the other until time is up, and count the outcomes."""
import argparse
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def parser(description: str) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=description.split("\n")[0])
    found.add_argument("--minutes", type=float, default=30)
    found.add_argument("--seed", type=int, default=0, help="the first one")
    return found


def search(live: Callable[[int], str], options: argparse.Namespace, threads: int = 1) -> int:
    """Print what live(seed) raised, and how often each outcome occurred; 1 if it raised anything."""
    end, turn, seeds, outcomes = time.time() + 60 * options.minutes, threading.Lock(), iter(range(options.seed, 10**9)), Counter()

    def work() -> None:
        while time.time() < end:
            with turn:
                seed = next(seeds)
            try:
                outcome = live(seed)[:90]
            except Exception as error:  # noqa: BLE001  report anything, and try the next seed
                outcome = "DIFFERENT"
                print(f"--- seed {seed}: {type(error).__name__}: {error!s:.3000}", flush=True)
            outcomes[outcome] += 1

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(threads):
            pool.submit(work)
    for outcome, count in outcomes.most_common():
        print(f"{count:7d} {outcome}")
    return int(outcomes["DIFFERENT"] > 0)
