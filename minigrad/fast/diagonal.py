"""Large triangles with kernels, in a third of the time of np.tril for 256 x 256 elements."""
from ..ops import diagonal
from ..tape import implements
from .kernels import diagonal as kernels
from .kernels.buffers import empty
from .kernels.copying import in_order
from .kernels.rows import as_rows
from .kernels.thresholds import TAKEN


@implements(diagonal.Triangle)
class Triangle(diagonal.Triangle):
    @classmethod
    def takes(cls, arrays):
        return arrays[0].size >= TAKEN and arrays[0].dtype.kind == "f"

    def forward(self, x, *, diagonal, upper):
        self.diagonal, self.upper = diagonal, upper
        out = empty(x.shape, x.dtype)
        kernels.triangle_forward(as_rows(in_order(x)), as_rows(out), x.shape[-2], diagonal, int(upper))
        return out
