"""The kernel cache: never stale, never in the way, and private."""
import os
import pathlib
import shutil
import threading

import numba
import numpy as np
import pytest
from numba.core.compiler import CompileResult

from minigrad.fast.kernels import cache, jit

source = '''
from minigrad.fast.kernels.jit import kernel

@kernel
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
'''


@pytest.fixture
def fresh_kernel(tmp_path, monkeypatch):
    """A function that makes the kernel again, as a new process would, with its cache in an empty folder."""
    cache._meet_prerequisites()  # whose machine code belongs in another folder
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(cache, "cache_folder", lambda: folder)

    def make(formula="2 * x[i]"):
        namespace = {"__name__": "tests.double"}
        exec(compile(source.replace("2 * x[i]", formula), "double.py", "exec"), namespace)
        return namespace["double"]

    return make


def works(kernel):
    out = np.empty(3)
    kernel(np.arange(3.0), out)
    return out.tolist() == [0.0, 2.0, 4.0]


def test_a_second_process_loads_what_the_first_compiled(fresh_kernel):
    first = fresh_kernel()
    assert works(first) and len(list(cache.cache_folder().iterdir())) == 1  # no lock is left
    second = fresh_kernel()
    assert works(second)
    signature = second.dispatcher.signatures[0]
    assert second.dispatcher._cache.load_overload(signature, second.dispatcher.targetctx) is not None


@pytest.mark.parametrize("damaged", [
    lambda content: content[: len(content) // 2], lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    lambda content: b"", lambda content: b"something else" * 100,
], ids=["truncated", "flipped bit", "empty", "other file"])
def test_a_damaged_file_is_compiled_again(fresh_kernel, damaged):
    assert works(fresh_kernel())
    (file,) = cache.cache_folder().iterdir()
    file.write_bytes(damaged(file.read_bytes()))
    kernel = fresh_kernel()
    assert works(kernel)
    assert kernel.dispatcher._cache.load_overload(kernel.dispatcher.signatures[0], kernel.dispatcher.targetctx) is not None


def test_a_folder_that_vanished_is_no_error(fresh_kernel):
    shutil.rmtree(cache.cache_folder())
    assert works(fresh_kernel())


def test_without_any_writable_folder_kernels_still_run(fresh_kernel, monkeypatch):
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    assert works(fresh_kernel())


def test_other_compiler_settings_have_other_files(fresh_kernel, monkeypatch):
    for level in 3, 0:
        monkeypatch.setattr(numba.config, "OPT", numba.core.config._OptLevel(level))
        assert works(fresh_kernel())
    assert len(list(cache.cache_folder().iterdir())) == 2


def test_code_with_addresses_of_this_process_is_not_stored(fresh_kernel):
    @jit.kernel
    def threads(out):
        out[0] = numba.get_num_threads()

    out = np.empty(1)
    threads(out)
    assert out[0] == jit.get_num_threads() and not list(cache.cache_folder().iterdir())


def test_unwritable_folders_are_skipped(tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("no folder can be made below this")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a-file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache.cache_folder.__wrapped__().parent == tmp_path / "home" / "minigrad"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-file"))
    assert cache.cache_folder.__wrapped__() is None


def test_nothing_is_stored_next_to_the_sources(tmp_path, monkeypatch):
    """`pip uninstall` would leave it behind."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "kernels").mkdir()
    monkeypatch.setattr(cache, "SOURCES", tmp_path / "kernels")
    assert cache.cache_folder.__wrapped__().parent == tmp_path / "home" / "minigrad"
    assert not list((tmp_path / "kernels").iterdir())


def test_folders_that_have_been_unused_for_longest_are_deleted(tmp_path, monkeypatch):
    """Enough are kept for several environments and versions in alternating use."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "SOURCES", tmp_path / "kernels")
    (tmp_path / "kernels").mkdir()
    used = []
    for version in [*range(cache.MOST_FOLDERS), 0, cache.MOST_FOLDERS, cache.MOST_FOLDERS + 1]:
        (tmp_path / "kernels/version.py").write_text(str(version))
        folder = cache.cache_folder.__wrapped__()
        (folder / "machine.code").touch()
        used = [*(earlier for earlier in used if earlier != folder), folder]
    assert sorted((tmp_path / "minigrad").iterdir()) == sorted(used[-cache.MOST_FOLDERS:])


def test_compiling_is_announced_once_it_has_taken_a_while(fresh_kernel, monkeypatch, capsys):
    cache._announce.cache_clear()
    monkeypatch.setattr(cache.KernelCache, "seconds", 0.0)

    def said(*dtypes) -> int:
        for dtype in dtypes:
            fresh_kernel()(np.arange(3, dtype=dtype), np.empty(3))
        return capsys.readouterr().err.count("minigrad: compiling kernels")

    monkeypatch.setattr(cache, "A_WHILE", 1e9)
    assert said("f8", "i8") == 0
    monkeypatch.setattr(cache, "A_WHILE", 1e-9)
    assert said("f8", "i8") == 0, "they are loaded"
    assert said("f4", "i4", "i2") == 1
    cache._announce.cache_clear()
    cache.KernelCache.seconds = 0.0
    assert said("i1") == 1 and said("u1") == 0, "while the first is compiled"


def test_a_change_in_any_kernel_file_changes_the_folder(tmp_path):
    sources = tmp_path / "kernels"
    shutil.copytree(cache.SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    before = cache._source_hash(sources)
    for path in sorted(sources.rglob("*.py")):
        text = path.read_text()
        path.write_text(text + "\n# changed\n")
        assert cache._source_hash(sources) != before
        path.write_text(text)
    assert cache._source_hash(sources) == before


def test_the_file_of_another_kernel_is_compiled_again(fresh_kernel):
    assert works(fresh_kernel())
    (file,) = cache.cache_folder().iterdir()
    fresh_kernel("3 * x[i]")(np.arange(3), np.empty(3))  # integers: another file
    (other,) = set(cache.cache_folder().iterdir()) - {file}
    shutil.copy(other, file)
    assert works(fresh_kernel())


@pytest.mark.skipif(cache.fcntl is None, reason="the system knows no locks")
class TestLocks:
    """Only one process at a time compiles a kernel."""

    @pytest.fixture
    def taken(self, fresh_kernel):
        """(a kernel's cache, its arguments, a function that releases the lock), as if another process were compiling it."""
        first = fresh_kernel()
        assert works(first)
        (file,) = cache.cache_folder().iterdir()
        content = file.read_bytes()
        file.unlink()
        held = cache.lock(file.with_suffix(".lock"))
        arguments = first.dispatcher.signatures[0], first.dispatcher.targetctx

        def let_go(written: bytes | None = content):
            if written is not None:
                file.write_bytes(written)
                file.chmod(0o600)
            os.close(held)

        return fresh_kernel().dispatcher._cache, arguments, let_go

    def test_what_another_compiles_is_not_missing(self, taken):
        kernel_cache, arguments, let_go = taken
        assert not kernel_cache.is_missing(*arguments)
        let_go(None)
        assert kernel_cache.is_missing(*arguments)

    def test_a_kernel_is_waited_for(self, taken):
        kernel_cache, arguments, let_go = taken
        timer = threading.Timer(0.05, let_go)
        timer.start()
        assert kernel_cache.load_overload(*arguments) is not None
        timer.join()

    def test_a_kernel_is_not_waited_for_for_ever(self, taken, monkeypatch):
        kernel_cache, arguments, let_go = taken
        monkeypatch.setattr(cache, "PATIENCE", 0.01)
        assert kernel_cache.load_overload(*arguments) is None
        let_go()

    def test_a_process_that_died_is_not_waited_for(self, taken, monkeypatch):
        kernel_cache, arguments, let_go = taken
        let_go(None)
        assert kernel_cache.load_overload(*arguments) is None  # and has the lock from now on
        monkeypatch.setattr(cache, "lock", lambda *arguments: pytest.fail("it waits for itself"))
        assert kernel_cache.load_overload(*arguments) is None

    def test_a_compilation_that_fails_is_not_waited_for(self, fresh_kernel):
        failing = fresh_kernel("missing[i]")
        with pytest.raises(numba.TypingError):
            failing(np.ones(2), np.ones(2))
        assert not list(cache.cache_folder().iterdir())  # no lock is left


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no modes")
class TestOthers:
    """Nothing that others could have written is run."""

    @pytest.fixture
    def found(self, tmp_path, monkeypatch):
        """A function that tells whether the cache is below NUMBA_CACHE_DIR, as it is only if nobody else can write there."""
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        return lambda: tmp_path / "chosen" in cache.cache_folder.__wrapped__().parents

    @pytest.fixture
    def folder(self, found) -> pathlib.Path:
        """The cache."""
        assert found()
        return cache.cache_folder.__wrapped__()

    def test_a_new_folder_is_private(self, found, tmp_path):
        before = os.umask(0)
        try:
            assert found()
        finally:
            os.umask(before)
        made = [tmp_path / "chosen", *(tmp_path / "chosen").rglob("*")]
        assert len(made) == 3 and {path.stat().st_mode & 0o777 for path in made} == {0o700}

    @pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777, 0o1777])
    @pytest.mark.parametrize("level", [0, 1])
    def test_a_folder_that_others_can_write_to_is_skipped(self, found, folder, mode, level):
        [folder, folder.parent][level].chmod(mode)
        assert not found()

    @pytest.mark.parametrize("mode", [0o755, 0o700])
    def test_a_folder_that_others_can_only_read_is_used(self, found, folder, mode):
        folder.chmod(mode)
        assert found()

    def test_a_link_in_place_of_the_folder_is_skipped(self, found, folder, tmp_path):
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        assert not found()

    def test_a_folder_of_another_user_is_skipped(self, folder, monkeypatch):
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        assert cache.cache_folder.__wrapped__() is None

    @pytest.mark.parametrize("mode", [0o620, 0o602])
    def test_a_file_that_others_can_write_to_is_compiled_again(self, fresh_kernel, mode):
        assert works(fresh_kernel())
        (file,) = cache.cache_folder().iterdir()
        assert file.stat().st_mode & 0o777 == 0o600 and cache._read(file) is not None
        file.chmod(mode)
        assert cache._read(file) is None and works(fresh_kernel())


@pytest.mark.parametrize("internal", ["_reduce", "_rebuild"])
def test_if_numba_changes_kernels_still_run_and_a_message_says_that_none_is_stored(fresh_kernel, monkeypatch, capsys, internal):
    if internal == "_rebuild":
        assert works(fresh_kernel())
    monkeypatch.delattr(CompileResult, internal)
    monkeypatch.setattr(cache, "PATIENCE", 0)
    assert works(fresh_kernel()) and works(fresh_kernel())
    assert not list(cache.cache_folder().glob("*.lock")), "another process would wait for a file that never comes"
    said = [line for line in capsys.readouterr().err.splitlines() if "compiled in every process" in line]
    assert len(said) == 1 and internal in said[0]


def test_a_prerequisite_that_failed_is_tried_again(monkeypatch):
    attempts = []

    def prerequisite():
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(cache, "prerequisites", [prerequisite])
    with pytest.raises(KeyboardInterrupt):
        cache._meet_prerequisites()
    for _ in range(2):
        cache._meet_prerequisites()
    assert len(attempts) == 2
