"""Names of PyTorch's that people often type and that this library leaves out, with what to use instead.

All others raise Python's own errors. docs/pytorch.md lists these and the keywords that are taken and change nothing.
"""
import functools
import sys
from collections.abc import Mapping
from opcode import opmap
from types import FrameType
from typing import NoReturn

NUMPYS = "use NumPy's on x.numpy(), and mg.from_numpy; mg.Function gives it a gradient"

INSTEAD = {
    "linalg": NUMPYS, "fft": NUMPYS,
    "distributed": "use `mpiexec -n 4 minigrad train`",
    "cdist": "use (a[:, None] - b[None]).norm(dim=-1)",
    "vmap": "use an axis for the batch, along which operations broadcast",
}


def say_what_is_left_out(module: str, instead: Mapping[str, str]) -> None:
    """Give a module its `__getattr__`. Were it written there, type checkers would accept any name."""
    vars(sys.modules[module])["__getattr__"] = functools.partial(left_out, module, instead=instead)


def left_out(module: str, name: str, instead: Mapping[str, str] = INSTEAD) -> NoReturn:
    """What a module's `__getattr__` does: an AttributeError, with what to use instead."""
    message = f"module {module!r} has no attribute {name!r}"
    if name in instead:
        message += f": left out; {instead[name]}"
        if _is_from_import(sys._getframe(1)):
            raise ImportError(message, name=module)
    raise AttributeError(message, name=name, obj=sys.modules[module])


def _is_from_import(frame: FrameType | None) -> bool:
    """Is a module's `__getattr__` called for `from module import name`? Python then drops an AttributeError's message."""
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
