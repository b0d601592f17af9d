"""The tape, its guard of memory that is written to, and captured steps, each broken in turn."""
import sys

import numpy as np

import nn.module
from minigrad import creation, per_thread, runner, tape
from minigrad.autograd import function as custom
from minigrad.fast.compiling import surroundings
from minigrad.arrays import versions
from minigrad.fast.compiling import capture, compiled, places, transcript
from minigrad.tensor import wrap
from sabotage.base import Sabotage
from sabotage.edit import edit, edits

tensor = sys.modules["minigrad.tensor"]  # in the package, `tensor` is the function

COMPILED = ("tests/minigrad/fast/test_compiled_changes.py", "tests/minigrad/fast/test_compiled.py")
PYTHON = ("tests/minigrad/fast/test_compiled_python.py",)
TAPE = ("tests/minigrad/test_tape.py", "tests/minigrad/test_in_place.py")
AHEAD = ("tests/minigrad/fast/kernels/test_ahead.py", "-k", "there_is or a_line_is or is_dead")
CACHE = ("tests/minigrad/fast/kernels/test_cache.py", "-k", "TestLocks")


def replaced(owner, name: str, make):
    """A sabotage's `apply`: owner.name becomes make(what it was)."""
    return lambda: setattr(owner, name, make(getattr(owner, name)))


def nothing(original):
    return lambda *arguments, **options: None


def in_the_pool(original):
    def accumulate(self, node, gradient, is_fresh):
        self.is_differentiated = True
        runner.EAGER.accumulate(node, self.lent(gradient), True)
        self.calls.append((runner.EAGER.accumulate, (node, self.lent(gradient), True)))
    return accumulate


def without_hooks(original):
    def is_current(self):
        return self.generation == capture.generation and all(
            tensor.array is array and tensor.node is node for tensor, array, node in self.sources)
    return is_current


def of_nobody(original):
    def backward(self, op, dout, sums):
        self.launches.setdefault(op, False)
        return original(self, op, dout, sums)
    return backward


def without_sources(original):
    def array_of(self, value):
        return value._array if isinstance(value, tensor.Tensor) else value
    return array_of


def kept_on_tape(original):
    def note_write(*arrays, is_on_tape=False):
        original(*arrays)
    return note_write


def once(original):
    return lambda draw, requires_grad=False, **options: wrap(draw(creation.random.generator())).requires_grad_(requires_grad)


def always_fresh(original):
    def accumulate(self, node, gradient, is_fresh):
        original(self, node, gradient, True)
    return accumulate


SABOTAGES = [
    Sabotage(f"python: {name}", PYTHON, apply) for name, apply in {
        "variables stay as a refused step has set them": edit(
            "minigrad.fast.compiling.places:Undo.restore", "(*self._saved.values(), *self._found)", "self._saved.values()"),
        "gradients and parameters stay so": replaced(places.Undo, "save", nothing),
        "places are not looked at": replaced(surroundings.Surroundings, "to_check", lambda original: lambda self: []),
        "what a step changes is taken": replaced(compiled, "_refuse_changes", nothing),
        "any transcript will do": replaced(transcript.Transcript, "difference", nothing),
        "inputs lie apart": replaced(compiled._Captured, "may_write_to", nothing),
        "what ran is not learnt": replaced(capture.Rehearsal, "_note_run", nothing),
        "functions do the same each time": lambda: setattr(custom._FunctionOp, "is_fixed", True),
    }.items()
] + [
    *edits(PYTHON, "minigrad.fast.compiling.surroundings", {
        f"python: {name}": row for name, row in {
            "defaults are not read": ("Surroundings._function", '"__code__", "__defaults__", "__kwdefaults__"', '"__code__",'),
            "cells are not read": ("Surroundings._root", "if chain.kind is not CELL or", "if True or"),
            "contents are not read": ("Surroundings._inside", "_items(value) if is_container else ()", "()"),
            "arrays are not read": ("Surroundings._inside", "> LARGEST_ARRAY", ">= 0"),
            "super is not followed": ("Surroundings._read", 'if "super" in code.co_names:', "if False:"),
            "properties are not read": ("Surroundings._attribute", "(of_class.fget, of_class.fset)", "()"),
            "slots are not read": ("Surroundings._attribute", "isinstance(of_class, types.MemberDescriptorType)", "False"),
            "wrappers are not seen through": ("Surroundings._function", "in cells.values()", "in ()"),
            "arguments are not followed": ("Surroundings._function", "if owner is not MISSING and not code.co_argcount:", "if False:"),
            "classes in between": ("Surroundings._of_class", "whose(base) is USERS", "False"),
            "operators are not read": ("Surroundings._object", '("forward", *_operators(type(value)))', '("forward",)'),
        }.items()
    }),
    *edits(PYTHON, "minigrad.fast.compiling.code", {
        "python: strings are no names": ("named", "names & BY_STRING", "set()"),
        "python: what calls return is not looked at": ("named", "loose.add if chain is None", "set().add if chain is None"),
    }),
    *edits(PYTHON, "minigrad.fast.compiling.places", {
        "python: generators are not looked at": ("inside", "return inside(value.bit_generator)", "return None"),
        "python: minus zero": ("same", "and (type(a) is not float or math.copysign(1, a) == math.copysign(1, b))", ""),
    }),
    *edits(PYTHON, "minigrad.fast.compiling.compiled", {
        f"python: {name}": row for name, row in {
            "Python runs it no more": ("Compiled.__call__", "known.count & known.count - 1 and known.count != 3", "True"),
            "Python always runs it": ("Compiled.__call__", "known.count & known.count - 1 and known.count != 3", "False"),
            "checks compare nothing": ("_Captured.checked_replay", "not same_bits(a, b)", "False"),
            "lists are tuples": ("each", "return type(results)(each(value, function) for value in results)",
                                 "return tuple(each(value, function) for value in results)"),
            "names are lost": ("each", 'isinstance(results, tuple) and hasattr(results, "_fields")', "False"),
            "objects share a step": ("Compiled.__get__", "or steps[key].function.__self__ is not owner", ""),
            "a refusal that is caught": ("captured", "if step.refusal is not None:", "if False:"),
            "since any call": ("verified", "compiled.calls - last > 1", "True"),
        }.items()
    }),
    *edits(PYTHON, "minigrad.fast.compiling.capture", {
        f"python: {name}": row for name, row in {
            "absent gradients": ("_backward_into", "(target is ABSENT) != (gradient is None)", "False"),
        }.items()
    }),
    *edits(PYTHON, "minigrad.tensor", {
        "python: detached is what it was": ("Tensor.detach", "wrap(self._array) if this_thread.runner is None else", "wrap(self._array) or"),
        "python: a Tensor is what it was": ("Tensor.__init__", "this_thread.runner is not None and", "False and"),
        "python: gradients given are what they were": ("Tensor.upstream", "current().compute(as_array, gradient, self._array.dtype)",
                                                       "as_array(gradient, self._array.dtype)"),
    }),
    *edits(PYTHON, "minigrad.creation", {
        "python: arrays are what they were": ("_given", "isinstance(data, (np.ndarray, Tensor))", "False"),
    }),
] + [
    Sabotage(f"compile: {name}", COMPILED, apply) for name, apply in {
        "gradients lie in the step's pool": replaced(capture.Capture, "accumulate", in_the_pool),
        "attributes of modules are not looked at": replaced(nn.module, "outdate", nothing),
        "tensors from outside are not looked at": replaced(capture.Capture, "array_of", without_sources),
        "tensors read by functions are not looked at": replaced(
            capture.Capture, "compute", lambda original: lambda self, function, *values: self.call(
                function, *[without_sources(None)(self, value) for value in values])),
        "hooks of leaves are not looked at": replaced(compiled._Captured, "is_current", without_hooks),
        "variables are not looked at": replaced(surroundings.Surroundings, "to_check", lambda original: lambda self: []),
        "called functions are not read": replaced(surroundings.Surroundings, "_function", nothing),
        "nothing is refused": replaced(capture.Capture, "refuse", nothing),
        "values may be read": replaced(capture.Capture, "refuse_read", nothing),
        "strides get lost within": replaced(
            capture, "with_strides_of", lambda original: lambda array, make: make(array.shape, array.dtype)),
        "strides of inputs are not looked at": replaced(
            compiled, "_form", lambda original: lambda x: original(x)[:2]),
        "inputs may require gradients": replaced(
            compiled, "_form", lambda original: lambda x: original(x.detach())),
        "modes are not looked at": replaced(compiled, "_modes", lambda original: lambda: (0, True)),
        "threads share captured steps": lambda: setattr(type(per_thread.this_thread), "identity", property(lambda self: 1, nothing(0))),
        "what an earlier captured step made is read": replaced(
            capture.Tracer, "_array", lambda original: property(lambda self: self._memory)),
        "draws are made once": replaced(creation, "_drawn", once),
        "a graph from outside is walked": replaced(capture.Capture, "backward", of_nobody),
        "forget() forgets nothing": replaced(compiled.Compiled, "forget", nothing),
        "memory is given back": replaced(capture, "Pool", lambda original: lambda keeps_all: original()),
    }.items()
] + [
    *edits(COMPILED, "minigrad.fast.compiling.capture", {
        "compile: what is added to is written to": ("_Arrival.leave", "self.node.grad is self.memory", "False"),
        "compile: all gradients are where they were computed": ("Capture._arrival", "is_fresh and", ""),
        "compile: gradients anywhere in the step's pool": ("Capture._arrival", "np.empty(gradient.shape, gradient.dtype)", "self.lent(gradient)"),
        "compile: lent gradients are shown": ("_Arrival.__call__", "node.grad_is_lent = self.memory, self.is_lent", "node.grad_is_lent = self.memory, False"),
    }),
    *edits(COMPILED, "minigrad.fast.compiling.compiled", {
        "compile: what is added to is left to replays of backward": ("_Captured", "step.calls[: step.opening], step.calls[step.opening :]", "step.calls, []"),
    }),
    *edits(COMPILED, "minigrad.fast.kernels.internals", {
        "compile: dispatchers of *arguments are called": ("machine_code", "isinstance(signature[0], types.BaseTuple)", "False"),
    }),
    *edits(COMPILED, "minigrad.tensor", {
        "compile: lent for ever": ("Tensor.grad", "node.grad_is_lent = False", "pass"),
    }),
] + [
    Sabotage(f"tape: {name}", TAPE, apply) for name, apply in {
        "stale inputs are not looked at": replaced(tensor, "check_current", nothing),
        "writes on the tape are noted as others": replaced(versions, "note_write", kept_on_tape),
        "writes are not noted": replaced(versions, "note_write", nothing),
        "memory that is gone stays noted": replaced(versions, "_forget", lambda original: lambda key: versions._memories.pop(key)),
        "an overwritten value keeps its gradient": edit("minigrad.tensor:Tensor.write", "np.True_", "np.False_"),
        "items are set before all is checked": edit(
            "minigrad.ops.indexing:SetAt.forward", "raise ValueError", "x[index] = value; raise ValueError"),
        "items are set from what is out of date": edit(
            "minigrad.tensor:Tensor.__setitem__", 'check_current("SetAt", (self, value))', "pass"),
        "saved arrays may have changed": replaced(tape.Op, "_check_saved", nothing),
        "what no gradient needs is saved": edit("minigrad.tape:Op.save", "None in self.parents", "False"),
        "saved is what its own gradient needs": edit("minigrad.tape:Op._only_needed", "parents[i] is not None", "parents[i] is None"),
        "what is made on the way is not made again": edit("minigrad.tensor:Tensor.through", "and op.saves_inputs", "and False"),
        "no implementation takes over": replaced(tape, "chosen", lambda original: lambda op, inputs: op),
        "a gradient is kept without a copy": replaced(runner.Runner, "accumulate", always_fresh),
        "a second backward is allowed": replaced(
            tape, "walk", lambda original: lambda roots, runner, retain, *rest: original(roots, runner, True, *rest)),
        "inputs are not told apart": replaced(tensor, "_tell_apart", nothing),
        "gradients are not cast": replaced(runner, "_cast", lambda original: lambda gradient, dtype: gradient),
        "gradients are not summed back": replaced(
            runner, "unbroadcast", lambda original: lambda gradient, shape, where="": np.broadcast_to(gradient.flat[0], shape)),
    }.items()
] + edits(AHEAD, "minigrad.fast.kernels.ahead", {
    "ahead: nobody asks whether the kernels are there": ("start", " or _done().exists()", ""),
    "ahead: other processes are not asked": ("start", "if held is None", "if False"),
    "ahead: any program is taken for Python": ("start", "not is_python or ", ""),
    "ahead: processes outlive their parent": ("compile_step", "os.getppid() != int(parent)", "False"),
    "ahead: pointers are numbers": ("read_line", '"CPointer(\\1)"', '"\\1"'),
}) + edits(("tests/minigrad/fast/kernels/test_jit.py", "-k", "once or by_name or cannot"), "minigrad.fast.kernels.internals", {
    "jit: a kernel from the disk is called by name": ("_OfParts.add_linking_library", "is_loaded or ", ""),
    "jit: a part is compiled for each constant": ("Part.get_call_template", "types.unliteral(kind)", "kind"),
    "jit: Python can call what is for kernels": ("Library.__call__", "raise TypeError(", "return str("),
}) + edits(("tests/minigrad/fast/kernels/test_interrupts.py",), "minigrad.fast.kernels.interrupts", {
    "Ctrl-C: obeyed amid a pass": ("postponed", "noted.append(arguments)", "handler(*arguments)"),
    "Ctrl-C: lost": ("postponed", "if noted:", "if False:"),
}) + edits(CACHE, "minigrad.fast.kernels.cache", {
    "cache: nobody waits for another process": ("KernelCache.load_overload", ", PATIENCE)", ")"),
    "cache: what another process compiles is missing": ("KernelCache.is_missing", "return held is not None", "return True"),
    "cache: what was compiled meanwhile is not seen": (
        "KernelCache.load_overload", "loaded = self._load(path, target_context)  #", "pass  #"),
    "cache: a process waits for itself": ("KernelCache.load_overload", " and path not in self._locks", ""),
    "cache: locks stay": ("KernelCache.save_overload", "self._unlock(path)", "pass"),
}) + edits(("tests/minigrad/fast/kernels/test_cache.py", "-k", "sources or longest or announced"), "minigrad.fast.kernels.cache", {
    "cache: beside the sources": ("cache_folder", "in os.environ", 'in str(SOURCES / "__pycache__"), os.environ'),
    "cache: folders pile up": ("_remove_unused", "folders[MOST_FOLDERS:]", "folders[99:]"),
    "cache: folders in use go": ("cache_folder", "os.utime(folder)", "pass"),
    "cache: compiling is announced at once": ("KernelCache.load_overload", " and KernelCache.seconds > A_WHILE", ""),
    "cache: compiling takes no time": ("KernelCache.save_overload", "self._count_seconds()", "pass"),
}) + edits(("tests/minigrad/fast/kernels/test_axes.py",), "minigrad.fast.kernels.axes", {
    "axes: a loop runs through what lies apart in one array": ("runs", "all(", "any("),
    "axes: five loops are four": ("Loops.of", "len(axes) > 4 or ", ""),
    "axes: steps are elements": ("Loops.of", "own[run[-1]] % itemsize", "False"),
}) + edits(("tests/minigrad/fast/kernels/test_pointwise.py",), "minigrad.fast.kernels.pointwise", {
    "formulas: float64 is read as float32": ("Formula.of", "x.dtype != (self._takes[i] if i < len(self._takes) else FLOAT)", "False"),
    "formulas: the result's axes stay in the order of memory": ("Formula._computed", "out.transpose(plan.order)", "out"),
    "formulas: a column is a row": ("_seen_as_matrix", '"n", (1, 0)', '"e", (0, 1)'),
    "formulas: a row is read on and on": ("_seen_as_matrix", '"e", (0, 1), _unless', '"e", (columns, 1), _unless'),
    "formulas: slices are copied": ("_seen_as_matrix", "_seen_in_place(x, split) if x.shape == shape else None", "None"),
    "formulas: a step is one": ("_seen_in_place", "along != 1", "along is None"),
    "formulas: rows that lie apart are a run": ("_step", "len(found) > 1", "False"),
    "formulas: what lies at odd addresses is read": ("_seen_in_place", " or not x.flags.behaved", ""),
    "formulas: numbers are rows": ("_seen_as_run", '"n", (0, 0)', '"e", (0, 1)'),
}) + edits(("tests/minigrad/fast/kernels/test_pointwise.py",), "minigrad.fast.elementwise", {
    "formulas: NumPy is forgotten": ("elementwise", "result is not None", "True"),
})  # fmt: skip
