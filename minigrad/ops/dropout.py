"""Dropout (Srivastava et al., JMLR 15, 2014)."""
import math

from ..kernels import dropout as kernels
from ..tape import Op


class Dropout(Op):
    """out = x * keep / (1 - p):  dx = dout * keep / (1 - p), with the same keep

    keep is 1 with probability 1 - p, else 0, so that the mean of out is x. It is nowhere stored: the kernel makes it of
    `key`, a number and a position in the batch (`random.key_of_batch`), and backward makes it again.
    """

    fresh_gradients = True
    by_kernels = True

    @staticmethod
    def positions(shape) -> int:
        """How many positions an array of this shape takes up in the whole batch."""
        return math.prod(shape)

    def forward(self, x, *, key, p):
        self.key, self.p = key, p
        return kernels.dropout(x, key, p)

    def backward(self, dout):
        return type(self).call(dout, key=self.key, p=self.p)


class AddDropped(Op):
    """out = a + b * keep / (1 - p):  da = dout,  db = dout * keep / (1 - p)

    A residual connection, in one pass; a and b have the same shape and dtype.
    """

    by_kernels = True

    def forward(self, a, b, *, key, p):
        self.key, self.p = key, p
        return kernels.dropout(b, key, p, added=a)

    def backward(self, dout):
        return dout, Dropout.call(dout, key=self.key, p=self.p)
