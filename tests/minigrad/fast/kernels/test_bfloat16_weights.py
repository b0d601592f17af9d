"""Weights in bfloat16 in a decoding program: the bits that the same numbers give in float32."""
import itertools

import numpy as np
import pytest

from minigrad.extend import from_bfloat16
from minigrad.fast.kernels.jit import get_num_threads, set_num_threads
from minigrad.fast.kernels.program import Program
from refusals import all_refused

INPUTS, OUTPUTS = [2, 7, 16, 100, 385, 1025], [1, 15, 64, 300]
TOKENS = 9


def random_bits(*shape: int) -> np.ndarray:
    """Finite bfloat16 numbers of all magnitudes that sums of products leave finite, denormals and both zeros among them."""
    generator = np.random.default_rng([*shape])
    return (generator.integers(0, 0x4400, shape) | generator.integers(0, 2, shape) << 15).astype(np.uint16)


def run(table, weight, bias, rows, accumulate=False, activation=None):
    """The last register of: x = table[ids]; out = x @ first.T; out = [out +] x @ weight.T [+ bias], perhaps activated."""
    outputs, inputs = weight.shape
    program = Program(np.float32, heads=1, width=inputs, context=1)
    x, out, activated = program.register(inputs), program.register(outputs), program.register(outputs)
    program.embed(table, None, 0.5, x)
    if accumulate:
        program.linear(x, weight[::-1], None, out)
    program.linear(x, weight, bias, out, accumulate, activation, activated)
    return program.run(np.arange(rows)[:, None] % len(table), 0, *program.caches(rows)).copy()


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 8, 40])
def test_bits_are_those_of_the_widened_numbers(rows):
    threads = get_num_threads()
    for inputs, outputs, accumulate, has_bias in itertools.product(INPUTS, OUTPUTS, (False, True), (False, True)):
        table, weight = random_bits(TOKENS, inputs), random_bits(outputs, inputs)
        bias = np.linspace(-1, 1, outputs, dtype=np.float32) if has_bias else None
        expected = run(from_bfloat16(table), from_bfloat16(weight), bias, rows, accumulate)
        assert np.isfinite(expected).all() and expected.any()
        try:
            for count in {1, threads}:
                set_num_threads(count)
                assert run(table, weight, bias, rows, accumulate).tobytes() == expected.tobytes(), (inputs, outputs)
        finally:
            set_num_threads(threads)


def test_infinities_and_nan_go_through():
    weight = np.array([[0x7F80, 0], [0xFF80, 0], [0x7FC0, 0], [0xFFFF, 0], [0x3F80, 0]], np.uint16)
    for rows in (1, 8):
        out = run(np.full((1, 2), 0x4000, np.uint16), weight, None, rows)
        np.testing.assert_array_equal(out, [[np.inf, -np.inf, np.nan, np.nan, 1.0]] * rows)


def test_other_arrays_must_have_the_dtype_of_the_program():
    def build(dtype, table, positions, weight, bias):
        program = Program(dtype, heads=1, width=2, context=2)
        x, out = program.register(2), program.register(2)
        program.embed(table, positions, 1.0, x)
        program.linear(x, weight, bias, out)

    bits, single, double = random_bits(2, 2), np.zeros((2, 2), np.float32), np.zeros((2, 2))
    expected = "a program of {} expects arrays of that dtype, got {}"
    all_refused(lambda row: build(*row), [
        ((np.float32, single, bits, single, None), expected.format("float32", "uint16")),
        ((np.float32, single, None, single, bits[0]), expected.format("float32", "uint16")),
        ((np.float32, single, None, bits.view(np.int16), None), expected.format("float32", "int16")),
        ((np.float64, double, None, bits, None), expected.format("float64", "uint16")),
        ((np.float64, bits, None, double, None), expected.format("float64", "uint16")),
    ])
