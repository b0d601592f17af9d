"""Time per generated token inside the context and past it: python -m benchmarks.past_context [PRESET ...]

Each row is a preset with one kind of positions, or with all parts of a Llama. "Inside" is the second half of the first
window; "past" is the third and fourth, including what is moved or recomputed there. Times are medians over rounds in which
the rows alternate.
"""
import dataclasses
import statistics
import sys
import time

import minigrad as mg
from models import PRESETS, CausalTransformer, TransformerConfig, generate

ROUNDS = 5


def llama(config: TransformerConfig) -> TransformerConfig:
    return dataclasses.replace(config, norm="rms_norm", activation="swiglu", hidden_width=config.width * 8 // 3, bias=False,
                               positions="rotary", key_value_heads=config.heads // 2, tied=False)


KINDS = {
    "learned": lambda config: config,
    "rotary": lambda config: dataclasses.replace(config, positions="rotary"),
    "llama": llama,
}


def microseconds(model: CausalTransformer) -> tuple[float, float]:
    """Per token, (inside, past)."""
    context = model.config.context
    text, times = generate(model, [0], 4 * context, temperature=0), []
    for _ in range(4 * context):
        start = time.perf_counter()
        next(text)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.fmean(times[context // 2 : context - 1]), 1e6 * statistics.fmean(times[2 * context :])


def main() -> None:
    mg.manual_seed(0)
    models = {(preset, kind): CausalTransformer(change(PRESETS[preset].config)).eval()
              for preset in sys.argv[1:] or ("nano", "small", "baby") for kind, change in KINDS.items()}
    rounds = {key: [microseconds(model)] for key, model in models.items()}  # the first one compiles, and is not counted
    for _ in range(ROUNDS):
        for key, model in models.items():
            rounds[key].append(microseconds(model))
    print("preset  positions  inside, us  past, us")
    for (preset, kind), found in rounds.items():
        inside, past = (statistics.median(column) for column in zip(*found[1:]))
        print(f"{preset:6s}  {kind:9s}  {inside:10.1f}  {past:8.1f}")


if __name__ == "__main__":
    main()
