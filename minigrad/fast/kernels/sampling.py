"""Drawing one of V classes by logits: softmax with a temperature, optionally of the most likely classes only.

A heap yields the classes, most likely first, until the drawn one has come, usually after a few. Sorting all of them took
longer than any part of a small model's token except its products.
"""
import math

import numpy as np

from .jit import jit, kernel, ready
from .simd import pointer


@jit
def _is_likelier(row, a, b):
    """Is class a more likely than b? Of equal ones, the first is."""
    return row[a] > row[b] or row[a] == row[b] and a < b


@jit
def _sift(row, heap, place, size):
    """Move the class at a place of the heap down until both children, at 2 place + 1 and 2 place + 2, are less likely."""
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
    """The sum of the weights of all classes up to this rank; the sum up to the previous rank must be known.

    A class taken from the heap swaps places with the last one, so the class of a rank is then at V - 1 - rank.
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
    """The first class, most likely first, up to which the probabilities sum to more than `uniform`."""
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
    while rank > 0 and sums[rank] == sums[rank - 1]:  # rounding of the total may have led to a class of weight 0
        rank -= 1
    return heap[V - 1 - rank]


@jit
def _can_be_drawn_from(row, V):
    """Is some logit finite, and none NaN or +infinity?"""
    has_finite = False
    for i in range(V):
        if not row[i] < math.inf:
            return False
        has_finite |= row[i] > -math.inf
    return has_finite


@kernel
def sample_forward(logits, temperature, top_k, top_p, uniform, heap, sums, drawn):
    """logits (B, V), uniform (B,) from 0 to 1 -> drawn (B,) int64; heap (V,) int64 and sums (V,) float64 are scratch.

    Weights are e^((logits - max) / temperature), in float64. Among the top_k most likely classes, only the first that
    together have top_p of their sum can be drawn. False, with nothing drawn, if the largest logit of a row is not finite.
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
    """A class (B,) for each row of logits (B, V), the same as from `sample` in fast/plain.py."""
    if logits.dtype.char not in "fd":
        logits = logits.astype(np.float64)
    B, V = logits.shape
    drawn = np.empty(B, np.int64)
    top_k, top_p = V if top_k is None else min(top_k, V), 1.0 if top_p is None else float(top_p)
    work = np.empty(V, np.int64), np.empty(V)
    if not sample_forward.ungated(ready(logits), float(temperature), top_k, top_p, uniform, *work, drawn):
        raise ValueError("the model's logits are not finite; its parameters are broken")
    return drawn
