"""The product of operands in bfloat16, bit by bit: the formula in its docstring, threads, other processors."""
import hashlib
import itertools
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from check_same_bits import AVX512, CPUS
from minigrad.fast.kernels.bfloat16 import product
from minigrad.fast.kernels.gemm import batched_matmul, matmul
from minigrad.extend import from_bfloat16, to_bfloat16

SIZES = [(1, 1, 1), (5, 3, 7), (6, 64, 64), (97, 30, 130), (7, 1025, 17), (100, 513, 9), (3, 20, 600)]
NAN, INF, TINY = np.nan, np.inf, np.float32(2.0**-126)


def rounded(x):
    return from_bfloat16(to_bfloat16(x))


def random(*shape, seed=0):
    """Multiples of 1/64 below 64, of up to 12 bits: all sums below are exact in float64, and a fourth of the numbers are
    halfway between two bfloat16 numbers."""
    return (np.random.default_rng([seed, *shape]).integers(-4096, 4096, shape) / 64).astype(np.float32)


def by_formula(a, b, start=0):
    """Pairs in order, the upper half first, each product added and rounded; then the sums of panels."""
    a, b = rounded(a).astype(np.float64), rounded(b).astype(np.float64)
    K = a.shape[1]
    depth = -(-K // (-(-K // 512) * 8)) * 8
    total = np.broadcast_to(np.float32(start), (len(a), b.shape[1]))
    for k in range(0, K, depth):
        panel = np.zeros_like(total)
        for low in range(k, min(k + depth, K), 2):
            for i in (low + 1, low):
                if i < K:
                    panel = (panel + a[:, i, None] * b[i]).astype(np.float32)
        total = panel + total
    return total


@pytest.mark.parametrize("size", SIZES)
def test_bits_are_those_of_the_formula(size):
    M, K, N = size
    bias, c = random(N, seed=1), random(M, N, seed=2)
    for layout_a, layout_b in itertools.product(["rows", "columns"], repeat=2):
        a = random(M, K) if layout_a == "rows" else random(K, M).T
        b = random(K, N) if layout_b == "rows" else random(N, K).T
        for given, start in ({}, 0), ({"bias": bias}, bias), ({"out": c, "accumulate": True}, c):
            given = {name: value.copy() if name == "out" else value for name, value in given.items()}
            np.testing.assert_array_equal(matmul(a, b, product=product(True), **given), by_formula(a, b, start))


def test_batches_and_slices():
    a, b = random(3, 40, 70)[:, :33, 2:69], random(67, 50).T[7:].T
    out = batched_matmul(a, b, product=product(True))
    np.testing.assert_array_equal(out, [by_formula(x, b) for x in a])
    pairs = batched_matmul(a, np.stack([b] * 3), product=product(True))
    np.testing.assert_array_equal(pairs, out)


PRODUCTS = {  # a * b for one number each
    "ties go to even": (1 + 2.0**-8, 1, 1), "and upwards": (1 + 3 * 2.0**-8, 1, 1 + 2.0**-6),
    "above the tie": (1 + 2.0**-8 + 2.0**-20, 1, 1 + 2.0**-7), "overflow to infinity": (3.4e38, 1, INF),
    "the largest": (2.0**127 * (2 - 2.0**-7), 1, 2.0**127 * (2 - 2.0**-7)), "infinity": (-INF, 2, -INF), "NaN": (NAN, 1, NAN),
    "NaN of all ones": (np.uint32(0x7FFFFFFF).view(np.float32), 1, NAN), "infinity times 0": (INF, 0, NAN),
    "a denormal is 0": (TINY / 2, 2.0**100, 0), "infinity times a denormal": (INF, TINY / 2, NAN),
    "a product below 2^-126 is 0": (2.0**-100, 2.0**-27, 0), "the smallest": (2.0**-100, 2.0**-26, TINY),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_one_product(name):
    a, b, expected = (np.full((1, 1), value, np.float32) for value in PRODUCTS[name])
    for x, y in (a, b), (b, a):
        np.testing.assert_array_equal(matmul(x, y, product=product(True)), expected)


def scaled(numbers, shape, low, high):
    """Random numbers from 2^low to 2^high, denormal ones too, as many at each power."""
    mantissa, sign = numbers.uniform(1, 2, shape), numbers.choice([-1, 1], shape)
    return np.ldexp(mantissa * sign, numbers.integers(low, high, shape)).astype(np.float32)


@np.errstate(all="ignore")
def bits_of_many() -> str:
    """A digest of products with exponents of every size, and of infinities and NaN."""
    numbers, digest = np.random.default_rng(0), hashlib.sha256()
    for M, K, N in (70, 300, 90), (9, 1100, 33):
        any_bits = [numbers.integers(0, 2**32, shape, np.uint32).view(np.float32) for shape in ((M, K), (K, N))]
        ranges = ((-20, 20), (-20, 20)), ((-132, -118), (-4, 4)), ((-70, -55), (-75, -60)), ((50, 64), (50, 64))
        for x, y in any_bits, *([scaled(numbers, (M, K), *a), scaled(numbers, (K, N), *b)] for a, b in ranges):
            out = matmul(x, y, product=product(True))
            out[np.isnan(out)] = 0  # which NaN it is depends on the processor
            digest.update(out.tobytes())
    return digest.hexdigest()


def has(cpu):
    path = pathlib.Path("/proc/cpuinfo")
    flags = set(path.read_text().split()) if path.exists() else set()
    return "fma" in flags and (AVX512 not in CPUS[cpu]["NUMBA_CPU_FEATURES"] or "avx512vl" in flags)


@pytest.mark.parametrize("cpu", [
    pytest.param("haswell", marks=pytest.mark.skipif(not has("haswell"), reason="needs AVX2")),
    pytest.param("skylake-avx512", marks=pytest.mark.skipif(not has("skylake-avx512"), reason="needs AVX-512")),
])
@pytest.mark.long
def test_processors_without_the_instruction_have_the_same_bits(cpu):
    code = "from test_bfloat16 import bits_of_many; print(bits_of_many())"
    folder = os.path.dirname(__file__)
    environment = os.environ | CPUS[cpu] | {"PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == bits_of_many()


def test_threads_do_not_change_bits():
    a, b = random(300, 200), random(200, 300)
    wide = batched_matmul(random(4, 80, 90), random(4, 90, 70), product=product(True))
    both, before = matmul(a, b, product=product(True)), mg.get_num_threads()
    try:
        mg.set_num_threads(1)
        np.testing.assert_array_equal(matmul(a, b, product=product(True)), both)
        np.testing.assert_array_equal(
            batched_matmul(random(4, 80, 90), random(4, 90, 70), product=product(True)), wide)
    finally:
        mg.set_num_threads(before)


def test_memory_around_is_left_alone():
    wide = np.full((9, 30), 7, np.float32)
    matmul(random(9, 41), random(41, 21), out=wide[:, 4:25], product=product(True))
    assert (wide[:, :4] == 7).all() and (wide[:, 25:] == 7).all()
