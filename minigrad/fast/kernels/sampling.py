"""One of V classes, drawn by its logit: softmax with a temperature, of the likeliest classes alone if so asked.

The classes come from a heap, the likeliest first, until the one that is drawn has come: most often a few of them. To sort
all took longer than any other part of a small model's token but its products.
"""
import math

import numpy as np

from .jit import jit, kernel, ready
from .simd import pointer


@jit
def _is_likelier(row, a, b):
    """Of equal ones the first is."""
    return row[a] > row[b] or row[a] == row[b] and a < b


@jit
def _sift(row, heap, place, size):
    """What is at a place of the heap moves down until both below it, at 2 place + 1 and 2 place + 2, are less likely."""
    moving = heap[place]
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and _is_likelier(row, heap[below + 1], heap[below]):
            below += 1
        if _is_likelier(row, moving, heap[below]):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = moving


@jit
def _sum_to(rank, row, V, temperature, heap, sums):
    """The weights of the classes up to this rank, summed; those up to the one before must be known.

    What is taken from the heap changes places with its last one: the class of a rank then stands at V - 1 - rank.
    """
    if sums[rank] < 0:
        taken, last = heap[0], V - 1 - rank
        heap[0], heap[last] = heap[last], taken
        _sift(row, heap, 0, last)
        largest = row[heap[V - 1]]
        weight = math.exp((np.float64(row[taken]) - np.float64(largest)) / temperature)
        sums[rank] = weight if rank == 0 else sums[rank - 1] + weight
    return sums[rank]


@jit
def _draw(row, V, temperature, top_k, top_p, uniform, heap, sums):
    """The first class, in the order of likelihood, up to which the probabilities sum to more than `uniform`."""
    for i in range(V):
        heap[i], sums[i] = i, -1.0
    for place in range(V // 2 - 1, -1, -1):
        _sift(row, heap, place, V)
    count, total, largest = top_k, 0.0, np.float64(row[heap[0]])
    if count < V:
        for rank in range(count):
            total = _sum_to(rank, row, V, temperature, heap, sums)
    else:
        for i in range(V):
            total += math.exp((np.float64(row[i]) - largest) / temperature)
    rank = 0
    if top_p < 1:
        while _sum_to(rank, row, V, temperature, heap, sums) < top_p * total and rank < count - 1:
            rank += 1
        count, total, rank = rank + 1, sums[rank], 0
    while _sum_to(rank, row, V, temperature, heap, sums) / total <= uniform and rank < count - 1:
        rank += 1
    while rank > 0 and sums[rank] == sums[rank - 1]:  # the last digits of the total led on to what has no weight
        rank -= 1
    return heap[V - 1 - rank]


@jit
def _can_be_drawn_from(row, V):
    """Is there a finite logit, and neither NaN nor infinity?"""
    has_finite = False
    for i in range(V):
        if not row[i] < math.inf:
            return False
        has_finite |= row[i] > -math.inf
    return has_finite


@kernel
def sample_forward(logits, temperature, top_k, top_p, uniform, heap, sums, drawn):
    """logits (B, V), uniform (B,) from 0 to 1 -> drawn (B,) int64; heap (V,) int64 and sums (V,) float64 are for work.

    Weights are e^((logits - max) / temperature), in float64. Of the top_k likeliest, the likeliest that together have top_p
    of their sum can be drawn. False, and nothing is drawn, if the largest logit of a row is not finite.
    """
    B, V = logits.shape
    for b in range(B):
        if not _can_be_drawn_from(pointer(logits, b * V), V):
            return False
    for b in range(B):
        row = pointer(logits, b * V)
        drawn[b] = _draw(row, V, temperature, top_k, top_p, uniform[b], pointer(heap, 0), pointer(sums, 0))
    return True


def sample(logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None,
           uniform: np.ndarray) -> np.ndarray:
    """A class (B,) for each row of logits (B, V): what `sample` of fast/plain.py says, and draws too."""
    if logits.dtype.char not in "fd":
        logits = logits.astype(np.float64)
    B, V = logits.shape
    drawn = np.empty(B, np.int64)
    top_k, top_p = V if top_k is None else min(top_k, V), 1.0 if top_p is None else float(top_p)
    work = np.empty(V, np.int64), np.empty(V)
    if not sample_forward.ungated(ready(logits), float(temperature), top_k, top_p, uniform, *work, drawn):
        raise ValueError("the model's logits are not finite; its parameters are broken")
    return drawn
