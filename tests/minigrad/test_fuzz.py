"""Random programs compared with PyTorch: short runs of tests/fuzz."""
from collections import Counter

import pytest

from tables import one_in


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of the variance of a single element
@pytest.mark.parametrize("first", one_in(3, (0, 100, 200)))
def test_random_programs_give_what_pytorch_gives(first):
    pytest.importorskip("torch")
    from fuzz import programs

    outcomes = Counter(programs.run(seed) for seed in range(first, first + 100))
    assert outcomes["same"] > 40 and outcomes["sensitive"] < 5, outcomes  # else little has been compared
