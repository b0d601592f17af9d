"""Every check on every row of cases.py."""
import functools
import inspect
import itertools
import math
import pathlib
import re

import numpy as np
import pytest

import minigrad
from cases import CASES, ELEMENTWISE, NEED_AN_AXIS, rows_of_each_op
from layouts import EXPANDED, LAYOUTS, mapped
from minigrad import Tensor, from_numpy, gradcheck
from minigrad.fast import pool
from minigrad.fast.matmul import RoundsOperands
from minigrad.ops.diagonal import Diagonal
from minigrad.ops.losses import DifferenceLoss
from minigrad.ops.dtypes import Cast
from minigrad.ops.matmul import Einsum
from minigrad.ops.elementary import Elementary, Elementwise
from minigrad.ops.embedding import Embedding
from minigrad.ops.indexing import Index, is_basic
from minigrad.ops.matmul import MLP, Linear, MatMul
from minigrad.ops.operands import operand
from minigrad.ops.reduce import LogSumExp, Max, Mean, Min, Norm, Sum
from minigrad.ops.shape import Expand, Permute, Reshape
from minigrad.ops.statistics import Std, Var
from minigrad.implementations import definition, implementations
from minigrad.runner import EAGER
from minigrad.ops.kinds import Fused, View
from minigrad.tape import Op
from minigrad.tensor import apply
from naive import Constant
from special_values import assert_right, special_inputs

SMALL = 50  # elements; with more, gradients are only checked in random directions


def tensors(case, dtype=np.float64):
    """The case's inputs, arrays as leaves."""
    return [leaf(np.array(x, dtype), x) if isinstance(x, np.ndarray) else x for x in case.inputs]


def leaf(array, original):
    """A Tensor of the array itself, in its memory layout."""
    return from_numpy(array).requires_grad_(not isinstance(original, Constant))


def leaves(inputs):
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def upstream_of(out):
    return np.random.default_rng(3).standard_normal(out.shape).astype(out.dtype)


def run(case, inputs, function=None, /, upstream=None, **options):
    """The output, and the gradients of the inputs for an upstream gradient, by default a random one."""
    function = function or (lambda *inputs: apply(case.op, *inputs, **case.options | options))
    out = function(*inputs)
    out.backward(from_numpy(upstream_of(out) if upstream is None else upstream))
    return [out.array] + [x.grad.array for x in leaves(inputs)]


def assert_close(got, expected, tolerance, what=""):
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape, what
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(b), initial=0)), err_msg=what)


def test_every_op_has_a_row():
    def below(cls):
        return {cls} | {leaf for child in cls.__subclasses__() for leaf in below(child)}

    bases = {View, Fused, Elementary, Elementwise, DifferenceLoss, Cast}  # and what no row can test
    wanted = {op for op in below(Op) if op.__module__.startswith("minigrad.ops")} - bases
    assert wanted - {case.op for case in CASES} == set()


def test_functions_are_listed_under_the_file_that_defines_them():
    source = pathlib.Path(minigrad.__file__).read_text(encoding="utf-8")
    sections = re.findall(r"^# (\w+)\n((?:\w+: Final = as_function\(Tensor\.\w+\)\n)+)", source, re.MULTILINE)
    assert sum(lines.count("\n") for _, lines in sections) == source.count("as_function(Tensor.")
    for family, lines in sections:
        for name in re.findall(r"^\w+", lines, re.MULTILINE):
            defined_in = next(c for c in Tensor.__mro__ if name in vars(c)).__module__.split(".")[-1]
            function, method = (inspect.unwrap(getattr(owner, name)) for owner in (minigrad, Tensor))
            assert (family, function) == (defined_in, method), name


SIZES = {
    "0-d": lambda array: array.ndim == 0,
    "empty": lambda array: array.size == 0,
    "large": lambda array: 4 * array.size > pool.SMALL,  # bytes of float32, from the pool
}


@pytest.mark.parametrize("size", SIZES)
def test_every_op_has_a_row_of_this_size(size):
    def is_of_this_size(case):
        arrays = [value for value in (*case.inputs, *case.options.values()) if isinstance(value, np.ndarray)]
        arrays.append(apply(case.op, *tensors(case), **case.options).array)
        return any(map(SIZES[size], arrays))

    wanted = {case.op for case in CASES} - (NEED_AN_AXIS if size == "0-d" else set())
    assert wanted - {case.op for case in CASES if is_of_this_size(case)} == set()


@rows_of_each_op()
def test_value_is_the_reference(case):
    arrays = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in case.inputs]
    expected = case.reference(*arrays, **case.options)
    out = apply(case.op, *[x.array if isinstance(x, Tensor) else x for x in tensors(case)], **case.options)
    assert_close([out.array], [np.asarray(expected)], 1e-12)


@pytest.mark.filterwarnings("ignore:gradcheck of .* proves nothing")  # the gradient of x^0 is zero, and that is right
@rows_of_each_op()
def test_gradient_is_the_derivative(case):
    inputs = tensors(case)
    checked = leaves(inputs)

    def function(*leaves):
        leaves = iter(leaves)
        filled = [x if not isinstance(x, Tensor) else next(leaves) if x.requires_grad else x.array for x in inputs]
        return apply(case.op, *filled, **case.options)

    assert gradcheck(function, checked, fast_mode=any(x.numel() > SMALL for x in checked))


@rows_of_each_op()
def test_the_same_in_float32_by_the_textbook_and_by_one_thread(case):
    """In the textbook, `backend` has no kernels either."""
    most = minigrad.get_num_threads()
    try:
        minigrad.set_num_threads(1)
        one_thread = run(case, tensors(case, np.float32))
    finally:
        minigrad.set_num_threads(most)
    single, double = (run(case, tensors(case, dtype)) for dtype in (np.float32, np.float64))
    assert all(array.dtype == np.float32 for array in single)
    assert_close(one_thread, single, 0, "one thread")
    assert_close(single, double, case.tolerance, "float32")
    with minigrad.textbook():
        assert_close(single, run(case, tensors(case, np.float32)), case.tolerance, "the textbook")
        assert_close(double, run(case, tensors(case)), 1e-12, "the textbook")
    if issubclass(case.op, Fused):
        fused = run(case, tensors(case), lambda *inputs: definition(case.op, *inputs, **case.options))
        assert_close(double, fused, 1e-12, "the definition")


@rows_of_each_op()
def test_the_textbook_is_contiguous_where_the_implementation_is(case):
    """So that both results have the same views."""
    turned = [from_numpy(LAYOUTS["column by column"](x)) if isinstance(x, np.ndarray) else x for x in case.inputs]
    out = apply(case.op, *turned, **case.options)
    with minigrad.textbook():
        assert apply(case.op, *turned, **case.options).is_contiguous() >= out.is_contiguous()


class Probe(Op):
    """Records the arrays that forward and backward receive."""

    def forward(self, x):
        self.seen = [x]
        return np.array(x)

    def backward(self, dout):
        self.seen.append(dout)
        return np.array(dout)


class Sending(Op):
    """out = x:  dx = gradient"""

    def forward(self, x, *, gradient):
        self.gradient = gradient
        return np.array(x)

    def backward(self, dout):
        return self.gradient


def test_layouts_reach_the_op():
    for name, layout in (LAYOUTS | EXPANDED).items():
        x, dout = (layout(np.arange(24, dtype=np.float32).reshape(2, 3, 4)) for _ in range(2))
        probed = apply(Probe, from_numpy(x).requires_grad_())
        node = probed.node
        apply(Sending, probed, gradient=dout).backward(probed)
        for given, seen in zip((x, dout), node.seen, strict=True):
            assert seen.__array_interface__ == given.__array_interface__, name  # address, strides, and if it is read-only


def with_data(array):
    tensor = Tensor([1.0])
    tensor.data = array
    return tensor


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i8"])
def test_arrays_become_native_where_they_come_in(dtype):
    """So that no op has to compute in another byte order."""
    array = np.arange(3).astype(dtype)
    for got in (minigrad.tensor(array).array, from_numpy(array).array, with_data(array).array, operand(array)):
        assert got.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, array)


def contiguous(array):
    return np.array(array, order="C")


def other_byte_order(array):
    return array.astype(array.dtype.newbyteorder(">"))


@rows_of_each_op([case for case in CASES if "index" in case.options])
def test_an_index_may_have_another_byte_order(case):
    got = run(case, tensors(case), index=mapped(other_byte_order, case.options["index"]))
    assert_close(got, run(case, tensors(case)), 0)


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4), (131, 130)], ids=str)
def test_casts_change_no_layout(shape):
    """Cast has no row: the result of a float32 row would not be float32."""
    values, upstream = (np.random.default_rng(seed).standard_normal(shape) for seed in range(2))
    for layout in LAYOUTS.values():
        x = from_numpy(layout(values.astype(np.float32))).requires_grad_()
        out = x.double()
        out.backward(from_numpy(layout(upstream)))
        assert (out.dtype, x.grad.dtype) == (np.float64, np.float32)
        np.testing.assert_array_equal(out.array, values.astype(np.float32).astype(np.float64))
        np.testing.assert_array_equal(x.grad.array, upstream.astype(np.float32))


@rows_of_each_op()
def test_layouts_change_nothing(case):
    """All arrays in each layout, and then one of them, a different one for each layout and row: an input, the upstream
    gradient, or an option. (Expanding all operands would compile kernels of elementwise functions for this test alone.)"""
    arrays = {i: np.array(x, np.float32) for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)}
    arrays["upstream"] = upstream_of(apply(case.op, *tensors(case, np.float32), **case.options))

    def result(arrays):
        inputs = [leaf(arrays[i], x) if i in arrays else x for i, x in enumerate(case.inputs)]
        return run(case, inputs, **{name: value for name, value in arrays.items() if isinstance(name, str)})

    plain = result(arrays | case.options)
    for number, (name, layout) in enumerate((LAYOUTS | EXPANDED).items(), CASES.index(case)):
        everything = arrays | (case.options if name in LAYOUTS else {})
        place = [*everything][number % len(everything)]
        for places in [[place]] if name in EXPANDED and case.op in ELEMENTWISE else [[place], everything]:
            laid_out = everything | {place: mapped(layout, everything[place]) for place in places}
            expected = plain
            if name in EXPANDED:
                expected = result(everything | {place: mapped(contiguous, laid_out[place]) for place in places})
            assert_close(result(laid_out), expected, case.tolerance, f"{name}: {[*places]}")


def is_view(case):
    """Is the output a view of the input?"""
    return case.op in (Reshape, Permute, Expand, Diagonal) or case.op is Index and is_basic(case.options["index"])


@rows_of_each_op()
def test_inputs_stay_and_results_are_private(case):
    """Neither an op's arguments are written to, nor its output by backward, and no result shares memory with an argument or
    another result."""
    inputs = tensors(case)
    given = [x.array for x in inputs if isinstance(x, Tensor)]
    before = [array.copy() for array in given]
    out = apply(case.op, *inputs, **case.options)
    given.append(upstream_of(out))
    before.append(upstream_of(out))
    results = run(case, inputs, upstream=given[-1])
    for array, copy in zip([*given, results[0]], [*before, out.array], strict=True):
        np.testing.assert_array_equal(array, copy)
    assert any(np.shares_memory(results[0], array) for array in given) == (is_view(case) and out.numel() > 0)
    others = given + [out.array]
    for result in results[1:] if is_view(case) else results:
        assert not any(np.shares_memory(result, other) for other in others)
        others.append(result)


@rows_of_each_op()
def test_backward_stays_in_float32(case):
    out = apply(case.op, *tensors(case, np.float32), **case.options)
    with np.errstate(all="ignore"):  # as the tape does
        shares = out.node.input_gradients(upstream_of(out), EAGER, retain_graph=True)  # the tape would convert them
    assert all(share is None or share.dtype == np.float32 for share in shares)


EXPENSIVE = {MatMul, Linear, MLP, Einsum, Embedding}  # a product or a table for each input


@rows_of_each_op([case for case in CASES if len(case.inputs) > 1])
def test_each_input_by_itself(case):
    """The gradient is the same if no other input requires one, and expensive gradients are computed only if required."""
    expected = iter(run(case, tensors(case))[1:])
    for i in [i for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray) and not isinstance(x, Constant)]:
        inputs = [x.requires_grad_(i == j) if isinstance(x, Tensor) else x for j, x in enumerate(tensors(case))]
        out = apply(case.op, *inputs, **case.options)
        if case.op in EXPENSIVE:
            shares = out.node.input_gradients(upstream_of(out), EAGER, retain_graph=True)
            assert all(share is None or share.ndim < 2 for j, share in enumerate(shares) if j != i)
        assert_close(run(case, inputs)[1:], [next(expected)], 1e-12)


FEW, MANY = 250, 1 << 17  # numbers: for the reference, and so that kernels compute elementwise functions and reductions
LEFT_AS_THEY_ARE = {  # rows and special values, and why
    "Sigmoid.* (as they are|times 10|mixed)": "the gradient is made of the output, and 1 - out is rounded, as in PyTorch",
    "Tanh-.* (times 10|mixed)": "the same",
    "Erf.* times 10": "the gradient has e^(-x^2), and x^2 is rounded",
    "BinaryCrossEntropy-.* (1e-30|denormal|mixed)": "bounds, those of PyTorch: -100 of logarithms, 1e-12 of a denominator",
    "Pow.* denormal": "if both the base and the exponent b are denormal, b a^(b - 1) overflows on the way",
    "(MLP|.*Attention).* 1e25": "products of two such numbers overflow",
    "(LayerNorm|RMSNorm).*eps=0.0 denormal": "so does 1 / the deviation",
    "Norm.*p=3 denormal.* float64": "the norm is denormal, too, and the gradient is made of it",
    "Softmax.* mixed.* float64": "x - max(x) is rounded, and e to the power of -600 has 600 times that error",
    "MLP.* times 10.* float32": "GELU's tail is 0 below 1e-37",
}


def applied(case, *inputs):
    return apply(case.op, *inputs, **case.options)


def applied_to_many(case, *inputs):
    """The op on many copies of the inputs; the last one's result."""
    shape = np.broadcast_shapes(*[x.shape for x in inputs if isinstance(x, Tensor)])
    inputs = [x.expand(MANY // max(math.prod(shape), 1), *shape).contiguous() if isinstance(x, Tensor) else x for x in inputs]
    axes = {"axis": tuple(i + (i >= 0) for i in np.atleast_1d(case.options["axis"]))} if "axis" in case.options else {}
    return apply(case.op, *inputs, **case.options | axes)[-1]


def takes_many(case):
    """Can the op be applied to copies along a new first axis?"""
    if any(isinstance(value, np.ndarray) for value in case.options.values()) or case.options.get("reduction", "none") != "none":
        return False
    return case.op in ELEMENTWISE or case.op in (LogSumExp, Max, Mean, Min, Norm, Std, Sum, Var) and "axis" in case.options


def special_values(share):
    @rows_of_each_op([case for case in CASES if 0 < sum(np.size(x) for x in case.inputs if isinstance(x, np.ndarray)) < FEW])
    def check(case):
        functions = [applied, applied_to_many] if takes_many(case) else [applied]
        inputs = [*special_inputs(case.inputs, np.float32), *special_inputs(case.inputs, np.float64)]
        for number, ((name, arrays), function) in enumerate(itertools.product(inputs, functions), CASES.index(case)):
            if number % share or any(re.match(row, f"{case} {name}") for row in LEFT_AS_THEY_ARE):
                continue
            try:
                assert_right(functools.partial(function, case), functools.partial(case.reference, **case.options), arrays,
                             [*LAYOUTS.values()][number % len(LAYOUTS)], issubclass(implementations.get(case.op, Op), RoundsOperands))
            except AssertionError as error:
                error.add_note(f"{name}, {function.__name__}")
                raise

    check.__doc__ = "Values and gradients, each way of computing them, in changing layouts, against arithmetic of many digits."
    return check


test_some_special_values = pytest.mark.short(special_values(40))
test_all_special_values = pytest.mark.long(special_values(1))
