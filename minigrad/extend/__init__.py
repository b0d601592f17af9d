"""What libraries built on minigrad, such as `nn`, need beyond its public names: to apply ops, and to work on plain arrays.

`tensor.array` is a Tensor's plain array. Ops are in `minigrad.ops`, the random generator in `minigrad.random`.
"""
from ..arrays.devices import dtype_of_to  # dtype_of_to(target, dtype, device): the dtype that to() asks for, if any
from ..arrays.dtypes import from_bfloat16, to_bfloat16  # float32 arrays from bfloat16's bits, and to them
from ..arrays.versions import latest_write  # latest_write(): when any array was last written to, by the engine's clock
from ..arrays.versions import note_write  # note_write(array): any backward that needs its old values raises an error
from ..fast import MultiTensorAdam, MultiTensorMuon, MultiTensorStep  # optimizer steps for all parameters at once, or None
from ..fast import cache_folder  # cache_folder(): where compiled kernels are kept
from ..fast import compile_ahead  # compile_ahead(): let other processes compile what a training needs
from ..fast import multiplies_bfloat16  # multiplies_bfloat16(): does the processor do autocast's products at once?
from ..fast import norm  # norm(arrays): the 2-norm of all their elements, summed in float64
from ..fast import threading_layer  # threading_layer(): what runs parallel kernels
from ..fast.nests import each  # each(nest, function): the same tuples, lists and dicts, of function(item)
from ..ops.operands import binary  # binary(op, a, b, **options): an op of two operands, in their common dtype
from ..ops.operands import check_dim  # check_dim(name, x, dim): a valid axis, counted from the front
from ..ops.operands import floating, promote  # dtypes: integers as float32; two operands in their common dtype
from ..ops.shape import pad  # pad(x, widths, value)
from ..packages import LIBRARIES  # packages whose code captures do not follow, and errors do not blame
from ..pytorchs_names import say_what_is_left_out  # say_what_is_left_out(module, {name: what to use instead})
from ..replays import changes  # changes(): how often `outdate` was called
from ..implementations import definition  # definition(op, *inputs, **options): a fused op, computed by primitives
from ..runner import compute  # compute(function, *values): an array, which each replay computes again
from ..runner import unbroadcast  # unbroadcast(gradient, shape, op): summed over what was broadcast
from ..replays import notice  # notice(deed, instead=...): an error in a compiled step, as a replay would not do this
from ..replays import opaque  # decorate a function that reads and writes Tensors by itself: each replay calls it
from ..replays import outdate  # outdate(): something that compiled steps have read has changed, so capture them again
from ..tape import Node, Op  # where a gradient arrives; an operation: a class with forward and backward
from ..appendix.hooks import HookHandle  # what registering a hook returns
from ..tensor import apply  # apply(op, *inputs, **options): run an op on Tensors, on the tape if a gradient is wanted

__all__ = [
    "LIBRARIES", "HookHandle", "MultiTensorAdam", "MultiTensorMuon", "MultiTensorStep", "Node", "Op", "apply", "binary",
    "cache_folder", "changes", "check_dim", "compile_ahead", "compute", "definition", "dtype_of_to", "each", "floating",
    "from_bfloat16", "latest_write", "multiplies_bfloat16", "norm", "note_write", "notice", "opaque", "outdate", "pad",
    "promote", "say_what_is_left_out", "threading_layer", "to_bfloat16", "unbroadcast",
]
