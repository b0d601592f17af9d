"""Every check on every row of cases.py."""
import numpy as np
import pytest

from cases import CASES
from minigrad import Tensor, gradcheck, ops
from minigrad.kernels.jit import get_num_threads, set_num_threads
from minigrad.tape import Fused, Op
from minigrad.tensor import apply
from naive import Constant

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def tensors(case, dtype=np.float64, layout=lambda array: array):
    """The case's inputs, arrays as leaves."""
    return [
        Tensor(layout(np.array(x, dtype)), requires_grad=not isinstance(x, Constant)) if isinstance(x, np.ndarray) else x
        for x in case.inputs
    ]


def run(case, inputs, function=None):
    """The output, and the gradients of the inputs for a random upstream gradient."""
    function = function or (lambda *inputs: apply(case.op, *inputs, **case.options))
    inputs = [x.data if isinstance(x, Tensor) and not x.requires_grad else x for x in inputs]
    out = function(*inputs)
    out.backward(Tensor(np.random.default_rng(3).standard_normal(out.shape), dtype=out.dtype))
    return [out.data] + [x.grad.data for x in inputs if isinstance(x, Tensor)]


def assert_close(got, expected, tolerance):
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(b), initial=0)))


def test_every_op_has_a_row():
    def below(cls):
        return {cls} | {leaf for child in cls.__subclasses__() for leaf in below(child)}

    wanted = {op for op in below(Op) - {Op, Fused} if op.__module__.startswith("minigrad.ops")} - {ops.Cast}
    assert wanted - {case.op for case in CASES} == set()


def test_every_elementary_function_has_a_row():
    assert {case.options["function"] for case in CASES if case.op is ops.Elementary} == set(ops.DERIVATIVES)


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
    checked = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]

    def function(*leaves):
        leaves = iter(leaves)
        filled = [x if not isinstance(x, Tensor) else next(leaves) if x.requires_grad else x.data for x in inputs]
        return apply(case.op, *filled, **case.options)

    assert gradcheck(function, checked)


@every_case
def test_float32_agrees_with_float64(case):
    got = run(case, tensors(case, np.float32))
    assert all(array.dtype == np.float32 for array in got)
    assert_close(got, run(case, tensors(case)), case.tolerance)


@pytest.mark.parametrize("case", [case for case in CASES if issubclass(case.op, Fused)], ids=str)
def test_fused_is_its_definition(case):
    got = run(case, tensors(case))
    assert_close(got, run(case, tensors(case), lambda *inputs: case.op.definition(*inputs, **case.options)), 1e-12)


def unaligned(array):
    buffer = np.zeros(array.nbytes + 1, np.uint8)[1:]
    out = buffer.view(array.dtype).reshape(array.shape) if array.size else array
    out[...] = array
    return out


def read_only(array):
    array.flags.writeable = False
    return array


LAYOUTS = {
    "fortran": lambda a: np.asfortranarray(a).reshape(a.shape, order="A"),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "read-only": read_only,
    "unaligned": unaligned,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@every_case
def test_layouts_change_nothing(case, layout):
    assert_close(run(case, tensors(case, np.float32, layout)), run(case, tensors(case, np.float32)), 1e-6)


@every_case
def test_the_number_of_threads_changes_no_bit(case):
    most = get_num_threads()
    if most == 1:
        pytest.skip("one core")
    try:
        set_num_threads(1)
        one = run(case, tensors(case, np.float32))
    finally:
        set_num_threads(most)
    for a, b in zip(one, run(case, tensors(case, np.float32)), strict=True):
        np.testing.assert_array_equal(a, b)


@every_case
def test_inputs_stay_and_gradients_are_private(case):
    """No input is written to, and no gradient shares memory with an input, an output or another gradient."""
    inputs = tensors(case)
    before = [x.data.copy() for x in inputs if isinstance(x, Tensor)]
    arrays = run(case, inputs)
    for x, array in zip((x for x in inputs if isinstance(x, Tensor)), before, strict=True):
        np.testing.assert_array_equal(x.data, array)
    gradients = arrays[1:]
    others = [x.data for x in inputs if isinstance(x, Tensor)] + arrays[:1]
    for i, gradient in enumerate(gradients):
        assert not any(np.shares_memory(gradient, other) for other in others + gradients[:i])
