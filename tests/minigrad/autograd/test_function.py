"""Custom gradients: right ones work to any order, wrong ones are named."""
import gc
import math
import weakref

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad import Function, gradcheck, gradgradcheck
from refusals import all_refused


class Polar(Function):
    """Two inputs, a constant, two outputs."""

    @staticmethod
    def forward(ctx, radius, angle, scale):
        ctx.save_for_backward(radius, angle)
        ctx.scale = scale
        return scale * radius * mg.tensor(np.cos(angle.array)), scale * radius * mg.tensor(np.sin(angle.array))

    @staticmethod
    def backward(ctx, dx, dy):
        radius, angle = ctx.saved_tensors
        c, s = mg.tensor(np.cos(angle.array)), mg.tensor(np.sin(angle.array))
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
    np.testing.assert_allclose(x.grad.array, np.sin(angle.array))


def test_saved_tensors_take_their_place_on_the_tape_again(x):
    (first,) = mg.grad(Exp.apply(x), x, mg.ones(2, 3), create_graph=True)
    (second,) = mg.grad(first, x, mg.ones(2, 3))
    np.testing.assert_allclose(second.array, np.exp(x.array))


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
    assert (x.grad.array == 2).all()


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
    np.testing.assert_allclose(first.array, np.exp(x.array) + np.cos(x.array))
    np.testing.assert_allclose(second.array, np.exp(x.array) - np.sin(x.array))


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


@pytest.mark.parametrize("apply", [
    Exp.apply, lambda x: ExpAndSine.apply(x)[0], lambda x: Polar.apply(x, x, 2.0)[1], hooked,
], ids=["one output", "several", "a constant", "a module's hook"])
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
        (((x, x),), "got tuple"), ((x.array,), "got ndarray"),
    ], TypeError)
    with pytest.raises(NotImplementedError, match="a Function needs a static method forward"):
        Function.apply(x)


def product(keep, kept):
    """A Function of x with the outputs y^2 and y = x^2, whose forward keeps y as `keep` does, and whose backward takes `kept`."""
    class Product(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x)
            keep(ctx, x, y)
            return y * y, y

        @staticmethod
        def backward(ctx, dsquare, dy):
            x = ctx.saved_tensors[0]
            return 4 * x * kept(ctx) * dsquare + 2 * x * dy

    return Product.apply


def kept_as(name, of):
    return lambda ctx, x, y: setattr(ctx, name, of(x, y))


def attribute(ctx):
    return ctx.y


ON_THE_TAPE = {
    "a saved tensor": (lambda ctx, x, y: ctx.save_for_backward(x, y * 1.0), lambda ctx: ctx.saved_tensors[1]),
    "a saved output": (lambda ctx, x, y: ctx.save_for_backward(x, y), lambda ctx: ctx.saved_tensors[1]),
    "an attribute": (kept_as("y", lambda x, y: y * 1.0), attribute),
    "an output as an attribute": (kept_as("y", lambda x, y: y), attribute),
    "an input as an attribute": (kept_as("x", lambda x, y: x), lambda ctx: ctx.x * ctx.x),
    "a view of an input": (kept_as("x", lambda x, y: x.view(3, 1)), lambda ctx: ctx.x.view(3) ** 2),
    "a list": (kept_as("all", lambda x, y: [2, {"y": (y * 1.0, x)}]), lambda ctx: ctx.all[1]["y"][0] * ctx.all[1]["y"][1] / ctx.saved_tensors[0]),
    "nothing": (lambda ctx, x, y: None, lambda ctx: ctx.saved_tensors[0].square()),
    "what is not used": (kept_as("noted", lambda x, y: [x.array + 1.0, float(x.sum()), x.tanh()]), lambda ctx: ctx.saved_tensors[0] ** 2),
    "what backward keeps": (kept_as("y", lambda x, y: None), lambda ctx: setattr(ctx, "y", ctx.saved_tensors[0] ** 2) or ctx.y),
}


@pytest.mark.parametrize("keep, kept", ON_THE_TAPE.values(), ids=ON_THE_TAPE)
def test_what_forward_keeps_is_on_the_tape_of_a_gradient(keep, kept):
    """To any order: each derivative is that of the same formula in Tensor operations."""
    found = []
    for function in (product(keep, kept), lambda x: (x * x * (x * x), x * x)):
        x = mg.tensor([0.5, -1.5, 2.0], dtype=mg.float64, requires_grad=True)
        square, y = function(x)
        derivative, found_here = (square.sin() + y * mg.tensor([1.0, 2.0, -1.0])).sum(), []
        for _ in range(3):
            (derivative,) = mg.grad(derivative, x, mg.tensor([1.0, -2.0, 3.0]) if derivative.ndim else None, create_graph=True)
            found_here.append(derivative.tolist())
        found.append(found_here)
    np.testing.assert_allclose(*found, rtol=1e-12)
    assert gradgradcheck(product(keep, kept), x)


OFF_THE_TAPE = {
    "an array": (kept_as("y", lambda x, y: np.square(x.array)), lambda ctx: mg.tensor(ctx.y)),
    "a saved tensor made with NumPy": (lambda ctx, x, y: ctx.save_for_backward(x, mg.tensor(np.square(x.numpy()))),
                                       lambda ctx: ctx.saved_tensors[1]),
    "a detached tensor": (kept_as("y", lambda x, y: (x.detach() * x).detach()), attribute),
    "a number": (kept_as("y", lambda x, y: y[0].item()), attribute),
    "arrays in a dict": (kept_as("all", lambda x, y: {"y": [y.numpy()]}), lambda ctx: mg.tensor(ctx.all["y"][0])),
    "what depends on random numbers": (kept_as("y", lambda x, y: y * mg.rand(3, dtype=mg.float64)), attribute),
}


@pytest.mark.parametrize("keep, kept", OFF_THE_TAPE.values(), ids=OFF_THE_TAPE)
def test_what_forward_keeps_off_the_tape_is_refused_where_it_matters(keep, kept):
    x, w = (mg.tensor([0.5, -1.5, 2.0], dtype=mg.float64, requires_grad=True) for _ in range(2))
    square, _ = product(keep, kept)(x)
    state = mg.get_rng_state()
    (first,) = mg.grad((w * square).sum(), x, create_graph=True)
    np.testing.assert_allclose(mg.grad(first.sum(), w, retain_graph=True)[0].array, (first / w).array)  # nothing is missing here
    with pytest.raises(RuntimeError, match=r"^Product.backward uses (ctx.\w+|saved_tensors\[1\]), which forward computed off the "
                                           r"tape \(with NumPy, detached, or at random\), so it cannot be differentiated: keep inputs and outputs only, and compute the rest"):
        mg.grad(first, x, mg.ones(3))
    assert mg.get_rng_state() == state


CONSTANTS = {
    "a number": lambda x: 1.0 / math.sqrt(3), "an array": lambda x: np.hanning(5)[1:4], "a tensor": lambda x: mg.tensor([1.0, 2.0, 3.0]).double(),
    "a mask of floats": lambda x: (x > 0.7).double(), "a mask made with NumPy": lambda x: (x.array > 0.7).astype(float),
    "a mask of booleans": lambda x: x.array > 0.7, "signs": lambda x: x.sign(), "ranks": lambda x: x.argsort().double(),
    "a random mask": lambda x: (mg.rand(3) > 0.5).double(), "one of NumPy's": lambda x: (np.random.rand(3) > 0.5).astype(float),
    "numbers in a list": lambda x: [0.5, 2.0, np.float64(1.5)], "an input in a list": lambda x: [2.0, x.argsort(), 3.0][::2] + [1.0],
}


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_that_forward_keeps_are_not_refused(constant):
    kept = []

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.constant = constant(x)
            kept.append(ctx.constant)
            return x * x * mg.as_tensor(ctx.constant)

        @staticmethod
        def backward(ctx, dout):
            return 2 * ctx.saved_tensors[0] * mg.as_tensor(ctx.constant) * dout

    x = mg.tensor([0.5, -1.5, 2.0], dtype=mg.float64, requires_grad=True)
    (first,) = mg.grad(Scaled.apply(x).square(), x, mg.ones(3), create_graph=True)
    (second,) = mg.grad(first, x, mg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(second.array, 12 * x.array**2 * np.asarray(kept[0]) ** 2 * [1, 2, 3])


def test_a_backward_off_the_tape_is_refused_where_it_is_differentiated():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, dout):
            return mg.tensor(dout.array * 2 * ctx.saved_tensors[0].array)

    x, w = (mg.tensor([0.5, -1.5], requires_grad=True) for _ in range(2))
    (first,) = mg.grad(Square.apply(x) * w + x**3, x, mg.ones(2), create_graph=True)
    with pytest.raises(RuntimeError, match="^Square.backward computes with NumPy, so it cannot be differentiated: "):
        first.sum().backward()
    (first,) = mg.grad(Square.apply(x * 0.0) * w + x**3, x, mg.ones(2), create_graph=True)  # it is 0
    np.testing.assert_allclose(mg.grad(first, x, mg.ones(2))[0].array, 6 * x.array)


@pytest.mark.parametrize("shape", [(1, 3), (2, 1, 3), (2, 3)])
def test_a_gradient_that_was_broadcast_is_summed(shape):
    bias = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    returning(lambda dout: (dout, mg.ones(*shape))).apply(mg.ones(2, 3), bias).backward(mg.ones(2, 3))
    assert bias.grad.tolist() == [math.prod(shape) / 3] * 3
