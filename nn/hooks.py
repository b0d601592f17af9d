"""Hooks of modules: functions that see, and can replace, a module's inputs, outputs and gradients."""
import itertools
from collections.abc import Callable
from typing import Any

from minigrad import Function, Tensor

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


def _with_backward_hook(values: tuple[Any, ...], on_gradients: Callable[..., Any]) -> tuple[Any, ...]:
    """The values, with those that need gradients passed through BackwardHookFunction."""
    needs_gradient = [isinstance(value, Tensor) and value.requires_grad for value in values]
    if not any(needs_gradient):
        return values
    passed = iter(BackwardHookFunction.apply(on_gradients, *itertools.compress(values, needs_gradient)))
    return tuple(next(passed) if needs else value for value, needs in zip(values, needs_gradient))


def call_with_hooks(module: Any, hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """module.forward(*args, **kwargs), with the module's hooks in order of registration."""
    for kind, hook in hooks:
        if kind == "pre":
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    backward_hooks = [hook for kind, hook in hooks if kind == "backward"]
    arrived: list[tuple[Any, ...]] = []
    wants_gradient = [isinstance(value, Tensor) and value.requires_grad for value in args]

    def at_output(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        arrived[:] = [gradients]
        if not any(wants_gradient):  # the gradient goes no further
            at_input(())
        return gradients

    def at_input(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        of_wanted = iter(gradients)
        gradients = tuple(next(of_wanted) if wanted else None for wanted in wants_gradient)
        for hook in backward_hooks:
            result = hook(module, gradients, arrived[0])
            if result is not None:
                gradients = result if isinstance(result, tuple) else (result,)
            if len(gradients) != len(wants_gradient):
                raise RuntimeError(f"a backward hook of {type(module).__name__} returned {len(gradients)} gradients for "
                                   f"{len(wants_gradient)} arguments; expected one for each, None where none is needed")
        return tuple(gradient for gradient, wanted in zip(gradients, wants_gradient) if wanted)

    if backward_hooks:
        args = _with_backward_hook(args, at_input)
    output = module.forward(*args, **kwargs)
    for kind, hook in hooks:
        if kind in ("forward", "forward with kwargs"):
            result = hook(module, args, output) if kind == "forward" else hook(module, args, kwargs, output)
            output = output if result is None else result
    if not backward_hooks:
        return output
    if isinstance(output, tuple):
        return _with_backward_hook(output, at_output)
    return _with_backward_hook((output,), at_output)[0]
