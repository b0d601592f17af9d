"""Matrix products with kernels; in Linear and MLP, leading axes are rows of one product. Einsum of two factors is a product
of matrices where it can be one: a tenth of NumPy's time or less."""
import functools
import math
import operator

import numpy as np

from .. import backend
from ..arrays.dtypes import from_bfloat16, to_bfloat16
from ..backend import replaced_by
from ..ops import matmul
from ..per_thread import this_thread
from ..implementations import implements
from ..ops.operands import call
from .autocast import autocast, precision
from .kernels import activations, bfloat16, gemm
from .kernels.rows import as_rows, sum_rows


class RoundsOperands:
    """An implementation that rounds its operands if forward first ran under autocast. Backward, and forward in a replay of
    a compiled step, do the same wherever they run."""

    rounds: bool | None = None

    def described(self) -> tuple[str]:
        return precision(),

    def product(self) -> int:
        """The `product` of `gemm.matmul` and other kernels."""
        if self.rounds is None:
            self.rounds = this_thread.rounds_products
        return bfloat16.product(self.rounds)

    def same_rounding(self) -> autocast:
        """A block in which other ops round as this one does."""
        self.product()
        return autocast("cpu", enabled=self.rounds)


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
            return backend.elementwise(operator.mul, a, b)
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


@implements(matmul.Einsum)
class Einsum(RoundsOperands, matmul.Einsum):
    """Rounded under autocast if it is a matrix product; then its gradients are, too."""

    def forward(self, *factors, subscripts):
        if self.rounds is None:
            self.rounds = this_thread.rounds_products and as_product(subscripts, factors) is not None
        with self.same_rounding():
            return super().forward(*factors, subscripts=subscripts)

    def backward(self, dout, *factors):
        if self.rounds and dout.dtype.char == "f":
            *_, rows, _, columns = groups_of_labels(self.options["subscripts"])
            if not (rows and columns):  # with a vector: the matrix's gradient is an outer product, which no kernel rounds
                dout, *factors = [x if x is None else from_bfloat16(to_bfloat16(x)) for x in (dout, *factors)]
        with self.same_rounding():
            return super().backward(dout, *factors)


def sum_of_products(subscripts: str, *factors: np.ndarray) -> np.ndarray:
    """bthd,bshd->bhts is, for each of b and h, a matrix (t, d) times one (d, s)."""
    groups = as_product(subscripts, factors)
    if groups is None:
        return backend.sum_of_products.__wrapped__(subscripts, *factors)
    a, b, output, batch, rows, summed, columns = groups
    sizes = dict(zip(a + b, [n for x in factors for n in x.shape]))

    def matrices(x, own, *groups):
        x = x.transpose([own.index(label) for label in "".join([batch, *groups])])
        return x.reshape((*lengths(batch), *[math.prod(lengths(group)) for group in groups]))

    def lengths(group):
        return [sizes[label] for label in group]

    made = batch + rows + columns
    product = call(matmul.MatMul, matrices(factors[0], a, rows, summed), matrices(factors[1], b, summed, columns))
    return product.reshape(lengths(made)).transpose([made.index(label) for label in output])


def as_product(subscripts: str, factors: tuple[np.ndarray, ...]) -> tuple[str, ...] | None:
    """`groups_of_labels` if these two factors are matrices with them, else None."""
    groups = groups_of_labels(subscripts) if len(factors) == 2 else None
    if groups is None:
        return None
    labels, shapes = groups[0] + groups[1], [n for x in factors for n in x.shape]
    sizes = dict(zip(labels, shapes))
    return groups if [sizes[label] for label in labels] == shapes else None  # else a 1 is broadcast


@functools.lru_cache(512)
def groups_of_labels(subscripts: str) -> tuple[str, ...] | None:
    """The labels of a, b and the output; then those in all three, in a and the output, in a and b, in b and the output.
    None if nothing is summed or each product is of two vectors, which is NumPy's work."""
    inputs, output = subscripts.split("->")
    a, b = inputs.split(",")
    batch = "".join(label for label in output if label in a and label in b)
    summed = "".join(label for label in a if label in b and label not in output)
    rows, columns = ("".join(label for label in output if label in own and label not in batch) for own in (a, b))
    is_whole = len(batch + rows + summed) == len(a) and len(batch + summed + columns) == len(b)
    return (a, b, output, batch, rows, summed, columns) if is_whole and summed and rows + columns else None


replaced_by(sum_of_products=sum_of_products)
