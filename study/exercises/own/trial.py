"""A teacher's exercise is tried on some inputs before it judges anybody."""
import numpy as np

from study.exercises.exercise import PLANS, Exercise, Inputs
from study.exercises.worker.returned import copy_of
from study.mistakes.doctor import Known

from .derivatives import MOST_ENTRIES, Derivatives, size_of
from .flaw import Flaw, shapes_in


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
