"""Grades a gradient checker: on all functions that the library knows, and on wrong backwards of each."""
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from study.exercises.answer import Answer, Caller
from study.mistakes import FUNCTIONS, Differentiable, Mutant
from study.mistakes.mutants import mutants_of

from .base import Finding, Watched, Weakness, raised, weaknesses

VISIBLE = 5e-3  # a gradient that is off by this fraction of its largest entry must be noticed; less is a bonus
LOOSE = 0.3  # a tolerance that passes no more than that
TINY, HUGE = 1e-9, 3e-3  # steps whose differences are mostly rounding errors, or see the curvature
SHOWN = 5  # of the missed ones
FEWEST, ENTRIES = 2, 60  # at least this many wrong backwards per function, or this many entries of inputs


@dataclass(frozen=True)
class Session:
    """One function that was checked: the calls, and the answer."""

    function: Differentiable
    watched: Watched
    off: float  # error of its gradients, as a fraction of the largest; inf if it raises, or their form is wrong
    has_nan: bool  # are some of its gradients NaN?
    answer: Answer

    @property
    def said(self) -> bool | None:
        """The answer; None if it is neither true nor false."""
        value = self.answer.results[0] if len(self.answer.results) == 1 else None
        return bool(value) if isinstance(value, np.ndarray) and value.dtype.kind == "b" and value.size == 1 else None

    @property
    def is_missed(self) -> bool:
        """Is it clearly wrong, and was passed? An answer that raises has noticed, too."""
        return self.off > VISIBLE and self.answer.kind == "returned" and self.said is not False

    @property
    def is_alarm(self) -> bool:
        """Is it right, and was not passed?"""
        return not isinstance(self.function, Mutant) and self.said is not True


def scaled(factor: float, name: str) -> tuple[Differentiable, Mutant]:
    """factor * tanh(x), right and wrong, for checkers with an absolute tolerance."""

    def inputs(generator):
        return [generator.normal(size=(3, 4))]

    def forward(x):
        return factor * np.tanh(x)

    right = Differentiable(name, forward, lambda dout, x: factor * dout * (1 - np.tanh(x) ** 2), inputs)
    return right, Mutant(f"{name}: no square", forward, lambda dout, x: factor * dout * (1 - np.tanh(x)), inputs,
                         mistake="1 - tanh", right=right)


SMALL, LARGE = scaled(1e-4, "tanh / 10,000"), scaled(1e4, "10,000 * tanh")


def right_ones() -> list[Differentiable]:
    return [*FUNCTIONS.values(), SMALL[0], LARGE[0]]


def wrong_ones(generator: np.random.Generator) -> list[Mutant]:
    """Some wrong backwards of each function, drawn anew: fewer if the inputs are large, and all of the square.

    There are over a thousand, and a checker calls each forward twice per entry, across processes.
    """
    chosen = []
    for function in FUNCTIONS.values():
        mutants = list(mutants_of(function.name).values())
        entries = sum(map(np.size, function.inputs(generator)))
        most = len(mutants) if function.name == "square" else max(FEWEST, ENTRIES // entries)
        chosen += [mutants[k] for k in generator.permutation(len(mutants))[:most]]
    return [*chosen, SMALL[1], LARGE[1]]


def grade(caller: Caller, generator: np.random.Generator) -> Finding:
    """Each function with new inputs. If the answer is wrong, others are tried, to rule out chance."""
    rights, sessions = right_ones(), []
    for function in (*rights, *wrong_ones(generator)):
        session = try_on(function, caller, generator)
        if session.is_alarm or session.is_missed:
            session = try_on(function, caller, generator)
        if session.answer.kind in ("timeout", "died"):
            return Finding(stopped=session.answer)
        sessions.append(session)
        if len(sessions) == len(rights) and all(s.answer.kind == "raised" for s in sessions):
            return Finding(stopped=sessions[0].answer)
    missed = sorted((s for s in sessions if s.is_missed), key=lambda s: -s.off)
    alarms = [s for s in sessions if s.is_alarm]
    if missed or alarms:
        return Finding(weaknesses(WEAKNESSES, sessions, missed, alarms), tuple(facts(sessions, missed, alarms)))
    bonus = [s for s in sessions if s.off <= VISIBLE and isinstance(s.function, Mutant)]
    return Finding(remarks=(
        f"right on {len(sessions) - len(bonus)} functions",
        f"it also notices {sum(s.said is not True for s in bonus)} of {len(bonus)} backwards that are off by less than "
        f"{VISIBLE:.1%}, or only break a promise"))


def try_on(function: Differentiable, caller: Caller, generator: np.random.Generator) -> Session:
    arrays = function.inputs(generator)
    watched = Watched(arrays)
    arguments = [watched.forward(function.forward), watched.backward(function.gradients), [a.copy() for a in arrays]]
    return Session(function, watched, *compared(function, arrays, generator), caller.call(arguments))


def compared(function: Differentiable, arrays: Sequence[np.ndarray], generator: np.random.Generator) -> tuple[float, bool]:
    """(the largest error of its gradients, as a fraction of the largest entry; is there a NaN?)"""
    right = function.right if isinstance(function, Mutant) else function
    dout = generator.normal(size=np.shape(right.forward(*arrays)))
    with np.errstate(all="ignore"):
        wanted = right.gradients(dout.copy(), *(a.copy() for a in arrays))
        try:
            found = function.gradients(dout.copy(), *(a.copy() for a in arrays))
        except Exception:  # noqa: BLE001  a wrong one may raise, such as on arrays that are not square
            return np.inf, False
        if len(found) != len(wanted):
            return np.inf, False
        errors, has_nan = [0.0], False
        for a, b, x in zip(found, wanted, arrays):
            if x.dtype.kind == "f":
                is_alike = a is not None and np.shape(a) == np.shape(b) and np.all(np.isfinite(a))
                errors.append(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300) if is_alike else np.inf)
                has_nan = has_nan or a is not None and bool(np.any(np.isnan(a)))
    return float(max(errors)), has_nan


def facts(sessions: list[Session], missed: list[Session], alarms: list[Session]) -> Iterator[str]:
    """What it gets wrong, worst first."""
    if alarms:
        names = [s.function.name for s in alarms[:SHOWN]] + ["..."] * (len(alarms) > SHOWN)
        yield f"it does not pass {len(alarms)} of {len(right_ones())} right backwards: {', '.join(names)}"
        yield from [raised(s.answer) for s in alarms if s.answer.kind == "raised"][:1]
    if missed:
        count = sum(s.off > VISIBLE for s in sessions)
        shown = [f"{s.function.name} ({s.function.mistake})" for s in missed[:SHOWN]] + ["..."] * (len(missed) > SHOWN)
        order = ", worst first" if len(missed) > 1 else ""
        yield f"it lets {len(missed)} of {count} wrong backwards pass{order}: {'; '.join(shown)}"


def passed(sessions: list[Session]) -> list[Session]:
    """Those that it passed."""
    return [s for s in sessions if s.said is True]


def each(sessions: list[Session], is_so: Callable[[Watched], bool]) -> bool:
    """Does it hold each time, and at least twice?"""
    return len(sessions) > 1 and all(is_so(s.watched) for s in sessions)


def with_many_outputs(sessions: list[Session]) -> list[Session]:
    return [s for s in sessions if s.watched.upstreams and s.watched.upstreams[0].size > 1]


def moves_all(watched: Watched) -> bool:
    return min(watched.shares(), default=1) == 1


def was_changed(session: Session) -> bool:
    """Has the call changed the inputs, by more than rounding?"""
    after = session.answer.inputs_after[2] if len(session.answer.inputs_after) == 3 else session.watched.arrays
    return any(np.shape(a) != b.shape or not np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
               for a, b in zip(after, session.watched.arrays))


def only_small_ones(missed: list[Session]) -> bool:
    return any(s.function is SMALL[1] for s in missed) and not any(s.function is LARGE[1] for s in missed)


def only_large_ones(alarms: list[Session]) -> bool:
    return any(s.function is LARGE[0] for s in alarms) and not any(s.function is SMALL[0] for s in alarms)


def is_accurate(watched: Watched) -> bool:
    """Are its differences central, in float64, and with a step that is neither too small nor too large?"""
    return not watched.is_one_sided and np.dtype(np.float32) not in watched.dtypes and TINY < watched.largest_step < HUGE


def seen_in(sessions: list[Session], is_so: Callable[[Watched], bool]) -> bool:
    return any(is_so(s.watched) for s in sessions)


WEAKNESSES = [  # seen(all sessions, those that were missed, false alarms)
    Weakness(
        "no answer", "it must return True or False",
        lambda all_, missed, alarms: any(s.answer.kind == "returned" and s.said is None for s in all_), explains_all=True),
    Weakness(
        "backward unused", "it passes backwards that it has never called",
        lambda all_, missed, alarms: seen_in(passed(all_), lambda w: not w.upstreams), explains_all=True),
    Weakness(
        "nothing moved", "it never moves an input: compare with how much the forward changes",
        lambda all_, missed, alarms: each(passed(all_), lambda w: not w.steps), explains_all=True),
    Weakness(
        "changes its inputs", "it changes its inputs and does not put them back",
        lambda all_, missed, alarms: any(was_changed(s) for s in all_), explains_all=True),
    Weakness(
        "plain sum", "it checks a plain sum: each dout that it uses is constant, so much cancels; the gradient of a "
        "softmax's sum is 0 whatever its backward does. Draw dout at random",
        lambda all_, missed, alarms: bool(missed) and each(with_many_outputs(all_), Watched.has_constant_upstream)),
    Weakness(
        "positive upstream", "its dout is never negative, so mistakes in its sign go unnoticed: draw it from a normal "
        "distribution",
        lambda all_, missed, alarms: bool(missed) and each(with_many_outputs(all_), Watched.has_positive_upstream)
        and not each(with_many_outputs(all_), Watched.has_constant_upstream)),
    Weakness(
        "not all inputs", "it does not move all inputs: if there are several, each has a gradient to check",
        lambda all_, missed, alarms: each(
            [s for s in passed(missed) if len(s.watched.shares()) > 1], lambda w: not all(w.shares()))),
    Weakness(
        "not all entries", "it moves only some entries of an input: a mistake elsewhere goes unnoticed",
        lambda all_, missed, alarms: seen_in(passed(missed), lambda w: any(0 < share < 1 for share in w.shares()))),
    Weakness(
        "float32", "it computes in float32, whose rounding errors are as large as the mistakes",
        lambda all_, missed, alarms: seen_in(all_, lambda w: np.dtype(np.float32) in w.dtypes)),
    Weakness(
        "form", "it does not check how many gradients there are, for None, and their shapes (NumPy broadcasts)",
        lambda all_, missed, alarms: seen_in([s for s in missed if s.off == np.inf and not s.has_nan], moves_all)),
    Weakness(
        "NaN passes", "a NaN passes: comparisons with NaN are false, so ask whether the error is small, not whether it is "
        "large",
        lambda all_, missed, alarms: seen_in([s for s in missed if s.has_nan], moves_all)),
    Weakness(
        "absolute tolerance", "its tolerance is absolute: where all gradients are small everything passes; compare the "
        "error with the size of the gradient",
        lambda all_, missed, alarms: only_small_ones(missed)),
    Weakness(
        "tolerance too strict for large numbers", "its tolerance is absolute: where gradients are large, rounding alone "
        "exceeds it; compare the error with the size of the gradient",
        lambda all_, missed, alarms: only_large_ones(alarms) and not seen_in(
            alarms, lambda w: w.is_one_sided or np.dtype(np.float32) in w.dtypes)),
    Weakness(
        "one-sided", "its differences are one-sided, whose error is of the order of h: forward(x + h) - forward(x - h) is "
        "much closer, of the order of h^2",
        lambda all_, missed, alarms: seen_in(alarms, lambda w: w.is_one_sided)),
    Weakness(
        "step too small", "its step is too small: differences are mostly rounding errors; 1e-5 is about right in float64",
        lambda all_, missed, alarms: seen_in(alarms, lambda w: 0 < w.largest_step < TINY)),
    Weakness(
        "step too large", "its step is too large: differences see the curvature as well; 1e-5 is about right in float64",
        lambda all_, missed, alarms: seen_in(alarms, lambda w: w.largest_step > HUGE)),
    Weakness(
        "twice the difference", "its differences are twice too large: forward(x + h) - forward(x - h) is divided by 2 h",
        lambda all_, missed, alarms: len(alarms) == len(right_ones()) and seen_in(missed, is_accurate)
        and any(abs(s.off - 1) < 1e-6 for s in missed)),
    Weakness(
        "tolerance too strict", "its tolerance is too strict: central differences are right to about 9 digits, not to 16",
        lambda all_, missed, alarms: not missed and 2 * len(alarms) > len(right_ones()) and each(alarms, is_accurate)),
    Weakness(
        "tolerance too loose", "its tolerance is too loose: it passes gradients that are a little off",
        lambda all_, missed, alarms: bool(missed) and all(s.off < LOOSE and is_accurate(s.watched) for s in missed)
        and not only_small_ones(missed) and not each(with_many_outputs(all_), Watched.has_constant_upstream)),
]
