"""What a trace keeps of a tensor and of an operation, and that as text."""
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..tape import Node


@dataclass(eq=False)
class TracedTensor:
    """A tensor as it was when it was used: a copy of its value, and the gradient that arrived."""

    value: np.ndarray
    kind: str  # "result" of a step, "input" that may learn or was handed in, "constant"
    node: Node | None  # its place on the tape
    name: str = ""
    gradient: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def learns(self) -> bool:
        return self.node is not None


@dataclass(eq=False)
class Step:
    """One operation that ran. `gradients` are what its backward sent to each input, in the input's shape."""

    op: str
    formula: str
    backward: str
    inputs: list[Any]  # TracedTensors; scalars, arrays and None as they are
    options: dict[str, Any]
    output: TracedTensor
    gradients: list[np.ndarray | None] = field(default_factory=list)  # empty: no backward ran


class Text(str):
    """Text that an interpreter shows as it is."""

    __repr__ = str.__str__


def as_table(tensors: list[TracedTensor], steps: list[Step]) -> str:
    """The inputs, the steps forward with what they made, and backward with what they sent."""
    forward = [_call(step) for step in steps]
    inputs = [tensor for tensor in tensors if tensor.kind != "result"]
    parts = ["inputs", *(_numbers(tensor.name, tensor.value) for tensor in inputs), "", "forward"]
    for i, (step, call) in enumerate(zip(steps, forward), 1):
        parts += [f"{i}. {step.output.name} = {call}    {step.formula}".rstrip(),
                  _numbers(step.output.name, step.output.value)]
    parts += ["", "backward"]
    ran = [(i, step) for i, step in enumerate(steps, 1) if step.gradients]
    if not ran:
        parts.append("  has not run: call backward() in the block, or give trace a gradient to start with")
    for i, step in reversed(ran):
        parts.append(f"{i}. {forward[i - 1]}    {step.backward}".rstrip())
        sent_to = [(value.name, sent) for value, sent in zip(step.inputs, step.gradients) if sent is not None]
        parts += [_numbers(f"to {name}", sent) for name, sent in sent_to]
    totals = [tensor for tensor in inputs if tensor.gradient is not None]
    if totals:
        parts += ["", "gradients", *(_numbers(f"d{tensor.name}", tensor.gradient) for tensor in totals)]
    return "\n".join(parts)


def _call(step: Step) -> str:
    """As Softmax(scores, dim=-1)."""
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
