"""The known mistakes that give the same numbers as what was handed in."""
from typing import Sequence

import numpy as np

from .diagnosis import Diagnosis, Evidence
from .routine import Routine


def diagnose_numbers(evidence: Sequence[Evidence], routine: Routine) -> Diagnosis:
    """What explains the numbers that were given for all these inputs."""
    for known in routine.mistakes:
        if all(agree(routine.run(seen.inputs, known.changes), seen.given) for seen in evidence):
            return Diagnosis((known.name,), (known.sentence,))
    return Diagnosis()


def agree(a: dict[str, np.ndarray | None], b: dict[str, np.ndarray | None]) -> bool:
    def same(x, y) -> bool:
        if x is None or y is None:
            return x is y
        return np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)

    return all(same(a[name], b[name]) for name in a)
