"""Optimizer steps on all parameters at once; `nn.optim.Adam.update` and `nn.optim.Muon.update` have the formulas."""
import weakref
from typing import Callable, Sequence

import numba
import numpy as np

from ..arrays.versions import note_write
from ..per_thread import this_thread
from ..tensor import Tensor
from .kernels import bfloat16
from .kernels.adamw import adamw_step, cut_into_blocks, sums_of_squares
from .kernels.buffers import workspace
from .kernels.gemm import gemm_workspaces
from .kernels.jit import address, ready
from .kernels.muon import muon_step, work, workspace_size

COUNTER = "step"  # the one number in a parameter's state; everything else is a moment


class MultiTensorStep:
    """All parameters of one dtype in the form that a kernel takes: addresses, sizes, and the moments in one array.

    `names` lists what a parameter's state holds, for each group. `state` becomes views of the moments, which are always
    current. A step is collect(), then squared_norm() if the gradients are clipped, then update().
    """

    def __init__(self, dtype: np.dtype, param_groups: list[dict], state: dict[Tensor, dict],
                 names: list[tuple[str, ...]]):
        members = [(parameter, group) for group, options in enumerate(param_groups)
                   for parameter in options["params"] if parameter.dtype == dtype and parameter.numel()]
        self.dtype = dtype
        self.tiny = 16 * float(np.finfo(dtype).tiny)  # smaller moments become 0
        self.parameters = [parameter for parameter, _ in members]
        sizes = [parameter.numel() for parameter in self.parameters]
        self.table = np.zeros((5, len(sizes)), np.int64)  # what kernels know about each parameter
        self.groups, self.offsets, self.steps, self.addresses, self.gradients = self.table
        self.groups[...] = [group for _, group in members]
        self.offsets[1:] = np.cumsum(sizes)[:-1]
        self.blocks = cut_into_blocks(sizes)
        self.sums = np.empty(len(self.blocks))
        of_moments = [[name for name in own if name != COUNTER] for own in names]
        self.moments = np.zeros((max(map(len, of_moments)), sum(sizes)), dtype)
        for i, (parameter, size, offset) in enumerate(zip(self.parameters, sizes, self.offsets)):
            group = self.groups[i]
            own = {COUNTER: self.steps[i : i + 1].reshape(())} if COUNTER in names[group] else {}
            for name, moment in zip(of_moments[group], self.moments):
                own[name] = moment[offset : offset + size].reshape(parameter.shape)
            before = state.get(parameter, {})
            for name in own.keys() & before.keys():
                own[name][...] = before[name]
            state[parameter] = own
        self.arrays: list[np.ndarray | None] = [None] * len(sizes)  # whose addresses these are
        self.gradient_arrays: list[Callable] = [lambda: None] * len(sizes)  # weak references: gradients are freed early
        self.held: list[np.ndarray | None] = []  # the gradients, from collect() to update()
        self.copies: dict[int, np.ndarray] = {}  # of parameters that a kernel can't take as they are

    def collect(self) -> None:
        """Look up where parameters and gradients are in memory now."""
        for i, parameter in enumerate(self.parameters):
            if parameter.array is not self.arrays[i]:
                self._take(i, parameter)
        self.held = [parameter.grad_array() for parameter in self.parameters]
        for i, (array, known) in enumerate(zip(self.held, self.gradient_arrays)):
            if array is None or array is not known():
                self.held[i] = self._gradient(i, array)

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
        """A gradient that was not there last time, in the form that the kernel takes; its address is noted."""
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

    def squared_norm(self) -> float:
        """The sum of the squares of all gradients."""
        sums_of_squares(self.blocks, self.gradients, self.moments, self.sums)
        return float(self.sums.sum())

    def update(self, param_groups: list[dict], clip: float) -> None:
        """Step with the groups' options and the gradients times `clip`; then drop the references to the gradients."""
        self.steps += self.gradients != 0
        for i, copy in self.copies.items():
            copy[...] = self.arrays[i]
        self._launch(param_groups, clip)
        for i, copy in self.copies.items():
            self.arrays[i][...] = copy
        note_write(*[array for array, gradient in zip(self.arrays, self.held) if gradient is not None])
        self.held = []

    def _launch(self, param_groups: list[dict], clip: float) -> None:
        """Run the kernel."""
        raise NotImplementedError


class MultiTensorAdam(MultiTensorStep):
    """Adam, or AdamW with `decoupled_decay`."""

    def __init__(self, *arguments, decoupled_decay: bool):
        super().__init__(*arguments)
        self.decoupled_decay = decoupled_decay

    def _launch(self, param_groups: list[dict], clip: float) -> None:
        settings = np.array([(group["lr"], *group["betas"], group["eps"], group["weight_decay"],
                              -1 if group["maximize"] else 1, group["amsgrad"]) for group in param_groups], np.float64)
        adamw_step(self.blocks, self.table, settings, self.moments, clip, self.decoupled_decay, self.tiny)


class MultiTensorMuon(MultiTensorStep):
    """Muon: `blocks_of(group)` says into how many blocks matrices are cut, down and across; `polynomials_of(group)` gives
    (a, b, c) for each step of the iteration; `scale_of(group, shape)` gives a block's step size in multiples of lr."""

    def __init__(self, dtype: np.dtype, param_groups: list[dict], state: dict[Tensor, dict], names: list[tuple[str, ...]],
                 blocks_of: Callable, polynomials_of: Callable, scale_of: Callable):
        super().__init__(dtype, param_groups, state, names)
        self.blocks_of, self.polynomials_of, self.scale_of = blocks_of, polynomials_of, scale_of
        self.cut: list[tuple[int, int]] = []  # the blocks of each group that the matrices were cut into
        self.matrices, self.starts = np.zeros((0, 6), np.int64), np.zeros(1, np.int64)

    def _cut(self, param_groups: list[dict]) -> None:
        """Make the table of matrices, in one share per thread."""
        self.cut = [self.blocks_of(group) for group in param_groups]
        matrices = []
        for which, (parameter, group) in enumerate(zip(self.parameters, self.groups)):
            stride, (down, across) = parameter.shape[1], self.cut[group]
            rows, columns = parameter.shape[0] // down, stride // across
            matrices += [(which, i * rows * stride + j * columns, rows, columns, stride, group)
                         for i in range(down) for j in range(across)]
        shares = shared([work(rows, columns) for _, _, rows, columns, _, _ in matrices], numba.config.NUMBA_NUM_THREADS)
        self.starts = np.cumsum([0, *map(len, shares)], dtype=np.int64)
        self.matrices = np.array([matrices[i] for share in shares for i in share], np.int64).reshape(-1, 6)
        self.memory_size = workspace_size([(rows, columns) for _, _, rows, columns, _, _ in matrices])

    def _launch(self, param_groups: list[dict], clip: float) -> None:
        if self.cut != [self.blocks_of(group) for group in param_groups]:
            self._cut(param_groups)
        polynomials = [self.polynomials_of(group) for group in param_groups]
        settings = np.array([(group["lr"], group["weight_decay"], group["momentum"], group["nesterov"], group["eps"],
                              len(own), clip, self.tiny)
                             for group, own in zip(param_groups, polynomials)], np.float64)
        rows_of_polynomials = np.zeros((len(polynomials), max(map(len, polynomials)), 3))
        for own, rows in zip(polynomials, rows_of_polynomials):
            rows[: len(own)] = np.reshape(own, (-1, 3))
        scales = np.array([self.scale_of(param_groups[group], (rows, columns))
                           for _, _, rows, columns, _, group in self.matrices.tolist()])
        rounds = this_thread.rounds_products and not this_thread.is_textbook and self.dtype == np.float32  # as ops do
        shares = len(self.starts) - 1
        memory = workspace("muon", shares * self.memory_size, self.dtype)[: shares * self.memory_size]
        muon_step(self.starts, self.matrices, self.table, settings, rows_of_polynomials, scales, self.moments,
                  bfloat16.product(rounds), memory.reshape(shares, -1), gemm_workspaces(self.dtype))


def shared(work: Sequence[float], shares: int) -> list[list[int]]:
    """Indices of pieces of work, in shares of about the same size: the largest first, each to the smallest share so far.

    >>> shared([1.0, 3.0, 2.0, 2.0], 2)
    [[1, 0], [2, 3]]
    """
    totals, numbers = [0.0] * shares, [[] for _ in range(shares)]
    for i in sorted(range(len(work)), key=lambda i: -work[i]):
        least = totals.index(min(totals))
        totals[least] += work[i]
        numbers[least].append(i)
    return numbers
