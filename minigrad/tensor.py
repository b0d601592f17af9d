"""Tensor: an array that remembers how it was made.

A Tensor is `data`, a NumPy array, and `node`, its place on the tape: None if no gradient is wanted. Methods unwrap the
arrays, name an operation, and wrap the result again; what an operation computes, and its gradient, is in `ops`.
"""
import math
from typing import Any, NamedTuple, Sequence, Union

import numpy as np

from . import ops, tape
from .tape import Node, Op

float32, float64, int64, bool_ = np.dtype("float32"), np.dtype("float64"), np.dtype("int64"), np.dtype("bool")
Scalar = Union[int, float, bool]
Operand = Union["Tensor", np.ndarray, Scalar]


def as_array(data: Any, dtype: Any = None) -> np.ndarray:
    """The array that a Tensor of `data` holds: float32, float64, int64 or bool, native; shared if it already is that.

    Python floats become float32, all integers int64.
    """
    if isinstance(data, Tensor):
        data = data.data
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"a tensor needs rows of equal length: {error}") from None
    if dtype is None:
        kind = array.dtype.kind
        if kind == "f":
            is_python = not isinstance(data, (np.ndarray, np.generic))
            dtype = float32 if is_python or array.dtype.itemsize < 8 else float64
        elif kind in "iu":
            dtype = int64
        elif kind == "b":
            dtype = bool_
        else:
            raise TypeError(f"a tensor holds floats, integers or booleans, got {array.dtype} from {type(data).__name__}")
    return array.astype(dtype, copy=False)


class Tensor:
    """An n-dimensional array with gradients.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("data", "node", "__weakref__", "__dict__")

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None):
        self.data = as_array(data, dtype)
        self.node: Node | None = None
        if requires_grad:
            self.requires_grad_()

    # ------------------------------------------------------------------------------------------------ the tape

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Make this a leaf whose gradient is wanted, or not."""
        if not requires_grad:
            if not self.is_leaf:
                raise RuntimeError("only leaf tensors can stop requiring a gradient; use detach() on a computed one")
            self.node = None
        elif self.node is None:
            if self.data.dtype.kind != "f":
                raise TypeError(f"only floating point tensors can require gradients, got {self.dtype}")
            self.node = Node(self.data.shape, self.data.dtype)
        return self

    @property
    def is_leaf(self) -> bool:
        """Was it made by the user, not by an operation on something that requires a gradient?"""
        return not isinstance(self.node, Op)

    @property
    def grad_fn(self) -> Op | None:
        """The operation that made this, if it is on the tape."""
        return None if self.is_leaf else self.node

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that has accumulated here."""
        if self.node is None or self.node.grad is None:
            return None
        if isinstance(self.node.grad, np.ndarray):
            self.node.grad = wrap(self.node.grad)
        return self.node.grad

    @grad.setter
    def grad(self, gradient: "Tensor | None") -> None:
        if gradient is not None:
            if self.node is None:
                raise RuntimeError("this tensor does not require a gradient; call requires_grad_() first")
            if not isinstance(gradient, Tensor) or gradient.shape != self.shape:
                came = gradient.shape if isinstance(gradient, Tensor) else type(gradient).__name__
                raise ValueError(f"grad: expected a Tensor of shape {self.shape}, got {came}")
        if self.node is not None:
            self.node.grad = gradient

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `grad` too; leaves always do."""
        if self.node is None:
            raise RuntimeError("retain_grad: this tensor does not require a gradient")
        self.node.retains_grad = True

    def backward(self, gradient: "Tensor | None" = None, retain_graph: bool = False) -> None:
        """Add d(sum of self * gradient)/d(leaf) to the `grad` of every leaf below. A scalar needs no gradient.

        >>> x = Tensor([3.0], requires_grad=True)
        >>> (x * x * x).backward()
        >>> x.grad.item()
        27.0
        """
        if self.node is None:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn: nothing below this tensor "
                "has requires_grad=True, or it was computed under no_grad()"
            )
        if gradient is None:
            if self.data.size != 1:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs; this one has shape {self.shape}: pass "
                    "backward(gradient) of that shape, or reduce it to a scalar first"
                )
            array = np.ones(self.data.shape, self.data.dtype)
        else:
            array = as_array(gradient, self.data.dtype)
            if array.shape != self.data.shape:
                raise ValueError(f"backward: expected a gradient of shape {self.shape}, got {array.shape}")
        with tape.no_grad():
            tape.backward(self.node, array, retain_graph)

    def detach(self) -> "Tensor":
        """The same data, off the tape."""
        return wrap(self.data)

    def clone(self) -> "Tensor":
        """A copy, on the tape."""
        return apply(ops.Clone, self)

    @staticmethod
    def apply_op(operation: type[Op], *inputs, **options) -> "Tensor":
        """What `Op.call` does with Tensors."""
        return apply(operation, *inputs, **options)

    # ------------------------------------------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def T(self) -> "Tensor":
        """All axes reversed."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> "Tensor":
        """The last two axes swapped."""
        return self.transpose(-2, -1)

    def size(self, dim: int | None = None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self.data.size

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return len(self.data)

    def item(self) -> Scalar:
        """The one element, as a Python number."""
        if self.data.size != 1:
            raise ValueError(f"item: only one element can become a Python number; this tensor has shape {self.shape}")
        return self.data.item()

    def tolist(self):
        return self.data.tolist()

    def numpy(self) -> np.ndarray:
        """The array itself, shared."""
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self.data

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("NumPy would lose the gradient of this tensor. Use tensor.detach().numpy() instead.")
        return np.array(self.data, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "i" or self.data.size != 1:
            raise TypeError(f"only an integer tensor of one element is an index, got {self.dtype} of shape {self.shape}")
        return self.data.item()

    def __bool__(self) -> bool:
        if self.data.size != 1:
            raise ValueError(f"the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()")
        return bool(self.data.item())

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value) -> bool:
        return bool(np.any(self.data == as_array(value)))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else repr(self)

    def __repr__(self) -> str:
        text = np.array2string(self.data, separator=", ", precision=4, prefix="tensor(")
        extras = [] if self.dtype in (float32, int64, bool_) else [f"dtype={self.dtype}"]
        if self.grad_fn is not None:
            extras.append(f"grad_fn={self.grad_fn}")
        elif self.requires_grad:
            extras.append("requires_grad=True")
        return f"tensor({', '.join([text] + extras)})"

    def __deepcopy__(self, memo) -> "Tensor":
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be deep-copied; use detach() or clone()")
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.data, copy.node = self.data.copy(), None
        memo[id(self)] = copy.requires_grad_(self.requires_grad)
        return copy

    # ------------------------------------------------------------------------------------------------ elementwise

    def __add__(self, other): return binary(ops.Add, self, other)
    def __radd__(self, other): return binary(ops.Add, other, self)
    def __sub__(self, other): return binary(ops.Sub, self, other)
    def __rsub__(self, other): return binary(ops.Sub, other, self)
    def __mul__(self, other): return binary(ops.Mul, self, other)
    def __rmul__(self, other): return binary(ops.Mul, other, self)
    def __truediv__(self, other): return binary(ops.Div, self, other)
    def __rtruediv__(self, other): return binary(ops.Div, other, self)
    def __pow__(self, other): return binary(ops.Pow, self, other)
    def __rpow__(self, other): return binary(ops.Pow, other, self)
    def __neg__(self): return apply(ops.Neg, self)
    def __abs__(self): return apply(ops.Abs, self)
    def __iadd__(self, other): return in_place(np.add, self, other)
    def __isub__(self, other): return in_place(np.subtract, self, other)
    def __imul__(self, other): return in_place(np.multiply, self, other)
    def __itruediv__(self, other): return in_place(np.divide, self, other)

    __hash__ = object.__hash__

    def __eq__(self, other): return compare(np.equal, self, other)
    def __ne__(self, other): return compare(np.not_equal, self, other)
    def __lt__(self, other): return compare(np.less, self, other)
    def __le__(self, other): return compare(np.less_equal, self, other)
    def __gt__(self, other): return compare(np.greater, self, other)
    def __ge__(self, other): return compare(np.greater_equal, self, other)
    def __and__(self, other): return compare(np.bitwise_and, self, other)
    def __or__(self, other): return compare(np.bitwise_or, self, other)
    def __xor__(self, other): return compare(np.bitwise_xor, self, other)
    def __invert__(self): return wrap(~self.data)

    add, sub, mul, div, pow, neg = __add__, __sub__, __mul__, __truediv__, __pow__, __neg__

    def abs(self): return apply(ops.Abs, self)
    def exp(self): return apply(ops.Exp, floating(self))
    def log(self): return apply(ops.Log, floating(self))
    def sqrt(self): return apply(ops.Sqrt, floating(self))
    def rsqrt(self): return 1.0 / self.sqrt()
    def tanh(self): return apply(ops.Tanh, floating(self))
    def sigmoid(self): return apply(ops.Sigmoid, floating(self))
    def erf(self): return apply(ops.Erf, floating(self))
    def relu(self): return apply(ops.Relu, self)
    def maximum(self, other): return binary(ops.Maximum, self, other)
    def minimum(self, other): return binary(ops.Minimum, self, other)

    def gelu(self, approximate: str = "none") -> "Tensor":
        if approximate not in ("none", "tanh"):
            raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
        return apply(ops.Gelu, floating(self), approximate=approximate)

    def where(self, condition, other) -> "Tensor":
        """self where condition holds, else other."""
        return where(condition, self, other)

    def masked_fill(self, mask, value: Scalar) -> "Tensor":
        """self, but `value` where mask holds; no gradient there."""
        return where(mask, value, self)

    # ------------------------------------------------------------------------------------------------ reductions

    def sum(self, dim=None, keepdim=False, *, axis=None, keepdims=False) -> "Tensor":
        return reduce(ops.Sum, self, dim, keepdim, axis, keepdims)

    def mean(self, dim=None, keepdim=False, *, axis=None, keepdims=False) -> "Tensor":
        return reduce(ops.Mean, floating(self), dim, keepdim, axis, keepdims)

    def amax(self, dim=None, keepdim=False, *, axis=None, keepdims=False) -> "Tensor":
        """The maximum; equal largest elements share the gradient."""
        return reduce(ops.Max, self, dim, keepdim, axis, keepdims)

    def amin(self, dim=None, keepdim=False, *, axis=None, keepdims=False) -> "Tensor":
        """The minimum; equal smallest elements share the gradient."""
        return reduce(ops.Min, self, dim, keepdim, axis, keepdims)

    def max(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        """max(): the maximum. max(dim): (values, indices), the first of equal ones. max(other): elementwise."""
        return extreme(self, np.argmax, ops.Max, Tensor.maximum, dim if axis is None else axis, keepdim or keepdims)

    def min(self, dim=None, keepdim=False, *, axis=None, keepdims=False):
        """min(): the minimum. min(dim): (values, indices), the first of equal ones. min(other): elementwise."""
        return extreme(self, np.argmin, ops.Min, Tensor.minimum, dim if axis is None else axis, keepdim or keepdims)

    def argmax(self, dim=None, keepdim=False) -> "Tensor":
        return wrap(np.asarray(np.argmax(self.data, axis=dim, keepdims=keepdim)))

    def argmin(self, dim=None, keepdim=False) -> "Tensor":
        return wrap(np.asarray(np.argmin(self.data, axis=dim, keepdims=keepdim)))

    def any(self, dim=None, keepdim=False) -> "Tensor":
        return wrap(np.asarray(np.any(self.data, axis=dim, keepdims=keepdim)))

    def all(self, dim=None, keepdim=False) -> "Tensor":
        return wrap(np.asarray(np.all(self.data, axis=dim, keepdims=keepdim)))

    def var(self, dim=None, correction=1, keepdim=False) -> "Tensor":
        """The variance, over n - correction."""
        centred = self - self.mean(dim, keepdim=True)
        n = self.numel() // max(centred.sum(dim).numel(), 1)
        return (centred * centred).sum(dim, keepdim) / max(n - correction, 0)

    def std(self, dim=None, correction=1, keepdim=False) -> "Tensor":
        """The standard deviation, over n - correction."""
        return self.var(dim, correction, keepdim).sqrt()

    def softmax(self, dim: int) -> "Tensor":
        return apply(ops.Softmax, floating(self), dim=check_dim("softmax", self, dim))

    def log_softmax(self, dim: int) -> "Tensor":
        return apply(ops.LogSoftmax, floating(self), dim=check_dim("log_softmax", self, dim))

    # ------------------------------------------------------------------------------------------------ shape

    def reshape(self, *shape) -> "Tensor":
        shape = sizes(shape)
        try:
            return apply(ops.Reshape, self, shape=shape)
        except ValueError:
            raise ValueError(f"shape {shape} is invalid for a tensor of shape {self.shape} ({self.numel()} elements)") from None

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> "Tensor":
        if self.ndim == 0:
            return self.reshape(1)
        start, end = check_dim("flatten", self, start_dim), check_dim("flatten", self, end_dim)
        return self.reshape(self.shape[:start] + (math.prod(self.shape[start : end + 1]),) + self.shape[end + 1 :])

    def squeeze(self, dim: int | None = None) -> "Tensor":
        drop = range(self.ndim) if dim is None else (check_dim("squeeze", self, dim),)
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if n != 1 or i not in drop))

    def unsqueeze(self, dim: int) -> "Tensor":
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise IndexError(f"unsqueeze: dim {dim} is out of range for a tensor of shape {self.shape}")
        dim %= self.ndim + 1
        return self.reshape(self.shape[:dim] + (1,) + self.shape[dim:])

    def permute(self, *dims) -> "Tensor":
        axes = tuple(check_dim("permute", self, d) for d in sizes(dims))
        if sorted(axes) != list(range(self.ndim)):
            raise ValueError(f"permute: {sizes(dims)} is no permutation of the {self.ndim} axes of {self.shape}")
        return apply(ops.Permute, self, axes=axes)

    def transpose(self, dim0: int, dim1: int) -> "Tensor":
        axes = list(range(self.ndim))
        dim0, dim1 = check_dim("transpose", self, dim0), check_dim("transpose", self, dim1)
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
        return apply(ops.Permute, self, axes=tuple(axes))

    swapaxes = transpose

    def expand(self, *shape) -> "Tensor":
        """Repeat axes of length 1, without a copy; -1 keeps an axis as it is."""
        shape = sizes(shape)
        lead = len(shape) - self.ndim
        wanted = tuple(self.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(shape))
        try:
            return apply(ops.Expand, self, shape=wanted)
        except ValueError:
            raise ValueError(f"expand: shape {self.shape} does not broadcast to {shape}") from None

    def contiguous(self) -> "Tensor":
        return self if self.data.flags.c_contiguous else self.clone()

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple["Tensor", ...]:
        """Pieces along dim: of one size (the last may be smaller), or of the given sizes."""
        dim = check_dim("split", self, dim)
        n = self.shape[dim]
        if isinstance(split_size, int):
            if split_size <= 0:
                raise ValueError(f"split: expected a positive size, got {split_size}")
            split_size = [min(split_size, n - start) for start in range(0, n, split_size)] or [0]
        if sum(split_size) != n:
            raise ValueError(f"split: sizes {list(split_size)} do not add up to {n}, axis {dim} of {self.shape}")
        ends = np.cumsum(split_size).tolist()
        before = (slice(None),) * dim
        return tuple(self[before + (slice(end - size, end),)] for size, end in zip(split_size, ends))

    def chunk(self, chunks: int, dim: int = 0) -> tuple["Tensor", ...]:
        return self.split(max(1, -(-self.shape[dim] // chunks)), dim)

    def tril(self, diagonal: int = 0) -> "Tensor":
        """Zero above the diagonal of the last two axes."""
        return where(np.tril(np.ones(self.shape[-2:], bool), diagonal), self, 0)

    def triu(self, diagonal: int = 0) -> "Tensor":
        """Zero below the diagonal of the last two axes."""
        return where(np.triu(np.ones(self.shape[-2:], bool), diagonal), self, 0)

    def __getitem__(self, index) -> "Tensor":
        return apply(ops.Index, self, index=plain_index(index))

    def __setitem__(self, index, value) -> None:
        if self.requires_grad and tape.is_grad_enabled() or isinstance(value, Tensor) and value.requires_grad:
            raise RuntimeError("setting items of a tensor in a graph would make its gradient wrong; use where() or cat()")
        self.data[plain_index(index)] = as_array(value)

    # ------------------------------------------------------------------------------------------------ the rest

    def matmul(self, other: "Tensor") -> "Tensor":
        return matmul(self, other)

    def __matmul__(self, other): return matmul(self, other)
    def __rmatmul__(self, other): return matmul(other, self)

    def to(self, dtype: Any) -> "Tensor":
        """This tensor in another dtype; itself if it is of that dtype."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if dtype.kind == "f" and self.dtype.kind == "f":
            return apply(ops.Cast, self, dtype=dtype)
        return wrap(as_array(self.data, dtype))

    def float(self): return self.to(float32)
    def double(self): return self.to(float64)
    def long(self): return self.to(int64)
    def bool(self): return self.to(bool_)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        """np.exp(tensor), array * tensor: NumPy's functions, on the tape."""
        from_table = UFUNCS.get(ufunc)
        if method != "__call__" or options or from_table is None:
            raise TypeError(f"np.{ufunc.__name__} does not know tensors: use a method of Tensor, or .detach().numpy()")
        return from_table(*inputs)

    def __array_function__(self, function, types, args, kwargs):
        """np.sum(tensor), np.where(mask, tensor, 0): NumPy's functions, on the tape."""
        from_table = FUNCTIONS.get(function)
        if from_table is None:
            raise TypeError(f"np.{function.__name__} does not know tensors: use a method of Tensor, or .detach().numpy()")
        return from_table(*args, **kwargs)


def wrap(array: np.ndarray, node: Node | None = None) -> Tensor:
    """A Tensor of an array that is known to be right: no checks, no copy."""
    tensor = Tensor.__new__(Tensor)
    tensor.data = array
    tensor.node = node
    return tensor


def apply(operation: type[Op], *inputs, **options) -> Tensor:
    """Run an operation on Tensors, arrays, scalars or None, and put it on the tape if a Tensor among them wants that."""
    arrays, parents, wants_gradient = [], [], False
    for value in inputs:
        if isinstance(value, Tensor):
            arrays.append(value.data)
            parents.append(value.node)
            wants_gradient = wants_gradient or value.node is not None
        else:
            arrays.append(value)
            parents.append(None)
    op = operation()
    out = op.forward(*arrays, **options)
    if type(out) is not np.ndarray:  # NumPy turns 0-d results into scalars
        out = np.asarray(out)
    if not (wants_gradient and tape.is_grad_enabled()):
        return wrap(out)
    op.record(tuple(parents), out)
    return wrap(out, op)


def operand(value: Any) -> Tensor | Scalar:
    """What can stand beside a Tensor in an expression: a Tensor, or a Python scalar (which never widens a dtype)."""
    if isinstance(value, (Tensor, int, float)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return Tensor(value)


def floating(x: Tensor) -> Tensor:
    """Integers and booleans as float32, for functions that give fractions."""
    return x if x.data.dtype.kind == "f" else x.to(float32)


def promote(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors in the dtype of their result: floats before integers, then axes before none, then the wider."""
    rank = lambda t: (t.data.dtype.kind == "f", t.data.ndim > 0, t.data.dtype.itemsize)
    dtype = max(a, b, key=rank).dtype
    return a.to(dtype), b.to(dtype)


def binary(operation: type[Op], a: Operand, b: Operand) -> Tensor:
    """An elementwise operation on two operands, one of them a Tensor at least."""
    a, b = operand(a), operand(b)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.data.dtype != b.data.dtype:
            a, b = promote(a, b)
    elif isinstance(b, float) or operation is ops.Div:
        a = floating(a) if isinstance(a, Tensor) else a
    if isinstance(b, Tensor) and (isinstance(a, float) or operation is ops.Div):
        a, b = (floating(a) if isinstance(a, Tensor) else a), floating(b)
    try:
        return apply(operation, a, b)
    except ValueError:
        shapes = " and ".join(str(np.shape(x.data if isinstance(x, Tensor) else x)) for x in (a, b))
        raise ValueError(
            f"{operation.__name__.lower()}: shapes {shapes} do not broadcast; each pair of axes, counted from the "
            "last, must be equal or contain a 1"
        ) from None


def in_place(ufunc: np.ufunc, a: Tensor, b: Operand) -> Tensor:
    """`a += b` writes into a's array if neither is on the tape; otherwise it makes a new tensor, as `a = a + b`."""
    b = operand(b)
    if a.requires_grad or isinstance(b, Tensor) and b.requires_grad:
        return UFUNCS[ufunc](a, b)
    ufunc(a.data, b.data if isinstance(b, Tensor) else b, out=a.data, casting="same_kind")
    return a


def compare(ufunc: np.ufunc, a: Tensor, b: Operand) -> Tensor:
    """Comparisons and logic: no gradients."""
    b = operand(b)
    return wrap(np.asarray(ufunc(a.data, b.data if isinstance(b, Tensor) else b)))


def sizes(shape: tuple) -> tuple[int, ...]:
    """f(2, 3) and f((2, 3)) mean the same."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    return tuple(int(n) for n in shape)


def check_dim(name: str, x: Tensor, dim: int) -> int:
    """A valid axis, counted from the front."""
    if not -max(x.ndim, 1) <= dim < max(x.ndim, 1):
        raise IndexError(f"{name}: dim {dim} is out of range for a tensor of shape {x.shape}")
    return dim % max(x.ndim, 1)


def reduce(operation: type[Op], x: Tensor, dim, keepdim: bool, axis, keepdims: bool) -> Tensor:
    """A reduction; dim and axis, keepdim and keepdims are the same."""
    dim = axis if dim is None else dim
    if dim is not None:
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
        dim = tuple(check_dim(operation.__name__.lower(), x, d) for d in dims) if x.ndim else ()
    return apply(operation, x, axis=dim, keepdims=keepdim or keepdims)


class ValuesAndIndices(NamedTuple):
    values: Tensor
    indices: Tensor


def extreme(x: Tensor, arg_function, operation: type[Op], elementwise, dim, keepdim: bool):
    """The three forms of max and min."""
    if dim is None:
        return apply(operation, x, axis=None)
    if isinstance(dim, (Tensor, np.ndarray)):
        return elementwise(x, dim)
    dim = check_dim(operation.__name__.lower(), x, dim)
    indices = np.asarray(arg_function(x.data, axis=dim, keepdims=True))
    values = take_along_dim(x, wrap(indices), dim)
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return ValuesAndIndices(values, wrap(indices))


def take_along_dim(x: Tensor, indices: Tensor, dim: int) -> Tensor:
    """out[i, j] = x[i, indices[i, j]] for dim = 1, and so on."""
    dim = check_dim("take_along_dim", x, dim)
    index = list(np.ogrid[tuple(slice(n) for n in indices.shape)]) if x.ndim else []
    index[dim] = indices.data
    return x[tuple(index)]


def plain_index(index):
    """An index without Tensors in it."""
    if isinstance(index, tuple):
        return tuple(i.data if isinstance(i, Tensor) else i for i in index)
    return index.data if isinstance(index, Tensor) else index


def where(condition, a: Operand, b: Operand) -> Tensor:
    """a where condition holds, else b; broadcast. Each element's gradient goes where it came from."""
    condition = as_array(condition, bool_)
    a, b = operand(a), operand(b)
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
        a, b = promote(a, b)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = Tensor(a)
    return apply(ops.Where, a, b, condition=condition)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along dim."""
    tensors = [operand(t) for t in tensors]
    if not tensors:
        raise ValueError("cat: expected a non-empty sequence of tensors")
    dim = check_dim("cat", tensors[0], dim)
    try:
        return apply(ops.Concatenate, *tensors, axis=dim)
    except ValueError:
        raise ValueError(f"cat: sizes must match except along dim {dim}, got {[t.shape for t in tensors]}") from None


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors side by side along a new axis."""
    return cat([t.unsqueeze(dim) for t in tensors], dim)


def matmul(a: Operand, b: Operand) -> Tensor:
    """The matrix product of (..., M, K) and (..., K, N), leading axes broadcast; a 1-d factor is a row or a column.

    >>> (Tensor([[1.0, 2.0]]) @ Tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    a, b = operand(a), operand(b)
    shapes = [getattr(x, "shape", ()) for x in (a, b)]
    if () in shapes:
        raise ValueError(f"matmul: both arguments need at least one axis, got shapes {shapes[0]} and {shapes[1]}")
    if a.dtype != b.dtype:
        raise TypeError(f"matmul: expected both of the same dtype, got {a.dtype} and {b.dtype}; convert one with .to(dtype)")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(f"mat1 and mat2 shapes cannot be multiplied ({shapes[0]} and {shapes[1]}): inner sizes differ")
    row, column = a.ndim == 1, b.ndim == 1
    try:
        out = apply(ops.MatMul, a.unsqueeze(0) if row else a, b.unsqueeze(1) if column else b)
    except ValueError:
        raise ValueError(f"matmul: leading axes of {shapes[0]} and {shapes[1]} do not broadcast") from None
    out = out.squeeze(-1) if column else out
    return out.squeeze(-1 if column else -2) if row else out


def _method(name: str):
    return lambda x, *args, **options: getattr(operand(x), name)(*args, **options)


# NumPy's functions on Tensors: formulas in NumPy's notation, as in `ops`, run on Tensors too.
UFUNCS = {
    np.add: lambda a, b: binary(ops.Add, a, b),
    np.subtract: lambda a, b: binary(ops.Sub, a, b),
    np.multiply: lambda a, b: binary(ops.Mul, a, b),
    np.divide: lambda a, b: binary(ops.Div, a, b),
    np.power: lambda a, b: binary(ops.Pow, a, b),
    np.maximum: lambda a, b: binary(ops.Maximum, a, b),
    np.minimum: lambda a, b: binary(ops.Minimum, a, b),
    np.matmul: matmul,
    **{getattr(np, name): lambda a, b, f=getattr(np, name): compare(f, operand(a) if isinstance(a, Tensor) else Tensor(a), b)
       for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
                    "bitwise_and", "bitwise_or", "bitwise_xor")},
    **{getattr(np, numpy_name): _method(name) for numpy_name, name in (
        ("negative", "neg"), ("absolute", "abs"), ("exp", "exp"), ("log", "log"), ("sqrt", "sqrt"), ("tanh", "tanh"))},
    np.sign: lambda x: wrap(np.sign(x.data)),
}
FUNCTIONS = {
    np.sum: _method("sum"),
    np.mean: _method("mean"),
    np.max: _method("amax"),
    np.min: _method("amin"),
    np.reshape: _method("reshape"),
    np.transpose: lambda x, axes=None: x.permute(axes) if axes is not None else x.T,
    np.swapaxes: _method("transpose"),
    np.broadcast_to: _method("expand"),
    np.where: where,
    np.concatenate: lambda tensors, axis=0: cat(tensors, axis),
    np.stack: lambda tensors, axis=0: stack(tensors, axis),
}
