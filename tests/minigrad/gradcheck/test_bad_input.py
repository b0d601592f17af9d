"""What cannot be checked is told so in one line: what came, what was expected, how to mend it."""
import dataclasses
import math
import warnings

import numpy as np
import pytest
from tables import each

import minigrad as mg
from minigrad.gradcheck import gradcheck_module, gradcheck_report, is_causal


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape)


@dataclasses.dataclass
class Batch:
    x: object
    y: object


class Callback:
    """Neither a function nor an autograd Function."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, dout):
        return dout


def counted():
    calls = []

    def function(x):
        calls.append(x)
        return x * len(calls)

    return function


def is_refused(name, row):
    """(function, inputs, what the error says)"""
    fn, inputs, words = row
    with pytest.raises(Exception) as caught:
        gradcheck_report(fn, inputs)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def is_said(name, row):
    """(function, inputs, the verdict, a part of a line of the report); a verdict of chance has that line alone."""
    fn, inputs, verdict, words = row
    report = gradcheck_report(fn, inputs)
    assert report.verdict == verdict and words in str(report)
    assert words not in NOT_DETERMINISTIC or len(str(report).splitlines()) == 2


NOT_DETERMINISTIC = "the function is not deterministic"
X = drawn(3)
IN_NUMPY = {
    "no pair": (np.tanh, X, "give tensors of minigrad, PyTorch or JAX, or a pair (forward, backward) and arrays; got numpy.ndarray"),
    "no function": ("tanh", X, "expected a function, got str; in NumPy, give a pair (forward, backward)"),
    "three functions": ((np.tanh, np.tanh, np.tanh), X, "expected a pair of functions (forward, backward), got (tanh, tanh, tanh)"),
    "one function": ((np.tanh, 3), X, "got (tanh, int)"),
    "integers": ((np.tanh, np.tanh), np.arange(3), "no input or parameter requires a gradient; give a pair (forward, backward) an array of floats"),
    "lists": ((np.tanh, np.tanh), [0.3, 0.4], "for each argument; got float, float"),
    "float16": ((np.tanh, np.tanh), X.astype(np.float16), "takes float64 and float32; got numpy.ndarray of float16"),
    "complex": ((np.tanh, np.tanh), X * 1j, "takes float64 and float32; got numpy.ndarray of complex128"),
    "returns nothing": ((lambda x: None, np.tanh), X, "must return an array of floats, or a tuple of arrays; got NoneType"),
    "returns integers": ((lambda x: x.astype(int), np.tanh), X, "got numpy.ndarray of int64"),
    "returns a list": ((lambda x: [x, x], np.tanh), X, "got list"),
    "NaN": ((np.tanh, lambda dout, x: dout), np.array([0, math.nan]), "x[1] is NaN; give it a number, differences need one"),
}
NUMPY_REPORTS = {
    "chance": ((lambda x: x * np.random.default_rng().random(), np.tanh), X, "fail", NOT_DETERMINISTIC),
    "a counter": ((counted(), lambda dout, x: dout), X, "fail", NOT_DETERMINISTIC),
    "no elements": ((np.tanh, lambda dout, x: dout), X[:0], "pass", "proves nothing: x has no elements"),
}


def test_pairs():
    each(IN_NUMPY, is_refused)
    each(NUMPY_REPORTS, is_said)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_pytorch():
    torch = pytest.importorskip("torch")

    def leaf(*shape):
        return torch.tensor(drawn(*shape), requires_grad=True)

    def hooked(x):
        x.register_hook(lambda gradient: gradient / 2)
        return x

    def module(**options):
        return torch.nn.Linear(3, 2, dtype=torch.float64, **options)

    def with_backward_hook(layer):
        layer.register_full_backward_hook(lambda layer, dx, dout: None)
        return layer

    class Subclass(torch.Tensor):
        pass

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

    x, constant = leaf(3), torch.ones(3, dtype=torch.float64)
    dense = torch.eye(3, dtype=torch.float64)
    with warnings.catch_warnings(action="ignore"):  # it is to go
        quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    each({
        "returns nothing": (lambda x: None, x, "must return a floating-point tensor of PyTorch, or several in a tuple, list or "
                            "dict; got NoneType"),
        "returns integers": (lambda x: x.argmax(), x, "got torch.Tensor of int64"),
        "returns an array": (lambda x: x.detach().numpy(), x, "got numpy.ndarray of float64"),
        "returns complex numbers": (lambda x: x * 1j, x, "what the function returns is complex, which is not supported: use real"),
        "returns a sparse tensor": (lambda x: x.to_sparse(), x, "what the function returns is sparse or nested: use a dense"),
        "a GPU that is not there": (lambda x: x.to("cuda:7"), x, "CUDA"),
        "calls numpy()": (lambda x: torch.tensor(x.numpy()), x, "Can't call numpy() on Tensor that requires grad"),
        "writes to its input": (lambda x: x.mul_(2), x, "a leaf Variable that requires grad is being used in an in-place"),
        "no requires_grad": (torch.tanh, constant, "no input or parameter requires a gradient; make one with requires_grad=True, "
                             "of floating-point numbers; got torch.Tensor of float64"),
        "integers": (lambda x: x * 2, torch.arange(3), "got torch.Tensor of int64"),
        "all frozen": (module().requires_grad_(False), constant, "no input or parameter requires a gradient"),
        "NumPy's arrays": (Square, (X, 2), "Square takes tensors of PyTorch; got numpy.ndarray of float64"),
        "two libraries": (lambda x, y: x, (x, mg.ones(3)), "come from PyTorch and minigrad; use one library"),
        "a class": (Callback, x, "Callback is a class, and not an autograd Function; give a function, or an instance that can "
                    "be called, as Callback(...)"),
        "a class of modules": (torch.nn.Linear, x, "Linear is a class, and not an autograd Function"),
        "sparse": (lambda x: x, dense.to_sparse().requires_grad_(), "x is sparse or nested: use a dense tensor, and let the function"),
        "quantized": (lambda x, q: x, (x, quantized), "q is torch.qint8: use float64, float32, bfloat16 or float16"),
        "float8": (lambda x, y: x, (x, constant.to(torch.float8_e5m2)), "y is torch.float8_e5m2: use float64"),
        "complex": (lambda x: x.real, torch.ones(3, dtype=torch.complex128, requires_grad=True), "x is complex"),
        "a subclass": (lambda x: x, constant.as_subclass(Subclass).requires_grad_(), "x is a Subclass, and a check takes plain"),
        "meta": (module(device="meta"), x, "weight is on the device meta, which holds no numbers: use cpu or cuda"),
        "lazy": (torch.nn.LazyLinear(2), x, "weight has no numbers yet: call the module once"),
        "NaN": (lambda x: x, torch.tensor([0, math.nan], requires_grad=True), "x[1] is NaN; give it a number"),
        "infinity": (lambda x: x * x, torch.tensor([0, math.inf], dtype=torch.float64, requires_grad=True),
                     "x[1] is infinite, and has no derivative; give finite inputs"),
    }, is_refused)
    each({
        "chance": (lambda x: x * np.random.default_rng().random(), x, "fail", NOT_DETERMINISTIC),
        "PyTorch's global generator": (lambda x: x * torch.rand(3), x, "pass", "side checks: all"),
        "a counter": (counted(), x, "fail", NOT_DETERMINISTIC),
        "a list of arguments": (lambda x, y: x * y, [leaf(3), leaf(3)], "pass", "y "),
        "a dataclass": (lambda batch: batch.x * batch.y, Batch(leaf(3), leaf(3)), "pass", "batch.y "),
        "a part is frozen": (module().requires_grad_(False), leaf(2, 3), "pass", "input "),
        "one without requires_grad": (lambda x, y: x * y, (x, constant), "pass", "note: y requires no gradient, so none was checked"),
        "a hook on an input": (lambda x: x * x, hooked(leaf(3)), "pass", "note: x has hooks, which are not run"),
        "a hook on a result": (lambda x: hooked(x * x), x, "fail", "0.5 everywhere"),
        "a module's hook": (with_backward_hook(module()), leaf(2, 3), "pass", "note: Linear has backward hooks, and is checked with them"),
        "a part detached": (lambda x: x * x.sum().item(), x, "fail", "derivatives are wrong"),
        "inference mode": (torch.inference_mode()(torch.square), x, "fail", "output 0 is not on the tape"),
        "a coarser dtype": (lambda x: x.float() * 2, x, "pass", "as in float32: let buffers and casts inside have the dtype of the inputs"),
        "float32 inside": (lambda x: (x.float() * 2).double(), x, "pass", "as in float32: let buffers and casts inside have the dtype of the inputs"),
        "NaN comes out": (lambda x: (x - 9).sqrt(), x, "inconclusive", "note: output 0 is NaN in 3 of 3 places"),
        "a gradient inside": (lambda x: torch.autograd.grad((x**3).sum(), x, create_graph=True)[0], x, "pass", "side checks: all"),
        "a sparse gradient": (torch.nn.Embedding(4, 3, sparse=True, dtype=torch.float64), torch.tensor([0, 1, 1]), "pass", "weight"),
    }, is_said)


def test_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    @jax.custom_vjp
    def raises(x):
        return x * 2

    def backward(kept, dout):
        raise KeyError("weight")

    raises.defvjp(lambda x: (x * 2, x), backward)

    def branches(x):
        return x * x if x.sum() > 0 else x

    x, key = jnp.asarray(X), jax.random.key(0)
    each({
        "returns integers": (lambda x: x.argmax(), x, "got jaxlib.ArrayImpl of int32"),
        "returns complex numbers": (lambda x: x * 1j, x, "what the function returns is complex, which is not supported: use real"),
        "integers": (lambda x: x, jnp.arange(3), "give an array of floating-point numbers; got jaxlib.ArrayImpl of int32"),
        "NumPy's arrays": (jax.jit(jnp.tanh), X, "tanh takes tensors of JAX; got numpy.ndarray of float64"),
        "two libraries": (lambda x, y: x, (x, mg.ones(3)), "come from JAX and minigrad; use one library"),
        "a GPU that is not there": (lambda x: jax.device_put(x, jax.devices("gpu")[0]), x, "gpu"),
        "no backward": (jax.custom_vjp(jnp.tanh), x, "No VJP defined for custom_vjp function"),
        "writes to its input": (lambda x: x.__setitem__(0, 1), x, "JAX arrays are immutable"),
    }, is_refused)
    each({
        "a counter": (counted(), x, "fail", NOT_DETERMINISTIC),
        "a branch": (branches, x, "pass", "gradcheck of branches"),
        "a static argument": (jax.jit(lambda x, n: x**n, static_argnums=1), (x, 2), "pass", "x in float32"),
        "a key": (lambda x, key: x * jax.random.bernoulli(key, 0.5, (3,)), (x, key), "pass", "the function computes something else in float64"),
        "a dict": (lambda p: p["w"] * p["b"], {"w": x, "b": x}, "pass", "p['b'] in float32"),
        "a dataclass": (lambda batch: Batch(batch.x * batch.y, batch.x), Batch(x, x), "pass", "batch.y in float32"),
        "raises in backward": (raises, x, "fail", "backward gives gradients: FAIL: KeyError: 'weight', in line"),
        "bfloat16 inside": (lambda x: x.astype(jnp.bfloat16).astype(x.dtype) * 2, x, "inconclusive", "in a narrower dtype even if it is given float64"),
    }, is_said)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        gradcheck_report(jax.jit(branches), x)


def test_other_checks():
    """They take the same functions, or say in a line which ones they take."""
    torch = pytest.importorskip("torch")
    x, pair = torch.tensor(X, requires_grad=True), (np.tanh, lambda dout, x: dout * (1 - np.tanh(x) ** 2))
    assert gradcheck_module(pair, X, progress=False)

    def is_refused(name, row):
        call, words = row
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert words in str(caught.value) and "\n" not in str(caught.value)

    each({
        "is a pair causal": (lambda: is_causal(pair, X), "expected a function, got tuple; in NumPy, give a pair"),
        "is a class causal": (lambda: is_causal(torch.nn.Linear, x), "Linear is a class, and not an autograd Function"),
    }, is_refused)
