"""The same expression in PyTorch and here: values, gradients and dtypes. Skipped where PyTorch is not installed."""
import math

import numpy as np
import pytest

from oracle import F, assert_same, mg, torch

random = np.random.default_rng(5)


def normal(*shape):
    return random.standard_normal(shape)


x34, y34, x4, x234, x44 = normal(3, 4), normal(3, 4), normal(4), normal(2, 3, 4), normal(4, 4)
positive = np.abs(normal(3, 4)) + 0.3
ids = np.array([0, 2, 2])
kinks = np.array([0.0, 1.0, -0.5, 2.0, -1.5, 0.0])
inf = math.inf
bool_mask = random.random((3, 4)) > 0.4


def set_items(x, index, value):
    """A copy of x after copy[index] = value."""
    copy = x.clone()
    copy[index] = value
    return copy


# Each expression gets the library (minigrad or torch), its functional module, and the inputs as tensors.
EXPRESSIONS = {
    "one number": (lambda m, F, a: a.exp() * a.sigmoid() + (a * a).sqrt().tanh() - a.square().rsqrt() + m.norm(a), normal()),
    "arithmetic": (lambda m, F, a, b: (a + b) * a - b / (a * a + 1.0), x34, y34),
    "one factor detached": (lambda m, F, a: a * a.detach() + a.detach() * a + a.detach() ** a, positive),
    "scalars": (lambda m, F, a: 2.0 - a * 3 + (1.0 / (a * a + 1.0)) ** 2 - (-a), x34),
    "broadcast": (lambda m, F, a, b: a * b[None, :, None] + b.unsqueeze(0).unsqueeze(2), normal(2, 4, 3), x4),
    "pow tensor": (lambda m, F, a, b: a**b, positive, y34),
    "scalar pow": (lambda m, F, a: m.tensor(2.0, dtype=a.dtype) ** a, x34),  # PyTorch takes the log of a bare 2.0 in float32
    "exp log sqrt": (lambda m, F, a: (a.exp() + 1.0).log().sqrt(), x34),
    "rsqrt abs": (lambda m, F, a: (a.abs() + 0.1).rsqrt(), x34),
    "tanh sigmoid erf": (lambda m, F, a: a.tanh() + a.sigmoid() * a.erf(), x34),
    "expm1 log1p": (lambda m, F, a: m.expm1(a).log1p() + a.square().log1p(), x34),
    "sin cos": (lambda m, F, a: m.sin(a) * a.cos(), x34),
    "reciprocal": (lambda m, F, a: a.reciprocal() + m.rsqrt(a) * a.sqrt(), positive),
    "relu": (lambda m, F, a: F.relu(a), x34),
    "activations": (lambda m, F, a: F.silu(a) + F.sigmoid(a) * F.tanh(a) + F.logsigmoid(a), x34),
    "leaky_relu": (lambda m, F, a: F.leaky_relu(a) + F.leaky_relu(a, 0.3), kinks),
    "elu selu celu": (lambda m, F, a: F.elu(a) + F.elu(a * 2, 0.3) * F.selu(a) + F.celu(a) - F.celu(a, 0.5), 3 * x34),
    "hard functions": (
        lambda m, F, a: F.relu6(a) + F.hardtanh(a) * 2 + F.hardtanh(a, -0.7, 1.2) - F.hardswish(a), 4 * x34),
    "mish softsign tanhshrink": (lambda m, F, a: F.mish(a) + F.softsign(a) * F.tanhshrink(a), 9 * x34),
    "softmin": (lambda m, F, a: F.softmin(a, 1), x34),
    "activations far out": (lambda m, F, a: F.elu(a) + F.selu(a) + F.celu(a, 0.5) + F.mish(a) + F.softsign(a),
                            np.array([-500.0, -90.0, 90.0, 500.0])),
    "softplus": (lambda m, F, a: F.softplus(a * 9) + F.softplus(a, beta=2, threshold=1.0) + F.softplus(a, 0.5), x34),
    "steps": (lambda m, F, a: a.floor() + a.ceil() * a.round() + a.trunc() * a + a.sign(), 3 * x34),
    "remainder": (lambda m, F, a, b: a % b + m.remainder(a, 0.7) + m.fmod(a, b) * 2.0, 3 * x34, y34),
    "clamp": (lambda m, F, a: a.clamp(-0.5, 1.0) + m.clamp(a, min=0.0) + a.clamp(max=1.0) * 2, kinks),
    "clamp tensors": (lambda m, F, a, lo, hi: m.clamp(a, lo, hi), x34, x4 - 1, x4 + 0.1),
    "pow of negatives": (lambda m, F, a: a**2 + a**3.0 + a**-1 + a**1 + a**0, x34),
    "pow at zero": (lambda m, F, a: a**2 + a**3 + a**1 + a**0, kinks),
    "pow zero base": (lambda m, F, b: 0.0**b, positive),
    "pow tensor at zero": (lambda m, F, a: a ** m.tensor([2.0, 3.0, 1.0, 4.0, 0.0, 2.0]).to(a.dtype), kinks),
    "maximum scalars": (lambda m, F, a: m.maximum(a, m.tensor(0.5).to(a.dtype)), x34),
    "gelu": (lambda m, F, a: F.gelu(a) + F.gelu(a, approximate="tanh"), x34),
    "maximum with ties": (lambda m, F, a, b: m.maximum(a, b) + m.minimum(a, b) * 2.0, np.array([1.0, 2, 3]), np.array([1.0, 1, 4])),
    "where": (lambda m, F, a, b: m.where(a > 0, a, b), x34, y34),
    "where scalar": (lambda m, F, a: m.where(a > 0, a, 2.0) + m.where(a < 0, -1.0, a) + a.where(a > 1, a * a), x34),
    "where broadcast": (lambda m, F, a, b: m.where(b.unsqueeze(1) > 0, a, b.unsqueeze(1)), x4, y34[0]),
    "masked_fill": (lambda m, F, a: a.masked_fill(a > 0.5, -1.0), x34),
    "sum dims": (lambda m, F, a: a.sum((0, 2)) * a.sum(dim=(0, 2), keepdim=True).mean(), x234),
    "mean": (lambda m, F, a: a.mean(-1, keepdim=True) * a.mean(), x234),
    "var std": (lambda m, F, a: a.var(1) + a.std(1, keepdim=True).sum(1) + a.var(), x234),
    "var options": (lambda m, F, a: m.var(a, dim=(0, 2), correction=0) + a.var(2, unbiased=False).sum() + m.std(a) * a.std((0, 2)), x234),
    "std of equals": (lambda m, F, a: a.std(1), np.array([[2.0, 2.0], [1.0, 4.0]])),
    "prod": (lambda m, F, a: a.prod() + a.prod(1).sum(1) * a.prod(-1, keepdim=True).sum(), x234),
    "prod with zeros": (lambda m, F, a: a.prod(1), np.array([[2.0, 0.0, 3.0], [0.0, 2.0, 0.0], [1.0, 2.0, 3.0]])),
    "logsumexp": (lambda m, F, a: a.logsumexp(1) + m.logsumexp(a, (0, 2), keepdim=True).sum(), x234),
    "norm": (lambda m, F, a: a.norm() * m.norm(a, dim=1) + a.norm(2, (0, 2), keepdim=True).sum(), x234),
    "norms": (lambda m, F, a: a.norm(1, 1) + a.norm(inf, 1) + a.norm(-inf, 1) + a.norm(3, 1) + a.norm(1.5, 1) + a.norm(0, 1), x34),
    "norm at zero": (lambda m, F, a: a.norm(3, 1) + a.norm(1, 1) * a.norm(2, 1), np.array([[0.0, 0.0], [3.0, -4.0]])),
    "normalize": (lambda m, F, a: F.normalize(a) + F.normalize(a, p=1.0, dim=0), x34),
    "cosine_similarity": (lambda m, F, a, b: F.cosine_similarity(a, b) + F.cosine_similarity(a, b[:1], dim=-1).sum(), x34, y34),
    "cosine_similarity broadcast": (
        lambda m, F, a, b: F.cosine_similarity(a, b, dim=0) + F.cosine_similarity(b, a, 2).sum(), x234, x4),
    "cumsum": (lambda m, F, a: a.cumsum(1) + m.cumsum(a, dim=-1), x234),
    "max()": (lambda m, F, a: a.max() * a.min(), np.array([[1.0, 3.0], [3.0, 0.0]])),
    "max(dim)": (lambda m, F, a: a.max(1).values - a.min(0).values.sum(), np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 0.0]])),
    "amax": (lambda m, F, a: a.amax(1) + a.amin(1), np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 0.0]])),
    "reshape": (lambda m, F, a: a.view(4, -1).flatten() * a.reshape(24), x234),
    "squeeze": (lambda m, F, a: a.unsqueeze(1).unsqueeze(-1).squeeze() + a.unsqueeze(-1).squeeze(-1), x34),
    "unflatten": (lambda m, F, a: a.unflatten(2, (2, -1)).flatten(0, 2).unflatten(0, (4, -1)), x234),
    "squeeze dims": (lambda m, F, a: a.squeeze((0, 2)) + a.squeeze(0).squeeze(1), normal(1, 3, 1)),
    "movedim": (lambda m, F, a: a.movedim(0, -1) + m.movedim(a, (0, 2), (2, 1)).transpose(0, 1), normal(3, 3, 3)),
    "repeat tile": (lambda m, F, a: a.repeat(2, 1, 3) + a.tile(2, 1, 3), x34),
    "flip roll": (lambda m, F, a: a.flip(0) * m.flip(a, (0, 2)) + a.roll(1, 2) + m.roll(a, (1, -2), (0, 1)) + a.roll(5), x234),
    "transpose permute": (lambda m, F, a: a.transpose(0, 2).permute(1, 0, 2) * 2.0, x234),
    "T mT": (lambda m, F, a: a.T @ a + a.mT @ a, x34),
    "expand": (lambda m, F, a: a.unsqueeze(0).expand(5, -1, 4), x34),
    "expand_as": (lambda m, F, a, b: a.unsqueeze(1).expand_as(b) * b, normal(3), x34),
    "unbind select": (lambda m, F, a: a.unbind(1)[2] * a.select(1, 0) + a.narrow(1, 1, 2).sum(1), x234),
    "pad": (lambda m, F, a: F.pad(a, (1, 2)) * F.pad(a, (2, 1), value=3.0), x234),
    "pad axes": (lambda m, F, a: F.pad(a, (1, -1, 0, 2, -1, 1), "constant", -2.0), x234),
    "diagonal": (lambda m, F, a: a.diagonal() + m.diagonal(a, 1, 0, 2).sum() + a.diagonal(-1, 1, 2).sum(), x234),
    "diag": (lambda m, F, a, b: m.diag(a, 1) + m.diag(b).sum() + b.diag(-1).diag(2), x4, normal(4, 4)),
    "cat stack": (lambda m, F, a, b: m.cat([a, b, a], dim=1).sum(1) * m.stack([a, b], dim=1).sum(2).sum(1), x34, y34),
    "split chunk": (lambda m, F, a: a.split([1, 3], dim=2)[1] * a.chunk(2, dim=2)[0].sum(2, keepdim=True), x234),
    "split size": (lambda m, F, a: a.split(3, dim=1)[1] * 2.0, x34),
    "tril triu": (lambda m, F, a: a.tril() + a.triu(1) * 2.0, x44),
    "index": (lambda m, F, a: a[1:, ::2] * a[0, 1] + a[-1, None, :2], x34),
    "index repeated": (lambda m, F, a: a[m.tensor([0, 2, 2])] * 2.0, x34),
    "index pairs": (lambda m, F, a: a[m.tensor([0, 2, 2]), m.tensor([1, 1, 1])], x34),
    "index boolean": (lambda m, F, a: a[a > 0], x34),
    "index after integer": (lambda m, F, a: a[0, :, [1, 2]] + a[1][:, m.tensor([0, 3])], x234),
    "index integer apart": (lambda m, F, a: a[:, m.tensor([0, 2]), None, 1] * 2.0, x234),
    "index mixed": (lambda m, F, a: a[..., m.tensor([[0, 1], [3, 3]])][1, ::2] * a[m.tensor(1), 0, 0], x234),
    "set items": (lambda m, F, a: set_items(a, (slice(None), 1, slice(1, 3)), a[:, 0, :2]), x234),
    "set items after integer": (lambda m, F, a: set_items(a, (0, slice(None), [1, 2]), a[1, :, 2:]), x234),
    "set items integer apart": (lambda m, F, a: set_items(a, (slice(None), m.tensor([0, 2]), 1), a[0, :2, :2]), x234),
    "set items where": (lambda m, F, a: set_items(a, a > 0, a[0, 0, 0] * 2.0), x234),
    "index numpy integer": (lambda m, F, a: a[np.int64(0), :, [1, 2]] * a[0, :, (1, 3)], x234),
    "set items with leading axes": (lambda m, F, a: set_items(a, 0, a[1:] * 2.0), x234),
    "sigmoid far out": (lambda m, F, a: (a * 30.0).sigmoid() + F.silu(a * 25.0) + F.logsigmoid(a * 30.0), x34),
    "softmax of a number": (lambda m, F, a: a.softmax(0) * 2.0 + a.log_softmax(-1) + a, normal()),
    "remainder": (lambda m, F, a, b: a % (b.abs() + 0.1) + a.detach() // (b.detach().abs() + 0.1), x34, y34),
    "tril of booleans": (lambda m, F, a: m.where((a > 0).tril() | (a < 0).triu(1), a, a * 2.0), x34),
    "index mask and slice": (lambda m, F, a: a[:, m.tensor([True, False, True]), 1:], x234),
    "gather": (lambda m, F, a: a.gather(1, m.tensor([[[0, 2, 2]], [[1, 1, 0]]])), x234),
    "scatter_add": (lambda m, F, a, b: a.scatter_add(1, m.tensor([[0, 2, 2], [1, 1, 0]]), b), x34, normal(2, 3)),
    "index_select": (lambda m, F, a: a.index_select(2, m.tensor([3, 0, 3])), x234),
    "take_along_dim": (lambda m, F, a: m.take_along_dim(a, m.tensor([[[0], [2]]]), 1) + m.take_along_dim(a, m.tensor([5])), x234),
    "masked_select": (lambda m, F, a: a.masked_select(a > 0) * 2.0, x34),
    "sort": (lambda m, F, a: a.sort(1).values * a.sort(descending=True, dim=1).values + m.argsort(a, 1) * a, x34),
    "topk": (lambda m, F, a: a.topk(2).values + m.topk(a, 2, largest=False).values, x34),
    "topk dim": (lambda m, F, a: a.topk(2, 0)[0] * a.topk(2, 0)[1], x34),
    "mm outer dot": (lambda m, F, a, b, c: m.mm(a, b) * m.dot(c, c) + m.outer(c[:3], c) + m.mv(a, c).unsqueeze(1), x34, x44, x4),
    "bmm": (lambda m, F, a, b: m.bmm(a, b), x234, normal(2, 4, 5)),
    "einsum products": (lambda m, F, a, b: m.einsum("ij,jk->ik", a, b) + m.einsum("ij,jk", a, b), x34, x44),
    "einsum sums": (lambda m, F, a, b: m.einsum("ij,kl->jk", a, b) + m.einsum("abc->bc", [a[None]]).sum(), x34, x44),
    "einsum diagonals": (lambda m, F, a: m.einsum("ii->i", a) + m.einsum("ii", a) + m.einsum("ij->ji", a)[0], x44),
    "einsum ellipsis": (lambda m, F, a, b: m.einsum("...ij,...j->...i", a, b) + m.einsum("b...j,j->b...", a, b[0]), x234, normal(2, 4)),
    "einsum three": (lambda m, F, a, b, c: m.einsum("bij,jk,b->kb", a, b, c), x234, x44, normal(2)),
    "einsum attention": (lambda m, F, q, k: m.einsum("bthd,bshd->bhts", q, k), normal(2, 3, 2, 4), normal(2, 5, 2, 4)),
    "einsum repeated in two": (lambda m, F, a, b: m.einsum("iij,jk,k->k", a, b, b[0]), normal(3, 3, 4), x44),
    "matmul 2d": (lambda m, F, a, b: a @ b, x34, x44),
    "matmul vectors": (lambda m, F, a, b: (a @ b) * (b @ b), x34, x4),
    "matmul batched": (lambda m, F, a, b: a @ b, x234, normal(5, 1, 4, 2)),
    "matmul vector batch": (lambda m, F, a, b: b @ a, x234, normal(3)),
    "linear": (lambda m, F, a, w, b: F.linear(a, w, b), x234, normal(5, 4), normal(5)),
    "softmax": (lambda m, F, a: F.softmax(a, dim=1) + a.softmax(-1) + F.log_softmax(a, dim=0), x234),
    "layer_norm": (lambda m, F, a, w, b: F.layer_norm(a, (4,), w, b, 1e-3), x234, x4, normal(4)),
    "layer_norm two axes": (lambda m, F, a, w, b: F.layer_norm(a, (3, 4), w, b), x234, x34, y34),
    "rms_norm": (lambda m, F, a, w: F.rms_norm(a, (4,), w, 1e-3) + F.rms_norm(a, (3, 4)), x234, x4),
    "embedding": (lambda m, F, w: F.embedding(m.tensor([[0, 2], [2, 2]]), w), x34),
    "embedding padding_idx": (lambda m, F, w: F.embedding(m.tensor([[0, 2], [2, 1]]), w, 2)
                              + F.embedding(m.tensor([0, 2]), w, padding_idx=-2), x34),
    "cross_entropy": (lambda m, F, a: F.cross_entropy(a, m.tensor([0, 3, -100])), x34),
    "cross_entropy none": (lambda m, F, a: F.cross_entropy(a, m.tensor([0, 3, -100]), reduction="none"), x34),
    "cross_entropy classes in the middle": (lambda m, F, a: F.cross_entropy(a, m.tensor([[0, 1, 2, 2], [1, 0, 0, 2]])), x234),
    "cross_entropy vector": (lambda m, F, a: F.cross_entropy(a, m.tensor(2)), x4),
    "cross_entropy smoothed": (lambda m, F, a: F.cross_entropy(a, m.tensor([0, 3, -100]), label_smoothing=0.2), x34),
    "cross_entropy weights": (lambda m, F, a, w: F.cross_entropy(a, m.tensor([0, 3, 1]), w.detach().abs(), ignore_index=1, label_smoothing=0.1), x34, x4),
    "cross_entropy weights in the middle": (
        lambda m, F, a, w: F.cross_entropy(a, m.tensor([[0, 1, 2, 2], [1, 0, 0, -100]]), w.detach().exp(), reduction="none"), x234, normal(3)),
    "cross_entropy smoothed sum": (
        lambda m, F, a: F.cross_entropy(a, m.tensor([[0, 1, 2, 2], [1, 0, 0, -100]]), reduction="sum", label_smoothing=0.3), x234),
    "cross_entropy distributions": (
        lambda m, F, a, t: F.cross_entropy(a, t.softmax(1)) + F.cross_entropy(a, t.softmax(1), label_smoothing=0.1, reduction="sum"), x234, normal(2, 3, 4)),
    "cross_entropy distributions weights": (
        lambda m, F, a, t, w: F.cross_entropy(a, t.softmax(1), w.detach().exp(), reduction="none"), x234, normal(2, 3, 4), normal(3)),
    "nll_loss": (lambda m, F, a: F.nll_loss(a.log_softmax(1), m.tensor([0, 3, -100])), x34),
    "nll_loss weights": (lambda m, F, a, w: F.nll_loss(a, m.tensor([0, 3, 1]), w.detach(), reduction="sum") + F.nll_loss(a, m.tensor([0, 3, 1]), w.detach().exp()), x34, x4),
    "nll_loss none": (lambda m, F, a: F.nll_loss(a, m.tensor([[0, 1, 2, 2], [1, 0, 0, -100]]), reduction="none"), x234),
    "mse_loss": (lambda m, F, a, b: F.mse_loss(a, b) + F.mse_loss(a, b, reduction="sum") * F.mse_loss(a, b, reduction="none"), x34, y34),
    "l1_loss": (lambda m, F, a, b: F.l1_loss(a, b) + F.l1_loss(a, b, reduction="none"), x34, y34),
    "huber_loss": (lambda m, F, a, b: F.huber_loss(a, b, delta=0.7) + F.huber_loss(a, b, reduction="none"), x34, y34),
    "smooth_l1_loss": (lambda m, F, a, b: F.smooth_l1_loss(a, b, beta=0.7) + F.smooth_l1_loss(a, b, reduction="sum"), x34, y34),
    "bce_with_logits": (lambda m, F, a, t: F.binary_cross_entropy_with_logits(a, t.sigmoid()), 30 * x34, y34),
    "bce_with_logits weights": (lambda m, F, a, t, w: F.binary_cross_entropy_with_logits(
        a, t.sigmoid(), w.detach().exp(), reduction="none", pos_weight=w.detach().abs()), x34, y34, x4),
    "bce": (lambda m, F, a, t: F.binary_cross_entropy(a.sigmoid(), t.detach().sigmoid())
            + F.binary_cross_entropy(a.sigmoid(), t.detach().sigmoid(), reduction="sum"), x34, y34),
    "bce weights": (lambda m, F, a, w: F.binary_cross_entropy(
        a.sigmoid(), (a.detach() > 0).to(a.dtype), w.detach().exp(), reduction="none"), x34, x4),
    "kl_div": (lambda m, F, a, t: F.kl_div(a.log_softmax(1), t.softmax(1), reduction="batchmean"), x34, y34),
    "kl_div log": (lambda m, F, a, t: F.kl_div(a, t, reduction="sum", log_target=True) + F.kl_div(a, t.exp(), reduction="none"), x34, y34),
    "attention": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v), normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 6)),
    "attention causal": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2),
                         normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4)),
    "attention bool mask": (lambda m, F, q, k, v: F.scaled_dot_product_attention(q, k, v, m.tensor(bool_mask)),
                            x34, x44, normal(4, 4)),
    "attention learned mask": (lambda m, F, q, k, v, b: F.scaled_dot_product_attention(q, k, v, b), x34, x44, normal(4, 4), y34),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_values_and_gradients_are_pytorchs(expression, dtype):
    function, *arrays = expression
    assert_same(function, arrays, dtype)


def special(library):
    return library.tensor([math.inf, math.nan, 1.0, -math.inf])


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
    "int // int": lambda m: m.tensor([7, -7]) // 2,
    "float // int": lambda m: m.tensor([7.5, -7.5]) // m.tensor(2),
    "int % int": lambda m: m.tensor([7, -7]) % m.tensor([3, 3]),
    "round half": lambda m: m.round(m.tensor([0.5, 1.5, -0.5, 2.5])),
    "int floor": lambda m: m.tensor([1, 2]).floor(),
    "int clamp": lambda m: m.tensor([1, 2, 3]).clamp(max=2),
    "int clamp by float": lambda m: m.tensor([1, 2, 3]).clamp(1.5),
    "int prod": lambda m: m.tensor([1, 2, 3]).prod(),
    "bool cumsum": lambda m: m.tensor([True, False, True]).cumsum(0),
    "any all": lambda m: m.tensor([[True, False], [True, True]]).all(1) ^ m.any(m.tensor([[True, False], [False, False]]), 1),
    "count_nonzero": lambda m: m.count_nonzero(m.tensor([[1, 0, 2], [0, 0, 3]]), dim=1),
    "isnan isinf isfinite": lambda m: m.isnan(special(m)) | m.isinf(special(m)).logical_xor(m.isfinite(special(m))),
    "logical": lambda m: m.tensor([1, 0, 2]).logical_and(m.tensor([1, 1, 0])).logical_or(m.logical_not(m.tensor([0, 1, 1]))),
    "isclose": lambda m: m.isclose(m.tensor([1.0, 2.0, math.nan]), m.tensor([1.0 + 1e-7, 2.1, math.nan]), equal_nan=True),
    "eq method": lambda m: m.eq(m.tensor([1, 2]), 2),
    "sort indices": lambda m: m.tensor([3.0, 1.0, 3.0, math.nan, 2.0]).sort(stable=True).indices,
    "sort descending indices": lambda m: m.tensor([3.0, 1.0, 3.0, math.nan, 2.0]).sort(descending=True, stable=True).indices,
    "topk of ints": lambda m: m.tensor([3, 1, 2]).topk(2).values,
    "argmin": lambda m: m.tensor([[3.0, 1.0, 1.0], [0.0, 2.0, 0.0]]).argmin(1, keepdim=True),
    "int matmul": lambda m: m.tensor([[1, 2]]) @ m.tensor([[3], [4]]),
    "pow of ints": lambda m: m.tensor([1, 2, 3]) ** 2,
    "int ** float": lambda m: m.tensor([1, 2, 3]) ** 0.5,
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


ERRORS = {
    "broadcast": lambda m, F: m.zeros(2, 3) + m.zeros(2),
    "dim": lambda m, F: m.zeros(2, 3).sum(2),
    "dims twice": lambda m, F: m.zeros(2, 3).sum((0, -2)),
    "reshape": lambda m, F: m.zeros(2, 3).reshape(4, 2),
    "unflatten": lambda m, F: m.zeros(2, 6).unflatten(1, (4, 2)),
    "expand": lambda m, F: m.zeros(2, 3).expand(4, 3),
    "permute": lambda m, F: m.zeros(2, 3).permute(0, 0),
    "movedim": lambda m, F: m.zeros(2, 3).movedim((0, 0), (0, 1)),
    "repeat": lambda m, F: m.zeros(2, 3).repeat(2),
    "split": lambda m, F: m.zeros(5).split([2, 2]),
    "narrow": lambda m, F: m.zeros(5).narrow(0, 3, 3),
    "tril": lambda m, F: m.zeros(5).tril(),
    "t": lambda m, F: m.zeros(2, 3, 4).t(),
    "cat": lambda m, F: m.cat([m.zeros(2, 3), m.zeros(2, 4)]),
    "pad": lambda m, F: F.pad(m.zeros(2), (1, 1, 1, 1)),
    "pad negative": lambda m, F: F.pad(m.zeros(2), (-2, -2)),
    "index": lambda m, F: m.zeros(2, 3)[2],
    "index array": lambda m, F: m.zeros(2, 3)[m.tensor([0, 2])],
    "gather ids": lambda m, F: m.zeros(2, 3).gather(1, m.tensor([[3]])),
    "gather negative": lambda m, F: m.zeros(2, 3).gather(1, m.tensor([[-1]])),
    "gather shape": lambda m, F: m.zeros(2, 3).gather(1, m.zeros(3, 1).long()),
    "gather axes": lambda m, F: m.zeros(2, 3).gather(1, m.tensor([0])),
    "scatter_add": lambda m, F: m.zeros(2, 3).scatter_add(1, m.tensor([[0, 1]]), m.zeros(1, 1)),
    "topk": lambda m, F: m.zeros(3).topk(4),
    "matmul": lambda m, F: m.zeros(2, 3) @ m.zeros(2, 3),
    "mm": lambda m, F: m.mm(m.zeros(1, 2, 3), m.zeros(3, 2)),
    "bmm": lambda m, F: m.bmm(m.zeros(1, 2, 3), m.zeros(2, 3, 2)),
    "dot": lambda m, F: m.dot(m.zeros(2), m.zeros(3)),
    "outer": lambda m, F: m.outer(m.zeros(2, 2), m.zeros(3)),
    "einsum lengths": lambda m, F: m.einsum("ij,jk->ik", m.zeros(2, 3), m.zeros(4, 2)),
    "einsum axes": lambda m, F: m.einsum("ijk->i", m.zeros(2, 3)),
    "einsum operands": lambda m, F: m.einsum("ij,jk->ik", m.zeros(2, 3)),
    "einsum output": lambda m, F: m.einsum("ij->k", m.zeros(2, 3)),
    "einsum diagonal": lambda m, F: m.einsum("ii->i", m.zeros(2, 3)),
    "clamp": lambda m, F: m.zeros(2).clamp(),
    "integers to negative powers": lambda m, F: m.tensor([2]) ** -1,
    "gelu": lambda m, F: F.gelu(m.zeros(2), approximate="erf"),
    "layer_norm": lambda m, F: F.layer_norm(m.zeros(2, 3), (4,)),
    "rms_norm": lambda m, F: F.rms_norm(m.zeros(2, 3), (3,), m.ones(2)),
    "one_hot": lambda m, F: F.one_hot(m.tensor([3]), 3),
    "targets": lambda m, F: F.cross_entropy(m.zeros(2, 3), m.tensor([0, 3])),
    "targets' shape": lambda m, F: F.nll_loss(m.zeros(2, 3), m.tensor([0, 1, 2])),
    "class weights": lambda m, F: F.cross_entropy(m.zeros(2, 3), m.tensor([0, 1]), m.ones(2)),
    "smoothing": lambda m, F: F.cross_entropy(m.zeros(2, 3), m.tensor([0, 1]), label_smoothing=1.5),
    "reduction": lambda m, F: F.mse_loss(m.zeros(2), m.zeros(2), reduction="total"),
    "bce range": lambda m, F: F.binary_cross_entropy(m.tensor([0.5, 1.5]), m.zeros(2)),
    "bce with too few targets": lambda m, F: F.binary_cross_entropy(m.zeros(2, 3), m.zeros(3)),
    "padding_idx": lambda m, F: F.embedding(m.tensor([0]), m.zeros(2, 3), padding_idx=2),
    "padding_idx negative": lambda m, F: F.embedding(m.tensor([0]), m.zeros(2, 3), padding_idx=-3),
    "celu": lambda m, F: F.celu(m.zeros(2), 0.0),
    "bce shapes": lambda m, F: F.binary_cross_entropy_with_logits(m.zeros(2, 3), m.zeros(3)),
}


@pytest.mark.parametrize("expression", ERRORS.values(), ids=ERRORS)
def test_what_pytorch_refuses_is_refused(expression):
    with pytest.raises((ValueError, IndexError, TypeError)):
        expression(mg, F)
    with pytest.raises((RuntimeError, ValueError, IndexError, AssertionError)):
        expression(torch, torch.nn.functional)
