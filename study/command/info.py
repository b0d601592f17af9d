"""`minigrad info`: what a bug report needs."""
import argparse
import os
import pathlib
import platform
import re

import minigrad as mg
from study.command import DISTRIBUTION, version
from minigrad.extend import cache_folder, multiplies_bfloat16, threading_layer


def add_flags(parser: argparse.ArgumentParser) -> None:
    """It has none of its own."""


def run(options: argparse.Namespace) -> int:
    rows = {
        "minigrad": version(DISTRIBUTION),
        **{name: version(name) for name in ("numpy", "numba", "llvmlite", "matplotlib", "tqdm")},
        "python": f"{platform.python_version()} on {platform.system()}",
        "cpu": cpu_name(),
        "bfloat16": "multiplied by the processor" if multiplies_bfloat16() else "multiplied as float32",
        "cores": os.cpu_count(),
        "threads": mg.get_num_threads(),
        "threading layer": threading_layer(),
        "kernel cache": cache_folder() or "none: kernels are compiled in every process; name a folder with NUMBA_CACHE_DIR",
    }
    for name, value in rows.items():
        print(f"{name:15}  {value}")
    return 0


def cpu_name() -> str:
    """The model of the processor, if the system tells."""
    try:
        names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        names = []
    return names[0] if names else platform.processor() or platform.machine()
