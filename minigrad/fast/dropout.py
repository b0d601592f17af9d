"""Dropout with kernels, which make the mask while they multiply by it."""
from ..ops import dropout
from ..implementations import implements
from .kernels import dropout as kernels


@implements(dropout.Dropout)
class Dropout(dropout.Dropout):
    by_kernels = True

    def forward(self, x, *, key, p):
        self.key, self.p = key, p
        return kernels.dropout(x, key, p)


@implements(dropout.AddDropped)
class AddDropped(dropout.AddDropped):
    by_kernels = True

    def forward(self, a, b, *, key, p):
        self.key, self.p = key, p
        return kernels.dropout(b, key, p, added=a)
