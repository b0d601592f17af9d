"""The inputs of all contestants, the same numbers for each. `sizes` is a TransformerConfig as a dict."""
import pathlib
import re
import resource

import numpy as np

SETTINGS = dict(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, max_norm=1.0)  # of AdamW and clipping


def random_batch(sizes: dict, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens and targets (B, T)."""
    return tuple(np.random.default_rng(0).integers(sizes["vocabulary_size"], size=(2, batch_size, sizes["context"])))


def random_parameters(sizes: dict) -> dict[str, np.ndarray]:
    """The parameters of a models.CausalTransformer, by its names: matrices normal, biases zero, gains one."""
    V, T, C = sizes["vocabulary_size"], sizes["context"], sizes["width"]
    block = {"ln_1.weight": (C,), "ln_1.bias": (C,),
             "attention.in_proj_weight": (3 * C, C), "attention.in_proj_bias": (3 * C,),
             "attention.out_proj.weight": (C, C), "attention.out_proj.bias": (C,),
             "ln_2.weight": (C,), "ln_2.bias": (C,),
             "mlp.expand.weight": (4 * C, C), "mlp.expand.bias": (4 * C,),
             "mlp.project.weight": (C, 4 * C), "mlp.project.bias": (C,)}
    shapes = {"token_embedding.weight": (V, C), "position_embedding.weight": (T, C),
              **{f"blocks.{i}.{name}": shape for i in range(sizes["layers"]) for name, shape in block.items()},
              "ln_f.weight": (C,), "ln_f.bias": (C,)}
    generator = np.random.default_rng(0)
    return {name: (0.02 * generator.standard_normal(shape, np.float32) if len(shape) == 2
                   else np.full(shape, name.endswith("weight"), np.float32)) for name, shape in shapes.items()}


def peak_megabytes() -> float:
    """The peak memory of this process.

    Linux's getrusage includes the parent's memory before exec, so /proc comes first.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** 20  # bytes on macOS
