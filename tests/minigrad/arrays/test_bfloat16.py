"""bfloat16: its rounding, files that hold it, and that no tensor does."""
import bisect
import math
from fractions import Fraction

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.extend import from_bfloat16, to_bfloat16
from minigrad.serialization import FORMAT, write_archive
from refusals import all_refused

BITS = np.arange(1 << 16, dtype=np.uint16)
NUMBERS = from_bfloat16(BITS)
BEYOND = 2.0**128  # rounds to infinity, as if it were the next number
PLACES = [-BEYOND, *sorted(set(NUMBERS[np.isfinite(NUMBERS)].tolist())), BEYOND]


def by_search(number: float) -> float:
    """The nearest number of bfloat16: exact distances to its neighbours, and of two as near the one whose last bit is 0."""
    place = bisect.bisect(PLACES, number)
    nearest = min(PLACES[max(place - 2, 0) : place + 2], key=lambda x: (abs(Fraction(x) - Fraction(number)), last_bits(x) & 1))
    return math.copysign(math.inf, number) if abs(nearest) == BEYOND else math.copysign(nearest, number)


def last_bits(x: float) -> int:
    return 0 if abs(x) == BEYOND else int(np.float32(x).view(np.uint32)) >> 16


def test_each_number_is_its_own_nearest():
    assert np.array_equal(NUMBERS.view(np.uint32) >> 16, BITS)
    assert np.array_equal(to_bfloat16(NUMBERS) | 0x40 * np.isnan(NUMBERS), BITS | 0x40 * np.isnan(NUMBERS))


@pytest.mark.parametrize("number", [
    0.0, -0.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-23, -(1 + 2.0**-8), 3.1415, 1e-40, -1e-45, 2.0**-134, 3 * 2.0**-134,
    3.3895e38, 3.3961775e38, 3.4028235e38, -3.4028235e38, 255.5, 256.5, 257.0,
])
def test_rounding_is_to_the_nearest_and_to_even(number):
    number = float(np.float32(number))
    got = from_bfloat16(to_bfloat16(np.float32(number))).item()
    assert (got, math.copysign(1, got)) == (by_search(number), math.copysign(1, number))


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000])
def test_nan_stays_nan(bits):
    with np.errstate(all="raise"):
        assert np.isnan(from_bfloat16(to_bfloat16(np.uint32([bits]).view(np.float32)))).all()


def test_rounding_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(1).integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    theirs = torch.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(numbers)), theirs)


def test_files_that_hold_it_are_read_into_float32(tmp_path):
    with open(tmp_path / "x", "wb") as file:  # as `save` once wrote tensors of bfloat16
        write_archive(file, {"format": FORMAT, "value": {"dict": [["all", {"bfloat16": "0"}], ["one", {"bfloat16": "1"}]]}},
                      {"0": BITS.reshape(256, 256).T, "1": BITS[16457].reshape(())})
    loaded = mg.load(tmp_path / "x")
    assert loaded["all"].dtype == mg.float32 and np.array_equal(loaded["all"].array, NUMBERS.reshape(256, 256).T, equal_nan=True)
    assert loaded["one"].item() == 3.140625


def test_no_tensor_holds_it():
    x, says = mg.ones(2), "tensors hold float32, float64, int64 or bool, not bfloat16; mg.autocast rounds the operands of products to it"
    layer = nn.Linear(2, 2)
    all_refused(lambda call: call(), [
        (lambda: x.bfloat16(), says), (lambda: x.to(mg.bfloat16), says), (lambda: mg.zeros(2, dtype=mg.bfloat16), says),
        (lambda: layer.bfloat16(), says), (lambda: layer.to(mg.bfloat16), says), (lambda: mg.tensor([1], "bfloat16"), says),
    ], TypeError)
    assert layer.weight.dtype == mg.float32


def test_arrays_of_ml_dtypes_are_refused():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.ones(2, ml_dtypes.bfloat16)
    all_refused(lambda call: call(), [
        (lambda: mg.tensor(array), "a tensor holds floats, integers or booleans, got bfloat16 from ndarray"),
        (lambda: mg.from_dlpack(array), "from_dlpack: tensors hold float32, float64, int64 or bool, not bfloat16; convert it first"),
        (lambda: mg.zeros(2, dtype=array.dtype), "or bool, not bfloat16; mg.autocast"),
    ], TypeError)
