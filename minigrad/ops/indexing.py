"""Taking elements by index, and the transpose, adding them back: an element taken twice gets two gradients."""
from __future__ import annotations

from typing import Any, Generic, Literal, overload

import numpy as np

from ..arrays import float_errors, versions
from ..arrays.annotations import Tensor, TensorLike
from ..arrays.dtypes import as_array
from .. import backend
from ..backend import in_order, is_tensor, positions_of_nonzero, takes_twice
from ..per_thread import this_thread
from ..runner import compute
from .kinds import View
from ..tape import Op
from .numpy_protocol import answers
from .operands import call, check_dim, values_of


PLAIN = {int, slice, type(None), type(Ellipsis)}
BASIC = (*PLAIN, np.integer)


def is_basic(index) -> bool:
    """Only ints, slices, ... and None: NumPy returns a view, and no element is taken twice."""
    for part in index if isinstance(index, tuple) else (index,):
        if not isinstance(part, BASIC) or isinstance(part, bool):
            return False
    return True


def view_at(x: np.ndarray, index: Any) -> np.ndarray:
    """x[index] for a basic index, of one element too, where NumPy gives its value."""
    out = x[index]
    return x[(*index, ...) if isinstance(index, tuple) else (index, ...)] if isinstance(out, np.generic) else out


class Index(View):
    """out = x[index]:  dx = zeros, then dx[index] += dout"""

    def forward(self, x, *, index):
        self.index, self.x_shape = index, x.shape
        return view_at(x, index) if is_basic(index) else in_order(x[index])

    def backward(self, dout):
        return call(AddAt, dout, index=self.index, shape=self.x_shape)


def add_at(out: np.ndarray, index: Any, x: np.ndarray) -> None:
    """out[index] += x, where a repeated index adds each time; floats are added in float64.

    np.bincount takes a tenth of the time of np.add.at.
    """
    if is_basic(index):
        part = view_at(out, index)
        part += x
    elif x.dtype.kind != "f":
        np.add.at(out, index, x)
    else:
        places = np.arange(out.size).reshape(out.shape)[index]
        sums = np.bincount(places.reshape(-1), np.broadcast_to(x, places.shape).reshape(-1), out.size)
        out += sums.reshape(out.shape)


class AddAt(Op):
    """out = onto, by default zeros(shape), then out[index] += x:  dx = dout[index],  donto = dout"""

    def forward(self, x, onto=None, *, index, shape):
        self.index = index
        out = started(onto, shape, x)
        add_at(out, index, x)
        return out

    def backward(self, dout):
        dx = call(Index, dout, index=self.index)
        return dx if len(self.parents) == 1 else (dx, passed_on(dout) if self.needs(1) else None)


def passed_on(dout):
    """A gradient that an op with fresh gradients passes on: copied if it is an array."""
    return dout if is_tensor(dout) else backend.copied(dout)


def started(onto: np.ndarray | None, shape: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    """The array to add x to: a copy, or zeros."""
    return backend.zeros(shape, x) if onto is None else backend.copied(onto)


OCCURS_TWICE = "setting items: an index occurs twice, so the gradient would be undefined"


class SetAt(Op):
    """out = x, but out[index] = value:  dx = dout, but dx[index] = 0,  dvalue = dout[index]

    Of a repeated index only the last value would stay, and only that one would have a gradient; this raises an error.
    """

    def forward(self, x, value, *, index, is_checked=False):
        self.index, self.value_ndim = index, np.ndim(value)
        if not (is_checked or is_basic(index)) and takes_twice(x.shape, index):
            raise ValueError(OCCURS_TWICE)
        out = backend.copied(x)
        out[index] = value
        return out

    def backward(self, dout):
        dx = call(SetAt, dout, 0.0, index=self.index, is_checked=True)
        dvalue = call(Index, dout, index=self.index)
        dvalue = passed_on(dvalue) if is_basic(self.index) else dvalue
        leading = (None,) * self.value_ndim  # the value may have leading axes of length 1; the tape sums extra ones
        return dx, dvalue[leading]


def plain_index(index):
    """An index of ints, slices, None, ... and private copies of arrays; a single integer becomes an int."""
    if isinstance(index, tuple):
        return tuple(plain_index(list(part) if isinstance(part, tuple) else part) for part in index)
    if isinstance(index, (list, range)):
        return np.array([values_of(part) for part in index], dtype=None if index else np.int64)
    if isinstance(index, (bool, np.bool_)):
        return np.array(index)
    if not is_tensor(index) and not isinstance(index, (np.ndarray, np.integer)):
        return index
    if index.dtype.kind not in "iu":  # the shape of what a mask picks depends on its values
        return np.array(values_of(index))
    return compute(backend.copied, index) if index.ndim else values_of(index).item()


def integers_apart(index: Any) -> tuple[Any, Any]:
    """(basic, advanced) so that x[basic][advanced] is PyTorch's x[index], which applies integers first.

    NumPy treats an integer like an array if there is an array too: in x[0, :, [1, 2]] the axis of [1, 2] comes first.
    """
    is_mixed = isinstance(index, tuple) and any(isinstance(part, int) for part in index)
    if not is_mixed or is_basic(index):
        return None, index
    basic: list[Any] = []
    advanced: list[Any] = []
    for part in index:
        if part is Ellipsis:
            basic.append(part)
            advanced.append(part)
        elif is_basic(part):
            basic.append(part)
            if isinstance(part, slice) or part is None:
                advanced.append(slice(None))
        else:
            basic.extend([slice(None)] * (part.ndim if part.dtype == bool else 1))
            advanced.append(part)
    return tuple(basic), tuple(advanced)


class IndexingMethods(Generic[Tensor]):
    def __getitem__(self: Tensor, index: Any) -> Tensor:
        if PLAIN.issuperset(map(type, index if type(index) is tuple else (index,))):  # the usual case
            return self.apply_op(Index, self, index=index)
        basic, advanced = integers_apart(plain_index(index))
        x = self if basic is None else self.apply_op(Index, self, index=basic)
        return self.apply_op(Index, x, index=advanced)

    @float_errors.ignored
    def __setitem__(self: Tensor, index: Any, value: Any) -> None:
        self._check_writable()
        value = value if is_tensor(value) else self.constant(as_array, value, self.dtype, True)
        while value.shape[:1] == (1,):  # which the item may lack
            value = value[0]
        basic, advanced = integers_apart(plain_index(index))
        if basic is not None:
            self[basic][advanced] = value
        elif this_thread.grad_enabled and (self.requires_grad or value.requires_grad):
            self.write(self.apply_op(SetAt, self, value, index=advanced))
        else:
            self._array[advanced] = value._array
            versions.note_item_written(self._array, advanced)

    @answers(np.repeat)
    def repeat_interleave(self: Tensor, repeats: TensorLike, dim: int | None = None) -> Tensor:
        """Each element along dim (without dim, of self flattened) `repeats` times: one number for all, or one each.

        >>> from minigrad import tensor
        >>> tensor([1, 2, 3]).repeat_interleave(tensor([2, 0, 1])).tolist()
        [1, 1, 3]
        """
        x = self.reshape(-1) if dim is None or not self.ndim else self
        dim = check_dim("repeat_interleave", x, dim or 0)
        counts = repeats._values() if is_tensor(repeats) else np.asarray(repeats)
        n = x.shape[dim]
        if counts.dtype.kind not in "iu" or counts.ndim > 1 or counts.size not in (1, n) or (counts < 0).any():
            raise ValueError(
                f"repeat_interleave: expected one number, or one for each of {n} positions, none negative, got "
                f"{np.array2string(counts, threshold=8)}"
            )
        return x.index_select(dim, np.repeat(np.arange(n), counts))

    @overload
    def nonzero(self: Tensor, as_tuple: Literal[False] = False) -> Tensor: ...
    @overload
    def nonzero(self: Tensor, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero(self: Tensor, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
        """The positions of the nonzero elements, (count, ndim); as a tuple, one vector for each axis."""
        values = self._values()
        if not as_tuple:
            return self.constant(positions_of_nonzero, values)
        return tuple(self.constant(np.asarray, positions) for positions in np.nonzero(np.atleast_1d(values)))
