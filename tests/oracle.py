"""PyTorch as the reference: a function has the same values and gradients of both orders there and here."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")  # before minigrad: of two OpenMP libraries, the first to come serves both

import minigrad as mg  # noqa: E402
from nn import functional as F  # noqa: E402

TOLERANCE = {"float64": 1e-11, "float32": 2e-5}  # relative to the largest element


def as_minigrad(array, dtype, requires_grad=False):
    """A Tensor of the array itself, with its strides."""
    return mg.from_numpy(np.asarray(array, dtype)).requires_grad_(requires_grad)


def as_torch(array, dtype, requires_grad=False):
    return torch.tensor(np.array(array, order="C"), dtype=getattr(torch, dtype), requires_grad=requires_grad)


def everything(library, functional, grad, tensor, function, arrays, dtype):
    """The value, the gradients for a random upstream, and the gradients of a random weighted sum of these."""
    random = np.random.default_rng(0)

    def normal(shape, **options):
        return tensor(random.standard_normal(tuple(shape)), dtype, **options)

    leaves = [tensor(a, dtype, requires_grad=True) for a in arrays]
    out = function(library, functional, *leaves)
    upstream = normal(out.shape, requires_grad=True)
    first = grad(out, leaves, upstream, create_graph=True, allow_unused=True, materialize_grads=True)
    total = upstream.sum() * 0.0  # so that it depends on an input even if the gradients are constant
    for gradient in first:
        total = total + (gradient * normal(gradient.shape)).sum()
    second = grad(total, [*leaves, upstream], allow_unused=True, materialize_grads=True)
    return {"value": [out], "first order": first, "second order": second}


def assert_same(function, arrays, dtype):
    """function(library, functional, *tensors), with minigrad and with torch."""
    ours = everything(mg, F, mg.grad, as_minigrad, function, arrays, dtype)
    theirs = everything(torch, torch.nn.functional, torch.autograd.grad, as_torch, function, arrays, dtype)
    for name in theirs:
        for a, b in zip(ours[name], theirs[name], strict=True):
            got, wanted = a.detach().numpy(), b.numpy(force=True)
            if name == "second order":  # at kinks PyTorch's are NaN, ours 0
                wanted = np.where(np.isnan(wanted), 0, wanted)
            assert got.dtype == wanted.dtype and got.shape == wanted.shape, f"{name}: {got.dtype} {got.shape}"
            scale = max(1.0, np.abs(wanted).max(initial=0, where=np.isfinite(wanted)))
            np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale, err_msg=name)
