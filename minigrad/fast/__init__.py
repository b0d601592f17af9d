"""What makes it fast: implementations of ops by kernels, a file for each that `minigrad.ops` has of the same name."""
from . import backend  # noqa: F401
from . import (  # noqa: F401
    activations, attention, cross_entropy, cumulative, embedding, layer_norm, matmul, normalize, reduce, rms_norm, softmax,
)
