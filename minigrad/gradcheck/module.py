"""A whole module: a check of every parameter's gradient, and a census of parameters with no gradient or only part of it.

A module is anything that has `named_parameters()` and can be called, or one of PyTorch.
"""
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np
from tqdm import tqdm

from ..tensor import Tensor
from .api import options_from
from .arguments import generator_for
from .check import Options, check, compare
from .differences import FAIL, INCONCLUSIVE, PASS, random_direction
from .libraries import MINIGRAD
from .report import GradcheckReport, table
from .subject import Given, Record, Subject


def module_subject(module: Any, inputs: Any, select: Callable[..., Any] | None) -> Subject:
    """The module's outputs as a function of its parameters and of the inputs that require gradients."""
    given = Given.of(module, inputs)
    own = dict(getattr(module, "named_parameters", dict)()) if given.library is MINIGRAD else None
    if given.is_narrow or any(map(given.library.is_narrow, (own or {}).values())):
        raise TypeError("the module or its inputs are not float64; use .double(), or gradcheck, which judges other dtypes "
                        "by what their rounding allows")
    return given.subject(parameters=own, select=select)


def gradcheck_module(
    module: Any, inputs: Tensor | Sequence[Any], *, select: Callable[[Any], Any] | None = None,
    raise_exception: bool = True, progress: bool | None = None, seed: int = 0, **options: Any,
) -> GradcheckReport:
    """`gradcheck` for every parameter of a float64 module, called as module(*inputs); returns the report.

    `select` picks the outputs to differentiate from what the module returns, by default all. Parameters are moved in
    place and restored; their `grad` is not touched. Random states are held fixed, so dropout may be on. `progress` shows a
    bar on stderr, by default only in a terminal.

    >>> import nn, minigrad as mg
    >>> layer = nn.Linear(3, 2).to("float64")
    >>> gradcheck_module(layer, mg.randn(5, 3, dtype="float64")).verdict
    'pass'
    """
    subject = module_subject(module, inputs, select)
    names = list(subject.leaves)

    def bar(indices):
        shown = tqdm(indices, desc="gradcheck", unit="parameter", disable=None if progress is None else not progress)
        for i in shown:
            shown.set_postfix_str(names[i])
            yield i

    report = check(subject, options_from({"seed": seed, **options}), bar)
    if raise_exception:
        report.raise_if_wrong()
    return report


@dataclass
class CensusRow:
    """What gradient one parameter got."""

    name: str
    shape: tuple[int, ...]
    status: str  # a key of STATUS
    uses: int  # on the tape
    fraction: float  # how much of the true derivative along a random direction backward gives
    zeros: float  # the fraction of elements whose gradient is zero

    def __str__(self) -> str:
        return f"{self.name}: {STATUS[self.status]}"


STATUS = {
    "ok": "a gradient from all its uses",
    "none": "no gradient, though the output depends on it: it is cut off by detach(), .data or no_grad()",
    "zero": "a gradient of zeros, though the output depends on it",
    "unused": "the output does not depend on it",
    "cancelled": "a gradient, but the derivative is zero: this proves nothing",
    "partial": "a gradient that is not the whole derivative: one of its uses is cut off, or a backward is wrong",
    "unclear": "a gradient that could not be judged: a kink or noise",
}


class Census(list[CensusRow]):
    """The rows, one for each parameter; printed as a table."""

    def __repr__(self) -> str:
        rows = [["parameter", "shape", "uses", "zeros", "of the derivative", "status"]]
        rows += [[row.name, str(row.shape), str(row.uses), f"{row.zeros:.0%}", f"{row.fraction:.6g}", STATUS[row.status]]
                 for row in self]
        return "\n".join(table(rows))


def census(module: Any, inputs: Tensor | Sequence[Any], *, select: Callable[[Any], Any] | None = None, seed: int = 0
           ) -> Census:
    """Which parameters of module(*inputs) got no gradient, a zero one, or one from only some of their uses?

    A use that is cut off the tape (by detach, `.data`, no_grad) still changes the output when the parameter moves. So a
    gradient from all uses agrees with differences along a random direction, and anything less does not.

    >>> import nn, minigrad as mg
    >>> for row in census(nn.Linear(3, 2).to("float64"), mg.randn(5, 3, dtype="float64")): print(row)
    weight: a gradient from all its uses
    bias: a gradient from all its uses
    """
    generator = generator_for(seed)
    subject = module_subject(module, inputs, select)
    with subject.preserved():
        point = Record(subject).differentiate(generator)
        arrived, uses = point.arriving(point.upstream), point.library.uses(point.tensors, point.leaves)
        rows = Census()
        for i, (name, leaf) in enumerate(subject.leaves.items()):
            direction = random_direction(leaf, generator)
            report = compare(point, i, [("direction 0", direction)], Options(seed=seed), generator)
            analytic, numeric, bound = (a.item() for a in (report.analytic, report.numeric, report.bound))
            is_used = abs(numeric) > 10 * bound
            fraction = analytic / numeric if is_used else np.nan
            gradient = point.gradients[i]
            if arrived[i] is None:
                status = "none" if is_used else "unused"
            elif not np.any(gradient):
                status = "zero" if is_used else "unused"
            elif report.verdict == PASS and not is_used:
                status = "cancelled"
            else:
                status = {PASS: "ok", FAIL: "partial", INCONCLUSIVE: "unclear"}[report.verdict]
            rows.append(CensusRow(name, leaf.shape, status, uses[i], fraction,
                                  float(np.mean(gradient == 0)) if gradient.size else 0.0))
    return rows
