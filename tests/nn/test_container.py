import pytest

import minigrad as mg
import nn


def sizes(modules):
    return [module.out_features for module in modules]


@pytest.mark.parametrize("make", [lambda *modules: nn.Sequential(*modules), lambda *modules: nn.ModuleList(modules)])
def test_indexed_containers(make):
    layers = make(*(nn.Linear(1, n) for n in (1, 2, 3)))
    assert sizes(layers) == [1, 2, 3] and len(layers) == 3 and layers[-1].out_features == 3
    assert type(layers[1:]) is type(layers) and sizes(layers[1:]) == [2, 3] and layers[1:][0] is layers[1]
    assert sizes(layers.append(nn.Linear(1, 4))) == [1, 2, 3, 4]
    layers.insert(1, nn.Linear(1, 9))
    layers[0] = nn.Linear(1, 8)
    del layers[2]
    del layers[-1:]
    assert sizes(layers) == [8, 9, 3] and sizes(layers.extend([nn.Linear(1, 5)])) == [8, 9, 3, 5]
    assert list(layers.state_dict())[::2] == [f"{i}.weight" for i in range(4)]


def lengths(parameters):
    return [len(parameter) for parameter in parameters]


def test_parameter_list():
    parameters = nn.ParameterList(mg.zeros(n) for n in (1, 2, 3))
    assert lengths(parameters) == [1, 2, 3] and len(parameters) == 3 and parameters[-1].shape == (3,)
    assert isinstance(parameters[1:], nn.ParameterList) and parameters[1:][0] is parameters[1]
    assert lengths(parameters.append(mg.zeros(4))) == [1, 2, 3, 4]
    parameters.insert(1, own := nn.Parameter(mg.zeros(9)))
    parameters[0] = mg.zeros(8)
    del parameters[2]
    del parameters[-1:]
    assert lengths(parameters) == [8, 9, 3] and lengths(parameters.extend([mg.zeros(5)])) == [8, 9, 3, 5]
    assert parameters[1] is own and all(isinstance(each, nn.Parameter) and each.requires_grad for each in parameters)
    assert list(nn.Sequential(parameters).state_dict()) == ["0.0", "0.1", "0.2", "0.3"]


def test_parameter_dict():
    parameters = nn.ParameterDict({"a": mg.zeros(2)})
    parameters["b"] = mg.zeros(3)
    parameters.update([("c", nn.Parameter(mg.zeros(4)))])
    assert list(parameters) == list(parameters.keys()) == ["a", "b", "c"] and lengths(parameters.values()) == [2, 3, 4]
    assert dict(parameters.items())["c"] is parameters["c"] is parameters.c and "b" in parameters and len(parameters) == 3
    del parameters["b"]
    assert list(parameters.state_dict()) == [name for name, _ in parameters.named_parameters()] == ["a", "c"]
    assert repr(parameters) == ("ParameterDict(\n  (a): Parameter of shape (2,), float32\n"
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


def test_module_dict():
    parts = nn.ModuleDict({"a": nn.Linear(1, 2)})
    parts["b"] = nn.Linear(1, 3)
    parts.update([("c", nn.Linear(1, 9)), ("b", parts["b"])])
    parts.update({"c": nn.Linear(1, 4)})
    assert list(parts) == list(parts.keys()) == ["a", "b", "c"] and sizes(parts.values()) == [2, 3, 4]
    assert dict(parts.items())["c"] is parts["c"] is parts.c and "b" in parts and len(parts) == 3
    del parts["b"]
    assert list(parts.state_dict()) == ["a.weight", "a.bias", "c.weight", "c.bias"]
