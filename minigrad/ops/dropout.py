"""Dropout (Srivastava et al., JMLR 15, 2014).

Whether an element is kept depends only on a key and on its position in the batch. So no mask is stored: backward makes it
again, and a rank that knows which rows of the whole batch it has makes its part of the mask. The random numbers come from
`minigrad.random`.
"""
import math

from ..random import factors
from ..tape import Op
from .operands import call


class Dropout(Op):
    """out = x * keep / (1 - p):  dx = dout * keep / (1 - p), with the same keep

    keep is 1 with probability 1 - p, else 0, so that the mean of out is x. It is not stored, but computed twice from `key`,
    a number and a position in the batch (`random.key_of_batch`).
    """

    @staticmethod
    def positions(shape) -> int:
        """The number of positions that an array of this shape takes up in the whole batch."""
        return math.prod(shape)

    def forward(self, x, *, key, p):
        self.key, self.p = key, p
        return x * factors(x.shape, key, p, x.dtype)

    def backward(self, dout):
        return call(type(self), dout, key=self.key, p=self.p)


class AddDropped(Op):
    """out = a + b * keep / (1 - p):  da = dout,  db = dout * keep / (1 - p)

    A residual connection; a and b have the same shape and dtype.
    """

    def forward(self, a, b, *, key, p):
        self.key, self.p = key, p
        return a + b * factors(b.shape, key, p, b.dtype)

    def backward(self, dout):
        return dout, call(Dropout, dout, key=self.key, p=self.p)
