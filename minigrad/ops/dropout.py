"""Dropout (Srivastava et al., JMLR 15, 2014)."""
from ..tape import Op


class Dropout(Op):
    """out = x * keep / (1 - p):  dx = dout * keep / (1 - p), with the same keep

    keep is 1 with probability 1 - p, else 0, so that the mean of out is x. It is saved.
    """

    fresh_gradients = True

    def forward(self, x, *, keep, p):
        self.keep, self.scale = keep, 1.0 / (1.0 - p) if p < 1.0 else 0.0
        return x * keep * self.scale

    def backward(self, dout):
        return dout * self.keep * self.scale
