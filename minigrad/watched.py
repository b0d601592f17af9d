"""A tensor's memory as NumPy sees it: `tensor.data`. What is written to it is noted on the tape."""
import numpy as np

from .tape import note_write

WRITERS = {np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal}  # to what they are given


def _writing(name: str):
    """ndarray's method of this name, which writes to the array, or to `out`."""
    method = getattr(np.ndarray, name)

    def noting(self, *arguments, **options):
        result = method(self, *arguments, **options)
        _note(*([self] if result is None else (value for value in (*arguments, *options.values()) if value is result)))
        return result

    return noting


class WatchedArray(np.ndarray):
    """An array over memory that an operation may have saved for backward.

    Writing to it through NumPy (items, `+=`, `out=`, `flat`, `fill`, `np.copyto`, ...) changes the memory and tells the
    tape: a backward that needs the old values is an error then, not a wrong gradient. What is computed from it is a
    plain array; views are watched too. What NumPy does not tell of is not seen: writing through np.asarray(data), a
    memoryview, or a random generator's `out=`.

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> x.data[0] = 5.0
    >>> y.backward()
    Traceback (most recent call last):
    ...
    RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: ...
    """

    def __setitem__(self, index, value):
        super().__setitem__(index, value)
        note_write(self)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        outputs = options.get("out", ())
        if outputs:
            options["out"] = tuple(map(_plain, outputs))
        elif any(hasattr(value, "apply_op") for value in inputs):
            return NotImplemented  # a Tensor makes a Tensor of it
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        _note(*outputs, *(inputs[:1] if method == "at" else ()))
        return outputs[0] if len(outputs) == 1 else result

    def __array_function__(self, function, types, arguments, options):
        result = super().__array_function__(function, types, arguments, options)
        given = *arguments, *options.values()
        _note(*(value for value in given if function in WRITERS or value is result))
        return result

    fill, put, sort, partition = map(_writing, ("fill", "put", "sort", "partition"))
    take, dot, choose, compress = map(_writing, ("take", "dot", "choose", "compress"))

    @property
    def flat(self) -> "WatchedElements":
        return WatchedElements(self)

    @flat.setter
    def flat(self, values) -> None:
        _plain(self).flat = values
        note_write(self)

    def __repr__(self):
        return repr(_plain(self))

    def __reduce__(self):
        return _plain(self).__reduce__()


class WatchedElements:
    """`WatchedArray.flat`: all elements in order, as if in one row."""

    def __init__(self, array: WatchedArray):
        self._array, self._flat = array, array.view(np.ndarray).flat

    def __setitem__(self, index, value):
        self._flat[index] = value
        note_write(self._array)

    def __getattr__(self, name):
        return getattr(self._flat, name)

    def __getitem__(self, index): return self._flat[index]
    def __iter__(self): return iter(self._flat)
    def __next__(self): return next(self._flat)
    def __len__(self): return len(self._flat)
    def __array__(self, dtype=None, copy=None): return np.array(self._flat, dtype=dtype)


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, WatchedArray) else value


def _note(*arrays) -> None:
    for array in arrays:
        if isinstance(array, WatchedArray):
            note_write(array)
