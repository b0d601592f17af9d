"""Hooks, which are called when a gradient arrives, and the names of tensors."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic

import numpy as np

from ..arrays.annotations import Tensor
from ..backend import is_tensor
from ..replays import notice


class HookHandle:
    """A registered hook, which was appended to the tuple owner.attribute; `remove()` takes it out again."""

    def __init__(self, owner: Any, hook: Any, attribute: str = "hooks") -> None:
        notice("registers a hook")
        self._owner, self._hook, self._attribute = owner, hook, attribute
        setattr(owner, attribute, getattr(owner, attribute) + (hook,))

    def remove(self) -> None:
        """Take the hook out again."""
        hooks = getattr(self._owner, self._attribute)
        setattr(self._owner, self._attribute, tuple(hook for hook in hooks if hook is not self._hook))


class HookMethods(Generic[Tensor]):
    def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call hook(gradient) once the whole gradient of this tensor has arrived; what it returns replaces the gradient.

        >>> from minigrad import tensor
        >>> x = tensor([3.0], requires_grad=True)
        >>> handle = x.register_hook(lambda gradient: gradient * 10.0)
        >>> (x * x).backward()
        >>> x.grad.item()
        60.0
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")

        def on_arrival(gradient):
            seen = gradient if is_tensor(gradient) else self.constant(np.array, gradient)  # which the hook may write to
            result = hook(seen)
            if result is None:
                result = seen
            if not is_tensor(result) or result.shape != seen.shape:
                came = result.shape if is_tensor(result) else type(result).__name__
                raise RuntimeError(f"a hook must return None or a Tensor of shape {seen.shape}, got {came}")
            return result if is_tensor(gradient) else result.array.astype(gradient.dtype)

        return HookHandle(self.node, on_arrival)

    def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> HookHandle:
        """Call hook(self) when backward has added the whole gradient of this leaf to `grad`.

        A compiled step calls it too, as soon as the gradient is complete, before those of earlier layers are computed.

        >>> from minigrad import tensor
        >>> x = tensor([3.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
        >>> (x * x).backward()
        tensor([6.])
        """
        if not (self.requires_grad and self.is_leaf):
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors, or those that don't "
                               "require gradient")
        return HookHandle(self.node, functools.partial(hook, self), "accumulation_hooks")

    @property
    def name(self: Tensor) -> str | None:
        """What error messages and `graph` call this tensor; set it on one that requires a gradient."""
        return None if self.node is None else self.node.name

    @name.setter
    def name(self: Tensor, name: str) -> None:
        if not self.requires_grad:
            raise RuntimeError("only a tensor that requires a gradient has a place on the tape to name")
        self.node.name = name
