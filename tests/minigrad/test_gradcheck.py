"""The checker must pass what is right and catch what is wrong."""
import numpy as np
import pytest

import minigrad as mg
from minigrad import gradcheck
from minigrad.tape import Op
from minigrad.tensor import apply


class Square(Op):
    """out = x^2, with a gradient that is off by a factor."""

    factor = 1.0

    def forward(self, x):
        self.save(x)
        return x * x

    def backward(self, dout, x):
        return 2 * x * dout * self.factor


def wrong_by(factor):
    return type("Wrong", (Square,), {"factor": factor})


@pytest.fixture
def x(random):
    return mg.tensor(random.standard_normal((3, 4)), requires_grad=True)


def test_a_right_gradient_passes(x):
    assert gradcheck(lambda x: apply(Square, x), x)


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.0, 1.001, 1 + 1e-5])
def test_a_wrong_factor_is_found_and_reported(x, factor):
    with pytest.raises(RuntimeError, match=r"input 0, entry \(\d, \d\): backward gives .* differences"):
        gradcheck(lambda x: apply(wrong_by(factor), x), x)
    assert not gradcheck(lambda x: apply(wrong_by(factor), x), x, raise_exception=False)


def test_large_inputs_are_checked_along_random_directions(random):
    x = mg.tensor(random.standard_normal((40, 50)), requires_grad=True)
    assert gradcheck(lambda x: apply(Square, x), x)
    with pytest.raises(RuntimeError, match="direction"):
        gradcheck(lambda x: apply(wrong_by(1.001), x), x)


def test_a_softmax_without_its_sum_is_found(x):
    """The mistake that a plain sum as the loss would hide."""

    class NoSum(Op):
        def forward(self, x):
            out = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
            self.save(out)
            return out

        def backward(self, dout, out):
            return out * dout

    assert not gradcheck(lambda x: apply(NoSum, x), x, raise_exception=False)


def test_a_missing_path_is_found(x):
    assert not gradcheck(lambda x: x * x.detach(), x, raise_exception=False)


def test_several_inputs_and_outputs(x, random):
    y = mg.tensor(random.standard_normal(4), requires_grad=True)
    assert gradcheck(lambda x, y, scale: (x * y * scale, (x + y).tanh()), (x, y, 2.0))


def test_the_callers_tensors_are_left_alone(x):
    before, state = x.data.copy(), mg.random.get_state()
    gradcheck(lambda x: x.exp(), x)
    np.testing.assert_array_equal(x.data, before)
    assert x.grad is None and mg.random.get_state() == state


def test_what_cannot_be_checked_is_refused(x):
    with pytest.raises(TypeError, match="input 0 is float32; use .double"):
        gradcheck(lambda x: x, mg.ones(1, requires_grad=True))
    with pytest.raises(ValueError, match="none of the inputs requires a gradient"):
        gradcheck(lambda x: x, mg.ones(1))
