"""Indexing in loops: gradients of many slices are added in one array."""
from ..ops import indexing
from ..ops.indexing import add_at
from ..implementations import implements


@implements(indexing.Index)
class Index(indexing.Index):
    """Adds to the gradient that has already arrived for x: of a thousand slices, only the first makes zeros."""

    adds_onto = True

    def backward(self, dout, onto=None):
        if onto is None:
            return super().backward(dout)
        add_at(onto, self.index, dout)
        return onto
