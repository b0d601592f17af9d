"""Kinds of ops: those whose output may be a view, and those that combine several others."""
from ..tape import Op


class View(Op):
    """An op whose output may be a view of an input: who writes to it writes to that, see in_place.py."""


class Fused(Op):
    """An op that combines several primitives: both its forward and its backward run on arrays and on Tensors.

    With `saves_inputs`, forward saves all inputs first, in order, and then the intermediate results that backward needs.
    To differentiate backward, forward runs again on Tensors, which recomputes those.
    """

    is_in_order = True
    saves_inputs: bool = False
