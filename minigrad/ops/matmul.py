"""Matrix products. The gradient of one factor is dout times the other factor, transposed where shapes ask for it.

For out = a @ b, out_ij = sum_k a_ik b_kj, so
    da_ik = sum_j dout_ij b_kj   is  da = dout @ b^T
    db_kj = sum_i a_ik dout_ij   is  db = a^T @ dout
"""
import numpy as np

from ..kernels import elementwise, gemm
from ..kernels.rows import as_rows, sum_rows
from ..tape import Fused, Op
from .elementwise import Gelu


class MatMul(Op):
    """out = a @ b, (..., M, K) @ (..., K, N) -> (..., M, N), leading axes broadcast"""

    def forward(self, a, b):
        self.save(a, b)
        if a.dtype.kind != "f":
            return np.matmul(a, b)
        if a.ndim == b.ndim == 2:
            return gemm.matmul(a, b)
        return gemm.batched_matmul(a, b)

    def backward(self, dout, a, b):
        da = MatMul.call(dout, np.swapaxes(b, -1, -2)) if self.needs(0) else None
        db = MatMul.call(np.swapaxes(a, -1, -2), dout) if self.needs(1) else None
        return da, db

    def count(self, arrays, output):
        return output.size * arrays[0].shape[-1]


class Linear(Fused):
    """out = x @ weight^T + bias, x (..., I), weight (O, I), bias (O,) -> (..., O)

    dx = dout @ weight,  dweight = dout^T @ x,  dbias = sum of dout over all rows. Leading axes are rows of one product.
    """

    by_kernels = True

    @staticmethod
    def definition(x, weight, bias=None):
        out = x @ np.swapaxes(weight, 0, 1)
        return out if bias is None else out + bias

    def forward(self, x, weight, bias=None):
        self.save(x, weight, bias)
        out = gemm.matmul(as_rows(x), weight.T, bias=bias)
        return out.reshape(x.shape[:-1] + (weight.shape[0],))

    def backward(self, dout, x, weight, bias):
        dout_rows = as_rows(dout)
        dx = dweight = dbias = None
        if self.needs(2):
            dbias = sum_rows(dout_rows)
        if self.needs(1):
            dweight = gemm.matmul(dout_rows.T, as_rows(x))
        if self.needs(0):
            dx = gemm.matmul(dout_rows, weight).reshape(x.shape)
        return dx, dweight, dbias

    def count(self, arrays, output):
        return output.size * arrays[0].shape[-1]

    def count_backward(self, multiply_adds):
        return multiply_adds * (self.needs(0) + self.needs(1))


class MLP(Fused):
    """out = gelu(h) @ project^T + project_bias, h = x @ expand^T + expand_bias, over the last axis

    x (..., I), expand (H, I), expand_bias (H,), project (O, H), project_bias (O,) -> (..., O).
    dproject = dout^T @ gelu(h),  dgelu = dout @ project,  dh = dgelu * gelu'(h), and from there as in Linear.
    Saves x and h, but not gelu(h): it comes with dh, from the same exponentials.
    """

    by_kernels = True

    @staticmethod
    def definition(x, expand, expand_bias, project, project_bias, *, approximate="none"):
        activated = Gelu.definition(Linear.definition(x, expand, expand_bias), approximate=approximate)
        return Linear.definition(activated, project, project_bias)

    def forward(self, x, expand, expand_bias, project, project_bias, *, approximate="none"):
        self.use_tanh = approximate == "tanh"
        hidden = gemm.matmul(as_rows(x), expand.T, bias=expand_bias)
        activated = elementwise.empty_apart(hidden)
        elementwise.gelu_forward(hidden.reshape(-1), activated.reshape(-1), self.use_tanh)
        self.save(x, expand, expand_bias, project, project_bias, hidden)
        out = gemm.matmul(activated, project.T, bias=project_bias)
        return out.reshape(x.shape[:-1] + (project.shape[0],))

    def backward(self, dout, x, expand, expand_bias, project, project_bias, hidden):
        dout = as_rows(dout)
        dexpand = dproject = dproject_bias = dx = None
        dhidden = gemm.matmul(dout, project)  # dgelu so far
        activated, dexpand_bias = elementwise.empty_apart(hidden), np.empty(expand.shape[0], hidden.dtype)
        elementwise.gelu_rows_backward(hidden, dhidden, activated, dexpand_bias, self.use_tanh)
        if self.needs(4):
            dproject_bias = sum_rows(dout)
        if self.needs(3):
            dproject = gemm.matmul(dout.T, activated)
        if self.needs(1):
            dexpand = gemm.matmul(dhidden.T, as_rows(x))
        if self.needs(0):
            dx = gemm.matmul(dhidden, expand).reshape(x.shape)
        return dx, dexpand, dexpand_bias, dproject, dproject_bias

    def count(self, arrays, output):
        x, expand, *_ = arrays
        self.first, self.second = x.size // max(x.shape[-1], 1) * expand.size, output.size * expand.shape[0]
        return self.first + self.second

    def count_backward(self, multiply_adds):
        return self.first * (self.needs(0) + self.needs(1)) + self.second * (1 + self.needs(3)) if multiply_adds else 0
