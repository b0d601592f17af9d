"""A function of `nn.functional` as a module, with its options as attributes: activations and losses are made so."""
from collections.abc import Callable

from minigrad.tensor import Tensor
from nn.module import Module


class FunctionModule(Module):
    """y = function(*inputs, **options). A subclass names the function, and which options are Tensors: buffers.

    >>> import minigrad as mg
    >>> import nn
    >>> nn.LeakyReLU(0.5), nn.LeakyReLU(0.5)(mg.tensor([-2.0, 4.0])).tolist()
    (LeakyReLU(negative_slope=0.5), [-1.0, 4.0])
    """

    function: Callable[..., Tensor]
    tensors: tuple[str, ...] = ()  # names of options that are Tensors or None

    def __init__(self, **options):
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
