"""Shared fixtures."""
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # cases.py and naive.py


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)
