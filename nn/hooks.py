"""Hooks of modules: functions that see, and can replace, a module's inputs, outputs and gradients."""
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from minigrad import Function, Tensor
from minigrad.extend import each

Hooks = tuple[tuple[str, Callable[..., Any]], ...]  # (kind, hook), in order of registration


class BackwardHookFunction(Function):
    """The identity on several tensors, whose gradients backward passes through `on_gradients`, all at once."""

    @staticmethod
    def forward(ctx: Any, on_gradients: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.on_gradients = on_gradients
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return None, *ctx.on_gradients(gradients)


def _with_backward_hook(values: Sequence[Any], on_gradients: Callable[..., Any]) -> Sequence[Any]:
    """The values, with those that need gradients passed through BackwardHookFunction. on_gradients gets and returns a
    gradient for each value, None for the others."""
    needs_gradient = [isinstance(value, Tensor) and value.requires_grad for value in values]
    if not any(needs_gradient):
        return values

    def of_needed(gradients: tuple[Tensor, ...]) -> tuple[Any, ...]:
        arrived = iter(gradients)
        of_all = on_gradients(tuple(next(arrived) if needs else None for needs in needs_gradient))
        return tuple(itertools.compress(of_all, needs_gradient))

    passed = iter(BackwardHookFunction.apply(of_needed, *itertools.compress(values, needs_gradient)))
    return tuple(next(passed) if needs else value for value, needs in zip(values, needs_gradient))


def call_with_hooks(module: Any, hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """module.forward(*args, **kwargs), with the module's hooks in order of registration."""
    for kind, hook in hooks:
        if kind == "pre":
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    backward_hooks = [hook for kind, hook in hooks if kind == "backward"]
    at_outputs: list[tuple[Any, ...]] = []  # the gradients that have arrived there, on their way to the inputs
    count, goes_on = len(args), any(isinstance(value, Tensor) and value.requires_grad for value in args)

    def at_output(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        at_outputs[:] = [gradients]
        if not goes_on:
            at_input((None,) * count)
        return gradients

    def at_input(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        if not at_outputs:  # these come from inside the module, as in a backward from a tensor that it keeps
            return gradients
        douts = at_outputs.pop()
        for hook in backward_hooks:
            result = hook(module, gradients, douts)
            if result is not None:
                gradients = result if isinstance(result, tuple) else (result,)
            if len(gradients) != count:
                raise RuntimeError(f"a backward hook of {type(module).__name__} returned {len(gradients)} gradients for "
                                   f"{count} arguments; expected one for each, None where none is needed")
        return gradients

    if backward_hooks:
        args = tuple(_with_backward_hook(args, at_input))
    output = module.forward(*args, **kwargs)
    for kind, hook in hooks:
        if kind in ("forward", "forward with kwargs"):
            result = hook(module, args, output) if kind == "forward" else hook(module, args, kwargs, output)
            output = output if result is None else result
    if not backward_hooks:
        return output
    outputs: list[Any] = []
    each(output, outputs.append)
    hooked = iter(_with_backward_hook(outputs, at_output))
    return each(output, lambda _: next(hooked))
