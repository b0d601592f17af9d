"""Which mistakes does someone's gradient checker miss, and which right functions does it reject?"""
import inspect
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from minigrad.gradcheck import GradcheckReport
from minigrad.gradcheck.blame import told

from .base import FUNCTIONS, Differentiable, Mutant
from .mutants import MUTANTS


def grade_checker(checker: Callable[..., bool], seeds: Iterable[int] = range(3)) -> dict[str, list[str]]:
    """What a checker gets wrong: {"missed": mutants, "false alarms": right functions, "errors": a line for each function}.

    checker(function, inputs) gets a Differentiable and Tensors. checker(forward, backward, inputs) gets NumPy arrays and
    functions of them: forward(*inputs) and backward(dout, *inputs), which returns a tuple with a gradient for each input,
    None for integers and booleans. It must return True or False; any other answer is an error. Raising counts as noticing
    a wrong backward, but as an error for a right one.

    >>> grade_checker(lambda function, inputs: False, seeds=[0])["missed"]
    []
    >>> grade_checker(lambda forward, backward, inputs: True, seeds=[0])["false alarms"]
    []
    """
    is_plain = takes_arrays(checker)
    grades: dict[str, list[str]] = {"missed": [], "false alarms": [], "errors": []}
    seeds = list(seeds)
    for function in to_judge():
        is_wrong = isinstance(function, Mutant)
        for seed in seeds:
            answer, error = answer_of(checker, function, seed, is_plain, is_wrong)
            if error:
                grades["errors"].append(f"{function.name}, seed {seed}: {error}")
            elif answer == is_wrong:
                grades["missed" if is_wrong else "false alarms"].append(function.name)
            if error or answer == is_wrong:
                break
    return grades


def to_judge() -> Iterator[Differentiable]:
    """Wrong functions, then right ones."""
    yield from MUTANTS.values()
    yield from FUNCTIONS.values()


def takes_arrays(checker: Callable) -> bool:
    """Is it checker(forward, backward, inputs)? TypeError if it is not checker(function, inputs) either."""
    required = [p.name for p in inspect.signature(checker).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(required) not in (2, 3):
        raise TypeError("a checker takes (function, inputs), or (forward, backward, inputs) for NumPy arrays; this one "
                        f"takes ({', '.join(required)})")
    return len(required) == 3


def answer_of(checker: Callable, function: Differentiable, seed: int, is_plain: bool, is_wrong: bool) -> tuple[bool, str]:
    """(the answer, "") or (False, why there is none)"""
    try:
        if is_plain:
            answer: Any = checker(function.forward, function.gradients, function.inputs(np.random.default_rng(seed)))
        else:
            answer = checker(function, function.draw(seed))
    except Exception as error:  # noqa: BLE001  whatever it raises
        return False, "" if is_wrong else told(error)
    if isinstance(answer, (bool, np.bool_, GradcheckReport)):
        return bool(answer), ""
    return False, f"it returns {'None' if answer is None else f'a {type(answer).__name__}'}; expected True or False"
