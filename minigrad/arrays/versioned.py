"""`tensor.data`: an array that tells the tape about writes to it."""
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from ..backend import is_tensor
from .versions import note_item_written, note_write

WRITERS: dict[Any, tuple[str, ...]] = {  # functions that write to their first argument, and its name
    np.copyto: ("dst",), np.put: ("a",), np.place: ("arr",), np.putmask: ("a",), np.put_along_axis: ("arr",),
    np.fill_diagonal: ("a",),
}  # fmt: skip


def _writing(name: str) -> Any:
    """ndarray's method of this name, which writes to the array."""
    method = getattr(np.ndarray, name)

    def noting(self, *arguments, **options):
        result = method(self, *arguments, **options)
        note_write(self)
        return result

    return noting


def _with_out(name: str) -> Any:
    """ndarray's method of this name, which returns a new array or writes to `out`."""
    method = getattr(np.ndarray, name)

    def noting(self, *arguments, **options):
        result = method(self, *arguments, **options)
        _note(*(value for value in (*arguments, *options.values()) if value is result))
        return _versioned_or_own(result)

    return noting


class VersionedArray(np.ndarray):
    """`tensor.data`: an array over memory that an operation may have saved for backward.

    Writing to it or to its views through NumPy (items, `+=`, `out=`, `flat`, `fill`, `np.copyto`, ...) tells the tape, so
    that a backward that needs the old values raises an error instead of returning a wrong gradient. Results computed from
    it are plain arrays. PyTorch's methods in place, such as `x.data.normal_()`, work too. Some writes are invisible:
    through np.asarray(data), np.from_dlpack(data), a memoryview, np.nditer, or a random generator's `out=`.
    """

    as_tensor: ClassVar[Callable[[np.ndarray], Any]]  # a Tensor over an array's memory, from tensor.py

    if not TYPE_CHECKING:  # which would allow any name
        def __getattr__(self, name):
            if name.endswith("_") and not name.startswith("_"):
                return getattr(self.as_tensor(_plain(self)), name)
            raise AttributeError(f"tensor.data is a NumPy array, without {name!r}; tensor.detach() is a tensor", name=name,
                                 obj=self)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        note_item_written(_plain(self), index)

    def __getitem__(self, index: Any) -> Any:
        return _versioned_or_own(super().__getitem__(index))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if any(map(is_tensor, inputs)):
            return NotImplemented  # Tensors handle it, even with an array as `out`
        outputs = options.get("out", ())
        if outputs:
            options["out"] = tuple(map(_plain, outputs))
        if "where" in options:
            options["where"] = _plain(options["where"])
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        _note(*outputs, *(inputs[:1] if method == "at" else ()))
        return outputs[0] if len(outputs) == 1 else result

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        result = super().__array_function__(function, types, arguments, options)
        if function in WRITERS:
            _note(*arguments[:1], *(options.get(name) for name in WRITERS[function]))
        _note(*(value for value in (*arguments, *options.values()) if value is result))  # an `out`
        return _versioned_or_own(result)

    fill: Final = _writing("fill")
    put: Final = _writing("put")
    sort: Final = _writing("sort")
    partition: Final = _writing("partition")
    byteswap: Final = _writing("byteswap")
    take: Final = _with_out("take")
    dot: Final = _with_out("dot")
    choose: Final = _with_out("choose")
    compress: Final = _with_out("compress")
    copy: Final = _with_out("copy")
    astype: Final = _with_out("astype")
    flatten: Final = _with_out("flatten")
    repeat: Final = _with_out("repeat")

    @property
    def flat(self) -> Any:
        """All elements in order, as VersionedElements."""
        return VersionedElements(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        _plain(self).flat = values
        note_write(self)

    def __repr__(self) -> str:
        return repr(_plain(self))

    def __reduce__(self) -> Any:
        return _plain(self).__reduce__()


class VersionedElements:
    """`VersionedArray.flat`: all elements in order, as if in a single row."""

    def __init__(self, array: VersionedArray) -> None:
        self._array, self._flat = array, array.view(np.ndarray).flat

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[index] = value
        note_write(self._array)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._flat, name)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> Any: return self._flat == other
    def __ne__(self, other: Any) -> Any: return self._flat != other
    def __getitem__(self, index: Any) -> Any: return self._flat[index]
    def __iter__(self) -> Any: return iter(self._flat)
    def __next__(self) -> Any: return next(self._flat)
    def __len__(self) -> int: return len(self._flat)
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: return np.array(self._flat, dtype=dtype)


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, VersionedArray) else value


def _versioned_or_own(result):
    """An array that owns its memory becomes plain: no operation has saved it."""
    return _plain(result) if isinstance(result, VersionedArray) and result.base is None else result


def _note(*arrays) -> None:
    for array in arrays:
        if isinstance(array, VersionedArray):
            note_write(array)
