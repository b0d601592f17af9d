"""Dropout masks as `minigrad/random.py` defines them, made in registers while elements are multiplied by them.

Threefry needs only additions, rotations and xors, which are vector instructions. Two of the key's four words are zero, and
two of the counter's.

- GROUP consecutive elements share LANES counters: element 16 s + l of a group has slot s of the group's l-th counter. So 16
  consecutive elements are a vector of words, without shuffles, whatever the width of the processor's vectors.
- Attention weights are (heads, queries, keys), but the kernel has them in tiles (keys, queries). Their positions are those
  in an array (heads, strips of 16 queries, groups of 8 keys, 8, 16): the eight keys of a group are the slots of a counter,
  and the queries of a strip its lanes.
"""
import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ..pool import empty_like
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ELEMENTS, number_of_blocks
from .simd import INT32, constant, pointer, vector_pass

LANES, SLOTS = 16, 8  # counters of a group, and elements per counter
GROUP = LANES * SLOTS
ROUNDS = 13
ROTATIONS = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)
PARITY = 0x1BD11BDA


class Factors:
    """LLVM instructions that make vectors of factors: 0 where an element is dropped, else `scale`."""

    def __init__(self, vectors, key, threshold, scale):
        self.vectors, self.builder = vectors, vectors.builder
        low, high = self._word(key), self._word(self.builder.lshr(key, constant(32)))
        parity = self.builder.xor(self.builder.xor(low, high), self._full(PARITY))
        self.keys = low, high, self._full(0), self._full(0), parity
        self.threshold, self.scale = self._word(threshold), vectors.splat(scale)

    def _full(self, value: int) -> ir.Constant:
        return ir.Constant(ir.VectorType(INT32, self.vectors.lanes), [value] * self.vectors.lanes)

    def _word(self, number):
        return self.vectors.splat(self.builder.trunc(number, INT32))

    def _rotate(self, x, count: int):
        return self.builder.or_(self.builder.shl(x, self._full(count)), self.builder.lshr(x, self._full(32 - count)))

    def _words(self, counter):
        """The four words for counter, counter + 1, ... in the lanes; none of these carries into bit 4."""
        builder = self.builder
        numbers = ir.Constant(self._full(0).type, list(range(self.vectors.lanes)))
        first = builder.add(self._word(counter), numbers)
        x = [first, self._word(builder.lshr(counter, constant(32))), self._full(0), self._full(0)]
        x = list(map(builder.add, x, self.keys))
        for number in range(ROUNDS):
            partners = (1, 3) if number % 2 == 0 else (3, 1)
            for i, j, count in zip((0, 2), partners, ROTATIONS[number % len(ROTATIONS)]):
                x[i] = builder.add(x[i], x[j])
                x[j] = builder.xor(self._rotate(x[j], count), x[i])
            if number % 4 == 3:
                times = number // 4 + 1
                x = [builder.add(x[i], self.keys[(times + i) % 5]) for i in range(4)]
                x[3] = builder.add(x[3], self._full(times))
        return x

    def of(self, counter) -> list:
        """SLOTS vectors, each with one slot of counter, counter + 1, ... in its lanes."""
        builder, zero = self.builder, self.vectors.full(0.0)
        words = [word for x in self._words(counter) for word in (x, self._rotate(x, 16))]
        return [builder.select(builder.icmp_unsigned("<", word, self.threshold), zero, self.scale) for word in words]


@vector_pass
def drop(vectors, x, added, out, count, count_added, position, key, threshold, scale):
    """out = x * factors + added, for `count` elements (below 2**31) from `position` of the whole array on; `added` has as
    many, or none."""
    builder, lanes = vectors.builder, vectors.lanes
    factors = Factors(vectors, key, threshold, scale)
    first_group, past = (builder.sdiv(number, constant(GROUP)) for number in (
        position, builder.add(builder.add(position, count), constant(GROUP - 1))))
    numbers = ir.Constant(ir.VectorType(INT32, lanes), list(range(lanes)))
    end, end_of_added = (vectors.splat(builder.trunc(number, INT32)) for number in (count, count_added))
    with cgutils.for_range_slice(builder, first_group, past, constant(1)) as (group, _):
        start = builder.sub(builder.mul(group, constant(GROUP)), position)  # negative, if the array begins within a group
        for lane in range(0, LANES, lanes):
            counter = builder.add(builder.mul(group, constant(LANES)), constant(lane))
            for slot, factor in enumerate(factors.of(counter)):
                i = builder.add(start, constant(slot * LANES + lane))
                element = builder.add(vectors.splat(builder.trunc(i, INT32)), numbers)
                exists, is_added = (builder.icmp_unsigned("<", element, bound) for bound in (end, end_of_added))
                result = vectors.multiply_add(vectors.load(builder.gep(x, [i]), exists), factor,
                                              vectors.load(builder.gep(added, [i]), is_added))
                vectors.store(result, builder.gep(out, [i]), exists)


@jit
def _drop_block(block, x, added, out, key, threshold, scale):
    start = block * ELEMENTS
    count = min(ELEMENTS, x.size - start)
    drop(pointer(x, start), pointer(added, start), pointer(out, start), count, min(count, added.size), key[1] + start,
         key[0], threshold, scale)


@kernel(parallel=True)
def dropout_forward(x, added, out, key, threshold, scale):
    """x, out (N,), added (N,) or (0,), key (2,) = the key and the position of x[0]: out = x * factors + added"""
    parallel_for(_drop_block, number_of_blocks(x.size, ELEMENTS), x.size, (x, added, out, key, threshold, scale))


def threshold_and_scale(p: float, dtype: np.dtype) -> tuple[int, np.floating]:
    """The threshold that words are compared with, and the factor of elements that are kept; 0 if p is 1."""
    return min(round(p * 2**32), 2**32 - 1), dtype.type(1 / (1 - p) if p < 1 else 0)


def dropout(x: np.ndarray, key: np.ndarray, p: float, added: np.ndarray | None = None) -> np.ndarray:
    """x * keep / (1 - p) [+ added], where keep is 0 with probability p, else 1.

    key (2,): see `minigrad.random.key_of_batch`; added has the shape and dtype of x.
    """
    out, x = empty_like(x), x.reshape(-1)
    added = x[:0] if added is None else added.reshape(-1)
    dropout_forward(x, added, out.reshape(-1), key, *threshold_and_scale(p, x.dtype))
    return out


def factors(shape: tuple[int, ...], key: np.ndarray, p: float, dtype: np.dtype) -> np.ndarray:
    """keep / (1 - p)"""
    return dropout(np.ones(shape, dtype), key, p)
