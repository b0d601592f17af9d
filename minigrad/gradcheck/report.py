"""What a gradient check found, as a table and as a figure, and whether it proves little or nothing."""
import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..drawing.figures import draw_panel, new_figure
from ..drawing.html import html_of_report
from .constants import constant_ratio, name_constant
from .differences import FAIL, INCONCLUSIVE, PASS, largest_finite, overall

PROJECTED = "sum(output * upstream)"  # the single number whose gradient is backward(upstream)
EXPLAINED = 1e-2  # of an error: what a factor may leave of it
LOST = 1e-12  # where all derivatives are smaller, values may have no digits left: those of 1 + erf(x) far below 0
FEW_LINES = 3  # the most rows or columns of a Jacobian that are named


@dataclass(repr=False)
class InputReport:
    """One input: its Jacobian from backward and from differences, as (rows, columns).

    Rows are the elements of the outputs, or only PROJECTED. Columns are the elements of the input, or random directions.
    """

    name: str
    shape: tuple[int, ...]
    analytic: np.ndarray
    numeric: np.ndarray
    bound: np.ndarray  # on numeric's error
    verdicts: np.ndarray  # pass, fail or inconclusive, for each element
    rows: list[str]  # "output[0, 3]"
    columns: list[str]  # "[0, 3]", or "direction 0"
    checked: str
    sizes: dict[str, int] = field(default_factory=dict)  # that a wrong factor may consist of
    notes: list[str] = field(default_factory=list)
    reference: str = "differences"
    is_bent: np.ndarray | bool = False  # which rows have a kink here
    unseen: float = 0.0  # the error, relative to a typical derivative, that a function of little precision may hide

    @property
    def verdict(self) -> str:
        return overall(self.verdicts)

    @property
    def is_zero(self) -> bool:
        """Is the gradient right, and indistinguishable from zero?"""
        return self.verdict == PASS and bool(np.all(np.abs(self.numeric) <= 10 * self.bound))

    @property
    def errors(self) -> np.ndarray:
        """|analytic - numeric| relative to the largest derivative."""
        with np.errstate(all="ignore"):
            scale = np.max(largest_finite(self.analytic, self.numeric), initial=0.0)
            error = np.abs(self.analytic - self.numeric) / (scale if scale > 0 else 1.0)
        return np.where(np.isnan(error), np.inf, error)

    @property
    def worst(self) -> tuple[int, int] | None:
        """Row and column of the largest error, among the failures if there are any."""
        if self.analytic.size == 0:
            return None
        errors = np.where(self.verdicts == self.verdict, self.errors, -1.0)
        row, column = np.unravel_index(np.argmax(errors), errors.shape)
        return int(row), int(column)

    @property
    def error(self) -> float:
        return float(np.max(self.errors, initial=0.0))

    @property
    def ratio(self) -> float | None:
        """analytic / numeric if it is the same for all elements, and explains the error if there is one."""
        ratio = constant_ratio(self.analytic, self.numeric)
        if ratio is None or self.verdict == PASS:
            return ratio
        left = np.max(np.abs(self.analytic - ratio * self.numeric))
        return ratio if left <= EXPLAINED * np.max(np.abs(self.analytic - self.numeric)) else None

    def explain(self) -> list[str]:
        """What is wrong, in sentences."""
        if self.worst is None or self.verdict == PASS:
            return self.notes
        row, column = self.worst
        n_wrong = int(np.sum(self.verdicts == self.verdict))
        label = self.columns[column]
        lines = [
            f"d {self.rows[row]} / d {self.name}" + (f" along {label}" if label.startswith("direction") else label)
            + f": backward gives {self.analytic[row, column]:.9g}, {self.reference} {self.numeric[row, column]:.9g} +- "
            f"{self.bound[row, column]:.1g}; {n_wrong} of {self.analytic.size} derivatives "
            + ("are wrong" if self.verdict == FAIL else f"could not be judged: {self.why_open(row, column)}")
        ]
        if self.verdict == FAIL:
            lines += self.diagnosis()
        return lines + self.notes

    def why_open(self, row: int, column: int) -> str:
        """Why it is not known whether a derivative is right."""
        analytic, numeric, bound = self.analytic[row, column], self.numeric[row, column], self.bound[row, column]
        if not np.isfinite(numeric):
            return "the function is not finite there"
        if self.unseen:
            return "too little precision"
        if np.all(np.broadcast_to(self.is_bent, len(self.rows))[row]):
            return "there is a kink, or noise"
        if max(abs(analytic), abs(numeric)) <= LOST:
            return "numbers this small may be rounding"
        is_open = not abs(analytic - numeric) > bound
        return "differences do not settle: noise, or a jump" if is_open else "other steps do not confirm the error"

    def __repr__(self) -> str:
        head = f"{self.name} {self.shape}, {self.checked}: {self.verdict.upper()}, error {self.error:.0e}"
        return "\n".join([head, *(f"  {line}" for line in self.explain())])

    def diagnosis(self) -> list[str]:
        """A constant factor, or where in the Jacobian the errors are. GradcheckReport's looks at all inputs together."""
        ratio = self.ratio
        if ratio is not None:
            name = name_constant(ratio, self.sizes)
            number = f"{ratio:.6g}" if abs(ratio - 1) > 1e-4 else f"{ratio:.12g}"
            return [f"backward / {self.reference} is {number} everywhere" + (f": {name}" if name else "")]
        is_jacobian = len(self.rows) > 1 and not self.columns[0].startswith("direction")
        return self.places() if is_jacobian else []

    def places(self) -> list[str]:
        """Where in the Jacobian backward goes wrong, if only in a few rows or columns, or on or off the diagonal."""
        is_wrong = self.verdicts == FAIL
        if is_wrong.shape[0] == is_wrong.shape[1]:
            is_off = ~np.eye(len(is_wrong), dtype=bool)
            if not np.any(self.analytic[is_off]) and np.any(is_wrong[is_off]):
                return ["backward has only the diagonal of the Jacobian, as if each output depended on its own input alone"]
            if not np.any(is_wrong[is_off]) and np.any(self.numeric[is_off]):
                return ["only the diagonal of the Jacobian is wrong"]
        lines = []
        for labels, wrong, form in ((self.rows, np.any(is_wrong, 1), "only derivatives of {} are wrong"),
                                    (self.columns, np.any(is_wrong, 0), f"only derivatives by {self.name}{{}} are wrong")):
            if np.sum(wrong) <= min(FEW_LINES, (len(wrong) - 1) // 2):
                lines.append(form.format(", ".join(label for label, is_so in zip(labels, wrong) if is_so)))
        return lines


@dataclass
class SideCheck:
    """Something else than the numbers of one backward. What is found there makes numbers wrong in use, or is a remark."""

    name: str
    passed: bool
    detail: str = ""
    makes_wrong: bool = True
    was_run: bool = True  # False where it does not apply or cannot run; it is no failure then
    is_open: bool = False  # it did not come to an end

    @property
    def verdict(self) -> str:
        return PASS if self.passed or not self.makes_wrong else INCONCLUSIVE if self.is_open else FAIL


@dataclass(repr=False)
class GradcheckReport:
    """The outcome of one gradient check: true if it passed, printed as a table; `plot` gives a figure."""

    title: str
    inputs: list[InputReport]
    side_checks: list[SideCheck]
    warnings: list[str]  # what these inputs cannot show
    seed: int
    consultations: list[Any] = field(default_factory=list, repr=False)  # see above.py

    @functools.cached_property
    def diagnosis(self) -> Any:
        """What registered explainers know about the mistake; None if nothing failed or nobody can be asked."""
        described = None
        for asked in self.consultations:
            diagnosis = asked.diagnosis()
            if diagnosis:
                return diagnosis
            if described is None and diagnosis.sentence and not diagnosis.is_right:
                described = diagnosis
        return described

    @property
    def verdict(self) -> str:
        sides = [check.verdict for check in self.side_checks]
        return overall([report.verdict for report in self.inputs] + sides + [PASS])

    @property
    def remarks(self) -> list[str]:
        """What was noticed, and makes no number wrong."""
        return [check.detail for check in self.side_checks if not (check.passed or check.makes_wrong)]

    def __bool__(self) -> bool:
        return self.verdict == PASS

    @property
    def is_vacuous(self) -> bool:
        """Are all true gradients zero? Then a backward that returns zeros passes."""
        return bool(self.inputs) and all(report.is_zero for report in self.inputs if report.analytic.size)

    @property
    def is_proof(self) -> bool:
        """Has it passed, and would a wrong backward have failed?"""
        return bool(self) and not self.is_vacuous

    def __repr__(self) -> str:
        but = ", but proves nothing" if self and self.is_vacuous else ""
        lines = [f"gradcheck of {self.title}: {self.verdict.upper()}{but} (seed {self.seed})"]
        if self.inputs:
            header = ["input", "shape", "checked", "error", "backward", self.inputs[0].reference, "ratio", "verdict"]
            lines += table([header] + [self._row(report) for report in self.inputs])
        lines += [f"  {line}" for report in self.inputs for line in report.explain()]
        failed = [check for check in self.side_checks if check.verdict != PASS]
        lines += [f"  {check.name}: {check.verdict.upper()}: {check.detail}" for check in failed]
        lines += [f"  {'the numbers are right; but' if self.is_proof else 'besides:'} {remark}" for remark in self.remarks]
        if self.side_checks and not failed:
            ran = sum(check.was_run for check in self.side_checks)
            count = f"{ran - len(self.remarks)} of" if self.remarks else "all"
            lines.append(f"  side checks: {count} {ran} {'' if ran == len(self.side_checks) else 'that apply '}pass")
        if self.diagnosis is not None and self.diagnosis.sentence:
            lines.append(f"  diagnosis: {self.diagnosis.mistake or self.diagnosis}")
        head = "proves nothing" if self.is_vacuous else "note"
        lines += [f"  {head}: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_of_report(repr(self), self.verdict)

    @staticmethod
    def _row(report: InputReport) -> list[str]:
        numbers = ["", "", ""]
        if report.worst is not None:
            numbers = [f"{array[report.worst]:.6g}" for array in (report.analytic, report.numeric)]
            numbers += ["varies" if report.ratio is None else f"{report.ratio:.6g}"]
        return [report.name, str(report.shape), report.checked, f"{report.error:.0e}", *numbers, report.verdict]

    def summary(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        known = self.diagnosis
        return {
            "title": self.title, "verdict": self.verdict, "seed": self.seed, "proves_nothing": self.is_vacuous,
            "inputs": [{"name": entry.name, "shape": list(entry.shape), "checked": entry.checked, "verdict": entry.verdict,
                        "error": entry.error if np.isfinite(entry.error) else None, "explanation": entry.explain()}
                       for entry in self.inputs],
            "side_checks": [{"name": check.name, "passed": check.passed, "detail": check.detail,
                             "makes_wrong": check.makes_wrong} for check in self.side_checks if check.was_run],
            "side_checks_not_run": [check.name for check in self.side_checks if not check.was_run],
            "diagnosis": None if known is None else {"names": list(known.names), "mistake": known.mistake,
                                                     "facts": list(known.facts)},
            "notes": self.warnings,
        }

    def raise_if_wrong(self) -> None:
        """GradcheckError, with this report, unless the verdict is "pass"."""
        if not self:
            raise GradcheckError(self)

    def plot(self, path: str | None = None) -> Any:
        """A figure with a row for each input: the Jacobian from backward, from differences, and their difference.

        Saved to `path` if one is given; returns matplotlib's figure.
        """
        shown = [entry for entry in self.inputs if entry.analytic.size]
        rows = max(len(shown), 1)
        figure, axes = new_figure(rows, 3, 11, 0.9 + 2.6 * rows, squeeze=False)
        figure.suptitle(f"gradcheck of {self.title}: {self.verdict} (seed {self.seed})")
        for row, entry in zip(axes, shown):
            difference = entry.analytic - entry.numeric
            limit, worst = (np.max(largest_finite(array), initial=1e-300) for array in (entry.numeric, difference))
            pictures = {
                f"{entry.name}: backward": (entry.analytic, limit),
                entry.reference: (entry.numeric, limit),
                f"backward - {entry.reference}: {entry.verdict}": (difference, worst),
            }
            for axis, (title, (values, scale)) in zip(row, pictures.items()):
                draw_panel(axis, title, values, scale, aspect="auto")
                is_direction = entry.columns[0].startswith("direction")
                axis.set_xlabel("direction" if is_direction else "element of the input", fontsize=8)
                axis.set_ylabel("element of the output" if len(entry.rows) > 1 else entry.rows[0], fontsize=8)
                for ticks, n in ((axis.set_xticks, values.shape[1]), (axis.set_yticks, values.shape[0])):
                    if n <= 12:
                        ticks(range(n))
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


class GradcheckError(RuntimeError):
    """A gradient is wrong, or could not be judged; `report` says which, and why."""

    def __init__(self, report: GradcheckReport):
        super().__init__(str(report))
        self.report = report


def index_of(k: int, shape: tuple[int, ...]) -> str:
    """The index of the k-th element: "[0, 3]", or "" if there are no axes."""
    return str([int(n) for n in np.unravel_index(k, shape)]) if shape else ""


def table(rows: list[list[str]]) -> list[str]:
    """Rows of text in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def special_points(reports: list[InputReport], arrays: list[np.ndarray], constants: dict[str, np.ndarray],
                   outputs: list[np.ndarray]) -> list[str]:
    """What these inputs cannot show."""
    found = []
    for report, array in zip(reports, arrays):
        if report.analytic.size == 0:
            found.append(f"{report.name} has no elements" if not report.columns else "the output has no elements")
        elif report.is_zero:
            found.append(f"the true gradient of {report.name} is zero: the function does not depend on it, or a sum "
                         "over a softmax or a norm cancels it; weight the outputs with random numbers")
        elif report.verdict == PASS:
            found += [f"{report.name} {reason}" for reason in special(array, outputs)]
    for name, ids in constants.items():
        if ids.dtype.kind == "f":
            found.append(f"{name} requires no gradient, so none was checked")
        if ids.dtype.kind == "i" and ids.size > 1:
            if len(np.unique(ids)) == ids.size:
                found.append(f"{name} has no repeated id: that the gradients of an id's uses add up is not tested")
            elif len(np.unique(ids)) == 1:
                found.append(f"{name} has only one id: whether gradients go to the right row is hardly tested")
    return found


def special(array: np.ndarray, outputs: list[np.ndarray]) -> list[str]:
    """Why an input is so special that mistakes may go unnoticed."""
    if array.size == 1:
        return ["has one element: that its axes are taken in order is not tested"] if array.ndim else []
    if np.all(array == array.flat[0]):
        return [f"is {array.flat[0]:g} everywhere: a lost factor, axis or transpose may go unnoticed"]
    reasons = []
    if array.ndim >= 2:
        if array.shape[-2] == 1 and array.ndim >= 3 and all(out.shape[:-1] == array.shape[:-1] for out in outputs):
            reasons.append("is one token (its last axis but one has length 1): nothing between tokens is tested")
        elif array.shape[-2] > 1 and np.all(array == array[..., :1, :]):
            reasons.append("has equal rows: nothing between rows is tested")
        if array.shape[-1] == array.shape[-2] > 1 and np.array_equal(array, np.swapaxes(array, -1, -2)):
            reasons.append("is symmetric: that its transpose stands for it, or it for its transpose, goes unnoticed")
    return reasons
