"""Random programs compared with PyTorch, and random training steps, plain and compiled: short runs of tests/fuzz."""
from collections import Counter

import pytest

from fuzz import compiled, stateful
from tables import one_in


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of the variance of a single element
@pytest.mark.parametrize("first", one_in(3, (0, 100, 200)))
def test_random_programs_give_what_pytorch_gives(first):
    pytest.importorskip("torch")
    from fuzz import programs

    outcomes = Counter(programs.run(seed) for seed in range(first, first + 100))
    assert outcomes["same"] > 40 and outcomes["sensitive"] < 5, outcomes  # else little has been compared


@pytest.mark.parametrize("first", one_in(3, (0, 8, 16)))
def test_random_training_steps_have_the_same_bits_when_compiled(first):
    outcomes = Counter(compiled.live(seed, calls=6) for seed in range(first, first + 8))
    assert outcomes["same"] > 3, outcomes


@pytest.mark.parametrize("first", one_in(2, (0, 40)))
def test_what_python_decides_is_followed_refused_or_found_out(first):
    outcomes = Counter(stateful.live(seed).partition(":")[0] for seed in range(first, first + 40))
    assert min(outcomes["same"], outcomes["refused"]) > 8, outcomes
