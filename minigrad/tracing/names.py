"""Names of traced tensors: the variables that hold them in the user's code, and the paths of parameters."""
import dis
import functools
import itertools
import os
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ..backend import is_tensor
from .steps import TracedTensor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
INSIDE = tuple(os.path.join(ROOT, package) + os.sep for package in ("minigrad", "nn", "models"))  # not the user's code

Find = Callable[[Any], TracedTensor | None]  # the record of a Tensor, if there is one


class Naming:
    """Collects candidates for names while a trace records, and gives each tensor one at the end."""

    def __init__(self):
        self.outermost = None  # the frame whose variables name tensors, and those of the frames inside it
        self._traced = None  # the code of the traced function, or around the block
        self._depth: dict[TracedTensor, int] = {}  # of the variable that named it: how many frames inside the outermost
        self._suggested: dict[TracedTensor, tuple[str, int]] = {}  # (name, depth) for what no variable holds
        self._instruction = None  # the user's instruction that made the last output
        self._previous = None  # that output
        self._expected = None  # (output, frame, instruction, variable) of an assignment that is still to run

    def start(self, outermost: types.FrameType, traced: types.CodeType | None) -> None:
        self.outermost, self._traced = outermost, traced

    def suggest(self, tensor: TracedTensor, name: str) -> None:
        """A name that any variable's goes before."""
        self._suggested[tensor] = name, sys.maxsize

    def expect(self, output: TracedTensor, innermost: types.FrameType) -> None:
        """Suggest the variable that the user's code is about to assign the output to."""
        frames = frames_within(innermost, self.outermost)
        depth = max((i for i, frame in enumerate(frames) if has_names(frame, self._traced)), default=0)
        frame = frames[depth]
        instruction, name = (id(frame), frame.f_lasti), assigned(frame)
        if instruction == self._instruction:  # the output before was only a part of the assigned expression
            self._suggested.pop(self._previous, None)
        if name is not None:
            self._suggested[output] = name, depth
            self._expected = output, frame, frame.f_lasti, name
        self._instruction, self._previous = instruction, output

    def check_expected(self, find: Find) -> None:
        """Drop the suggestion if the variable now holds a collection, or another tensor."""
        if self._expected is None or self._expected[1].f_lasti == self._expected[2]:  # the assignment has not run yet
            return
        output, frame, _, name = self._expected
        self._expected = None
        value = frame.f_locals.get(name)
        if isinstance(value, (list, tuple, dict, set)) or is_tensor(value) and find(value) not in (None, output):
            self._suggested.pop(output, None)

    def set_by_hand(self, tensor: TracedTensor, name: str) -> None:
        """The name that the user gave it, which goes before all others."""
        tensor.name = name
        self._depth.pop(tensor, None)

    def read_variables(self, innermost: types.FrameType, find: Find) -> None:
        """Name what variables hold now; a tensor's first name stays."""
        for depth, frame in enumerate(frames_within(innermost, self.outermost)):
            for name, tensor in tensors_in(frame, has_names(frame, self._traced)):
                kept = find(tensor)
                if kept is not None and not kept.name:
                    kept.name, self._depth[kept] = name, depth

    def finish(self, tensors: list[TracedTensor], ops: dict[TracedTensor, str]) -> None:
        """Name the rest after their ops, and make all names different."""
        self.outermost = self._expected = None
        found = [self._name_and_rank(tensor, i) for i, tensor in enumerate(tensors)]
        names = [name or ops.get(tensor, tensor.kind) for tensor, (name, _) in zip(tensors, found)]
        for tensor, name in zip(tensors, numbered(names, [rank for _, rank in found])):
            tensor.name = name

    def _name_and_rank(self, tensor: TracedTensor, i: int) -> tuple[str, tuple]:
        """A name, if there is one, and a rank: of several tensors with one name an input keeps it, else what was named by
        hand, else the last value of the outermost variable."""
        name, depth = (tensor.name, self._depth.get(tensor)) if tensor.name else self._suggested.get(tensor, ("", None))
        if tensor.kind == "input":
            return name, (0, i)
        if depth is not None:
            return name, (2, depth, -i)
        return name, (1 if name else 3, i)


def frames_within(frame: types.FrameType, outermost: types.FrameType) -> list[types.FrameType]:
    """The frames from the outermost one inwards."""
    found = [frame]
    while found[-1] is not outermost and found[-1].f_back is not None:
        found.append(found[-1].f_back)
    return found[::-1]


def has_names(frame: types.FrameType, traced: types.CodeType) -> bool:
    """Do this frame's variables name tensors? In users' code, in the traced code whoever wrote it, and in the definition of
    a fused op."""
    return frame.f_code is traced or _is_spelled_out(frame) or not frame.f_code.co_filename.startswith(INSIDE)


def _is_spelled_out(frame: types.FrameType) -> bool:
    """Is it an op's `definition`, or a function of the same file called from there?"""
    before = frame.f_back
    if before is None or frame.f_code.co_name == "definition":
        return before is not None
    is_forward = before.f_code.co_name == "definition"
    return is_forward or before.f_code.co_filename == frame.f_code.co_filename and _is_spelled_out(before)


def tensors_in(frame: types.FrameType, has_names: bool) -> Iterator[tuple[str, Any]]:
    """(name, Tensor) of the variables that the code can see: locals, those of enclosing functions, globals that it uses;
    and of modules their parameters, by path. Without `has_names`, of the parameters only."""
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
    """The variable that the running expression is assigned to: output, in `output = weights @ v`."""
    return _assignments(frame.f_code).get(frame.f_lasti)


@functools.lru_cache(256)
def _assignments(code: types.CodeType) -> dict[int, str]:
    """{offset of an instruction or of its caches: the variable that the next instruction stores the result in}"""
    found = {}
    for instruction, following in itertools.pairwise(dis.get_instructions(code)):
        if following.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
            name = following.argval  # a pair if two stores are one instruction
            places = range(instruction.offset, following.offset, 2)
            found |= dict.fromkeys(places, name if isinstance(name, str) else name[0])
    return found


def numbered(names: list[str], ranks: list[Any]) -> list[str]:
    """Make names different: of several equal ones, that with the smallest rank stays, and the others get their number among
    them.

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
