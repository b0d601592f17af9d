"""Decoding with a Seq2Seq model: greedy search and beam search."""
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


def beam_search(model: Seq2Seq, source: np.ndarray, most: int, width: int = 4,
                length_penalty: float = 0.0) -> list[tuple[np.ndarray, float]]:
    """The best sequences for one source (S,), with their log-probabilities, best first; finished ones end with STOP.

    Each step keeps the `width` best prefixes. Sequences are ranked by log-probability / length^length_penalty. Width 1 is
    greedy search; a width of all prefixes is exhaustive.
    """
    check_whole("most", most)
    check_whole("width", width)
    unfinished: list[tuple[tuple[int, ...], float]] = [((START,), 0.0)]
    finished: list[tuple[tuple[int, ...], float]] = []

    def score(candidate: tuple[tuple[int, ...], float]) -> float:
        return candidate[1] / len(candidate[0][1:]) ** length_penalty

    with mg.no_grad():
        sources = mg.tensor(np.repeat(source[None], width, axis=0))
        memory, padding = model.encode(sources), sources == PAD
        for _ in range(most):
            prefixes = [tokens for tokens, _ in unfinished]
            rows = prefixes + prefixes[-1:] * (width - len(prefixes))  # as many as sources
            logits = model.decode(memory, padding, mg.tensor(np.array(rows))).array[: len(prefixes), -1]
            logits = logits.astype(np.float64)
            largest = logits.max(axis=1, keepdims=True)
            log_p = logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
            candidates = [(tokens + (token,), total + float(log_p[i, token]))
                          for i, (tokens, total) in enumerate(unfinished) for token in np.argsort(-log_p[i])[:width]]
            candidates = sorted(candidates, key=score, reverse=True)[:width]
            finished += [candidate for candidate in candidates if candidate[0][-1] == STOP]
            unfinished = [candidate for candidate in candidates if candidate[0][-1] != STOP]
            if not unfinished:
                break
    best = sorted(finished + unfinished, key=score, reverse=True)[:width]
    return [(np.array(tokens[1:]), total) for tokens, total in best]
