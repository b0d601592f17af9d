"""The libraries whose functions can be checked: how each makes tensors, runs a function and differentiates it.

None is imported here: a function or an input can be of a library only if the user has imported it.
"""
import contextlib
import copy
import functools
import sys
from types import ModuleType
from typing import Any, Callable, ContextManager, Iterator, NamedTuple, Sequence

import numpy as np

from .. import random, tape
from ..autograd.function import Function
from ..autograd.functional import grad
from ..autograd.grad_mode import is_grad_enabled, no_grad, set_grad_enabled
from ..runner import EAGER, current
from ..tensor import Tensor, wrap
from . import torch_checks
from .arguments import items_of, mapped
from .blame import spare
from .contract import contract

Values = list[Any]  # what a function of several tensors returned: tensors, arrays, numbers
Leaves = Sequence[Any]  # tensors of the library
Flat = Callable[[Leaves], Values]
Pullback = Callable[[Sequence[np.ndarray | None]], list[np.ndarray | None]]


class Generator(NamedTuple):
    """A source of random numbers."""

    state: Callable[[], Any]
    put_back: Callable[[Any], None]
    start: Callable[[int], Any]


class Library:
    """NumPy: arrays, which have no gradients. The others say what differs."""

    name: str = "NumPy"
    package: str = "numpy"
    copies: bool = True  # does each call get copies of inputs that are no leaves? Else they are watched
    needs = "give tensors of minigrad, PyTorch or JAX, or a pair (forward, backward) and arrays"
    notes: Sequence[str] = ()  # for a report
    functions: Sequence[Callable[..., Any]] = ()  # of its own, that run beside the one that is checked
    generators: Sequence[Generator] = ()  # what a function may draw random numbers from

    def is_tensor(self, value: Any) -> bool:
        return False

    def is_leaf(self, value: Any) -> bool:
        """Is this a tensor for which the user wants a gradient?"""
        return False

    def kind(self, tensor: Any) -> str:
        """Of its dtype, as NumPy's: "f" for floating-point numbers, "c" for complex ones."""
        return tensor.dtype.kind

    def unsupported(self, tensor: Any) -> str:
        """Why this tensor cannot be part of a check, and what to do instead, or ""."""
        return "is complex, which is not supported: use real and imaginary parts" if self.kind(tensor) == "c" else ""

    def array(self, value: Any) -> np.ndarray:
        """A copy."""
        return np.array(value)

    def tensor(self, array: np.ndarray, like: Any, is_leaf: bool = False) -> Any:
        """With the dtype, and on the device, of a tensor `like` this; or in the dtype of this name; in its own if None."""
        return array if like is None else array.astype(getattr(like, "dtype", like), copy=False)

    def write(self, tensor: Any, array: np.ndarray) -> None:
        """Write the array's numbers into the tensor's memory."""
        tensor[...] = array

    def view(self, value: Any) -> np.ndarray:
        """The array of a tensor or array, itself if there is one."""
        return value if isinstance(value, np.ndarray) else self.array(value)

    def title(self, name: str) -> str:
        """What a report calls a function with this name."""
        return name or "the function"

    def run(self, function: Flat, leaves: Leaves) -> Values:
        """function(leaves), off the tape."""
        return function(leaves)

    def record(self, function: Flat, leaves: Leaves) -> tuple[Values, Pullback]:
        """function(leaves), and what computes the leaves' gradients from one upstream for each value; None stands for
        zeros, in both."""
        return function(leaves), lambda upstreams: [None] * len(leaves)

    def repeated(self, function: Flat) -> Flat:
        """The same function, for many calls off the tape."""
        return function

    def derivative(self, function: Flat, count: int) -> Flat:
        """[*leaves, *upstreams] -> the gradients of function's `count` leaves, to be differentiated again."""
        raise RuntimeError("a backward in NumPy cannot itself be differentiated (create_graph=True)")

    def eps(self, tensor: Any) -> float:
        """Of its dtype: how far 1 is from the next number."""
        return float(np.finfo(tensor.dtype).eps)

    def is_narrow(self, tensor: Any) -> bool:
        """Is its dtype too coarse for small steps?"""
        return self.eps(tensor) > float(np.finfo(np.float64).eps)

    def wide(self) -> ContextManager[Any]:
        """Inside, there is float64."""
        return contextlib.nullcontext()

    def widened(self, fn: Any, inputs: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
        """The function and its inputs in float64, as copies."""
        def double(value, _):
            return self.double(value) if self.is_tensor(value) and self.kind(value) == "f" else value

        is_module = hasattr(fn, "named_parameters")
        return copy.deepcopy(fn).double() if is_module else fn, [mapped(value, double, "") for value in inputs]

    def double(self, tensor: Any) -> Any:
        """A copy in float64."""
        return self.tensor(self.array(tensor).astype(np.float64), None, self.is_leaf(tensor))

    def placed(self, value: Any, dtype: str, device: str | None) -> Any:
        """A tensor or module, moved to this device; the parameters of a module in this dtype."""
        return value

    def is_function(self, value: Any) -> bool:
        """Is this a class with a forward and a backward of its own?"""
        return False

    def parameters(self, fn: Any) -> dict[str, Any]:
        """Those of fn, if it is a module, by name."""
        return {}

    def call(self, fn: Callable[..., Any], arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
        """fn(*arguments), with these tensors in place of its parameters."""
        return fn(*arguments)

    def has_hooks(self, value: Any) -> bool:
        """Has this tensor or module hooks that change gradients?"""
        return False

    def unchecked(self, fn: Callable[..., Any], outputs: Values, leaves: Leaves) -> str:
        """A sentence on tensors that would get a gradient too but are no leaves, or ""."""
        return ""

    def terms(self, outputs: Values, upstreams: Sequence[np.ndarray]) -> float:
        """The largest number on the way back, as far as it is known."""
        return max((float(np.max(np.abs(u), initial=0.0)) for u in upstreams), default=0.0)

    def side_checks(self, record: Any) -> dict[str, Callable[[], str | None]]:
        """By name: each returns a sentence on what a backward of this library gets wrong, or "", or None if not run."""
        return {}

    def owns(self, fn: Any) -> bool:
        """Is this function one of the library, whatever its inputs are?"""
        return False


class Taped(Library):
    """A library whose tensors remember how they were made."""

    needs = "make one with requires_grad=True, of floating-point numbers"

    def __init__(self, recording: Callable[[bool], ContextManager[Any]], records: Callable[[], bool],
                 grad: Callable[..., Any]):
        self.recording = recording
        self.records = records
        self.grad = grad

    def is_leaf(self, value: Any) -> bool:
        return self.is_tensor(value) and value.requires_grad

    def run(self, function: Flat, leaves: Leaves) -> Values:
        try:
            with self.recording(False):
                return function(leaves)
        except RuntimeError:  # it may differentiate something itself
            return [self.tensor(self.array(out), out) if self.is_tensor(out) else out for out in self.record(
                function, [self.tensor(self.array(x), x, True) for x in leaves])[0]]

    def record(self, function: Flat, leaves: Leaves) -> tuple[Values, Pullback]:
        with self.recording(True):
            outputs = function(leaves)

        def pullback(upstreams):
            given = [u if u is None else self.tensor(u, out) for out, u in zip(outputs, upstreams)]
            return [g if g is None else self.array(g) for g in self.pulled(outputs, leaves, given, retain_graph=True)]

        return outputs, pullback

    def pulled(self, outputs: Values, leaves: Leaves, upstreams: Sequence[Any], **options: Any) -> list[Any]:
        """The leaves' gradients, None where none arrives, from upstreams of those outputs that are on the tape."""
        pairs = [(out, u) for out, u in zip(outputs, upstreams) if u is not None and self.is_leaf(out)]
        if not pairs:
            return [None] * len(leaves)
        outs, given = zip(*pairs)
        return list(self.grad(outs, leaves, given, allow_unused=True, **options))

    def derivative(self, function: Flat, count: int) -> Flat:
        def gradients(arguments):
            leaves, upstreams = arguments[:count], arguments[count:]
            with self.recording(True):
                leaves = [x if x.requires_grad else x.detach().requires_grad_() for x in leaves]
                found = self.pulled(function(leaves), leaves, upstreams, create_graph=True)
                return [x * 0 if g is None else g for x, g in zip(leaves, found)]

        return gradients


class Minigrad(Taped):
    name = "minigrad"
    copies = False
    generators = (Generator(random.get_state, random.set_state, random.manual_seed),)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def owns(self, fn: Any) -> bool:
        return hasattr(fn, "named_parameters")

    def is_function(self, value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, Function)

    def array(self, value: Any) -> np.ndarray:
        return np.array(value.array if isinstance(value, Tensor) else value)

    def view(self, value: Any) -> np.ndarray:
        return value.array if isinstance(value, Tensor) else value

    def title(self, name: str) -> str:
        return name

    def tensor(self, array: np.ndarray, like: Any, is_leaf: bool = False) -> Any:
        made = wrap(np.asarray(super().tensor(array, like)))
        return made.requires_grad_() if is_leaf else made

    def double(self, tensor: Any) -> Any:
        made = super().double(tensor)
        made.name = tensor.name
        return made

    def call(self, fn: Any, arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
        own = dict(fn.named_parameters()) if parameters else {}
        before = {name: (own[name].array, own[name].node) for name in parameters}
        try:
            for name, leaf in parameters.items():
                own[name].array, own[name].node = leaf.array, leaf.node
            return fn(*arguments)
        finally:
            for name, (array, node) in before.items():
                own[name].array, own[name].node = array, node

    def record(self, function: Flat, leaves: Leaves) -> tuple[Values, Pullback]:
        outputs, pullback = super().record(function, leaves)
        if any(getattr(node, "rounds", False) for node in nodes_below(outputs)):
            raise ValueError("gradcheck: the function runs under autocast, and its rounding hides the derivative; check "
                             "it outside, or inside autocast('cpu', enabled=False)")
        return outputs, pullback

    def terms(self, outputs: Values, upstreams: Sequence[np.ndarray]) -> float:
        ops = [node for node in nodes_below(outputs) if isinstance(node, tape.Op)]
        with no_grad():
            arrived = tape.gradients(roots(outputs, upstreams), ops, current(), True)
        sizes = [np.max(np.abs(g), initial=0.0) for g in arrived if g is not None]
        return float(max((size for size in sizes if np.isfinite(size)), default=0.0))

    def side_checks(self, record: Any) -> dict[str, Callable[[], str | None]]:
        return {"each op keeps the contract": lambda: self.each_op(record)}

    def each_op(self, record: Any) -> str:
        """For each op on the way."""
        record.prepare()
        saved = {op: [a.copy() for a in op.saved if isinstance(a, np.ndarray)]
                 for op in nodes_below(record.tensors) if isinstance(op, tape.Op)}
        with no_grad(), record.subject.watched():
            arrived = tape.gradients(roots(record.tensors, record.parts(record.upstream)), list(saved), EAGER, True)
            for op, dout in zip(saved, arrived):
                arrays = [array for array in op.saved if isinstance(array, np.ndarray)]
                dtypes = [parent and parent.dtype for parent in op.parents]
                back = functools.partial(op.input_gradients, runner=EAGER, retain_graph=True)
                detail = "" if dout is None else contract(
                    back, np.array(dout), dtypes, arrays, saved[op], record.rounding)
                if detail:
                    return type(detail)(f"{op.title}.backward {detail}")
        return ""

    def write(self, tensor: Any, array: np.ndarray) -> None:
        tensor.array[...] = array


def nodes_below(outputs: Sequence[Tensor]) -> Iterator[tape.Node]:
    """All nodes of a graph, each once."""
    waiting = [out.node for out in outputs if out.node is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for parent in node.parents if isinstance(node, tape.Op) else ():
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)


def roots(outputs: Sequence[Tensor], upstreams: Sequence[Any]) -> dict[Any, Any]:
    """Where the tape starts: each output's upstream."""
    found: dict[Any, Any] = {}
    for out, part in zip(outputs, upstreams):
        if out.node is not None and part is not None:
            part = part.astype(out.dtype, copy=False)
            found[out.node] = found[out.node] + part if out.node in found else part
    return found


class Torch(Taped):
    name: str = "PyTorch"
    package: str = "torch"

    def __init__(self, torch: Any):
        super().__init__(torch.set_grad_enabled, torch.is_grad_enabled, self.gradients)
        self.torch = torch
        self.generators: Sequence[Generator] = [Generator(torch.get_rng_state, torch.set_rng_state, torch.manual_seed)]
        spare(torch.__file__)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor)

    def unsupported(self, tensor: Any) -> str:
        plain = self.torch.Tensor, self.torch.nn.Parameter, self.torch.nn.Buffer
        if isinstance(tensor, self.torch.nn.UninitializedParameter):
            return "has no numbers yet: call the module once"
        if type(tensor) not in plain:
            return f"is a {type(tensor).__name__}, and a check takes plain tensors: see Tensor.as_subclass"
        if tensor.is_nested or tensor.layout is not self.torch.strided:
            return "is sparse or nested: use a dense tensor, and let the function convert it"
        if tensor.is_quantized or tensor.is_floating_point() and tensor.itemsize < 2:
            return f"is {tensor.dtype}: use float64, float32, bfloat16 or float16, and let the function convert it"
        if tensor.is_meta:
            return "is on the device meta, which holds no numbers: use cpu or cuda"
        return super().unsupported(tensor)

    def array(self, value: Any) -> np.ndarray:
        if not self.is_tensor(value):
            return np.array(value)
        value = value.detach()
        value = value if value.layout is self.torch.strided else value.to_dense()  # as the gradient of an embedding
        return np.array((value.float() if value.dtype is self.torch.bfloat16 else value).numpy(force=True))

    def tensor(self, array: np.ndarray, like: Any, is_leaf: bool = False) -> Any:
        made = self.torch.from_numpy(array)
        if like is not None:
            made = made.to(like.device, like.dtype) if self.is_tensor(like) else made.to(getattr(self.torch, like))
        return made.requires_grad_(is_leaf)

    def write(self, tensor: Any, array: np.ndarray) -> None:
        tensor.data.copy_(self.torch.from_numpy(array))

    def kind(self, tensor: Any) -> str:
        return "f" if tensor.is_floating_point() else "c" if tensor.is_complex() else "i"

    def eps(self, tensor: Any) -> float:
        return self.torch.finfo(tensor.dtype).eps

    def double(self, tensor: Any) -> Any:
        """On the same device, which alone a kernel may be for."""
        return tensor.detach().to(self.torch.float64, copy=True).requires_grad_(tensor.requires_grad)

    def placed(self, value: Any, dtype: str, device: str | None) -> Any:
        if self.is_tensor(value):
            return value.detach().to(device).requires_grad_(value.requires_grad)
        return value.to(device, getattr(self.torch, dtype)) if isinstance(value, self.torch.nn.Module) else value

    def has_hooks(self, value: Any) -> bool:
        if isinstance(value, self.torch.nn.Module):
            return any(part._backward_hooks or part._backward_pre_hooks for part in value.modules())
        return bool(self.is_tensor(value) and value._backward_hooks)

    def unchecked(self, fn: Callable[..., Any], outputs: Values, leaves: Leaves) -> str:
        return torch_checks.unchecked(self.torch, fn, list(filter(self.is_leaf, outputs)), leaves)

    def side_checks(self, record: Any) -> dict[str, Callable[[], str | None]]:
        case = torch_checks.Case(record)
        looks = {} if record.subject.is_backward else torch_checks.CHECKS
        return {name: functools.partial(look, case) for name, look in looks.items()}

    def is_function(self, value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, self.torch.autograd.Function)

    def owns(self, fn: Any) -> bool:
        return isinstance(fn, self.torch.nn.Module) or any(map(self.is_function, (fn, getattr(fn, "__self__", None))))

    def parameters(self, fn: Any) -> dict[str, Any]:
        return dict(fn.named_parameters()) if isinstance(fn, self.torch.nn.Module) else {}

    def call(self, fn: Callable[..., Any], arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
        if not isinstance(fn, self.torch.nn.Module):
            return fn(*arguments)
        own = dict(fn.named_parameters())
        for name, leaf in parameters.items():
            leaf.module, leaf.name_there, leaf.owner = fn, name, own[name]
            leaf.owner.data = leaf.data  # which the module may also keep elsewhere
        # Copies, since a call may write to its buffers while an earlier graph needs them.
        buffers = {name: buffer.clone() for name, buffer in fn.named_buffers()}
        return self.torch.func.functional_call(fn, buffers | parameters, tuple(arguments))

    def gradients(self, outputs: Values, leaves: Leaves, upstreams: Values, **options: Any) -> list[Any]:
        """torch.autograd.grad where a backward that runs a part of the module again meets the same leaves, with what that
        adds to their `grad`; torch.autograd.backward where a function, as a checkpoint does, demands it."""
        own = [leaf for leaf in leaves if hasattr(leaf, "owner")]
        places = [*((leaf, leaf) for leaf in leaves), *((leaf, leaf.owner) for leaf in own)]
        everywhere = [place for _, place in places]
        for leaf, place in places:
            place.data, place.grad = leaf.data, None

        def run() -> list[Any]:
            try:
                return self.torch.autograd.grad(outputs, everywhere, upstreams, **options)
            except RuntimeError as error:
                if ".backward()" not in str(error) or "create_graph" in options:
                    raise
                self.torch.autograd.backward(outputs, upstreams, retain_graph=True)
                return [None] * len(everywhere)

        found = list(zip(places, self.holding(own, run)))

        def arrived(leaf: Any) -> Any:
            parts = [part for (x, place), g in found if x is leaf for part in (g, place.grad) if part is not None]
            return sum(parts[1:], parts[0]) if parts else None

        return list(map(arrived, leaves))

    def holding(self, leaves: Leaves, run: Callable[[], Any]) -> Any:
        """run(), while the module that these are parameters of holds them."""
        if not leaves:
            return run()
        holder = self.torch.nn.Module()
        holder.fn, holder.forward = leaves[0].module, run
        return self.torch.func.functional_call(holder, {f"fn.{leaf.name_there}": leaf for leaf in leaves}, ())


class Repeated:
    """A function of JAX's arrays, compiled if two traces of it are the same: then it draws nothing, and keeps nothing.

    The first call is plain, if it may be: what a function keeps from it must be numbers.
    """

    backward: "Repeated | None" = None

    def __init__(self, jax: Any, function: Callable[..., Any], plain_calls: int = 1):
        self.jax = jax
        self.plain = self.function = function
        self.plain_calls = plain_calls

    def __call__(self, arrays: Any) -> Any:
        if self.plain_calls == 0:
            with contextlib.suppress(Exception):  # it branches on numbers, say
                self.function = self.compiled(arrays)
        self.plain_calls -= 1
        return self.function(arrays)

    def compiled(self, arrays: Any) -> Callable[..., Any]:
        first, second = (self.jax.jit(lambda given: self.plain(given)).trace(arrays).lower() for _ in range(2))
        if first.as_text() != second.as_text():
            return self.plain
        # Without XLA's optimizations, this takes half the time.
        return second.compile({"xla_backend_optimization_level": 0})


class Jax(Library):
    name: str = "JAX"
    package: str = "jax"
    needs = "give an array of floating-point numbers"

    def __init__(self, jax: Any):
        self.jax = jax
        spare(jax.__file__)

    def is_tensor(self, value: Any) -> bool:
        """A key of random numbers is none."""
        is_array = isinstance(value, self.jax.Array)
        return is_array and not self.jax.numpy.issubdtype(value.dtype, self.jax.dtypes.prng_key)

    def owns(self, fn: Any) -> bool:
        return type(fn).__module__.split(".")[0] in ("jax", "jaxlib")

    def is_leaf(self, value: Any) -> bool:
        """Arrays do not say whether they want a gradient: all floating-point ones do."""
        return self.is_tensor(value) and self.kind(value) == "f"

    def kind(self, tensor: Any) -> str:
        return "f" if self.jax.numpy.issubdtype(tensor.dtype, self.jax.numpy.floating) else tensor.dtype.kind

    def eps(self, tensor: Any) -> float:
        return float(self.jax.numpy.finfo(tensor.dtype).eps)

    def wide(self) -> ContextManager[Any]:
        return self.jax.enable_x64(True)

    def array(self, value: Any) -> np.ndarray:
        array = np.array(value)
        is_narrow = array.dtype.kind == "V" and self.is_leaf(value)  # as bfloat16, which NumPy lacks
        return array.astype(np.float32) if is_narrow else array

    def tensor(self, array: np.ndarray, like: Any, is_leaf: bool = False) -> Any:
        return self.jax.numpy.asarray(array, getattr(like, "dtype", like))

    def repeated(self, function: Flat) -> "Repeated":
        return function if isinstance(function, Repeated) else Repeated(self.jax, function)

    def record(self, function: Flat, leaves: Leaves) -> tuple[Values, Pullback]:
        outputs, backward = function(leaves), self.derivative(function, len(leaves))

        def gradients(upstreams):
            given = [self.tensor(np.zeros(out.shape) if u is None else u, out) for out, u in zip(outputs, upstreams)]
            return list(map(self.array, backward([*leaves, *given])))

        return outputs, gradients

    def derivative(self, function: Flat, count: int) -> Flat:
        """One for all calls of the function, which runs again in each."""
        known = self.repeated(function)

        def gradients(arguments):
            _, pullback = self.jax.vjp(known.plain, list(arguments[:count]))
            return pullback(list(arguments[count:]))[0]

        known.backward = known.backward or Repeated(self.jax, gradients, plain_calls=0)
        return known.backward


NUMPY = Library()
MINIGRAD = Minigrad(set_grad_enabled, is_grad_enabled, grad)


@functools.cache
def library(kind: Callable[[ModuleType], Library], module: ModuleType) -> Library:
    return kind(module)


def others() -> list[Library]:
    """The libraries, apart from NumPy and minigrad, that the user has imported."""
    found = [(kind, sys.modules.get(kind.package)) for kind in (Torch, Jax)]
    return [library(kind, module) for kind, module in found if module is not None]


def library_of_value(value: Any) -> Library | None:
    """The library whose tensor this is; None for anything else."""
    return next((known for known in (MINIGRAD, *others()) if known.is_tensor(value)), None)


def array_of(value: Any) -> np.ndarray:
    """A copy of a tensor, array or number as an array."""
    return (library_of_value(value) or NUMPY).array(value)


def library_of(fn: Callable[..., Any], inputs: Sequence[Any]) -> Library:
    """The library of the tensors among the inputs, however nested, or of fn."""
    items = items_of(inputs)
    return next((known for known in (*others(), MINIGRAD) if any(map(known.is_tensor, items)) or known.owns(fn)), NUMPY)
