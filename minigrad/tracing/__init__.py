"""Follow a computation number by number, forward and backward: `mg.trace`.

trace.py records what runs, as the steps of steps.py; names.py names the tensors; shares.py says where a gradient comes
from; page/ makes it interactive.
"""
from .shares import shares
from .steps import Step, TracedTensor
from .trace import Trace, trace

__all__ = ["Step", "Trace", "TracedTensor", "shares", "trace"]
