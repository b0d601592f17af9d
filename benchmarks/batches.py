"""What both libraries are measured on."""
import numpy as np


def random_batch(config, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens and targets (B, T)."""
    return tuple(np.random.default_rng(0).integers(config.vocabulary_size, size=(2, batch_size, config.context)))
