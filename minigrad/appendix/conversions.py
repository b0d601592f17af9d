"""What a Tensor says about itself, and its conversions: to Python numbers, NumPy arrays, memory shared with other
libraries, text, copies. Nothing here is on the tape."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, overload

import numpy as np

from .. import backend
from ..arrays.annotations import DType, Tensor, TensorLike
from ..arrays.dtypes import as_array, bool_, float32, float64, int64
from ..backend import is_tensor
from ..drawing.html import html_of_arrays
from ..replays import WRITES, notice


CPU_TYPE = 1  # kDLCPU
KNOWS_READ_ONLY = (1, 0)  # the first version that can mark memory as read-only


class ConversionMethods(Generic[Tensor]):
    _array: np.ndarray  # of the Tensor
    copies_grad: bool = True  # does copy.deepcopy?

    def dim(self: Tensor) -> int:
        """The number of axes."""
        return self.ndim

    def numel(self: Tensor) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel

    @overload
    def size(self: Tensor, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def size(self: Tensor, dim: int) -> int: ...
    def size(self: Tensor, dim: int | None = None) -> int | tuple[int, ...]:
        """The shape, or the length of the axis dim."""
        return self.shape if dim is None else self.shape[dim]

    def is_contiguous(self: Tensor) -> bool:
        """Are the elements in C order, without gaps?"""
        return self._array.flags.c_contiguous

    @overload
    def stride(self: Tensor, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self: Tensor, dim: int) -> int: ...
    def stride(self: Tensor, dim: int | None = None) -> int | tuple[int, ...]:
        """The distance in memory, in elements, to the next one along each axis, or along dim."""
        strides = tuple(n // self.dtype.itemsize for n in self._array.strides)
        return strides if dim is None else strides[dim]

    def data_ptr(self: Tensor) -> int:
        """The address of the first element."""
        return self._values().ctypes.data

    @property
    def data(self: Tensor) -> Tensor:
        """This memory off the tape, as detach() gives it: a backward that needs what is overwritten raises an error.

        Assigning a Tensor or an array gives this tensor other memory; on the tape it must have the same shape, and is
        converted to this dtype. Existing graphs keep the old memory.

        >>> from minigrad import tensor
        >>> p = tensor([1.0, 2.0], requires_grad=True)
        >>> p.data -= 0.5
        >>> p.data[0] = 7.0
        >>> p
        tensor([7. , 1.5], requires_grad=True)
        """
        return self.detach()

    @data.setter
    def data(self: Tensor, value: TensorLike) -> None:
        notice(WRITES)
        array = as_array(value, None if self.node is None else self.dtype)
        if array.shape != self.shape and self.node is not None:
            raise ValueError(f"data: this tensor is on the tape with shape {self.shape}, got {array.shape}")
        is_same_memory = array.__array_interface__ == self._array.__array_interface__  # as after `data += ...`
        if not is_same_memory:
            self.array = array

    def item(self: Tensor) -> int | float | bool:
        """The one element, as a Python number."""
        if self._array.size != 1:
            raise ValueError(f"item: only one element can become a Python number; this tensor has shape {self.shape}")
        return self._values().item()

    def tolist(self: Tensor) -> Any:
        """The elements as nested lists of Python numbers; a 0-d tensor as a number."""
        return self._values().tolist()

    def __float__(self: Tensor) -> float: return float(self.item())
    def __int__(self: Tensor) -> int: return int(self.item())

    def __index__(self: Tensor) -> int:
        if self.dtype.kind != "i" or self._array.size != 1:
            raise TypeError(f"only an integer tensor of one element is an index, got {self.dtype} {self.shape}")
        return int(self.item())

    def __bool__(self: Tensor) -> bool:
        if self._array.size != 1:
            raise ValueError(f"the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()")
        return bool(self.item())

    def __len__(self: Tensor) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return len(self._array)

    def __iter__(self: Tensor) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def __contains__(self: Tensor, value: TensorLike) -> bool: return bool(np.any(self._values() == as_array(value)))

    def numpy(self: Tensor) -> np.ndarray:
        """The array, shared, and read-only since the tape sees no writes to it: write to `x.data`, or to np.array(x)."""
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return read_only(self._values())

    def __array__(self: Tensor, dtype: DType = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("NumPy would lose the gradient of this tensor. Use tensor.detach().numpy() instead.")
        array = np.array(self._values(), dtype=dtype, copy=copy)
        return read_only(array) if array is self._array else array

    def __dlpack__(self: Tensor, **options: Any) -> Any:
        """The memory itself, for from_dlpack() of another library; see `exported`."""
        return exported(self, **options)

    def __dlpack_device__(self: Tensor) -> tuple[int, int]: return CPU_TYPE, 0

    def __format__(self: Tensor, spec: str) -> str:
        if spec and self.ndim:
            raise TypeError(f"the format {spec!r} is one of numbers, but this tensor has shape {self.shape}; use item() or "
                            "np.array2string")
        return repr(self) if self.ndim else format(self.item(), spec)

    def __repr__(self: Tensor) -> str:
        text = np.array2string(self._values(), separator=", ", precision=4, prefix="tensor(")
        extras = [f"size={self.shape}"] if not self.numel() and self.shape != (0,) else []
        extras += [] if self.dtype in (float32, int64, bool_) else [f"dtype={self.dtype}"]
        if self.grad_fn is not None:
            extras.append(f"grad_fn={self.grad_fn}")
        elif self.requires_grad:
            extras.append("requires_grad=True")
        return f"tensor({', '.join([text] + extras)})"

    def _repr_html_(self: Tensor) -> str:
        """For notebooks: the numbers on coloured cells, next to those of the gradient."""
        place = f", {self.grad_fn}" if self.grad_fn is not None else ", requires_grad" if self.requires_grad else ""
        title = f"{self.name or 'tensor'} {self.shape} {self.dtype}{place}"
        return html_of_arrays([(title, self._values()), ("gradient", self.grad_array())])

    def __getstate__(self: Tensor) -> dict[str, Any]:
        """For copies and pickles, which are no views."""
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be copied or pickled, and this one was made by "
                               f"{self.grad_fn.title}; use detach() or clone()")
        return {name: value for name, value in vars(self).items() if name not in ("base", "base_node")}

    def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
        copy: Any = object.__new__(type(self))
        copy.__dict__.update(self.__getstate__())
        copy._array, copy.node, copy.leaf = backend.lasting(self.shape, self.dtype), None, None
        copy._array[...] = self._values()
        gradient = self.grad if self.copies_grad else None
        if gradient is not None:
            copy.requires_grad_().grad = gradient.detach().clone()
        if copy.requires_grad is not self.requires_grad:
            copy.requires_grad_(self.requires_grad)
        memo[id(self)] = copy
        return copy


def read_only(array: np.ndarray) -> np.ndarray:
    """A view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def exported(tensor: Any, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
    """The capsule that gives another library the tensor's memory, without a copy; BufferError if it must not have it.

    Writes through `x.data` or in place are noted on the tape (versions.py), whoever owns the memory. Those of another
    library are not: then a backward that needs the old values computes a wrong gradient, which only `detect_anomaly()`
    detects. So NumPy gets a read-only array (write through `x.data`). PyTorch knows no read-only memory. Two tensors made
    from one PyTorch tensor count as two memories on the tape.

    >>> import minigrad as mg
    >>> x = mg.ones(3)
    >>> array = np.from_dlpack(x)
    >>> x.add_(1.0)
    tensor([2., 2., 2.])
    >>> array, array.flags.writeable
    (array([2., 2., 2.], dtype=float32), False)
    """
    _check_constant(tensor)
    array = tensor._values().view()
    if any(stride < 0 for stride in array.strides):  # PyTorch would abort the process
        raise BufferError(f"dlpack: this tensor of shape {tensor.shape} has negative strides; clone() it first")
    if max_version is not None and max_version >= KNOWS_READ_ONLY:
        array.flags.writeable = False
    return array.__dlpack__(max_version=max_version, **options)


def imported(source: Any) -> Any:
    """An array that shares the memory of an array or a tensor of any library, of a dtype that a tensor can have.

    >>> imported(np.zeros(2, np.int32))
    Traceback (most recent call last):
    ...
    TypeError: from_dlpack: tensors hold float32, float64, int64 or bool, not int32; convert it first, which makes a copy
    """
    if is_tensor(source):
        _check_constant(source)
        return source._values()
    array = np.asarray(source) if isinstance(source, np.ndarray) else _taken(source)  # the tape knows an array's memory
    if array.dtype not in (float32, float64, int64, bool_):
        raise TypeError(f"from_dlpack: tensors hold float32, float64, int64 or bool, not {array.dtype}; convert it first, "
                        "which makes a copy")
    return array


def _check_constant(tensor) -> None:
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


def _taken(source: Any) -> Any:
    """The memory that another library exports, as an array."""
    name = type(source).__name__
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: expected an array or a tensor with __dlpack__, got {name}")
    if source.__dlpack_device__()[0] != CPU_TYPE:
        raise BufferError(f'from_dlpack: this {name} is on another device than "cpu", the only one; move it there first')
    try:
        return np.from_dlpack(source)
    except (RuntimeError, TypeError) as error:
        raise TypeError(f"from_dlpack: NumPy cannot read this {name}; tensors hold float32, float64, int64 or bool "
                        f"({error})") from None
