"""Recurrent networks: each state is computed from an input and the previous state."""
import math

import minigrad as mg
from minigrad import Tensor
from nn import init
from nn.checks import positive_int
from nn.functional import linear
from nn.module import Module, Parameter


class RNN(Module):
    """An Elman network of one or more layers, in one direction along the time axis or in both.

        h_t = tanh(x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh)

    Each layer takes the states of the one below; with bidirectional=True a second network reads from the end, and the
    states of both are concatenated. Parameters have torch.nn.RNN's names (weight_ih_l0, weight_hh_l0_reverse, ...), and
    start uniform in ±1/sqrt(hidden_size). x (B, T, input_size) -> the states of the last layer (B, T, H or 2H), and the
    last state of each layer and direction (layers * directions, B, H). The batch always comes first: `batch_first` is
    there for code written for PyTorch, whose default is False, and False is refused.

    >>> import nn
    >>> states, last = nn.RNN(3, 4, num_layers=2, bidirectional=True)(mg.zeros(5, 7, 3))
    >>> states.shape, last.shape
    ((5, 7, 8), (4, 5, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bidirectional: bool = False,
                 batch_first: bool = True):
        super().__init__()
        if not batch_first:
            raise ValueError("RNN: batch_first=False, inputs (T, B, C), is not there; give (B, T, C), by x.transpose(0, 1)")
        self.input_size = positive_int("RNN", "input_size", input_size)
        self.hidden_size = positive_int("RNN", "hidden_size", hidden_size)
        self.num_layers = positive_int("RNN", "num_layers", num_layers)
        self.directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self.directions)
            for direction in self.directions:
                for name, shape in (("weight_ih", (hidden_size, width)), ("weight_hh", (hidden_size, hidden_size)),
                                    ("bias_ih", (hidden_size,)), ("bias_hh", (hidden_size,))):
                    self.register_parameter(f"{name}_l{layer}{direction}", Parameter(mg.zeros(*shape)))
        for parameter in self.parameters():
            init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def forward(self, x: Tensor, h_0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if x.ndim != 3 or x.shape[2] != self.input_size:
            raise ValueError(f"RNN: expected x of shape (B, T, {self.input_size}), got {x.shape}")
        count = self.num_layers * len(self.directions)
        if h_0 is not None and h_0.shape != (count, x.shape[0], self.hidden_size):
            raise ValueError(f"RNN: expected h_0 of shape {(count, x.shape[0], self.hidden_size)}, got {h_0.shape}")
        last = []
        for layer in range(self.num_layers):
            both = []
            for direction in self.directions:
                first = None if h_0 is None else h_0[len(last)]
                states = self._run(x, f"_l{layer}{direction}", first)
                both.append(mg.stack(states[::-1] if direction else states, dim=1))
                last.append(states[-1])
            x = both[0] if len(both) == 1 else mg.cat(both, dim=-1)
        return x, mg.stack(last)

    def _run(self, x: Tensor, name: str, h: Tensor | None) -> list[Tensor]:
        """The states (B, H) in the order in which they are computed."""
        w_ih, w_hh, b_ih, b_hh = (getattr(self, part + name) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        inputs = linear(x, w_ih, b_ih)  # for all times at once
        states, times = [], range(x.shape[1])
        for t in reversed(times) if name.endswith("_reverse") else times:
            before = b_hh if h is None else linear(h, w_hh, b_hh)
            h = (inputs[:, t] + before).tanh()
            states.append(h)
        return states

    def extra_repr(self) -> str:
        is_bidirectional = len(self.directions) > 1
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, bidirectional={is_bidirectional}"
