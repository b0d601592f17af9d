"""nn.AdditiveAttention against loops."""
import numpy as np

import minigrad as mg
import nn

B, T, S, D = 2, 3, 4, 4
rng = np.random.default_rng(0)


def test_additive_attention_is_one_matrix_times_the_concatenation():
    mg.manual_seed(0)
    layer = nn.AdditiveAttention(D, 6, hidden=5).double()
    s, h = (mg.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((B, T, D), (B, S, 6)))
    padding = np.array([[False, False, True, True], [False] * S])
    assert mg.gradcheck(lambda s, h: layer(s, h, mg.tensor(padding)), [s, h])
    together = np.concatenate([layer.context.weight.array, layer.state.weight.array], axis=1)
    scores = np.zeros((B, T, S))
    for b, t, j in np.ndindex(B, T, S):
        hidden = together @ np.concatenate([h.array[b, j], s.array[b, t]]) + layer.state.bias.array
        scores[b, t, j] = layer.score.weight.array[0] @ np.tanh(hidden)
    for mask in (None, padding):
        expected = np.exp(scores) * (1 if mask is None else ~mask[:, None])
        expected /= expected.sum(axis=-1, keepdims=True)
        c, weights = layer(s, h, mask if mask is None else mg.tensor(mask))
        np.testing.assert_allclose(weights.array, expected, atol=1e-12)
        np.testing.assert_allclose(c.array, expected @ h.array, atol=1e-12)
