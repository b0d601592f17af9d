"""Routines of the course, derived from those of `study.mistakes`."""
import dataclasses
from collections.abc import Iterable
from typing import Any

from study.mistakes.doctor import Known, Routine


def with_argument(routine: Routine, name: str) -> Routine:
    """The same with a last argument, such as eps, which the backward takes as a keyword."""

    def right(*inputs: Any, **parts: Any) -> Any:
        *others, value = inputs
        return routine.right(*others, **({name: value} | parts))

    return dataclasses.replace(routine, right=right, arguments=(*routine.arguments, name))


def with_mistakes(routine: Routine, more: Iterable[Known]) -> Routine:
    """The same with more known mistakes, except those whose names it has already."""
    known = {mistake.name for mistake in routine.mistakes}
    return dataclasses.replace(routine, mistakes=(*routine.mistakes, *(m for m in more if m.name not in known)))
