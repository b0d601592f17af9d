"""The gate for kernels' arrays, and the independence of kernels from each other's machine code."""
import importlib
import pkgutil

import numpy as np
import pytest
from llvmlite.binding import Linkage
from numba import float64
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import check_same_bits
from minigrad.fast import kernels
from minigrad.fast.kernels import jit
from minigrad.fast.kernels.rows import row_kernel
from minigrad.fast.kernels.simd import pointer


@jit.jit
def mean(x):
    total = x[0]
    for i in range(1, x.size):
        total += x[i]
    return total / x.size


@jit.kernel
def centre(x, out):
    for i in range(x.size):
        out[i] = x[i] - mean(x)


def test_a_kernels_machine_code_is_its_own(monkeypatch):
    anew = jit.kernel(centre.dispatcher.py_func)
    monkeypatch.setattr(anew.dispatcher, "_cache", NullCache())  # code loaded from the cache does not show this
    out = np.empty(4)
    anew(np.arange(4.0), out)
    assert out.tolist() == [-1.5, -0.5, 0.5, 1.5]
    (compiled,) = anew.dispatcher.overloads.values()
    shared = [function.name for function in compiled.library._final_module.functions
              if not function.is_declaration and function.linkage != Linkage.internal]
    assert sorted(shared) == sorted([compiled.fndesc.llvm_func_name, compiled.fndesc.llvm_cpython_wrapper_name])


def test_a_part_is_compiled_once_for_all_integers():
    @jit.jit
    def sum_of_three(a, b, c):
        return a + b + c

    @jit.kernel
    def write_sums(n, out):
        out[0] = sum_of_three(n, 1, 2) + sum_of_three(3, n, n)

    write_sums.dispatcher._cache = NullCache()  # loading from the cache compiles no parts
    out = np.empty(1)
    write_sums(5, out)
    assert out == 8 + 13
    assert len(sum_of_three.overloads) == 1


def test_a_part_does_not_depend_on_its_first_caller():
    """Numba would pass on some options from the first caller."""
    @jit.jit
    def third(x):
        return x / 3

    @jit.jit(forceinline=True)
    def forced(x):
        return third(x)

    @jit.kernel
    def third_of(x):
        return forced(x)

    third_of.dispatcher._cache = NullCache()
    assert third_of(6.0) == 2.0
    (compiled,) = third.overloads.values()
    assert "alwaysinline" not in str(compiled.library._final_module)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_machine_code_for_other_types_is_not_used(dtype):
    """That for float64 would read beyond the end of float32 arrays."""
    x, out = np.arange(4, dtype=dtype), np.zeros(4, dtype)
    centre(np.arange(4.0), np.empty(4))
    function, arguments = jit.resolved(centre.dispatcher, (x, out))
    function(*arguments)
    assert out.tolist() == [-1.5, -0.5, 0.5, 1.5]


@jit.library
def half(x):
    return x / 2


@jit.jit
def quarter(x):
    return half(half(x))


@jit.kernel
def quarter_of(x):
    return quarter(x)


half_from_disk = jit.library(half.py_func)


@jit.kernel
def half_of(x):
    return half(x)


@jit.kernel
def half_from_disk_of(x):
    return half_from_disk(x)


@pytest.mark.parametrize("caller", [half_of, half_from_disk_of, quarter_of])
def test_a_kernel_cannot_call_another_by_name(caller, monkeypatch):
    """The other may have been loaded as machine code only, and the call would go nowhere."""
    half.compile((float64,))  # so that its namesake is loaded
    monkeypatch.setattr(caller.dispatcher, "_cache", NullCache())
    with pytest.raises(TypeError, match="half.* by name; make it with `jit`"):
        caller(1.0)


@pytest.mark.long
def test_the_process_that_compiles_gets_the_same_bits_as_others(tmp_path):
    """A short form of tests/check_same_bits.py."""
    runs = [check_same_bits.run(tmp_path, order, only="LayerNorm-(70,33)x(33,)x()-eps=0.01-float32") for order in range(2)]
    assert len(runs[0]) == 3 and check_same_bits.differing(runs) == []


def test_the_gate_copies_only_what_a_kernel_would_misread():
    plain = np.arange(6.0).reshape(2, 3)
    assert jit.ready(plain) is plain
    unaligned = np.zeros(49, np.uint8)[1:].view(np.float64).reshape(2, 3)
    unaligned[...] = plain
    locked = plain.copy()
    locked.flags.writeable = False
    for array in (plain.astype(">f8"), unaligned, locked, plain[:, ::-1][:, ::-1].T.T[::1], np.asfortranarray(plain)):
        copy = jit.ready(array)
        assert copy.flags.carray and copy.dtype.isnative
        np.testing.assert_array_equal(copy, plain)


@jit.kernel
def first_by_pointer(x):
    return pointer(x, 0)[0]


@row_kernel
def first_of_rows(row, size, x, out):
    out[row] = x[row * size]


@pytest.mark.parametrize("x", [np.ones(8)[::-1], np.ones((4, 4)).T[:2], None, 1.0], ids=["reversed", "cut", "none", "a number"])
def test_arrays_that_a_pointer_would_misread_are_refused(x):
    """At compile time, so it costs calls nothing."""
    with pytest.raises(TypeError, match="^kernels take arrays in C order here, got .*; call them through the gate, `jit.ready`$"):
        first_by_pointer.ungated(x)
    if isinstance(x, np.ndarray):
        with pytest.raises(TypeError, match="^kernels take arrays in C order here"):
            first_of_rows.ungated(np.ones((2, 2)), x)


@pytest.mark.parametrize("count", [0, -1, 10_000, 1.0, "2"])
def test_a_wrong_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match="expected a number of threads from 1 to"):
        jit.set_num_threads(count)


def parts_of_kernels():
    """Every function that kernels call: compiled by Numba, or emitting instructions."""
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}.")]
    return {part for module in modules for part in vars(module).values() if isinstance(part, (Dispatcher, _Intrinsic))}


def test_python_cannot_call_functions_of_kernels():
    """The interpreter would jump to address 0."""
    for part in parts_of_kernels():
        words = f"^{part.__name__} is a part of kernels: they call it, Python cannot$|is not usable in pure-python$"
        for arguments in (), (-1.0,), (np.zeros((2, 3)), np.zeros(3, np.float32)), (0,) * 30:
            for options in {}, {"x": 1}:
                with pytest.raises((TypeError, NotImplementedError), match=words):
                    part(*arguments, **options)


def test_python_cannot_call_a_compiled_part_either():
    centre(np.arange(4.0), np.empty(4))
    with pytest.raises(TypeError, match="^mean is a part of kernels: they call it, Python cannot$"):
        mean(np.arange(4.0))
    with pytest.raises(TypeError, match="takes no arguments"):
        mean.compile((float64[::1],))(np.arange(4.0))
    assert mean.py_func(np.arange(4.0)) == 1.5
