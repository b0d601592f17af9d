"""Is an answer right on all inputs that are drawn, and if not, which mistake explains it?

The judge holds the inputs and the right results. It calls the student's function with arrays, and trusts nothing but the
arrays that it returns. First it checks their form (how many, arrays or lists, dtype), then the numbers, then that the
function does not write to its inputs and keeps nothing until the next call.
"""
import re

import numpy as np

from study.exercises.answer import Answer, Caller
from study.exercises.exercise import Exercise, Inputs
from study.exercises.finding import Finding
from study.exercises.report import ERROR, RIGHT, TIMEOUT, WRONG, Fault, Report, Trial
from study.mistakes.doctor import Diagnosis, Evidence, common, diagnose_numbers

ROUNDING = 1e-9  # of the largest number in a result: how far it may be off
KEPT = Fault("kept between calls", "a second call with the same arrays gives another answer: something is kept between "
             "calls, such as a global array, a default argument or an attribute that is added to; or it draws at random")
EXPECTED = "an array", "a number", "None"  # what a result should be, in words
NUMBERS = *EXPECTED, "a list", "a matrix", "a masked array"  # results that can be compared
FEW = 24  # numbers of an input that are shown in a line
REPEATED = 3  # how many inputs are tried again, at once and at the end
COUNTED = re.compile(r"(is|are) wrong( on \d+ of \d+ inputs)?$")  # the report says that itself
UNKNOWN = "no known mistake gives these numbers"
ENDS = {"timeout": TIMEOUT, "died": ERROR}  # verdicts after which no further call is possible


def judge(exercise: Exercise, caller: Caller, seed: int | None = None) -> Report:
    """Call it on inputs drawn anew (from `seed`, if given), compare, and name the mistake."""
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    if exercise.judged is not None:
        return found_by(exercise, exercise.judged(caller, np.random.default_rng(seed)), seed)
    trials, twice = [], []
    for inputs in exercise.inputs(seed):
        trials.append(attempt(exercise, caller, inputs))
        if trials[-1].answer.kind in ENDS:
            return stopped(exercise, trials, seed)
        if len(trials) <= REPEATED:
            twice.append((trials[-1], repeated(caller, trials[-1])))
    usual = [trial for trial in trials if exercise.is_usual(trial.inputs)]
    if all(trial.answer.kind == "raised" for trial in usual):
        return stopped(exercise, usual, seed)
    twice += [(trial, repeated(caller, trial)) for trial in trials[:REPEATED]]
    if ended := [again for _, again in twice if again.answer.kind in ENDS]:
        return stopped(exercise, [*trials, ended[0]], seed)
    if not all(gives_the_same(trial, again) for trial, again in twice):
        return Report(exercise, WRONG, (KEPT.sentence,), names=(KEPT.name,), trials=tuple(trials), seed=seed)
    if all(trial.is_right for trial in usual):
        said = (*remarks_on_axes(exercise, trials), *remarks(exercise, caller, seed))
        return Report(exercise, RIGHT, remarks=said, trials=tuple(usual), seed=seed)
    return report_on_wrong(exercise, trials, usual, seed)


def report_on_wrong(exercise: Exercise, trials: list[Trial], usual: list[Trial], seed: int) -> Report:
    """Which mistakes explain the trials, what is wrong other than numbers, and what else can be seen.

    The usual trials come first: an answer for matrices may have one mistake there, and be unlike any known mistake on
    stacks of them. All trials together count only if their explanation is whole and needs no more mistakes, such as axis 0
    instead of axis -2.
    """
    found = diagnosed(exercise, usual)
    if len(usual) < len(trials):
        of_all = diagnosed(exercise, trials, is_one=found.is_whole and len(found.names) == 1)
        if of_all.is_whole and (not found or len(of_all.names) <= len(found.names)):
            found = of_all
        else:
            trials = usual
    facts = (*raised_at_times(trials), *(fact for fact in found.facts if not COUNTED.search(fact)))
    facts = facts if facts or found.mistakes or any(trial.faults for trial in trials) else (UNKNOWN,)
    faults = tuple(dict.fromkeys(fault for trial in trials for fault in trial.faults))
    return Report(exercise, WRONG, (*found.mistakes, *(fault.sentence for fault in faults)), facts,
                  (*found.names, *dict.fromkeys(fault.name for fault in faults)), trials=tuple(trials), seed=seed)


def found_by(exercise: Exercise, finding: Finding, seed: int) -> Report:
    """The report for an exercise with its own judge."""
    if finding.stopped is not None:
        return stopped(exercise, [Trial({}, {}, finding.stopped)], seed)
    sentences, names = (tuple(getattr(w, part) for w in finding.weaknesses) for part in ("sentence", "name"))
    verdict = RIGHT if finding.is_right else WRONG
    return Report(exercise, verdict, sentences, finding.facts, names, finding.remarks, seed=seed)


def attempt(exercise: Exercise, caller: Caller, inputs: Inputs) -> Trial:
    """Call it on one input, and compare its results with the right ones."""
    answer, right = caller.call(list(inputs.values())), exercise.right(inputs)
    if answer.kind != "returned":
        return Trial(inputs, right, answer)
    given = {} if any(words not in NUMBERS for words in answer.given) else by_name(answer, right)
    off = {name: wrong_elements(given[name], right[name]) for name in given}
    return Trial(inputs, right, answer, given, off, tuple(faults_of(answer, inputs, right)))


def by_name(answer: Answer, right: dict[str, np.ndarray]) -> dict[str, np.ndarray | None]:
    """The results by name; {} if there are too few. A list of rows is an array; of too many results, the first count."""
    results = answer.results
    if len(results) > len(right) and answer.container != "list":
        arrays = tuple(result for result in results if result is not None)
        results = arrays if len(arrays) == len(right) else results[: len(right)]
    if answer.container == "list" and len(right) == 1 and results and all(part is not None for part in results):
        try:
            results = (np.array(results),)
        except ValueError:  # of several shapes
            return {}
    return dict(zip(right, results)) if len(results) == len(right) else {}


def wrong_elements(given: np.ndarray | None, right: np.ndarray) -> np.ndarray:
    """Which elements are wrong: all of them if there is no array, or if it has another shape."""
    if given is None or given.shape != right.shape or given.dtype.kind not in "fiub":
        return np.ones(np.shape(right), bool)
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(right), initial=0.0, where=np.isfinite(right))
        return ~((np.abs(given - right) <= ROUNDING * largest + 1e-3 * ROUNDING) | (given == right)
                 | (np.isnan(given) & np.isnan(right)))


def faults_of(answer: Answer, inputs: Inputs, right: dict[str, np.ndarray]) -> list[Fault]:
    """What is wrong other than the numbers."""
    names, n = ", ".join(right), len(right)
    wanted = f"a tuple, `return {names}`, is" if n > 1 else f"the array {names} is"
    faults = []
    if answer.container not in ("array", "tuple"):
        nothing = "nothing; `return` is missing, and" if answer.container == "NoneType" else f"a {answer.container};"
        faults.append(Fault("returns another type", f"it returns {nothing} {wanted} expected"))
    elif len(answer.results) != n:
        faults.append(Fault("number of results", f"it returns {counted(len(answer.results), 'array')}; {wanted} expected"))
    else:
        faults += [Fault("returns another type", f"{name} is {words}; an array is expected")
                   for name, words in zip(right, answer.given) if words not in EXPECTED]
        faults += [Fault("another dtype", f"{name} is of {given.dtype}; gradients of float64 arrays are float64")
                   for name, given in zip(right, answer.results)
                   if given is not None and given.dtype.kind == "f" and given.dtype != np.float64]
    faults += [Fault("writes to an argument", f"it writes to its argument {name}, which the caller may still need; "
                     "compute in a copy")
               for (name, before), after in zip(inputs.items(), answer.inputs_after)
               if isinstance(before, np.ndarray) and not same_array(before, after)]
    return faults


def counted(n: int, thing: str) -> str:
    return f"{n or 'no'} {thing}{'' if n == 1 else 's'}"


def repeated(caller: Caller, trial: Trial) -> Trial:
    """Another call on the same input."""
    return Trial(trial.inputs, trial.right, caller.call(list(trial.inputs.values())))


def gives_the_same(trial: Trial, again: Trial) -> bool:
    """Is the answer the same again, up to rounding?"""
    first, second = trial.answer.results, again.answer.results
    return len(first) == len(second) and all(a is b or b is not None and not wrong_elements(a, b).any()
                                             for a, b in zip(first, second))


def same_array(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def diagnosed(exercise: Exercise, trials: list[Trial], is_one: bool = False) -> Diagnosis:
    """The doctor's diagnosis of the numbers."""
    evidence = [Evidence(trial.inputs, trial.right, trial.given) for trial in trials
                if trial.given or trial.answer.kind == "raised"]
    if not any(item.given for item in evidence):
        return Diagnosis()
    return diagnose_numbers(evidence, exercise.routine, is_one=is_one)


def raised_at_times(trials: list[Trial]) -> tuple[str, ...]:
    """The exception that it raises on some inputs, and on how many."""
    raised = [trial for trial in trials if trial.answer.kind == "raised"]
    if not raised:
        return ()
    smallest = min(raised, key=lambda trial: trial.size)
    those = common([trial.inputs for trial in trials], [trial.answer.kind == "raised" for trial in trials])
    where = f"on {len(raised)} of {len(trials)} inputs" + (f", {those}," if those else "")
    return (f"{where} {smallest.first_difference()}",)


def remarks_on_axes(exercise: Exercise, trials: list[Trial]) -> tuple[str, ...]:
    """On an answer that is right except for arrays with more axes, such as stacks of matrices."""
    wrong = [trial for trial in trials if not trial.is_right]
    if not wrong:
        return ()
    trial = min(wrong, key=lambda trial: (trial.shows_little, trial.size))
    why = diagnosed(exercise, trials).mistake or trial.first_difference()
    return (f"for arrays with another number of axes, such as {trial.shapes}, it is not: {why}",)


def remarks(exercise: Exercise, caller: Caller, seed: int) -> tuple[str, ...]:
    """On a right answer that overflows for large numbers."""
    generator = np.random.default_rng(seed)
    for drawn, draw in exercise.beyond.items():
        trial = attempt(exercise, caller, exercise.with_upstream(generator, draw(generator)))
        if not trial.is_right:
            such = in_whole_numbers(trial.inputs)
            return (f"for {drawn}{such} it overflows, or loses its digits: {trial.first_difference()}",)
    return ()


def in_whole_numbers(inputs: Inputs) -> str:
    """", such as x = [[1000, -999]],": the first arrays in whole numbers; "" if the first has many."""
    shown, left = [], FEW
    for name, array in inputs.items():
        if name == "dout" or not isinstance(array, np.ndarray):
            continue
        left -= array.size
        if left < 0:
            break
        shown.append(f"{name} = {np.rint(array).astype(int).tolist()}")
    return f", such as {', '.join(shown)}," if shown else ""


def stopped(exercise: Exercise, trials: list[Trial], seed: int) -> Report:
    """The report on an answer that cannot be judged: it raises on every input, ended its process, or takes too long."""
    last = trials[-1].answer
    verdict = ENDS.get(last.kind, ERROR)
    answer = last if last.kind in ENDS else trials[0].answer
    message = answer.message
    if message.startswith("NotImplementedError"):
        message = "not written yet"
    where = f" ({answer.place}: {answer.code.strip()})" if answer.place else ""
    return Report(exercise, verdict, facts=(message + where,), trials=tuple(trials), seed=seed)
