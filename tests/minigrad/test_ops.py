"""Every check on every row of cases.py."""
import numpy as np
import pytest

from cases import CASES
from layouts import EXPANDED, LAYOUTS
from minigrad import Tensor, from_numpy, gradcheck, ops
from minigrad.kernels.jit import get_num_threads, set_num_threads
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


def upstream_of(out):
    return np.random.default_rng(3).standard_normal(out.shape).astype(out.dtype)


def run(case, inputs, function=None, upstream=None, **options):
    """The output, and the gradients of the inputs for an upstream gradient, a random one unless given."""
    function = function or (lambda *inputs: apply(case.op, *inputs, **case.options | options))
    out = function(*inputs)
    out.backward(from_numpy(upstream_of(out) if upstream is None else upstream))
    return [out.data] + [x.grad.data for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def assert_close(got, expected, tolerance, what=""):
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape, what
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(b), initial=0)), err_msg=what)


def test_every_op_has_a_row():
    def below(cls):
        return {cls} | {leaf for child in cls.__subclasses__() for leaf in below(child)}

    wanted = {op for op in below(Op) - {Op, Fused} if op.__module__.startswith("minigrad.ops")} - {ops.Cast}
    assert wanted - {case.op for case in CASES} == set()


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


def mapped(function, value):
    """function of an array, or of the arrays in a tuple; other values as they are."""
    if isinstance(value, tuple):
        return tuple(mapped(function, part) for part in value)
    return function(value) if isinstance(value, np.ndarray) else value


def contiguous(array):
    return np.array(array, order="C")


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
