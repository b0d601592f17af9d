"""Environment variables of Numba that rule out kernels give a one-line error."""
import os
import re
import subprocess
import sys

import pytest

from minigrad.fast import kernels

REFUSED = [
    ({"NUMBA_NUM_THREADS": "0"}, "NUMBA_NUM_THREADS must be a whole number from 1, got '0'"),
    ({"NUMBA_NUM_THREADS": "-2"}, "NUMBA_NUM_THREADS must be a whole number from 1, got '-2'"),
    ({"NUMBA_NUM_THREADS": "two"}, "NUMBA_NUM_THREADS must be a whole number from 1, got 'two'"),
    ({"NUMBA_DISABLE_JIT": "1"}, "NUMBA_DISABLE_JIT is set"),
    ({"NUMBA_THREADING_LAYER": "nonsense"}, "NUMBA_THREADING_LAYER: Numba cannot load 'nonsense'"),
]


@pytest.mark.parametrize("variables, message", REFUSED[:-1])  # threads.py checks the last one, later
def test_variables_that_rule_out_kernels_are_refused(variables, message):
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}[^\n]*unset it[^\n]*$"):
        kernels.check(variables)


@pytest.mark.parametrize("variables", [
    {}, {"NUMBA_NUM_THREADS": "1"}, {"NUMBA_NUM_THREADS": "16"}, {"NUMBA_DISABLE_JIT": "0"},
])
def test_other_variables_are_accepted(variables):
    kernels.check(variables)


@pytest.mark.parametrize("variables, message", [REFUSED[0], REFUSED[3], REFUSED[-1]])
def test_the_error_comes_at_the_import(variables, message):
    result = subprocess.run([sys.executable, "-c", "import minigrad"], env=os.environ | variables, capture_output=True,
                            text=True, check=False)
    assert result.returncode == 1 and result.stderr.splitlines()[-1].startswith(f"RuntimeError: {message}")
