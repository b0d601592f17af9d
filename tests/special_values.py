"""Is every digit right, of values and gradients, for tiny, huge and nearly equal numbers, whichever code computes them?

`assert_right(function, reference, inputs)` compares a function of Tensors with a reference, as naive.py has them, which runs on
arrays of `Exact` numbers: those have hundreds of digits, their own gradients, and a bound of the error that a careful computation in
floats may have, so that no tolerance is chosen.
"""
import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator

import mpmath
import numpy as np

import minigrad as mg
from minigrad.fast import IS_FAST
from naive import Constant, right

digits = mpmath.mp.clone()
STEP, UNKNOWN = digits.mpf("1e-40"), digits.mpf("1e10000")  # of differences; an error; both relative
ROUNDINGS = 8  # of each operation: kernels take polynomials for functions, and sums in any order
ages = itertools.count()


class Exact:
    """A number on a tape. Errors are those of a computation that rounds the result of each operation, and passes on the
    errors of its inputs, in units of `unit`. An input is (number, slope, error of the slope)."""

    unit = 0.0

    def __init__(self, value, inputs: tuple = (), error=0):
        self.value, self.inputs, self.error, self.age = digits.mpf(value), inputs, error, next(ages)
        self.gradient = self.terms = self.doubt = digits.zero  # the sum of all terms, the sum of their sizes, the error
        self.uses = 0

    def mapped(self, function: Callable) -> "Exact":
        """function(self), with slope and curvature by differences"""
        step = STEP * (abs(self.value) or 1)
        below, value, above = (real(function, self.value + k * step) for k in (-1, 0, 1))
        slope, bend = abs(above - below) / (2 * step), abs(above - 2 * value + below) / step**2
        is_known = bend * self.error * self.unit <= slope  # is the function nearly straight where it may be computed?
        error, doubt = (slope * self.error, bend * self.error) if is_known else (UNKNOWN * abs(value), UNKNOWN * slope)
        return Exact(value, ((self, (above - below) / (2 * step), slope + doubt),), abs(value) + error)

    def __getattr__(self, name: str) -> Callable:
        """np.exp of an array calls x.exp() of its elements"""
        function = getattr(digits, name)
        return lambda: self.mapped(function)

    def __add__(self, other):
        other = exact(other)
        rounding = abs(self.value) + abs(other.value) if self.value and other.value else 0
        return Exact(self.value + other.value, ((self, 1, 0), (other, 1, 0)), self.error + other.error + rounding)

    def __mul__(self, other):
        other = exact(other)
        (a, x), (b, y) = ((number, abs(number.value)) for number in (self, other))
        inputs = (a, b.value, b.error + y), (b, a.value, a.error + x)
        return Exact(a.value * b.value, inputs, x * b.error + y * a.error + x * y)

    def __pow__(self, power):
        if isinstance(power, Exact):
            return right(self.log() * power).exp()
        return self.mapped(lambda x: x**power)

    def constant(self): return Exact(self.value)
    def rounded_once(self, size): return Exact(self.value, ((self, 1, 0),), abs(exact(size).value))
    def __neg__(self): return Exact(-self.value, ((self, -1, 0),), self.error)
    def __abs__(self): return -self if self.value < 0 else self
    def __sub__(self, other): return self + -exact(other)
    def __rsub__(self, other): return exact(other) - self
    def __truediv__(self, other): return self * exact(other).mapped(lambda x: 1 / x)
    def __rtruediv__(self, other): return exact(other) / self
    def __rpow__(self, other): return exact(other) ** self
    def __floor__(self): return exact(digits.floor(self.value))
    def __trunc__(self): return -math.floor(-self) if self.value < 0 else math.floor(self)
    def __lt__(self, other): return self.value < exact(other).value
    def __le__(self, other): return self.value <= exact(other).value
    def __gt__(self, other): return self.value > exact(other).value
    def __ge__(self, other): return self.value >= exact(other).value

    __radd__, __rmul__ = __add__, __mul__


def exact(value) -> Exact:
    """A constant is rounded to the dtype of the floats that it is combined with, unless it is whole."""
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return value if isinstance(value, Exact) else Exact(value, (), 0 if abs(value) < 2**24 and value == round(value) else abs(value))


def real(function: Callable, x):
    """function(x); NaN outside of its domain"""
    try:
        value = function(x)
    except (ValueError, ZeroDivisionError):
        return digits.nan
    return value if isinstance(value, digits.mpf) else digits.nan


def backward(outputs: Iterable[Exact]) -> None:
    """Backpropagation from numbers whose gradients are known."""
    waiting, nodes = list(outputs), {}
    while waiting:
        node = waiting.pop()
        if node.age not in nodes:
            nodes[node.age] = node
            waiting += [number for number, *_ in node.inputs]
    for _, node in sorted(nodes.items(), reverse=True):
        node.doubt += node.terms if node.uses > 1 else 0  # of their sum
        for number, slope, doubt in node.inputs:
            number.gradient += slope * node.gradient
            number.terms += abs(slope) * node.terms
            number.doubt += abs(slope) * node.doubt + doubt * node.terms
            number.uses += 1


# ------------------------------------------------------------------------------------------------ functions of Tensors

SPECIAL: dict[str, Callable] = {  # of numbers near 1
    "as they are": lambda x: x,
    "times 10": lambda x: 10 * x,
    "1e-30": lambda x: 1e-30 * x,
    "near 1000": lambda x: 1000 + 0.1 * x,
    "1e10": lambda x: 1e10 * x,
    "1e25": lambda x: 1e25 * x,
    "denormal": lambda x: np.finfo(x.dtype).tiny / 64 * x,
    "mixed": lambda x: np.resize([1, 1e10, 1e-15, 1e3], x.shape) * x,
}
WAYS = {"eager": (contextlib.nullcontext, lambda step: step), "textbook": (mg.textbook, lambda step: step)}
if IS_FAST:
    WAYS |= {"compiled": (contextlib.nullcontext, mg.compile), "autocast": (lambda: mg.autocast("cpu"), lambda step: step)}


def is_array(x) -> bool:
    return isinstance(x, np.ndarray)


def gets_gradient(x) -> bool:
    return is_array(x) and not isinstance(x, Constant)


def special_inputs(inputs: list, dtype) -> Iterator[tuple[str, list]]:
    """The inputs with special values in all arrays, and in each one alone."""
    inputs = [x.astype(dtype) if is_array(x) else x for x in inputs]
    places = [i for i, x in enumerate(inputs) if gets_gradient(x)]
    for (name, change), some in itertools.product(SPECIAL.items(), [places, *([i] for i in places if len(places) > 1)]):
        changed = [np.asarray(change(x), dtype) if i in some else x for i, x in enumerate(inputs)]
        yield f"{name}, in {some}, {np.dtype(dtype)}", changed


def expected(reference: Callable, inputs: list, unit: float, is_rounded: bool) -> tuple[np.ndarray, list]:
    """The upstream gradient; then for the output and for each gradient a list of pairs (value, error)."""
    smallest = min(np.min(np.abs(x[x != 0]), initial=1) for x in inputs if is_array(x))
    digits.dps, Exact.unit = (150 if unit > 1e-7 else 450) + 2 * round(-math.log10(smallest)), unit

    def numbers(x):
        of = [Exact(value, (), abs(value) if is_rounded else 0) for value in x.astype(float).ravel().tolist()]
        return np.array(of, object).reshape(x.shape)

    leaves = [numbers(x) if is_array(x) else x for x in inputs]
    out = np.asarray(reference(*leaves), object)
    upstream = np.random.default_rng(3).standard_normal(out.shape).astype(np.float32)
    outputs = list(map(exact, out.flat))
    for number, dout in zip(outputs, upstream.ravel().tolist()):
        number.gradient, number.terms, number.uses = number.gradient + dout, number.terms + abs(dout), number.uses + 1
        number.doubt += abs(dout) if is_rounded else 0
    backward(outputs)
    gradients = [x for x, given in zip(leaves, inputs) if gets_gradient(given)]
    return upstream, [[(y.value, y.error) for y in outputs], *([(y.gradient, y.doubt) for y in x.flat] for x in gradients)]


def results(function: Callable, inputs: list, upstream: np.ndarray, layout: Callable, block: Callable, changed: Callable) -> list:
    """The output, and the gradients of the inputs, as arrays."""
    tensors = [mg.from_numpy(layout(np.asarray(x))).requires_grad_(gets_gradient(x)) if is_array(x) else x for x in inputs]
    leaves = [x for x in tensors if isinstance(x, mg.Tensor) and x.requires_grad]

    def step():
        out = function(*tensors)
        if out.requires_grad:
            out.backward(mg.from_numpy(upstream.astype(out.dtype)))
        return out.detach()

    step = changed(step)
    with block():
        for _ in range(2):  # captured, replayed
            for leaf in leaves:
                leaf.grad = None
            out = step()
    return [out.numpy()] + [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in leaves]


def is_right(got: float, value, error, unit: float, numbers: np.finfo) -> bool:
    if value != value:
        return got != got
    if abs(got) == math.inf or got != got:
        return abs(value) + error > float(numbers.max)  # the result overflows, or its terms
    return abs(got - value) <= unit * error + float(numbers.smallest_normal)


def assert_right(function: Callable, reference: Callable, inputs: list, layout: Callable = np.array, is_product: bool = False) -> None:
    """Values and gradients, in all ways. `is_product` says that the operands are rounded under autocast."""
    wrong, numbers = [], np.finfo(next(x.dtype for x in inputs if is_array(x)))
    for is_rounded in (False, True) if is_product and IS_FAST and numbers.bits == 32 else (False,):
        unit = ROUNDINGS * (2.0**-8 if is_rounded else float(numbers.eps))
        upstream, exact_results = expected(reference, inputs, unit, is_rounded)
        for way in [way for way in WAYS if (way == "autocast") == is_rounded]:
            found = results(function, inputs, upstream, layout, *WAYS[way])
            for i, (array, pairs) in enumerate(zip(found, exact_results, strict=True)):
                what = f"{way}, {f'gradient {i - 1}' if i else 'output'}"
                for got, (value, error) in zip(array.ravel().tolist(), pairs, strict=True):
                    is_undefined = i > 0 and value != value  # the gradient where the output is NaN
                    if not is_undefined and not is_right(got, value, error, unit, numbers):
                        wrong.append(f"{what}: {got} for {digits.nstr(value, 9)} +- {digits.nstr(unit * error, 2)}")
    assert not wrong, f"{len(wrong)} numbers: " + "; ".join(wrong[:3])
