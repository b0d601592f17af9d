"""Shares of a gradient, each along a path from a step and one of its inputs."""
import numpy as np
import pytest

import minigrad as mg
from minigrad.tracing import shares

X = np.array([[0.5, -1.0], [2.0, 0.3]])


def several_uses(x):
    squares = x * x  # one step that uses x twice
    masked = mg.where(np.eye(2, dtype=bool), x, 0.5)
    inner = squares.exp()
    total = inner + masked + np.ones((2, 2))
    return (total * np.arange(4.0).reshape(2, 2)).sum()


def test_shares_of_the_steps_that_use_a_tensor_add_up_to_its_gradient():
    trace = mg.trace(several_uses, X)
    found = shares(trace, "x")
    assert found.keys() == {("squares", "x"), ("masked", "x")}
    weight = np.arange(4.0).reshape(2, 2)
    assert found["squares", "x"] == pytest.approx(weight * np.exp(X**2) * 2 * X)
    assert found["masked", "x"] == pytest.approx(weight * np.eye(2))
    assert sum(found.values()) == pytest.approx(trace["x"].gradient)


def test_a_path_from_a_later_step():
    trace = mg.trace(several_uses, X)
    found = shares(trace, "x", [("inner", "squares"), ("masked", "x")])
    assert found["inner", "squares"] == pytest.approx(shares(trace, "x")["squares", "x"])
    assert (shares(trace, "squares", [("masked", "x")])["masked", "x"] == 0).all()  # a path elsewhere


def test_the_traces_gradients_do_not_change():
    trace = mg.trace(several_uses, X)
    before = {tensor: np.copy(tensor.gradient) for tensor in trace.tensors if tensor.gradient is not None}
    shares(trace, "x", [("inner", "squares")])
    assert len(before) > 4 and all((tensor.gradient == gradient).all() for tensor, gradient in before.items())
