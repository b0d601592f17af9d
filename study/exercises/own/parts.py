"""The parts of a teacher's file: statement, shapes, draws, hints. Each is checked before it is used."""
import difflib
import inspect
import string
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from study.exercises.exercise import Argument, below, normal

from .flaw import Flaw, shown

NEEDED = "statement", "shapes", "forward"
OPTIONAL = (
    "title", "formula", "difficulty", "about", "draw", "constants", "hints", "backward", "mistakes", "limits", "special",
)
KINDS = {Callable: "a function", str: "a string", dict: "a dict", int: "a whole number"}  # others are lists
HINTS = (
    "Write the forward with one operation a line and a name for each value. Then go back from the last line to the first.",
    "A value that is used twice gets the sum of its gradients; a broadcast one is summed over its copies.",
    "Check your result: move one entry by 1e-5 up and down, and see how much (dout * out).sum() changes.",
)
DRAWS = {
    "normal": normal,
    "positive": lambda generator, shape, sizes: generator.uniform(0.3, 2.0, size=shape),
    "mask": lambda generator, shape, sizes: generator.random(size=shape) < 0.6,
}


def look_for_typos(names: dict[str, Any]) -> None:
    """Flaw if a required part is missing, or a name looks like a misspelt part."""
    for name in names.keys() - {*NEEDED, *OPTIONAL}:
        nearest = difflib.get_close_matches(name, NEEDED + OPTIONAL, 1, 0.85)
        if nearest and nearest[0] not in names:
            raise Flaw(f"there is {name!r}; did you mean {nearest[0]!r}?")
    for part in NEEDED:
        if part not in names:
            raise Flaw(f"{part} is missing; a file needs {', '.join(NEEDED)}")


def taken(names: dict[str, Any], part: str, kind: Any, default: Any = None) -> Any:
    """A part of the file; Flaw if it is not of this kind."""
    if part not in names:
        return default
    value = names[part]
    if not (callable(value) if kind is Callable else isinstance(value, kind)):
        raise Flaw(f"{part} must be {KINDS.get(kind, 'a list')}, not {shown(value)}")
    return value


def statement_of(names: dict[str, Any]) -> str:
    statement = taken(names, "statement", str)
    if not statement.strip():
        raise Flaw("statement is empty: say what is given, what to find, and why it matters")
    return statement


def difficulty_of(names: dict[str, Any]) -> int:
    difficulty = taken(names, "difficulty", int, 2)
    if not 1 <= difficulty <= 5:
        raise Flaw(f"difficulty must be from 1 to 5, not {difficulty}")
    return int(difficulty)


def hints_of(names: dict[str, Any]) -> tuple[str, str, str]:
    hints = tuple(taken(names, "hints", (list, tuple), HINTS))
    if len(hints) != 3 or not all(isinstance(hint, str) for hint in hints):
        raise Flaw(f"hints must be three strings, each more helpful than the one before; there are {len(hints)}")
    return hints


def arguments_of(forward: Callable, names: dict[str, Any]) -> dict[str, Argument]:
    """The arguments of forward, in their order."""
    shapes, draws, about = (taken(names, part, dict, {}) for part in ("shapes", "draw", "about"))
    parameters = list(inspect.signature(forward).parameters)
    signature = f"forward({', '.join(parameters)})"
    for part, keys in {"shapes": shapes, "draw": draws, "about": about, "constants": constants_of(names)}.items():
        for key in keys:
            if key not in parameters:
                raise Flaw(f"{part} has {key!r}, which {signature} does not take")
    for name in parameters:
        if name not in shapes:
            raise Flaw(f'shapes lacks {name!r}, which {signature} takes; "M N" is an array, "" a number')
    if not parameters or "dout" in parameters:
        raise Flaw(f"{signature} must take arrays, none of them called dout: that is the upstream gradient")
    letters = {letter for shape in shapes.values() for letter in letters_of(shape)}
    return {
        name: Argument(shapes[name], draw_of(name, shapes[name], draws.get(name, "normal"), letters), about.get(name, ""))
        for name in parameters
    }


def letters_of(shape: Any) -> list[str]:
    if not isinstance(shape, str):
        raise Flaw(f'a shape is written like "M N", not {shown(shape)}')
    parts = shape.split()
    for part in parts:
        if not (len(part) == 1 and part in string.ascii_letters or part.isdecimal() and int(part) > 0):
            raise Flaw(f"in the shape {shape!r}, {part!r} is neither a letter nor a size; put spaces between letters")
    return [part for part in parts if part in string.ascii_letters]


def draw_of(name: str, shape: str, draw: Any, letters: set[str]) -> Callable:
    """How an argument is drawn: a key of DRAWS, "below V", a constant, or a function."""
    if isinstance(draw, (int, float)) and not shape:
        return lambda generator, shape, sizes: draw
    if isinstance(draw, str) and draw.startswith("below ") and draw[6:] in letters:
        return lambda generator, shape, sizes: plain(below(draw[6:])(generator, shape, sizes))
    if isinstance(draw, str) and draw in DRAWS:
        return lambda generator, shape, sizes: plain(DRAWS[draw](generator, shape, sizes))
    if callable(draw):
        return lambda generator, shape, sizes: draw(generator, shape)
    raise Flaw(f"draw of {name!r} is {shown(draw)}; it may be {', '.join(map(repr, DRAWS))}, 'below V' for a letter V of "
               'shapes, a function (generator, shape) -> array, or for the shape "" a number')


def plain(value: Any) -> Any:
    """A NumPy number as a Python number; an array as it is."""
    return np.asarray(value).item() if np.ndim(value) == 0 else value


def constants_of(names: dict[str, Any]) -> tuple[str, ...]:
    return tuple(taken(names, "constants", (list, tuple, set), ()))


def learned_of(arguments: dict[str, Argument], names: dict[str, Any]) -> list[str]:
    """The arguments that get a gradient: arrays of floats that are not named as constants."""
    sizes = {letter: 2 for argument in arguments.values() for letter in letters_of(argument.shape)}
    learned = []
    for name, argument in arguments.items():
        shape = tuple(sizes.get(part) or int(part) for part in argument.shape.split())
        try:
            value = argument.draw(np.random.default_rng(0), shape, sizes)
        except Exception as error:  # noqa: BLE001  whatever the teacher's function does
            raise Flaw(f"draw of {name!r} raises {type(error).__name__}: {error}") from None
        if np.shape(value) != shape or not isinstance(value, (np.ndarray, int, float, np.generic)):
            raise Flaw(f"draw of {name!r} gives {shown(value)} instead of an array of shape {shape}")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.dtype != np.float64:
            raise Flaw(f"draw of {name!r} gives {value.dtype}; exercises are in float64")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and name not in constants_of(names):
            learned.append(name)
    if not learned:
        raise Flaw("no argument gets a gradient: all are numbers, integers, masks or constants")
    return learned


def source_of(function: Callable) -> str:
    """Its source; "" if that is not in the file."""
    try:
        return textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError):
        return ""
