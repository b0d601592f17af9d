"""Gather and scatter of many elements: positions that are out of range, or set twice, are found anywhere."""
import numpy as np
import pytest

import minigrad as mg

SHAPE = (150, 200)  # more than a block of positions


@pytest.mark.parametrize("bad", [-1, 200, 1 << 32])
def test_a_position_out_of_range_is_found(bad):
    for place in (0, 0), (77, 133), (149, 199):
        positions = np.full(SHAPE, 199)
        positions[place] = bad
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
            mg.zeros(*SHAPE).gather(1, mg.tensor(positions))


@pytest.mark.parametrize("place", [(0, 0), (149, 199)], ids=str)
def test_a_place_that_is_set_twice_is_refused(place):
    positions = np.tile(np.arange(200), (150, 1))
    source = mg.ones(*SHAPE)
    assert mg.zeros(*SHAPE).scatter(1, mg.tensor(positions), source).tolist() == source.tolist()
    positions[place] = 100
    with pytest.raises(ValueError, match="an index occurs twice"):
        mg.zeros(*SHAPE).scatter(1, mg.tensor(positions), source)


def moved(seed: int) -> list[bytes]:
    """The results of taking, putting and adding enough elements for several threads, checked against NumPy."""
    random, shape = np.random.default_rng(seed), (270, 500)
    x, y = random.standard_normal((2, *shape)).astype(np.float32)
    positions, rows = random.integers(500, size=shape), random.integers(270, size=270)
    orders = random.permuted(np.tile(np.arange(500), (270, 1)), axis=1)
    a, b = mg.tensor(x), mg.tensor(y)
    found = [a.gather(1, mg.tensor(positions)), a.scatter(1, mg.tensor(orders), b), a.scatter_add(1, mg.tensor(positions), b),
             a[mg.tensor(rows)], a.index_add(0, mg.tensor(rows), b), a.flip(1)]
    added, rows_added, put = x.astype(np.float64), x.astype(np.float64), x.copy()
    np.add.at(added, (np.arange(270)[:, None], positions), y)
    np.add.at(rows_added, rows, y)
    np.put_along_axis(put, orders, y, 1)
    expected = [np.take_along_axis(x, positions, 1), put, added, x[rows], rows_added, x[:, ::-1]]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, 1e-6, 1e-6)
    return [one.numpy().tobytes() for one in found]


def test_any_number_of_threads_moves_many_elements_alike(thread_counts):
    first, *others = [moved(0) for _ in thread_counts()]
    assert all(other == first for other in others)
