"""Where a gradient comes from: how much of it arrives along each path."""
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tape
from ..runner import current
from .steps import Step, TracedTensor
from .trace import Trace


def shares(trace: Trace, name: str, through: Sequence[tuple[str, str]] | None = None) -> dict[tuple[str, str], np.ndarray]:
    """How much of a tensor's gradient arrives along each path: {(step, input): its share}.

    A path is named by a step, which has its output's name, and one of its inputs: the share is what the step sends to that
    input, carried on from there to the tensor. Without `through`, the paths are the steps that use the tensor itself, and
    their shares add up to its gradient. Backward must have run with retain_graph=True, as `trace(function, *inputs)` does.
    ValueError if there is no such path.

    >>> import minigrad as mg
    >>> def residual(x):
    ...     inner = x * x
    ...     branch = 10.0 * inner
    ...     return (x + branch).sum()
    >>> trace = mg.trace(residual, [1.0, 3.0])
    >>> trace["x"].gradient
    array([21., 61.])
    >>> shares(trace, "x", [("add", "x"), ("branch", "inner")])
    {('add', 'x'): array([1., 1.]), ('branch', 'inner'): array([20., 60.])}
    """
    tensor = trace[name]
    if through is None:
        through = [(step.output.name, name) for step in trace.steps if _uses(step, tensor)]
    return {path: _share(trace, tensor, *path) for path in through}


def _uses(step: Step, tensor: TracedTensor) -> bool:
    return any(value is tensor for value in step.inputs)  # not `in`, which would compare arrays


def _share(trace: Trace, tensor: TracedTensor, step_name: str, input_name: str) -> np.ndarray:
    step = next((step for step in trace.steps if step.output.name == step_name), None)
    taken = trace[input_name]
    if step is None or not _uses(step, taken):
        raise ValueError(f"shares: there is no step {step_name!r} that uses {input_name!r}")
    if not step.gradients:
        raise ValueError("shares: backward has not run")
    uses = zip(step.inputs, step.gradients)
    sent: Any = sum(gradient for value, gradient in uses if value is taken and gradient is not None)
    if taken is tensor:
        return sent
    (found,) = tape.gradients({taken.node: sent}, [tensor.node], current(), retain_graph=True)
    return np.zeros(tensor.shape) if found is None else found
