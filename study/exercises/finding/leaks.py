"""Attention whose mask may leak, drawn anew, and the judge of an answer that has to find the leak."""
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from study.exercises.answer import Answer, Caller

from .base import Finding, Watched, Weakness, raised, weaknesses

SIZES = ((1, False), (2, True), (2, False), (2, True), (3, True), (3, True), (4, True), (4, True), (5, True), (5, False),
         (6, True), (7, True), (8, True), (8, False), (9, True))  # how many tokens, and whether it leaks


@dataclass(frozen=True)
class Leaking:
    """Causal attention with two heads, one of which may attend from one token to one later token."""

    x: np.ndarray
    weights: np.ndarray  # (q, k and v; heads; in; out)
    mask: np.ndarray  # (heads, tokens, tokens)
    place: tuple[int, int] | None  # (from, to)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        q, k, v = np.einsum("tc,ahcd->ahtd", x, self.weights)
        scores = np.where(self.mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return np.concatenate(list(e / e.sum(-1, keepdims=True) @ v), -1)

    def leaked(self) -> float:
        """How much of the output comes from the leak.

        Replacing the later token and comparing would not do: both tokens may have almost no weight next to the others.
        """
        causal = replace(self, mask=np.tri(len(self.x), dtype=bool) & self.mask)
        return float(np.max(np.abs(self(self.x) - causal(self.x))))


def draw(generator: np.random.Generator, tokens: int, leaks: bool) -> Leaking:
    """One whose leak, if any, is large enough to notice."""
    while True:
        mask, place = np.array([np.tri(tokens, dtype=bool)] * 2), None
        if leaks:
            i, j = sorted(generator.choice(tokens, 2, replace=False).tolist())
            mask[generator.integers(2), i, j] = True
            place = i, j
        model = Leaking(generator.normal(size=(tokens, 3)), generator.normal(size=(3, 2, 3, 2)), mask, place)
        if not leaks or model.leaked() > 1e-2:
            return model


@dataclass(frozen=True, eq=False)
class Hunt:
    """One model, the calls, and the answer."""

    model: Leaking
    watched: Watched
    answer: Answer

    @property
    def said(self) -> tuple[int, ...] | None:
        """The integers that were returned, alone or in a tuple, list or array; None for None, -1 for any other number."""
        if all(result is None for result in self.answer.results):
            return None
        values = [value for result in self.answer.results if result is not None for value in np.ravel(result).tolist()]
        return tuple(int(v) if isinstance(v, (int, float)) and v == v // 1 else -1 for v in values)

    @property
    def is_right(self) -> bool:
        return self.answer.kind == "returned" and self.said == self.model.place

    @property
    def is_exchanged(self) -> bool:
        return self.model.place is not None and self.said == self.model.place[::-1]

    @property
    def is_of_the_past(self) -> bool:
        """Is the answer a pair that may depend on each other?"""
        return self.said is not None and len(self.said) == 2 and self.said[0] >= self.said[1] and not self.is_exchanged


def hunt(caller: Caller, generator: np.random.Generator) -> Finding:
    """With and without a leak, for few tokens and more."""
    hunts: list[Hunt] = []
    for tokens, leaks in SIZES:
        hunts.append(try_on(draw(generator, tokens, leaks), caller))
        if hunts[-1].answer.kind in ("timeout", "died"):
            return Finding(stopped=hunts[-1].answer)
    answered = [one for one in hunts if one.answer.kind == "returned"]
    if not answered:
        return Finding(stopped=hunts[0].answer)
    wrong = [one for one in hunts if not one.is_right]
    if not wrong:
        return Finding(remarks=(f"right on all {len(hunts)} models",))
    return Finding(weaknesses(WEAKNESSES, answered, [one for one in wrong if one in answered]), tuple(facts(hunts, wrong)))


def try_on(model: Leaking, caller: Caller) -> Hunt:
    watched = Watched([model.x])
    return Hunt(model, watched, caller.call([watched.forward(model), model.x.copy()]))


def facts(hunts: list[Hunt], wrong: list[Hunt]) -> Iterator[str]:
    smallest = wrong[0]
    truth = "nothing leaks" if smallest.model.place is None else f"right is {smallest.model.place}"
    said = raised(smallest.answer) if smallest.answer.kind == "raised" else f"it says {smallest.said}, and {truth}"
    yield f"wrong on {len(wrong)} of {len(hunts)} models; with {len(smallest.model.x)} tokens, the fewest, {said}"


def finds_only(hunts: list[Hunt], is_so: Callable[[int, int, int], bool]) -> bool:
    """Are leaks found exactly where this holds for (i, j, tokens)?"""
    cases = [(is_so(*h.model.place, len(h.model.x)), h.is_right) for h in hunts if h.model.place]
    return all(holds == found for holds, found in cases) and {True, False} == {found for _, found in cases}


WEAKNESSES = [  # seen(all hunts that returned something, the wrong ones)
    Weakness(
        "model unused", "it does not call the model: move a token, and see which outputs change",
        lambda all_, wrong: not any(h.watched.calls for h in all_), explains_all=True),
    Weakness(
        "nothing moved", "it does not move any token: give the model another x, and see which outputs change",
        lambda all_, wrong: not any(h.watched.steps or h.watched.has_nan for h in all_), explains_all=True),
    Weakness(
        "NaN", "it puts NaN or infinity into x: 0 * NaN is NaN, so it also comes out where the weight is 0; use other "
        "numbers",
        lambda all_, wrong: any(h.watched.has_nan for h in wrong)),
    Weakness(
        "exchanged", "the pair is the other way round: first the output i, then the later token j",
        lambda all_, wrong: any(h.model.place for h in wrong) and all(h.is_exchanged for h in wrong if h.model.place)),
    Weakness(
        "counted from 1", "it counts tokens from 1: the first one is 0",
        lambda all_, wrong: all(h.said == (h.model.place and tuple(n + 1 for n in h.model.place)) for h in all_),
        explains_all=True),
    Weakness(
        "never", "it never finds a leak",
        lambda all_, wrong: all(h.said is None and (len(h.model.x) == 1 or h.watched.largest_step > 1e-5) for h in all_)),
    Weakness(
        "the past", "it reports what is allowed: an output may depend on its own token and on earlier ones",
        lambda all_, wrong: any(h.is_of_the_past for h in wrong), explains_all=True),
    Weakness(
        "next token only", "it finds only leaks from the next token: any later one may leak",
        lambda all_, wrong: finds_only(all_, lambda i, j, tokens: j == i + 1)),
    Weakness(
        "last token only", "it finds only leaks from the last token: any later one may leak",
        lambda all_, wrong: finds_only(all_, lambda i, j, tokens: j == tokens - 1)),
    Weakness(
        "first output only", "it finds only leaks into the first output: any output may be leaked to",
        lambda all_, wrong: finds_only(all_, lambda i, j, tokens: i == 0)),
    Weakness(
        "step too small", "it moves tokens so little that a leak is hardly larger than rounding: tokens may be replaced",
        lambda all_, wrong: any(h.model.place and 0 < h.watched.largest_step < 1e-5 for h in wrong)),
]
