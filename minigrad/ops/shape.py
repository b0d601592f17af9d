"""Functions that only move elements: backward moves them back. They return views where NumPy does."""
from __future__ import annotations

import itertools
import math
from typing import Any, Generic, Sequence

import numpy as np

from .. import backend
from ..arrays.annotations import Axes, Size, Tensor, TensorLike
from ..arrays.dtypes import as_array
from ..backend import concatenate, is_tensor
from .kinds import View
from ..tape import Op
from .indexing import Index
from .numpy_protocol import answers
from .operands import at, call, cast, check_dim, checked_axes, common_dtype, no_tensor, sizes


class Clone(Op):
    """out = a copy of x:  dx = dout"""

    def forward(self, x):
        return backend.copied(x)

    def backward(self, dout):
        return dout


class Reshape(View):
    """out = x in another shape, same order of elements:  dx = dout in x's shape"""

    def forward(self, x, *, shape):
        self.x_shape = x.shape
        return x.reshape(shape)

    def backward(self, dout):
        return dout.reshape(self.x_shape)


class Permute(View):
    """out[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]:  dx = dout with the inverse permutation of its axes"""

    def forward(self, x, *, axes):
        self.axes = axes
        return x.transpose(axes)

    def backward(self, dout):
        inverse = sorted(range(len(self.axes)), key=self.axes.__getitem__)
        return np.transpose(dout, inverse) if is_tensor(dout) else dout.transpose(inverse)


class Expand(View):
    """out = x repeated along axes of length 1, without a copy:  dx = dout, which the tape sums over the repetitions"""

    def forward(self, x, *, shape):
        return np.broadcast_to(x, shape)

    def backward(self, dout):
        return dout


class Concatenate(Op):
    """out = the inputs one after the other along axis:  dx = its piece of dout, for each input x"""

    def forward(self, *arrays, axis):
        self.axis = axis % arrays[0].ndim
        self.ends = list(itertools.accumulate([a.shape[axis] for a in arrays]))
        return concatenate(arrays, self.axis)

    def backward(self, dout):
        return tuple([dout[at(self.axis, slice(start, end))] for start, end in zip([0] + self.ends, self.ends)])


class Stack(Op):
    """out = the inputs, of one shape, side by side along a new axis:  dx = its slice of dout, for each input x"""

    def forward(self, *arrays, axis):
        self.axis = axis % (arrays[0].ndim + 1)
        return concatenate([a[at(self.axis, None)] for a in arrays], self.axis)

    def backward(self, dout):
        return tuple([dout[(*at(self.axis, i), ...)] for i in range(dout.shape[self.axis])])  # views, not elements


class Flip(Op):
    """out = x in reverse order along axes:  dx = dout in reverse order along them"""

    def forward(self, x, *, axes):
        self.axes = axes
        backwards = [slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim)]
        return backend.copied(x[(*backwards, ...)])

    def backward(self, dout):
        return call(Flip, dout, axes=self.axes)


class Pad(Op):
    """out = full(shape, value), but out[index] = x, index a tuple of slices:  dx = dout[index]"""

    def forward(self, x, *, index, shape, value):
        self.index = index
        out = np.full(shape, value, x.dtype, like=x)
        out[(*index, ...)] = x
        return out

    def backward(self, dout):
        return call(Index, dout, index=self.index)


@answers(np.concatenate)
def cat(tensors: Sequence[TensorLike], dim: int = 0) -> Any:
    """The tensors one after the other along dim."""
    tensors = _of_one_dtype("cat", tensors)
    for i, t in enumerate(tensors):
        if t.ndim == 0:
            raise ValueError(f"cat: zero-dimensional tensor (at position {i}) cannot be concatenated; stack() can")
    dim = check_dim("cat", tensors[0], dim)
    try:
        return call(Concatenate, *tensors, axis=dim)
    except (IndexError, ValueError):
        raise ValueError(f"cat: sizes must match except along dim {dim}, got {[t.shape for t in tensors]}") from None


@answers(np.stack)
def stack(tensors: Sequence[TensorLike], dim: int = 0) -> Any:
    """The tensors side by side along a new axis."""
    tensors = _of_one_dtype("stack", [t if is_tensor(t) else np.asarray(t) for t in tensors])
    dim = check_dim("stack", tensors[0], dim, new=1)
    if any([t.shape != tensors[0].shape for t in tensors]):
        raise ValueError(f"stack: expected tensors of one shape, got {[t.shape for t in tensors]}")
    return call(Stack, *tensors, axis=dim)


def _of_one_dtype(name: str, tensors: Sequence) -> tuple:
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError(f"{name}: expected a non-empty sequence of tensors")
    if not any(map(is_tensor, tensors)):
        raise no_tensor(*tensors)
    if len({t.dtype for t in tensors}) == 1:
        return tensors
    dtype = common_dtype(*tensors)
    return tuple([cast(t, dtype) for t in tensors])


def pad(x: Tensor, widths: Sequence[int], value: float = 0.0) -> Tensor:
    """x with `value` before and after it: widths (before, after) of the last axis, then of the one before it, and so on.

    A negative width cuts elements off. TypeError if the dtype of x cannot hold the value.
    """
    if x.dtype.kind != "f" and not (math.isfinite(value) and as_array(value, x.dtype) == value):
        raise TypeError(f"pad: {value!r} does not fit into a tensor of {x.dtype}; convert it with .to(dtype)")
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ValueError(f"pad: expected two widths per axis, at most {2 * x.ndim} for shape {x.shape}, got {widths}")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2) + list(zip(widths[-2::-2], widths[::-2]))
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, pairs))
    if any(n < 0 for n in shape):
        raise ValueError(f"pad: widths {tuple(widths)} leave a negative length of {x.shape}")
    kept = x
    if any(width < 0 for width in widths):
        kept = x[tuple(slice(max(-before, 0), n + min(after, 0)) for n, (before, after) in zip(x.shape, pairs))]
    place = tuple(slice(max(before, 0), max(before, 0) + n) for n, (before, _) in zip(kept.shape, pairs))
    return x.apply_op(Pad, kept, index=place, shape=shape, value=value)


class ShapeMethods(Generic[Tensor]):
    def clone(self: Tensor) -> Tensor:
        """A copy, on the tape."""
        return self.apply_op(Clone, self)

    @answers(np.reshape)
    def reshape(self: Tensor, *shape: Size) -> Tensor:
        """The elements in another shape; one length may be -1. A view, or a copy if that is impossible."""
        shape = sizes(shape)
        try:
            return self.apply_op(Reshape, self, shape=shape)
        except ValueError:
            raise ValueError(
                f"shape {shape} is invalid for a tensor of shape {self.shape} ({self.numel()} elements)"
            ) from None

    def view(self: Tensor, *shape: Size) -> Tensor:
        """The same memory in another shape; RuntimeError if that takes a copy, as after a transpose.

        >>> from minigrad import zeros
        >>> x = zeros(2, 3)
        >>> x.view(-1)[0] = 5.0
        >>> x[0, 0]
        tensor(5.)
        """
        out = self.reshape(*shape)
        if not self._array.flags.c_contiguous and not np.may_share_memory(out._array, self._array):
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
                f"contiguous subspaces). Use .reshape(...) instead: only a copy of shape {self.shape} with strides "
                f"{self.stride()} has shape {out.shape}"
            )
        return out

    def ravel(self: Tensor) -> Tensor:
        """All elements in a vector."""
        return self.reshape(-1)

    @answers(np.ravel)
    def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The axes from start_dim to end_dim joined to one."""
        start, end = check_dim("flatten", self, start_dim), check_dim("flatten", self, end_dim)
        if self.ndim == 0:
            return self.reshape(1)
        return self.reshape(self.shape[:start] + (math.prod(self.shape[start : end + 1]),) + self.shape[end + 1 :])

    def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """One axis split into several, whose lengths (one may be -1) multiply to its own."""
        dim, lengths, known = check_dim("unflatten", self, dim), tuple(sizes), math.prod(n for n in sizes if n != -1)
        filled = tuple(self.shape[dim] // max(known, 1) if n == -1 else n for n in lengths)
        if lengths.count(-1) > 1 or math.prod(filled) != self.shape[dim]:
            raise ValueError(f"unflatten: {lengths} don't multiply up to {self.shape[dim]}, axis {dim} of {self.shape}")
        return self.reshape(self.shape[:dim] + filled + self.shape[dim + 1 :])

    @answers(np.squeeze)
    def squeeze(self: Tensor, dim: Axes | None = None) -> Tensor:
        """Remove axes of length 1: all of them, or those given."""
        if dim is None:
            dim = range(self.ndim)
        drop = [check_dim("squeeze", self, d) for d in (dim if isinstance(dim, (tuple, list, range)) else (dim,))]
        shape = tuple([n for i, n in enumerate(self.shape) if n != 1 or i not in drop])
        return self.apply_op(Reshape, self, shape=shape)

    @answers(np.expand_dims)
    def unsqueeze(self: Tensor, dim: int) -> Tensor:
        """A new axis of length 1 at dim."""
        dim = check_dim("unsqueeze", self, dim, new=1)
        return self.apply_op(Reshape, self, shape=self.shape[:dim] + (1,) + self.shape[dim:])

    def permute(self: Tensor, dims: Axes = (), *more: int) -> Tensor:
        """The axes in another order: axis i of the result is axis dims[i], a view."""
        order = sizes((dims, *more))
        axes = tuple([check_dim("permute", self, d) for d in order])
        if sorted(axes) != list(range(self.ndim)):
            raise ValueError(f"permute: {order} is not a permutation of the {self.ndim} axes of {self.shape}")
        return self.apply_op(Permute, self, axes=axes)

    @answers(np.swapaxes)
    def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """Two axes swapped, a view."""
        axes = list(range(self.ndim))
        dim0, dim1 = check_dim("transpose", self, dim0), check_dim("transpose", self, dim1)
        if axes:
            axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
        return self.apply_op(Permute, self, axes=tuple(axes))

    swapaxes = transpose

    def t(self: Tensor) -> Tensor:
        """A matrix transposed."""
        if self.ndim > 2:
            raise ValueError(f"t() expects a tensor with <= 2 dimensions, got shape {self.shape}")
        return self.T

    @answers(np.moveaxis)
    def movedim(self: Tensor, source: Axes, destination: Axes) -> Tensor:
        """Move axes to other places; the others stay in order."""
        sources, places = ((d,) if isinstance(d, (int, np.integer)) else tuple(d) for d in (source, destination))
        sources, places = (tuple(check_dim("movedim", self, d) for d in dims) for dims in (sources, places))
        if len(sources) != len(places) or len(set(sources)) != len(sources) or len(set(places)) != len(places):
            raise ValueError(f"movedim: expected as many places as axes, each once, got {source} and {destination}")
        order = [d for d in range(self.ndim) if d not in sources]
        for place, d in sorted(zip(places, sources)):
            order.insert(place, d)
        return self.permute(order)

    @property
    def T(self: Tensor) -> Tensor:
        """All axes reversed."""
        return self.apply_op(Permute, self, axes=tuple(range(self.ndim))[::-1])

    @property
    def mT(self: Tensor) -> Tensor:
        """The last two axes swapped."""
        return self.transpose(-2, -1)

    @answers(np.broadcast_to)
    def expand(self: Tensor, *shape: Size) -> Tensor:
        """Repeat axes of length 1, without a copy; -1 keeps an axis as it is."""
        shape = sizes(shape)
        lead = len(shape) - self.ndim
        if -1 in shape[lead:]:
            shape = shape[:lead] + tuple([m if n == -1 else n for n, m in zip(shape[lead:], self.shape)])
        try:
            return self.apply_op(Expand, self, shape=shape)
        except ValueError:
            raise ValueError(f"expand: shape {self.shape} does not broadcast to {shape}") from None

    broadcast_to = expand

    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        """Expand to the shape of other."""
        return self.expand(other.shape)

    def view_as(self: Tensor, other: Tensor) -> Tensor:
        """View in the shape of other."""
        return self.view(other.shape)

    def repeat(self: Tensor, *repeats: Size) -> Tensor:
        """The whole tensor repeats[i] times along axis i; more repeats than axes make new axes in front."""
        repeats = sizes(repeats)
        if len(repeats) < self.ndim:
            raise ValueError(f"repeat: expected at least {self.ndim} numbers for shape {self.shape}, got {repeats}")
        shape = (1,) * (len(repeats) - self.ndim) + self.shape
        copies = self.reshape(tuple(n for size in shape for n in (1, size)))
        copies = copies.expand(tuple(n for pair in zip(repeats, shape) for n in pair))
        return copies.clone().reshape(tuple(count * n for count, n in zip(repeats, shape)))

    def flip(self: Tensor, dims: Axes = (), *more: int) -> Tensor:
        """A copy with the order along the axes reversed."""
        return self.apply_op(Flip, self, axes=checked_axes("flip", self, sizes((dims, *more))) or ())

    def contiguous(self: Tensor) -> Tensor:
        """This tensor if its elements are in C order, else a copy that is."""
        return self if self._array.flags.c_contiguous else self.clone()

    def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along dim: of one size (the last may be smaller), or of the given sizes."""
        dim = check_dim("split", self, dim)
        n = self.shape[dim]
        if isinstance(split_size, (int, np.integer)):
            if split_size <= 0:
                raise ValueError(f"split: expected a positive size, got {split_size}")
            split_size = [min(split_size, n - start) for start in range(0, n, split_size)] or [0]
        if sum(split_size) != n:
            raise ValueError(f"split: sizes {list(split_size)} do not add up to {n}, axis {dim} of {self.shape}")
        ends = itertools.accumulate(map(int, split_size))
        return tuple([self[at(dim, slice(end - size, end))] for size, end in zip(split_size, ends)])

    def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal size along dim; the last may be smaller."""
        if chunks < 1:
            raise ValueError(f"chunk: expected at least 1 chunk, got {chunks}")
        return self.split(max(1, -(-self.shape[dim] // chunks)), dim)

    def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
        """All slices along dim, without that axis."""
        dim = check_dim("unbind", self, dim)
        return tuple([self.apply_op(Index, self, index=at(dim, i)) for i in range(self.shape[dim])])

    def select(self: Tensor, dim: int, index: int) -> Tensor:
        """The slice at `index` along dim, without that axis."""
        return self[at(check_dim("select", self, dim), index)]


@answers(np.split, indices_or_sections="parts")
def _split(x: Tensor, parts: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    """NumPy's split: into equal parts, or at these positions."""
    n = x.shape[check_dim("split", x, dim)]
    if isinstance(parts, (int, np.integer)):
        if n % parts:
            raise ValueError(f"np.split: axis {dim} of {x.shape} has no {parts} equal parts; x.chunk cuts unevenly")
        return list(x.split(n // parts or 1, dim))
    ends = [*parts, n]
    return [x[at(dim % x.ndim, slice(start, end))] for start, end in zip([0, *parts], ends)]


@answers(np.pad, pad_width="widths")
def _pad(x: Tensor, widths: Any, mode: str = "constant", *, constant_values: float = 0) -> Tensor:
    """NumPy's pad with a constant: the widths (before, after) of all axes, or of each, the first one first."""
    if mode != "constant":
        raise TypeError(f"np.pad: Tensors take mode 'constant' only, got {mode!r}; use x.flip and mg.cat")
    return pad(x, np.broadcast_to(widths, (x.ndim, 2))[::-1].reshape(-1).tolist(), constant_values)


answers(np.transpose)(lambda x, axes=None: x.T if axes is None else x.permute(axes))
answers(np.flip)(lambda x, dim=None: x.flip(range(x.ndim) if dim is None else dim))
