"""RNN against its definition, one sequence at a time."""
import numpy as np
import pytest

import minigrad as mg
import nn

B, T, INPUTS, HIDDEN = 2, 5, 3, 4


def slow(layer, x, h_0):
    parameters = {name: parameter.array for name, parameter in layer.named_parameters()}
    outputs, last = [], np.zeros_like(h_0)
    for b, below in enumerate(x):
        count = 0
        for number in range(layer.num_layers):
            both = []
            for direction in layer.directions:
                w_ih, w_hh, b_ih, b_hh = (parameters[f"{name}_l{number}{direction}"]
                                          for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
                states, h = np.zeros((T, HIDDEN)), h_0[count, b]
                for t in reversed(range(T)) if direction else range(T):
                    h = states[t] = np.tanh(w_ih @ below[t] + b_ih + w_hh @ h + b_hh)
                both.append(states)
                last[count, b] = h
                count += 1
            below = np.hstack(both)
        outputs.append(below)
    return np.stack(outputs), last


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_is_the_definition(num_layers, bidirectional, random):
    """With initial states or from zeros; and so are the gradients through time."""
    layer = nn.RNN(INPUTS, HIDDEN, num_layers, batch_first=True, bidirectional=bidirectional).double()
    x, h_0 = random.normal(size=(B, T, INPUTS)), random.normal(size=(num_layers * len(layer.directions), B, HIDDEN))
    for start in (h_0, None):
        found = layer(mg.tensor(x), start if start is None else mg.tensor(start))
        for array, expected in zip(found, slow(layer, x, 0 * h_0 if start is None else start), strict=True):
            np.testing.assert_allclose(array.data, expected, atol=1e-14)
    inputs = [mg.tensor(array, requires_grad=True) for array in (x, h_0)]
    assert mg.gradcheck_module(layer, inputs, fast_mode=True, directions=1, progress=False).verdict == "pass"


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
