"""Containers: lists and dicts of modules, and Sequential."""
import pytest

import minigrad as mg
import nn


def module(n):
    return nn.Linear(1, n)


def sizes(members):
    return [member.out_features for member in members]


@pytest.mark.parametrize("container", [lambda members: nn.Sequential(*members), nn.ModuleList], ids=["Sequential", "ModuleList"])
def test_indexed_containers(container):
    members = container([module(n) for n in (1, 2, 3)])
    assert sizes(members) == [1, 2, 3] and len(members) == 3 and sizes([members[-1]]) == [3]
    assert type(members[1:]) is type(members) and sizes(members[1:]) == [2, 3] and members[1:][0] is members[1]
    assert sizes(members.append(module(4))) == [1, 2, 3, 4]
    members.insert(1, own := module(9))
    members[0] = module(8)
    del members[2]
    del members[-1:]
    assert sizes(members) == [8, 9, 3] and sizes(members.extend([module(5)])) == [8, 9, 3, 5] and members[1] is own
    before = members
    members += [module(6)]
    assert members is before and sizes(members) == [8, 9, 3, 5, 6]
    members.insert(2, module(7))
    assert sizes([members.pop(2), members.pop(-1)]) == [7, 6] and sizes(members) == [8, 9, 3, 5]
    names = [key for key in nn.ModuleDict({"x": members}).state_dict() if key.endswith(".weight")]
    assert names == [f"x.{i}.weight" for i in range(4)]


def test_dicts():
    parts = nn.ModuleDict({"a": module(2)})
    parts["b"] = module(3)
    parts.update([("c", module(9)), ("b", parts["b"])])
    parts.update({"c": module(4)})
    assert list(parts) == list(parts.keys()) == ["a", "b", "c"] and sizes(parts.values()) == [2, 3, 4]
    assert dict(parts.items())["c"] is parts["c"] is parts.c and "b" in parts and len(parts) == 3
    del parts["b"]
    assert list(parts.state_dict()) == [name for name, _ in parts.named_parameters()] == ["a.weight", "a.bias", "c.weight", "c.bias"]


def test_sequential_calls_in_order_and_keeps_given_names():
    layers = nn.Sequential({"up": nn.Linear(2, 3), "relu": nn.ReLU(), "down": nn.Linear(3, 1)})
    x = mg.randn(4, 2)
    assert (layers(x).array == layers.down(layers.up(x).relu()).array).all()
    assert list(layers[1:].state_dict()) == ["down.weight", "down.bias"]
    del layers[1]
    assert [name for name, _ in layers.named_children()] == ["up", "down"]
    assert (nn.Sequential()(x).array == x.array).all()
