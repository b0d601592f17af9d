"""Derivatives of any order: every op's gradient is differentiated again, and so is a whole transformer's loss."""
import numpy as np
import pytest

import minigrad as mg
from cases import CASES
from minigrad.tensor import apply, wrap
from naive import Constant


def differentiated(case):
    """The inputs that get gradients."""
    return [x for x in case.inputs if isinstance(x, np.ndarray) and not isinstance(x, Constant)]


def second_derivatives(case):
    """The derivative, along a random direction of all inputs and the upstream gradient, of <gradient, another random
    direction>: by create_graph, and by differences of first-order gradients."""
    random = np.random.default_rng(11)
    leaves = [mg.tensor(np.array(x), requires_grad=True) for x in differentiated(case)]

    def computed():
        places = iter(leaves)
        inputs = [next(places) if any(x is y for y in differentiated(case)) else x for x in case.inputs]
        return apply(case.op, *inputs, **case.options)

    variables = [*leaves, mg.tensor(random.standard_normal(computed().shape), requires_grad=True)]
    directions, steps = ([random.standard_normal(x.shape) for x in variables] for _ in range(2))

    def first(create_graph):
        gradients = mg.grad(computed(), leaves, variables[-1], create_graph=create_graph)
        return sum((g * wrap(d)).sum() for g, d in zip(gradients, directions))

    def moved(h):
        for variable, step in zip(variables, steps):
            variable.data[...] += h * step
        return first(False).item()

    inner = first(create_graph=True)
    second = mg.grad(inner, variables, allow_unused=True, materialize_grads=True) if inner.requires_grad else ()
    above, below = moved(H), moved(-2 * H)
    return sum((g.array * step).sum() for g, step in zip(second, steps)), (above - below) / (2 * H)


H = 1e-5
BY_FILE = {}
for case in CASES:
    if sum(x.size for x in differentiated(case)) <= 400:
        BY_FILE.setdefault(case.op.__module__.removeprefix("minigrad.ops."), []).append(case)


@pytest.mark.parametrize("file", BY_FILE)
def test_the_gradient_of_every_op_can_be_differentiated(file):
    found = {str(case): second_derivatives(case) for case in BY_FILE[file]}
    assert {case: pair for case, pair in found.items() if pair[0] != pytest.approx(pair[1], rel=1e-6, abs=1e-6)} == {}


x3 = np.array([0.5, -1.0, 2.0])


def test_third_derivatives():
    x = mg.tensor(x3, requires_grad=True)
    y = (x**4).sum()
    for expected in (4 * x3**3, 12 * x3**2, 24 * x3):
        (g,) = mg.grad(y, x, create_graph=True)
        np.testing.assert_allclose(g.array, expected)
        y = g.sum()


def test_backward_with_create_graph_puts_grad_on_the_tape():
    x = mg.tensor(x3, requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    (second,) = mg.grad(x.grad, x, mg.ones(3, dtype=mg.float64))
    np.testing.assert_allclose(second.array, 6 * x3)


def function(x, w):
    return ((x @ w).tanh() * x).softmax(-1)


@pytest.fixture
def inputs(random):
    return tuple(mg.tensor(random.standard_normal(shape)) for shape in ((2, 3), (3, 3)))


def test_products_agree_with_the_jacobian(inputs, random):
    v_out = mg.tensor(random.standard_normal((2, 3)))
    v_in = tuple(mg.tensor(random.standard_normal(x.shape)) for x in inputs)
    blocks = [j.array.reshape(6, -1) for j in mg.jacobian(function, inputs)]
    out, products = mg.vjp(function, inputs, v_out)
    np.testing.assert_allclose(out.array, function(*inputs).array)
    for product, block in zip(products, blocks):
        np.testing.assert_allclose(product.array.ravel(), v_out.array.ravel() @ block, atol=1e-14)
    _, product = mg.jvp(function, inputs, v_in)
    np.testing.assert_allclose(
        product.array.ravel(), sum(block @ v.array.ravel() for v, block in zip(v_in, blocks)), atol=1e-14
    )


def test_hessian_is_symmetric_and_hvp_its_product(inputs, random):
    def loss(x, w):
        return (function(x, w) * x).sum()

    v = tuple(mg.tensor(random.standard_normal(x.shape)) for x in inputs)
    (xx, xw), (wx, ww) = mg.hessian(loss, inputs)
    rows = [np.hstack([xx.array.reshape(6, 6), xw.array.reshape(6, 9)]), np.hstack([wx.array.reshape(9, 6), ww.array.reshape(9, 9)])]
    full = np.vstack(rows)
    np.testing.assert_allclose(full, full.T, atol=1e-13)
    _, products = mg.hvp(loss, inputs, v)
    flat = np.concatenate([p.array.ravel() for p in products])
    np.testing.assert_allclose(flat, full @ np.concatenate([x.array.ravel() for x in v]), atol=1e-13)


def test_grad_of_computed_tensors_and_of_unused_ones():
    x, unused = mg.tensor(x3, requires_grad=True), mg.ones(1, requires_grad=True)
    y = x * 2.0
    z = y * y
    (dy,) = mg.grad(z.sum(), y, retain_graph=True)
    np.testing.assert_allclose(dy.array, 2 * y.array)
    assert x.grad is None
    assert mg.grad(z.sum(), (x, unused), allow_unused=True, retain_graph=True)[1] is None
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph: input 1"):
        mg.grad(z.sum(), (x, unused))
    with pytest.raises(RuntimeError, match="does not require grad: input 0"):
        mg.grad(x.sum(), mg.ones(1))


@pytest.mark.parametrize("formula", [
    lambda a, b, c: mg.einsum("i,i,i->", a, b, c), lambda a, b, c: mg.einsum("i,i,i->", c, a, b),
])
def test_one_array_at_two_places_on_the_tape(formula):
    x = mg.tensor(x3, requires_grad=True)
    y = mg.tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    (first,) = mg.grad(formula(y, x, x.detach()), x, create_graph=True)
    (second,) = mg.grad(first.sum(), y)
    np.testing.assert_allclose(second.array, x3)
    (second,) = mg.grad(mg.grad(formula(y, x, x.detach()), y, create_graph=True)[0].sum(), x)
    np.testing.assert_allclose(second.array, x3)


def test_an_input_that_depends_on_another_counts_both_ways():
    x = mg.tensor(x3, requires_grad=True)
    y = x * 3.0
    dx, dy = mg.grad((x * y).sum(), (x, y))
    np.testing.assert_allclose(dx.array, 6 * x3)
    np.testing.assert_allclose(dy.array, x3)


def test_hvp_of_a_transformers_loss_is_the_difference_of_its_gradients():
    from models import CausalTransformer, TransformerConfig

    mg.manual_seed(0)
    model = CausalTransformer(TransformerConfig(vocabulary_size=7, context=4, layers=1, heads=2, width=8, dtype="float64"))
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.data[...] += 0.3 * mg.randn(*parameter.shape, dtype=mg.float64).array
    tokens, targets = mg.randint(7, size=(2, 4)), mg.randint(7, size=(2, 4))
    directions = [mg.randn(*p.shape, dtype=mg.float64) for p in parameters]

    def gradients(create_graph=False):
        return mg.grad(model(tokens, targets)[1], parameters, create_graph=create_graph)

    products = mg.grad(gradients(create_graph=True), parameters, directions)
    h = 1e-5
    moved = []
    for sign in (1, -1):
        for p, d in zip(parameters, directions):
            p.data += sign * h * d.array
        moved.append(gradients())
        for p, d in zip(parameters, directions):
            p.data -= sign * h * d.array
    for product, above, below in zip(products, *moved):
        np.testing.assert_allclose(product.array, (above.array - below.array) / (2 * h), atol=1e-7)


def test_a_jacobian_on_the_tape_is_connected_to_the_inputs_that_require_gradients():
    x, y = mg.tensor([2.0], requires_grad=True), mg.tensor([3.0])
    jacobian = mg.jacobian(lambda x, y: x**3 * y, (x, y), create_graph=True)
    jacobian[0].sum().backward()
    assert x.grad.tolist() == [36]
