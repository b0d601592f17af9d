"""Positions against their formulas."""
import math

import numpy as np
import pytest

import minigrad as mg
import nn
from nn.position import KINDS, integer, kept_table, one_hot, rotary_frequencies, rotate, sine_only, sinusoidal


@pytest.mark.parametrize("D", [1, 2, 5, 8])
@pytest.mark.parametrize("base", [{}, {"base": 100.0}], ids=str)
def test_sinusoidal_and_sine_only_are_their_formulas(D, base):
    pairs, sines, longest = sinusoidal(6, D, start=3, **base), sine_only(6, D, start=3, **base), base.get("base", 10_000)
    for t, i in np.ndindex(6, D):
        angle = (t + 3) / longest ** ((i - i % 2) / D)
        assert pairs[t, i] == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-14)
        assert sines[t, i] == pytest.approx(math.sin((t + 3) / longest ** ((i + 1) / D)), abs=1e-14)


def test_one_hot_and_integer():
    assert one_hot(2, 4, start=1).tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert one_hot(2, 4, start=-1).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]
    assert integer(2, 3, start=4).tolist() == [[4, 4, 4], [5, 5, 5]]


@pytest.mark.parametrize("formula", [sinusoidal, sine_only, integer, one_hot])
def test_a_layer_has_the_table_of_its_kind(formula):
    layer = nn.PositionEncoding(formula.__name__, 9)
    np.testing.assert_array_equal(layer.table(4, start=3).array, formula(4, 9, start=3))
    np.testing.assert_allclose(layer.table(4, start=3).array, layer.table(7).array[3:], atol=1e-15)
    assert not list(layer.parameters())


def test_learned_positions_start_small():
    table = nn.PositionEncoding("learned", 50, size=100).weight.array
    assert table.std() == pytest.approx(0.02, rel=0.05) and abs(table.mean()) < 0.002


def test_no_positions_have_no_width():
    layer = nn.PositionEncoding("none", 4, combine="concatenate", position_width=6)
    assert layer.out_width == layer(mg.zeros(2, 4)).shape[1] == 4


def test_repr():
    text = "PositionEncoding('learned', 4, size=7, combine='concatenate')"
    assert repr(nn.PositionEncoding("learned", 4, size=7, combine="concatenate")) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [mg.float32, mg.float64])
def test_adds_in_the_dtype_of_x(kind, dtype, random):
    layer = nn.PositionEncoding(kind, 6, size=6).to(dtype)
    x = mg.tensor(random.normal(size=(2, 3, 6)), dtype=dtype)
    y = layer(x, start=1)
    expected = x.array if kind == "none" else x.array + layer.table(3, start=1).array
    assert y.dtype == dtype and layer.out_width == 6
    np.testing.assert_allclose(y.array, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "one_hot"])
def test_concatenates(kind, random):
    layer = nn.PositionEncoding(kind, 4, size=5, combine="concatenate", position_width=6)
    x = mg.tensor(random.normal(size=(2, 3, 4)), dtype=mg.float32)
    y = layer(x)
    assert y.shape == (2, 3, 10) and layer.out_width == 10
    np.testing.assert_array_equal(y.array[..., :4], x.array)
    for row in y.array[..., 4:]:
        np.testing.assert_allclose(row, layer.table(3).array, rtol=1e-6)


def test_only_positions_that_are_used_have_a_gradient(random):
    for combine in ("add", "concatenate"):
        layer = nn.PositionEncoding("learned", 4, size=7, combine=combine).double()
        layer(mg.tensor(random.normal(size=(2, 3, 4))), start=2).sum().backward()
        assert (np.abs(layer.weight.grad.array).sum(axis=1) > 0).tolist() == [False, False, True, True, True, False, False]


@pytest.mark.parametrize("base", [{}, {"base": 100.0}], ids=str)
def test_rotate_is_its_formula(base, random):
    x = random.normal(size=(2, 5, 6))
    y = rotate(mg.tensor(x), start=2, **base).array
    for t, i in np.ndindex(5, 3):
        angle = (t + 2) / base.get("base", 10_000) ** (2 * i / 6)
        expected = (x[:, t, 2 * i] + 1j * x[:, t, 2 * i + 1]) * complex(math.cos(angle), math.sin(angle))
        np.testing.assert_allclose(y[:, t, 2 * i] + 1j * y[:, t, 2 * i + 1], expected, atol=1e-14)


def test_rotate_is_exact_far_out_and_keeps_its_table():
    """At position 10^6 angles in float32 would be off by 0.06; the second call reuses the table."""
    turned = rotate(mg.tensor([[1.0, 0.0]], dtype=mg.float32), start=10**6).array
    np.testing.assert_allclose(turned, [[math.cos(10**6), math.sin(10**6)]], atol=1e-7)
    before = kept_table.cache_info().misses
    for _ in range(3):
        rotate(mg.zeros(7, 4), start=11, base=77.0)
    assert kept_table.cache_info().misses == before + 1


def test_scaled_frequencies():
    """Llama 3.1's: those with more than 4 turns in 32 positions stay, those with less than 1 become 8 times as slow."""
    plain, scaled = rotary_frequencies(8, 50.0), rotary_frequencies(8, 50.0, "llama3:8:1:4:32")
    turns = 32 * plain / (2 * math.pi)
    assert turns[0] > 4 > turns[1] > 1 > turns[2]
    share = (turns[1] - 1) / 3
    np.testing.assert_allclose(scaled / plain, [1.0, share + (1 - share) / 8, 1 / 8, 1 / 8])
    np.testing.assert_allclose(rotary_frequencies(8, 50.0, "linear:4"), plain / 4)
