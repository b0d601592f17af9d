"""Dropout (Srivastava et al., JMLR 15, 2014).

Whether an element is kept depends on its position in the batch and on a key, and on nothing else. So a mask need not be
stored: backward makes it again. And a rank that knows where its rows lie in the whole batch makes its part of the mask.

The numbers come from Threefry-4x32 with 13 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). It
makes four words of 32 bits of a counter and a key. An element is dropped if its word is below p * 2^32. Each word serves
two elements, as it is and with its halves exchanged, so a counter serves eight. The lower half decides only where the upper
one is that of p * 2^32, once in 65,536 times: two such elements are independent but for 1e-5. Elements that share a counter
lie 16 apart: element 16 s + l of a group of 128 has slot s of the group's l-th counter.
"""
import math

import numpy as np

from ..tape import Op

LANES, SLOTS = 16, 8  # counters of a group, and elements that a counter serves
ROUNDS = 13
ROTATIONS = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)
PARITY = 0x1BD11BDA


def rotated(word, count: int):
    return word << np.uint32(count) | word >> np.uint32(32 - count)


def threefry(counter, key) -> list:
    """Four words, of the four of a counter and the four of a key: arrays of uint32, which broadcast.

    >>> [f"{word[0]:08x}" for word in threefry([np.zeros(1, np.uint32)] * 4, [np.zeros(1, np.uint32)] * 4)]
    ['531c7e4f', '39491ee5', '2c855a92', '3d6abf9a']
    """
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(PARITY)]
    x = [counter[i] + keys[i] for i in range(4)]
    for n in range(ROUNDS):
        for i, count in zip((0, 2), ROTATIONS[n % len(ROTATIONS)]):
            j = i + 1 if n % 2 == 0 else 3 - i
            x[i] = x[i] + x[j]
            x[j] = rotated(x[j], count) ^ x[i]
        if n % 4 == 3:
            times = n // 4 + 1
            x = [x[i] + keys[(times + i) % 5] for i in range(4)]
            x[3] = x[3] + np.uint32(times)
    return x


def four_words(number: np.ndarray) -> tuple:
    """Of numbers of 64 bits: the lower half, the upper half, and two that are zero."""
    number = number.view(np.uint64)
    low, high = number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32)
    return low, high, np.zeros_like(low), np.zeros_like(low)


def factors(shape: tuple[int, ...], key: np.ndarray, p: float, dtype: np.dtype) -> np.ndarray:
    """keep / (1 - p), where keep is 0 with probability p, else 1.

    key (2,): 64 bits, and the position of the first element in the batch; see `random.key_of_batch`.
    """
    count, first = math.prod(shape), int(key[1])
    groups = np.arange(first // (LANES * SLOTS), -(-(first + count) // (LANES * SLOTS)))
    words = threefry(four_words(groups[:, None] * LANES + np.arange(LANES)), four_words(key[:1]))
    slots = np.stack([word for x in words for word in (x, rotated(x, 16))], axis=1)  # (groups, SLOTS, LANES)
    words = slots.reshape(-1)[first % (LANES * SLOTS) :][:count].reshape(shape)
    is_dropped = words < min(round(p * 2**32), 2**32 - 1)
    return np.where(is_dropped, 0.0, 1 / (1 - p) if p < 1 else 0.0).astype(dtype)


class Dropout(Op):
    """out = x * keep / (1 - p):  dx = dout * keep / (1 - p), with the same keep

    keep is 1 with probability 1 - p, else 0, so that the mean of out is x. It is nowhere stored: it is made of `key`, a
    number and a position in the batch (`random.key_of_batch`), and backward makes it again.
    """

    fresh_gradients = True

    @staticmethod
    def positions(shape) -> int:
        """How many positions an array of this shape takes up in the whole batch."""
        return math.prod(shape)

    def forward(self, x, *, key, p):
        self.key, self.p = key, p
        return x * factors(x.shape, key, p, x.dtype)

    def backward(self, dout):
        return type(self).call(dout, key=self.key, p=self.p)


class AddDropped(Op):
    """out = a + b * keep / (1 - p):  da = dout,  db = dout * keep / (1 - p)

    A residual connection; a and b have the same shape and dtype.
    """

    def forward(self, a, b, *, key, p):
        self.key, self.p = key, p
        return a + b * factors(b.shape, key, p, b.dtype)

    def backward(self, dout):
        return dout, Dropout.call(dout, key=self.key, p=self.p)
