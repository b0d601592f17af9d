"""Functions of JAX are checked as those of minigrad are: callables, custom_vjp and custom_jvp."""
import functools

import numpy as np
import pytest
from tables import each

from minigrad.gradcheck import gradcheck, gradcheck_report, gradgradcheck, is_causal

jax = pytest.importorskip("jax")

jnp = jax.numpy


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def with_vjp(forward, backward):
    """forward(x), with backward(dout, x, out)."""
    @jax.custom_vjp
    def function(x):
        return forward(x)

    function.defvjp(lambda x: (forward(x), (x, forward(x))), lambda kept, dout: (backward(dout, *kept),))
    return function


def with_jvp(forward, slope, of_tangent=lambda tangent: tangent):
    @jax.custom_jvp
    def function(x):
        return forward(x)

    function.defjvp(lambda points, tangents: (forward(*points), slope(*points) * of_tangent(tangents[0])))
    return function


def softmax(x):
    return jax.nn.softmax(x, -1)


def embedded(table, ids):
    return table[ids]


def raises(dout, x, out):
    raise KeyError("weight")


def draws(x):
    """Inside a rule of its own, where no text of the traced function shows it."""
    return with_vjp(lambda x: jnp.tanh(x) * np.random.default_rng().normal(size=(3, 4)), lambda dout, x, out: dout * (1 - out**2))(x)


@functools.cache
def scales(size):
    """An array that the first call leaves to the next ones."""
    return jnp.arange(size) + 1.0


CALLS = []


def counts(x):
    CALLS.append(1)
    return jnp.tanh(x) * len(CALLS)


X, Y, IDS = drawn(3, 4), drawn(4, 2, seed=1), np.array([0, 1, 1])
SOFTMAX = with_vjp(softmax, lambda dout, x, out: dout * out)
LOW = with_vjp(jnp.tanh, lambda dout, x, out: dout * (1 - out**2) * (1.0 if x.dtype == jnp.float64 else 1.5))
REPORTS = {  # function, inputs, the verdict, the title, inputs with a verdict of their own, and what the report says
    "a callable": (lambda a, b: jnp.tanh(a @ b), (X, Y), "pass", "the function", "a pass, b pass", "side checks: all"),
    "a compiled one": (jax.jit(softmax), X, "pass", "softmax", "x pass", "side checks: all"),
    "ids": (embedded, (X, IDS), "pass", "embedded", "table pass", "side checks: all"),
    "nests": (lambda x, pair: (x * pair["y"][0], {"sum": x.sum(), "ids": IDS, "order": x.argmax()}), (X, {"y": (drawn(4),)}),
              "pass", "the function", "x pass, pair['y'][0] pass", "side checks: all"),
    "custom_vjp": (SOFTMAX, X, "fail", "function", "x fail",
                   "this is softmax: the sum over the row is missing: every output depends on every input of its row"),
    "right custom_vjp": (with_vjp(softmax, lambda dout, x, out: out * (dout - (dout * out).sum(-1, keepdims=True))), X, "pass",
                         "function", "x pass", "side checks: all"),
    "custom_jvp": (with_jvp(jnp.tanh, lambda x: 1 - jnp.tanh(x)), X, "fail", "function", "x fail", "this is tanh: "),
    "right custom_jvp": (with_jvp(jnp.tanh, lambda x: 1 - jnp.tanh(x) ** 2), X, "pass", "function", "x pass", "side checks: all"),
    "cut off": (lambda x: jax.lax.stop_gradient(x) * x, X, "fail", "the function", "x fail", "0.5 everywhere"),
    "raises": (with_vjp(softmax, raises), X, "fail", "function", "", "KeyError: 'weight', in line"),
    "the wrong shape": (with_vjp(softmax, lambda dout, x, out: dout.T), X, "fail", "function", "", "shape"),
    "a tangent squared": (with_jvp(jnp.tanh, lambda x: 1 - jnp.tanh(x) ** 2, lambda t: t * t), X, "fail", "function", "",
                          "backward gives gradients: FAIL"),
    "chance": (with_vjp(jnp.tanh, lambda dout, x, out: dout * (1 - out**2) * (1 + 1e-6 * np.random.default_rng().uniform(1, 2))), X, "fail",
               "function", "x fail", "backward twice gives the same: FAIL"),
    "a branch": (lambda x: jnp.tanh(x) if x.sum() < 1e9 else x, X, "pass", "the function", "x pass", "side checks: all"),
    "float32": (with_vjp(jnp.tanh, lambda dout, x, out: (dout * (1 - out**2)).astype(jnp.float32)), X, "fail", "function", "x fail", "float32"),
    "through float32": (with_vjp(jnp.tanh, lambda dout, x, out: (dout * (1 - out**2)).astype(jnp.float32).astype(jnp.float64)), X, "fail",
                        "function", "x fail", "float64 throughout: FAIL"),
    "a draw": (draws, X, "fail", "draws", "", "the function is not deterministic"),
    "a counter": (counts, X, "fail", "counts", "", "the function is not deterministic"),
    "a cache": (lambda x: x**2 * scales(x.shape[-1]), X, "pass", "the function", "x pass", "side checks: all"),
    "None": (with_vjp(jnp.tanh, lambda dout, x, out: None), X, "fail", "function", "x fail", "x is zero"),
}


def arrays(inputs):
    return jax.tree.map(jnp.asarray, inputs)


def test_what_the_report_says():
    def says(name, row):
        fn, inputs, verdict, title, verdicts, said = row
        report = gradcheck_report(fn, arrays(inputs))
        assert report.verdict == verdict and report.title == title and said in str(report)
        assert ", ".join(f"{entry.name} {entry.verdict}" for entry in report.inputs) == verdicts

    each(REPORTS, says)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_narrow_dtypes(dtype):
    """Whether or not JAX has float64 switched on."""
    for is_wide in (False, True):
        with jax.enable_x64(is_wide):
            for fn, verdicts in ((jnp.sin, ["pass", "pass"]), (SOFTMAX, ["fail", "pass"]), (LOW, ["pass", "fail"])):
                report = gradcheck_report(fn, jnp.asarray(X[:2], dtype))
                assert [entry.verdict for entry in report.inputs] == verdicts
    assert gradgradcheck(jnp.tanh, jnp.asarray(X[0, :2], dtype))


def test_gradients_of_gradients():
    def cube_with_constant_slope(x):
        return with_vjp(lambda x: x**3, lambda dout, x, out: dout * 3 * jax.lax.stop_gradient(x) ** 2)(x)

    for fn, inputs, is_right in ((lambda x, y: jnp.tanh(x @ y), (X[:2, :2], Y[:2]), True),
                                 (cube_with_constant_slope, X[0, :2], False)):
        assert gradgradcheck(fn, arrays(inputs), raise_exception=False) == is_right
    assert gradcheck(cube_with_constant_slope, jnp.asarray(X))


def test_many_calls_are_compiled():
    calls = []

    def counted(x):
        calls.append(1)
        return jnp.tanh(x)

    assert gradcheck(counted, jnp.asarray(drawn(8, 8))) and len(calls) == 5  # one, and two traces with and without backward


def test_causality():
    assert is_causal(lambda x: jnp.cumsum(x, 0), jnp.asarray(X)) and not is_causal(lambda x: x - x.mean(0), jnp.asarray(X))
