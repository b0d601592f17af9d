"""GELU and SwiGLU with kernels."""
from ..ops import activations
from ..implementations import implements
from .kernels import activations as kernels


@implements(activations.Gelu)
class Gelu(activations.Gelu):
    by_kernels = True

    def forward(self, x, *, approximate="none"):
        self.save(x)
        self.approximate = approximate
        out = kernels.empty_apart(x)
        kernels.gelu_forward(x.reshape(-1), out.reshape(-1), approximate == "tanh")
        return out

    def backward(self, dout, x):
        dx = kernels.empty_apart(x)
        kernels.gelu_backward(dout.reshape(-1), x.reshape(-1), dx.reshape(-1), self.approximate == "tanh")
        return dx


@implements(activations.SwiGLU)
class SwiGLU(activations.SwiGLU):
    by_kernels = True

    def forward(self, a, b):
        self.save(a, b)
        out = kernels.empty_apart(a)
        kernels.swiglu_forward(a.reshape(-1), b.reshape(-1), out.reshape(-1))
        return out

    def backward(self, dout, a, b):
        da, db = kernels.empty_apart(a), kernels.empty_apart(b)
        kernels.swiglu_backward(dout.reshape(-1), a.reshape(-1), b.reshape(-1), da.reshape(-1), db.reshape(-1))
        return da, db
