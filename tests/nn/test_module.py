"""Modules: their lists, state, switches and dtype."""
import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
import nn


class Block(nn.Module):
    """Parameters, buffers and children, one of them shared."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(mg.ones(3))
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.again = self.first
        self.second.weight = self.first.weight
        self.register_buffer("count", mg.zeros(1))
        self.register_buffer("scratch", mg.zeros(2), persistent=False)
        self.bias = None

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


def names(pairs):
    return [name for name, _ in pairs]


def test_lists_name_shared_members_once_and_state_dict_names_all():
    block = Block()
    assert names(block.named_parameters()) == ["scale", "first.weight", "first.bias", "second.bias"]
    assert names(block.named_parameters(recurse=False)) == ["scale"]
    assert names(block.named_parameters(prefix="net"))[1] == "net.first.weight"
    assert names(block.named_modules()) == ["", "first", "second"]
    assert names(block.named_children()) == ["first", "second"]
    assert names(block.named_buffers()) == ["count", "scratch"]
    assert list(block.state_dict()) == [
        "scale", "count", "first.weight", "first.bias", "second.weight", "second.bias", "again.weight", "again.bias"]
    block.nothing = None
    block.register_buffer("absent", None)
    assert list(block.parameters(recurse=False)) == [block.scale]
    above = nn.Sequential(block)
    assert names(above.named_buffers()) == ["0.count", "0.scratch"]
    assert names(above.named_buffers(recurse=False)) == names(above.named_parameters(recurse=False)) == []
    assert not list(above.buffers(recurse=False))
    assert names(block.named_parameters(remove_duplicate=False))[3:] == [
        "second.weight", "second.bias", "again.weight", "again.bias"]
    assert [module is block.again for module in block.modules(remove_duplicate=False)] == [False, True, False, True]
    assert names(block.named_modules(seen := {block.first})) == ["", "second"] and seen == {block, block.first, block.second}
    for plain, named in (("parameters", "named_parameters"), ("buffers", "named_buffers"), ("modules", "named_modules"),
                         ("children", "named_children")):
        assert all(a is b for a, (_, b) in zip(getattr(block, plain)(), getattr(block, named)(), strict=True))


def test_members_are_looked_up_by_name():
    block = Block()
    for kind in ("module", "parameter", "buffer"):
        get = getattr(block, f"get_{kind.replace('module', 'submodule')}")
        listed = list(getattr(block, f"named_{kind}s")(remove_duplicate=False))
        assert listed and all(get(name) is member for name, member in listed)
    block.register_module("added", nn.GELU())
    assert block.get_submodule("added") is block.added and block.get_submodule("") is block


def test_state_dict_shares_memory_and_round_trips_in_place():
    saved, loaded = Block(), Block()
    state = saved.state_dict()
    assert np.shares_memory(state["scale"].array, saved.scale.array) and not state["scale"].requires_grad
    arrays = {name: parameter.array for name, parameter in loaded.named_parameters()}
    assert loaded.load_state_dict({name: value.numpy() for name, value in state.items()}) == ([], [])
    for (name, parameter), expected in zip(loaded.named_parameters(), saved.parameters()):
        assert parameter.array is arrays[name]
        np.testing.assert_array_equal(parameter.array, expected.array)


def test_all_mismatches_are_reported_at_once_and_nothing_changes():
    layers = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    before = {name: value.numpy().copy() for name, value in layers.state_dict().items()}
    wrong = {"0.weight": np.zeros((3, 4), np.float32), "0.bias": np.zeros(3), "1.weight": np.zeros((2, 3), np.float32),
             "2.bias": np.zeros(1)}
    with pytest.raises(RuntimeError) as error:
        layers.load_state_dict(wrong)
    for words in ("Missing key(s) in state_dict: 1.bias", "Unexpected key(s) in state_dict: 2.bias",
                  "size mismatch for 0.weight: shape (3, 4) in state_dict, (3, 2) in the model",
                  "dtype mismatch for 0.bias: float64 in state_dict, float32 in the model"):
        assert words in str(error.value)
    with pytest.raises(RuntimeError, match="size mismatch"):
        layers.load_state_dict(wrong, strict=False)
    for name, value in layers.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert layers.load_state_dict({"0.bias": before["0.bias"], "x": 1}, strict=False) == (
        ["0.weight", "1.weight", "1.bias"], ["x"])
    swapped = before["0.bias"] + np.arange(3, dtype=">f4")  # as a file from another machine may have it
    layers.load_state_dict({"0.bias": swapped.astype(">f4")}, strict=False)
    np.testing.assert_array_equal(layers[0].bias.array, swapped)


def test_switches_reach_all_modules():
    block = Block()
    assert block.eval() is block and not any(module.training for module in block.modules())
    assert block.train().second.training
    block(mg.ones(2, 3)).sum().backward()
    gradient = block.scale.grad
    block.zero_grad(set_to_none=False)
    assert block.scale.grad is gradient and not gradient.array.any()
    block.zero_grad()
    assert all(parameter.grad is None for parameter in block.parameters())
    block.requires_grad_(False)
    assert not block(mg.ones(2, 3)).requires_grad
    assert all(parameter.requires_grad for parameter in block.requires_grad_().parameters())
    order, model = [], nn.Sequential(block, nn.ReLU())
    assert model.apply(lambda module: order.append(type(module).__name__)) is model
    assert order == ["Linear", "Linear", "Block", "ReLU", "Sequential"]


def test_to_converts_in_place_and_keeps_ties_and_gradients():
    block = Block()
    block.register_buffer("ids", mg.arange(3))
    block(mg.ones(2, 3)).sum().backward()
    scale, gradient = block.scale, block.scale.grad.array
    assert block.double() is block and block.scale is scale and block.second.weight is block.first.weight
    assert {tensor.dtype for tensor in block.state_dict().values()} == {mg.float64, mg.int64}
    assert scale.grad.dtype == mg.float64
    np.testing.assert_array_equal(scale.grad.array, gradient)
    block(mg.ones(2, 3, dtype=mg.float64)).sum().backward()
    np.testing.assert_allclose(scale.grad.array, 2 * gradient, rtol=1e-6, atol=1e-6)
    assert block.float().count.dtype == mg.float32 and not block.count.requires_grad


@pytest.mark.parametrize("has_gradient", [True, False])
def test_a_frozen_module_stays_frozen_when_its_dtype_changes(has_gradient):
    layer = nn.Linear(2, 2)
    if has_gradient:
        layer(mg.ones(1, 2)).sum().backward()
    layer.requires_grad_(False).double()
    assert layer.weight.dtype == mg.float64 and not layer.weight.requires_grad
    assert layer.weight.grad.dtype == mg.float64 if has_gradient else layer.weight.grad is None


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_are_independent_and_keep_ties(clone):
    block = Block()
    other = clone(block)
    assert repr(other) == repr(block) and other.second.weight is other.first.weight
    other.scale.data[...] = 7
    assert block.scale.tolist() == [1, 1, 1]


def test_assignment_and_deletion():
    block = Block()
    block.first = nn.Linear(3, 5)
    block.scale = None
    del block.second
    assert names(block.named_parameters()) == ["first.weight", "first.bias", "again.weight", "again.bias"]
    block.count = mg.ones(1)  # still a buffer
    del block.scratch
    assert names(block.named_buffers()) == ["count"]
    block.count = nn.Parameter(mg.ones(1))
    assert names(block.named_buffers()) == [] and "count" in names(block.named_parameters())


def test_repr_is_a_tree():
    layers = nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Dropout(0.5)]))
    assert repr(layers) == """Sequential(
  (0): Linear(in_features=2, out_features=3, bias=True)
  (1): ModuleList(
    (0-1): 2 x ReLU()
    (2): Dropout(p=0.5)
  )
)"""
    assert repr(nn.MultiHeadAttention(2, 1)).splitlines()[1] == "  embed_dim=2, num_heads=1, dropout=0.0"
    assert repr(nn.Parameter(mg.ones(1))).startswith("Parameter containing:\ntensor([1.]")


def test_a_parameter_can_be_frozen_from_the_start():
    assert nn.Parameter(mg.ones(1)).requires_grad and not nn.Parameter(mg.ones(1), requires_grad=False).requires_grad
