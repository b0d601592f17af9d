"""Containers of modules and of parameters, by index or by name."""
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import groupby
from typing import Any, Generic, Self, TypeVar, overload

from minigrad import Tensor
from nn.module import Module, Parameter

M = TypeVar("M")  # the members of a container
New = TypeVar("New")  # what becomes one


class _Members(Module, Generic[M, New]):
    """Members are the attributes of one kind, modules or parameters."""

    kind: type[Any] = Module

    def _named(self) -> list[tuple[str, M]]:
        return self._own(self.kind)

    def __len__(self) -> int:
        return len(self._named())

    def _add(self, name: str, member: New) -> None:
        self._register(name, member, self.kind)


class _Indexed(_Members[M, New]):
    """Members in order, by index or slice. `del` and `insert` renumber those that follow."""

    def _members(self) -> list[Any]:
        return [member for _, member in self._named()]

    def _name_at(self, index: int) -> str:
        names = [name for name, _ in self._named()]
        if not -len(names) <= index < len(names):
            kinds = f"{self.kind.__name__.lower()}s"
            raise IndexError(f"index {index} is out of range for a {type(self).__name__} of {len(names)} {kinds}")
        return names[index]

    def _refill(self, members: Iterable[Any]) -> None:
        for name, _ in self._named():
            delattr(self, name)
        self.extend(members)

    def __iter__(self) -> Iterator[M]:
        return iter(self._members())

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._slice(index)
        return getattr(self, self._name_at(index))

    def _slice(self, index: slice) -> Self:
        make: Any = type(self)
        return make(self._members()[index])

    def __setitem__(self, index: int, member: New) -> None:
        self._add(self._name_at(index), member)

    def __delitem__(self, index: int | slice) -> None:
        members = self._members()
        del members[index]
        self._refill(members)

    def append(self, member: New) -> Self:
        """Add a member at the end."""
        self._add(str(len(self)), member)
        return self

    def extend(self, members: Iterable[New]) -> Self:
        """Add members at the end."""
        for member in list(members):
            self.append(member)
        return self

    __iadd__ = extend

    def insert(self, index: int, member: New) -> None:
        """Add a member before this position."""
        members = self._members()
        members.insert(index, member)
        self._refill(members)

    def pop(self, index: int) -> M:
        """Take out the member at this position, and return it."""
        member = self[index]
        del self[index]
        return member


class Sequential(_Indexed[Module, Module]):
    """Modules called one after the other: y = f_n(... f_2(f_1(x))). A dict gives them names.

    >>> import minigrad as mg
    >>> import nn
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 1))
    >>> net(mg.zeros(3, 2)).shape
    (3, 1)
    >>> net[:2]
    Sequential(
      (0): Linear(in_features=2, out_features=4, bias=True)
      (1): GELU(approximate='none')
    )
    """

    def __init__(self, *modules: Module | Mapping[str, Module]):
        super().__init__()
        first = modules[0] if len(modules) == 1 else None
        named: Any = first if isinstance(first, Mapping) else {str(i): module for i, module in enumerate(modules)}
        for name, module in named.items():
            self.add_module(name, module)

    def _slice(self, index: slice) -> Self:
        return type(self)(dict(self._own(Module)[index]))

    def __delitem__(self, index: int | slice) -> None:
        named = self._own(Module)
        kept = list(named)
        del kept[index]
        if all(name == str(i) for i, (name, _) in enumerate(named)):
            self._refill(module for _, module in kept)
        else:  # given names stay
            for name in dict(named).keys() - dict(kept).keys():
                delattr(self, name)

    def forward(self, x: Any) -> Tensor:  # or whatever the last module returns
        """f_n(... f_2(f_1(x)))"""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Indexed[Module, Module]):
    """A list of modules, whose parameters the module above lists. It has no forward: loop over it.

    >>> import nn
    >>> nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(modules)

    def _child_lines(self) -> list[str]:
        lines = []
        for text, run in groupby(self._own(Module), key=lambda named: repr(named[1])):
            names = [name for name, _ in run]
            lines.append(f"({names[0]}): {text}" if len(names) == 1
                         else f"({names[0]}-{names[-1]}): {len(names)} x {text}")
        return lines


class _Dict(_Members[M, New], MutableMapping[str, M]):
    """Members by name, as in a dict."""

    def __init__(self, members: Mapping[str, New] | Iterable[tuple[str, New]] = ()):
        super().__init__()
        self.update(dict[str, Any](members))

    def __eq__(self, other: object) -> bool:  # a Mapping equals any other with the same items
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._named()))

    def __getitem__(self, name: str) -> M:
        return dict(self._named())[name]

    def __setitem__(self, name: str, member: Any) -> None:
        self._add(name, member)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self, name)


class ModuleDict(_Dict[Module, Module]):
    """A dict of modules, whose parameters the module above lists. It has no forward.

    >>> import nn
    >>> parts = nn.ModuleDict({"up": nn.Linear(2, 8), "down": nn.Linear(8, 2)})
    >>> list(parts), parts["up"].out_features
    (['up', 'down'], 8)
    """


class _Parameters(_Members[Parameter, Tensor]):
    """Members are parameters; a Tensor becomes one."""

    kind = Parameter

    def _add(self, name: str, member: Tensor) -> None:
        is_plain = isinstance(member, Tensor) and not isinstance(member, Parameter)
        super()._add(name, Parameter(member) if is_plain else member)

    def _child_lines(self) -> list[str]:
        return [f"({name}): Parameter of shape {member.shape}, {member.dtype}" for name, member in self._named()]


class ParameterList(_Parameters, _Indexed[Parameter, Tensor]):
    """A list of parameters, which the module above lists among its own. Tensors become parameters.

    >>> import minigrad as mg
    >>> ParameterList(mg.zeros(n, 3) for n in (1, 2))
    ParameterList(
      (0): Parameter of shape (1, 3), float32
      (1): Parameter of shape (2, 3), float32
    )
    """

    def __init__(self, values: Iterable[Tensor] = ()):
        super().__init__()
        self.extend(values)


class ParameterDict(_Parameters, _Dict[Parameter, Tensor]):
    """A dict of parameters, which the module above lists among its own. Tensors become parameters.

    >>> import minigrad as mg
    >>> gains = ParameterDict({"left": mg.ones(2), "right": mg.ones(3)})
    >>> gains["left"].requires_grad, list(gains.state_dict())
    (True, ['left', 'right'])
    """
