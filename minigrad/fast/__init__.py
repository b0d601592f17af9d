"""The engine room: it computes what `minigrad.ops` says, only faster, with kernels. Nothing below imports it.

Without Numba, or with MINIGRAD_FAST=0, plain.py provides the same names.
"""
import importlib.util
import os
from typing import TYPE_CHECKING

from ..per_thread import this_thread

IS_WANTED = os.environ.get("MINIGRAD_FAST") != "0"
IS_FAST = IS_WANTED and importlib.util.find_spec("numba") is not None

if TYPE_CHECKING or IS_FAST:
    from .installed import (
        MultiTensorAdam, MultiTensorMuon, MultiTensorStep, cache_folder, compile, compile_ahead,
        get_num_threads, multiplies_bfloat16, norm, set_num_threads, threading_layer,
    )
else:
    from .plain import (
        MultiTensorAdam, MultiTensorMuon, MultiTensorStep, NoticeOfNumba, cache_folder, compile,
        compile_ahead, get_num_threads, multiplies_bfloat16, norm, set_num_threads, threading_layer,
    )
    if IS_WANTED:
        this_thread.runner = NoticeOfNumba()

__all__ = [
    "IS_FAST", "MultiTensorAdam", "MultiTensorMuon", "MultiTensorStep", "cache_folder", "compile",
    "compile_ahead", "get_num_threads", "multiplies_bfloat16", "norm", "set_num_threads", "threading_layer",
]
