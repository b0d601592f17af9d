"""Setting back what a function has changed: Tensors, their gradients, and the objects of the library that hold them."""
from typing import Any

import numpy as np

from ...tape import Node
from ...tensor import Tensor
from .surroundings import is_ours

# By name, as Python finds attributes in half the time while nobody has asked for __dict__.
OF_TENSOR = "_array", "node", "frozen"
OF_LEAF = "grad", "grad_is_lent", "hooks", "accumulation_hooks", "retains_grad", "name"


class Undo:
    """What values were, and all that they hold: arrays, containers, and objects of the library such as optimizers.

    >>> options = {"lr": 0.1, "moment": np.zeros(2)}
    >>> undo = Undo(options)
    >>> options["lr"] = 0.2; options["moment"] += 1
    >>> undo.restore()
    >>> options
    {'lr': 0.1, 'moment': array([0., 0.])}
    """

    def __init__(self, *values: Any, keeps_nothing: bool = False):
        self.keeps_nothing = keeps_nothing
        self._saved: dict[int, tuple[Any, Any]] = {}  # (value, what it was), by id
        for value in values:
            self.save(value)

    def save(self, value: Any) -> None:
        """Remember what this is now, unless that is known."""
        waiting = [] if self.keeps_nothing else [value]
        while waiting:
            own = contents(waiting.pop())
            if own is None or id(own) in self._saved:
                continue
            names = OF_TENSOR if isinstance(own, Tensor) else OF_LEAF if isinstance(own, Node) else None
            before = {name: getattr(own, name) for name in names} if names else own.copy()
            self._saved[id(own)] = own, before
            if not isinstance(own, np.ndarray):
                waiting += before.values() if isinstance(before, dict) else before

    def restore(self) -> None:
        """Set everything back to what it was."""
        for own, before in self._saved.values():
            if isinstance(own, (Tensor, Node)):
                for name, value in before.items():
                    setattr(own, name, value)
            elif isinstance(own, dict):
                own.clear()
                own.update(before)
            elif isinstance(own, list):
                own[:] = before
            elif own.flags.writeable:
                own[...] = before


def contents(value: Any) -> dict | list | np.ndarray | Tensor | Node | None:
    """What of a value can change."""
    if isinstance(value, (dict, list, np.ndarray, Tensor)) or type(value) is Node:
        return value
    if isinstance(value, tuple):
        return list(value)
    is_object = is_ours(type(value)) and not isinstance(value, (type, Node))
    return getattr(value, "__dict__", None) if is_object else None
