"""Functions of PyTorch with a backward of their own, and leaves to call them with."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")


def leaf(*shape, seed=0, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype).requires_grad_()


def function(forward, backward):
    """A class with backward(dout, *inputs)."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, *douts):
            return backward(*douts, *ctx.saved_tensors)

    return Custom


def autograd(forward, dout, *inputs):
    """The gradients of those inputs that have one, None for the others, by PyTorch itself."""
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    with torch.enable_grad():
        out = forward(*inputs)
    found = iter(torch.autograd.grad(out, [x for x in inputs if x.requires_grad], dout, allow_unused=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)
