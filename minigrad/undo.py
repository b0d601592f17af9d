"""Setting back what a function has changed: Tensors, their gradients, and the objects of the library that hold them."""
from typing import Any, Iterator

import numpy as np

from .protocol import is_tensor
from .surroundings import is_ours


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
            value = waiting.pop()
            own = contents(value)
            if own is None or id(own) in self._saved:
                continue
            if isinstance(own, np.ndarray):
                self._saved[id(own)] = own, own.copy() if own.flags.writeable else None
            else:
                self._saved[id(own)] = own, own.copy()
                waiting += own.values() if isinstance(own, dict) else own

    def restore(self) -> None:
        """Set everything back to what it was."""
        for own, before in self._saved.values():
            if isinstance(own, np.ndarray):
                if before is not None:
                    own[...] = before
            elif isinstance(own, dict):
                own.clear()
                own.update(before)
            else:
                own[:] = before

    def arrays(self) -> Iterator[np.ndarray]:
        """The arrays among what was saved, with what they hold now."""
        return (own for own, _ in self._saved.values() if isinstance(own, np.ndarray))


def contents(value: Any) -> dict | list | np.ndarray | None:
    """What of a value can change."""
    if isinstance(value, (dict, list, np.ndarray)):
        return value
    if isinstance(value, tuple):
        return list(value)
    if is_tensor(value) or is_ours(type(value)) and not isinstance(value, type) and not hasattr(value, "parents"):
        return getattr(value, "__dict__", None)
    return None
