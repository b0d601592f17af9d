"""What libraries on top of minigrad need beside its public names, as `nn` does: to apply ops, and to work on plain arrays.

`tensor.array` is a Tensor's plain array. Ops are in `minigrad.ops`, the random generator in `minigrad.random`.
"""
from typing import Any, Callable

from . import recording
from .fused_adam import FusedAdam  # the step of Adam and AdamW, of all parameters at once
from .kernels.adamw import norm  # norm(arrays): the 2-norm of all their elements, summed in float64
from .methods.operands import floating, promote  # dtypes: integers as float32; two operands in their common dtype
from .methods.shape import pad  # pad(x, widths, value)
from .recording import as_it_is as opaque  # decorate what reads and writes Tensors in its own way: a replay calls it
from .recording import outdate  # outdate(): what a compiled step has read has changed, so steps are recorded anew
from .recording import refuse  # refuse(what, instead): RuntimeError in a compiled step, as a replay would not do this
from .tensor import RemovableHook as HookHandle  # what registering a hook gives
from .tensor import apply  # apply(op, *inputs, **options): run an op on Tensors, on the tape if a gradient is wanted
from .writes import note_write  # note_write(array): it was written to, so a backward that needs the old values is refused

__all__ = [
    "FusedAdam", "HookHandle", "apply", "compute", "floating", "norm", "note_write", "opaque", "outdate", "pad", "promote",
    "refuse",
]


def compute(function: Callable, *values) -> Any:
    """function(*values), an array computed from arrays, those of Tensors among the values; a replay computes it anew.

    >>> import numpy as np
    >>> import minigrad as mg
    >>> compute(np.add, mg.tensor([1, 2]), 1)
    array([2, 3])
    """
    return recording.call(function, *map(recording.array_of, values))
