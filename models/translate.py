"""Decoding with a Seq2Seq model."""
import numpy as np

import minigrad as mg
from models.encoder_decoder import PAD, START, STOP, Seq2Seq
from models.config import check_whole


def greedy(model: Seq2Seq, source: np.ndarray, most: int) -> np.ndarray:
    """Token ids (B, at most `most`) for sources (B, S): the likeliest at each step, up to STOP, then PAD."""
    check_whole("most", most)
    tokens = np.full((len(source), 1), START)
    is_done = np.zeros(len(source), bool)
    with mg.no_grad():
        ids = mg.tensor(source)
        memory, padding = model.encode(ids), ids == PAD
        while tokens.shape[1] <= most and not is_done.all():
            following = model.decode(memory, padding, mg.tensor(tokens)).array[:, -1].argmax(axis=1)
            following[is_done] = PAD
            is_done |= following == STOP
            tokens = np.hstack([tokens, following[:, None]])
    return tokens[:, 1:]
