"""Hooks of modules."""
import numpy as np
import pytest

import minigrad as mg
import nn


@pytest.fixture
def layer():
    mg.manual_seed(0)
    return nn.Linear(3, 2)


class Split(nn.Module):
    def forward(self, x, factor=1.0):
        return x * factor, x + 1.0


def test_forward_hooks_see_and_replace_until_they_are_removed(layer):
    seen, x = [], mg.ones(1, 3)
    plain = layer(x * 2.0).array
    handles = [
        layer.register_forward_pre_hook(lambda module, args: args[0] * 2.0),
        layer.register_forward_hook(lambda module, args, out: seen.append((module, args[0].tolist(), out.shape))),
        layer.register_forward_hook(lambda module, args, out: out + 1.0),
    ]
    np.testing.assert_allclose(layer(x).array, plain + 1.0, rtol=1e-6)
    assert seen == [(layer, [[2.0, 2.0, 2.0]], (1, 2))] and layer.has_hooks
    for handle in handles:
        handle.remove()
        handle.remove()
    np.testing.assert_allclose(layer(x * 2.0).array, plain)
    assert len(seen) == 1 and not layer.has_hooks


def test_forward_hooks_with_keyword_arguments():
    seen, module = [], Split()
    module.register_forward_hook(lambda module, args, kwargs, out: seen.append((len(args), kwargs, len(out))) or (args[0],),
                                 with_kwargs=True)
    x = mg.ones(2)
    assert module(x, factor=3.0) == (x,) and seen == [(1, {"factor": 3.0}, 2)]


def test_backward_hooks_see_both_gradients_and_replace_those_of_the_inputs(layer):
    seen = []
    layer.register_full_backward_hook(lambda module, dx, dout: seen.append((dx[0], dout[0])) or (dx[0] * 10.0,))
    x = mg.ones(1, 3, requires_grad=True)
    upstream = np.array([[1.0, -2.0]], np.float32)
    layer(x).backward(mg.tensor(upstream))
    expected = upstream @ layer.weight.array
    for found, wanted in ((seen[0][1], upstream), (seen[0][0], expected), (x.grad, 10 * expected), (layer.bias.grad, upstream[0])):
        np.testing.assert_allclose(found.array, wanted, rtol=1e-6)


def test_hooks_of_a_module_with_keywords_and_several_outputs():
    seen, module, x = [], Split(), mg.tensor([2.0], requires_grad=True)
    module.register_full_backward_hook(lambda module, dx, dout: seen.append([g.tolist() for g in dout]) or dx[0] * 10.0)
    double, more = module(x, factor=2.0)
    assert (double.tolist(), more.tolist()) == ([4.0], [3.0])
    (double * 3.0 + more * 5.0).sum().backward()
    assert seen == [[[3.0], [5.0]]] and x.grad.tolist() == [10 * (3.0 * 2.0 + 5.0)]


def test_hooks_of_parts_are_called_in_the_whole(layer):
    order = []
    model = nn.Sequential(layer, nn.ReLU())
    model[0].register_forward_hook(lambda *_: order.append("inner"))
    model.register_forward_hook(lambda *_: order.append("outer"))
    model(mg.ones(1, 3))
    assert order == ["inner", "outer"]


def test_a_backward_hook_gets_None_for_an_argument_without_a_gradient(layer):
    seen = []
    layer.register_full_backward_hook(lambda module, dx, dout: seen.append((dx, dout[0].tolist())))
    layer(mg.ones(1, 3)).backward(mg.ones(1, 2))
    assert seen == [((None,), [[1.0, 1.0]])]


def test_a_backward_hook_that_returns_too_few_gradients_is_named(layer):
    layer.register_full_backward_hook(lambda module, dx, dout: ())
    with pytest.raises(RuntimeError, match="a backward hook of Linear returned 0 gradients for 1 arguments"):
        layer(mg.ones(1, 3, requires_grad=True)).backward(mg.ones(1, 2))


class Keeps(nn.Module):
    """Keeps a tensor of the middle, and returns a nest."""

    def __init__(self, returned):
        super().__init__()
        self.returned = returned

    def forward(self, x):
        self.kept = x * 2.0
        return self.returned(self.kept * 3.0, x.detach(), self.kept * 5.0)


NESTS = {
    "a tuple": (lambda a, b, c: (a, b, c), lambda out: (out[0], out[2])), "a list": (lambda a, b, c: [a, b, c], lambda out: (out[0], out[2])),
    "a dict": (lambda a, b, c: {"a": a, "b": b, "c": c}, lambda out: (out["a"], out["c"])),
    "a nest": (lambda a, b, c: {"a": [a, (b, "name")], "c": c}, lambda out: (out["a"][0], out["c"])),
}


@pytest.mark.parametrize("returned, picked", NESTS.values(), ids=NESTS)
def test_hooks_of_a_module_that_returns_a_nest(returned, picked):
    """A hook gets a gradient for each item, None where there is none."""
    seen, module, x = [], Keeps(returned), mg.tensor([1.0, 2.0], requires_grad=True)
    module.register_full_backward_hook(lambda module, dx, dout: seen.append([g if g is None else g.tolist() for g in dout]))
    out = module(x)
    assert type(out) is type(returned(x, x, x))
    a, c = picked(out)
    (a * mg.tensor([1.0, 7.0]) + c).backward(mg.ones(2))
    ((first, *others, last),) = seen
    assert (first, set(others), last) == ([1.0, 7.0], {None}, [1.0, 1.0]) and x.grad.tolist() == [16.0, 52.0]


def test_each_backward_has_its_own_gradients_in_a_hook():
    """A gradient that comes from inside the module, not through its output, is not the hook's."""
    seen, module, x = [], Keeps(lambda a, *_: a), mg.tensor([1.0], requires_grad=True)
    module.register_full_backward_hook(lambda module, dx, dout: seen.append((dx[0].item(), dout[0].item())) or dx[0] * 10.0)
    out = module(x)
    for backward, expected in ((lambda: (out * 7.0).backward(retain_graph=True), 420.0), (lambda: module.kept.backward(retain_graph=True), 2.0),
                               (lambda: out.backward(retain_graph=True), 60.0), (lambda: (module.kept * 3.0).backward(), 6.0)):
        x.grad = None
        backward()
        assert x.grad.item() == expected
    assert seen == [(42.0, 7.0), (6.0, 1.0)]
