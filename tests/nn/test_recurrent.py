"""Recurrent layers: padding, initial parameters, dropout. (Their formulas are in tests/layers.py, PyTorch's in test_pytorch_calls.py.)"""
import numpy as np
import pytest

import minigrad as mg
import nn

B, T, INPUTS, HIDDEN = 2, 5, 3, 4


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_padding_is_skipped(kind, batch_first, random):
    """States at real places, and the last ones, are those without padding, anywhere in a sequence."""
    layer = kind(INPUTS, HIDDEN, num_layers=2, bidirectional=True, batch_first=batch_first).double()
    x, is_real = random.normal(size=(B, T, INPUTS)), np.array([[1, 0, 1, 1, 0], [0, 1, 1, 1, 1]], bool)
    turned = (lambda array: array) if batch_first else (lambda array: array.swapaxes(0, 1))
    states, last = layer(mg.tensor(turned(x)), padding=mg.tensor(turned(~is_real)))
    for b in range(B):
        expected = layer(mg.tensor(x[b, is_real[b]]))
        np.testing.assert_allclose(turned(states.detach().numpy())[b, is_real[b]], expected[0].detach().numpy(), atol=1e-14)
        for part, due in zip(last, expected[1]) if kind is nn.LSTM else [(last, expected[1])]:
            np.testing.assert_allclose(part.detach().numpy()[:, b], due.detach().numpy(), atol=1e-14)
    with pytest.raises(ValueError, match=r"expected padding of booleans \(.*\), got float32 \(3,\)"):
        layer(mg.tensor(x), padding=mg.ones(3))


def test_initial_parameters_and_repr():
    mg.manual_seed(0)
    layer = nn.RNN(30, 100, num_layers=2, bidirectional=True)
    assert repr(layer) == "RNN(30, 100, num_layers=2, batch_first=False, bidirectional=True, nonlinearity='tanh')"
    assert len(list(layer.parameters())) == 16
    for parameter in layer.parameters():
        assert 0.08 < np.abs(parameter.array).max() <= 0.1


def test_dropout_acts_between_layers_while_training():
    x = mg.ones(T, B, INPUTS)
    all_dropped = nn.RNN(INPUTS, HIDDEN, 2, dropout=1.0)
    states, last = all_dropped(x)
    undropped = all_dropped.eval()(x)
    np.testing.assert_array_equal(last[0].array, undropped[1][0].array)  # the input is not dropped
    assert (states.array != undropped[0].array).any()
    np.testing.assert_array_equal(states.array[:, :1], states.array[:, 1:])  # made of biases alone
    one = nn.RNN(INPUTS, HIDDEN, dropout=0.5)
    np.testing.assert_array_equal(one(x)[0].array, one(x)[0].array)
