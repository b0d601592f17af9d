"""Containers: lists and dicts of modules and of parameters, and Sequential."""
import pytest

import minigrad as mg
import nn


def module(n):
    return nn.Linear(1, n)


def sizes(members):
    return [len(member) if isinstance(member, nn.Parameter) else member.out_features for member in members]


@pytest.mark.parametrize("container, member, name", [
    (lambda members: nn.Sequential(*members), module, ".weight"), (nn.ModuleList, module, ".weight"),
    (nn.ParameterList, lambda n: nn.Parameter(mg.zeros(n)), ""), (nn.ParameterList, mg.zeros, ""),
], ids=["Sequential", "ModuleList", "ParameterList", "ParameterList of Tensors"])
def test_indexed_containers(container, member, name):
    members = container([member(n) for n in (1, 2, 3)])
    assert sizes(members) == [1, 2, 3] and len(members) == 3 and sizes([members[-1]]) == [3]
    assert type(members[1:]) is type(members) and sizes(members[1:]) == [2, 3] and members[1:][0] is members[1]
    assert sizes(members.append(member(4))) == [1, 2, 3, 4]
    members.insert(1, own := nn.Parameter(mg.zeros(9)) if name == "" else member(9))
    members[0] = member(8)
    del members[2]
    del members[-1:]
    assert sizes(members) == [8, 9, 3] and sizes(members.extend([member(5)])) == [8, 9, 3, 5] and members[1] is own
    before = members
    members += [member(6)]
    assert members is before and sizes(members) == [8, 9, 3, 5, 6]
    if container is not nn.ParameterList:  # PyTorch's has no pop either
        members.insert(2, module(7))
        assert sizes([members.pop(2), members.pop(-1)]) == [7, 6] and sizes(members) == [8, 9, 3, 5]
    else:
        del members[4]
    names = [key for key in nn.ModuleDict({"x": members}).state_dict() if key.endswith(name)]
    assert names == [f"x.{i}{name}" for i in range(4)]
    assert all(parameter.requires_grad for parameter in members.parameters())


@pytest.mark.parametrize("container, member, names", [
    (nn.ModuleDict, module, ["a.weight", "a.bias", "c.weight", "c.bias"]), (nn.ParameterDict, mg.zeros, ["a", "c"])])
def test_dicts(container, member, names):
    parts = container({"a": member(2)})
    parts["b"] = member(3)
    parts.update([("c", member(9)), ("b", parts["b"])])
    parts.update({"c": member(4)})
    assert list(parts) == list(parts.keys()) == ["a", "b", "c"] and sizes(parts.values()) == [2, 3, 4]
    assert dict(parts.items())["c"] is parts["c"] is parts.c and "b" in parts and len(parts) == 3
    del parts["b"]
    assert list(parts.state_dict()) == [name for name, _ in parts.named_parameters()] == names
    if container is nn.ParameterDict:
        assert repr(parts) == ("ParameterDict(\n  (a): Parameter of shape (2,), float32\n"
                               "  (c): Parameter of shape (4,), float32\n)")


def test_containers_of_parameters_have_pytorchs_state():
    torch = pytest.importorskip("torch")
    for make in (lambda nn, ones: nn.ParameterList([ones(2), ones(3)]), lambda nn, ones: nn.ParameterDict({"x": ones(2)})):
        assert list(make(nn, mg.ones).state_dict()) == list(make(torch.nn, torch.ones).state_dict())


def test_sequential_calls_in_order_and_keeps_given_names():
    layers = nn.Sequential({"up": nn.Linear(2, 3), "relu": nn.ReLU(), "down": nn.Linear(3, 1)})
    x = mg.randn(4, 2)
    assert (layers(x).data == layers.down(layers.up(x).relu()).data).all()
    assert list(layers[1:].state_dict()) == ["down.weight", "down.bias"]
    del layers[1]
    assert [name for name, _ in layers.named_children()] == ["up", "down"]
    assert (nn.Sequential()(x).data == x.data).all()
