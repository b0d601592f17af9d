"""Softmax with kernels, which work along the last axis; other axes are moved there.

In float32, e^(x - max) below 2^-126 becomes 0, as denormals would be slow.
"""
from ..ops import softmax
from ..tape import implements
from .kernels import softmax as kernels
from .kernels.buffers import in_order
from .last_axis import along_last_axis


@implements(softmax.Softmax)
class Softmax(softmax.Softmax):
    kernels = kernels.softmax_forward, kernels.softmax_backward

    def forward(self, x, *, dim):
        self.dim = dim
        out = in_order(along_last_axis(self.kernels[0], dim, x))
        self.save(out)
        return out

    def backward(self, dout, out):
        return along_last_axis(self.kernels[1], self.dim, dout, out)


@implements(softmax.LogSoftmax)
class LogSoftmax(Softmax, softmax.LogSoftmax):
    kernels = kernels.log_softmax_forward, kernels.log_softmax_backward
