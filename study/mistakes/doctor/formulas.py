"""Relations in the names of the inputs: which formula gives the numbers, which would be right, and what would mend them.

Each formula is computed before it is said. It takes the inputs, the upstream gradient `dout`, and the `output`, if that is
known, as it is in a check of someone's function.
"""
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from .case import Case, Expected, Seen, arrays_of, fits

Numbers = dict[str, np.ndarray]


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # of an input or the output, the likeliest first
    "{}": lambda a: a, "({} > 0)": lambda a: a > 0, "{}**2": np.square, "(1 - {})": lambda a: 1 - a,
    "(1 - {}**2)": lambda a: 1 - a**2, "{} * (1 - {})": lambda a: a * (1 - a), "exp({})": np.exp, "log({})": np.log,
    "sqrt({})": np.sqrt, "cos({})": np.cos, "sin({})": np.sin, "(1 + {})": lambda a: 1 + a,
    "(1 + {}**2)": lambda a: 1 + a**2, "({} < 0)": lambda a: a < 0, "sigmoid({})": sigmoid,
    "sigmoid({}) * (1 - sigmoid({}))": lambda a: sigmoid(a) * sigmoid(-a), "tanh({})": np.tanh,
    "(1 - tanh({}))": lambda a: 1 - np.tanh(a), "(1 - tanh({})**2)": lambda a: 1 - np.tanh(a)**2, "softmax({})": softmax,
}
FACTORS = {1.0: "{}", -1.0: "-{}", 2.0: "2 * {}", -2.0: "-2 * {}", 0.5: "{} / 2", -0.5: "-{} / 2"}
ENOUGH_SIGNS = 10  # fewer may be those of a mask by chance
MOST_NUMBERS = 1000  # of a gradient: formulas of larger ones are not looked for


def has_other_formula(case: Case, name: str, reference: Expected) -> str | None:
    """Both what was given and what is right have a formula."""
    given = formula_of(case, name, lambda seen: seen.given[name])
    right = formula_of(case, name, reference) if given else None
    return f"{{is}} {given}, and should be {right}" if right else None


def has_formula(case: Case, name: str, reference: Expected) -> str | None:
    given = formula_of(case, name, lambda seen: seen.given[name])
    return f"{{is}} {given}" if given else None


def is_mended(case: Case, name: str, reference: Expected) -> str | None:
    """A factor that is missing or too much, a mean or another part that is not subtracted."""
    pieces = usable(case, name)
    if not any(np.any(reference(seen)) for seen in pieces):
        return None
    for options in zip(*(mends(seen.given[name], seen) for seen in pieces)):
        if all(np.all(case.agreement(mend(), reference(seen))) for (_, mend), seen in zip(options, pieces)):
            return f"{{is}} right if {options[0][0]}"
    return None


def is_in_another_order(case: Case, name: str, reference: Expected) -> str | None:
    pieces = usable(case, name)
    is_so = pieces and all(np.all(case.agreement(np.sort(seen.given[name], None), np.sort(reference(seen), None)))
                           for seen in pieces)
    return "{has} the right numbers in another order, as after a reshape where a transpose is due" if is_so else None


def usable(case: Case, name: str) -> list[Seen]:
    """The evidence, if there is an output, and if all that was given has the right shape."""
    pieces = case.pieces(name)
    is_usable = all(seen.output is not None and seen.right[name].size <= MOST_NUMBERS
                    and np.shape(seen.given[name]) == seen.right[name].shape for seen in pieces)
    return pieces if is_usable else []


def formula_of(case: Case, name: str, numbers: Expected) -> str | None:
    """What gives these numbers, with the sum over axes that the result does not have, and a factor."""
    pieces = usable(case, name)
    targets = [numbers(seen) for seen in pieces]
    for options in zip(*map(formulas, pieces)):
        said = ""
        for (text, compute), target in zip(options, targets):
            found = in_form(compute(), target.shape, text)
            fitting = [factor for factor in FACTORS if found and np.all(case.agreement(factor * found[1], target))]
            if not (found and fitting and np.any(target)):
                break
            said = said or FACTORS[fitting[0]].replace("{}", found[0])
            if said != FACTORS[fitting[0]].replace("{}", found[0]):
                break
        else:
            return said
    return None


def in_form(found: np.ndarray, shape: tuple[int, ...], text: str) -> tuple[str, np.ndarray] | None:
    """The array in this shape: summed over what was broadcast, or the same numbers; None if it cannot be."""
    if found.shape == shape:
        return text, found
    if found.size == np.prod(shape) and [n for n in found.shape if n > 1] != [n for n in shape if n > 1]:
        return f"({text}).reshape{shape}", found.reshape(shape)
    padded = (1,) * (found.ndim - len(shape)) + shape
    axes = tuple(i for i, (n, m) in enumerate(zip(found.shape, padded)) if m == 1 and n > 1)
    if found.ndim < len(shape) or any(n != m and m != 1 for n, m in zip(found.shape, padded)):
        return None
    over = ", ".join(map(str, axes))
    return f"({text}).sum({over if len(axes) == 1 else f'({over})'})", found.sum(axes).reshape(shape)


def formulas(seen: Seen) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Of what is linear in dout: products with values of the inputs, and matrix products with them."""
    dout, values, plain = seen.inputs["dout"], values_of(seen, seen.inputs["dout"].shape), plain_of(seen)
    yield "dout", lambda: dout
    for text, value in values.items():
        yield f"dout * {text}", lambda value=value: dout * value
    for text, value in values.items():
        yield f"dout / {text}", lambda value=value: dout / value
    matrices, upstreams = matrices_of(plain), matrices_of({"dout": dout})
    for (a, left), (b, right) in itertools.product(matrices.items(), upstreams.items()):
        yield f"{b} @ {a}", lambda left=left, right=right: product(right, left)
        yield f"{a} @ {b}", lambda left=left, right=right: product(left, right)
    for (a, first), (b, second) in itertools.combinations(values.items(), 2):
        yield f"dout * {a} * {b}", lambda first=first, second=second: dout * first * second


def mends(given: np.ndarray, seen: Seen) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """What may make a gradient right."""
    values = values_of(seen, given.shape)
    for text, value in values.items():
        if given.size < ENOUGH_SIGNS and text.endswith(("> 0)", "< 0)")):
            continue
        yield f"multiplied by {text}", lambda value=value: given * value
        yield f"divided by {text}", lambda value=value: given / value
    for axis in range(given.ndim):
        yield f"its mean over axis {axis} is subtracted", lambda axis=axis: given - given.mean(axis, keepdims=True)
        yield f"flipped along axis {axis}", lambda axis=axis: np.flip(given, axis)
        for text, value in values.items():
            yield (f"{text} times its sum over axis {axis} is subtracted",
                   lambda axis=axis, value=value: given - value * given.sum(axis, keepdims=True))
            yield f"its part along {text} over axis {axis} is subtracted", lambda axis=axis, value=value: given - (
                value * (given * value).sum(axis, keepdims=True) / np.square(1.0 * value).sum(axis, keepdims=True))


def plain_of(seen: Seen) -> Numbers:
    return {**arrays_of(seen.inputs), "output": seen.output}


def values_of(seen: Seen, shape: tuple[int, ...]) -> Numbers:
    """Values of inputs and the output that can be multiplied with an array of this shape, by what they are called."""
    found = {}
    for name, array in plain_of(seen).items():
        if array.dtype.kind not in "fb":
            continue
        if array.ndim and array.shape == shape[:-1]:
            name, array = f"{name}[..., None]", array[..., None]
        if array.size > 1 and fits(array.shape, shape):
            array = np.broadcast_to(array, shape)
            found |= {text.replace("{}", name): of(array) for text, of in VALUES.items()
                      if array.dtype.kind == "f" or text == "{}"}
    return found


def matrices_of(arrays: Numbers) -> Numbers:
    """Float arrays as factors of a product: as they are, as rows, and transposed."""
    found = {}
    for name, array in arrays.items():
        if array.ndim < 2 or array.dtype.kind != "f":
            continue
        found |= {name: array, f"{name}.mT" if array.ndim > 2 else f"{name}.T": np.swapaxes(array, -1, -2)}
        if array.ndim > 2:
            rows = {"rows": array.reshape(-1, array.shape[-1]), "first rows": array.reshape(len(array), -1)}
            found |= {f"{name}.reshape{as_rows.shape}": as_rows for as_rows in rows.values()}
            found |= {f"{name}.reshape{as_rows.shape}.T": as_rows.T for as_rows in rows.values()}
    return found


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Nothing if they do not fit."""
    try:
        return a @ b
    except ValueError:
        return np.empty(0)
