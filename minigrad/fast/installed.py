"""The engine room's names. Importing them installs the implementations of ops: each file implements its namesake in
`minigrad.ops`. Arrays are made in memory that is reused."""
from ..backend import replaced_by
from .kernels.adamw import norm
from .kernels.bfloat16 import is_native as multiplies_bfloat16
from .kernels.ahead import start as compile_ahead
from .kernels.buffers import copied
from .kernels.cache import cache_folder
from .kernels.jit import get_num_threads, set_num_threads
from .kernels.threads import layer as threading_layer
from . import (
    activations, attention, cross_entropy, dropout, elementwise, embedding, indexing, layer_norm, matmul, softmax,
)
from .compiling.compiled import compile
from .multi_tensor import MultiTensorAdam, MultiTensorMuon, MultiTensorStep
from .pool import empty, lasting

replaced_by(empty=empty, lasting=lasting, copied=copied)
