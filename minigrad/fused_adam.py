"""The step of Adam and AdamW, of all parameters of an optimiser at once: see `nn.optim.Adam.update` for the formula."""
import weakref
from typing import Callable

import numpy as np

from .kernels.adamw import adamw_step, cut_into_blocks, sums_of_squares
from .kernels.jit import address, ready
from .tensor import Tensor
from .versions import note_write

MOMENTS = "exp_avg", "exp_avg_sq", "max_exp_avg_sq"  # what is kept of each element; the last with amsgrad


class FusedAdam:
    """All parameters of one dtype as the kernel takes them: addresses, sizes, and moments in one array.

    `state` becomes views of these moments, which are always up to date. A step is collect(), perhaps squared_norm(), then
    update().
    """

    def __init__(self, dtype: np.dtype, param_groups: list[dict], state: dict[Tensor, dict]):
        members = [(parameter, group) for group, options in enumerate(param_groups)
                   for parameter in options["params"] if parameter.dtype == dtype and parameter.numel()]
        self.dtype = dtype
        self.parameters = [parameter for parameter, _ in members]
        self.groups = np.array([group for _, group in members], np.int64)
        sizes = [parameter.numel() for parameter in self.parameters]
        self.blocks = cut_into_blocks(sizes)
        self.sums = np.empty(len(self.blocks))
        self.offsets = np.cumsum([0] + sizes, dtype=np.int64)[:-1]
        self.amsgrad = [group["amsgrad"] for group in param_groups]
        self.moments = np.zeros((3 if any(self.amsgrad) else 2, sum(sizes)), dtype)
        self.steps = np.zeros(len(sizes), np.int64)
        self.tiny = 16 * float(np.finfo(dtype).tiny)
        for i, (parameter, size, offset) in enumerate(zip(self.parameters, sizes, self.offsets)):
            moments = self.moments[: 3 if self.amsgrad[self.groups[i]] else 2, offset : offset + size]
            own = {"step": self.steps[i : i + 1].reshape(()),
                   **{name: moment.reshape(parameter.shape) for name, moment in zip(MOMENTS, moments)}}
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

    def fits(self, param_groups: list[dict]) -> bool:
        """Does it hold these groups, with the moments that they ask for?"""
        return self.amsgrad == [group["amsgrad"] for group in param_groups]

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

    def update(self, param_groups: list[dict], clip: float, decoupled_decay: bool) -> None:
        """Step with the groups' options and the gradients times `clip`; then let the gradients go."""
        settings = np.array([(group["lr"], *group["betas"], group["eps"], group["weight_decay"],
                              -1 if group["maximize"] else 1, group["amsgrad"]) for group in param_groups], np.float64)
        self.steps += self.gradients != 0
        for i, copy in self.copies.items():
            copy[...] = self.arrays[i]
        adamw_step(self.blocks, self.offsets, self.addresses, self.gradients, self.steps, self.groups, settings,
                   self.moments, clip, decoupled_decay, self.tiny)
        for i, copy in self.copies.items():
            self.arrays[i][...] = copy
        for array, gradient in zip(self.arrays, self.held):
            if gradient is not None:
                note_write(array)
        self.held = []
