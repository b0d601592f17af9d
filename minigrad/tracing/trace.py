"""`trace` records each operation with its inputs, its output and its gradients, forward and backward."""
import html
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from .. import tape
from ..autograd.grad_mode import no_grad
from ..arrays import float_errors
from ..backend import is_tensor
from ..drawing.graph import Box, Graph, led_to
from ..implementations import definition
from ..observer import Observer
from ..runner import current, unbroadcast
from ..ops.kinds import Fused
from ..tape import Op
from ..tensor import Tensor
from . import page
from .names import Naming, name_of_op, parameters
from .steps import Step, Text, TracedTensor, as_table, folded, formula, is_traced, plain


class Trace(Observer):
    """What ran in a block: its `steps` and `tensors`, in order. See `trace`."""

    def __init__(self, spelled_out: bool = False) -> None:
        self.spelled_out = spelled_out
        self.tensors: list[TracedTensor] = []
        self.steps: list[Step] = []
        self.title = "Trace"  # of its page: the function's name, if it has one
        self.result: Any = None  # what the traced function returned
        self._ran: tuple[list[TracedTensor], list[Step]] = self.tensors, self.steps  # before reshapes are folded
        self._calls: dict[Step, int] = {}  # which of the user's calls made a step
        self._known: dict[Any, tuple[Any, TracedTensor]] = {}  # by node, else by id; the tensor keeps its id taken
        self._step_of: dict[Op, Step] = {}
        self._walked: list[Op] = []  # the ops of the last backward pass
        self._naming = Naming()
        self._running: Any = None  # (op, inputs, options) of the step between its forward and its Tensor
        self._spelled: list[Tensor] = []  # the result of a definition, which replaces the fused op's
        self._is_inside = False  # an op: the operations that it runs itself are no steps

    # ------------------------------------------------------------------------------------------------ recording

    def __enter__(self) -> Self:
        super().__enter__()
        if self._naming.outermost is None:
            frame = sys._getframe(1)
            self._naming.start(frame, frame)
        self.tensors, self.steps = self._ran
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._name_variables(self._naming.outermost)
        self.steps = folded(self.steps, self._calls)
        gone = {step.output for step in self._ran[1]} - {step.output for step in self.steps}
        self.tensors = [tensor for tensor in self.tensors if tensor not in gone]
        self._naming.finish(self.tensors, {step.output: name_of_op(step.op) for step in self.steps})

    def forward(self, op: Any, inputs: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
        if self._is_inside:
            return super().forward(op, inputs, arrays, options)
        self._running = None
        if self.spelled_out and isinstance(op, Fused):
            result = definition(type(op), *inputs, **options)
            if is_tensor(result):
                self._spelled.append(result)
                self._naming.suggest(self._traced(result), "output")
                return result.array
        traced = [self._traced(value) if is_tensor(value) else value for value in inputs]
        self._name_variables(sys._getframe(1))
        self._is_inside = True
        try:
            output = super().forward(op, inputs, arrays, options)
        finally:
            self._is_inside = False
        self._running = op, traced, {name: value for name, value in options.items() if name != "run"}  # that of a Function
        return output

    def made(self, tensor: Any) -> Any:
        tensor = super().made(tensor)
        if self._is_inside:
            return tensor
        if self._spelled and self._running is None:
            return self._spelled.pop()
        if self._running is not None:
            op, inputs, options = self._running
            self._running = None
            output = self._keep(tensor, "result")
            step = Step(op.title, *formula(type(op)), inputs, options, output, kind=type(op),
                        shapes=tuple(map(np.shape, inputs)), shape=output.shape)
            self.steps.append(step)
            self._step_of[op] = step
            self._calls[step] = self._naming.expect(output, sys._getframe(1))
        return tensor

    def backward(self, op: Any, dout: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        step = self._step_of.get(op)
        is_nested, self._is_inside = self._is_inside, self._is_inside or not is_tensor(dout)
        try:
            gradients = super().backward(op, dout)
        finally:
            self._is_inside = is_nested
        if step is not None:
            self._keep_gradients(step, op, dout, gradients)
        return gradients

    def walk_begins(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
        super().walk_begins(outputs, inputs)
        self._walked = []

    def _keep_gradients(self, step: Step, op: Op, dout, gradients: tuple[Any, ...]) -> None:
        if step.gradients:  # of an earlier walk over the same steps
            self._forget_earlier_walks()
        self._walked.append(op)
        step.output.gradient = _copy(dout)
        for value, parent, gradient in zip(step.inputs, op.parents, gradients):
            if parent is None or gradient is None or not isinstance(value, TracedTensor):
                step.gradients.append(None)
                continue
            step.gradients.append(unbroadcast(_copy(gradient), value.shape, step.op).astype(value.value.dtype))
        _add_up(step)

    def _forget_earlier_walks(self) -> None:
        steps = [self._step_of[op] for op in self._walked]
        kept = [(step, step.gradients, step.output.gradient) for step in steps]
        for step in self.steps:
            step.gradients = []
        for tensor in self.tensors:
            tensor.gradient = None
        for step, step.gradients, step.output.gradient in kept:
            _add_up(step)

    # ------------------------------------------------------------------------------------------------ which tensor is which

    def _traced(self, tensor: Tensor) -> TracedTensor:
        """The record of this tensor; a new one if there is none, or if the tensor was changed in place."""
        known = self._of(tensor)
        if known is not None and np.array_equal(known.value, tensor.array, equal_nan=tensor.array.dtype.kind == "f"):
            return known
        return self._keep(tensor, "constant" if tensor.node is None else "input")

    def _of(self, tensor: Tensor) -> TracedTensor | None:
        _, known = self._known.get(id(tensor) if tensor.node is None else tensor.node, (None, None))
        return known

    def _keep(self, tensor: Tensor, kind: str) -> TracedTensor:
        kept = TracedTensor(np.array(tensor.array), kind, tensor.node)
        self.tensors.append(kept)
        self._known[id(tensor) if tensor.node is None else tensor.node] = tensor, kept
        if tensor.node is not None:
            tensor.node.traced = kept
        return kept

    def _name_variables(self, innermost) -> None:
        """Record the names of tensors and of the variables that hold them now."""
        self._naming.check_expected(self._of)
        for tensor, kept in self._known.values():
            if tensor.name:
                self._naming.set_by_hand(kept, tensor.name)
        self._naming.read_variables(innermost, self._of)

    # ------------------------------------------------------------------------------------------------ showing

    def __getitem__(self, name: str) -> TracedTensor:
        """The tensor of this name; KeyError lists the names."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(f"trace: no tensor is named {name!r}; the names are {', '.join(t.name for t in self.tensors)}")

    def table(self) -> str:
        """The steps with their formulas, values and gradients, as text."""
        return Text(as_table(self.tensors, self.steps))

    def graph(self, values: bool = True, gradients: bool = True) -> Graph:
        """The graph of the last result on the tape, with its numbers: what the block computed, a box for each step."""
        made_by = {step.output: step for step in self.steps if step.output.node is not None}
        if not made_by:
            raise RuntimeError("trace: no step is on the tape; a graph needs an input that requires a gradient")

        def parents_of(tensor: TracedTensor) -> list[TracedTensor]:
            inputs = made_by[tensor].inputs if tensor in made_by else []
            return [value for value in inputs if is_traced(value) and value.node is not None]

        reached = led_to(list(made_by)[-1], parents_of)
        shown = [tensor for tensor in self.tensors if tensor in reached]
        number = {tensor: i for i, tensor in enumerate(shown)}
        boxes = [Box(made_by[tensor].op if tensor in made_by else "", tensor.name, tensor.shape,
                     [number[parent] for parent in parents_of(tensor)], tensor) for tensor in shown]
        return Graph(boxes, values, gradients)

    def save(self, path: str | os.PathLike[str], *, title: str = "", overwrite: bool = False) -> pathlib.Path:
        """Write an interactive page, one file that works offline, and return its path. See `minigrad.tracing.page`.

        An existing file is replaced only if it is such a page, or with `overwrite`; else FileExistsError. ValueError if the
        trace has more numbers than a page shows.
        """
        return page.write(self, path, extras={"title": title} if title else {}, overwrite=overwrite)

    def _repr_html_(self) -> str:
        """The page in a frame, for a notebook; the table, if the trace is too large for a page."""
        try:
            content = page.html(self)
        except ValueError:
            return f"<pre>{html.escape(self.table())}</pre>"
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe title="Trace" style="{style}" srcdoc="{html.escape(content)}"></iframe>'

    def as_dict(self) -> dict[str, Any]:
        """The trace as JSON can hold it; numbers that are not finite are the strings "NaN", "Infinity", "-Infinity"."""
        return {
            "title": self.title,
            "tensors": [
                {"name": t.name, "shape": list(t.shape), "dtype": str(t.value.dtype), "kind": t.kind,
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
        names = [step.output.name for step in self.steps]
        shown = names if len(names) <= 8 else [*names[:4], "...", *names[-3:]]
        return f"<Trace of {len(names)} steps: {', '.join(shown)}>"


def trace(
    function: Callable[..., Any] | None = None, *inputs: Any, gradient: Any = None, spelled_out: bool = False
) -> Trace:
    """Record each operation with its inputs, its output and its gradients, forward and backward.

    `with trace() as t:` records what runs in the block. `trace(function, *inputs)` runs function(*inputs), then backward
    from its result if that is a scalar or if a `gradient` to start with is given; it changes no leaf's `grad`. Inputs that
    are not Tensors become Tensors, which require a gradient if they hold floats.

    `t.steps` and `t.tensors` list what ran, `t["scores"]` is the tensor of that name, with its `value` and `gradient`.
    `t.table()` prints the trace, `t.graph()` draws it, `t.save(path)` writes it as a page. `spelled_out=True` shows fused
    operations by their definition. Everything is copied, so keep tensors small.

    A tensor's name is its `name` attribute, its path if it is a parameter, or else the variable that holds it in your code;
    a result without any is named after its op: matmul, matmul_2, ... If a variable is rebound, as in a loop, t["h"] is the
    value after the loop, as in Python; those before it are h_1, h_2, ... in order. An input keeps its name: what is later
    bound to x is x_2, x_3, ... The reshapes by which `w @ x[i]` turns a vector into a matrix and back are part of its step.

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
    recorded = Trace(spelled_out)
    if function is None:
        if inputs:
            raise TypeError("trace: expected a function before its inputs")
        return recorded
    if not callable(function):
        hint = "; the trace of a matrix is x.trace()" if is_tensor(function) or isinstance(function, np.ndarray) else ""
        raise TypeError(f"trace: expected a function and its inputs, got {type(function).__name__}{hint}")
    if getattr(function, "__name__", "<lambda>") != "<lambda>":
        recorded.title = function.__name__
    inputs = tuple(value if is_tensor(value) else _leaf(value) for value in inputs)
    here: Any = sys._getframe()
    recorded._naming.start(here, here.f_back)
    with recorded:
        named: Any = itertools.zip_longest(inputs, parameters(function)[: len(inputs)], fillvalue="")
        for value, name in named:
            kept = recorded._traced(value)
            kept.kind = "input"
            recorded._naming.suggest(kept, name)
        recorded.result = result = function(*inputs)
        if not is_tensor(result) and gradient is not None:
            raise TypeError(f"trace: a gradient was given, but the function returned {type(result).__name__}, not a Tensor")
        if is_tensor(result) and (gradient is not None or result.node is not None and result.numel() == 1):
            with no_grad():
                walk = float_errors.ignored(tape.walk)
                walk({result.node: result.upstream(gradient)}, current(), retain_graph=True, found={})
    return recorded


def _leaf(value: Any) -> Tensor:
    array = np.asarray(value)
    return Tensor(array, requires_grad=array.dtype.kind == "f", dtype=array.dtype)


def _options(step: Step) -> dict[str, Any]:
    """The step's options; an index always as a tuple, x[i] as x[i,], since as a list it would look like an array."""
    index = step.options.get("index", ())
    return step.options if type(index) is tuple else {**step.options, "index": (index,)}


def _add_up(step: Step) -> None:
    """Add what a step sent to the gradients of its inputs."""
    for value, sent in zip(step.inputs, step.gradients):
        if sent is not None:
            value.gradient = sent if value.gradient is None else value.gradient + sent


def _copy(gradient) -> np.ndarray:
    return np.array(gradient.array if is_tensor(gradient) else gradient)
