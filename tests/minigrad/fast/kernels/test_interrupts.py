"""Ctrl-C while a kernel is compiled is handled afterwards, and does no damage."""
import os
import signal

import pytest
from numba.core.caching import NullCache
from numba.extending import intrinsic

from minigrad.fast.kernels import cache, interrupts, jit

typed = []  # what the compiler did after Ctrl-C


@pytest.fixture
def interrupted_kernel(monkeypatch):
    """A kernel whose first compilation is interrupted by Ctrl-C, in the middle of a pass."""
    @intrinsic
    def same(typing_context, x):
        if not typed:
            os.kill(os.getpid(), signal.SIGINT)
        typed.append(x)
        return x(x), lambda context, builder, signature, values: values[0]

    @jit.kernel
    def kernel(x):
        return same(x)

    typed.clear()
    monkeypatch.setattr(kernel.dispatcher, "_cache", NullCache())
    return kernel


@pytest.fixture
def handle():
    """A function that sets the handler of Ctrl-C until the end of the test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


def test_it_is_handled_once_the_kernel_is_compiled_which_can_be_called_later(interrupted_kernel):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupted_kernel(1.0)
    assert typed and signal.getsignal(signal.SIGINT) is before
    typed_before = len(typed)
    assert interrupted_kernel(1.0) == 1.0 and len(typed) == typed_before


def test_a_handler_is_called_and_may_set_another(interrupted_kernel, handle):
    called = []

    def remember(number, frame):
        called.append(number)
        signal.signal(number, signal.default_int_handler)

    handle(remember)
    assert interrupted_kernel(1.0) == 1.0
    assert called == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_may_be_ignored(interrupted_kernel, handle):
    handle(signal.SIG_IGN)
    assert interrupted_kernel(1.0) == 1.0 and signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("error", [None, ValueError])
def test_it_is_handled_whatever_else_is_raised(error):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.postponed():
        signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error
    assert signal.getsignal(signal.SIGINT) is before


def test_what_a_handler_raises_while_a_kernel_is_loaded_is_not_taken_for_damage(handle, monkeypatch):
    class Stop(Exception):
        """Not an interruption to Python."""

    def stop(*_):
        raise Stop

    handle(stop)
    monkeypatch.setattr(cache, "_read", lambda path: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Stop):
        cache.KernelCache._load(None, "file", None)
