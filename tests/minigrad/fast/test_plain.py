"""The engine room without kernels does the same."""
import collections

import numpy as np
import pytest

import minigrad as mg
from minigrad import fast as engine
from minigrad.fast import plain


def test_it_has_all_names_of_the_engine_room():
    assert set(engine.__all__) - {"IS_FAST"} <= set(vars(plain))


def test_norm_is_the_kernels(random, kernels):
    arrays = [random.standard_normal(shape).astype(dtype) for shape in ((3, 4), (1000,), (0,)) for dtype in ("f", "d")]
    assert plain.norm(arrays) == pytest.approx(engine.norm(arrays), rel=1e-14)


def test_compile_is_the_step_with_results_off_the_tape():
    Pair = collections.namedtuple("Pair", "a b")
    w = mg.tensor([2.0], requires_grad=True)

    @plain.compile
    def step(x):
        y = w * x
        y.sum().backward()
        return {"pair": Pair(y, None), "list": [y, (y,)]}

    found = step(mg.tensor([3.0]))
    assert type(found["pair"]) is Pair and found["pair"].b is None and w.grad.item() == 3.0
    assert [y.item() for y in (found["pair"].a, found["list"][0], found["list"][1][0])] == [6.0] * 3
    assert not found["list"][0].requires_grad and step.constants() == [] and step.forget() is None
    assert plain.compile(check=True)(lambda x: x)(w).requires_grad is False


def test_results_of_compile_are_copies():
    w = mg.tensor([2.0], requires_grad=True)
    found = plain.compile(lambda x: (w, x))(mg.ones(1))
    w.data[...] = 5.0
    assert found[0].item() == 2.0 and not np.may_share_memory(found[0].numpy(), w.array)


def test_threads_are_checked():
    assert plain.get_num_threads() == 1
    plain.set_num_threads(1)
    with pytest.raises(ValueError, match="expected a number of threads from 1 to"):
        plain.set_num_threads(0)
