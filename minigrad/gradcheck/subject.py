"""What is checked: a function of arrays, of any library, evaluated, moved and differentiated without side effects."""
import contextlib
import copy
import functools
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from .arguments import (
    as_inputs, by_name, described, flat, generator_for, input_names, is_by_name, items_of, mapped, named_items, same_bits,
    split, title_of,
)
from .blame import told
from .contract import CANCELLED, largest, nearly_equal
from .differences import along, noise_of, random_direction, size_of
from .libraries import MINIGRAD, NUMPY, Library, library_of, library_of_value
from .pair import WITH_VALUE, Pair, pair_of
from .report import index_of
from .state import State
from .time_limit import limited


VARIED = 0.3  # how far parameters that are one number everywhere are moved
SMALL_OUTPUT = 128  # up to this many outputs, each has a noise of its own
NOISE = 12  # errors of a value that its `noise` allows for
COARSE, COARSEST = 1e-9, 2.0**-6  # relative errors of values: more than float64 has; what no dtype has, but jumps
COARSE_ROUNDING = 64  # errors of values by which gradients that were computed in two ways may differ
LEAF: Any = object()  # stands for an input that gets a gradient


class Subject:
    """`function(leaves)` returns the floating-point outputs, as tensors of its library; `leaves` has their float64 arrays.

    Leaves are a module's parameters, by name, and those inputs that get a gradient. Moved in place, they move the function.
    Each evaluation starts from the same buffers and random states, so dropout draws the same mask every time.
    """

    def __init__(self, fn: Callable[..., Any], inputs: Sequence[Any], library: Library,
                 parameters: dict[str, Any] | None = None, select: Callable[[Any], Any] | None = None):
        self.fn, self.library, self.nest, self.select = fn, library, inputs, select
        self.title: str = library.title(title_of(fn))
        self.notes: list[str] = [*library.notes]
        parameters = library.parameters(fn) if parameters is None else parameters
        if library.has_hooks(fn):
            self.notes.append(f"{self.title} has backward hooks, and is checked with them")
        self.likes: list[Any] = [x for x in [*parameters.values(), *items_of(inputs)] if library.is_leaf(x)]
        self.parameters: list[str] = [name for name, x in parameters.items() if library.is_leaf(x)]
        self.leaves: dict[str, np.ndarray] = {name: self.array(parameters[name], name) for name in self.parameters}
        self.constants: dict[str, np.ndarray] = {
            name: library.view(x) for name, x in parameters.items() if name not in self.leaves}
        self.arguments: list[tuple[str, Any]] = []  # names and values in the function's order: leaves, arrays, numbers
        self.items: list[Any] = items_of([mapped(x, self.made, name) for x, name in zip(inputs, input_names(fn, inputs))])
        self.arguments += [(name, self.leaves[name]) for name in self.parameters]
        self.function: Callable[..., Any] = library.repeated(self.call)
        self.state: State = State(fn, *library.functions, *filter(callable, items_of(inputs)))
        self.refuse_unfit()
        self.before: list[np.ndarray] = [array.copy() for array in self.arrays()]

    def made(self, value: Any, name: str) -> Any:
        """What stands for an input in `items`."""
        is_tensor = self.library.is_tensor(value)
        while name in self.leaves or name in self.constants:
            name += "'"
        if is_tensor and self.library.is_leaf(value):
            self.leaves[name] = self.array(value, name)
            self.arguments.append((name, self.leaves[name]))
            return LEAF
        if is_tensor or isinstance(value, np.ndarray):
            is_copied = is_tensor and self.library.copies
            self.constants[name] = self.array(value, name) if is_copied else self.library.view(value)
            value = self.constants[name] if is_copied else value
        self.arguments.append((name, self.constants.get(name, value)))
        return value

    def array(self, value: Any, name: str) -> np.ndarray:
        """A copy of a tensor, in float64 if it is a leaf."""
        if reason := self.library.unsupported(value):
            raise TypeError(f"gradcheck: {name} {reason}")
        if self.library.has_hooks(value):
            self.notes.append(f"{name} has hooks, which are not run: gradients are checked as they are before")
        array = self.library.array(value)
        return array.astype(np.float64) if self.library.is_leaf(value) else array

    def refuse_unfit(self) -> None:
        """ValueError, in a line, for leaves that cannot be checked."""
        if not self.leaves:
            raise ValueError("gradcheck: no input or parameter requires a gradient; make one with requires_grad=True")
        for name, array in self.leaves.items():
            if lost := np.flatnonzero(np.isnan(array)).tolist():
                raise ValueError(f"gradcheck: {name}{index_of(lost[0], array.shape)} is NaN; give it a number, differences "
                                 "need one")

    def arrays(self) -> list[np.ndarray]:
        return [*self.leaves.values(), *self.constants.values()]

    def tensors(self) -> list[Any]:
        """The leaves as tensors of the library, which share their memory if it lets them. They require a gradient off the
        tape, too, as forward may ask."""
        return [self.library.tensor(x, like, True) for x, like in zip(self.leaves.values(), self.likes)]

    def call(self, leaves: Sequence[Any], items: Sequence[Any] | None = None, seed: int | None = None) -> list[Any]:
        """The library's own outputs. All calls draw the same random numbers, except those with a `seed`; `items` replace
        the inputs that are no leaves."""
        self.state.begin(seed)
        remaining = iter(leaves)
        parameters = {name: next(remaining) for name in self.parameters}
        values = iter([next(remaining) if item is LEAF else self.restored(item, given)
                       for item, given in zip(self.items if items is None else items, items_of(self.nest))])
        arguments = mapped(list(self.nest), lambda value, _: next(values), "")
        with limited(self.time_limit, "a call of the function"):
            result = self.library.call(self.fn, arguments, parameters)
        return floats_of(result if self.select is None else self.select(result), self.library)

    def restored(self, value: Any, given: Any) -> Any:
        """The tensor again, as a copy: running averages may be written to."""
        is_copied = self.library.copies and self.library.is_tensor(given)
        return self.library.tensor(value.copy(), given) if is_copied else value

    def values(self) -> np.ndarray:
        """All outputs, as a vector."""
        return flat(map(self.library.array, self.library.run(self.function, self.tensors()))).astype(np.float64)

    def backward(self, upstreams: Sequence[np.ndarray]) -> "Subject":
        """The gradients, as a function of the leaves and of an upstream for each output, to be differentiated again."""
        outputs, again = self.library.run(self.function, self.tensors()), copy.copy(self)
        names = [f"grad_outputs[{k}]" for k in range(len(upstreams))]
        again.title, again.is_backward = f"the backward of {self.title or 'fn'}", True
        again.leaves = {**self.leaves, **dict(zip(names, upstreams))}
        again.arguments = [*self.arguments, *zip(names, upstreams)]
        again.likes = [*self.likes, *outputs]
        again.function = self.library.repeated(self.library.derivative(self.call, len(self.likes)))
        again.before = [array.copy() for array in again.arrays()]
        return again

    time_limit: float = 60.0
    coarseness = 0.0  # the relative error of a backward that computes in float32, where that is no mistake
    is_backward = False
    is_repeatable = False  # does another backward of the same recording give the same? Else each gets its own
    is_random = False  # do backwards differ even then?
    touched = ""  # a leaf or constant that a backward has changed

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, all is restored afterwards."""
        before = self.before
        try:
            with self.state.preserved():
                yield
        finally:
            self.before = before
            self.restore()

    def restore(self, before: Sequence[np.ndarray] | None = None) -> None:
        """Restore leaves and constants to what they were at the beginning, or `before`."""
        for array, old in zip(self.arrays(), self.before if before is None else before):
            if not same_bits(array, old):  # so that read-only arrays are not written to
                array[...] = old

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Leaves and constants that a backward changes inside are noted, and put back."""
        before = [array.copy() for array in self.arrays()]
        try:
            yield
        finally:
            self.touched = self.touched or self.changed(before)
            self.restore(before)

    def vary(self, generator: np.random.Generator) -> list[str]:
        """Add random numbers to parameters that are one number everywhere, as those of a new norm are, which hides
        mistakes: its weight of 1 could be missing. `restore` comes back here. Returns what has been done."""
        found = []
        for name in self.parameters:
            array = self.leaves[name]
            if array.size > 1 and np.ptp(array) == 0:
                found.append(f"{name} is {array.flat[0]:g} everywhere: checked where it is random")
                array += VARIED * generator.standard_normal(array.shape)
        if found:
            self.before = [array.copy() for array in self.arrays()]
        return found

    def changed(self, before: Sequence[np.ndarray]) -> str:
        """Which leaf or constant has been changed since `before`? "" if none."""
        arrays = zip([*self.leaves, *self.constants], self.arrays(), before)
        return next((f"{name} has been changed" for name, array, old in arrays if not same_bits(array, old)), "")

    def move(self, generator: np.random.Generator, upward: bool) -> None:
        """Go to a point nearby, to get away from kinks. Infinities stay where they are."""
        for leaf in self.leaves.values():
            noise = generator.standard_normal(leaf.shape)
            step = 0.03 * np.maximum(np.abs(leaf), 0.3) * (np.abs(noise) if upward else noise)
            leaf += np.where(np.isfinite(leaf), step, 0.0)

    def roll(self) -> None:
        """Give each number of a leaf to the next one: what is chosen by its size is then at another place."""
        for leaf in self.leaves.values():
            leaf[...] = np.roll(leaf, 1)


class Record:
    """One evaluation of a subject that can be differentiated: `outputs` are its arrays in float64."""

    def __init__(self, subject: Subject):
        self.subject, self.library = subject, subject.library
        self.names: list[str] = list(subject.leaves)
        self.record()
        self.outputs: list[np.ndarray] = [self.library.array(out).astype(np.float64) for out in self.tensors]
        self.is_known: list[bool] = list(map(self.library.is_leaf, self.tensors))  # can the library differentiate it?
        self.size: int = sum(out.size for out in self.outputs)
        note = "" if subject.is_backward else self.library.unchecked(subject.fn, self.tensors, self.leaves)
        if note and note not in subject.notes:
            subject.notes.append(note)
        self._jacobians: list[np.ndarray] | None = None
        self.raised: str = ""  # what backward says to the upstreams that the Jacobian takes

    def record(self) -> None:
        """Call the function where its leaves are now."""
        self.leaves: list[Any] = self.subject.tensors()
        self.tensors, self.pullback = self.library.record(self.subject.function, self.leaves)
        self.is_spent: bool = False  # has a backward run?

    def prepare(self) -> None:
        """Record again unless a backward may run on what there is: one may have written to what forward kept."""
        if self.is_spent and not self.subject.is_repeatable:
            self.record()
        self.is_spent = True

    def differentiate(self, generator: np.random.Generator, digits: int | None = None) -> "Record":
        """Set a random `upstream`, and `gradients` from backward. Where an output is infinite, as masked scores are, the
        upstream is 0. With `digits`, its numbers have that many binary places, so that narrow dtypes hold them exactly."""
        drawn = generator.standard_normal(self.size)
        rounded = drawn if digits is None else np.round(drawn * 2**digits) / 2**digits
        self.upstream: np.ndarray = np.where(np.isfinite(flat(self.outputs)), rounded, 0.0)
        self.gradients: list[np.ndarray] = self.backward(self.upstream)
        return self

    def parts(self, upstream: np.ndarray) -> list[np.ndarray]:
        """A copy for each output."""
        return [np.array(part, order="C") for part in split(upstream, self.outputs)]

    def pulled(self, upstreams: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        """The gradient for each leaf, None where none arrives, from an upstream for each output, which lies in memory as it
        is given."""
        self.prepare()
        with self.subject.watched(), limited(self.subject.time_limit, "a backward"):
            return self.pullback(upstreams)

    def again(self) -> list[np.ndarray]:
        """Another backward of the same recording."""
        self.is_spent = False  # else `prepare` would record again
        return self.backward(self.upstream)

    def backward(self, upstream: np.ndarray) -> list[np.ndarray]:
        """The gradient of sum(outputs * upstream) for each leaf, zeros if none arrived."""
        return [np.zeros(x.shape) if g is None else np.array(g, np.float64)
                for x, g in zip(self.subject.leaves.values(), self.pulled(self.parts(upstream)))]

    def recorded(self) -> list[np.ndarray]:
        """The gradients as the library computes them where they can be differentiated again."""
        upstreams = [self.library.tensor(u, out) for u, out in zip(self.parts(self.upstream), self.tensors)]
        backward = self.library.derivative(self.subject.function, len(self.leaves))
        return list(map(self.library.array, self.library.run(backward, [*self.subject.tensors(), *upstreams])))

    def rows(self, outputs: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """For each leaf, these outputs' rows of the Jacobian, (outputs, elements), by one backward each."""
        found = [self.backward(np.eye(1, self.size, k)[0]) for k in outputs]
        return [np.array([row[i].reshape(-1) for row in found]).reshape(len(found), leaf.size)
                for i, leaf in enumerate(self.subject.leaves.values())]

    @property
    def jacobians(self) -> list[np.ndarray]:
        """For each leaf, (all outputs, elements); none if backward raises."""
        if self._jacobians is None:
            try:
                self._jacobians = self.rows(range(self.size))
            except Exception as error:  # noqa: BLE001
                self._jacobians, self.raised = [], told(error)
        return self._jacobians

    @functools.cached_property
    def terms(self) -> float:
        """The largest number on the way back: where gradients cancel, about 1e-16 of it remains."""
        self.prepare()
        return self.library.terms(self.tensors, self.parts(self.upstream))

    @functools.cached_property
    def noise(self) -> np.ndarray:
        """How far off each output may be, if there are few, and `projected`.

        Each output's is measured on its own, as a sum of thousands jumps almost anywhere if each does so now and then.
        """
        def evaluate():
            try:
                values = self.subject.values()
            except Exception:  # noqa: BLE001  outside of the domain
                values = np.full(self.size, np.nan)
            return np.append(values, np.sum(self.weighted(values)))

        generator, leaves, centre = generator_for(self.size), list(self.subject.leaves.values()), flat(self.outputs)
        found = noise_of(along(evaluate, leaves, [random_direction(leaf, generator) for leaf in leaves]), evaluate())
        sizes = np.append(np.full(self.size, size_of(centre)), np.linalg.norm(np.nan_to_num(self.weighted(centre))))
        found[found > NOISE * COARSEST * sizes] = 0.0  # a jump
        return found if self.size <= SMALL_OUTPUT else np.array([np.linalg.norm(self.weighted(found[:-1]))])

    @functools.cached_property
    def precision(self) -> float:
        """The relative error of values, if it is coarser than float64's, as where something is float32; else 0."""
        found = self.noise[-1] / NOISE / (np.linalg.norm(np.nan_to_num(self.weighted(flat(self.outputs)))) or 1.0)
        return float(found) if found > COARSE else 0.0

    def typical(self, i: int) -> float:
        """The derivative by leaf i that changes the output as much as the largest one, if each moves by its own size."""
        sizes = list(map(size_of, self.subject.leaves.values()))
        return max(largest(gradient) * size for gradient, size in zip(self.gradients, sizes)) / sizes[i]

    @functools.cached_property
    def rounding(self) -> float:
        """By how much two ways of computing the same gradient may differ, beyond its own last digits."""
        sizes = self.terms, *map(largest, self.gradients)
        return max(CANCELLED * self.terms, COARSE_ROUNDING * max(self.precision, self.subject.coarseness) * max(sizes))

    def refuse_infinities(self) -> None:
        """ValueError if an input is infinite where its gradient is not a number either. Masked scores may be."""
        for (name, leaf), gradient in zip(self.subject.leaves.items(), self.gradients):
            if lost := np.flatnonzero(np.isinf(leaf) & ~np.isfinite(gradient)).tolist():
                place = f"{name}{index_of(lost[0], leaf.shape)}"
                raise ValueError(f"gradcheck: {place} is infinite, and has no derivative; give finite inputs")

    def is_finite(self) -> bool:
        return all(np.all(np.isfinite(g)) for g in [*self.outputs, *self.gradients])

    def is_sum_of_rows(self) -> bool:
        """Do the Jacobian's rows, if they have been computed, add up to backward(upstream)?"""
        return not self._jacobians or not self.is_finite() or not self.differs(
            [(self.upstream @ jacobian).reshape(g.shape) for jacobian, g in zip(self._jacobians, self.gradients)])

    def differs(self, got: Sequence[np.ndarray], expected: Sequence[np.ndarray] | None = None) -> str:
        """The name of the first gradient that is not as expected, and by how much; "" if there is none."""
        for name, x, y in zip(self.names, self.gradients if expected is None else expected, got, strict=True):
            if not nearly_equal(x, y, self.rounding):
                return f"{name} differs by up to {largest(x - y):.3g} of {largest(x):.3g}"
        return ""

    def projected(self) -> np.ndarray:
        """The single number whose gradient is backward(upstream)."""
        return np.sum(self.weighted(self.subject.values()), keepdims=True)

    def weighted(self, values: np.ndarray) -> np.ndarray:
        """Each output times its upstream, which is 0 for infinities."""
        return np.where(self.upstream == 0, 0.0, values * self.upstream)


class Given(NamedTuple):
    """A function and its inputs, as a user gives them to a check."""

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    library: Library

    @classmethod
    def of(cls, fn: Any, inputs: Any) -> "Given":
        """ValueError or TypeError, in a line, for what cannot be checked."""
        library = library_of(fn, as_inputs(inputs))
        is_pair, may_be_layer = isinstance(fn, (tuple, list)), library is NUMPY or not callable(fn)
        pair = callables(fn) if is_pair else pair_of(fn) if may_be_layer else None
        fn = pair[0] if pair else function_of(fn, library)
        if is_by_name(fn, inputs):
            fn, inputs = by_name(fn, inputs)
        given = cls(fn, as_inputs(inputs), library)
        given.refuse_mixtures()
        if pair:
            given, _ = given.as_pair(Pair(*pair, library))
        elif library is NUMPY:
            found, is_settled = given.as_pair(Pair(fn, lambda gradients: gradients, library, WITH_VALUE))
            given = found if is_settled else given
        library = given.library
        if not (given.leaves or library is MINIGRAD and library.owns(fn)):
            items = items_of(given.inputs)
            came = ", ".join(map(described, items[:3])) or "nothing"
            has_arrays = any(isinstance(x, np.ndarray) for x in items)
            if library.owns(fn) and has_arrays and not any(map(library.is_tensor, items)):
                raise TypeError(f"gradcheck: {title_of(fn)} takes tensors of {library.name}; got {came}")
            raise ValueError(f"gradcheck: no input or parameter requires a gradient; {library.needs}; got {came}")
        return given

    def as_pair(self, pair: Pair) -> tuple["Given", bool]:
        """With the library's tensors as arrays; those that require no gradient, if others do, are constants."""
        inputs = [mapped(x, lambda item, _: self.library.array(item) if self.library.is_tensor(item) else item, "")
                  for x in self.inputs]
        given = named_items(dict(zip(input_names(self.fn, self.inputs), self.inputs)))
        learned = [name for name, x in given if self.library.is_leaf(x)]
        is_settled = pair.settle(self.fn, inputs, [name for name, _ in given if name not in learned] if learned else ())
        return Given(self.fn, inputs, pair), is_settled

    def refuse_mixtures(self) -> None:
        found = {known for known in (self.library, *map(library_of_value, items_of(self.inputs))) if known is not None}
        if len(found) > 1:
            came = " and ".join(sorted(known.name for known in found))
            raise TypeError(f"gradcheck: the function and its inputs come from {came}; use one library")

    @property
    def leaves(self) -> list[Any]:
        """Tensors that get a gradient."""
        return [x for x in [*items_of(self.inputs), *self.library.parameters(self.fn).values()] if self.library.is_leaf(x)]

    @property
    def is_narrow(self) -> bool:
        """Is something that gets a gradient of another dtype than float64?"""
        return any(map(self.library.is_narrow, self.leaves))

    def subject(self, **options: Any) -> Subject:
        return Subject(*self, **options)

    def widened(self) -> "Given":
        """In float64; call it, and what uses the result, inside `library.wide()`."""
        return Given(*self.library.widened(self.fn, self.inputs), self.library)


def function_of(fn: Any, library: Library) -> Callable[..., Any]:
    """What to call where a user gives `fn`; TypeError if it is no function."""
    if library.is_function(fn):
        return fn.apply
    if library.is_function(type(fn)):
        raise TypeError(f"gradcheck: the function is an instance of {type(fn).__name__}; give the class itself")
    if isinstance(fn, type):
        raise TypeError(f"gradcheck: {fn.__name__} is a class, and not an autograd Function; give a function, or an "
                        f"instance that can be called, as {fn.__name__}(...)")
    if not callable(fn):
        raise TypeError(f"gradcheck: expected a function, got {described(fn)}; in NumPy, give a pair (forward, backward)")
    return fn


def callables(pair: Sequence[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if len(pair) != 2 or not all(map(callable, pair)):
        came = ", ".join(getattr(part, "__name__", described(part)) for part in pair)
        raise TypeError(f"gradcheck: expected a pair of functions (forward, backward), got ({came})")
    forward, backward = pair
    return forward, backward


def floats_of(result: Any, library: Library) -> list[Any]:
    """The floating-point tensors among a function's results; TypeError if there are none, or unsupported ones."""
    tensors = [item for item in items_of(result) if library.is_tensor(item)]
    if reason := next(filter(None, map(library.unsupported, tensors)), ""):
        raise TypeError(f"gradcheck: what the function returns {reason}")
    floats = [item for item in tensors if library.kind(item) == "f"]
    if not floats:
        raise TypeError(f"gradcheck: the function must return a floating-point tensor of {library.name}, or several in a "
                        f"tuple, list or dict; got {described(tensors[0] if tensors else result)}")
    return floats
