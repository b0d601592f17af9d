"""The kernel cache: never stale, never in the way. And the gate through which arrays enter kernels."""
import shutil

import numba
import numpy as np
import pytest

from minigrad.kernels import jit

source = '''
from minigrad.kernels.jit import kernel

@kernel
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
'''


@pytest.fixture
def fresh_kernel(tmp_path, monkeypatch):
    """A function that makes the kernel anew, as a new process would, with its cache in an empty folder."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(jit, "cache_folder", lambda: folder)

    def make():
        namespace = {"__name__": "tests.double"}
        exec(compile(source, "double.py", "exec"), namespace)
        return namespace["double"]

    return make


def works(kernel):
    out = np.empty(3)
    kernel(np.arange(3.0), out)
    return out.tolist() == [0.0, 2.0, 4.0]



def test_a_second_process_loads_what_the_first_compiled(fresh_kernel):
    first = fresh_kernel()
    assert works(first) and len(list(jit.cache_folder().iterdir())) == 1
    second = fresh_kernel()
    assert works(second)
    signature = second.dispatcher.signatures[0]
    assert second.dispatcher._cache.load_overload(signature, second.dispatcher.targetctx) is not None


def damage(content: bytes, how: str) -> bytes:
    middle = len(content) // 2
    return {
        "truncated": content[:middle],
        "flipped bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "empty": b"",
        "other file": b"something else" * 100,
    }[how]


@pytest.mark.parametrize("how", ["truncated", "flipped bit", "empty", "other file"])
def test_a_damaged_file_is_compiled_again(fresh_kernel, how):
    assert works(fresh_kernel())
    (file,) = jit.cache_folder().iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole, how))
    kernel = fresh_kernel()
    assert works(kernel)
    assert kernel.dispatcher._cache.load_overload(kernel.dispatcher.signatures[0], kernel.dispatcher.targetctx) is not None


def test_a_folder_that_vanished_is_no_error(fresh_kernel):
    shutil.rmtree(jit.cache_folder())
    assert works(fresh_kernel())


def test_without_any_writable_folder_kernels_still_run(fresh_kernel, monkeypatch):
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    assert works(fresh_kernel())


def test_addresses_of_this_process_are_not_kept(fresh_kernel):
    @jit.kernel
    def threads(out):
        out[0] = numba.get_num_threads()

    out = np.empty(1)
    threads(out)
    assert out[0] == jit.get_num_threads() and not list(jit.cache_folder().iterdir())


def test_unwritable_places_are_passed_over(tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("no folder can be made below this")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a-file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jit, "SOURCES", tmp_path / "a-file")
    assert jit.cache_folder.__wrapped__().parent == tmp_path / "home" / "minigrad"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-file"))
    assert jit.cache_folder.__wrapped__() is None


def test_a_change_in_any_kernel_file_changes_the_folder(tmp_path):
    sources = tmp_path / "kernels"
    shutil.copytree(jit.SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    before = jit._source_hash(sources)
    for path in sorted(sources.glob("*.py")):
        text = path.read_text()
        path.write_text(text + "\n# changed\n")
        assert jit._source_hash(sources) != before
        path.write_text(text)
    assert jit._source_hash(sources) == before


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


@pytest.mark.parametrize("count", [0, -1, 10_000, 1.0, "2"])
def test_a_wrong_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match="expected a number of threads from 1 to"):
        jit.set_num_threads(count)
