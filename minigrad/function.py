"""Operations written by users: a subclass of Function says what to compute and what its gradient is."""
from typing import Any

import numpy as np

from . import tape
from .tape import Op
from .tensor import Tensor, apply, wrap


class Context:
    """What forward leaves for backward: saved tensors, and any attributes."""

    def __init__(self, needs_input_grad: tuple[bool, ...]):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors; they come back as `saved_tensors`, inputs and outputs on the tape."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward expects Tensors, got {type(tensor).__name__}; use an attribute of ctx")
        self.saved_tensors = tensors


class Function:
    """A differentiable function with its own backward. Both are static methods; `apply` runs it.

    forward(ctx, *inputs) gets the inputs, computes without recording, and returns a Tensor, or a tuple of them.
    backward(ctx, *douts) gets a gradient for each output and returns one for each input: a Tensor of the input's shape,
    or None. With create_graph it is recorded, and so can be differentiated itself if it is made of Tensor operations.

    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, dout):
    ...         (x,) = ctx.saved_tensors
    ...         return 3.0 * x * x * dout
    >>> x = Tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor([12.])
    """

    @staticmethod
    def forward(ctx: Context, *inputs: Any):
        raise NotImplementedError("a Function needs a static method forward(ctx, *inputs)")

    @staticmethod
    def backward(ctx: Context, *douts: Tensor):
        raise NotImplementedError("a Function needs a static method backward(ctx, *douts)")

    @classmethod
    def apply(cls, *inputs: Any):
        """Run forward on the inputs, and put it on the tape if one of them needs a gradient."""
        run = _Run(cls, inputs)
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        joined = apply(type(cls.__name__, (_FunctionOp,), {"run": run}), *tensors)
        if not run.is_tuple:
            return joined
        return tuple(
            joined[start : start + size].reshape(shape)
            for start, size, shape in zip(run.starts, run.sizes, run.shapes)
        )


class _Run:
    """One call of a Function: which inputs are tensors, and how its outputs are laid out."""

    def __init__(self, function: type[Function], inputs: tuple):
        self.function = function
        self.inputs = inputs
        self.ctx = Context(tuple(isinstance(x, Tensor) and x.requires_grad for x in inputs))

    def join(self, outputs: Any) -> np.ndarray:
        """The output's array; several are laid one after the other in a vector, and cut out of it again."""
        self.is_tuple = isinstance(outputs, tuple)
        outputs = outputs if self.is_tuple else (outputs,)
        for output in outputs:
            if not isinstance(output, Tensor):
                raise TypeError(f"{self.function.__name__}.forward must return Tensors, got {type(output).__name__}")
        self.shapes = [output.shape for output in outputs]
        self.sizes = [output.numel() for output in outputs]
        self.starts = np.cumsum([0] + self.sizes[:-1]).tolist()
        if not self.is_tuple:
            return outputs[0].array
        return np.concatenate([output.array.reshape(-1) for output in outputs])


class _FunctionOp(Op):
    """A Function on the tape."""

    run: _Run

    def forward(self, *arrays):
        run, arrays = self.run, iter(arrays)
        inputs = [wrap(next(arrays)) if isinstance(x, Tensor) else x for x in run.inputs]
        given = [x.array for x in inputs if isinstance(x, Tensor)]
        with tape.no_grad():
            out = run.join(run.function.forward(run.ctx, *inputs))
        saved, run.ctx.saved_tensors = run.ctx.saved_tensors, ()
        self.save(*[None if tensor is None else tensor.array for tensor in saved])
        return out.view() if any(out is array for array in given) else out

    def backward(self, dout, *saved):
        run, on_tape = self.run, isinstance(dout, Tensor)
        dout = dout if on_tape else wrap(np.asarray(dout))
        run.ctx.saved_tensors = tuple(x if x is None or isinstance(x, Tensor) else wrap(x) for x in saved)
        pieces = (dout,)
        if run.is_tuple:
            pieces = tuple(
                dout[start : start + size].reshape(shape)
                for start, size, shape in zip(run.starts, run.sizes, run.shapes)
            )
        gradients = run.function.backward(run.ctx, *pieces)
        run.ctx.saved_tensors = ()
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        checked = self._checked(gradients)
        return tuple(g if on_tape or g is None else g.array for g in checked)

    def _checked(self, gradients: tuple) -> list:
        """One gradient per tensor among the inputs, or an error that names the Function."""
        name, inputs = self.run.function.__name__, self.run.inputs
        if len(gradients) != len(inputs):
            raise RuntimeError(f"{name}.backward returned {len(gradients)} gradients, but forward had {len(inputs)} inputs")
        checked = []
        for i, (gradient, x) in enumerate(zip(gradients, inputs)):
            if gradient is not None and not isinstance(gradient, Tensor):
                raise TypeError(f"{name}.backward returned a {type(gradient).__name__} for input {i}; expected Tensor or None")
            if not isinstance(x, Tensor):
                if gradient is not None:
                    raise RuntimeError(f"{name}.backward returned a gradient for input {i}, which is not a Tensor")
                continue
            if gradient is not None and gradient.shape != x.shape:
                raise RuntimeError(
                    f"{name}.backward returned a gradient of shape {gradient.shape} for input {i} of shape {x.shape}"
                )
            if gradient is not None and gradient.dtype.kind != "f":
                raise TypeError(f"{name}.backward returned a gradient of {gradient.dtype} for input {i}; expected floats")
            checked.append(gradient)
        return checked
