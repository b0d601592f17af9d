"""Positions among many: one that is out of range, or set twice, is found wherever it stands."""
import numpy as np
import pytest

import minigrad as mg

SHAPE = (150, 200)  # more than a block of positions


@pytest.mark.parametrize("place", [(0, 0), (77, 133), (149, 199)], ids=str)
@pytest.mark.parametrize("bad", [-1, 200, 1 << 32])
def test_a_position_out_of_range_is_found(bad, place):
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


def test_positions_may_be_written_to_afterwards():
    positions = mg.tensor(np.tile(np.arange(200), (150, 1)))
    x = mg.randn(*SHAPE, requires_grad=True)
    out = x.gather(1, positions)
    positions.data[...] = 0
    out.backward(mg.ones(*SHAPE))
    assert (x.grad.numpy() == 1).all()
