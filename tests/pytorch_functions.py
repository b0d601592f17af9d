"""Functions of PyTorch with a backward of their own, and leaves to call them with."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
once_differentiable = torch.autograd.function.once_differentiable


def leaf(*shape, seed=0, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype).requires_grad_()


def function(forward, backward, once=False):
    """A class with backward(dout, *inputs); with `once`, its gradients have none themselves."""

    def of_context(ctx, *douts):
        return backward(*douts, *ctx.saved_tensors)

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        backward = staticmethod(once_differentiable(of_context) if once else of_context)

    return Custom


def autograd(forward, dout, *inputs):
    """The gradients of those inputs that have one, None for the others, by PyTorch itself."""
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    with torch.enable_grad():
        out = forward(*inputs)
    found = iter(torch.autograd.grad(out, [x for x in inputs if x.requires_grad], dout, allow_unused=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)
