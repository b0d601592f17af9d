"""Operations written by users: a subclass of Function defines what to compute, and its gradient."""
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..ops.operands import data_of
from ..per_thread import Block, this_thread
from ..ops.kinds import View
from ..tape import Op
from ..tensor import Tensor, apply, wrap
from .grad_mode import no_grad
from .twice import Twice


class Context:
    """What forward keeps for backward: saved tensors, and any attributes."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors as `saved_tensors`, where inputs and outputs are on the tape again."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward expects Tensors, got {type(tensor).__name__}; set an attribute of ctx")
        self.saved_tensors = tensors


class Function:
    """A differentiable function with its own backward. Both are static methods; `apply` runs the function.

    forward(ctx, *inputs) computes off the tape, and returns a Tensor or a tuple of Tensors.
    backward(ctx, *douts) gets a gradient for each output (None for integers, which have none) and returns one for each
    input: a Tensor of the input's shape, or None. With create_graph it runs on the tape, and can itself be differentiated
    if it consists of Tensor operations. What else forward keeps than inputs and outputs, it then computes again.

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

    _op: ClassVar[type[Op]]  # what stands for it on the tape

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._op = type(cls.__name__, (_FunctionOp,), {"__doc__": cls.__doc__})

    @staticmethod
    def forward(ctx: Any, *inputs: Any, **options: Any) -> Any:
        """The output, or outputs, of the inputs."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *inputs)")

    @staticmethod
    def backward(ctx: Any, *douts: Any, **options: Any) -> Any:
        """The gradients of the inputs for those of the outputs."""
        raise NotImplementedError("a Function needs a static method backward(ctx, *douts)")

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Run forward on the inputs; on the tape if one of them requires a gradient.

        TypeError if none is a Tensor: those in tuples and lists would get no gradient.
        """
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        if not tensors:
            came = ", ".join(type(x).__name__ for x in inputs) or "nothing"
            raise TypeError(f"{cls.__name__}.apply expects a Tensor among its arguments, not inside one; got {came}")
        run = Run(cls, inputs)
        joined = apply(getattr(cls, "_op", _FunctionOp), *tensors, run=run)
        outputs = tuple(output if piece is None else run.cut(joined, piece) for output, piece in run.outputs)
        return outputs if run.is_tuple else outputs[0]


class Piece(NamedTuple):
    """Where a floating-point output is in the vector of all outputs."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype


class Run:
    """One call of a Function: its inputs, and its outputs, joined to a vector.

    This lets one application on the tape have several outputs. A single output stays as it is; integers and booleans,
    which have no gradient, are kept separately.
    """

    ctx: Context  # of the last forward
    outputs: list[tuple[Any, Piece | None]]  # of the last forward

    def __init__(self, function: type[Function], inputs: tuple[Any, ...]):
        self.function = function
        self.rounds = this_thread.rounds_products  # in backward and in replays too, as other ops do
        self.numbers = "bfloat16" if self.rounds else "float32"  # as a compiled step compares calls
        self.inputs = inputs
        self.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in inputs)

    def new_context(self, kept: dict[Any, Any] | None = None) -> Context:
        """One that keeps these: attributes by name, saved tensors by number."""
        ctx = Context(self.needs_input_grad)
        for key, value in (kept or {}).items():
            if isinstance(key, str):
                setattr(ctx, key, value)
            else:
                ctx.saved_tensors += (value,)
        return ctx

    def precision(self) -> Block:
        """The one that forward was first called in."""
        return Block("rounds_products", self.rounds)

    def forward(self, ctx: Context, tensors: Iterable[Tensor]) -> tuple[np.ndarray, list[tuple[Any, Piece | None]]]:
        """The outputs where these tensors are the inputs: joined to the array that goes on the tape, and each with its
        piece, by which `cut` extracts it again."""
        tensors = iter(tensors)
        with self.precision():
            outputs = self.function.forward(ctx, *(next(tensors) if isinstance(x, Tensor) else x for x in self.inputs))
        self.is_tuple = isinstance(outputs, tuple)
        pieces: list[tuple[Any, Piece | None]] = []
        floats, start = [], 0
        for output in outputs if self.is_tuple else (outputs,):
            if not isinstance(output, Tensor):
                raise TypeError(f"{self.function.__name__}.forward must return Tensors, got {type(output).__name__}")
            piece = Piece(start, output.shape, output.dtype) if output.dtype.kind == "f" else None
            pieces.append((output, piece))
            if piece:
                floats.append(output.array)
                start += output.numel()
        if not floats:
            return np.empty(0, np.float32), pieces
        return floats[0] if not self.is_tuple else np.concatenate([array.reshape(-1) for array in floats]), pieces

    def cut(self, joined: Tensor, piece: Piece) -> Tensor:
        """One output, or its gradient."""
        if not self.is_tuple:
            return joined
        return joined[piece.start : piece.start + math.prod(piece.shape)].reshape(piece.shape).to(piece.dtype)

    def backward(self, ctx: Context, douts: Sequence[Tensor | None]) -> list[Tensor | None]:
        """One gradient for each tensor among the inputs, or an error that names the Function."""
        with self.precision():
            found = self.function.backward(ctx, *douts)
        name, gradients = f"{self.function.__name__}.backward", found if isinstance(found, tuple) else (found,)
        if len(gradients) != len(self.inputs):
            raise RuntimeError(f"{name} returned {len(gradients)} gradients, but forward had {len(self.inputs)} inputs")
        for i, (gradient, x) in enumerate(zip(gradients, self.inputs)):
            if gradient is None:
                continue
            if not isinstance(gradient, Tensor):
                raise TypeError(f"{name} returned a {type(gradient).__name__} for input {i}; expected Tensor or None")
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{name} returned a gradient for input {i}, which is not a Tensor")
            if gradient.shape != x.shape and not is_stretched(x.shape, gradient.shape):
                raise RuntimeError(f"{name} returned a gradient of shape {gradient.shape} for input {i} of shape {x.shape}")
            if gradient.dtype.kind != "f":
                raise TypeError(f"{name} returned a gradient of {gradient.dtype} for input {i}; expected floats")
        return [gradient for gradient, x in zip(gradients, self.inputs) if isinstance(x, Tensor)]


def is_stretched(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Does this shape broadcast to the other? Then the tape sums such a gradient."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape[::-1], to[::-1]))


class _FunctionOp(View):
    """out = forward(x):  dx = backward(dout), both as the Function says"""

    is_fixed = False

    def forward(self, *arrays, run):
        self.run, self.arrays = run, arrays
        run.ctx = run.new_context()  # a replay calls forward again: attributes that it set last time are gone
        with no_grad():
            out, outputs = run.forward(run.ctx, map(wrap, arrays))
        saved, run.ctx.saved_tensors = run.ctx.saved_tensors, ()
        out = out.view() if any(out is array for array in arrays) else out
        # A saved output is cut from the joined one, which has a place on the tape.
        pieces = {id(tensor.array): piece for tensor, piece in outputs if piece and run.is_tuple}
        self.pieces = [None if tensor is None else pieces.get(id(tensor.array)) for tensor in saved]
        self.save(*[out if piece else data_of(tensor) for tensor, piece in zip(saved, self.pieces)])
        run.outputs = [(None if piece else tensor, piece) for tensor, piece in outputs]
        return out

    def backward(self, dout, *saved):
        run, on_tape = self.run, isinstance(dout, Tensor)
        dout = dout if on_tape else wrap(np.asarray(dout))
        tensors = (x if x is None or isinstance(x, Tensor) else wrap(x) for x in saved)
        tensors = tuple(run.cut(x, piece) if piece else x for x, piece in zip(tensors, self.pieces))
        douts = [None if piece is None else run.cut(dout, piece) for _, piece in run.outputs]
        run.ctx.saved_tensors = tensors
        gradients = Twice(self, douts).gradients() if on_tape else run.backward(run.ctx, douts)
        run.ctx.saved_tensors = ()
        return tuple(g if on_tape or g is None else g.array.copy() for g in gradients)
