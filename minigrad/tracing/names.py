"""What to call a tensor: as the variable that holds it where it is computed, and a parameter by its path."""
import dis
import functools
import itertools
import os
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..backend import is_tensor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
INSIDE = tuple(os.path.join(ROOT, package) + os.sep for package in ("minigrad", "nn", "models"))  # not the user's code


def frames_within(frame: types.FrameType, outermost: types.FrameType) -> list[types.FrameType]:
    """The frames from the outermost one inwards."""
    found = [frame]
    while found[-1] is not outermost and found[-1].f_back is not None:
        found.append(found[-1].f_back)
    return found[::-1]


def has_names(frame: types.FrameType, traced: types.CodeType) -> bool:
    """Are the variables of this frame names that a reader knows?

    Those of users are, and of the traced code, whosever it is; and a fused op that is spelled out is there to be read.
    """
    return frame.f_code is traced or _is_spelled_out(frame) or not frame.f_code.co_filename.startswith(INSIDE)


def _is_spelled_out(frame: types.FrameType) -> bool:
    """Is it of an op's `definition`, or of a function of the same file that this calls?"""
    before = frame.f_back
    if before is None or frame.f_code.co_name == "definition":
        return before is not None
    is_forward = before.f_code.co_name == "definition"
    return is_forward or before.f_code.co_filename == frame.f_code.co_filename and _is_spelled_out(before)


def tensors_in(frame: types.FrameType, has_names: bool) -> Iterator[tuple[str, Any]]:
    """(name, Tensor) of the variables that code can see: its own, those of functions around it, globals that it uses.

    Of a module (whatever has named_parameters) the parameters, by their path: these alone, if the frame has no names.
    """
    used = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    for name, value in {**used, **frame.f_locals}.items():
        if isinstance(value, type):
            continue
        if is_tensor(value):
            if has_names:
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


def numbered(names: list[str], ranks: list[Any]) -> list[str]:
    """No name twice: of several that are alike, the one of the smallest rank keeps it, and the others get a number, which
    says the how manieth of the name they are.

    >>> numbered(["h", "x", "h", "x", "h"], [2, 0, 1, 1, 0])
    ['h_1', 'x', 'h_2', 'x_2', 'h']
    """
    keeper = {}
    for i, name in sorted(enumerate(names), key=lambda item: ranks[item[0]]):
        keeper.setdefault(name, i)
    taken, counts, found = set(names), Counter(), []
    for i, name in enumerate(names):
        counts[name] += 1
        if i != keeper[name]:
            name = next(other for n in itertools.count(counts[name]) if (other := f"{name}_{n}") not in taken)
            taken.add(name)
        found.append(name)
    return found
