"""Indexing in loops: gradients of many slices are added in one array."""
from ..ops import indexing
from ..ops.indexing import add_at
from ..tape import implements


@implements(indexing.Index)
class Index(indexing.Index):
    """Adds to the gradient that has already arrived for x: of a thousand slices, only the first makes zeros."""

    accumulates_into, accumulates_in_place = 0, True

    def backward(self, dout, accumulated=None):
        if accumulated is None:
            return super().backward(dout)
        add_at(accumulated, self.index, dout)
        return accumulated
