"""Cross-entropy with kernels, loss and gradient in one pass over the logits.

Forward already computes the slope dloss_n/dx_n, and saves it with the inputs.
"""
import numpy as np

from ..ops import losses
from ..implementations import implements
from .kernels import cross_entropy as kernels
from .pool import empty, empty_like


@implements(losses.CrossEntropy)
class CrossEntropy(losses.CrossEntropy):
    by_kernels = True
    saves_inputs = True

    def forward(self, x, *, targets, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        of_rows, slope, total, share = empty(x.shape[:1], x.dtype), empty_like(x), np.empty(1, x.dtype), np.empty(1)
        kernels.cross_entropy_forward_backward(x, targets, ignore_index, float(label_smoothing), reduction == "mean",
                                               of_rows, slope, total, share)
        self.targets, self.ignore_index = targets, ignore_index
        self.save(x, slope, share)
        return of_rows if reduction == "none" else total.reshape(())

    def backward(self, dout, x, slope, share):
        dx = empty_like(x)
        kernels.cross_entropy_backward(slope, self.targets, self.ignore_index, dout.reshape(-1), int(dout.size > 1), share,
                                       dx)
        return dx
