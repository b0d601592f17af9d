"""Dropout (Srivastava et al., JMLR 15, 2014).

Whether an element is kept depends on its position in the batch and on a key, and on nothing else. So a mask need not be
stored: backward makes it again. And a rank that knows where its rows lie in the whole batch makes its part of the mask.
The numbers are those of `minigrad.random`.
"""
import math

from ..random import factors
from ..tape import Op


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
