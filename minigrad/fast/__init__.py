"""The engine room: what makes it fast. It does what `minigrad.ops` says, by kernels, and nothing below knows of it.

It is there if Numba is installed, unless MINIGRAD_FAST=0 is set; else plain.py stands in for it.
"""
import importlib.util
import os

from ..per_thread import this_thread

IS_WANTED = os.environ.get("MINIGRAD_FAST") != "0"
IS_FAST = IS_WANTED and importlib.util.find_spec("numba") is not None

if IS_FAST:
    from .installed import (
        ACTIVATIONS, LIBRARIES, FusedAdam, FusedMuon, FusedStep, Program, cache_folder, compile, compile_ahead,
        get_num_threads, keep_grad_in, norm, sample, set_num_threads, threading_layer,
    )
else:
    from .plain import (
        ACTIVATIONS, LIBRARIES, FusedAdam, FusedMuon, FusedStep, NoticeOfNumba, Program, cache_folder, compile,
        compile_ahead, get_num_threads, keep_grad_in, norm, sample, set_num_threads, threading_layer,
    )
    if IS_WANTED:
        this_thread.runner = NoticeOfNumba()

__all__ = [
    "ACTIVATIONS", "IS_FAST", "LIBRARIES", "FusedAdam", "FusedMuon", "FusedStep", "Program", "cache_folder", "compile",
    "compile_ahead", "get_num_threads", "keep_grad_in", "norm", "sample", "set_num_threads", "threading_layer",
]
