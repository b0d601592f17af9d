"""A teacher's own exercise: a file with a forward, shapes and a statement is enough (docs/exercises.md).

    new(name, folder)   writes a template
    load(path)          the exercise in a file; ValueError, one line that says what to fix, if it is not one

The file is trusted: it runs in the judge's process. Each part is checked before it is used, and the whole is tried before
it judges anybody.
"""
import dataclasses
import difflib
import functools
import inspect
import pathlib
import string
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.gradcheck.differences import FAIL, STEP, judge, noise_of, scale_of
from study.exercises.exercise import PLANS, Argument, Exercise, Inputs, below, normal
from study.exercises.worker.returned import copy_of
from study.mistakes.base import ROUTINES
from study.mistakes.consult import is_same
from study.mistakes.doctor import Known, Routine
from study.mistakes.rewriting import Program, mistakes_in

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
PARTS: dict[str, tuple[Any, Any]] = {  # {what a file may define: (its type, what stands for it)}
    "statement": (str, None), "shapes": (dict, None), "forward": (Callable, None),  # which it needs
    "title": (str, ""), "formula": (str, ""), "difficulty": (int, 2), "about": (dict, {}), "draw": (dict, {}),
    "constants": ((list, tuple, set), ()), "hints": ((list, tuple), HINTS), "backward": (Callable, None),
    "mistakes": (dict, {}), "limits": (dict, {}), "special": ((list, tuple), ()),
}
NEEDED, OPTIONAL = tuple(PARTS)[:3], tuple(PARTS)[3:]
KINDS = {Callable: "a function", str: "a string", dict: "a dict", int: "a whole number"}  # others are lists
CERTAIN = 5e-10  # of the largest derivative: the error that is allowed, as answers are judged within 1e-9
MOST_KEPT = 200  # inputs
MOST_ENTRIES = 600  # of an input, each of which is moved on its own
TRIES = 6  # draws for each input, to find one without a kink


class Flaw(ValueError):
    """What to fix in a teacher's file, in one line."""


def told(error: Exception, path: pathlib.Path) -> str:
    """"ValueError: ... in line 3"."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" + (f" in line {lines[-1]}" if lines else "")


def shown(value: Any) -> str:
    """A value in a few words."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def shapes_in(arguments: Iterable[Any]) -> str:
    """"shapes (2, 3), (3,)"."""
    return "shapes " + ", ".join(str(np.shape(a)) for a in arguments)


def size_of(inputs: dict[str, Any]) -> int:
    """How many numbers there are."""
    return sum(map(np.size, inputs.values()))


@dataclass(frozen=True)
class Gradients:
    gradients: tuple[np.ndarray, ...]
    bounds: tuple[np.ndarray, ...]  # on their errors
    is_certain: bool  # no kink, no noise


class Derivatives:
    """(dout, *arguments) -> the gradients of sum(dout * forward(*arguments)) for the arguments at these positions."""

    def __init__(self, forward: Callable, positions: Sequence[int]):
        self.forward = forward
        self.positions = positions
        self.kept: dict[bytes, Gradients] = {}

    def __call__(self, dout: np.ndarray, *arguments: Any) -> tuple[np.ndarray, ...]:
        return self.known(dout, *arguments).gradients

    def known(self, dout: np.ndarray, *arguments: Any) -> Gradients:
        """What differences find at this point. Results are cached: a judge asks often."""
        key = b"|".join(repr((np.shape(a), np.asarray(a).tobytes())).encode() for a in (dout, *arguments))
        if key not in self.kept:
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            found = [self._of(position, dout, arguments) for position in self.positions]
            self.kept[key] = Gradients(tuple(f[0] for f in found), tuple(f[1] for f in found), all(f[2] for f in found))
        return self.kept[key]

    def _of(self, position: int, dout: np.ndarray, arguments: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, bool]:
        """(gradient, bound, is it certain) for one argument, entry by entry."""
        x = arguments[position]
        scale = scale_of(x).reshape(-1)

        def value_at(t: float) -> np.ndarray:
            """The loss with each entry moved on its own."""
            values = np.empty(x.size)
            for k in range(x.size):
                moved = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
                moved[position].reshape(-1)[k] += t * scale[k]
                values[k] = np.sum(dout * self.forward(*moved))
            return values

        with np.errstate(all="ignore"):
            centre = value_at(0.0)
            rough = (value_at(STEP) - value_at(-STEP)) / (2 * STEP)
            # They judge a wrong gradient: where they are certain that it is wrong, they know the right one.
            numeric, bound, verdict = judge(value_at, centre, 1.5 * rough + np.sign(rough) + (rough == 0), STEP, 0.0,
                                            np.zeros(x.size), noise_of(value_at, centre))
        if np.all(np.abs(numeric) <= bound):
            numeric = bound = np.zeros(x.size)  # such as for the softmax of one number
        gradient, bound = numeric / scale, bound / scale
        is_certain = np.all(verdict == FAIL) and np.all(bound <= CERTAIN * np.max(np.abs(gradient), initial=0.0))
        return gradient.reshape(x.shape), bound.reshape(x.shape), bool(is_certain)


# The exercise.

@dataclass(frozen=True)
class OwnExercise(Exercise):
    """An exercise from a file. Its right gradients are those of the file's `backward`, or else finite differences."""

    derivatives: Derivatives | None = None  # None if there is a backward
    shown_solution: str = ""

    @property
    def source(self) -> str:
        return self.shown_solution

    def inputs(self, seed: int) -> Iterator[Inputs]:
        """As for any exercise, but drawn again wherever derivatives are not certain, as next to a kink."""
        generator = np.random.default_rng(seed)
        draws = [functools.partial(self.draw, generator, plan) for plan in PLANS]
        draws += [lambda draw=draw: self.with_upstream(generator, draw(generator)) for draw in self.special]
        for draw in draws:
            fit = next(filter(self.is_fit, (draw() for _ in range(TRIES))), None)
            if fit is not None:
                yield fit

    def is_fit(self, inputs: Inputs) -> bool:
        if self.derivatives is None:
            return True
        return size_of(inputs) <= MOST_ENTRIES and self.derivatives.known(*inputs.values()).is_certain


def load(path: str | pathlib.Path) -> OwnExercise:
    """The exercise in a teacher's file; ValueError, one line, if something needs fixing."""
    path = pathlib.Path(path)
    try:
        return exercise_from(path, run(path))
    except Flaw as flaw:
        raise ValueError(f"{path}: {flaw}") from None


def run(path: pathlib.Path) -> dict[str, Any]:
    """The names that the file defines."""
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    except SyntaxError as error:
        raise Flaw(f"line {error.lineno} is not Python: {error.msg}") from None
    except UnicodeDecodeError:
        raise Flaw("this is not text") from None
    except Exception as error:  # noqa: BLE001  whatever the file does
        missing = isinstance(error, OSError) and not path.is_file()
        raise Flaw(error.strerror if missing else f"it raises {told(error, path)}") from None
    return names


def exercise_from(path: pathlib.Path, names: dict[str, Any]) -> OwnExercise:
    name = path.stem.removesuffix("_exercise")
    if not name.isidentifier():
        raise Flaw(f"{name!r} cannot name a function; call the file NAME_exercise.py")
    parts = parts_of(names)
    written, backward = parts["forward"], parts["backward"]
    forward = one_array(watched(written, "forward", path))
    arguments = arguments_of(parts)
    check_limits(parts)
    learned = learned_of(arguments, parts["constants"])
    derivatives = None if backward else Derivatives(forward, [list(arguments).index(a) for a in learned])
    right = all_gradients(watched(backward, "backward", path), "backward", learned) if backward else derivatives
    exercise = OwnExercise(
        name=name, title=parts["title"] or name.replace("_", " ").capitalize(), difficulty=parts["difficulty"],
        statement=parts["statement"], formula=parts["formula"] or source_of(written), guide="",
        arguments=arguments, hints=tuple(parts["hints"]), solution=named(f"{name}_backward", ("dout", *arguments), right),
        routine=Routine(name, right, ("dout", *arguments), tuple(f"d{a}" for a in learned)), forward=forward,
        special=tuple(parts["special"]), limits=parts["limits"], file=str(path),
        derivatives=derivatives, shown_solution=solution_in(name, backward))
    drawn = try_out(exercise)
    if backward:
        compare_with_differences(exercise, drawn)
    mistakes = mistakes_of(parts["mistakes"], path, learned)
    check_mistakes(exercise, drawn, mistakes)
    return dataclasses.replace(exercise, routine=routine_with(exercise, drawn, mistakes, backward))


def named(name: str, arguments: tuple[str, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with this name and these arguments, as students see it."""

    def solution(*values):
        return function(*values)

    solution.__name__ = name
    solution.__signature__ = inspect.Signature(
        [inspect.Parameter(argument, inspect.Parameter.POSITIONAL_OR_KEYWORD) for argument in arguments])
    return solution


def solution_in(name: str, backward: Callable[..., Any] | None) -> str:
    if backward is None:
        return "The teacher's file has no solution.\n"
    return source_of(backward).replace(f"def {backward.__name__}(", f"def {name}_backward(", 1) + "\n"


def routine_with(exercise: OwnExercise, drawn: list[Inputs], own: tuple[Known, ...], backward: Callable[..., Any] | None
                 ) -> Routine:
    """The routine with the teacher's mistakes, and the edits of the teacher's backward; without that, the mistakes of a
    function of the library with the same values."""
    routine = dataclasses.replace(exercise.routine, mistakes=own)
    source = source_of(backward) if backward else ""
    if source.startswith("def "):  # a lambda is a part of a line
        program = Program(source, backward.__globals__, lambda made: made[backward.__name__])
        return dataclasses.replace(routine, edits=functools.cache(
            lambda: tuple(mistakes_in({*routine.arguments, *routine.results}, program))))
    library = next((known for known in ROUTINES.values() if is_function(known, exercise, drawn)), None)
    if library is None:
        return routine
    return dataclasses.replace(
        routine, right=lambda *arguments, **parts: (library.right if parts else routine.right)(*arguments, **parts),
        mistakes=own + library.mistakes, edits=library.edits)


def is_function(known: Routine, exercise: Exercise, drawn: list[Inputs]) -> bool:
    """Does it have the same values, and gradients for the same arguments?"""
    learned, wanted = ([f"d{name}" in one.results for name in one.arguments] for one in (known, exercise.routine))
    points = [copy_of(list(inputs.values())[1:]) for inputs in drawn]
    try:
        with np.errstate(all="ignore"):
            return learned == wanted and all(is_same(np.asarray(known.forward(*x)), exercise.forward(*x)) for x in points)
    except Exception:  # noqa: BLE001  the arguments do not fit
        return False


# The parts of the file.

def parts_of(names: dict[str, Any]) -> dict[str, Any]:
    """All PARTS; Flaw if a required one is missing, one is not what it should be, or a name looks like a misspelt part."""
    for name in names.keys() - PARTS.keys():
        nearest = difflib.get_close_matches(name, PARTS, 1, 0.85)
        if nearest and nearest[0] not in names:
            raise Flaw(f"there is {name!r}; did you mean {nearest[0]!r}?")
    for part in NEEDED:
        if part not in names:
            raise Flaw(f"{part} is missing; a file needs {', '.join(NEEDED)}")
    for part in filter(names.__contains__, PARTS):
        if not isinstance(names[part], kind := PARTS[part][0]):
            raise Flaw(f"{part} must be {KINDS.get(kind, 'a list')}, not {shown(names[part])}")
    parts = {part: names.get(part, default) for part, (_, default) in PARTS.items()}
    if not parts["statement"].strip():
        raise Flaw("statement is empty: say what is given, what to find, and why it matters")
    if not 1 <= parts["difficulty"] <= 5:
        raise Flaw(f"difficulty must be from 1 to 5, not {parts['difficulty']}")
    if len(parts["hints"]) != 3 or not all(isinstance(hint, str) for hint in parts["hints"]):
        raise Flaw("hints must be three strings, each more helpful than the one before; there are "
                   f"{len(parts['hints'])}")
    return parts


def arguments_of(file: dict[str, Any]) -> dict[str, Argument]:
    """The arguments of forward, in their order."""
    shapes, draws, about = file["shapes"], file["draw"], file["about"]
    parameters = list(inspect.signature(file["forward"]).parameters)
    signature = f"forward({', '.join(parameters)})"
    for part in ("shapes", "draw", "about", "constants"):
        for key in file[part]:
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


def check_limits(file: dict[str, Any]) -> None:
    letters = {letter for shape in file["shapes"].values() for letter in letters_of(shape)}
    for letter, most in file["limits"].items():
        if letter not in letters or not isinstance(most, int) or most < 1:
            raise Flaw(f"limits has {letter!r}: {most!r}; it is the largest size of a letter in shapes, such as {{'N': 4}}")


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


def learned_of(arguments: dict[str, Argument], constants: Iterable[str]) -> list[str]:
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
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and name not in constants:
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


# Its functions, in which anything that goes wrong is a Flaw, with the line of the file.

def watched(function: Callable, title: str, path: pathlib.Path) -> Callable:
    """The function, where an exception is a Flaw."""

    def call(*arguments):
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except Exception as error:  # noqa: BLE001  whatever the teacher's function does
            arrays = arguments if title == "forward" else arguments[1:]
            raise Flaw(f"{title} raises {told(error, path)}, for {shapes_in(arrays)}") from None

    return call


def one_array(forward: Callable) -> Callable:
    """forward, where a result other than one float64 array is a Flaw."""

    def call(*arguments):
        out = forward(*arguments)
        if not isinstance(out, (np.ndarray, np.floating, float)) or np.asarray(out).dtype != np.float64:
            kind = f"one of {out.dtype}" if isinstance(out, (np.ndarray, np.generic)) else shown(out)
            raise Flaw(f"forward must return one float64 array, not {kind}")
        return np.asarray(out)

    return call


def all_gradients(backward: Callable, title: str, learned: list[str]) -> Callable:
    """backward, where a result other than one array for each learned argument is a Flaw."""

    def call(*arguments):
        found = backward(*arguments)
        found = found if type(found) is tuple else (found,)
        if len(found) != len(learned) or not all(isinstance(g, (np.ndarray, np.floating, float)) for g in found):
            wanted = ", ".join(f"d{name}" for name in learned)
            raise Flaw(f"{title} must return {wanted}: an array for each argument that gets a gradient")
        return tuple(np.asarray(g) for g in found)

    return call


def mistakes_of(wrong: dict[str, Any], path: pathlib.Path, learned: list[str]) -> tuple[Known, ...]:
    """The teacher's own known mistakes."""
    found = []
    for name, entry in wrong.items():
        title = f"mistakes[{name!r}]"
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and callable(entry[1])):
            raise Flaw(f'{title} must be a sentence and a wrong backward: ("...", function)')
        found.append(Known(str(name), entry[0], {"instead": all_gradients(watched(entry[1], title, path), title, learned)}))
    return tuple(found)


# It is tried.

def try_out(exercise: Exercise) -> list[Inputs]:
    """Inputs to judge on, after checking forward on some."""
    generator = np.random.default_rng(0)
    samples = [exercise.draw(generator, plan) for plan in PLANS]
    for inputs in samples:
        look_at_forward(exercise, inputs)
    drawn = [inputs for seed in range(2) for inputs in exercise.inputs(seed)]
    if len(drawn) < len(PLANS):
        if sum(size_of(inputs) > MOST_ENTRIES for inputs in samples) > len(PLANS) // 2:
            raise Flaw(f"most inputs have more than {MOST_ENTRIES} entries, too many for finite differences: keep letters "
                       "small, such as limits = {'N': 3}, or add a backward")
        raise Flaw("forward is not differentiable at most points, or too rough for finite differences (kinks, jumps, "
                   f"noise): only {len(drawn)} of {2 * len(PLANS)} inputs can be judged; add a backward")
    for name in exercise.routine.results:
        if not any(np.any(exercise.right(inputs)[name]) for inputs in drawn):
            raise Flaw(f"{name} is always 0: forward does not depend on {name[1:]}; name it in constants, or leave it out")
    return drawn


def look_at_forward(exercise: Exercise, inputs: Inputs) -> None:
    """Does it give the same result each time, finite, without changing its arguments?"""
    arguments = list(inputs.values())[1:]
    copies = copy_of(arguments)
    out, again = exercise.forward(*copies), exercise.forward(*copy_of(arguments))
    for name, before, after in zip(exercise.arguments, arguments, copies):
        if isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=before.dtype.kind == "f"):
            raise Flaw(f"forward writes to its argument {name}; compute in a copy")
    if not np.array_equal(out, again, equal_nan=True):
        raise Flaw("forward gives another result when it is called again: it must not draw at random or keep anything; "
                   "make a random mask an argument")
    if not np.all(np.isfinite(out)):
        raise Flaw(f"forward gives NaN or infinity, for {shapes_in(arguments)}; draw can keep an argument 'positive'")


def compare_with_differences(exercise: Exercise, drawn: list[Inputs]) -> None:
    """Is the file's backward the derivative of forward, wherever differences are certain?"""
    learned = [name.removeprefix("d") for name in exercise.routine.results]
    derivatives = Derivatives(exercise.forward, [list(exercise.arguments).index(name) for name in learned])
    for inputs in drawn:
        if size_of(inputs) > MOST_ENTRIES:
            continue
        known = derivatives.known(*inputs.values())
        for name, given, numeric in zip(learned, exercise.right(inputs).values(), known.gradients):
            if given.shape != numeric.shape:
                raise Flaw(f"backward's d{name} has the shape {given.shape}, and {name} has {numeric.shape}")
            error = np.nan_to_num(np.abs(given - numeric), nan=np.inf)
            if known.is_certain and np.any(error > 1e-8 * np.max(np.abs(numeric), initial=1e-3)):
                index = np.unravel_index(np.argmax(error), error.shape)
                raise Flaw(f"backward is not the derivative of forward: d{name}[{', '.join(map(str, index))}] is "
                           f"{given[index]:.6g}, and finite differences give {numeric[index]:.6g}, for "
                           f"{shapes_in(list(inputs.values())[1:])}")


def check_mistakes(exercise: Exercise, drawn: list[Inputs], mistakes: tuple[Known, ...]) -> None:
    """Does each of them differ from the right backward?"""
    for known in mistakes:
        pairs = [pair for inputs in drawn for pair in zip(
            known.changes["instead"](*copy_of(list(inputs.values()))), exercise.right(inputs).values())]
        if all(a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-9) for a, b in pairs):
            raise Flaw(f"mistakes[{known.name!r}] gives the right gradients")


# The template, which is a complete exercise.

TEMPLATE = '''"""The exercise {name}. Try it as a student would:

    minigrad exercises start {name}_exercise.py
    minigrad exercises check {name}.py --exercise {name}_exercise.py
"""
import numpy as np

title = "A gate"
statement = """
Say in about five lines what is given, what to find, and why it matters. Here: a gate lets a part of x through, and each
column has its own. Find the gradients of x and of the gate.
"""
shapes = {{"x": "M N", "gate": "N"}}  # of forward's arguments; each letter is a size, drawn anew each time


def forward(x, gate):
    return x / (1 + np.exp(-gate))


# That is enough. Everything below is optional.

difficulty = 2  # 1 to 5; also the points for a right answer


def backward(dout, x, gate):  # the solution; without it, finite differences say what is right
    s = 1 / (1 + np.exp(-gate))
    return dout * s, (dout * x * s * (1 - s)).sum(axis=0)


def not_summed(dout, x, gate):
    s = 1 / (1 + np.exp(-gate))
    return dout * s, dout * x * s * (1 - s)


mistakes = {{  # wrong backwards, and what you would say to a student who wrote one
    "not summed": ("gate is used in each row: sum its gradient over the rows", not_summed),
}}
'''


def new(name: str, folder: str | pathlib.Path = ".") -> pathlib.Path:
    """Write NAME_exercise.py into the folder, unless it exists, and return its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     new("gate", folder).name
    'gate_exercise.py'
    """
    if not name.isidentifier() or name.endswith("_backward"):
        raise ValueError(f"{name!r} cannot name an exercise; use letters, digits and _, such as my_norm: students will "
                         "write my_norm_backward")
    path = pathlib.Path(folder) / f"{name}_exercise.py"
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except FileExistsError:
        raise ValueError(f"{path} already exists; choose another name") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
    return path
