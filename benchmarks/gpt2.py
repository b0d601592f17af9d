"""Generation with GPT-2 of 124 million parameters, compared with transformers:

    python -m benchmarks.gpt2 FOLDER [--rounds 5] [--tokens 64] [--prompt 16] [--threads 2]

FOLDER is a Hugging Face folder of a GPT-2; if it does not exist, one with random weights in float32 is written there. Each
contestant runs in fresh processes, in turn: it loads the folder, generates once, and then REPEATS times. Prints medians
over the rounds: milliseconds a token, seconds to load, and the peak of resident memory.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

REPEATS = 3
COLUMNS = "ms", "load", "MB"


def write_folder(folder: str) -> None:
    from models import CausalTransformer, TransformerConfig, hub

    hub.write(CausalTransformer(TransformerConfig(
        vocabulary_size=50257, context=1024, layers=12, heads=12, width=768, activation="gelu_tanh")), folder)


def minigrad(folder: str, threads: int):
    import minigrad as mg
    import models

    mg.set_num_threads(threads)
    model = models.load(folder)
    return lambda prompt, count: list(models.generate(model, prompt, count, temperature=0))


def transformers(folder: str, threads: int):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def generate(prompt: list[int], count: int):
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, use_cache=True, pad_token_id=0,
                                  min_new_tokens=count, max_new_tokens=count)

    return generate


CONTESTANTS = {"minigrad": minigrad, "transformers": transformers}


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One contestant, in this process."""
    started = time.perf_counter()
    generate = CONTESTANTS[options.contestant](options.folder, options.threads)
    load, times = time.perf_counter() - started, []
    for _ in range(1 + REPEATS):
        started = time.perf_counter()
        generate([7919 * i % 50257 for i in range(options.prompt)], options.tokens)
        times.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"ms": 1000 * min(times[1:]) / options.tokens, "load": load, "MB": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    for name, default in {"rounds": 5, "tokens": 64, "prompt": 16, "threads": os.cpu_count()}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        print(json.dumps(measure(options)))
        return
    if not os.path.exists(options.folder):
        write_folder(options.folder)
    command = [sys.executable, "-m", "benchmarks.gpt2", *sys.argv[1:], "--contestant"]
    found = {contestant: [] for contestant in CONTESTANTS}
    for _ in range(options.rounds):
        for contestant, rows in found.items():
            process = subprocess.run([*command, contestant], check=True, stdout=subprocess.PIPE, text=True)
            rows.append(json.loads(process.stdout.splitlines()[-1]))
    print(f"{'':24}{'ms a token':>12}{'loading, s':>12}{'peak, MB':>12}")
    for contestant, rows in found.items():
        medians = [statistics.median(row[name] for row in rows) for name in COLUMNS]
        print(f"{contestant:24}" + "".join(f"{value:12.2f}" for value in medians))


if __name__ == "__main__":
    main()
