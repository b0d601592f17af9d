"""Where a gradient comes from: how much of it arrives by each way."""
from collections.abc import Sequence

import numpy as np

from .. import tape
from ..runner import current
from .steps import Step, TracedTensor
from .trace import Trace


def shares(trace: Trace, name: str, through: Sequence[tuple[str, str]] | None = None) -> dict[tuple[str, str], np.ndarray]:
    """What arrives in the gradient of a tensor by each of these ways: {(step, input): a share}.

    A way is named by a step, called as its output, and one of the step's inputs: what the step sends to that input goes on
    from there to the tensor. Without `through`, these are the steps that take the tensor itself, and their shares add up
    to its gradient. Backward must have run with retain_graph=True, as in `trace(function, *inputs)`. ValueError for a way
    that is not there.

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
        through = [(step.output.name, name) for step in trace.steps if _takes(step, tensor)]
    return {way: _arrives(trace, tensor, *way) for way in through}


def _takes(step: Step, tensor: TracedTensor) -> bool:
    return any(value is tensor for value in step.inputs)  # not `in`: an array among them would be compared


def _arrives(trace: Trace, tensor: TracedTensor, step_name: str, input_name: str) -> np.ndarray:
    step = next((step for step in trace.steps if step.output.name == step_name), None)
    taken = trace[input_name]
    if step is None or not _takes(step, taken):
        raise ValueError(f"shares: no step that makes {step_name!r} takes {input_name!r}")
    if not step.gradients:
        raise ValueError("shares: backward has not run")
    sent = sum(gradient for value, gradient in zip(step.inputs, step.gradients) if value is taken and gradient is not None)
    if taken is tensor:
        return sent
    (found,) = tape.gradients({taken.node: sent}, [tensor.node], current(), retain_graph=True)
    return np.zeros(tensor.shape) if found is None else found
