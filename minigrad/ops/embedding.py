"""Embedding: look up rows of a table."""
from ..kernels import embedding as kernels
from ..kernels.buffers import empty, empty_like
from ..kernels.rows import as_rows
from ..tape import Fused


class Embedding(Fused):
    """out = weight[ids] [+ positions], weight (V, C), ids (...) -> (..., C); positions (P, C) for ids (..., T), T <= P

    With positions, row t of that table is added at time t, the last axis of ids.
    dweight[v] = sum of dout over all places where id v stands; rows that nobody used get zero.
    dpositions[t] = sum of dout over all places at time t.
    """

    by_kernels = True

    @staticmethod
    def definition(weight, positions=None, *, ids):
        rows = weight[ids]
        return rows if positions is None else rows + positions[: ids.shape[-1]]

    def forward(self, weight, positions=None, *, ids):
        self.ids = ids
        self.save(weight, positions)
        out = empty(ids.shape + weight.shape[1:], weight.dtype)
        if out.size:
            table = weight[:0] if positions is None else positions
            kernels.embedding_forward(weight, table, ids.reshape(-1, ids.shape[-1] if ids.ndim else 1), as_rows(out))
        return out

    def backward(self, dout, weight, positions):
        dweight = dpositions = None
        if self.needs(0):
            dweight = empty_like(weight)
            kernels.embedding_backward(as_rows(dout), self.ids.reshape(-1), dweight)
        if positions is not None and self.needs(1):
            dpositions = empty_like(positions)
            kernels.positions_backward(dout.reshape(-1, *dout.shape[-2:]), dpositions)
        return dweight, dpositions
