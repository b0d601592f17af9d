"""What a trace keeps of a tensor and of an operation."""
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
