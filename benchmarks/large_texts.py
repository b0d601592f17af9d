"""The speed of preparing large texts, and the memory that preparing and training take:

    python -m benchmarks.large_texts TEXT FOLDER [--size 2000] [--workers 2] [--tokenizers characters bytes bpe]

TEXT is a small file, which is repeated in FOLDER as a large one, each time with different names in it. Prints MB/s of
`minigrad prepare`, the peak memory of all its processes (shared pages count once), and that of `minigrad train`, on the
large text and on a 1000th of it. Anon is memory that a process needs; File is the page cache of its files, which the system
takes back at need. Removes what it wrote to FOLDER.
"""
import argparse
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

INTERVAL = 0.05  # seconds between samples of a process
TRAIN = ["--preset", "nano", "--steps", "300", "--eval-every", "100", "--eval-windows", "240"]


def make_text(source: pathlib.Path, path: pathlib.Path, size: int) -> None:
    """Write a text of `size` MB."""
    text = source.read_text(encoding="utf-8")
    names = sorted(set(re.findall(r"\b[A-Z]{4,}\b", text)))
    number, written = 0, 0
    with open(path, "w", encoding="utf-8") as file:
        while written < size * 1_000_000:
            name = names[number % len(names)] if names else ""
            content = text.replace(name, f"{name.title()} {number}é") if name else f"{number}\n{text}"
            written += len(content.encode())
            file.write(content)
            number += 1


def processes(parent: int) -> list[int]:
    """A process and its descendants."""
    found = [parent]
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += processes(int(child))
    return found


def fields(path: str, names: tuple[str, ...]) -> dict[str, int]:
    """Fields of a file in /proc, in kB; 0 if its process has ended."""
    with contextlib.suppress(OSError):
        found = dict(re.findall(r"^(\w+):\s+(\d+) kB", pathlib.Path(path).read_text(), re.MULTILINE))
        return {name: int(found.get(name, 0)) for name in names}
    return dict.fromkeys(names, 0)


def watch(command: list[str]) -> tuple[float, dict[str, float]]:
    """(Seconds, peaks in MB: Pss of all processes together, RssAnon and RssFile of the first)."""
    most = {"Pss": 0, "RssAnon": 0, "RssFile": 0}
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "minigrad", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as process:
        while process.poll() is None:
            together = sum(fields(f"/proc/{one}/smaps_rollup", ("Pss",))["Pss"] for one in processes(process.pid))
            now = {"Pss": together} | fields(f"/proc/{process.pid}/status", ("RssAnon", "RssFile"))
            most = {name: max(value, now[name]) for name, value in most.items()}
            time.sleep(INTERVAL)
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: {process.stderr.read()}")
    return seconds, {name: value / 1024 for name, value in most.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=2000, help="MB of the large text (default: 2000)")
    parser.add_argument("--workers", default="2")
    parser.add_argument("--tokenizers", nargs="*", default=["characters", "bytes", "bpe"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sizes = {"small": max(options.size // 1000, 1), "large": options.size}
    texts = {name: options.folder / f"{name}.txt" for name in sizes}
    made = list(texts.values())
    try:
        for name, path in texts.items():
            make_text(options.text, path, sizes[name])
        for tokenizer in options.tokenizers:
            for name, path in texts.items():
                tokens = options.folder / f"{tokenizer}-{name}"
                made.append(tokens)
                seconds, most = watch(["prepare", str(path), "--to", str(tokens), "--tokenizer", tokenizer, "--workers",
                                       options.workers])
                print(f"prepare {tokenizer:10} {sizes[name]:5} MB: {seconds:6.1f} s, "
                      f"{os.path.getsize(path) / 1e6 / seconds:6.1f} MB/s; at most {most['Pss']:.0f} MB in all processes, "
                      f"{most['RssAnon']:.0f} MB Anon and {most['RssFile']:.0f} MB File in the first", flush=True)
        for tokens in made[len(texts):]:
            run = options.folder / f"run-{tokens.name}"
            made.append(run)
            seconds, most = watch(["train", *TRAIN, "--text", str(tokens), "--out", str(run)])
            print(f"train on {tokens.name:16}: {seconds:6.1f} s; at most {most['RssAnon']:.0f} MB Anon, "
                  f"{most['RssFile']:.0f} MB File", flush=True)
    finally:
        for path in made:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
