"""topk of many elements: equal ones in order, NaN the largest, with every algorithm."""
import itertools

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("values", ["few", "many"])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_the_beginning_of_a_sort(largest, values):
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (40, 250)) if values == "few" else random.standard_normal((40, 250))
    x = np.where(random.random(x.shape) < 0.02, np.nan, x * random.choice([-1.0, 1.0], x.shape)).astype(np.float32)
    x[0], x[1] = np.nan, np.inf
    order = np.argsort(-x if largest else x, 1, kind="stable")  # NumPy puts NaN last
    if largest:
        order = np.stack([np.concatenate([row[np.isnan(x[i, row])], row[~np.isnan(x[i, row])]]) for i, row in enumerate(order)])
    for dim, k in itertools.product((1, 0), (1, 3, 8, 9, 250)):
        found = mg.tensor(x if dim else x.T.copy()).topk(k, dim, largest=largest)
        indices, picked = (part.numpy() if dim else part.numpy().T for part in (found.indices, found.values))
        np.testing.assert_array_equal(indices, order[:, :k])
        np.testing.assert_array_equal(picked, np.take_along_axis(x, order, 1)[:, :k])
