"""Names of traced tensors: the variables that hold them in the user's code, and the paths of parameters."""
import dis
import functools
import inspect
import itertools
import os
import re
import sys
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..backend import is_tensor
from ..drawing.graph import tensors_in
from ..packages import BESIDE, PACKAGES, registered
from ..tensor import Tensor
from .steps import TracedTensor

Find = Callable[[Any], TracedTensor | None]  # the record of a Tensor, if there is one


@functools.cache
def inside() -> tuple[str, ...]:
    """The folders of the library: minigrad, and the packages above it."""
    above = {module.split(".")[0] for module in registered(PACKAGES).values()}
    return tuple(os.path.join(BESIDE, package, "") for package in ("minigrad", *above))


class Naming:
    """Collects candidates for names while a trace records, and gives each tensor one at the end."""

    def __init__(self):
        self.outermost = None  # the frame whose variables name tensors, and those of the frames inside it
        self._folder = None  # of the code that traces: the user's, even if it is inside the library
        self._depth: dict[TracedTensor, int] = {}  # of the variable that named it: how many frames inside the outermost
        self._suggested: dict[TracedTensor, tuple[str, int]] = {}  # (name, depth) for what no variable holds
        self._instruction = None  # the user's instruction that made the last output
        self._previous = None  # that output
        self._calls = 0  # of the user's instructions so far
        self._expected = None  # (output, frame, instruction, variable) of an assignment that is still to run

    def start(self, outermost: types.FrameType, tracer: types.FrameType) -> None:
        self.outermost, self._folder = outermost, os.path.dirname(tracer.f_code.co_filename)

    def suggest(self, tensor: TracedTensor, name: str) -> None:
        """A name that any variable's goes before."""
        self._suggested[tensor] = name, sys.maxsize

    def expect(self, output: TracedTensor, innermost: types.FrameType) -> int:
        """Suggest the variable that the user's code is about to assign the output to, and return the number of its call."""
        frames = frames_within(innermost, self.outermost)
        depth = max((i for i, frame in enumerate(frames) if self._has_names(frame)), default=0)
        frame = frames[depth]
        instruction, name = (frame, frame.f_lasti), assigned(frame)
        if instruction == self._instruction:  # the output before was only a part of the assigned expression
            self._suggested.pop(self._previous, None)
        else:
            self._calls += 1
        if name is not None:
            self._suggested[output] = name, depth
            self._expected = output, frame, frame.f_lasti, name
        self._instruction, self._previous = instruction, output
        return self._calls

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
            for name, tensor in tensors_in(frame, self._has_names(frame)):
                kept = find(tensor)
                if kept is not None and not kept.name:
                    kept.name, self._depth[kept] = name, depth

    def _has_names(self, frame: types.FrameType) -> bool:
        """Do this frame's variables name tensors? In the user's code, and in the definition of a fused op."""
        file = frame.f_code.co_filename
        return not file.startswith(inside()) or os.path.dirname(file) == self._folder or _is_spelled_out(frame)

    def finish(self, tensors: list[TracedTensor], ops: dict[TracedTensor, str]) -> None:
        """Name the rest after their ops, and make all names different."""
        self.outermost = self._expected = self._instruction = None
        found = [self._name_and_rank(tensor, i) for i, tensor in enumerate(tensors)]
        names = [name or ops.get(tensor, tensor.kind) for tensor, (name, _) in zip(tensors, found)]
        for tensor, name in zip(tensors, numbered(names, [rank for _, rank in found])):
            tensor.name = name

    def _name_and_rank(self, tensor: TracedTensor, i: int) -> tuple[str, tuple[Any, ...]]:
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


def _is_spelled_out(frame: types.FrameType) -> bool:
    """Is it an op's `definition`, or a function of the same file called from there?"""
    before = frame.f_back
    if before is None or frame.f_code.co_name == "definition":
        return before is not None
    is_forward = before.f_code.co_name == "definition"
    return is_forward or before.f_code.co_filename == frame.f_code.co_filename and _is_spelled_out(before)


def name_of_op(title: str) -> str:
    """How users call an op.

    >>> [name_of_op(title) for title in ("MatMul", "ScaledDotProductAttention", "RMSNorm")]
    ['matmul', 'scaled_dot_product_attention', 'rms_norm']
    """
    joined, words = title.lower(), re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", title)
    return joined if hasattr(Tensor, joined) else words.lower()


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a function's positional parameters; none if it does not say."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [parameter.name for parameter in found if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]


def assigned(frame: types.FrameType) -> str | None:
    """The variable that the running expression is assigned to: output, in `output = weights @ v`."""
    return _assignments(frame.f_code).get(frame.f_lasti)


@functools.lru_cache(256)
def _assignments(code: types.CodeType) -> dict[int, str]:
    """{offset of an instruction or of its caches: the variable that the next instruction stores the result in}"""
    found: dict[int, str] = {}
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
    keeper: dict[str, int] = {}
    for i, name in sorted(enumerate(names), key=lambda item: ranks[item[0]]):
        keeper.setdefault(name, i)
    taken, found = set(names), []
    counts: Counter[str] = Counter()
    for i, name in enumerate(names):
        counts[name] += 1
        if i != keeper[name]:
            name = next(other for n in itertools.count(counts[name]) if (other := f"{name}_{n}") not in taken)
            taken.add(name)
        found.append(name)
    return found
