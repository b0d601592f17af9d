"""Random programs beside PyTorch, and random training steps plain and compiled: the short forms of tests/fuzz."""
from collections import Counter

import pytest

from fuzz import compiled, stateful


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of the variance of a single element
def test_random_programs_give_what_pytorch_gives():
    pytest.importorskip("torch")
    from fuzz import programs

    outcomes = Counter(programs.run(seed) for seed in range(300))
    assert outcomes["same"] > 120 and outcomes["sensitive"] < 10, outcomes  # else little has been compared


def test_random_training_steps_have_the_same_bits_when_compiled():
    outcomes = Counter(compiled.live(seed, calls=8) for seed in range(25))
    assert outcomes["same"] > 12, outcomes


def test_what_python_decides_is_followed_refused_or_found_out():
    outcomes = Counter(stateful.live(seed).partition(":")[0] for seed in range(80))
    assert min(outcomes["same"], outcomes["refused"]) > 20, outcomes
