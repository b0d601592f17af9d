"""A forward and a backward as a library of one function: of NumPy arrays, or of another library's tensors."""
import contextlib
import itertools
from dataclasses import replace
from types import ModuleType
from typing import Any, Callable, ContextManager, Iterator, Mapping, Sequence

import numpy as np

from .arguments import described, input_names, items_of, mapped, named_items, title_of
from .blame import spare
from .contract import contract
from .conventions import (
    ALONE, METHODS, OF_LAYERS, PLAIN, TABLE, WITH_VALUE, Convention, Run, bare, bound, listed, names_returned,
)
from .fit import UnfitGradients, fitted
from .layers import Path, arrays_in, copied, get, held, is_gradient_of, put
from .libraries import NUMPY, Flat, Leaves, Library, Pullback, Values
from .state import State

spare(__file__)

STEP, CLOSE = 1e-4, 1e-3  # of the slope that tells conventions apart, where several run
CONSTANTS = {"y", "t", "target", "targets", "label", "labels", "y_true", "mask"}  # may lack a gradient, as nests may


class Pair(Library):
    """forward(*inputs) -> out with backward(dout, *inputs), or forward(*inputs) -> (out, cache) with backward(dout, cache),
    or another convention of those in conventions.py: found out by trying.

    Several outputs are a tuple, and backward gets an upstream gradient for each. It returns a gradient for each input, or
    for each array of floats among them, in order.

    >>> from minigrad.gradcheck import gradcheck
    >>> gradcheck((np.tanh, lambda dout, x: dout * (1 - np.tanh(x) ** 2)), np.array([0.3, -0.8]))
    True
    """

    needs = "give a pair (forward, backward) an array of floats for each argument"
    copies = False

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any], host: Library = NUMPY,
                 table: Sequence[Convention] = TABLE):
        self.forward = forward
        self.backward = backward
        self.functions = (backward,)
        self.host = host
        layer, other = map(layer_of, (forward, backward))
        self.is_layer: bool = layer is other and not isinstance(layer, (type, ModuleType, type(None)))
        self.table: Sequence[Convention] = OF_LAYERS if self.is_layer else table
        self.convention: Convention = self.table[0]
        self.constants: list[Any] = []  # arrays of floats that get no gradient
        self.places: dict[str, tuple[list[Path], Path]] = {}  # where a layer has its parameters, and their gradients
        self.others: list[Any] = []  # what a layer's backward has returned beside the inputs' gradients
        self.last = Run({}, (), ())

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def is_leaf(self, value: Any) -> bool:
        return self.is_tensor(value) and value.dtype.kind in "fc" and not any(value is x for x in self.constants)

    def unsupported(self, tensor: Any) -> str:
        if not self.is_leaf(tensor) or tensor.dtype in (np.float64, np.float32):
            return ""
        return f"does not fit: a pair (forward, backward) takes float64 and float32; got {described(tensor)}"

    def wide(self) -> ContextManager[Any]:
        return self.host.wide()

    def title(self, name: str) -> str:
        return super().title(type(layer_of(self.forward)).__name__ if self.is_layer else name)

    def parameters(self, fn: Any) -> dict[str, Any]:
        return {name: get(layer_of(fn), paths[0]) for name, (paths, _) in self.places.items()}

    def widened(self, fn: Any, inputs: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
        fn, wide = super().widened(fn, inputs)
        pairs = zip(items_of(wide), items_of(inputs))
        self.constants += [x for x, given in pairs if any(given is constant for constant in self.constants)]
        if self.is_layer:
            layer = copied(layer_of(fn))
            for path, array in arrays_in(layer):
                put(layer, path, array.astype(np.float64))
            fn = getattr(layer, fn.__name__)
        return fn, wide

    def invoke(self, function: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any] = {}) -> Any:
        """Call the user's function, with tensors of its own library; arrays come back."""
        if self.host is NUMPY:
            return function(*positional, **named)
        def as_tensor(x: Any, _: str) -> Any:
            if not isinstance(x, np.ndarray):
                return x
            return self.host.tensor(x if x.flags.writeable and min(x.strides, default=0) >= 0 else x.copy(), None)

        positional, named = mapped((list(positional), dict(named)), as_tensor, "")
        return mapped(function(*positional, **named), lambda x, _: self.host.array(x) if self.host.is_tensor(x) else x, "")

    def ran(self, fn: Callable[..., Any], arguments: Sequence[Any], layer: Any) -> Run:
        """A call of forward, by the convention; of a layer's, if it is not None."""
        result = self.invoke(fn if layer is None else getattr(layer, fn.__name__), arguments)
        result = result if isinstance(result, tuple) else (result,)
        outputs, cache = self.convention.split(result)
        is_array = [isinstance(out, (np.ndarray, np.generic, float)) for out in outputs]
        if not all(is_array) or not any(np.asarray(out).dtype.kind == "f" for out in outputs):
            raise TypeError(f"gradcheck: {self.title(title_of(fn))} must return an array of floats, or a tuple of arrays; "
                            f"got {', '.join(map(described, result))}")
        outputs = list(map(np.asarray, outputs))
        return Run(dict(zip(input_names(fn, arguments), arguments)), outputs, cache, outputs, layer)

    def call(self, fn: Callable[..., Any], arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
        layer = copied(layer_of(fn)) if self.is_layer else None
        for name, array in parameters.items():
            for path in self.places[name][0]:
                put(layer, path, array.copy())
        self.last = self.ran(fn, arguments, layer)
        return self.last.outputs

    def record(self, function: Flat, leaves: Leaves) -> tuple[Values, Pullback]:
        values = function(leaves)
        run = self.last
        return values, lambda upstreams: self.gradients(run, upstreams)

    def gradients(self, run: Run, upstreams: Sequence[Any]) -> list[Any]:
        """Those of a layer's parameters, then those of the inputs."""
        given, convention = iter(upstreams), self.convention
        run = replace(run, layer=copied(run.layer), douts=[
            np.asarray(next(given) if out.dtype.kind == "f" else np.zeros(out.shape), out.dtype) for out in run.outputs])
        backward = self.backward if run.layer is None else getattr(run.layer, self.backward.__name__)
        for _, place in self.places.values():
            if isinstance(old := get(run.layer, place), np.ndarray):
                old[...] = 0  # which backward may add to
        if convention.arguments is ALONE.arguments and run.layer is None:
            self.invoke(self.forward, list(run.inputs.values()))
        arguments = bound(convention, run, backward)
        if arguments is None:
            tried = dict.fromkeys(row.said for row in self.table)
            raise UnfitGradients(f"{title_of(backward)} takes none of {', '.join(tried)}")
        found = self.invoke(backward, *arguments)
        if found is None and run.layer is not None:
            found = {key: value for key, value in held(run.layer).items() if bare(str(key))}
        if convention.is_slope:
            found = mapped(found, lambda g, _: run.douts[0] * g, "")
        names, items = zip(*named_items(run.inputs))
        learned, came = [name in convention.learned for name in names], listed(found, convention)
        if len(run.inputs) == len(came) == 1 < sum(learned):  # one array for a list of inputs
            came = list(came[0])
        n = sum(learned) if run.layer is not None else len(came)
        self.last, self.others = run, came[n:]
        gradients = fitted(tuple(came[:n]), items, names, learned, learned, run.outputs)
        return [*map(self.of_parameter, self.places), *(g for g, is_one in zip(gradients, learned) if is_one)]

    def of_parameter(self, name: str) -> Any:
        """Its gradient, after a backward."""
        (place, *_), where = self.places[name]
        layer = self.last.layer
        x, g = get(layer, place), np.asarray(get(self.others if isinstance(where[0], int) else layer, where))
        g = g.reshape(x.shape) if g.size == x.size else g
        return fitted((g,), [x], [name], [True], [True], self.last.outputs)[0]

    def settle(self, fn: Callable[..., Any], arguments: Sequence[Any], constants: Sequence[str] = ()) -> bool:
        """Find the convention by trying; is there one? Else the check itself says what does not fit."""
        self.is_layer &= hasattr(fn, "__self__")
        given = named_items(dict(zip(input_names(fn, arguments), arguments)))
        floats = [name for name, x in given if self.is_leaf(x) and name not in constants]
        self.convention = self.convention._replace(learned=floats)
        _, wide = super().widened(fn, arguments)
        with State(fn, self.backward).preserved(), contextlib.suppress(Exception):
            fits = self.fitting(fn, wide, floats)
            right = (c for c in fits if len(fits) == 1 or self.is_right(c, fn, wide))
            self.convention = next(right, fits[0] if fits else self.convention)
            if self.table is WITH_VALUE and self.tried(fn, wide).outputs[0].size > 1 and not self.is_right(
                    self.convention, fn, wide):
                return False  # two outputs
            self.constants = [x for name, x in given if self.is_leaf(x) and name not in self.convention.learned]
            unknown = self.find_parameters(fn, wide) if fits and self.is_layer else []
            self.notes = list(self.said(unknown))
            return bool(fits)
        return False

    def tried(self, fn: Callable[..., Any], arguments: Sequence[Any]) -> Run:
        """A run of forward, on copies."""
        arguments = [mapped(x, lambda x, _: x.copy() if isinstance(x, np.ndarray) else x, "") for x in arguments]
        return self.ran(fn, arguments, copied(layer_of(fn)) if self.is_layer else None)

    def fitting(self, fn: Callable[..., Any], arguments: Sequence[Any], floats: Sequence[str]) -> list[Convention]:
        """The conventions that run, and give each input that is learned a gradient of its shape."""
        if self.table is WITH_VALUE:
            named = names_returned(self.forward)[1:]
            choices = [named] if named and set(named) <= set(floats) else [
                list(some) for n in range(len(floats), 0, -1) for some in itertools.combinations(floats, n)]
        else:
            named = names_returned(self.backward)
            choices = [list(floats), [name for name in floats if name.lower() not in CONSTANTS and "[" not in name]]
        found: list[Convention] = []
        first = None
        for learned, row in itertools.product(choices, self.table):
            for order in (learned, named) if sorted(named) == sorted(learned) and named != learned else (learned,):
                self.convention = row._replace(learned=learned, order=order)
                with contextlib.suppress(Exception):
                    run = self.tried(fn, arguments)
                    if first is None and bound(row, run, self.backward):
                        first = self.convention
                    self.gradients(run, run.outputs)
                    found.append(self.convention)
            if found and (row is TABLE[0] and len(found) == 1 or row is self.table[-1]):
                break
        self.convention = first or self.convention._replace(learned=floats, order=floats)
        return found

    def is_right(self, convention: Convention, fn: Callable[..., Any], arguments: Sequence[Any]) -> bool:
        """Along a random direction."""
        self.convention, generator = convention, np.random.default_rng(0)
        run = self.tried(fn, arguments)
        upstreams = [generator.standard_normal(out.shape) for out in run.outputs]
        items = named_items(run.inputs)
        directions = {name: generator.standard_normal(x.shape) for name, x in items if name in convention.learned}

        def value(step: float) -> float:
            moved = [mapped(x, lambda item, name: item + step * directions[name] if name in directions else item, name)
                     for name, x in zip(run.inputs, arguments)]
            return sum(np.sum(out * u) for out, u in zip(self.tried(fn, moved).outputs, upstreams))

        gradients = self.gradients(run, upstreams)
        slope = (value(STEP) - value(-STEP)) / (2 * STEP)
        expected = sum(np.sum(g * v) for g, v in zip(gradients, directions.values()))
        return abs(slope - expected) <= CLOSE * (abs(slope) + abs(expected)) + CLOSE**2

    def find_parameters(self, fn: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
        """A layer's arrays that forward leaves where they are, and for which backward leaves a gradient, by their names; or
        returns one, if the shapes say of what. Returns the names of the others."""
        layer = copied(layer_of(fn))
        before = dict(arrays_in(layer))
        run = self.ran(fn, arguments, layer)
        stay = {path: x for path, x in before.items() if get(layer, path) is x}
        self.gradients(run, run.outputs)
        after, unknown = dict(arrays_in(self.last.layer)), dict[str, tuple[list[Path], Any]]()
        for path, x in stay.items():
            same = [other for other, y in stay.items() if y is x]
            if path == same[0]:
                gradient = next((q for q in after if any(is_gradient_of(q, p) for p in same)), None)
                known: dict[str, tuple[list[Path], Any]] = unknown if gradient is None else self.places
                known[".".join(map(str, path))] = same, gradient
        unknown = {name: row for name, row in unknown.items() if not any(
            place == row[0][0] for _, place in self.places.values())}
        by_shape = {before[paths[0]].shape: name for name, (paths, _) in unknown.items()}
        came = [np.shape(g) for g in self.others]
        if len(by_shape) == len(unknown) and set(came) <= by_shape.keys():
            self.places |= {by_shape[shape]: (unknown[by_shape[shape]][0], (k,)) for k, shape in enumerate(came)}
        return [name for name in unknown if name not in self.places]

    def said(self, unknown: Sequence[str]) -> Iterator[str]:
        """Notes on the convention."""
        convention = self.convention
        if convention.said not in PLAIN:
            yield f"called as {convention.said}"
        if convention.order != convention.learned:
            named = ", ".join(f"d{name}" for name in convention.order)
            yield f"gradients are taken in the order that backward's return names: {named}"
        if self.places:
            yield f"parameters: {', '.join(self.places)}"
        if unknown:
            yield f"no gradient is found of {', '.join(unknown)}: unchecked"
        if self.constants:
            yield f"gradients are given of {', '.join(convention.learned)} alone: others are unchecked"

    # ------------------------------------------------------------------------------------------------ side checks

    def derivative(self, function: Flat, count: int) -> Flat:
        raise RuntimeError(f"{self.title(title_of(self.forward))}: a backward in NumPy cannot itself be differentiated "
                           "(create_graph=True)")

    def side_checks(self, record: Any) -> dict[str, Callable[[], str | None]]:
        return {"each op keeps the contract": lambda: self.contract(record)}

    def contract(self, record: Any) -> str:
        if len(record.tensors) > 1:
            return ""
        if not record.subject.is_repeatable:
            record.record()
        arrays = [x for x in items_of([self.last.cache, list(self.last.inputs.values())]) if isinstance(x, np.ndarray)]
        before = [x.copy() for x in arrays]
        (dout,) = record.parts(record.upstream)
        dout = dout.astype(record.tensors[0].dtype)
        detail = contract(lambda dout: record.pulled([dout]), dout, [dout.dtype] * len(record.leaves), arrays, before,
                          record.rounding)
        return type(detail)(f"{self.title(title_of(self.forward))}.backward {detail}") if detail else ""


def pair_of(fn: Any) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The methods of a layer."""
    for names in METHODS if not isinstance(fn, type) else ():
        forward, backward = (getattr(fn, name, None) for name in names)
        if callable(forward) and callable(backward):
            return forward, backward
    return None


def layer_of(method: Any) -> Any:
    """The object whose method this is; None for a plain function."""
    return getattr(method, "__self__", None)
