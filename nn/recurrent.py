"""Recurrent networks, which compute each state from an input and the previous state."""
import math

import minigrad as mg
from minigrad import Tensor
from nn import init
from nn.checks import one_of, positive_int, probability
from nn.functional import dropout as drop, linear
from nn.module import Module, Parameter


class RNN(Module):
    """An Elman network of one or more layers, in one direction along the time axis or in both.

        h_t = tanh(x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh)

    or relu instead of tanh. Each layer takes the states of the one below, in training with dropout; with bidirectional=True
    a second network reads from the end, and the states of both are concatenated. Arguments, defaults and parameters
    (weight_ih_l0, weight_hh_l0_reverse, ...) are torch.nn.RNN's; parameters start uniform in ±1/sqrt(hidden_size).

    x (T, B, input_size), or with batch_first (B, T, input_size), or unbatched (T, input_size) -> the states of the last
    layer in the same form, H or 2H wide, and the last state of each layer and direction, (layers * directions, B, H),
    without B if unbatched. h_0, the initial states, has that shape, too, and is zero by default.

    >>> states, last = RNN(3, 4, num_layers=2, bidirectional=True)(mg.zeros(7, 5, 3))
    >>> states.shape, last.shape
    ((7, 5, 8), (4, 5, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False):
        super().__init__()
        self.nonlinearity: str = one_of("RNN", "nonlinearity", nonlinearity, ("tanh", "relu"))
        self.input_size: int = positive_int("RNN", "input_size", input_size)
        self.hidden_size: int = positive_int("RNN", "hidden_size", hidden_size)
        self.num_layers: int = positive_int("RNN", "num_layers", num_layers)
        self.dropout: float = probability("RNN", "dropout", dropout)
        self.batch_first = batch_first
        self.directions: tuple[str, ...] = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self.directions)
            for direction in self.directions:
                for name, shape in (("weight_ih", (hidden_size, width)), ("weight_hh", (hidden_size, hidden_size)),
                                    ("bias_ih", (hidden_size,)), ("bias_hh", (hidden_size,))):
                    parameter = Parameter(mg.zeros(*shape)) if bias or "weight" in name else None
                    self.register_parameter(f"{name}_l{layer}{direction}", parameter)
        for parameter in self.parameters():
            init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def forward(self, x: Tensor, h_0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            form = "(B, T, {0})" if self.batch_first else "(T, B, {0})"
            raise ValueError(f"RNN: expected x of shape {form} or (T, {{0}}), got {x.shape}".format(self.input_size))
        time = self._time_axis(x)
        count = self.num_layers * len(self.directions)
        state_shape = (count, *x.shape[:time], *x.shape[time + 1 : -1], self.hidden_size)
        if h_0 is not None and h_0.shape != state_shape:
            raise ValueError(f"RNN: expected h_0 of shape {state_shape}, got {h_0.shape}")
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            x = x if layer == 0 else drop(x, self.dropout, self.training)
            both = []
            for direction in self.directions:
                first = None if h_0 is None else h_0[len(last)]
                states = self._run(x, f"_l{layer}{direction}", first)
                both.append(mg.stack(states[::-1] if direction else states, dim=time))
                last.append(states[-1])
            x = both[0] if len(both) == 1 else mg.cat(both, dim=-1)
        return x, mg.stack(last)

    def _time_axis(self, x: Tensor) -> int:
        return 1 if self.batch_first and x.ndim == 3 else 0

    def _run(self, x: Tensor, name: str, h: Tensor | None) -> list[Tensor]:
        """The states (B, H) in the order of their computation."""
        w_ih, w_hh, b_ih, b_hh = (getattr(self, part + name) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        inputs, time = linear(x, w_ih, b_ih), self._time_axis(x)  # of all times at once
        states, times = [], range(x.shape[time])
        for t in reversed(times) if name.endswith("_reverse") else times:
            z, before = inputs.select(time, t), b_hh if h is None else linear(h, w_hh, b_hh)
            z = z if before is None else z + before
            h = z.tanh() if self.nonlinearity == "tanh" else z.relu()
            states.append(h)
        return states

    def extra_repr(self) -> str:
        return (f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, nonlinearity={self.nonlinearity!r}, "
                f"batch_first={self.batch_first}, bidirectional={len(self.directions) > 1}")
