"""Views of tensors in any memory layout. (Which results are contiguous, and so have views: test_pytorch_samples.py.)"""
import numpy as np
import pytest

from oracle import mg, torch


def factors(random, n: int) -> list[int]:
    """Some numbers with the product n, possibly 1 among them."""
    found = []
    while random.random() < 0.8:
        found.append(int(random.choice([d for d in range(1, n + 1) if n % d == 0])))
        n //= found[-1]
    return [*found, n]


def test_a_view_is_the_same_memory_and_refused_where_pytorch_refuses_it():
    random, refused = np.random.default_rng(0), 0
    for _ in range(2000):
        shape = [int(n) for n in random.integers(1, 5, random.integers(1, 5))]
        order, step, is_expanded = [int(i) for i in random.permutation(len(shape))], int(random.integers(1, 3)), random.random() < 0.3
        pair = []
        for library in (mg, torch):
            base = library.arange(float(np.prod(shape))).reshape(shape)
            x = base.permute(order)[..., ::step]
            pair.append((base, x[:1].expand(x.shape) if is_expanded else x))
        (base, x), (base_there, x_there) = pair
        target = factors(random, x.numel())
        try:
            there = x_there.view(target)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="view size is not compatible .* Use .reshape"):
                x.view(target)
            refused += 1
            assert x.reshape(target).tolist() == x_there.reshape(target).tolist()
            continue
        here = x.view(target)
        assert here.shape == there.shape and here.tolist() == there.tolist()
        if not is_expanded:
            here.zero_(), there.zero_()
            assert base.tolist() == base_there.tolist()
    assert 200 < refused < 1800


def test_a_view_of_nothing_has_any_shape_and_a_wrong_shape_is_named():
    assert mg.zeros(0, 3).T.view(-1).shape == (0,)
    with pytest.raises(ValueError, match=r"shape \(4,\) is invalid for a tensor of shape \(3, 2\)"):
        mg.zeros(2, 3).T.view(4)
    with pytest.raises(RuntimeError, match="Use .reshape"):
        mg.zeros(2, 3).T.view_as(mg.zeros(6))
