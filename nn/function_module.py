"""A function of `nn.functional` as a module, with its options as attributes; activations and losses are such modules."""
from collections.abc import Callable

from minigrad import Tensor
from nn.module import Module


class FunctionModule(Module):
    """y = function(*inputs, **options). A subclass names the function, whose docstring it takes over, and the
    options that are Tensors: buffers.

    >>> from nn import functional as F
    >>> class Leaky(FunctionModule, function=F.leaky_relu):
    ...     def __init__(self, negative_slope: float = 0.01):
    ...         super().__init__(negative_slope=negative_slope)
    >>> import minigrad as mg
    >>> Leaky(0.5), Leaky(0.5)(mg.tensor([-2.0, 4.0])).tolist()
    (Leaky(negative_slope=0.5), [-1.0, 4.0])
    """

    function: Callable[..., Tensor]
    tensors: tuple[str, ...] = ()  # names of options that are Tensors or None

    def __init_subclass__(cls, function: Callable[..., Tensor] | None = None, tensors: tuple[str, ...] = ()):
        super().__init_subclass__()
        if function is not None:
            cls.function, cls.tensors = staticmethod(function), tensors
            cls.__doc__ = cls.__doc__ or function.__doc__

    def __init__(self, inplace: bool = False, **options):
        """`inplace` is there for code written for PyTorch, and changes nothing: the result has memory of its own."""
        super().__init__()
        self.names = tuple(options)
        for name, value in options.items():
            if name in self.tensors:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs, **{name: getattr(self, name) for name in self.names})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.names if name not in self.tensors)
