"""Options of activations. (Their formulas are in tests/cases.py, PyTorch's in test_pytorch_calls.py.)"""

import pytest

import minigrad as mg
import nn


def test_an_option_may_be_changed_later():
    layer = nn.LeakyReLU(0.5)
    layer.negative_slope = 0.25
    assert layer(mg.tensor([-2.0, 4.0])).tolist() == [-0.5, 4.0]


@pytest.mark.parametrize("call", [
    "nn.ReLU(True)", "nn.LeakyReLU(0.1, True)", "nn.SiLU(inplace=True)", "nn.Dropout(0.0, True)",
])
def test_inplace_changes_nothing(call):
    x, layer = mg.tensor([-1.0, 2.0]), eval(call)
    assert layer(x).tolist() == eval(call.replace("True", "False"))(x).tolist()
    assert x.tolist() == [-1.0, 2.0] and "True" not in repr(layer)
