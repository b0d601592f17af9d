"""A right backward among wrong ones, drawn anew, and the judge of an answer that has to find it."""
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from study.exercises.answer import Answer, Caller
from study.mistakes import FUNCTIONS, MUTANTS, Differentiable

from .base import Finding, Watched, Weakness, found_in, numbers_in, raised
from .checkers import VISIBLE, compared

ROUNDS = 12  # 4^12 ways to guess: 17 million
WRONG_ONES = 3  # next to the right one


@dataclass(frozen=True)
class Choice:
    """Some backwards, which of them is right, and the answer."""

    backwards: list[Differentiable]
    right: int
    watched: Watched
    answer: Answer

    @property
    def index(self) -> int | None:
        """The answer, if it is an index."""
        numbers = numbers_in(self.answer) or ()
        return numbers[0] if len(numbers) == 1 and 0 <= numbers[0] < len(self.backwards) else None

    @property
    def is_right(self) -> bool:
        return self.answer.kind == "returned" and self.index == self.right


def tell_apart(caller: Caller, generator: np.random.Generator) -> Finding:
    """ROUNDS times: a function, its backward and wrong ones, in any order."""
    return found_in((choose(caller, generator) for _ in range(ROUNDS)), "functions", WEAKNESSES, facts)


def choose(caller: Caller, generator: np.random.Generator) -> Choice:
    function, backwards, arrays = draw(generator)
    watched = Watched(arrays)
    answer = caller.call([watched.forward(function.forward), [watched.backward(b.gradients) for b in backwards],
                          [a.copy() for a in arrays]])
    return Choice(backwards, backwards.index(function), watched, answer)


def facts(choices: list[Choice], wrong: list[Choice]) -> Iterator[str]:
    chosen = [c.backwards[c.index].name for c in wrong if c.answer.kind == "returned" and c.index is not None]
    yield f"wrong for {len(wrong)} of {len(choices)} functions" + (f"; it chose {chosen[0]}" if chosen else "")
    yield from [raised(c.answer) for c in wrong if c.answer.kind == "raised"][:1]


def draw(generator: np.random.Generator) -> tuple[Differentiable, list[Differentiable], list[np.ndarray]]:
    """A function; itself and mutants that are clearly off, but of the right form, in any order; inputs."""
    names = sorted(FUNCTIONS)
    while True:
        function = FUNCTIONS[names[generator.integers(len(names))]]
        arrays = function.inputs(generator)
        wrong = [m for m in MUTANTS.values() if m.right is function
                 and 10 * VISIBLE < compared(m, arrays, generator)[0] < np.inf]
        if len(wrong) >= WRONG_ONES:
            chosen = [function, *(wrong[k] for k in generator.choice(len(wrong), WRONG_ONES, replace=False))]
            return function, [chosen[k] for k in generator.permutation(len(chosen))], arrays


WEAKNESSES = [  # seen(all choices, the wrong ones)
    Weakness(
        "no index", "it must return an index: 0, 1, 2 or 3",
        lambda all_, wrong: any(c.index is None for c in wrong), explains_all=True),
    Weakness(
        "backwards unused", "it does not call the backwards",
        lambda all_, wrong: not any(c.watched.upstreams for c in all_), explains_all=True),
    Weakness(
        "nothing moved", "it never moves an input: compare with how much the forward changes",
        lambda all_, wrong: not any(c.watched.steps for c in all_), explains_all=True),
    Weakness(
        "always the same", "it gives the same index each time, whatever the backwards return",
        lambda all_, wrong: len(all_) > 1 and len({c.index for c in all_}) == 1, explains_all=True),
    Weakness(
        "plain sum", "each dout that it uses is constant, so much cancels: the gradient of a softmax's sum is 0 whatever "
        "its backward does. Draw dout at random",
        lambda all_, wrong: bool(wrong) and all(c.watched.has_constant_upstream() for c in all_)),
    Weakness(
        "not all inputs", "it does not move all inputs: each has a gradient, and each may be wrong",
        lambda all_, wrong: any(c.watched.skips_inputs() for c in wrong)),
    Weakness(
        "not all entries", "it moves only some entries of an input: a mistake elsewhere goes unnoticed",
        lambda all_, wrong: any(c.watched.skips_entries() for c in wrong)),
]
