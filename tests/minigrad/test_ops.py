"""Every check on every row of cases.py."""
import inspect
import pickle
import re

import numpy as np
import pytest

import minigrad
from cases import CASES, NEED_AN_AXIS
from layouts import EXPANDED, LAYOUTS, mapped
from minigrad import Tensor, from_numpy, gradcheck
from minigrad.fast import pool
from minigrad.ops.diagonal import Diagonal
from minigrad.ops.difference_losses import DifferenceLoss
from minigrad.ops.dtypes import Cast
from minigrad.ops.einsum import Einsum
from minigrad.ops.elementary import Elementary, Elementwise
from minigrad.ops.embedding import Embedding
from minigrad.ops.in_place import Identity
from minigrad.ops.indexing import Index, is_basic
from minigrad.ops.matmul import MLP, Linear, MatMul
from minigrad.ops.operands import operand
from minigrad.ops.shape import Expand, Permute, Reshape
from minigrad.runner import EAGER
from minigrad.tape import Fused, Op
from minigrad.tensor import apply
from naive import Constant

SMALL = 5000  # elements; larger inputs are moved in random directions only

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def tensors(case, dtype=np.float64):
    """The case's inputs, arrays as leaves."""
    return [leaf(np.array(x, dtype), x) if isinstance(x, np.ndarray) else x for x in case.inputs]


def leaf(array, original):
    """A Tensor of the array itself, however it lies in memory."""
    return from_numpy(array).requires_grad_(not isinstance(original, Constant))


def leaves(inputs):
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def upstream_of(out):
    return np.random.default_rng(3).standard_normal(out.shape).astype(out.dtype)


def run(case, inputs, function=None, /, upstream=None, **options):
    """The output, and the gradients of the inputs for an upstream gradient, a random one unless given."""
    function = function or (lambda *inputs: apply(case.op, *inputs, **case.options | options))
    out = function(*inputs)
    out.backward(from_numpy(upstream_of(out) if upstream is None else upstream))
    return [out.data] + [x.grad.data for x in leaves(inputs)]


def assert_close(got, expected, tolerance, what=""):
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape, what
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(b), initial=0)), err_msg=what)


def test_every_op_has_a_row():
    def below(cls):
        return {cls} | {leaf for child in cls.__subclasses__() for leaf in below(child)}

    bases = {Elementary, Elementwise, DifferenceLoss, Cast, Identity}  # and what no row could try
    wanted = {op for op in below(Op) if op.__module__.startswith("minigrad.ops")} - bases
    assert wanted - {case.op for case in CASES} == set()


def test_exports_stand_under_the_name_of_their_file():
    families = re.split(r"^# (\w+)$", inspect.getsource(minigrad), flags=re.MULTILINE)
    for family, exports in zip(families[1::2], families[2::2], strict=True):
        for name in re.findall(r"= Tensor\.(\w+)", exports):
            assert next(c for c in Tensor.__mro__ if name in vars(c)).__module__ == f"minigrad.ops.{family}", name


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


@every_case
def test_value_is_the_reference(case):
    arrays = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in case.inputs]
    expected = case.reference(*arrays, **case.options)
    out = apply(case.op, *[x.data if isinstance(x, Tensor) else x for x in tensors(case)], **case.options)
    assert_close([out.data], [np.asarray(expected)], 1e-12)


@pytest.mark.filterwarnings("ignore:gradcheck of .* proves nothing")  # the gradient of x^0 is zero, and that is right
@every_case
def test_gradient_is_the_derivative(case):
    inputs = tensors(case)
    checked = leaves(inputs)

    def function(*leaves):
        leaves = iter(leaves)
        filled = [x if not isinstance(x, Tensor) else next(leaves) if x.requires_grad else x.data for x in inputs]
        return apply(case.op, *filled, **case.options)

    assert gradcheck(function, checked, fast_mode=any(x.numel() > SMALL for x in checked))


@every_case
def test_float32_agrees_with_float64(case):
    got = run(case, tensors(case, np.float32))
    assert all(array.dtype == np.float32 for array in got)
    assert_close(got, run(case, tensors(case)), case.tolerance)


@pytest.mark.parametrize("case", [case for case in CASES if issubclass(case.op, Fused)], ids=str)
def test_fused_is_its_definition(case):
    got = run(case, tensors(case))
    assert_close(got, run(case, tensors(case), lambda *inputs: case.op.definition(*inputs, **case.options)), 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_case
def test_the_implementation_is_the_textbook(case, dtype):
    """Of ops, and of the functions of arrays that they call."""
    got = run(case, tensors(case, dtype))
    with minigrad.textbook():
        expected = run(case, tensors(case, dtype))
    assert_close(got, expected, case.tolerance if dtype == np.float32 else 1e-12)


@every_case
def test_the_textbook_gives_in_one_piece_what_the_implementation_gives_so(case):
    """So that a view of it can be taken."""
    turned = [from_numpy(LAYOUTS["column by column"](x)) if isinstance(x, np.ndarray) else x for x in case.inputs]
    out = apply(case.op, *turned, **case.options)
    with minigrad.textbook():
        assert apply(case.op, *turned, **case.options).is_contiguous() >= out.is_contiguous()


@pytest.mark.parametrize("is_there", [True, False], ids=["with the implementations", "without"])
@every_case
def test_a_graph_is_pickled_as_the_textbooks(case, is_there, monkeypatch):
    """So it can be loaded where the implementation of an op is not."""
    inputs = tensors(case)
    out = apply(case.op, *inputs, **case.options)
    stream = pickle.dumps((out, leaves(inputs)))
    assert b"minigrad.fast" not in stream
    out.backward(from_numpy(upstream_of(out)))
    if not is_there:
        monkeypatch.setattr(case.op, "implementation", None)
    copy, copies = pickle.loads(stream)
    copy.backward(from_numpy(upstream_of(out)))
    assert_close([x.grad.data for x in copies], [x.grad.data for x in leaves(inputs)], 0 if is_there else 1e-12)


class Probe(Op):
    """Notes the arrays that forward and backward are given."""

    def forward(self, x):
        self.seen = [x]
        return np.array(x)

    def backward(self, dout):
        self.seen.append(dout)
        return np.array(dout)


@pytest.mark.parametrize("layout", [*(LAYOUTS | EXPANDED).values()], ids=[*(LAYOUTS | EXPANDED)])
def test_layouts_reach_the_op(layout):
    x, dout = (layout(np.arange(24, dtype=np.float32).reshape(2, 3, 4)) for _ in range(2))
    out = apply(Probe, from_numpy(x).requires_grad_())
    node = out.node
    out.backward(from_numpy(dout))
    for given, seen in zip((x, dout), node.seen, strict=True):
        assert seen.__array_interface__ == given.__array_interface__  # address, strides, and whether it is read-only


INTO_A_TENSOR = {
    "Tensor": lambda array: Tensor(array).array,
    "from_numpy": lambda array: from_numpy(array).array,
    "data": lambda array: with_data(array).array,
    "an operand": operand,
}


def with_data(array):
    tensor = Tensor([1.0])
    tensor.data = array
    return tensor


@pytest.mark.parametrize("function", INTO_A_TENSOR.values(), ids=INTO_A_TENSOR)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<i8", ">i8"])
def test_arrays_become_native_where_they_come_in(function, dtype):
    """So that no op computes in another byte order."""
    array = np.arange(3).astype(dtype)
    got = function(array)
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, array)


def contiguous(array):
    return np.array(array, order="C")


def other_byte_order(array):
    return array.astype(array.dtype.newbyteorder(">"))


@pytest.mark.parametrize("case", [case for case in CASES if "index" in case.options], ids=str)
def test_an_index_may_have_another_byte_order(case):
    got = run(case, tensors(case), index=mapped(other_byte_order, case.options["index"]))
    assert_close(got, run(case, tensors(case)), 0)


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4), (131, 130)], ids=str)
def test_casts_change_no_layout(shape):
    """Cast has no row: what comes out of a row for float32 is float32."""
    values, upstream = (np.random.default_rng(seed).standard_normal(shape) for seed in range(2))
    for layout in LAYOUTS.values():
        x = from_numpy(layout(values.astype(np.float32))).requires_grad_()
        out = x.double()
        out.backward(from_numpy(layout(upstream)))
        assert (out.dtype, x.grad.dtype) == (np.float64, np.float32)
        np.testing.assert_array_equal(out.data, values.astype(np.float32).astype(np.float64))
        np.testing.assert_array_equal(x.grad.data, upstream.astype(np.float32))


@every_case
def test_layouts_change_nothing(case):
    """Each input, the upstream gradient and each array among the options by itself, and then all of them."""
    arrays = {i: np.array(x, np.float32) for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)}
    arrays["upstream"] = upstream_of(apply(case.op, *tensors(case, np.float32), **case.options))

    def result(arrays):
        inputs = [leaf(arrays[i], x) if i in arrays else x for i, x in enumerate(case.inputs)]
        return run(case, inputs, **{name: value for name, value in arrays.items() if isinstance(name, str)})

    for name, layout in (LAYOUTS | EXPANDED).items():
        everything = arrays | (case.options if name in LAYOUTS else {})
        for places in [*([place] for place in everything), everything]:
            laid_out = everything | {place: mapped(layout, everything[place]) for place in places}
            expected = result(everything | {place: mapped(contiguous, laid_out[place]) for place in places})
            assert_close(result(laid_out), expected, case.tolerance, f"{name}: {places}")


@pytest.mark.skipif(minigrad.get_num_threads() < 2, reason="needs two threads")
@every_case
def test_the_number_of_threads_changes_no_bit(case):
    most = minigrad.get_num_threads()
    try:
        minigrad.set_num_threads(1)
        one = run(case, tensors(case, np.float32))
    finally:
        minigrad.set_num_threads(most)
    for a, b in zip(one, run(case, tensors(case, np.float32)), strict=True):
        np.testing.assert_array_equal(a, b)


def is_view(case):
    """Is the output a view of the input?"""
    return case.op in (Reshape, Permute, Expand, Diagonal) or case.op is Index and is_basic(case.options["index"])


@every_case
def test_inputs_stay_and_results_are_private(case):
    """Nothing that an op is given is written to, nor its output by backward, and no result shares memory with what was
    given, or with another result."""
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


@every_case
def test_backward_stays_in_float32(case):
    out = apply(case.op, *tensors(case, np.float32), **case.options)
    with np.errstate(all="ignore"):  # as the tape does
        shares = out.node.input_gradients(upstream_of(out), EAGER)  # the tape would convert them
    assert all(share is None or share.dtype == np.float32 for share in shares)


EXPENSIVE = {MatMul, Linear, MLP, Einsum, Embedding}  # a product or a table for each input


@pytest.mark.parametrize("case", [case for case in CASES if len(case.inputs) > 1], ids=str)
def test_each_input_by_itself(case):
    """The gradient is the same if no other input wants one; and what is expensive is computed only if it is wanted."""
    expected = iter(run(case, tensors(case))[1:])
    for i in [i for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray) and not isinstance(x, Constant)]:
        inputs = [x.requires_grad_(i == j) if isinstance(x, Tensor) else x for j, x in enumerate(tensors(case))]
        out = apply(case.op, *inputs, **case.options)
        if case.op in EXPENSIVE:
            shares = out.node.input_gradients(upstream_of(out), EAGER)
            assert all(share is None or share.ndim < 2 for j, share in enumerate(shares) if j != i)
        assert_close(run(case, inputs)[1:], [next(expected)], 1e-12)
