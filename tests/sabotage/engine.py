"""The tape, its guard of memory that is written to, and recordings, each broken in turn."""
import sys

import numpy as np

from minigrad import compiled, creation, recording, tape, writes
from minigrad.tensor import wrap
from sabotage.base import Sabotage
from sabotage.edit import edit

tensor = sys.modules["minigrad.tensor"]  # in the package, `tensor` is the function

COMPILED = ("tests/minigrad/test_compiled_changes.py", "tests/minigrad/test_compiled.py")
TAPE = ("tests/minigrad/test_tape.py", "tests/minigrad/test_in_place.py")


def replaced(owner, name: str, make):
    """A sabotage's `apply`: owner.name becomes make(what it was)."""
    return lambda: setattr(owner, name, make(getattr(owner, name)))


def nothing(original):
    return lambda *arguments, **options: None


def in_the_pool(original):
    def accumulate(self, node, gradient):
        self.is_differentiated = True
        node.accumulate(self.lent(gradient), True)
        self.calls.append((node.accumulate, (self.lent(gradient), True)))
    return accumulate


def without_hooks(original):
    def is_current(self):
        return self.generation == recording.generation and all(
            tensor.array is array and tensor.node is node for tensor, array, node in self.sources)
    return is_current


def of_nobody(original):
    def check(self, node, is_leaf):
        if node.hooks or node.retains_grad:
            original(self, node, is_leaf)
    return check


def kept_on_tape(original):
    def note_write(array, is_on_tape=False):
        original(array, False)
    return note_write


def once(original):
    return lambda draw, requires_grad=False: wrap(draw(creation.random.generator())).requires_grad_(requires_grad)


def always_fresh(original):
    def accumulate(self, gradient, fresh):
        original(self, gradient, True)
    return accumulate


SABOTAGES = [
    Sabotage(f"compile: {name}", COMPILED, apply) for name, apply in {
        "gradients lie in the recording's pool": replaced(recording.Recorder, "accumulate", in_the_pool),
        "a gradient that is held is written to": lambda: setattr(recording, "UNUSED_COPY", 10**9),
        "attributes of modules are not looked at": replaced(recording, "outdate", nothing),
        "tensors from outside are not looked at": replaced(recording.Recorder, "note_source", nothing),
        "tensors read by functions are not looked at": replaced(
            recording, "array_of", lambda original: lambda value: getattr(value, "array", value)),
        "hooks of leaves are not looked at": replaced(compiled._Recording, "is_current", without_hooks),
        "variables are not looked at": replaced(compiled.Surroundings, "now", lambda original: lambda self: []),
        "called functions are not read": replaced(compiled.Surroundings, "_read_below", nothing),
        "nothing is refused": replaced(recording, "refuse", nothing),
        "values may be looked at": replaced(recording, "refuse_look", nothing),
        "strides get lost within": replaced(
            recording, "with_strides_of", lambda original: lambda array, make: make(array.shape, array.dtype)),
        "strides of inputs are not looked at": replaced(
            compiled, "_form", lambda original: lambda x: original(x)[:2]),
        "inputs may require gradients": replaced(
            compiled, "_form", lambda original: lambda x: original(x.detach())),
        "modes are not looked at": replaced(compiled, "_modes", lambda original: lambda: (0, True)),
        "threads share recordings": lambda: setattr(recording.state.__class__, "thread", property(lambda self: 1, nothing(0))),
        "what an earlier recording made is read": replaced(
            recording, "opened", lambda original: lambda value: getattr(value, "_array", value)),
        "draws are made once": replaced(creation, "_drawn", once),
        "a graph from outside is walked": replaced(recording.Recorder, "check", of_nobody),
        "forget() forgets nothing": replaced(compiled.Compiled, "forget", nothing),
        "memory is given back": replaced(recording, "Pool", lambda original: lambda keeps_all: original()),
    }.items()
] + [
    Sabotage(f"tape: {name}", TAPE, apply) for name, apply in {
        "stale inputs are not looked at": replaced(tensor, "check_current", nothing),
        "writes on the tape are noted as others": replaced(writes, "note_write", kept_on_tape),
        "writes are not noted": replaced(writes, "note_write", nothing),
        "memory that is gone stays noted": replaced(writes, "_forget", lambda original: lambda key: writes._memories.pop(key)),
        "an overwritten value keeps its gradient": edit("minigrad.tensor:Tensor.write", "np.True_", "np.False_"),
        "saved arrays may have changed": replaced(tape.Op, "_check_saved", nothing),
        "a gradient is kept without a copy": replaced(tape.Node, "accumulate", always_fresh),
        "a second backward is allowed": replaced(
            tape, "walk", lambda original: lambda roots, retain, *rest: original(roots, True, *rest)),
        "inputs are not told apart": replaced(tape, "tell_apart", nothing),
        "gradients are not cast": replaced(tape, "_cast", lambda original: lambda gradient, dtype: gradient),
        "gradients are not summed back": replaced(
            tape, "unbroadcast", lambda original: lambda gradient, shape, where="": np.broadcast_to(gradient.flat[0], shape)),
    }.items()
]  # fmt: skip
