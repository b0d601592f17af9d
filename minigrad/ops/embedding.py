"""Embedding: look up rows of a table."""
from ..kernels import embedding as kernels
from ..kernels.buffers import empty, empty_like
from ..kernels.rows import as_rows
from ..tape import Fused


class Embedding(Fused):
    """out = weight[ids] + positions:  dweight[v] = sum of dout where ids = v,  dpositions[t] = sum of dout at time t

    weight (V, C), ids (...) -> (..., C). Without positions, nothing is added; with them, (P, C), ids are (..., T), T <= P,
    and row t is added at time t. out_i = sum_v [ids_i = v] weight_v is a matrix product with zeros and ones, so
        dweight_v = sum_i [ids_i = v] dout_i:  an id that stands twice gets two gradients, one that nobody used gets zero.
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
