"""Adam (Kingma and Ba, arXiv:1412.6980) and AdamW (Loshchilov and Hutter, arXiv:1711.05101)."""
import math
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minigrad.runner import opaque
from minigrad.kernels.adamw import address, adamw_step, cut_into_blocks, sums_of_squares
from minigrad.kernels.jit import ready
from minigrad.tensor import Tensor
from nn.optim.clip import clip_coefficient
from nn.optim.optimizer import Optimizer

MOMENTS = "exp_avg", "exp_avg_sq", "max_exp_avg_sq"  # what is kept of each element; the last with amsgrad


class Adam(Optimizer):
    """Steps along the mean gradient, divided by its root mean square, element by element; t counts steps from 1.

        g = g + weight_decay p
        m = beta1 m + (1 - beta1) g,    v = beta2 v + (1 - beta2) g²
        p = p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    With amsgrad, the largest v so far takes the place of v in the last line (Reddi et al., arXiv:1904.09237); with
    maximize, -g that of g, before anything is added to it.

    All parameters are updated by one kernel. With `max_grad_norm`, gradients are clipped to that norm on the way, as
    by `clip_grad_norm_` but without changing them, and `grad_norm` holds the norm they had.
    State of a parameter: "step" t, "exp_avg" m, "exp_avg_sq" v, and with amsgrad "max_exp_avg_sq".

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.tensor([1.0, 2.0]))
    >>> (p * p).sum().backward()
    >>> Adam([p], lr=0.5).step()
    >>> p.tolist()
    [0.5, 1.5]
    """

    decoupled_decay = False

    def __init__(self, params: Iterable[Tensor] | Iterable[dict], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
                 amsgrad: bool = False, *, maximize: bool = False, max_grad_norm: float | None = None):
        if max_grad_norm is not None and not max_grad_norm > 0:
            raise ValueError(f"{type(self).__name__}: max_grad_norm must be positive, got {max_grad_norm!r}")
        self.max_grad_norm = max_grad_norm
        self.grad_norm: float | None = None
        self._tables: list[_Table] = []
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize))

    def state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "step", *MOMENTS[: 3 if group["amsgrad"] else 2]

    @opaque
    def step(self) -> None:
        if not all(table.fits(self.param_groups) for table in self._tables):
            self._tables = []
        if not self._tables:
            dtypes = dict.fromkeys(parameter.dtype for parameter in self._parameters())
            self._tables = [_Table(dtype, self.param_groups, self.state) for dtype in dtypes]
        _gradients = [table.collect() for table in self._tables]  # alive while kernels use them
        clip = 1.0
        if self.max_grad_norm is not None:
            self.grad_norm = math.sqrt(sum(table.squared_norm() for table in self._tables))
            clip = clip_coefficient(self.grad_norm, self.max_grad_norm)
        for table in self._tables:
            table.update(self.param_groups, clip, self.decoupled_decay)
        self._note_writes()

    def add_param_group(self, group: dict[str, Any]) -> None:
        super().add_param_group(group)
        self._tables = []  # made anew, with the state so far, at the next step

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._tables = []

    def __getstate__(self) -> dict[str, Any]:  # for copies and pickles: addresses hold in this process, for this object
        return {**self.__dict__, "_tables": []}


class AdamW(Adam):
    """Adam whose weight decay shrinks parameters by itself, and does not pass through the moments; all else is as there.

        p = (1 - lr weight_decay) p
        m = beta1 m + (1 - beta1) g,    v = beta2 v + (1 - beta2) g²
        p = p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    >>> import minigrad as mg
    >>> import nn
    >>> layer = nn.Linear(4, 4)
    >>> optimizer = AdamW([{"params": [layer.weight]}, {"params": [layer.bias], "weight_decay": 0.0}],
    ...                   lr=1e-3, weight_decay=0.1, max_grad_norm=1.0)
    >>> layer(mg.ones(1, 4)).sum().backward()
    >>> optimizer.step()
    >>> round(optimizer.grad_norm, 4)  # four ones in the bias, sixteen in the weight
    4.4721
    """

    decoupled_decay = True

    def __init__(self, params: Iterable[Tensor] | Iterable[dict], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
                 amsgrad: bool = False, *, maximize: bool = False, max_grad_norm: float | None = None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, max_grad_norm=max_grad_norm)


class _Table:
    """All parameters of one dtype as the kernel takes them: addresses, sizes, and moments in one array."""

    def __init__(self, dtype: np.dtype, param_groups: list[dict], state: dict[Tensor, dict]):
        self.amsgrad = [group["amsgrad"] for group in param_groups]
        members = [(parameter, group) for group, options in enumerate(param_groups)
                   for parameter in options["params"] if parameter.dtype == dtype and parameter.numel()]
        self.dtype = dtype
        self.parameters = [parameter for parameter, _ in members]
        self.groups = np.array([group for _, group in members], np.int64)
        sizes = [parameter.numel() for parameter in self.parameters]
        self.blocks = cut_into_blocks(sizes)
        self.sums = np.empty(len(self.blocks))
        self.offsets = np.cumsum([0] + sizes, dtype=np.int64)[:-1]
        self.moments = np.zeros((3 if any(self.amsgrad) else 2, sum(sizes)), dtype)
        self.steps = np.zeros(len(sizes), np.int64)
        self.tiny = 16 * float(np.finfo(dtype).tiny)
        for i, (parameter, size, offset) in enumerate(zip(self.parameters, sizes, self.offsets)):
            moments = self.moments[: 3 if self.amsgrad[self.groups[i]] else 2, offset:offset + size]
            own = {"step": self.steps[i:i + 1].reshape(()),
                   **{name: moment.reshape(parameter.shape) for name, moment in zip(MOMENTS, moments)}}
            before = state.get(parameter, {})
            for name in own.keys() & before.keys():
                own[name][...] = before[name]
            state[parameter] = own  # views: always up to date
        self.arrays: list[np.ndarray | None] = [None] * len(sizes)  # whose addresses these are:
        self.addresses = np.zeros(len(sizes), np.int64)
        self.gradient_arrays: list[Callable] = [lambda: None] * len(sizes)  # weak references, as they are let go early
        self.gradients = np.zeros(len(sizes), np.int64)
        self.copies: dict[int, np.ndarray] = {}  # of parameters that a kernel can't take as they are

    def fits(self, param_groups: list[dict]) -> bool:
        """Does it hold what these groups ask for?"""
        return self.amsgrad == [group["amsgrad"] for group in param_groups]

    def collect(self) -> list[np.ndarray | None]:
        """Look up where parameters and gradients are. Returns the gradients, which must stay alive."""
        arrays = []
        for i, parameter in enumerate(self.parameters):
            if parameter.array is not self.arrays[i]:
                self._take(i, parameter)
            array = parameter.grad_array()
            if array is not self.gradient_arrays[i]() or array is None:
                array = self._take_gradient(i, array)
            arrays.append(array)
        return arrays

    def _take_gradient(self, i: int, array: np.ndarray | None) -> np.ndarray | None:
        if array is None:
            self.gradients[i], self.gradient_arrays[i] = 0, lambda: None  # the same array may come back
            return None
        if array.dtype != self.dtype or array.shape != self.arrays[i].shape:
            raise ValueError(f"gradient of shape {array.shape} and dtype {array.dtype} for a parameter of shape "
                             f"{self.parameters[i].shape} and dtype {self.dtype}")
        array = ready(array)
        self.gradient_arrays[i] = weakref.ref(array)
        self.gradients[i] = address(array)
        return array

    def _take(self, i: int, parameter: Tensor) -> None:
        array = parameter.array
        if array.dtype != self.dtype or self.arrays[i] is not None and array.shape != self.arrays[i].shape:
            raise RuntimeError(f"a parameter has become {array.shape}, {array.dtype} since the optimizer was made for "
                               f"it; make the optimizer after model.to(dtype)")
        self.arrays[i] = array
        self.copies.pop(i, None)
        if ready(array) is not array:
            array = self.copies[i] = ready(array)
        self.addresses[i] = address(array)

    def squared_norm(self) -> float:
        sums_of_squares(self.blocks, self.gradients, self.moments, self.sums)
        return float(self.sums.sum())

    def update(self, param_groups: list[dict], clip: float, decoupled: bool) -> None:
        settings = np.array([(group["lr"], *group["betas"], group["eps"], group["weight_decay"],
                              -1 if group["maximize"] else 1, group["amsgrad"]) for group in param_groups], np.float64)
        self.steps += self.gradients != 0
        for i, copy in self.copies.items():
            copy[...] = self.arrays[i]
        adamw_step(self.blocks, self.offsets, self.addresses, self.gradients, self.steps, self.groups, settings,
                   self.moments, clip, decoupled, self.tiny)
        for i, copy in self.copies.items():
            self.arrays[i][...] = copy
