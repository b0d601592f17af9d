"""The dtypes of results of operands with different dtypes: PyTorch's rules, as a table and from PyTorch itself."""
import itertools
import operator
from fractions import Fraction

import numpy as np
import pytest

import minigrad as mg

DTYPES = {"b": mg.bool, "i": mg.int64, "f": mg.float32, "d": mg.float64}
OPERANDS = {  # vectors, single elements, Python's numbers
    **{f"{letter}1": mg.tensor([1, 0], dtype=dtype) for letter, dtype in DTYPES.items()},
    **{f"{letter}0": mg.tensor(1, dtype=dtype) for letter, dtype in DTYPES.items()},
    "True": True, "3": 3, "2.5": 2.5,
}  # fmt: skip
TABLE = {  # a row for one operand, with a letter for each other one, in the order of OPERANDS
    "b1": "bifd bifd bif",
    "i1": "iifd iifd iif",
    "f1": "fffd ffff fff",
    "d1": "dddd dddd ddd",
    "b0": "bifd bifd bif",
    "i0": "iifd iifd iif",
    "f0": "fffd fffd fff",
    "d0": "ddfd dddd ddd",
}
PAIRS = [(a, b, DTYPES[letter]) for a, row in TABLE.items() for b, letter in zip(OPERANDS, row.replace(" ", ""), strict=True)]
FUNCTIONS = {
    "add": operator.add,
    "mul": operator.mul,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": lambda a, b: mg.where(mg.tensor([True, False]), a, b),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_operands_find_a_common_dtype(function):
    for a, b, dtype in PAIRS:
        for operands in ((OPERANDS[a], OPERANDS[b]), (OPERANDS[b], OPERANDS[a])):
            out = function(*operands)
            assert out.dtype == dtype, operands
            in_advance = [mg.tensor(x.array if isinstance(x, mg.Tensor) else x, dtype=dtype) for x in operands]
            np.testing.assert_array_equal(out.array, function(*in_advance).array, err_msg=str(operands))


def test_quotients_are_floats():
    for a, b, dtype in PAIRS:
        assert (OPERANDS[a] / OPERANDS[b]).dtype == (dtype if dtype.kind == "f" else mg.float32), (a, b)


def test_concatenation_takes_the_widest_dtype():
    for (i, a), (j, b) in itertools.product(enumerate(DTYPES), repeat=2):
        joined = mg.cat([OPERANDS[f"{a}1"], OPERANDS[f"{b}1"]])
        assert joined.dtype == list(DTYPES.values())[max(i, j)] and joined.tolist() == [1, 0, 1, 0]


def test_the_table_is_pytorchs():
    torch = pytest.importorskip("torch")

    def as_torch(name):
        x = OPERANDS[name]
        return torch.tensor(x.numpy()) if isinstance(x, mg.Tensor) else x

    for a, b, dtype in PAIRS:
        assert str(torch.result_type(as_torch(a), as_torch(b))) == f"torch.{dtype}", (a, b)


def test_numbers_on_both_sides_of_where():
    condition = mg.tensor([True, False])
    for a, b, dtype in ((1, 2.5, mg.float32), (True, 2, mg.int64), (1, 2, mg.int64), (True, False, mg.bool)):
        out = mg.where(condition, a, b)
        assert out.dtype == dtype and out.tolist() == [a, b]


def test_sums_of_booleans_are_integers():
    for x in (mg.tensor(True), mg.tensor([True])):
        for out in (x.sum(), x.cumsum(0), x + 0):
            assert out.dtype == mg.int64


SAME_AS_PYTORCH = {
    "pad": lambda m, F: F.pad(m.tensor([1, 2]), (1, 2), value=1.0),
    "pad booleans": lambda m, F: F.pad(m.tensor([False]), (1, 2), value=1),
    "scatter_add": lambda m, F: m.tensor([True, False]).scatter_add(0, m.tensor([1, 0, 0]), m.tensor([True, True, False])),
    "scatter_add to a number": lambda m, F: m.tensor(True).scatter_add(0, m.tensor([0, 0]), m.tensor([True, True])),
}


@pytest.mark.parametrize("function", SAME_AS_PYTORCH.values(), ids=SAME_AS_PYTORCH)
def test_integers_are_pytorchs(function):
    torch = pytest.importorskip("torch")
    ours, theirs = function(mg, mg.nn.functional), function(torch, torch.nn.functional)
    assert f"torch.{ours.dtype}" == str(theirs.dtype)
    np.testing.assert_allclose(ours.double().array, theirs.double().numpy(), rtol=1e-14)


def test_integers_between_integers_are_truncated_exactly():
    """Some of PyTorch's are off by one: with -10, 1 and 34, a -4 is -3 there."""
    for start, end, steps in itertools.product(range(-10, 11), range(-10, 11), range(2, 40, 3)):
        exact = [int(Fraction(start * (steps - 1 - i) + end * i, steps - 1)) for i in range(steps)]
        assert mg.linspace(start, end, steps, dtype=mg.int64).tolist() == exact
