"""What libraries on top of minigrad need beside its public names, as `nn` does: to apply ops, and to work on plain arrays.

`tensor.array` is a Tensor's plain array. Ops are in `minigrad.ops`, the random generator in `minigrad.random`.
"""
from ..arrays.devices import dtype_of_to  # dtype_of_to(target, dtype, device): the dtype that to() asks for, if any
from ..arrays.versions import latest_write  # latest_write(): when any array was last written to, by the engine's clock
from ..arrays.versions import note_write  # note_write(array): a backward that needs its old values is refused
from ..fast import ACTIVATIONS  # the numbers by which programs name activations
from ..fast import LIBRARIES  # packages whose code steps don't follow: it says itself what it reads
from ..fast import MultiTensorAdam, MultiTensorMuon, MultiTensorStep  # steps on all parameters at once, or None
from ..fast import Program  # steps on rows of numbers, such as those of a model, run by one kernel call; None without
from ..fast import cache_folder  # cache_folder(): where compiled kernels are kept
from ..fast import compile_ahead  # compile_ahead(): other processes compile what a training step needs
from ..fast import keep_grad_in  # keep_grad_in(leaf, memory): where compiled steps put its gradient
from ..fast import norm  # norm(arrays): the 2-norm of all their elements, summed in float64
from ..fast import sample  # sample(logits, temperature, top_k, top_p, uniform): a class for each row
from ..fast import threading_layer  # threading_layer(): who runs parallel kernels
from ..ops.operands import binary  # binary(op, a, b, **options): an op of two operands, in their common dtype
from ..ops.operands import check_dim  # check_dim(name, x, dim): a valid axis, counted from the front
from ..ops.operands import floating, promote  # dtypes: integers as float32; two operands in their common dtype
from ..ops.shape import pad  # pad(x, widths, value)
from ..runner import changes  # changes(): how often steps were outdated, as by setting an attribute of a module
from ..runner import compute  # compute(function, *values): an array of arrays and those of Tensors, also in replays
from ..runner import notice
from ..runner import opaque  # decorate what reads and writes Tensors in its own way: a replay calls it
from ..runner import outdate  # outdate(): what a compiled step has read has changed, so steps are captured anew
from ..tape import Op  # an operation: a class with forward and backward
from ..tensor import HookHandle  # what registering a hook gives
from ..tensor import apply  # apply(op, *inputs, **options): run an op on Tensors, on the tape if a gradient is wanted
from .left_out import left_out  # left_out(module, table): the `__getattr__` that names what to take instead

__all__ = [
    "ACTIVATIONS", "HookHandle", "LIBRARIES", "MultiTensorAdam", "MultiTensorMuon", "MultiTensorStep", "Op", "Program",
    "apply", "binary", "cache_folder", "changes", "check_dim", "compile_ahead", "compute", "dtype_of_to",
    "floating", "keep_grad_in",
    "latest_write", "left_out", "norm", "note_write", "opaque", "outdate", "pad", "promote", "refuse_in_capture", "sample",
    "threading_layer",
]


def refuse_in_capture(what: str, instead: str | None = None) -> None:
    """RuntimeError in a compiled step: this happens once, and a replay would not do it."""
    notice(what, instead=instead)
