"""A function of `nn.functional` as a module, with its options as attributes: activations and losses are such modules."""
import inspect
from collections.abc import Callable
from typing import Any, dataclass_transform

from minigrad import Tensor
from nn.module import Module


@dataclass_transform(eq_default=False)
class FunctionModule(Module):
    """A function as a module, y = function(*inputs, **options): `nn.LeakyReLU(0.1)(x)` is `F.leaky_relu(x, 0.1)`, which
    has the formula. A subclass names the function and takes over its docstring; it repeats the first line, for editors.

    The function's inputs are the arguments annotated `Tensor`. All others are options, in the module's constructor as in
    the function; those annotated `Tensor | None` become buffers. Editors and type checkers know the options that the
    subclass declares, as those of a dataclass.

    >>> import minigrad as mg
    >>> def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
    ...     return x * factor
    >>> class Scaled(FunctionModule, function=scaled):
    ...     factor: float = 2.0
    >>> Scaled(0.5), Scaled(0.5)(mg.tensor([-2.0, 4.0])).tolist()
    (Scaled(factor=0.5), [-1.0, 2.0])
    """

    function: Callable[..., Tensor]
    __signature__: inspect.Signature

    def __init_subclass__(cls, function: Callable[..., Tensor] | None = None) -> None:
        super().__init_subclass__()
        if function is not None:
            cls.function = staticmethod(function)
            cls.__doc__ = function.__doc__ or cls.__doc__
            parameters = inspect.signature(function).parameters.values()
            cls.__signature__ = inspect.Signature([p for p in parameters if p.annotation is not Tensor])

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        self.names: tuple[str, ...] = tuple(bound.arguments)
        for name, value in bound.arguments.items():
            if self.__signature__.parameters[name].annotation == (Tensor | None):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The function of the inputs."""
        return self.function(*inputs, **{name: getattr(self, name) for name in self.names})

    def extra_repr(self) -> str:
        shown = [name for name in self.names if name != "inplace" and name not in self._buffers]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
