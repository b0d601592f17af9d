"""A tensor's memory as NumPy sees it: `tensor.data`. What is written to it is noted on the tape."""
import numpy as np

from .tape import note_write

WRITES_TO_FIRST = {np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal}


class WatchedArray(np.ndarray):
    """An array over memory that an operation may have saved for backward.

    Writing to it through NumPy (items, `+=`, `out=`, `fill`, `np.copyto`, ...) changes the memory and tells the tape:
    a backward that needs the old values is an error then, not a wrong gradient. What is computed from it is a plain
    array; views are watched too. `np.asarray` takes the watch off.

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
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        _note(*outputs, *(inputs[:1] if method == "at" else ()))
        return outputs[0] if len(outputs) == 1 else result

    def __array_function__(self, function, types, arguments, options):
        result = super().__array_function__(function, types, arguments, options)
        _note(options.get("out"), *(arguments[:1] if function in WRITES_TO_FIRST else ()))
        return result

    def fill(self, value):
        self[...] = value

    def put(self, indices, values, mode="raise"):
        np.put(self.view(np.ndarray), indices, values, mode)
        note_write(self)

    def sort(self, axis=-1, **options):
        super().sort(axis, **options)
        note_write(self)

    def partition(self, kth, axis=-1, **options):
        super().partition(kth, axis, **options)
        note_write(self)

    def __repr__(self):
        return repr(_plain(self))

    def __reduce__(self):
        return _plain(self).__reduce__()


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, WatchedArray) else value


def _note(*arrays) -> None:
    for array in arrays:
        if isinstance(array, WatchedArray):
            note_write(array)
