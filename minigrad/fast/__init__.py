"""What makes it fast: implementations of ops by kernels, a file for each that `minigrad.ops` has of the same name."""
from . import backend
from . import (
    activations, attention, cross_entropy, cumulative, elementwise, embedding, layer_norm, matmul, normalize, reduce,
    rms_norm, softmax, statistics,
)
