"""Matrix products with kernels; in Linear and MLP, leading axes are rows of one product."""
import numpy as np

from ..ops import matmul
from ..ops.arithmetic import product
from ..tape import implements
from .kernels import activations, gemm
from .kernels.rows import as_rows, sum_rows
from .rounding import RoundsOperands


@implements(matmul.MatMul)
class MatMul(RoundsOperands, matmul.MatMul):
    @classmethod
    def takes(cls, arrays):
        return arrays[0].dtype.kind == "f"

    def forward(self, a, b):
        self.save(a, b)
        return self._product(a, b)

    def _product(self, a, b):
        chosen = self.product() * (a.dtype.char == "f")
        if a.ndim > 2 or b.ndim > 2:
            return gemm.batched_matmul(a, b, product=chosen)
        if not chosen and a.shape[1] == 1 == b.shape[0] and 1 in (a.shape[0], b.shape[1]):  # a vector times a number
            return product(a, b)
        return gemm.matmul(a, b, product=chosen)

    def backward(self, dout, a, b):
        da = self._product(dout, b.swapaxes(-1, -2)) if self.needs(0) else None
        db = self._product(a.swapaxes(-1, -2), dout) if self.needs(1) else None
        return da, db


@implements(matmul.Linear)
class Linear(RoundsOperands, matmul.Linear):
    by_kernels = True

    def forward(self, x, weight, bias=None):
        self.save(x, weight)
        out = gemm.matmul(as_rows(x), weight.T, bias=bias, product=self.product())
        return out.reshape(x.shape[:-1] + (weight.shape[0],))

    def backward(self, dout, x, weight):
        dout_rows, chosen = as_rows(dout), self.product()
        dx = dweight = dbias = None
        if self.needs(2):
            dbias = sum_rows(dout_rows)
        if self.needs(1):
            dweight = gemm.matmul(dout_rows.T, as_rows(x), product=chosen)
        if self.needs(0):
            dx = gemm.matmul(dout_rows, weight, product=chosen).reshape(dout.shape[:-1] + (weight.shape[1],))
        return dx, dweight, dbias


@implements(matmul.MLP)
class MLP(RoundsOperands, matmul.MLP):
    """Backward computes gelu(h) again, from the exponentials that dh needs."""

    by_kernels = True

    def forward(self, x, expand, expand_bias, project, project_bias, *, approximate="none"):
        self.approximate, use_tanh = approximate, approximate == "tanh"
        chosen = self.product()
        hidden = gemm.matmul(as_rows(x), expand.T, bias=expand_bias, product=chosen)
        activated = activations.empty_apart(hidden)
        activations.gelu_forward(hidden.reshape(-1), activated.reshape(-1), use_tanh)
        self.save(x, expand, expand_bias, project, project_bias, hidden)
        out = gemm.matmul(activated, project.T, bias=project_bias, product=chosen)
        return out.reshape(x.shape[:-1] + (project.shape[0],))

    def backward(self, dout, x, expand, expand_bias, project, project_bias, hidden):
        dout, chosen = as_rows(dout), self.product()
        dexpand = dproject = dproject_bias = dx = None
        dhidden = gemm.matmul(dout, project, product=chosen)  # dgelu until the next kernel
        activated, dexpand_bias = activations.empty_apart(hidden), np.empty(expand.shape[0], hidden.dtype)
        activations.gelu_rows_backward(hidden, dhidden, activated, dexpand_bias, self.approximate == "tanh")
        if self.needs(4):
            dproject_bias = sum_rows(dout)
        if self.needs(3):
            dproject = gemm.matmul(dout.T, activated, product=chosen)
        if self.needs(1):
            dexpand = gemm.matmul(dhidden.T, as_rows(x), product=chosen)
        if self.needs(0):
            dx = gemm.matmul(dhidden, expand, product=chosen).reshape(x.shape)
        return dx, dexpand, dexpand_bias, dproject, dproject_bias
