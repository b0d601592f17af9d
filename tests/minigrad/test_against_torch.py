"""The same expression in PyTorch and here: values, gradients and dtypes. Skipped where PyTorch is not installed."""
import numpy as np
import pytest

import minigrad as mg
from nn import functional as F

torch = pytest.importorskip("torch")
random = np.random.default_rng(5)


def normal(*shape):
    return random.standard_normal(shape)


x34, y34, x4, x234, x44 = normal(3, 4), normal(3, 4), normal(4), normal(2, 3, 4), normal(4, 4)
positive = np.abs(normal(3, 4)) + 0.3
ids = np.array([0, 2, 2])
bool_mask = random.random((3, 4)) > 0.4

# Each expression gets the library (minigrad or torch), its functional module, and the inputs as tensors.
EXPRESSIONS = {
    "arithmetic": (lambda m, F, a, b: (a + b) * a - b / (a * a + 1.0), x34, y34),
    "scalars": (lambda m, F, a: 2.0 - a * 3 + (1.0 / (a * a + 1.0)) ** 2 - (-a), x34),
    "broadcast": (lambda m, F, a, b: a * b[None, :, None] + b.unsqueeze(0).unsqueeze(2), normal(2, 4, 3), x4),
    "pow tensor": (lambda m, F, a, b: a**b, positive, y34),
    "scalar pow": (lambda m, F, a: 2.0**a, x34),
    "exp log sqrt": (lambda m, F, a: (a.exp() + 1.0).log().sqrt(), x34),
    "rsqrt abs": (lambda m, F, a: (a.abs() + 0.1).rsqrt(), x34),
    "tanh sigmoid erf": (lambda m, F, a: a.tanh() + a.sigmoid() * a.erf(), x34),
    "relu": (lambda m, F, a: F.relu(a), x34),
    "gelu": (lambda m, F, a: F.gelu(a) + F.gelu(a, approximate="tanh"), x34),
    "maximum with ties": (lambda m, F, a, b: m.maximum(a, b) + m.minimum(a, b) * 2.0, np.array([1.0, 2, 3]), np.array([1.0, 1, 4])),
    "where": (lambda m, F, a, b: m.where(a > 0, a, b), x34, y34),
    "masked_fill": (lambda m, F, a: a.masked_fill(a > 0.5, -1.0), x34),
    "sum dims": (lambda m, F, a: a.sum((0, 2)) * a.sum(dim=(0, 2), keepdim=True).mean(), x234),
    "mean": (lambda m, F, a: a.mean(-1, keepdim=True) * a.mean(), x234),
    "var std": (lambda m, F, a: a.var(1) + a.std(1, keepdim=True).sum(1) + a.var(), x234),
    "max()": (lambda m, F, a: a.max() * a.min(), np.array([[1.0, 3.0], [3.0, 0.0]])),
    "max(dim)": (lambda m, F, a: a.max(1).values - a.min(0).values.sum(), np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 0.0]])),
    "amax": (lambda m, F, a: a.amax(1) + a.amin(1), np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 0.0]])),
    "reshape": (lambda m, F, a: a.view(4, -1).flatten() * a.reshape(24), x234),
    "squeeze": (lambda m, F, a: a.unsqueeze(1).unsqueeze(-1).squeeze() + a.unsqueeze(-1).squeeze(-1), x34),
    "transpose permute": (lambda m, F, a: a.transpose(0, 2).permute(1, 0, 2) * 2.0, x234),
    "T mT": (lambda m, F, a: a.T @ a + a.mT @ a, x34),
    "expand": (lambda m, F, a: a.unsqueeze(0).expand(5, -1, 4), x34),
    "cat stack": (lambda m, F, a, b: m.cat([a, b, a], dim=1).sum(1) * m.stack([a, b], dim=1).sum(2).sum(1), x34, y34),
    "split chunk": (lambda m, F, a: a.split([1, 3], dim=2)[1] * a.chunk(2, dim=2)[0].sum(2, keepdim=True), x234),
    "split size": (lambda m, F, a: a.split(3, dim=1)[1] * 2.0, x34),
    "tril triu": (lambda m, F, a: a.tril() + a.triu(1) * 2.0, x44),
    "index": (lambda m, F, a: a[1:, ::2] * a[0, 1] + a[-1, None, :2], x34),
    "index repeated": (lambda m, F, a: a[m.tensor([0, 2, 2])] * 2.0, x34),
    "index pairs": (lambda m, F, a: a[m.tensor([0, 2, 2]), m.tensor([1, 1, 1])], x34),
    "index boolean": (lambda m, F, a: a[a > 0], x34),
    "matmul 2d": (lambda m, F, a, b: a @ b, x34, x44),
    "matmul vectors": (lambda m, F, a, b: (a @ b) * (b @ b), x34, x4),
    "matmul batched": (lambda m, F, a, b: a @ b, x234, normal(5, 1, 4, 2)),
    "matmul vector batch": (lambda m, F, a, b: b @ a, x234, normal(3)),
    "linear": (lambda m, F, a, w, b: F.linear(a, w, b), x234, normal(5, 4), normal(5)),
    "softmax": (lambda m, F, a: F.softmax(a, dim=1) + a.softmax(-1) + F.log_softmax(a, dim=0), x234),
    "layer_norm": (lambda m, F, a, w, b: F.layer_norm(a, (4,), w, b, 1e-3), x234, x4, normal(4)),
    "layer_norm two axes": (lambda m, F, a, w, b: F.layer_norm(a, (3, 4), w, b), x234, x34, y34),
    "embedding": (lambda m, F, w: F.embedding(m.tensor([[0, 2], [2, 2]]), w), x34),
    "cross_entropy": (lambda m, F, a: F.cross_entropy(a, m.tensor([0, 3, -100])), x34),
    "cross_entropy none": (lambda m, F, a: F.cross_entropy(a, m.tensor([0, 3, -100]), reduction="none"), x34),
    "cross_entropy classes in the middle": (lambda m, F, a: F.cross_entropy(a, m.tensor([[0, 1, 2, 2], [1, 0, 0, 2]])), x234),
    "attention": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v), normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 6)),
    "attention causal": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2),
                         normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4)),
    "attention bool mask": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v, m.tensor(bool_mask)),
                            x34, x44, normal(4, 4)),
    "attention learned mask": (lambda m, F, q, k, v, b: F.scaled_dot_product_attention(q, k, v, b), x34, x44, normal(4, 4), y34),
}


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_values_and_gradients_are_pytorchs(expression, dtype, tolerance):
    function, *arrays = expression
    ours = [mg.tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, dtype=getattr(torch, dtype), requires_grad=True) for a in arrays]
    out, expected = function(mg, F, *ours), function(torch, torch.nn.functional, *theirs)
    upstream = np.random.default_rng(0).standard_normal(tuple(expected.shape))
    out.backward(mg.tensor(upstream, dtype=dtype))
    expected.backward(torch.tensor(upstream, dtype=expected.dtype))
    pairs = [(out.data, expected.detach().numpy())] + [(a.grad.data, b.grad.numpy()) for a, b in zip(ours, theirs)]
    for got, wanted in pairs:
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max()))


DTYPES = {
    "int + float scalar": lambda m: m.tensor([1, 2]) + 0.5,
    "int / int": lambda m: m.tensor([1, 2]) / m.tensor([2, 2]),
    "int * float32": lambda m: m.tensor([1, 2]) * m.tensor([0.5, 0.5]),
    "float32 * float64 scalar": lambda m: m.tensor([0.5]) * np.float64(2),
    "float32 * 0-d float64": lambda m: m.tensor([0.5]) * m.tensor(2.0, dtype=m.float64),
    "float32 + float64": lambda m: m.tensor([0.5]) + m.tensor([2.0], dtype=m.float64),
    "bool * float": lambda m: m.tensor([True, False]) * 2.0,
    "bool sum": lambda m: m.tensor([True, True]).sum(),
    "int mean as float": lambda m: m.tensor([1, 2]).to(m.float32).mean(),
    "comparison": lambda m: m.tensor([1.0, 2.0]) > 1,
    "argmax": lambda m: m.tensor([1.0, 3.0, 3.0]).argmax(),
    "max indices": lambda m: m.tensor([[1.0, 3.0, 3.0]]).max(1).indices,
    "python floats": lambda m: m.tensor([1.0]),
    "float64 array": lambda m: m.tensor(np.array([1.0])),
    "exp of int": lambda m: m.tensor([1, 2]).exp(),
}


@pytest.mark.parametrize("expression", DTYPES.values(), ids=DTYPES)
def test_dtypes_are_pytorchs(expression):
    got, wanted = expression(mg), expression(torch)
    assert str(got.dtype) == str(wanted.dtype).removeprefix("torch.")
    np.testing.assert_allclose(got.data, wanted.numpy(), rtol=1e-6)
