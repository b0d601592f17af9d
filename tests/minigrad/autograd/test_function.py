"""Custom gradients: right ones work to any order, wrong ones are named."""
import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad import Function, gradcheck
from minigrad.gradcheck.pair import Pair
from refusals import all_refused


class Polar(Function):
    """Two inputs, a constant, two outputs."""

    @staticmethod
    def forward(ctx, radius, angle, scale):
        ctx.save_for_backward(radius, angle)
        ctx.scale = scale
        return scale * radius * mg.tensor(np.cos(angle.data)), scale * radius * mg.tensor(np.sin(angle.data))

    @staticmethod
    def backward(ctx, dx, dy):
        radius, angle = ctx.saved_tensors
        c, s = mg.tensor(np.cos(angle.data)), mg.tensor(np.sin(angle.data))
        return ctx.scale * (dx * c + dy * s), ctx.scale * radius * (dy * c - dx * s), None


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, dout):
        (out,) = ctx.saved_tensors
        return dout * out


@pytest.fixture
def x(random):
    return mg.tensor(random.standard_normal((2, 3)), requires_grad=True)


def test_several_inputs_and_outputs(x, random):
    angle = mg.tensor(random.standard_normal((2, 3)), requires_grad=True)
    assert gradcheck(lambda r, a: Polar.apply(r, a, 1.5), (x, angle))
    only_one = Polar.apply(x, angle, 1.0)[1]
    only_one.backward(mg.ones(2, 3))
    np.testing.assert_allclose(x.grad.data, np.sin(angle.data))


def test_saved_tensors_take_their_place_on_the_tape_again(x):
    (first,) = mg.grad(Exp.apply(x), x, mg.ones(2, 3), create_graph=True)
    (second,) = mg.grad(first, x, mg.ones(2, 3))
    np.testing.assert_allclose(second.data, np.exp(x.data))


def test_needs_input_grad_and_none_gradients(x):
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, a, b):
            seen.append(ctx.needs_input_grad)
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, dout):
            _, b = ctx.saved_tensors
            return dout * b, None

    y = mg.ones(2, 3, dtype=mg.float64)
    Product.apply(x, y).backward(y)
    assert seen == [(True, False)] and x.grad is not None
    assert not Product.apply(y, y).requires_grad


def returning(result):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, dout):
            return result(dout)

    return Wrong


@pytest.mark.parametrize("result, error, words", [
    (lambda d: d, RuntimeError, "Wrong.backward returned 1 gradients, but forward had 2 inputs"),
    (lambda d: (d, d[0]), RuntimeError, r"gradient of shape \(3,\) for input 1 of shape \(2, 3\)"),
    (lambda d: (np.asarray(d), d), TypeError, "Wrong.backward returned a ndarray for input 0; expected Tensor or None"),
    (lambda d: (d > 0, d), TypeError, "Wrong.backward returned a gradient of bool for input 0"),
])  # fmt: skip
def test_a_wrong_result_of_backward_is_named(x, result, error, words):
    with pytest.raises(error, match=words):
        returning(result).apply(x, x).backward(mg.ones(2, 3))


def test_a_wrong_result_of_forward_is_named(x):
    class Raw(Function):
        @staticmethod
        def forward(ctx, a):
            return np.asarray(a.detach())

    with pytest.raises(TypeError, match="Raw.forward must return Tensors, got ndarray"):
        Raw.apply(x)


def test_a_function_that_returns_its_input(x):
    class Double(Function):
        """Forward is the identity, backward doubles."""

        @staticmethod
        def forward(ctx, a):
            return a

        @staticmethod
        def backward(ctx, dout):
            return dout * 2.0

    Double.apply(x).backward(mg.ones(2, 3))
    assert (x.grad.data == 2).all()


class ExpAndSine(Function):
    @staticmethod
    def forward(ctx, x):
        e = x.exp()
        ctx.save_for_backward(x, e)
        return e, x.sin(), x.argsort()

    @staticmethod
    def backward(ctx, de, ds, _):
        x, e = ctx.saved_tensors
        return de * e + ds * x.cos()


def test_saved_outputs_of_a_tuple_are_on_the_tape_again():
    x = mg.tensor([1.0, -0.5], dtype=mg.float64, requires_grad=True)
    e, s, order = ExpAndSine.apply(x)
    assert order.dtype == mg.int64 and not order.requires_grad and order.tolist() == [1, 0]
    (first,) = mg.grad((e + s).sum(), x, create_graph=True)
    (second,) = mg.grad(first.sum(), x)
    np.testing.assert_allclose(first.data, np.exp(x.data) + np.cos(x.data))
    np.testing.assert_allclose(second.data, np.exp(x.data) - np.sin(x.data))


def test_a_function_with_integers_as_its_only_output_gives_a_constant():
    class Order(Function):
        @staticmethod
        def forward(ctx, x):
            return x.argsort()

    assert not Order.apply(mg.ones(2, requires_grad=True)).requires_grad


def hooked(x):
    module = nn.Tanh()
    module.register_full_backward_hook(lambda module, dx, dout: None)
    return module(x)


PAIR = Pair(np.tanh, lambda dout, x: dout * (1 - np.tanh(x) ** 2))


@pytest.mark.parametrize("apply", [
    Exp.apply, lambda x: ExpAndSine.apply(x)[0], lambda x: Polar.apply(x, x, 2.0)[1], PAIR, hooked,
], ids=["one output", "several", "a constant", "a pair in NumPy", "a module's hook"])
def test_inputs_are_freed_at_once(apply):
    """Without the garbage collector, as of any op: one class serves all calls of a Function."""
    gc.disable()
    try:
        x = mg.ones(3, dtype=mg.float64, requires_grad=True)
        x = x * 1.0
        gone, out = weakref.ref(x.array), apply(x)
        assert type(out.grad_fn) is type(apply(x).grad_fn)
        out.backward(mg.ones(3, dtype=mg.float64))
        del x, out
        assert gone() is None
    finally:
        gc.enable()


def test_a_function_of_no_tensor_is_refused(x):
    all_refused(lambda inputs: Exp.apply(*inputs), [
        ((3,), "Exp.apply expects a Tensor among its arguments, not inside one; got int"), ((), "got nothing"),
        (((x, x),), "got tuple"), ((x.data,), "got VersionedArray"),
    ], TypeError)
    with pytest.raises(NotImplementedError, match="a Function needs a static method forward"):
        Function.apply(x)
