"""NumPy's step: the matrix product of its BLAS."""
from collections.abc import Callable

import numpy as np

from benchmarks.common import matrices


def matmul(M: int, K: int, N: int, layout: str) -> Callable[[], list]:
    a, b, out = matrices(M, K, N, layout)
    return lambda: [np.matmul(a, b, out=out)]
