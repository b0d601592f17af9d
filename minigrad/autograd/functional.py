"""Derivatives of any order: gradients that are not stored in `.grad`, and products with Jacobians and Hessians.

For y = f(x), J = dy/dx is the Jacobian; vjp computes v^T J (as backward does), jvp computes J v.
"""
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

import numpy as np

from .. import tape
from ..creation import zeros
from ..ops.shape import stack
from ..runner import current
from ..tensor import Tensor, wrap
from .grad_mode import enable_grad, set_grad_enabled

Tensors: TypeAlias = Tensor | Sequence[Tensor]
Inputs = TypeVar("Inputs", bound=Tensor | tuple[Tensor, ...])
Result = TypeVar("Result", bound=Tensor | tuple[Tensor, ...])


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) or value is None else tuple(value)


def _like(result: tuple[Any, ...], given: Any) -> Any:
    """One Tensor where one was given, otherwise the tuple."""
    return result[0] if isinstance(given, Tensor) else result


@overload
def grad(
    outputs: Tensors, inputs: Tensors, grad_outputs: Tensors | None = None, retain_graph: bool | None = None,
    create_graph: bool = False, allow_unused: Literal[False] | None = None, materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensors, inputs: Tensors, grad_outputs: Tensors | None = None, retain_graph: bool | None = None,
    create_graph: bool = False, *, allow_unused: bool, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
def grad(
    outputs: Tensors, inputs: Tensors, grad_outputs: Tensors | None = None, retain_graph: bool | None = None,
    create_graph: bool = False, allow_unused: bool | None = None, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of sum(outputs * grad_outputs) at the inputs, which may be leaves or computed; no `.grad` changes.

    With `create_graph` they are on the tape, to be differentiated again. An input that the outputs do not depend on
    raises an error; its gradient is None with allow_unused, or zeros with materialize_grads.

    >>> x = Tensor([2.0], requires_grad=True)
    >>> (first,) = grad(x**3, x, create_graph=True)
    >>> grad(first, x)
    (tensor([12.]),)
    """
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    upstreams = _as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outputs)
    if len(upstreams) != len(outputs):
        raise ValueError(f"grad: expected one of grad_outputs for each of {len(outputs)} outputs, got {len(upstreams)}")
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor) or x.node is None:
            raise RuntimeError(f"One of the differentiated Tensors does not require grad: input {i} of grad")
    roots: dict[Any, Any] = {}
    with set_grad_enabled(create_graph):
        for output, gradient in zip(outputs, upstreams):
            upstream = output.upstream(gradient, create_graph)
            roots[output.node] = roots[output.node] + upstream if output.node in roots else upstream
        wanted = list(dict.fromkeys(x.node for x in inputs))
        current().walk_begins(outputs, inputs)
        found = tape.gradients(roots, wanted, current(), create_graph if retain_graph is None else retain_graph)
    of_node = dict(zip(wanted, found))
    results = []
    for i, x in enumerate(inputs):
        gradient = of_node[x.node]
        if gradient is None and materialize_grads:
            gradient = np.zeros(x.shape, x.dtype)
        if gradient is None and not allow_unused:
            raise RuntimeError(
                f"One of the differentiated Tensors appears to not have been used in the graph: input {i} of grad; "
                "set allow_unused=True if this is intended"
            )
        if gradient is not None and not isinstance(gradient, Tensor):
            gradient = Tensor.constant(np.array, gradient)
        results.append(gradient)
    return tuple(results)


def _leaves(inputs: Tensors, create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs to differentiate at: on the caller's tape if the result will be, otherwise new leaves."""
    inputs = _as_tuple(inputs)
    return tuple(x.clone() if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _evaluate(func: Callable[..., Any], inputs: tuple[Tensor, ...]) -> Any:
    with enable_grad():
        result = func(*inputs)
    for output in _as_tuple(result):
        if not isinstance(output, Tensor):
            raise TypeError(f"the function must return Tensors, got {type(output).__name__}")
    return result


def _gradients_or_zeros(outputs, inputs, upstreams, create_graph: bool) -> tuple[Tensor, ...]:
    """`grad`, but zeros for an input that no output depends on."""
    pairs = [(y, u) for y, u in zip(outputs, upstreams) if y.requires_grad]
    if not pairs:
        return tuple(wrap(np.zeros(x.shape, x.dtype)) for x in inputs)
    outputs, upstreams = zip(*pairs)
    return grad(outputs, inputs, upstreams, True, create_graph, materialize_grads=True)


def _vectors(v: Tensors | None, targets: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    if v is None:
        if any(t.numel() != 1 for t in targets):
            raise RuntimeError(f"{name}: the vector v can only be None if there is a single element to multiply it with")
        return tuple(wrap(np.ones(t.shape, t.dtype)) for t in targets)
    v = _as_tuple(v)
    if [x.shape for x in v] != [t.shape for t in targets]:
        raise ValueError(f"{name}: v must have the shapes {[t.shape for t in targets]}, got {[x.shape for x in v]}")
    return v


def vjp(
    func: Callable[..., Result], inputs: Inputs, v: Tensors | None = None, create_graph: bool = False
) -> tuple[Result, Inputs]:
    """(func(inputs), v^T J): one backward.

    >>> vjp(lambda x: x * x, Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    xs = _leaves(inputs, create_graph)
    result = _evaluate(func, xs)
    ys = _as_tuple(result)
    products = _gradients_or_zeros(ys, xs, _vectors(v, ys, "vjp"), create_graph)
    return _off_tape(result, create_graph), _like(products, inputs)


def jvp(
    func: Callable[..., Result], inputs: Inputs, v: Tensors | None = None, create_graph: bool = False
) -> tuple[Result, Result]:
    """(func(inputs), J v), by two backwards: u^T J is linear in u, and its gradient for u in the direction v is J v.

    >>> jvp(lambda x: x * x, Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    xs = _leaves(inputs, create_graph)
    result = _evaluate(func, xs)
    ys = _as_tuple(result)
    us = tuple(zeros(y.shape, dtype=y.dtype, requires_grad=True) for y in ys)
    rows = _gradients_or_zeros(ys, xs, us, create_graph=True)
    products = _gradients_or_zeros(rows, us, _vectors(v, xs, "jvp"), create_graph)
    return _off_tape(result, create_graph), _like(products, result)


def _off_tape(result, create_graph: bool):
    return result if create_graph else _like(tuple(y.detach() for y in _as_tuple(result)), result)


@overload
def jacobian(func: Callable[..., Tensor], inputs: Tensor, create_graph: bool = False) -> Tensor: ...
@overload
def jacobian(func: Callable[..., Any], inputs: Tensors, create_graph: bool = False) -> Any: ...
def jacobian(func: Callable[..., Any], inputs: Tensors, create_graph: bool = False) -> Any:
    """dy/dx, of shape y.shape + x.shape, computed row by row; with several, nested tuples [output][input].

    >>> jacobian(lambda x: x * x, Tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    xs = _leaves(inputs, create_graph)
    result = _evaluate(func, xs)
    blocks = []
    for y in _as_tuple(result):
        rows = []
        for index in np.ndindex(y.shape):
            unit = np.zeros(y.shape, y.dtype)
            unit[index] = 1
            rows.append(_gradients_or_zeros((y,), xs, (wrap(unit),), create_graph))
        blocks.append(_like(tuple(_stacked(y, x, [row[i] for row in rows]) for i, x in enumerate(xs)), inputs))
    return _like(tuple(blocks), result)


def _stacked(y: Tensor, x: Tensor, rows: list[Tensor]) -> Tensor:
    if not rows:
        return wrap(np.zeros(y.shape + x.shape, x.dtype))
    return stack(rows).reshape(y.shape + x.shape)


@overload
def hessian(func: Callable[..., Tensor], inputs: Tensor, create_graph: bool = False) -> Tensor: ...
@overload
def hessian(func: Callable[..., Tensor], inputs: Tensors, create_graph: bool = False) -> Any: ...
def hessian(func: Callable[..., Tensor], inputs: Tensors, create_graph: bool = False) -> Any:
    """The second derivatives of a function with a single value: the Jacobian of its gradient.

    >>> hessian(lambda x: (x**3).sum(), Tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    def gradient(*xs: Tensor):
        y = _single(func(*xs), "hessian")
        return _like(_gradients_or_zeros((y,), xs, (wrap(np.ones(y.shape, y.dtype)),), create_graph=True), inputs)

    return jacobian(gradient, inputs, create_graph)


def hvp(
    func: Callable[..., Tensor], inputs: Inputs, v: Tensors | None = None, create_graph: bool = False
) -> tuple[Tensor, Inputs]:
    """(func(inputs), H v) for a function with a single value, without the Hessian H: the gradient of grad^T v.

    >>> hvp(lambda x: (x**3).sum(), Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))[1]
    tensor([  6., 120.])
    """
    xs = _leaves(inputs, create_graph)
    y = _single(_evaluate(func, xs), "hvp")
    first = _gradients_or_zeros((y,), xs, (wrap(np.ones(y.shape, y.dtype)),), create_graph=True)
    products = _gradients_or_zeros(first, xs, _vectors(v, xs, "hvp"), create_graph)
    return _off_tape(y, create_graph), _like(products, inputs)


def _single(y, name: str) -> Tensor:
    if not isinstance(y, Tensor) or y.numel() != 1:
        came = y.shape if isinstance(y, Tensor) else type(y).__name__
        raise RuntimeError(f"{name}: the function must return a Tensor with a single element, got {came}")
    return y
