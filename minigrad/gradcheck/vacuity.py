"""When does a check prove nothing, or little? Many wrong gradients are right at special points."""
import numpy as np

from .differences import PASS
from .report import InputReport


def vacuous(reports: list[InputReport]) -> bool:
    """Are all true gradients zero? Then a backward that returns zeros passes. (Empty arrays show nothing.)"""
    shown = [report for report in reports if report.analytic.size]
    return any(report.rows for report in shown) and all(is_zero(report) for report in shown)


def is_zero(report: InputReport) -> bool:
    """Is the gradient right, and not to be told from zero?"""
    return report.verdict == PASS and bool(np.all(np.abs(report.numeric) <= 10 * report.bound))


def special_points(reports: list[InputReport], arrays: list[np.ndarray], constants: dict[str, np.ndarray]) -> list[str]:
    """What these inputs cannot show."""
    found = []
    for report, array in zip(reports, arrays):
        if report.analytic.size == 0:
            found.append(f"{report.name} has no elements" if not report.columns else "the output has no elements")
        elif is_zero(report):
            found.append(f"the true gradient of {report.name} is zero: the function does not depend on it, or a sum "
                         "over a softmax or a norm cancels it; weight the outputs with random numbers")
        else:
            found += [f"{report.name} {reason}" for reason in special(array)]
    for name, ids in constants.items():
        if ids.dtype.kind == "i" and ids.size > 1:
            if len(np.unique(ids)) == ids.size:
                found.append(f"{name} has no id twice: gradients of a repeated id, which add up, are not tested")
            elif len(np.unique(ids)) == 1:
                found.append(f"{name} has one id only: whether gradients go to the right row is hardly tested")
    return found


def special(array: np.ndarray) -> list[str]:
    """Why an input is too special to tell mistakes apart."""
    if array.size == 1:
        return ["is one element: sums, axes and transposes are not tested"] if array.ndim else []
    if np.all(array == array.flat[0]):
        return [f"is {array.flat[0]:g} everywhere: a lost factor, axis or transpose may go unnoticed"]
    reasons = []
    if array.ndim >= 2:
        if array.shape[-2] == 1 and array.ndim >= 3:
            reasons.append("is one token (its last axis but one has length 1): nothing between tokens is tested")
        elif array.shape[-2] > 1 and np.all(array == array[..., :1, :]):
            reasons.append("has equal rows: nothing between rows is tested")
        if array.shape[-1] == array.shape[-2] and np.array_equal(array, np.swapaxes(array, -1, -2)):
            reasons.append("is symmetric: a missing transpose goes unnoticed")
    return reasons
