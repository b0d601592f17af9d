"""Running the steps of a trace again, forward and backward, on other arrays: by each op's own lines in minigrad/ops."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..implementations import textbook, textbooks
from ..runner import unbroadcast
from ..tape import Node
from .steps import Step, TracedTensor, is_traced

Backward = Callable[..., Any]  # of what it is `Applied` to, dout, and what forward has saved


@dataclass
class Applied:
    """What a backward sees that replaces that of a step."""

    op: Any
    values: Mapping[str, Any]  # of all tensors so far, by name
    gradients: Mapping[str, Any]
    right: list[Any]  # what the op's own backward sends


class Rerun:
    """Values and gradients by tensor, of these inputs (by default those of the trace).

    `backwards` replace those of the steps of these names. `options` are others for a step's op, by name.
    """

    def __init__(self, steps: list[Step], tensors: list[TracedTensor], inputs: Mapping[str, Any] | None = None,
                 backwards: Mapping[str, Backward] | None = None, options: Mapping[str, dict[str, Any]] | None = None
                 ) -> None:
        self.steps, self.tensors = steps, tensors
        self.backwards, self.options = backwards or {}, options or {}
        self.ops: dict[Step, Any] = {}
        self.values: dict[str, Any] = {}
        self.gradients: dict[str, Any] = {}
        self.sent: dict[Step, list[Any]] = {}
        with textbook(), np.errstate(all="ignore"):
            self.forward(inputs or {})
            self.backward()

    def forward(self, inputs: Mapping[str, Any]) -> None:
        made = {step.output for step in self.steps}
        for tensor in self.tensors:
            if tensor not in made:
                self.values[tensor.name] = self.cells(tensor, "value", inputs.get(tensor.name, tensor.value))
        for step in self.steps:
            out = self.run(step)
            kept = self.values[step.output.name] = self.cells(step.output, "value", out.reshape(step.output.shape))
            self.ops[step].saved = tuple(kept.reshape(step.shape) if x is out else x for x in self.ops[step].saved)

    def run(self, step: Step) -> Any:
        """The output of a step; its op is kept."""
        op = self.ops[step] = object.__new__(textbooks.get(step.kind, step.kind))
        sent = step.gradients or [None] * len(step.inputs)
        op.parents = tuple(None if gradient is None else Node(shape, gradient.dtype)
                           for gradient, shape in zip(sent, step.shapes))
        values = [self.values[value.name].reshape(shape) if is_traced(value) else self.constant(step, i, value)
                  for i, (value, shape) in enumerate(zip(step.inputs, step.shapes))]
        return op.forward(*values, **step.options | self.options.get(step.output.name, {}))

    def backward(self) -> None:
        arrived: dict[str, list[Any]] = {tensor.name: [] for tensor in self.tensors}
        used = {value for step in self.steps for value, sent in zip(step.inputs, step.gradients) if sent is not None}
        for step in reversed(self.steps):
            if not step.gradients:
                continue
            if not arrived[step.output.name]:  # backward starts here
                arrived[step.output.name].append(step.output.gradient)
            dout = self.total(step.output, arrived[step.output.name])
            self.sent[step] = self.sends(step, dout)
            for value, gradient in zip(step.inputs, self.sent[step]):
                if gradient is not None:
                    arrived[value.name].append(gradient)
        for tensor in used:
            if tensor.name not in self.gradients:
                self.total(tensor, arrived[tensor.name])

    def total(self, tensor: TracedTensor, arrived: list[Any]) -> Any:
        """The gradient of a tensor, once all of it has arrived."""
        total = arrived[0]
        for gradient in arrived[1:]:
            total = total + gradient
        self.gradients[tensor.name] = self.cells(tensor, "gradient", total)
        return self.gradients[tensor.name]

    def sends(self, step: Step, dout: Any) -> list[Any]:
        """What a step sends to its inputs."""
        op, dout = self.ops[step], dout.reshape(step.shape)
        return self.chosen(step, dout, fitted(step, op.backward(dout, *op.saved)))

    def chosen(self, step: Step, dout: Any, right: list[Any]) -> list[Any]:
        """What the step's own backward sends, or one that replaces it."""
        backward = self.backwards.get(step.output.name)
        return right if backward is None else self.replaced(step, backward, dout, right)

    def replaced(self, step: Step, backward: Backward, dout: Any, right: list[Any]) -> list[Any]:
        op = self.ops[step]
        return fitted(step, backward(Applied(op, self.values, self.gradients, right), dout, *op.saved))

    def constant(self, step: Step, i: int, value: Any) -> Any:
        """An input that is no tensor."""
        return value

    def cells(self, tensor: TracedTensor, kind: str, content: Any) -> Any:
        """The value or gradient of a tensor, as later steps see it."""
        return content


def fitted(step: Step, found: Any) -> list[Any]:
    """An op's gradients in the shapes of the step's inputs, where one is wanted."""
    gradients = found if type(found) in (tuple, list) else (found,)
    return [None if sent is None else unbroadcast(gradient, shape, step.op).reshape(value.shape)
            for gradient, shape, value, sent in zip(gradients, step.shapes, step.inputs, step.gradients, strict=True)]
