"""Hooks of modules: functions that see, and may replace, what goes into a module, what comes out, and the gradients."""
from collections.abc import Callable
from typing import Any

from minigrad import Function
from minigrad.capture import outdate
from minigrad.tensor import Tensor


class HookHandle:
    """What registering a hook gives: `remove()` takes the hook off again."""

    def __init__(self, hooks: list, entry: tuple):
        self._hooks, self._entry = hooks, entry

    def remove(self) -> None:
        if self._entry in self._hooks:
            self._hooks.remove(self._entry)
            outdate()


class Watch(Function):
    """The identity on several tensors, whose gradients go through a function together."""

    @staticmethod
    def forward(ctx, on_gradients: Callable, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.on_gradients = on_gradients
        return tensors

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple:
        return None, *ctx.on_gradients(gradients)


def _watch(values: tuple, on_gradients: Callable) -> tuple:
    """The values, with those that need gradients passed through Watch."""
    watched = [value for value in values if isinstance(value, Tensor) and value.requires_grad]
    replaced = iter(Watch.apply(on_gradients, *watched)) if watched else iter(())
    return tuple(next(replaced) if any(value is w for w in watched) else value for value in values)


def call_with_hooks(module: Any, hooks: list[tuple[str, Callable]], args: tuple, kwargs: dict) -> Any:
    """module.forward(*args, **kwargs), with its hooks in the order in which they were registered."""
    for kind, hook in hooks:
        if kind == "pre":
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    backward_hooks = [hook for kind, hook in hooks if kind == "backward"]
    arrived: list[tuple] = []
    wants_gradient = [isinstance(value, Tensor) and value.requires_grad for value in args]

    def at_output(gradients: tuple) -> tuple:
        arrived[:] = [gradients]
        if not any(wants_gradient):  # nothing goes further back
            at_input(())
        return gradients

    def at_input(gradients: tuple) -> tuple:
        of_wanted = iter(gradients)
        gradients = tuple(next(of_wanted) if wanted else None for wanted in wants_gradient)
        for hook in backward_hooks:
            result = hook(module, gradients, arrived[0])
            if result is not None:
                gradients = result if isinstance(result, tuple) else (result,)
            if len(gradients) != len(args):
                raise RuntimeError(
                    f"a backward hook of {type(module).__name__} returned {len(gradients)} gradients for {len(args)} "
                    "arguments; expected one for each, None where none is needed"
                )
        return tuple(gradient for gradient, wanted in zip(gradients, wants_gradient) if wanted)

    if backward_hooks:
        args = _watch(args, at_input)
    output = module.forward(*args, **kwargs)
    for kind, hook in hooks:
        if kind == "forward":
            result = hook(module, args, output)
            output = output if result is None else result
    if backward_hooks:
        is_tuple = isinstance(output, tuple)
        outputs = _watch(output if is_tuple else (output,), at_output)
        output = outputs if is_tuple else outputs[0]
    return output
