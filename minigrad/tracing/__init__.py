"""Follow a computation number by number, forward and backward: `mg.trace`.

trace.py keeps what ran, as steps.py has it, and shows as text; names.py finds what to call each tensor; formulas.py has
the formula of each op; plain.py makes of it what JSON takes; shares.py says where a gradient comes from.
"""
from .shares import shares
from .steps import Step, TracedTensor
from .trace import Trace, trace

__all__ = ["Step", "Trace", "TracedTensor", "shares", "trace"]
