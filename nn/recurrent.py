"""Recurrent networks, which compute each state from an input and the previous state."""
import math
from typing import Any

import minigrad as mg
from minigrad import Tensor
from nn import init
from nn.checks import one_of, positive_int, probability
from nn.functional import dropout as drop, linear
from nn.module import Module, Parameter


class Recurrent(Module):
    """What recurrent networks share: layers and directions. A subclass has a `cell`, which computes one step.

    Each layer takes the states h of the one below, in training with dropout; with bidirectional=True a second network
    reads from the end, and the states of both are concatenated. Arguments, defaults and parameters (weight_ih_l0,
    weight_hh_l0_reverse, ...) are PyTorch's; parameters start uniform in ±1/sqrt(hidden_size).

    x (T, B, input_size), or with batch_first (B, T, input_size), or unbatched (T, input_size) -> the states of the last
    layer in the same form, H or 2H wide, and the last state of each layer and direction, (layers * directions, B, H),
    without B if unbatched. Initial states have that shape, too, and are zero by default. Where `padding`, booleans in
    the form of x without its last axis, is True, x is skipped: the states stay what they were.
    """

    gates = 1  # a unit's rows in each weight
    state_names: tuple[str, ...] = ("h_0",)

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None):
        super().__init__()
        name = type(self).__name__
        self.input_size: int = positive_int(name, "input_size", input_size)
        self.hidden_size: int = positive_int(name, "hidden_size", hidden_size)
        self.num_layers: int = positive_int(name, "num_layers", num_layers)
        self.dropout: float = probability(name, "dropout", dropout)
        self.batch_first = batch_first
        self.directions: tuple[str, ...] = ("", "_reverse") if bidirectional else ("",)
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self.directions)
            for direction in self.directions:
                for part, shape in (("weight_ih", (rows, width)), ("weight_hh", (rows, hidden_size)),
                                    ("bias_ih", (rows,)), ("bias_hh", (rows,))):
                    is_there = bias or "weight" in part
                    parameter = Parameter(mg.zeros(*shape, device=device, dtype=dtype)) if is_there else None
                    self.register_parameter(f"{part}_l{layer}{direction}", parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for parameter in self.parameters():
            init.uniform_(parameter, -1 / math.sqrt(self.hidden_size), 1 / math.sqrt(self.hidden_size))

    def flatten_parameters(self) -> None:
        """Change nothing: PyTorch moves the parameters together in a GPU's memory."""

    def cell(self, from_x: Tensor, from_h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The next state, from x_t W_ihᵀ + b_ih and h_{t-1} W_hhᵀ + b_hh, both (B, gates * H); a state begins with h."""
        raise NotImplementedError(f"{type(self).__name__} has no cell(): define it in the class")

    def read(self, x: Tensor, initial: tuple[Tensor, ...] | None, padding: Tensor | None = None
             ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states h of the last layer, and each part of the last states."""
        name = type(self).__name__
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            form = "(B, T, {0})" if self.batch_first else "(T, B, {0})"
            raise ValueError(f"{name}: expected x of shape {form} or (T, {{0}}), got {x.shape}".format(self.input_size))
        time = self._time_axis(x)
        if x.shape[time] == 0:
            raise ValueError(f"{name}: expected at least one time step, got x of shape {x.shape}")
        if padding is not None and (padding.shape != x.shape[:-1] or padding.dtype != bool):
            raise ValueError(f"{name}: expected padding of booleans {x.shape[:-1]}, got {padding.dtype} {padding.shape}")
        count = self.num_layers * len(self.directions)
        shape = (count, *x.shape[:time], *x.shape[time + 1 : -1], self.hidden_size)
        initial = initial or (mg.zeros(shape, dtype=x.dtype),) * len(self.state_names)
        for part, value in zip(self.state_names, initial, strict=True):
            if value.shape != shape:
                raise ValueError(f"{name}: expected {part} of shape {shape}, got {value.shape}")
        last: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            x = x if layer == 0 else drop(x, self.dropout, self.training)
            both = []
            for direction in self.directions:
                states = self._run(x, f"_l{layer}{direction}", tuple(part[len(last)] for part in initial), padding)
                both.append(mg.stack([h for h, *_ in (states[::-1] if direction else states)], dim=time))
                last.append(states[-1])
            x = both[0] if len(both) == 1 else mg.cat(both, dim=-1)
        return x, tuple(mg.stack(part) for part in zip(*last))

    def _time_axis(self, x: Tensor) -> int:
        return 1 if self.batch_first and x.ndim == 3 else 0

    def _run(self, x: Tensor, name: str, state: tuple[Tensor, ...], padding: Tensor | None) -> list[tuple[Tensor, ...]]:
        """The states, whose parts are (B, H), in the order of their computation."""
        w_ih, w_hh, b_ih, b_hh = (getattr(self, part + name) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        inputs, time = linear(x, w_ih, b_ih), self._time_axis(x)  # of all times at once
        states, times = [], range(x.shape[time])
        for t in reversed(times) if name.endswith("_reverse") else times:
            before, state = state, self.cell(inputs.select(time, t), linear(state[0], w_hh, b_hh), state)
            if padding is not None:
                state = tuple(mg.where(padding.select(time, t)[..., None], *parts) for parts in zip(before, state))
            states.append(state)
        return states

    def extra_repr(self) -> str:
        return (f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, batch_first={self.batch_first}, "
                f"bidirectional={len(self.directions) > 1}")


class RNN(Recurrent):
    """An Elman network of one or more layers, in one direction along the time axis or in both.

        h_t = tanh(x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh)

    or relu instead of tanh. Layers, shapes and parameters are those of `Recurrent` and torch.nn.RNN.

    >>> states, last = RNN(3, 4, num_layers=2, bidirectional=True)(mg.zeros(7, 5, 3))
    >>> states.shape, last.shape
    ((7, 5, 8), (4, 5, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        self.nonlinearity: str = one_of("RNN", "nonlinearity", nonlinearity, ("tanh", "relu"))

    def cell(self, from_x: Tensor, from_h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        z = from_x + from_h
        return (z.tanh() if self.nonlinearity == "tanh" else z.relu(),)

    def forward(self, x: Tensor, h_0: Tensor | None = None, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The states of the last layer, and the last state of each layer and direction."""
        states, (h,) = self.read(x, None if h_0 is None else (h_0,), padding)
        return states, h

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, nonlinearity={self.nonlinearity!r}"


class GRU(Recurrent):
    """Gated recurrent units (Cho et al., arXiv:1406.1078): gate z keeps the old state, gate r hides it from the new one.

        r = sigmoid(a_r + b_r),  z = sigmoid(a_z + b_z),  n = tanh(a_n + r * b_n),  h_t = (1 - z) * n + z * h_{t-1}

    where a = x_t W_ihᵀ + b_ih and b = h_{t-1} W_hhᵀ + b_hh consist of the thirds r, z and n, in this order. Layers, shapes
    and parameters are those of `Recurrent` and torch.nn.GRU.

    >>> states, last = GRU(3, 4, batch_first=True)(mg.zeros(5, 7, 3))
    >>> states.shape, last.shape
    ((5, 7, 4), (1, 5, 4))
    """

    gates = 3

    def cell(self, from_x: Tensor, from_h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (a_r, a_z, a_n), (b_r, b_z, b_n) = from_x.chunk(3, -1), from_h.chunk(3, -1)
        r, z = (a_r + b_r).sigmoid(), (a_z + b_z).sigmoid()
        n = (a_n + r * b_n).tanh()
        return ((1 - z) * n + z * state[0],)

    def forward(self, x: Tensor, h_0: Tensor | None = None, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The states of the last layer, and the last state of each layer and direction."""
        states, (h,) = self.read(x, None if h_0 is None else (h_0,), padding)
        return states, h


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997): c is a memory to which gates add and from which they read.

        c_t = sigmoid(f) * c_{t-1} + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(c_t)

    where i, f, g and o are, in this order, the quarters of x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh. As c_t is a sum, its
    gradient reaches early times without passing through weights. Layers, shapes and parameters are those of
    `Recurrent` and torch.nn.LSTM without proj_size; the initial and the last states are pairs (h, c).

    >>> states, (h, c) = LSTM(3, 4)(mg.zeros(7, 5, 3))
    >>> states.shape, h.shape, c.shape
    ((7, 5, 4), (1, 5, 4), (1, 5, 4))
    """

    gates = 4
    state_names: tuple[str, ...] = ("h_0", "c_0")

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None,
                 dtype: Any = None):
        if proj_size:
            raise ValueError(f"LSTM: proj_size is left out, got {proj_size}; apply nn.Linear to the states")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def cell(self, from_x: Tensor, from_h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        i, f, g, o = (from_x + from_h).chunk(4, -1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None, padding: Tensor | None = None
                ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The states h of the last layer, and the last (h, c) of each layer and direction; hx is the first (h, c)."""
        if hx is not None and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise TypeError(f"LSTM: expected hx to be a pair (h_0, c_0), got {type(hx).__name__}")
        states, (h, c) = self.read(x, hx, padding)
        return states, (h, c)
