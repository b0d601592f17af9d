"""The steps of optimisers over all their parameters at once: see `nn.optim.Adam.update` and `nn.optim.Muon.update` for the
formulas."""
import weakref
from typing import Callable, Sequence

import numpy as np

from .kernels.adamw import adamw_step, cut_into_blocks, sums_of_squares
from .kernels.gemm import matmul
from .kernels.jit import address, ready
from .tensor import Tensor
from .versions import note_write

COUNTER = "step"  # the name of a number in a parameter's state; all others are of moments


class FusedStep:
    """All parameters of one dtype as a kernel takes them: addresses, sizes, and moments in one array.

    `names` has the names in a parameter's state, by group. `state` becomes views of the moments, which are always up to
    date. A step is collect(), perhaps squared_norm(), then update().
    """

    def __init__(self, dtype: np.dtype, param_groups: list[dict], state: dict[Tensor, dict],
                 names: list[tuple[str, ...]]):
        members = [(parameter, group) for group, options in enumerate(param_groups)
                   for parameter in options["params"] if parameter.dtype == dtype and parameter.numel()]
        self.dtype, self.state, self.names = dtype, state, names
        self.parameters = [parameter for parameter, _ in members]
        self.groups = np.array([group for _, group in members], np.int64)
        sizes = [parameter.numel() for parameter in self.parameters]
        self.blocks = cut_into_blocks(sizes)
        self.sums = np.empty(len(self.blocks))
        self.offsets = np.cumsum([0] + sizes, dtype=np.int64)[:-1]
        of_moments = [[name for name in own if name != COUNTER] for own in names]
        self.moments = np.zeros((max(map(len, of_moments)), sum(sizes)), dtype)
        self.steps = np.zeros(len(sizes), np.int64)
        for i, (parameter, size, offset) in enumerate(zip(self.parameters, sizes, self.offsets)):
            group = self.groups[i]
            own = {COUNTER: self.steps[i : i + 1].reshape(())} if COUNTER in names[group] else {}
            for name, moment in zip(of_moments[group], self.moments):
                own[name] = moment[offset : offset + size].reshape(parameter.shape)
            before = state.get(parameter, {})
            for name in own.keys() & before.keys():
                own[name][...] = before[name]
            state[parameter] = own
        self.arrays: list[np.ndarray | None] = [None] * len(sizes)  # whose addresses these are:
        self.addresses = np.zeros(len(sizes), np.int64)
        self.gradient_arrays: list[Callable] = [lambda: None] * len(sizes)  # weak references, as they are freed early
        self.gradients = np.zeros(len(sizes), np.int64)
        self.held: list[np.ndarray | None] = []  # the gradients, from collect() to update()
        self.copies: dict[int, np.ndarray] = {}  # of parameters that a kernel can't take as they are

    def fits(self, state: dict[Tensor, dict], names: list[tuple[str, ...]]) -> bool:
        """Does it hold this state, of such groups?"""
        return self.state is state and self.names == names

    def collect(self) -> None:
        """Look up where parameters and gradients are now."""
        for i, parameter in enumerate(self.parameters):
            if parameter.array is not self.arrays[i]:
                self._take(i, parameter)
        self.held = [self._gradient(i, parameter.grad_array()) for i, parameter in enumerate(self.parameters)]

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

    def _gradient(self, i: int, array: np.ndarray | None) -> np.ndarray | None:
        """The gradient as the kernel takes it; its address is noted if it is another than the last time."""
        if array is None:
            self.gradients[i], self.gradient_arrays[i] = 0, lambda: None  # the same array may come back
            return None
        if array is self.gradient_arrays[i]():
            return array
        if array.dtype != self.dtype or array.shape != self.arrays[i].shape:
            raise ValueError(f"gradient of shape {array.shape} and dtype {array.dtype} for a parameter of shape "
                             f"{self.parameters[i].shape} and dtype {self.dtype}")
        array = ready(array)
        self.gradient_arrays[i] = weakref.ref(array)
        self.gradients[i] = address(array)
        return array

    def squared_norm(self) -> float:
        """The sum of the squares of all gradients."""
        sums_of_squares(self.blocks, self.gradients, self.moments, self.sums)
        return float(self.sums.sum())

    def update(self, param_groups: list[dict], clip: float) -> None:
        """Step with the groups' options and the gradients times `clip`; then let the gradients go."""
        self.steps += self.gradients != 0
        for i, copy in self.copies.items():
            copy[...] = self.arrays[i]
        self._launch(param_groups, clip)
        for i, copy in self.copies.items():
            self.arrays[i][...] = copy
        for array, gradient in zip(self.arrays, self.held):
            if gradient is not None:
                note_write(array)
        self.held = []

    def _launch(self, param_groups: list[dict], clip: float) -> None:
        """Run the kernel."""
        raise NotImplementedError


class FusedAdam(FusedStep):
    """Of Adam, or with `decoupled_decay` of AdamW."""

    def __init__(self, *arguments, decoupled_decay: bool):
        super().__init__(*arguments)
        self.decoupled_decay = decoupled_decay
        self.tiny = 16 * float(np.finfo(self.dtype).tiny)

    def _launch(self, param_groups: list[dict], clip: float) -> None:
        settings = np.array([(group["lr"], *group["betas"], group["eps"], group["weight_decay"],
                              -1 if group["maximize"] else 1, group["amsgrad"]) for group in param_groups], np.float64)
        adamw_step(self.blocks, self.offsets, self.addresses, self.gradients, self.steps, self.groups, settings,
                   self.moments, clip, self.decoupled_decay, self.tiny)


class FusedMuon(FusedStep):
    """Of Muon: `polynomials_of(group)` gives (a, b, c) of each step of the iteration, and `scale_of(group, shape)` the step
    of a matrix in multiples of lr."""

    def __init__(self, dtype: np.dtype, param_groups: list[dict], state: dict[Tensor, dict], names: list[tuple[str, ...]],
                 polynomials_of: Callable, scale_of: Callable):
        super().__init__(dtype, param_groups, state, names)
        self.polynomials_of, self.scale_of = polynomials_of, scale_of

    def _launch(self, param_groups: list[dict], clip: float) -> None:
        for i, (gradient, number) in enumerate(zip(self.held, self.groups)):
            if gradient is not None:
                self._step(i, gradient, param_groups[number], clip)

    def _step(self, i: int, gradient: np.ndarray, group: dict, clip: float) -> None:
        p = self.copies.get(i, self.arrays[i])
        m = self.moments[0, self.offsets[i] : self.offsets[i] + p.size].reshape(p.shape)
        momentum = group["momentum"]
        fresh = (1 - momentum) * clip * gradient
        m *= momentum
        m += fresh
        x = fresh + momentum * m if group["nesterov"] else m
        p *= 1 - group["lr"] * group["weight_decay"]
        for part, direction in zip(np.split(p, group["blocks"]), np.split(x, group["blocks"])):
            step_size = group["lr"] * self.scale_of(group, part.shape)
            part -= step_size * _orthogonalised(direction, self.polynomials_of(group), group["eps"])


def _orthogonalised(x: np.ndarray, polynomials: Sequence[tuple], eps: float) -> np.ndarray:
    if x.shape[0] > x.shape[1]:
        return _orthogonalised(x.T, polynomials, eps).T
    x = x / x.dtype.type(max(np.linalg.norm(x.astype(np.float64)), eps) or 1.0)
    for a, b, c in polynomials:
        gram = matmul(x, x.T)
        x = a * x + matmul(b * gram + c * matmul(gram, gram), x)
    return x
