"""Every op broken in each way that the rows of tests/cases.py are for.

The ways are written once, as wrappers of an op's forward or backward, and applied to every op to which they can happen.
"""
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator

import numpy as np

import minigrad
from cases import CASES, ELEMENTWISE, NEED_AN_AXIS
from minigrad import Tensor, runner
from minigrad.arrays import dtypes as arrays
from minigrad.fast import elementwise, pool
from minigrad.fast.compiling import capture
from minigrad.fast.kernels import jit
from minigrad.ops import (
    arithmetic, attention, comparison, cross_entropy, cumulative, dtypes, einsum, embedding, indexing, layer_norm, matmul,
    rms_norm, shape,
)
from minigrad.tape import Fused
from naive import Constant

from .base import Sabotage

OPS = list({case.op: None for case in CASES})
FIRST_BLOCK = 8192  # elements: what lies beyond is of rows above 32 kB

# ---------------------------------------------------------------------------------------------- wrong ways to an array


def without_strides(array):
    """What is read from where the array begins, as if it were contiguous."""
    if array.flags.c_contiguous:
        return array
    return np.lib.stride_tricks.as_strided(array, strides=np.empty(array.shape, array.dtype).strides)


def without_offset(array):
    """What is read from where the array's memory begins."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if root is array or array.size == 0:
        return array
    begin = root.reshape(-1).view(np.uint8)[: array.itemsize].view(array.dtype)
    return np.lib.stride_tricks.as_strided(begin, array.shape, np.abs(array.strides))


MISREADINGS = {"ignores the strides": without_strides, "ignores the offset": without_offset}


def written(array, values=7):
    """Write to an array, if it can be."""
    if isinstance(array, np.ndarray) and array.flags.writeable:
        array[...] = values
    return array


def cut_off(array):
    """Without what lies beyond the first block."""
    if array is None or array.size <= FIRST_BLOCK:
        return array
    array = np.array(array, order="C")
    array.reshape(-1)[FIRST_BLOCK:] = 0
    return array


def first_place(share, parent):
    """In place of the sum over the axes along which a value was broadcast, the gradient of its first place."""
    if share is None or parent is None or share.shape == parent.shape:
        return share
    share = share[(0,) * (share.ndim - len(parent.shape))]
    return share[tuple(slice(1) if n == 1 else slice(None) for n in parent.shape)]


# ---------------------------------------------------------------------------------------------- wrong forwards, backwards


def of_all_forms(apply: Callable, op: type, *arguments) -> None:
    """apply(op, *arguments), and the same of its implementation."""
    for form in (op, op.implementation):
        if form is not None and ("forward" in vars(form) or "backward" in vars(form)):
            apply(form, *arguments)


def claim_to_be_kernels(op: type) -> None:
    original = capture.is_by_kernels
    capture.is_by_kernels = lambda applied, arrays: isinstance(applied, op) or original(applied, arrays)


def forward_with(op: type, change: Callable) -> None:
    """`change(forward, arrays, options)` takes the place of forward."""
    if "forward" not in vars(op) and op.textbook is not None:
        return  # it has the textbook's, which has been changed
    original = op.forward

    @functools.wraps(original)
    def forward(self, *arrays, **options):
        return change(functools.partial(original, self), arrays, options)

    op.forward = forward


def backward_with(op: type, change: Callable) -> None:
    """`change(op, backward, dout, saved)`, which returns a gradient for each input, takes the place of backward."""
    if "backward" not in vars(op) and op.textbook is not None:
        return
    original = op.backward

    @functools.wraps(original)
    def backward(self, dout, *saved, **options):
        def shares(dout, *saved):
            found = original(self, dout, *saved, **options)
            return list(found if isinstance(found, tuple) else (found,))

        return tuple(change(self, shares, dout, saved))

    op.backward = backward


def misread_input(i, misread):
    def change(forward, arrays, options):
        arrays = [misread(x) if i == j and isinstance(x, np.ndarray) else x for j, x in enumerate(arrays)]
        return forward(*arrays, **options)

    return change


def refusing(is_refused):
    def change(forward, arrays, options):
        out = forward(*arrays, **options)
        if any(isinstance(x, np.ndarray) and is_refused(x) for x in (*arrays, *options.values(), np.asarray(out))):
            raise ValueError("sabotage: refused")
        return out

    return change


def in_place(forward, arrays, options):
    out = forward(*arrays, **options)
    for x in arrays:
        if isinstance(x, np.ndarray) and (x.shape, x.dtype) == (out.shape, out.dtype) and x.flags.writeable:
            return written(x, out)
    return out


def written_to(i):
    def change(forward, arrays, options):
        out = forward(*arrays, **options)
        written(arrays[i])
        return out

    return change


def one_memory():
    kept = {}

    def change(forward, arrays, options):
        out = np.asarray(forward(*arrays, **options))
        return written(kept.setdefault((out.shape, out.dtype), np.empty_like(out)), out)

    return change


def as_copy(forward, arrays, options):
    return np.array(forward(*arrays, **options))


def as_float64(forward, arrays, options):
    return np.asarray(forward(*arrays, **options)).astype(np.float64)


def no_longer_0d(forward, arrays, options):
    out = forward(*arrays, **options)
    return out if np.ndim(out) else np.reshape(out, 1)


def beyond_the_first_block(forward, arrays, options):
    return cut_off(np.asarray(forward(*arrays, **options)))


def misread_dout(misread):
    return lambda op, shares, dout, saved: shares(misread(dout), *saved)


def misread_saved(misread):
    return lambda op, shares, dout, saved: shares(dout, *(misread(x) if isinstance(x, np.ndarray) else x for x in saved))


def dout_written_to(op, shares, dout, saved):
    found = [x if x is None else np.array(x) for x in shares(dout, *saved)]
    written(dout)
    return found


def saved_handed_out(op, shares, dout, saved):
    found = shares(dout, *saved)
    for i, share in enumerate(found):
        for array in saved:
            if isinstance(array, np.ndarray) and share is not None and array.shape == share.shape:
                found[i] = written(array, share)
                return found
    return found


def missing(i):
    return lambda op, shares, dout, saved: [x if i != j else None for j, x in enumerate(shares(dout, *saved))]


def one_place_for_the_sum(op, shares, dout, saved):
    return [first_place(share, parent) for share, parent in zip(shares(dout, *saved), op.parents, strict=True)]


def as_float64_gradients(op, shares, dout, saved):
    return [share if share is None else share.astype(np.float64) for share in shares(dout, *saved)]


def cut_off_gradients(op, shares, dout, saved):
    return [cut_off(share) for share in shares(dout, *saved)]


# ---------------------------------------------------------------------------------------------- options


def other_value(name, value, parameter):
    """What an op computes with that ignores an option: its default, else something of the same kind."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter.default
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(value, np.ndarray):
        return ~value if value.dtype == bool else np.zeros_like(value)
    if isinstance(value, tuple):
        return value[::-1]
    return 0 if value else -1


OTHERS = {"p": 0.0, "low": -math.inf, "high": math.inf, "function": np.ceil, "dtype": np.float32, "num_heads": 1}


def without_option(op, name, arguments):
    parameter = inspect.signature(op.forward).parameters[name]
    return arguments | ({name: other_value(name, arguments[name], parameter)} if name in arguments else {})


def ignore_in_forward(op: type, name: str) -> None:
    forward_with(op, lambda forward, arrays, options: forward(*arrays, **without_option(op, name, options)))


def ignore_in_backward(op: type, name: str) -> None:
    """Backward has the attributes that forward would have left without the option."""
    forward = op.forward

    def change(op_, shares, dout, saved):
        other = type(op_).blank()
        forward(other, *op_.given, **without_option(type(op_), name, op_.options))
        vars(op_).update((key, value) for key, value in vars(other).items() if key != "saved")
        return shares(dout, *saved)

    @functools.wraps(forward)
    def noting(self, *arrays, **options):
        self.given = arrays
        return forward(self, *arrays, **options)

    op.forward = noting
    backward_with(op, change)


def ignore_in_definition(op: type, name: str) -> None:
    original = op.definition
    op.definition = staticmethod(lambda *inputs, **options: original(*inputs, **without_option(op, name, options)))


# What only forward reads: backward computes from the shape of dout, or from what forward saved.
READ_BY_FORWARD = {
    "keepdims", "reduction", "targets", "label_smoothing", "ignore_index", "eps", "function", "shape",
}

# ---------------------------------------------------------------------------------------------- which op can go wrong how

VALUE, GRADIENT, LAYOUTS, PRIVATE, FLOAT32, BACKWARD_FLOAT32, DEFINITION, NEEDED, REPLAY, REPLAY_OF_LAYOUTS = (
    f"tests/minigrad/test_{name}" for name in (
        "ops.py::test_value_is_the_reference", "ops.py::test_gradient_is_the_derivative",
        "ops.py::test_layouts_change_nothing", "ops.py::test_inputs_stay_and_results_are_private",
        "ops.py::test_float32_agrees_with_float64", "ops.py::test_backward_stays_in_float32",
        "ops.py::test_fused_is_its_definition", "ops.py::test_each_input_by_itself",
        "compiled.py::test_replay_has_the_bits_of_the_op", "compiled.py::test_replay_reads_arrays_as_they_lie",
    )
)  # fmt: skip
SCALARS = {cross_entropy.CrossEntropy, cross_entropy.NegativeLogLikelihood, matmul.Dot}  # their result is one number
VIEWS = {shape.Reshape, shape.Permute, shape.Expand, indexing.Index}
PASS_ON = {  # dout, or a view of it
    shape.Reshape, shape.Permute, shape.Expand, shape.Clone, shape.Concatenate, shape.Stack, indexing.AddAt,
    arithmetic.Add, arithmetic.Sub, arithmetic.Remainder, arithmetic.Fmod,
}
BROADCAST = {
    arithmetic.Add, arithmetic.Sub, arithmetic.Mul, arithmetic.Div, arithmetic.Pow, arithmetic.Remainder, arithmetic.Fmod,
    arithmetic.Lerp, comparison.Maximum, comparison.Minimum, comparison.Where, matmul.MatMul, einsum.Einsum, shape.Expand,
    indexing.SetAt,
}
OFTEN_BY_KERNELS = {shape.Reshape, matmul.MatMul, attention.ScaledDotProductAttention}  # or views: if they need not copy
ZERO_GRADIENT = {arithmetic.Step, arithmetic.FloorDivide}


def of_one_op(op: type) -> Iterator[tuple[str, str, Callable]]:
    """(what goes wrong, the test that is for it, how to bring it about)"""
    family = op.__module__.rpartition(".")[2]
    rows = [case for case in CASES if case.op is op]
    saves, gives_zero = len(inspect.signature(op.backward).parameters) > 2, op in ZERO_GRADIENT

    def forward(name, test, change):
        return name, test, functools.partial(of_all_forms, forward_with, op, change)

    def backward(name, test, change):
        return f"backward {name}", test, functools.partial(of_all_forms, backward_with, op, change)

    def attribute(name, test, **values):
        return name, test, lambda: [setattr(form, *item) for form in (op, (op.implementation or op)) for item in values.items()]

    yield forward("refuses empty arrays", VALUE, refusing(lambda array: array.size == 0))
    if op not in NEED_AN_AXIS:
        yield forward("refuses 0-d arrays", VALUE, refusing(lambda array: array.ndim == 0))
    if op not in NEED_AN_AXIS - SCALARS | {shape.Expand, shape.Stack, embedding.Embedding}:
        yield forward("gives (1,) for 0-d", VALUE, no_longer_0d)
    yield forward("gives float64", FLOAT32, as_float64)
    if family not in ("reduce", "statistics", "cumulative") and op not in SCALARS | {cross_entropy.CrossEntropyOfDistributions}:
        yield forward("stops after the first block", VALUE, beyond_the_first_block)
    yield forward("gives the same memory each time", PRIVATE, one_memory())
    is_one_to_one = op in ELEMENTWISE or family in ("softmax", "layer_norm", "rms_norm", "normalize") or op in (shape.Clone, cumulative.CumSum)
    if is_one_to_one and family != "binary_cross_entropy":
        yield forward("writes its result into its input", PRIVATE, in_place)
    if op in VIEWS:
        yield forward("gives a copy", PRIVATE, as_copy)

    for name, misread in MISREADINGS.items():
        if not gives_zero:
            yield backward(f"{name} of dout", LAYOUTS, misread_dout(misread))
        if saves:
            # the same for all layouts of the input:
            made_by_kernels = family == "softmax" or op in SCALARS and family == "cross_entropy"
            yield backward(f"{name} of what was saved", GRADIENT if made_by_kernels else LAYOUTS, misread_saved(misread))
    yield backward("writes to dout", PRIVATE, dout_written_to)
    if saves:
        yield backward("hands out what was saved", PRIVATE, saved_handed_out)
    yield backward("gives float64", BACKWARD_FLOAT32, as_float64_gradients)
    if not gives_zero:
        yield backward("stops after the first block", GRADIENT, cut_off_gradients)
    if op in BROADCAST:
        yield backward("keeps one place of what was broadcast", GRADIENT, one_place_for_the_sum)
    if op in PASS_ON:
        yield attribute("promises fresh gradients", PRIVATE, fresh_gradients=True)
    if "self.needs" in inspect.getsource(op.backward):
        yield attribute("computes what nobody needs", NEEDED, needs=lambda self, i: True)

    for i in sorted({i for case in rows for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)}):
        for name, misread in MISREADINGS.items():
            yield forward(f"{name} of input {i}", LAYOUTS, misread_input(i, misread))
        yield forward(f"writes to input {i}", PRIVATE, written_to(i))
        if not any(isinstance(x, Constant) for case in rows for x in case.inputs[i : i + 1]):
            yield backward(f"forgets input {i}", FLOAT32 if gives_zero else GRADIENT, missing(i))

    for name in sorted({name for case in rows for name in case.options}):
        yield f"ignores {name}", VALUE, functools.partial(of_all_forms, ignore_in_forward, op, name)
        if name not in READ_BY_FORWARD and not gives_zero:
            yield f"backward ignores {name}", GRADIENT, functools.partial(of_all_forms, ignore_in_backward, op, name)
        if issubclass(op, Fused):
            yield f"definition ignores {name}", DEFINITION, functools.partial(ignore_in_definition, op, name)

    if op not in (shape.Permute, shape.Expand):  # which compute nothing: there is nothing to replay
        test = REPLAY_OF_LAYOUTS if getattr((op.implementation or op), "by_kernels", False) or op in OFTEN_BY_KERNELS else REPLAY
        yield "claims to be kernels alone", test, functools.partial(claim_to_be_kernels, op)


# ---------------------------------------------------------------------------------------------- what all ops rest on


def everywhere(name: str, before: Callable, now: Callable) -> None:
    """Another function in all modules that have imported one by name."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("minigrad") and getattr(module, name, None) is before:
            setattr(module, name, now)


def memory_in_use():
    """Whatever has the right size is given out, whether or not somebody refers to it."""
    def empty(self, shape, dtype):
        size = math.prod(shape) * dtype.itemsize
        if size < pool.SMALL:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self._blocks.setdefault(size, [np.empty(size, np.uint8)])[0])

    pool.Pool.empty = empty


def other_byte_orders_stay():
    before = arrays.as_array

    def as_array(data, dtype=None, copy=None):
        is_foreign = isinstance(data, np.ndarray) and not data.dtype.isnative
        return np.array(data, copy=copy) if is_foreign else before(data, dtype, copy)

    everywhere("as_array", before, as_array)


def copies_for_sharing():
    minigrad.from_numpy = Tensor


def kept_without_a_copy():
    accumulate = runner.Runner.accumulate
    runner.Runner.accumulate = lambda self, node, gradient, is_fresh: accumulate(self, node, gradient, True)


def without_broadcast_sum():
    def first(gradient, shape, where=""):
        extra = gradient.ndim - len(shape)
        return gradient[(0,) * extra][tuple(slice(1) if n == 1 else slice(None) for n in shape)]

    runner.unbroadcast = first


def contiguous_is_enough():
    elementwise.are_contiguous = lambda arrays: all(x.flags.c_contiguous and x.size for x in arrays if isinstance(x, np.ndarray))


def gate_without(condition: str):
    """The gate to the kernels lets arrays through that lack this."""
    def ready(array):
        needed = {"c_contiguous", "aligned", "writeable"} - {condition}
        return array if all(getattr(array.flags, name) for name in needed) else np.array(array, order="C")

    jit.ready = ready


def compiled_for_any_types():
    """Machine code for the types that came first is called with all others."""
    jit.resolved = lambda function, arguments: (next(iter(function.overloads.values())).entry_point, arguments)


def nothing_added(norm):
    """A norm takes what has arrived on other ways, and does not add it."""
    backward = norm.backward
    norm.backward = lambda self, dout, *saved, accumulated=None: backward(self, dout, *saved)


GATE = "tests/minigrad/fast/kernels/test_jit.py::test_the_gate_copies_only_what_a_kernel_would_misread"
OPS_TESTS, COMPILED_TESTS = "tests/minigrad/test_ops.py", "tests/minigrad/fast/test_compiled.py"
FOUNDATIONS = [
    Sabotage("pool: gives out memory that is in use", (PRIVATE,), memory_in_use),
    Sabotage("as_array: other byte orders stay", (f"{OPS_TESTS}::test_arrays_become_native_where_they_come_in",),
             other_byte_orders_stay),
    Sabotage("from_numpy: copies", (f"{OPS_TESTS}::test_layouts_reach_the_op",), copies_for_sharing),
    Sabotage("accumulate: no gradient is copied", (PRIVATE,), kept_without_a_copy),
    Sabotage("unbroadcast: takes the first place", (GRADIENT,), without_broadcast_sum),
    Sabotage("compile: read-only and unaligned arrays count as ready for kernels", (REPLAY_OF_LAYOUTS,),
             contiguous_is_enough),
    Sabotage("gate: lets arrays with strides through", (LAYOUTS,), functools.partial(gate_without, "c_contiguous")),
    Sabotage("gate: lets read-only arrays through", (GATE,), functools.partial(gate_without, "writeable")),
    Sabotage("gate: lets unaligned arrays through", (GATE,), functools.partial(gate_without, "aligned")),
    Sabotage("compiled: for other types than those of the arguments", (
        "tests/minigrad/fast/kernels/test_jit.py::test_what_is_compiled_for_other_types_is_not_taken",), compiled_for_any_types),
    *(Sabotage(f"{norm.__name__}: what has arrived on other ways is lost", (
        "tests/minigrad/test_tape.py::test_an_op_that_adds_to_what_has_arrived",), functools.partial(nothing_added, norm))
      for norm in (layer_norm.LayerNorm, rms_norm.RMSNorm)),
]
CAST = [
    Sabotage(f"Cast: {what}", (f"{OPS_TESTS}::test_casts_change_no_layout",),
             functools.partial(wrap, dtypes.Cast, change))
    for what, wrap, change in [
        *((f"{name} of input 0", forward_with, misread_input(0, misread)) for name, misread in MISREADINGS.items()),
        ("refuses empty arrays", forward_with, refusing(lambda array: array.size == 0)),
        ("refuses 0-d arrays", forward_with, refusing(lambda array: array.ndim == 0)),
        ("ignores dtype", forward_with, lambda forward, arrays, options: arrays[0]),
        ("backward forgets input 0", backward_with, missing(0)),
    ]
]

# ---------------------------------------------------------------------------------------------- the list

OUTPUT = "what it saves is its output, which forward itself has made, contiguous and with memory of its own"
EXPLAINED = {
    **{f"{name}: computes what nobody needs": "the same numbers: it would only take longer, and the tape drops it"
       for name in ("Sub", "Mul", "Div", "Pow", "Where", "Remainder", "Fmod", "ScatterAdd", "BinaryCrossEntropy",
                    "BinaryCrossEntropyWithLogits",
                    "SquaredError", "AbsoluteError", "Huber", "SmoothL1", "Lerp", "Dot", "CrossEntropyOfDistributions")},
    "Dot: backward ignores the strides of dout": "it is one number, and has none",
    **{f"{name}: backward ignores the offset of what was saved": OUTPUT
       for name in ("Exp", "Sqrt", "Rsqrt", "Tanh", "Sigmoid", "Normalize")},
    "Sigmoid: backward ignores the strides of what was saved": OUTPUT,
    **{f"CrossEntropy: backward {name} of what was saved":
       "backward reads the slope alone, which forward has made; the logits are for the definition" for name in MISREADINGS},
    **{f"{op}: backward {name} of what was saved": "backward asks what was saved for its shape only"
       for name in MISREADINGS for op in ("Embedding", "NegativeLogLikelihood")},
    **{f"{name}: claims to be kernels alone": "it is, in all layouts: the gate's copies are recorded with the launches"
       for name in ("CrossEntropy", "Embedding")},
}

OF_OPS = [
    Sabotage(name := f"{op.__name__}: {what}", (test, "-k", f"[{op.__name__}-"), apply, EXPLAINED.get(name, ""))
    for op in OPS for what, test, apply in of_one_op(op)
]
SABOTAGES = [*OF_OPS, *CAST, *FOUNDATIONS]
