"""autocast: which operations round their operands, forward and backward, when, and what it refuses."""
import functools
import itertools
import math
import threading

import numpy as np
import pytest

import minigrad as mg
import nn
import nn.functional as F
from minigrad.fast.autocast import is_autocast_enabled
from minigrad.extend import opaque

DOUT = 3.0  # added to upstream gradients, so that none is a plain sum


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def rounded(x):
    """To 8 significant bits, ties to even, in float64."""
    fraction, exponent = np.frexp(np.asarray(x, np.float32).astype(np.float64))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


def product(a, b):
    """Of rounded operands."""
    return rounded(a) @ rounded(b)


PRODUCTS = {  # einsums of two factors, and what else computes them; ALONE are no matrix products, and are not rounded
    "ik,kj->ij": [mg.matmul, mg.mm], "ik,jk->ij": [F.linear], "bik,jk->bij": [F.linear],
    "bik,bkj->bij": [mg.matmul, mg.bmm], "bik,kj->bij": [mg.matmul], "ik,bkj->bij": [mg.matmul], "bik,bk->bi": [],
    "ik,k->i": [mg.matmul], "k,kj->j": [mg.matmul], "bik,k->bi": [mg.matmul], "k,bkj->bj": [mg.matmul],
}
ALONE = {
    "k,k->": [mg.matmul, mg.dot], "i,j->ij": [mg.outer], "ik,ik->i": [], "bik,bij->bikj": [], "ik,->ik": [mg.mul],
    "bik,kj->ij": [], "ik,kj->i": [],
}
SIZES = [*itertools.product((1, 5), repeat=3), (30, 20, 40), (1, 200, 1), (200, 1, 1), (1, 1, 200), (70, 1, 70)]


@pytest.mark.parametrize("equation", PRODUCTS | ALONE)
def test_factors_are_rounded_in_both_directions_if_it_is_a_matrix_product(equation):
    first, second, made = labels = equation.replace("->", ",").split(",")
    seen = rounded if equation in PRODUCTS else np.float64
    for function, sizes in itertools.product([functools.partial(mg.einsum, equation), *(PRODUCTS | ALONE)[equation]], SIZES):
        lengths = dict(zip("ikjb", (*sizes, 3)))
        a, b, dout = (random(*[lengths[label] for label in own], seed=i) for i, own in enumerate(labels))
        dout = np.float32(dout + DOUT)
        inputs = [mg.tensor(array, requires_grad=True) for array in (a, b)]
        with mg.autocast("cpu", dtype=mg.bfloat16):
            out = function(*inputs)
        out.backward(mg.tensor(dout))  # outside: the op remembers
        right = (np.einsum(equation, seen(a), seen(b)),
                 np.einsum(f"{made},{second},{first}->{first}", seen(dout), seen(b), np.ones_like(a)),
                 np.einsum(f"{made},{first},{second}->{second}", seen(dout), seen(a), np.ones_like(b)))
        for name, array, expected in zip(("out", "da", "db"), (out, *(x.grad for x in inputs)), right):
            message = f"{name} of {function}, sizes {sizes}"
            np.testing.assert_allclose(array.detach().numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=message)


def linear(dout, x, weight, bias):
    return product(x, weight.T) + bias, product(dout, weight), product(dout.T, x), dout.sum(0)


def mlp(dout, x, expand, expand_bias, project, project_bias):
    hidden = product(x, expand.T) + expand_bias
    erf = np.vectorize(math.erf)(hidden / math.sqrt(2))
    activated = hidden * (1 + erf) / 2
    slope = (1 + erf) / 2 + hidden * np.exp(-hidden**2 / 2) / math.sqrt(2 * math.pi)
    dhidden = product(dout, project) * slope
    return (product(activated, project.T) + project_bias, product(dhidden, expand), product(dhidden.T, x), dhidden.sum(0),
            product(dout.T, activated), dout.sum(0))


def attention(dout, q, k, v, is_causal=False):
    """One tile: the scale is multiplied into k for scores and dq, and into q for dk, before rounding; weights are divided by their
    sum after the product with v."""
    scale = np.float32(1 / math.sqrt(q.shape[-1]))
    scores = product(q, (k * scale).T)
    scores[~np.tri(*scores.shape, dtype=bool) & is_causal] = -np.inf
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights, out = e / e.sum(-1, keepdims=True), product(e, v) / e.sum(-1, keepdims=True)
    dscores = weights * (product(dout, v.T) - np.sum(rounded(np.float32(dout)) * out, -1, keepdims=True))
    return out, product(dscores, k * scale), product(dscores.T, q * scale), product(weights.T, dout)


ROUNDED = {  # (the operation, its reference: values and gradients, shapes)
    "linear with a bias": (F.linear, linear, [(30, 40), (20, 40), (20,)]),
    "mlp": (F.mlp, mlp, [(30, 16), (64, 16), (64,), (16, 64), (16,)]),
    "attention": (F.scaled_dot_product_attention, attention, [(24, 16), (24, 16), (24, 16)]),
    "attention with odd sizes": (F.scaled_dot_product_attention, attention, [(65, 33), (127, 33), (127, 33)]),
    "attention to one key of one number": (F.scaled_dot_product_attention, attention, [(5, 1), (1, 1), (1, 1)]),
    "attention of one query": (F.scaled_dot_product_attention, attention, [(1, 7), (5, 7), (5, 7)]),
    "causal attention": (functools.partial(F.scaled_dot_product_attention, is_causal=True),
                         functools.partial(attention, is_causal=True), [(77, 17), (77, 17), (77, 17)]),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_operands_are_rounded_in_both_directions(name):
    function, reference, shapes = ROUNDED[name]
    arrays = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    inputs = [mg.tensor(array, requires_grad=True) for array in arrays]
    with mg.autocast("cpu", dtype=mg.bfloat16):
        out = function(*inputs)
    dout = random(*out.shape, seed=9) + np.float32(DOUT)
    out.backward(mg.tensor(dout))  # outside: the op remembers
    expected = reference(dout.astype(np.float64), *arrays)
    plain = function(*map(mg.tensor, arrays)).numpy()
    for array, right in zip([out, *(x.grad for x in inputs)], expected):
        assert array.dtype == mg.float32
        # what is rounded in between may fall on the other side: one unit of bfloat16 in one term of a sum
        np.testing.assert_allclose(array.detach().numpy(), right, rtol=0, atol=3e-4 * np.abs(right).max())
    assert np.abs(plain - out.detach().numpy()).max() > 1e-3 * np.abs(plain).max()


UNTOUCHED = {
    "float64": lambda x: x.double() @ x.double().T, "float64 column times a number": lambda x: x[:, :1].double() @ x[:1, :1].double(),
    "small batch in float64": lambda x: x[:3].double() @ x[:6].double().reshape(2, 40, 3),
    "einsum in float64": lambda x: mg.einsum("ij,j->i", x.double(), x[0].double()), "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, 40), "gelu": F.gelu, "sum": lambda x: x.sum(0), "mul": lambda x: x * x,
    "cross entropy": lambda x: F.cross_entropy(x, mg.arange(30)), "float64 attention":
        lambda x: F.scaled_dot_product_attention(x.double(), x.double(), x.double()),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_the_rest_keeps_its_bits(name):
    x, under = (mg.tensor(random(30, 40), requires_grad=True) for _ in range(2))
    out = UNTOUCHED[name](x)
    with mg.autocast("cpu"):
        same = UNTOUCHED[name](under)
    dout = mg.tensor(random(*out.shape) + DOUT, dtype=out.dtype)
    out.backward(dout)
    same.backward(dout)
    assert same.equal(out) and under.grad.equal(x.grad)


def values(a, b):
    return (a @ b).numpy().tobytes()


def test_where_it_holds():
    a, b = mg.tensor(random(30, 40)), mg.tensor(random(40, 20))
    plain = values(a, b)
    decorated = mg.autocast("cpu", mg.bfloat16)(values)
    block = mg.autocast("cpu")
    with block:
        low = values(a, b)
        assert is_autocast_enabled("cpu") and low != plain
        with mg.autocast("cpu", enabled=False):
            assert values(a, b) == plain and not is_autocast_enabled()
            with block:
                assert values(a, b) == low
        assert values(a, b) == low
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(values(a, b)))
        thread.start()
        thread.join()
        assert elsewhere == [plain]
        with mg.textbook():
            np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)
    assert values(a, b) == plain and decorated(a, b) == low
    with pytest.raises(ValueError), block:
        mg.matmul(a, a)
    assert values(a, b) == plain


def test_a_decorated_generator():
    @mg.autocast("cpu")
    def modes():
        yield is_autocast_enabled()
        yield is_autocast_enabled()

    generator = modes()
    assert next(generator) and not is_autocast_enabled() and next(generator) and not is_autocast_enabled()


def test_threads_share_a_decorated_function():
    """The first to come leaves while the other is inside; each has the mode from before again."""
    first, second, left = (threading.Event() for _ in range(3))
    found = {}

    @mg.autocast("cpu")
    def meet(own, other):
        own.set()
        assert other.wait(10) and is_autocast_enabled()

    def inside():
        with mg.autocast("cpu"):
            meet(first, second)
            found["inside"] = is_autocast_enabled()
        left.set()

    def outside():
        assert first.wait(10)
        meet(second, left)
        found["outside"] = is_autocast_enabled()

    both = [threading.Thread(target=target) for target in (inside, outside)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == {"inside": True, "outside": False}


def test_a_compiled_step_follows():
    """Autocast around a step makes another capture; inside, it is part of the step."""
    a, b = mg.tensor(random(30, 40)), mg.tensor(random(40, 20), requires_grad=True)

    def step(a):
        b.grad = None
        out = a @ b
        (out * out).sum().backward()
        return out

    def inside(a):
        with mg.autocast("cpu"):
            return step(a)

    results = {}
    for name, function in {"eager": step, "around": mg.compile(step), "inside": mg.compile(inside)}.items():
        for call in range(24):
            rounds = call // 6 % 2 == 1
            with mg.autocast("cpu", enabled=rounds):
                found = function(a).detach().numpy().tobytes(), b.grad.numpy().tobytes()
            expected = "low" if rounds or name == "inside" else "plain"
            assert results.setdefault(expected, found) == found, (name, call)
    assert results["low"][0] != results["plain"][0] and results["low"][1] != results["plain"][1]


def test_muons_products_are_rounded():
    """All of one step of its iteration; test_optim.py has the whole."""
    a, b, c = 1.5, -0.5, 0.25
    p = nn.Parameter(mg.zeros(24, 40))
    p.grad = mg.tensor(random(24, 40))
    with mg.autocast("cpu"):
        nn.optim.Muon([p], lr=1.0, momentum=0.0, ns_steps=1, ns_coefficients=(a, b, c), eps=64.0).step()
    x = p.grad.numpy() / 64  # its norm is less
    gram = product(x, x.T)
    expected = -product(a * np.eye(24) + b * gram + c * product(gram, gram), x)
    np.testing.assert_allclose(p.array, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_an_optimizers_step_follows():
    """In a compiled step too, where the optimizer's step is called with the precision that it had."""
    gradient = mg.tensor(random(16, 16))

    def values(around, inside, compiles):
        p = nn.Parameter(mg.zeros(16, 16))
        muon = nn.optim.Muon([p])

        def step(x):
            p.grad = None
            (p * x).sum().backward()
            with mg.autocast("cpu", enabled=inside):
                muon.step()

        step = mg.compile(step) if compiles else step
        for _ in range(6):
            with mg.autocast("cpu", enabled=around):
                step(gradient)
        return p.array.tobytes()

    low, plain = (values(rounds, rounds, compiles=False) for rounds in (True, False))
    assert low != plain
    for around, inside in itertools.product((True, False), repeat=2):
        assert values(around, inside, compiles=True) == (low if inside else plain)


def test_a_replay_calls_opaque_functions_in_their_modes():
    """As their precision, so whether gradients are on."""
    w = nn.Parameter(mg.ones(3))
    halve = opaque(lambda tensor: tensor.mul_(0.5))

    @mg.compile
    def step(x):
        with mg.no_grad():
            halve(w)
        return x * 2

    for _ in range(7):
        step(mg.ones(3))
    assert w.tolist() == [0.5**7] * 3


class Product(mg.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, dout):
        a, b = ctx.saved_tensors
        return dout @ b.T, a.T @ dout


def test_a_users_function_remembers():
    """As the op that it spells out, and in a replay of a compiled step too."""
    a, b = mg.tensor(random(30, 40)), mg.tensor(random(40, 20), requires_grad=True)

    def step(a, multiply):
        b.grad = None
        with mg.autocast("cpu"):
            out = multiply(a, b)
        (out * out).sum().backward()
        return out

    expected = step(a, mg.matmul).detach(), b.grad
    compiled = mg.compile(lambda a: step(a, Product.apply))
    for call in range(8):
        out = compiled(a) if call else step(a, Product.apply)
        assert out.detach().equal(expected[0]) and b.grad.equal(expected[1]), call


def step_of(optimizer):
    """Steps, and returns something."""
    def compute(a, b):
        optimizer.step()
        return a * 1

    return compute


@pytest.mark.parametrize("compute", [mg.matmul, Product.apply, step_of(nn.optim.SGD([nn.Parameter(mg.ones(2))]))])
def test_a_replay_in_another_precision_is_noticed(compute):
    modes = [True] * 200_000  # too long a list to be checked before each replay

    @mg.compile
    def step(a, b):
        with mg.autocast("cpu", enabled=modes[7]):
            return compute(a, b)

    a, b = mg.tensor(random(30, 40)), mg.tensor(random(40, 20))
    for _ in range(7):
        step(a, b)
    modes[7] = False
    with pytest.raises(RuntimeError, match="compile: at call 8 .* gave (MatMul|Product|Optimizer.step) .*float32.*, where it had given .*bfloat16"):
        step(a, b)


@pytest.mark.parametrize("forward", [False, True])
def test_gradients_on_the_tape_are_rounded_where_backward_is_called(forward):
    x, weight = (mg.tensor(random(20, 20, seed=i), requires_grad=True) for i in range(2))

    def gradients(forward, backward):
        with mg.autocast("cpu", enabled=forward):
            out = F.linear(x, weight)
        with mg.autocast("cpu", enabled=backward):
            dx, = mg.grad(out, x, mg.tensor(random(20, 20, seed=2)), create_graph=True)
            return dx, *mg.grad(dx.square().sum(), weight)

    plain, same, low = gradients(False, False), gradients(forward, False), gradients(forward, True)
    assert all(map(mg.Tensor.equal, same, plain)) and not any(map(mg.Tensor.equal, low, plain))


REFUSED = [
    (lambda: mg.autocast("cuda"), ValueError, "minigrad computes on the CPU, got device_type='cuda'; use 'cpu'"),
    (lambda: mg.autocast("cpu", dtype=mg.float16), TypeError, "rounded to bfloat16, not to float16; use dtype=minigrad.bfloat16"),
    (lambda: mg.autocast("cpu", dtype=mg.float32), TypeError, "rounded to bfloat16, not to float32"),
]


@pytest.mark.parametrize("make, error, words", REFUSED)
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_the_gradient_check_refuses_it():
    inputs = [mg.tensor(random(4, 3, seed=i), dtype=mg.float64, requires_grad=True) for i in range(2)]

    def low(a, b):
        with mg.autocast("cpu"):
            return F.linear(a, b)

    with pytest.raises(ValueError, match="^gradcheck: the function runs under autocast[^\n]*check it outside[^\n]*$"):
        mg.gradcheck(low, inputs)
    with mg.autocast("cpu"):
        with pytest.raises(ValueError, match="runs under autocast"):
            mg.gradcheck(F.linear, inputs)
        with mg.autocast("cpu", enabled=False):
            assert mg.gradcheck(F.linear, inputs)
