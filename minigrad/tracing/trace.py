"""`trace` keeps each operation with its inputs, its output, and the gradients that pass: forward and backward, by name."""
import html
import inspect
import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import tape
from ..autograd.grad_mode import no_grad
from ..arrays import float_errors
from ..backend import is_tensor
from ..drawing.graph import Graph, graph_of
from ..ops.in_place import Identity
from ..runner import Observer, current, unbroadcast
from ..tape import Fused, Op
from ..tensor import Tensor
from . import names as naming
from . import page
from .formulas import formula
from .plain import plain
from .steps import Step, Text, TracedTensor, as_table


class Trace(Observer):
    """What ran in a block: `steps` and `tensors` in their order. See `trace`."""

    def __init__(self, spelled_out: bool = False, names: Mapping[str, Tensor] | None = None):
        self.spelled_out = spelled_out
        self.tensors: list[TracedTensor] = []
        self.steps: list[Step] = []
        self.title = "Trace"  # of its page: the function's name, if there is one
        self.result: Any = None  # what the traced function returned
        self._given = {id(tensor): name for name, tensor in (names or {}).items()}
        self._known: dict[Any, tuple[Any, TracedTensor]] = {}  # by node, else by id: what must live on, what was kept
        self._step_of: dict[Op, Step] = {}
        self._passed: list[Op] = []  # those whose gradients the last walk passed on
        self._outermost = None  # the frame whose variables name tensors
        self._traced_code = None  # of the function that is traced, or of the block
        self._depth: dict[TracedTensor, int] = {}  # how many frames inwards the variable is that it is called by
        self._fallback: dict[TracedTensor, tuple[str, int]] = {}  # names for what no variable holds, and their depth
        self._instruction = None  # of the program, that made the last output
        self._expected = None  # (output, frame, instruction, variable) of the name that it may get
        self._running = None  # (op, inputs, options) of the step between its forward and its Tensor
        self._spelled: list[Tensor] = []  # the result of a definition, which takes the place of the fused op's
        self._is_inside = False  # of an op: what it does itself by operations is no step

    # ------------------------------------------------------------------------------------------------ looking on

    def __enter__(self):
        super().__enter__()
        if self._outermost is None:
            self._outermost = sys._getframe(1)
            self._traced_code = self._outermost.f_code
        return self

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._name_variables(self._outermost)
        self._outermost = self._expected = None
        self._name_the_rest()

    def forward(self, op, inputs, arrays, options):
        if self._is_inside:
            return super().forward(op, inputs, arrays, options)
        self._running = None
        if self.spelled_out and isinstance(op, Fused):
            result = type(op).definition(*inputs, **options)
            if is_tensor(result):
                self._spelled.append(result)
                self._fallback[self._traced(result)] = "output", sys.maxsize
                return result.array
        traced = [self._traced(value) if is_tensor(value) else value for value in inputs]
        self._name_variables(sys._getframe(1))
        self._is_inside = True
        try:
            output = super().forward(op, inputs, arrays, options)
        finally:
            self._is_inside = False
        self._running = op, traced, options
        return output

    def made(self, tensor):
        tensor = super().made(tensor)
        if self._is_inside:
            return tensor
        if self._spelled and self._running is None:
            return self._spelled.pop()
        if self._running is not None:
            op, inputs, options = self._running
            self._running = None
            output = self._keep(tensor, "result")
            step = Step(op.title, *formula(type(op)), inputs, options, output)
            self.steps.append(step)
            self._step_of[op] = step
            self._expect_a_name(output, sys._getframe(1))
        return tensor

    def backward(self, op, dout, sums):
        step = self._step_of.get(op)
        is_nested, self._is_inside = self._is_inside, self._is_inside or not is_tensor(dout)
        try:
            gradients = super().backward(op, dout, sums)
        finally:
            self._is_inside = is_nested
        if step is not None:
            self._keep_gradients(step, op, dout, gradients)
        return gradients

    def _keep_gradients(self, step: Step, op: Op, dout, gradients: tuple) -> None:
        if self._passed and op.order >= self._passed[-1].order:  # a walk goes from the youngest to the oldest: a new one
            self._passed = []
        if step.gradients:  # of an earlier walk over the same steps
            self._keep_the_last_walk()
        self._passed.append(op)
        step.output.gradient = _copy(dout)
        for value, parent, gradient in zip(step.inputs, op.parents, gradients):
            if parent is None or gradient is None or not isinstance(value, TracedTensor):
                step.gradients.append(None)
                continue
            step.gradients.append(unbroadcast(_copy(gradient), value.shape, step.op).astype(value.value.dtype))
        _add_up(step)

    def _keep_the_last_walk(self) -> None:
        """Forget the gradients that earlier walks sent."""
        steps = [self._step_of[op] for op in self._passed]
        kept = [(step, step.gradients, step.output.gradient) for step in steps]
        for step in self.steps:
            step.gradients = []
        for tensor in self.tensors:
            tensor.gradient = None
        for step, step.gradients, step.output.gradient in kept:
            _add_up(step)

    # ------------------------------------------------------------------------------------------------ which is which

    def _traced(self, tensor: Tensor) -> TracedTensor:
        """What is kept of this tensor; kept now, if it is new or was changed in place."""
        known = self._of(tensor)
        if known is not None and np.array_equal(known.value, tensor.array, equal_nan=tensor.array.dtype.kind == "f"):
            return known
        return self._keep(tensor, "constant" if tensor.node is None else "input")

    def _of(self, tensor: Tensor) -> TracedTensor | None:
        node = tensor.node
        while isinstance(node, Identity) and node not in self._known:  # a write in place gave it a new place
            node = node.parents[0]
        _, known = self._known.get(id(tensor) if node is None else node, (None, None))
        return known

    def _keep(self, tensor: Tensor, kind: str) -> TracedTensor:
        kept = TracedTensor(np.array(tensor.array), kind, tensor.node, self._given.get(id(tensor), ""))
        self.tensors.append(kept)
        self._known[id(tensor) if tensor.node is None else tensor.node] = tensor, kept
        if tensor.node is not None:
            tensor.node.traced = kept
        return kept

    def _expect_a_name(self, output: TracedTensor, innermost) -> None:
        """What the program is about to assign the output to, if this is all that the assigned expression computes."""
        frames = naming.frames_within(innermost, self._outermost)
        depth = max((i for i, frame in enumerate(frames) if naming.has_names(frame, self._traced_code)), default=0)
        frame = frames[depth]
        instruction, name = (id(frame), frame.f_lasti), naming.assigned(frame)
        if instruction == self._instruction:  # the output before was but a part of it
            self._fallback.pop(self.steps[-2].output, None)
        if name is not None:
            self._fallback[output] = name, depth
            self._expected = output, frame, frame.f_lasti, name
        self._instruction = instruction

    def _check_the_expected_name(self) -> None:
        """The output has not the name of a variable that took a list of several, or another tensor."""
        if self._expected is None or self._expected[1].f_lasti == self._expected[2]:  # it is still to be assigned
            return
        output, frame, _, name = self._expected
        self._expected = None
        value = frame.f_locals.get(name)
        if isinstance(value, (list, tuple, dict, set)) or is_tensor(value) and self._of(value) not in (None, output):
            self._fallback.pop(output, None)

    def _name_variables(self, innermost) -> None:
        """Name what variables hold; the first name stays. A tensor's own name comes before all."""
        self._check_the_expected_name()
        for tensor, kept in self._known.values():
            if tensor.name:
                kept.name = tensor.name
                self._depth.pop(kept, None)
        for depth, frame in enumerate(naming.frames_within(innermost, self._outermost)):
            for name, tensor in naming.tensors_in(frame, naming.has_names(frame, self._traced_code)):
                kept = self._of(tensor)
                if kept is not None and not kept.name:
                    kept.name, self._depth[kept] = name, depth

    def _name_the_rest(self) -> None:
        """After the op what no variable held; and no name twice."""
        found = [self._name_and_rank(kept, i) for i, kept in enumerate(self.tensors)]
        ops = {step.output: step.op.lower() for step in self.steps}
        names = [name or ops.get(kept, kept.kind) for kept, (name, _) in zip(self.tensors, found)]
        for kept, name in zip(self.tensors, naming.numbered(names, [rank for _, rank in found])):
            kept.name = name

    def _name_and_rank(self, kept: TracedTensor, i: int) -> tuple[str, tuple]:
        """The name, if there is one, and who of several comes first: an input, what was named by hand, then the last that
        the outermost variable of that name held."""
        name, depth = (kept.name, self._depth.get(kept)) if kept.name else self._fallback.get(kept, ("", None))
        if kept.kind == "input":
            return name, (0, i)
        if depth is not None:
            return name, (2, depth, -i)
        return name, (1 if name else 3, i)

    # ------------------------------------------------------------------------------------------------ what was kept

    def __getitem__(self, name: str) -> TracedTensor:
        """The tensor of this name; KeyError names those that there are."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(f"trace: no tensor is called {name!r}; there are {', '.join(t.name for t in self.tensors)}")

    def table(self) -> str:
        """The steps with their formulas, values and gradients, as text."""
        return Text(as_table(self.tensors, self.steps))

    def graph(self, values: bool = True, gradients: bool = True) -> Graph:
        """The graph of the last result, with its numbers."""
        on_tape = [step.output.node for step in self.steps if step.output.node is not None]
        if not on_tape:
            raise RuntimeError("trace: no step is on the tape; a graph needs an input that requires a gradient")
        return graph_of(on_tape[-1], values, gradients)

    def save(self, path: str | os.PathLike, *, title: str = "", overwrite: bool = False) -> pathlib.Path:
        """Write a page that shows all of it, to be pointed at, stepped through and edited; the path of the file.

        It needs no network. A file that is there is replaced only if it is such a page, or with `overwrite`, else
        FileExistsError. ValueError if there are more numbers than a page shows. See `minigrad.tracing.page`.
        """
        return page.write(self.as_dict(), path, extras={"title": title} if title else {}, overwrite=overwrite)

    def _repr_html_(self) -> str:
        """The same page in a frame, for a notebook; the table, if there is too much for a page."""
        try:
            content = page.html(self.as_dict())
        except ValueError:
            return f"<pre>{html.escape(self.table())}</pre>"
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe title="Trace" style="{style}" srcdoc="{html.escape(content)}"></iframe>'

    def as_dict(self) -> dict[str, Any]:
        """All of it in lists, numbers and strings, as JSON has them; numbers that are not finite as "NaN", "Infinity"."""
        return {
            "title": self.title,
            "result": self.steps[-1].output.name if self.steps else None,
            "tensors": [
                {"name": t.name, "shape": list(t.shape), "dtype": str(t.value.dtype), "kind": t.kind, "learns": t.learns,
                 "value": plain(t.value), "gradient": plain(t.gradient)}
                for t in self.tensors
            ],
            "steps": [
                {"op": s.op, "formula": s.formula, "backward": s.backward, "options": plain(_options(s)),
                 "inputs": [{"tensor": x.name} if isinstance(x, TracedTensor) else {"constant": plain(x)}
                            for x in s.inputs],
                 "output": s.output.name, "gradients": plain(s.gradients)}
                for s in self.steps
            ],
        }

    def __repr__(self) -> str:
        return f"<Trace of {len(self.steps)} steps: {', '.join(step.output.name for step in self.steps)}>"


def trace(function: Callable | None = None, *inputs: Any, gradient: Any = None, spelled_out: bool = False,
          names: Mapping[str, Tensor] | None = None) -> Trace:
    """Keep each operation with its inputs, its output, and the gradients that pass, forward and backward.

    `with trace() as t:` keeps what runs in the block; `trace(function, *inputs)` runs function(*inputs), and backward from
    its result if that is a scalar, or if the `gradient` that it is to start with is given; no leaf's `grad` changes.
    Inputs that are no Tensors become tensors, and floats among them require a gradient.

    `t.steps` and `t.tensors` have what ran, `t["scores"]` the tensor of that name, with its `value` and `gradient`;
    `t.table()` prints it, `t.graph()` draws it, `t.save(path)` makes a page of it. `spelled_out=True` shows fused
    operations by their definition. Everything is copied, so it is for small tensors.

    A tensor is called as its `name`, as `names` has it, as its path if it is a parameter, or as the variable that holds it
    in your code; if there is none, as its op. A variable that takes one value after the other, as in a loop, has its own
    name at the end, and before it h_1, h_2, ...; but an input keeps its name, and what comes after x is x_2, x_3.

    >>> import minigrad as mg
    >>> def attend(q, k, v):
    ...     scores = q @ k.T
    ...     weights = scores.softmax(-1)
    ...     output = weights @ v
    ...     return (output * output).sum()
    >>> t = trace(attend, [[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [3.0]])
    >>> t["weights"].value
    array([[0.26894142, 0.73105858]])
    >>> t["scores"].gradient
    array([[-1.93632646,  1.93632646]])
    >>> [step.op for step in t.steps]
    ['Permute', 'MatMul', 'Softmax', 'MatMul', 'Mul', 'Sum']
    """
    kept = Trace(spelled_out, names)
    if getattr(function, "__name__", "<lambda>") != "<lambda>":
        kept.title = function.__name__
    if function is None:
        if inputs:
            raise TypeError("trace: expected a function before its inputs")
        return kept
    if not callable(function):
        hint = "; the trace of a matrix is x.trace()" if is_tensor(function) or isinstance(function, np.ndarray) else ""
        raise TypeError(f"trace: expected a function and its inputs, got {type(function).__name__}{hint}")
    inputs = [_leaf(value) for value in inputs]
    kept._outermost, kept._traced_code = inspect.currentframe(), getattr(function, "__code__", None)
    with kept:
        for value in inputs:
            if is_tensor(value):
                kept._traced(value).kind = "input"
        kept.result = result = function(*inputs)
        if not is_tensor(result) and gradient is not None:
            raise TypeError(f"trace: a gradient was given, but the function returned {type(result).__name__}, no Tensor")
        if is_tensor(result) and (gradient is not None or result.node is not None and result.numel() == 1):
            with no_grad():
                walk = float_errors.ignored(tape.walk)
                walk({result.node: result.upstream(gradient)}, current(), retain_graph=True, found={})
    return kept


def _leaf(value: Any) -> Any:
    """A tensor of what is none yet, to be differentiated if it has floats."""
    if is_tensor(value):
        return value
    array = np.asarray(value)
    return Tensor(array, requires_grad=array.dtype.kind == "f", dtype=array.dtype)


def _options(step: Step) -> dict[str, Any]:
    """The step's options; an index as a tuple always, as x[i] is x[i,]: in a list it could not be told from an array."""
    index = step.options.get("index", ())
    return step.options if type(index) is tuple else {**step.options, "index": (index,)}


def _add_up(step: Step) -> None:
    """Add to the gradients of a step's inputs what it sent them."""
    for value, sent in zip(step.inputs, step.gradients):
        if sent is not None:
            value.gradient = sent if value.gradient is None else value.gradient + sent


def _copy(gradient) -> np.ndarray:
    return np.array(gradient.array if is_tensor(gradient) else gradient)
