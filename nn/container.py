"""Containers of modules, by index or by name."""
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import groupby
from typing import Any, Self, overload

from minigrad import Tensor
from nn.module import Module


class _Members(Module):
    """Members are the attributes that are modules."""

    def _named(self) -> list[tuple[str, Module]]:
        return self._own(Module)

    def __len__(self) -> int:
        return len(self._named())


class _Indexed(_Members):
    """Members in order, by index or slice. `del` and `insert` renumber those that follow."""

    def _members(self) -> list[Any]:
        return [member for _, member in self._named()]

    def _name_at(self, index: int) -> str:
        names = [name for name, _ in self._named()]
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range for a {type(self).__name__} of {len(names)} modules")
        return names[index]

    def _refill(self, members: Iterable[Any]) -> None:
        for name, _ in self._named():
            delattr(self, name)
        self.extend(members)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._members())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._slice(index)
        return getattr(self, self._name_at(index))

    def _slice(self, index: slice) -> Self:
        make: Any = type(self)
        return make(self._members()[index])

    def __setitem__(self, index: int, member: Module) -> None:
        self.add_module(self._name_at(index), member)

    def __delitem__(self, index: int | slice) -> None:
        members = self._members()
        del members[index]
        self._refill(members)

    def append(self, member: Module) -> Self:
        """Add a member at the end."""
        self.add_module(str(len(self)), member)
        return self

    def extend(self, members: Iterable[Module]) -> Self:
        """Add members at the end."""
        for member in list(members):
            self.append(member)
        return self

    __iadd__ = extend

    def insert(self, index: int, member: Module) -> None:
        """Add a member before this position."""
        members = self._members()
        members.insert(index, member)
        self._refill(members)

    def pop(self, index: int) -> Module:
        """Take out the member at this position, and return it."""
        member = self[index]
        del self[index]
        return member


class Sequential(_Indexed):
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


class ModuleList(_Indexed):
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


class ModuleDict(_Members, MutableMapping[str, Module]):
    """A dict of modules, whose parameters the module above lists. It has no forward.

    >>> import nn
    >>> parts = nn.ModuleDict({"up": nn.Linear(2, 8), "down": nn.Linear(8, 2)})
    >>> list(parts), parts["up"].out_features
    (['up', 'down'], 8)
    """

    def __init__(self, members: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()):
        super().__init__()
        self.update(dict[str, Any](members))

    def __eq__(self, other: object) -> bool:  # a Mapping equals any other with the same items
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._named()))

    def __getitem__(self, name: str) -> Module:
        return dict(self._named())[name]

    def __setitem__(self, name: str, member: Any) -> None:
        self.add_module(name, member)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self, name)
