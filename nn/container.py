"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from nn.module import Module


class _IndexedModules(Module):
    """Child modules in order, found by index or slice. `del` and `insert` number those that follow anew."""

    def _children(self) -> list[Module]:
        return [module for _, module in self._own(Module)]

    def _name_at(self, index: int) -> str:
        names = [name for name, _ in self._own(Module)]
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range for a {type(self).__name__} of {len(names)} modules")
        return names[index]

    def _refill(self, modules: Iterable[Module]) -> None:
        for name, _ in self._own(Module):
            delattr(self, name)
        self.extend(modules)

    def __len__(self) -> int:
        return len(self._own(Module))

    def __iter__(self) -> Iterator[Module]:
        return iter(self._children())

    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return self._slice(index)
        return getattr(self, self._name_at(index))

    def _slice(self, index: slice) -> Module:
        return type(self)(self._children()[index])

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._children()
        del modules[index]
        self._refill(modules)

    def append(self, module: Module) -> "Module":
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> "Module":
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        modules = self._children()
        modules.insert(index, module)
        self._refill(modules)


class Sequential(_IndexedModules):
    """Modules called one after the other: y = f_n(... f_2(f_1(x))). An (Ordered)Dict gives them names.

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
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = modules[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)

    def _slice(self, index: slice) -> "Sequential":
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

    def forward(self, x):
        for module in self:
            x = module(x)
        return x


class ModuleList(_IndexedModules):
    """A list of modules, whose parameters are listed. It has no forward: loop over it.

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


class ModuleDict(Module):
    """A dict of modules, whose parameters are listed. It has no forward.

    >>> import nn
    >>> parts = nn.ModuleDict({"up": nn.Linear(2, 8), "down": nn.Linear(8, 2)})
    >>> list(parts), parts["up"].out_features
    (['up', 'down'], 8)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()):
        super().__init__()
        self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def __len__(self) -> int:
        return len(self._own(Module))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Module:
        return dict(self._own(Module))[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self, name)

    def keys(self):
        return dict(self._own(Module)).keys()

    def values(self):
        return dict(self._own(Module)).values()

    def items(self):
        return dict(self._own(Module)).items()
