"""A check leaves what the function reaches as it was, and holds fixed what it draws from."""
import random

import numpy as np
import pytest
from pytorch_functions import leaf, torch
from tables import each

from minigrad.gradcheck import gradcheck_report

NET = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.0)).double()
OWN, PYTHONS, TORCHS = np.random.default_rng(3), random.Random(3), torch.Generator()
DRAWN = {  # from the global generators and a user's own
    "numpy": lambda x: torch.from_numpy(np.random.rand(*x.shape)), "numpy's own": lambda x: torch.from_numpy(OWN.random(x.shape)),
    "python": lambda x: torch.tensor([[random.random() for _ in row] for row in x]),
    "python's own": lambda x: torch.tensor([[PYTHONS.random() for _ in row] for row in x]),
    "torch's own": lambda x: torch.rand(x.shape, generator=TORCHS),
}


def states():
    return repr((OWN.bit_generator.state, PYTHONS.getstate(), TORCHS.get_state().tolist(), random.getstate(), np.random.get_state()[2]))


class Again(torch.autograd.Function):
    """Computed again in backward, as by a checkpoint: gradients of the net gather in its parameters."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return NET(x)

    @staticmethod
    def backward(ctx, dout):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad():
            torch.autograd.backward(NET(x), dout)
        return x.grad


def changes_modes(x):
    NET[2].eval()
    NET[0].register_forward_hook(lambda *_: None)
    NET[0].weight.register_hook(lambda gradient: gradient)
    torch.set_grad_enabled(True)
    return x * 2


def raises(x):
    NET[0](x).sum().backward()
    raise ZeroDivisionError


@pytest.mark.parametrize("fn, error", [(Again, None), (changes_modes, None), (raises, ZeroDivisionError)])
def test_what_the_function_reaches(fn, error):
    NET[0].weight.grad = before = torch.ones(4, 4, dtype=torch.float64)
    with torch.no_grad(), pytest.raises(error) if error else torch.no_grad():
        assert gradcheck_report(fn, leaf(6, 4)).verdict == "pass"
        assert not torch.is_grad_enabled()
    assert NET[0].weight.grad is before and torch.all(before == 1) and NET[0].bias.grad is None
    assert NET[2].training and not NET[0]._forward_hooks and not NET[0].weight._backward_hooks
    assert not NET[1].running_mean.any()


def test_generators():
    def is_held(name, draw):
        before = states()
        assert gradcheck_report(lambda x: x * (draw(x) < 0.5), leaf(3, 4)).verdict == "pass" and states() == before

    each(DRAWN, is_held)

    def dropout(x):
        keep = np.random.rand(*x.shape) < 0.5
        return x * keep, keep

    assert gradcheck_report((dropout, lambda dout, keep: dout * keep), leaf(3, 4).detach().numpy()).verdict == "pass"
