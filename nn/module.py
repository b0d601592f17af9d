"""Module and Parameter: what networks are made of; how their state is listed, saved and loaded, and their mode switched.

Parameters, buffers and child modules are ordinary attributes, so `layer.weight` costs no more than on any other object.
Lists are read from the instance's `__dict__`, in order of assignment.
"""
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar

import numpy as np

import minigrad
from minigrad import Tensor
from minigrad.extend import LIBRARIES, HookHandle, dtype_of_to, notice, opaque, outdate
from nn.hooks import Hooks, call_with_hooks

LIBRARIES.add("nn")  # modules say themselves when one of their attributes is set
FLOATS = minigrad.float32, minigrad.float64
P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Parameter(Tensor):
    """A Tensor that a Module lists among its parameters. It requires a gradient, and shares the memory of `data`.

    >>> import minigrad as mg
    >>> Parameter(mg.zeros(2, 3)).requires_grad
    True
    """

    copies_grad = False  # as in PyTorch

    def __init__(self, data: Tensor | np.ndarray, requires_grad: bool = True):
        super().__init__(data if isinstance(data, Tensor) else minigrad.tensor(data), requires_grad=requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class IncompatibleKeys(NamedTuple):
    """The names that `load_state_dict(strict=False)` skipped."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class HasForward(Protocol[P, R]):
    """A module as `__call__` sees it: editors show forward's signature for a call, and type checkers check it."""

    _hooks: Hooks

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What a call computes."""
        ...


class Module:
    """Base of all layers and networks. A subclass makes its parameters and child modules in `__init__`, and computes in
    `forward`.

    >>> import minigrad as mg
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = Parameter(mg.ones(3))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> [(name, parameter.shape) for name, parameter in Scale().named_parameters()]
    [('factor', (3,))]
    """

    training: bool
    _hooks: Hooks = ()

    def __init__(self) -> None:
        self._buffers: dict[str, bool] = {}  # name: is it part of state_dict? The buffer itself is an attribute
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call computes. A subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(): define it in the class")

    def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """forward(*args, **kwargs), with the hooks."""
        if self._hooks:
            notice(f"calls {type(self).__name__}, which has hooks", instead="remove them, or don't compile this step")
            return call_with_hooks(self, self._hooks, args, kwargs)
        return self.forward(*args, **kwargs)

    # ---- hooks ----

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Before forward, call hook(module, args); what it returns, if not None, replaces the arguments."""
        return self._register_hook("pre", hook)

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """After forward, call hook(module, args, output), or hook(module, args, kwargs, output) if with_kwargs; what it
        returns, if not None, replaces the output."""
        return self._register_hook("forward with kwargs" if with_kwargs else "forward", hook)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """In backward, call hook(module, grad_input, grad_output) with the gradients of the positional arguments and of all
        items of the output, as tuples, None where there is none; what it returns, if not None, replaces grad_input."""
        return self._register_hook("backward", hook)

    @property
    def has_hooks(self) -> bool:
        """If so, the parent must call this module, and not compute its result in another way."""
        return bool(self._hooks)

    def _register_hook(self, kind: str, hook: Callable[..., Any]) -> HookHandle:
        return HookHandle(self, (kind, hook), "_hooks")  # outdates compiled steps, as setting any attribute does

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if "_buffers" in attributes:
            self._check_replacement(name, value)
            if isinstance(value, (Parameter, Module)):
                self._buffers.pop(name, None)
        elif isinstance(value, (Parameter, Module)):
            kind = "parameters" if isinstance(value, Parameter) else "module"
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call: "
                                 f"call super().__init__() first in {type(self).__name__}.__init__")
        if name not in attributes or attributes[name] is not value:  # a compiled step may have read it
            outdate()
        attributes[name] = value

    def _check_replacement(self, name: str, value: Any) -> None:
        """TypeError if the assignment would silently drop a parameter, a module or a buffer."""
        before = self.__dict__.get(name)
        if value is None or isinstance(value, (Parameter, Module)):
            return
        if isinstance(before, Parameter):
            kind, expected = "parameter", "nn.Parameter"
        elif isinstance(before, Module):
            kind, expected = "child module", "nn.Module"
        elif name in self._buffers and not isinstance(value, Tensor):
            kind, expected = "buffer", "Tensor"
        else:
            return
        raise TypeError(f"cannot assign '{type(value).__name__}' as {kind} '{name}' ({expected} or None expected)")

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._buffers.pop(name, None)
        outdate()

    def __getattr__(self, name: str) -> Any:  # called only for missing attributes
        message = f"'{type(self).__name__}' object has no attribute '{name}'"
        if "_buffers" not in self.__dict__:
            raise AttributeError(message + "; was super().__init__() called?", name=name, obj=self)
        names = [own for own, _ in self._own((Tensor, Module))]
        raise AttributeError(f"{message}; it holds {', '.join(names) or 'no parameters or modules'}", name=name, obj=self)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """`self.name = param`, for computed names."""
        self._register(name, param, Parameter)

    def add_module(self, name: str, module: "Module | None") -> None:
        """`self.name = module`, for computed names."""
        self._register(name, module, Module)

    register_module = add_module

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor that is part of the state, but not a parameter. state_dict includes it only if persistent."""
        self._register(name, tensor, Tensor)
        self._buffers[name] = persistent

    def _register(self, name: str, value: Any, kind: type[Any]) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"a name must be a non-empty string without '.', got {name!r}")
        if not isinstance(value, (kind, type(None))):
            raise TypeError(f"cannot register '{type(value).__name__}' as '{name}' ({kind.__name__} or None expected)")
        before = getattr(self, name, None)
        if before is not None and not isinstance(before, kind):
            raise KeyError(f"attribute '{name}' already exists in {type(self).__name__}")
        setattr(self, name, value)

    # ---- lists ----

    def _own(self, kind: type[Any] | tuple[type[Any], ...]) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self).items() if isinstance(value, kind)]

    def _own_buffers(self, persistent_only: bool = False) -> list[tuple[str, Tensor]]:
        return [(name, vars(self)[name]) for name, persistent in self._buffers.items()
                if vars(self)[name] is not None and (persistent or not persistent_only)]

    def named_modules(
        self, memo: "set[Module] | None" = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """(name, module) for this module, named `prefix`, and all below it; a shared module once, under its first name.

        Modules in `memo` are left out, and the others are added to it.
        """
        seen = set() if memo is None else memo
        to_visit = [(prefix, self)]
        while to_visit:
            name, module = to_visit.pop()
            if module in seen:
                continue
            if remove_duplicate:
                seen.add(module)
            yield name, module
            below = module._own(Module)
            to_visit += [(f"{name}.{child_name}" if name else child_name, child) for child_name, child in below[::-1]]

    def _named_members(self, own: Callable[["Module"], list[tuple[str, Any]]], prefix: str, recurse: bool,
                       remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        """What `own` lists for this module and for all below, with full names."""
        seen: set[int] = set()
        for path, module in self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name, member in own(module):
                if id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter), with names like 'blocks.0.norm.weight'; a shared parameter once, under its first name."""
        return self._named_members(lambda module: module._own(Parameter), prefix, recurse, remove_duplicate)

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """(name, buffer); a shared buffer once, under its first name."""
        return self._named_members(Module._own_buffers, prefix, recurse, remove_duplicate)

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """(name, module) for the modules directly below this one, each once, under its first name."""
        first_name = {module: name for name, module in reversed(self._own(Module))}
        return ((name, module) for name, module in self._own(Module) if first_name[module] == name)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once: what an optimiser takes."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def modules(self, remove_duplicate: bool = True) -> Iterator["Module"]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def children(self) -> Iterator["Module"]:
        """The modules directly below this one, each once."""
        return (module for _, module in self.named_children())

    def get_submodule(self, target: str) -> "Module":
        """The module of this name, such as 'blocks.0.norm'; "" is this module itself."""
        return self._look_up("modules", target)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of this name, such as 'blocks.0.norm.weight'."""
        return self._look_up("parameters", target)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of this name."""
        return self._look_up("buffers", target)

    def _look_up(self, kind: str, target: str) -> Any:
        for name, member in getattr(self, f"named_{kind}")(remove_duplicate=False):
            if name == target:
                return member
        raise AttributeError(f"{type(self).__name__} has no {target!r} among its {kind}: named_{kind}() lists them")

    # ---- state ----

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        return self._named_members(lambda module: module._own(Parameter) + module._own_buffers(persistent_only=True),
                                   prefix="", recurse=True, remove_duplicate=False)

    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and persistent buffers by name, detached. They share memory: copy what must not change.
        Shared parameters are listed under each of their names."""
        return {name: member.detach() for name, member in self._named_state()}

    def load_state_dict(self, state_dict: Mapping[str, Tensor | np.ndarray], strict: bool = True) -> IncompatibleKeys:
        """Copy values into the parameters and buffers of the same names, in place; return the missing and unexpected keys.

        One RuntimeError reports everything that does not fit, and nothing is changed: wrong shapes and dtypes, and if
        `strict` missing and unexpected names.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"expected state_dict to be a dict of names and arrays, got {type(state_dict).__name__}")
        own = dict(self._named_state())
        arrays = {name: value.array if isinstance(value, Tensor) else np.asarray(value)
                  for name, value in state_dict.items()}
        missing = [name for name in own if name not in arrays]
        unexpected = [name for name in arrays if name not in own]
        problems = []
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {', '.join(missing)}")
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {', '.join(unexpected)}")
        common = [name for name in own if name in arrays]
        for name in common:
            problems += _mismatches(name, arrays[name], own[name])
        if problems:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        with minigrad.no_grad():
            for name in common:
                own[name].copy_(minigrad.as_tensor(arrays[name]))
        return IncompatibleKeys(missing, unexpected)

    # ---- switches ----

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below into training mode, in which dropout is active, or into eval mode."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """train(False): without dropout."""
        return self.train(False)

    @opaque
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None, or fill them with zeros."""
        zero_grads(self.parameters(), set_to_none)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Make all parameters trainable, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Call `fn` on every module below, children first, and then on this one; for example to initialise them."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, target: Any = None, dtype: Any = None, non_blocking: bool = False, *, device: Any = None) -> Self:
        """Convert floating-point parameters, gradients and buffers to float32 or float64, in place.

        Shared parameters stay shared. Create the optimiser afterwards. to("cpu") changes nothing: it is the only device.
        """
        dtype = dtype_of_to(target.dtype if isinstance(target, Tensor) else target, dtype, device)
        if dtype is None:
            return self
        if dtype not in FLOATS:
            raise TypeError(f"Module.to takes float32 or float64, got {dtype}")
        for tensor in chain(self.parameters(), self.buffers()):
            if tensor.is_floating_point() and tensor.dtype != dtype:
                gradient, wanted = tensor.grad, tensor.requires_grad
                tensor.requires_grad = False
                tensor.array = tensor.to(dtype).array
                if wanted or gradient is not None:
                    tensor.requires_grad = True  # a new leaf: the old one has the old dtype
                    tensor.grad = None if gradient is None else gradient.to(dtype)
                    tensor.requires_grad = wanted
        return self

    def float(self) -> Self:
        """to(float32)"""
        return self.to(np.float32)

    def double(self) -> Self:
        """to(float64)"""
        return self.to(np.float64)

    def half(self) -> Self:
        """TypeError: there is no float16."""
        return self.to(minigrad.float16)

    def bfloat16(self) -> Self:
        """TypeError: there is no bfloat16."""
        return self.to(minigrad.bfloat16)

    def cpu(self) -> Self:
        """This module: there is no other device."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """RuntimeError: there is no other device than the CPU."""
        return self.to("cuda")

    # ---- repr ----

    def extra_repr(self) -> str:
        """The text between the parentheses, in which a subclass gives its sizes and options."""
        return ""

    def _child_lines(self) -> list[str]:
        return [f"({name}): {child!r}" for name, child in self._own(Module)]

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = self._child_lines()
        if not lines and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        body = "\n".join(([extra] if extra else []) + lines).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {body}\n)"


def zero_grads(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Set the gradients of these parameters to None, or fill them with zeros."""
    for parameter in parameters:
        if set_to_none:
            parameter.grad = None
        elif parameter.grad is not None:
            parameter.grad.data[...] = 0


def _mismatches(name: str, array: np.ndarray, own: Tensor) -> list[str]:
    """The reasons why this array does not fit that parameter or buffer."""
    problems = []
    if array.shape != own.shape:
        problems.append(f"size mismatch for {name}: shape {array.shape} in state_dict, {own.shape} in the model")
    if array.dtype.newbyteorder("=") != own.dtype:
        problems.append(f"dtype mismatch for {name}: {array.dtype} in state_dict, {own.dtype} in the model "
                        f"(convert the model with .to('{array.dtype}'), or the values)")
    return problems
