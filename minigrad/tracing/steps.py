"""The records of a trace, a tensor and an operation, and their text."""
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..drawing.html import html_of_arrays, html_of_formula
from ..tape import Node


@dataclass(eq=False)
class TracedTensor:
    """A copy of a tensor's value when it was used, and of its gradient."""

    value: np.ndarray
    kind: str  # "result" of a step, "input" (an argument, or what requires a gradient), "constant"
    node: Node | None  # on the tape
    name: str = ""
    gradient: np.ndarray | Any = None  # None until one arrives

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the value."""
        return self.value.shape

    def __repr__(self) -> str:
        return f"<{self.name or 'unnamed'} {self.shape} {self.value.dtype}, {self.kind}>"

    def _repr_html_(self) -> str:
        return html_of_arrays([(f"{self.name} {self.shape} {self.value.dtype}", self.value), ("gradient", self.gradient)])


@dataclass(eq=False)
class Step:
    """An operation that ran. `gradients` holds what its backward sent to each input, in the input's shape."""

    op: str
    formula: str
    backward: str
    inputs: list[Any]  # TracedTensors, scalars, arrays, None
    options: dict[str, Any]
    output: TracedTensor
    gradients: list[np.ndarray | None] = field(default_factory=list)  # empty if no backward ran

    def __repr__(self) -> str:
        return f"<{self.output.name} = {_call(self)}>"

    def _repr_html_(self) -> str:
        """The formulas forward and backward, each above the numbers that it reads and writes."""
        read = {value.name: value.value for value in self.inputs if isinstance(value, TracedTensor)}
        name, output = self.output.name, self.output
        shown = html_of_formula(f"{name} = {_call(self)}    {self.formula}")
        shown += html_of_arrays([*read.items(), (name, output.value)])
        if self.gradients:
            sent = [(f"to {_short(value)}", gradient) for value, gradient in zip(self.inputs, self.gradients)]
            shown += html_of_formula(self.backward) + html_of_arrays([(f"d{name}", output.gradient), *sent])
        return shown


class Text(str):
    """Text that an interactive session prints without quotes."""

    def __repr__(self) -> str: return str(self)


def as_table(tensors: list[TracedTensor], steps: list[Step]) -> str:
    """The inputs, then each step forward with its output, and backward with the gradients that it sends."""
    forward = [_call(step) for step in steps]
    inputs = [tensor for tensor in tensors if tensor.kind != "result"]
    parts = ["inputs", *(_numbers(tensor.name, tensor.value) for tensor in inputs), "", "forward"]
    for i, (step, call) in enumerate(zip(steps, forward), 1):
        parts += [f"{i}. {step.output.name} = {call}    {step.formula}".rstrip(),
                  _numbers(step.output.name, step.output.value)]
    parts += ["", "backward"]
    ran = [(i, step) for i, step in enumerate(steps, 1) if step.gradients]
    if not ran:
        parts.append("  has not run: call backward() in the block, or pass trace a gradient to start with")
    for i, step in reversed(ran):
        parts.append(f"{i}. {forward[i - 1]}    {step.backward}".rstrip())
        sent_to = [(value.name, sent) for value, sent in zip(step.inputs, step.gradients) if sent is not None]
        parts += [_numbers(f"to {name}", sent) for name, sent in sent_to]
    totals = [(tensor.name, tensor.gradient) for tensor in inputs if tensor.gradient is not None]
    if totals:
        parts += ["", "gradients", *(_numbers(f"d{name}", gradient) for name, gradient in totals)]
    return "\n".join(parts)


def _call(step: Step) -> str:
    """Softmax(scores, dim=-1)"""
    inputs = [_short(value) for value in step.inputs]
    options = [f"{name}={_short(value)}" for name, value in step.options.items()]
    return f"{step.op}({', '.join(inputs + options)})"


def _short(value: Any) -> str:
    if isinstance(value, TracedTensor):
        return value.name
    if isinstance(value, np.ndarray) and value.size > 1:
        return f"array{value.shape}"
    return str(value)


def _numbers(name: str, array: np.ndarray) -> str:
    """    name [[ 0.1  0.2]
            [ 0.3  0.4]]"""
    start = f"   {name} "
    text = np.array2string(array, precision=4, suppress_small=True, threshold=200)
    return start + text.replace("\n", "\n" + " " * len(start))
