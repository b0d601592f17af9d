"""Every public name has types and a docstring, which editors show."""
import inspect

import pytest

import minigrad
from minigrad import Tensor
from minigrad.ops.elementary import ElementaryMethods


def public(owner) -> dict[str, object]:
    """The functions, classes, methods and properties of a module or a class."""
    members = {name: inspect.getattr_static(owner, name, None) or getattr(owner, name) for name in dir(owner)}
    return {name: getattr(value, "__func__", value) for name, value in members.items() if not name.startswith("_")
            and (callable(value) or isinstance(value, (property, staticmethod))) and not inspect.ismodule(value)}


def untyped(function) -> list[str]:
    """What has no annotation: parameters but for `self`, and the result."""
    signature = inspect.signature(function)
    names = [name for name, parameter in signature.parameters.items() if parameter.annotation is parameter.empty]
    return [name for name in names if name != "self"] + ["return"] * (signature.return_annotation is signature.empty)


@pytest.mark.parametrize("owner", [Tensor, minigrad], ids=["Tensor", "minigrad"])
def test_every_public_name_has_types_and_a_docstring(owner):
    members = public(owner)
    assert len(members) > 170
    assert [name for name, value in members.items() if not inspect.getdoc(value)] == []
    functions = {name: value.fget if isinstance(value, property) else value for name, value in members.items()}
    found = {name: untyped(value) for name, value in functions.items() if inspect.isfunction(value)}
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_elementary_methods_apply_the_ops_of_their_names_and_have_their_formulas():
    methods = {name: method for name, method in vars(ElementaryMethods).items() if getattr(method, "__qualname__", "") == name}
    assert len(methods) == 11
    with minigrad.textbook():
        for name, method in methods.items():
            op = type(method(minigrad.ones(1, requires_grad=True)).node)
            value, gradient = op.__doc__.removeprefix("out = ").split(":  ")
            assert (op.__name__, method.__doc__) == (name.capitalize(), f"{value}, elementwise. Backward: {gradient}.")
