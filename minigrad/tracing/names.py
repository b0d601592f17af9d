"""What to call a tensor: as the variable that holds it where it is computed, and a parameter by its path."""
import dis
import functools
import itertools
import os
import types
from collections.abc import Iterator
from typing import Any

from ..protocol import is_tensor

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def frames_within(frame: types.FrameType, outermost: types.FrameType) -> list[types.FrameType]:
    """The frames whose variables have names worth knowing, from the outermost inwards.

    Those of the library say self and x; but a definition of a fused op is there to be read.
    """
    found = []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name == "definition" or "spelled_out" in code.co_name:
            found.append(frame)
        if frame is outermost:
            break
        frame = frame.f_back
    return found[::-1]


def tensors_in(frame: types.FrameType) -> Iterator[tuple[str, Any]]:
    """(name, Tensor) of the variables that code can see: its own, those of functions around it, globals that it uses.

    Of a module (whatever has named_parameters) the parameters, by their path.
    """
    used = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    for name, value in {**used, **frame.f_locals}.items():
        if isinstance(value, type):
            continue
        if is_tensor(value):
            yield name, value
        elif hasattr(value, "named_parameters"):
            yield from value.named_parameters()


def assigned(frame: types.FrameType) -> str | None:
    """The variable that takes the result of what the frame is running: output, in `output = weights @ v`."""
    return _assignments(frame.f_code).get(frame.f_lasti)


@functools.lru_cache(256)
def _assignments(code: types.CodeType) -> dict[int, str]:
    """{where an instruction or its caches stand: the variable in which the next one stores what it gave}"""
    found = {}
    for instruction, following in itertools.pairwise(dis.get_instructions(code)):
        if following.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
            name = following.argval  # a pair, if the instruction after it is joined to it
            places = range(instruction.offset, following.offset, 2)
            found |= dict.fromkeys(places, name if isinstance(name, str) else name[0])
    return found


def unique(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken: x, x_2, x_3."""
    numbered = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    return next(candidate for candidate in numbered if candidate not in taken)
