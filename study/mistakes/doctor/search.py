"""What explains the numbers? The simplest explanation is tried first, and must explain every number on every input.

One known mistake; one exact relation for everything that is wrong; two known mistakes; then each wrong result on its own,
also by a known mistake with a relation on top of it. What remains unexplained is described by `facts`.
"""
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .as_if import AS_IF
from .case import EXACT, Case, arrays_of, point_of
from .diagnosis import Diagnosis, Evidence
from .facts import facts_of
from .relations import COMPOSING, FORMULAS, RELATIONS, Relation, is_multiplied, listed, sentence
from .routine import Known, Routine

# Formulas and factors say less than an edit, or than two known mistakes.
SIMPLE = tuple(relation for relation in RELATIONS if relation not in FORMULAS and relation.name != "factor")
ON_EDITS = tuple(relation for relation in COMPOSING if relation.name in ("negated", "factor", "transposed"))
FEW_NUMBERS = 6  # fewer from one input, or fewer than half as many from several, may agree by chance


@dataclass(frozen=True)
class Explanation:
    """Why results are wrong: known mistakes, with a relation on top of them or alone."""

    mistakes: tuple[Known, ...] = ()
    relation: str = ""
    predicate: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (*(mistake.name for mistake in self.mistakes), *([self.relation] if self.relation else []))


Fitting = list[tuple[Explanation, list[str]]]  # explanations with the results that they explain


def diagnose_numbers(
    evidence: Sequence[Evidence], routine: Routine, tolerance: float = EXACT, is_one: bool = False,
) -> Diagnosis:
    """What explains the results given for all these inputs?

    `tolerance` is how well the right numbers are known, relative to a result's largest. With `is_one`, only what is known
    to be a single mistake is looked for, which takes little time.
    """
    with np.errstate(all="ignore"):
        case = Case(evidence, routine, tolerance)
        if not case.seen:
            return Diagnosis(facts=("there are no numbers to judge by",))
        if not case.wrong:
            return Diagnosis(is_right=True)
        found = found_for(case, is_one) if is_one else explained(case)
        found = {name: why for name, why in found.items() if is_enough(case, [n for n in found if found[n] == why], why)}
        if not found:
            return Diagnosis(facts=facts_of(case, ()))
        names = dict.fromkeys(name for explanation in found.values() for name in explanation.names)
        of = list(found)
        facts = (*facts_of(case, of), *of_one_shape(case, found))
        return Diagnosis(tuple(names), sentences(case, found), facts, certainty_of(case, of), is_whole=of == case.wrong)


def explained(case: Case) -> dict[str, Explanation]:
    """An explanation for each wrong result, or for as many as possible: a strict one, or else a lenient one."""
    strict = found_for(case)
    if len(strict) == len(case.wrong) or not case.is_lenience_missing:
        return strict
    case.is_lenient = True
    return max(strict, found_for(case), key=len)


def found_for(case: Case, is_one: bool = False) -> dict[str, Explanation]:
    """The simplest explanation for all wrong results together, or else for each on its own."""
    singles = fitting(case, [(mistake,) for mistake in case.routine.mistakes])
    if (whole := of_all_results(case, singles) or one_relation(case, SIMPLE)) or is_one:
        return whole
    edits = fitting(case, [(edit,) for edit in case.routine.edits()])
    if whole := of_all_results(case, edits):
        return whole
    pairs = fitting_pairs(case, singles)
    if whole := of_all_results(case, pairs) or one_relation(case, (*RELATIONS, *AS_IF)) or with_relation(case):
        return whole
    return each_on_its_own(case, singles, pairs, edits)


def fitting(case: Case, candidates: Iterable[tuple[Known, ...]]) -> Fitting:
    """The known mistakes that explain at least one wrong result, with the results that they explain.

    First those that raise where the routine raised: on squares, a missing transpose and a reshape give the same numbers.
    """
    found = []
    for mistakes in candidates:
        names = [name for name in case.wrong if case.explains(name, case.known(mistakes, name))]
        if not case.empty.issuperset(names):
            found.append((Explanation(mistakes), names))
    return sorted(found, key=lambda item: case.runs_where_it_raised(item[0].mistakes))


def fitting_pairs(case: Case, singles: Fitting) -> Fitting:
    """The pairs of known mistakes that explain at least one wrong result.

    Two that change different results need not run together: each result is what the one that changes it makes of it alone.
    """
    changed = {id(mistake): case.changed_by(mistake) for mistake in case.routine.mistakes}
    alone = {id(mistake): names for explanation, names in singles for mistake in explanation.mistakes}
    found = []
    for a, b in pairs_of(case.routine.mistakes):
        names = ([name for name in case.wrong if case.explains(name, case.known((a, b), name))]
                 if changed[id(a)] & changed[id(b)] else [*alone.get(id(a), ()), *alone.get(id(b), ())])
        if not case.empty.issuperset(names):
            found.append((Explanation((a, b)), names))
    return sorted(found, key=lambda item: case.runs_where_it_raised(item[0].mistakes))


def pairs_of(mistakes: Sequence[Known]) -> list[tuple[Known, Known]]:
    """Pairs of mistakes in different parts, those that change fewest parts first."""
    mistakes = [mistake for mistake in mistakes if not mistake.is_only_single]
    pairs = [(a, b) for a, b in itertools.combinations(mistakes, 2) if not a.changes.keys() & b.changes.keys()]
    return sorted(pairs, key=lambda pair: sum(len(mistake.changes) for mistake in pair))


def of_all_results(case: Case, candidates: Fitting) -> dict[str, Explanation]:
    """The first that explains everything wrong and leaves right what is right; {} if there is none."""
    right = [name for name in case.results if name not in case.wrong]
    whole = next((explanation for explanation, names in candidates if len(names) == len(case.wrong)
                  and all(case.explains(name, case.known(explanation.mistakes, name)) for name in right)), None)
    return dict.fromkeys(case.wrong, whole) if whole else {}


def one_relation(case: Case, relations: Sequence[Relation]) -> dict[str, Explanation]:
    """The same relation for all wrong results, each with its own predicate; {} if there is none."""
    for relation in relations if not case.empty.issuperset(case.wrong) else ():
        predicates = {}
        for name in case.wrong:
            if not (predicate := relation.find(case, name, case.right(name))):
                break
            predicates[name] = predicate
        else:
            explanations = {predicate: Explanation((), relation.name, predicate) for predicate in predicates.values()}
            return {name: explanations[predicate] for name, predicate in predicates.items()}
    return {}


def with_relation(case: Case) -> dict[str, Explanation]:
    """An edit that changes everything that is wrong, with the same relation on top of it; {} if there is none."""
    right = [name for name in case.results if name not in case.wrong]
    for edit in case.routine.edits():
        if all(is_multiple(case, name, edit) for name in case.wrong) and all(
                case.explains(name, case.known((edit,), name)) for name in right):
            for relation in ON_EDITS:
                predicates = {name: predicate for name in case.wrong if (predicate := on_top(case, name, edit, relation))}
                if len(predicates) == len(case.wrong):
                    return {name: Explanation((edit,), relation.name, predicate) for name, predicate in predicates.items()}
    return {}


def is_multiple(case: Case, name: str, edit: Known) -> bool:
    """A first look at one input: is what was given a multiple of what the edit gives, or of its transpose?"""
    try:
        given, numbers = case.seen[0].given[name], case.known((edit,), name)(case.seen[0])
        ratio = np.linalg.norm(given) / np.linalg.norm(numbers)
        candidates = [numbers, -numbers, *([np.swapaxes(numbers, -1, -2)] if numbers.ndim > 1 else [])]
    except Exception:  # noqa: BLE001  the edit raises, or gives no numbers
        return False
    return any(bool(np.all(case.agreement(given, ratio * candidate))) for candidate in candidates)


def on_top(case: Case, name: str, mistake: Known, relation: Relation) -> str | None:
    """The relation of what was given to what a mistake gives; None if there is none, or if the mistake raises."""
    try:
        expected, seen = case.known((mistake,), name), case.seen[0]
        is_own = not np.all(case.agreement(expected(seen), seen.right[name])) and not case.explains(name, expected)
        return relation.find(case, name, expected) if is_own and keeps_shape(case, name, mistake) else None
    except Exception:  # noqa: BLE001  for one of the inputs
        return None


def each_on_its_own(case: Case, singles: Fitting, pairs: Fitting, edits: Fitting) -> dict[str, Explanation]:
    """First known mistakes, those that explain most results; relations; edits; what else may be on its own."""
    found: dict[str, Explanation] = {}

    def changed_besides(item: tuple[Explanation, list[str]]) -> int:
        return sum(not case.leaves_right(item[0].mistakes, name) for name in case.results if name not in item[1])

    def add(ways: Callable[[str], Iterator[Explanation]]) -> None:
        for name in case.wrong:
            if name not in found and name not in case.empty and (explanation := next(ways(name), None)):
                found[name] = explanation

    for explanation, names in sorted(singles, key=lambda item: (-len(item[1]), changed_besides(item))):
        found = dict.fromkeys(names, explanation) | found
    add(lambda name: related(case, name, SIMPLE))
    for explanation, names in sorted(edits, key=lambda item: -len(item[1])):
        if not changed_besides((explanation, case.wrong)):
            found = dict.fromkeys(names, explanation) | found
    add(lambda name: otherwise(case, name, pairs))
    return {name: found[name] for name in case.wrong if name in found}


def related(case: Case, name: str, relations: Iterable[Relation]) -> Iterator[Explanation]:
    """The relations of a result to the right one."""
    for relation in relations:
        if predicate := relation.find(case, name, case.right(name)):
            yield Explanation((), relation.name, predicate)


def otherwise(case: Case, name: str, pairs: Fitting) -> Iterator[Explanation]:
    """Formulas and stranger relations; two known mistakes; a relation on top of one."""
    yield from related(case, name, (*RELATIONS, *AS_IF))
    yield from (explanation for explanation, names in pairs if name in names)
    for mistake in case.routine.mistakes:
        for relation in () if mistake.is_only_single else COMPOSING:
            if predicate := on_top(case, name, mistake, relation):
                yield Explanation((mistake,), relation.name, predicate)


def keeps_shape(case: Case, name: str, mistake: Known) -> bool:
    """Does this mistake leave a result its right shape? If not, a relation on top of it would mean little."""
    return all(np.shape(case.known((mistake,), name)(seen)) == np.shape(seen.right[name])
               for seen in case.seen[:1] if name in seen.right)


def sentences(case: Case, found: dict[str, Explanation]) -> tuple[str, ...]:
    """What is wrong, naming results with the same explanation together."""
    lines: list[str] = []
    for explanation in found.values():
        names = [name for name, other in found.items() if other == explanation]
        others = [name for name in case.results if name not in names]
        # A mistake that changes nothing else need not say which result it is in.
        is_all = all(case.leaves_right(explanation.mistakes, name) for name in others)
        where = "" if is_all else f"in {listed(names)}: "
        lines += [where + case.routine.say(mistake.sentence) for mistake in explanation.mistakes]
        if explanation.predicate:
            besides = "besides, " if explanation.mistakes else ""
            lines += [besides + sentence(names, explanation.predicate)]
    return tuple(dict.fromkeys(lines))


def of_one_shape(case: Case, found: dict[str, Explanation]) -> list[str]:
    """What inputs of a single shape leave open: which of its sizes a factor consists of."""
    shapes = {tuple(array.shape for array in arrays_of(seen.inputs).values()) for seen in case.seen}
    if len(shapes) > 1:
        return []
    factors = {name: is_multiplied(case, name, case.right(name)) for name, why in found.items() if why.mistakes}
    return [f"{sentence([name], factor)}; inputs of a single shape cannot tell which size that is"
            for name, factor in factors.items() if factor and " N = " in factor]


def is_enough(case: Case, names: list[str], why: Explanation) -> bool:
    """Are there enough wrong numbers to rule out that an explanation agrees by chance? Formulas say each digit of each."""
    inputs, numbers = shown_by(case, names)
    is_formula = any(why.relation == relation.name for relation in FORMULAS)
    return numbers >= FEW_NUMBERS or (inputs > 1 or is_formula) and numbers >= FEW_NUMBERS // 2


def shown_by(case: Case, names: list[str]) -> tuple[int, int]:
    """On how many inputs any of these results is wrong, and how many numbers are."""
    numbers: dict[bytes, int] = {}
    for seen in case.seen:
        wrong = sum(int(np.sum(seen.wrong[name])) for name in names if name in seen.wrong)
        numbers[point_of(seen)] = max(numbers.get(point_of(seen), 0), wrong)
    return sum(n > 0 for n in numbers.values()), sum(numbers.values())


def certainty_of(case: Case, names: list[str]) -> str:
    inputs, numbers = shown_by(case, names)
    return f"explains all {numbers} wrong numbers of {listed(names)}, on {inputs} input{'' if inputs == 1 else 's'}"
