"""How people write a backward: what forward returns, what backward takes, and how its gradients come.

TABLE has the conventions in the order in which they are tried.
"""
import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .arguments import items_of

NOTHING: Any = object()  # there is no cache
MARK = re.compile(r"^(?:d(?:L_?d)?_?|grad(?:ient)?s?_?(?:of_)?)(?=.)|_?grad(?:ient)?s?$", re.IGNORECASE)
METHODS = (("forward", "backward"), ("forward", "backprop"), ("forward_pass", "backward_pass"), ("fprop", "bprop"),
           ("__call__", "backward"))


@dataclass
class Run:
    """A call of forward, and what its backward may be given."""

    inputs: dict[str, Any]
    outputs: Sequence[Any]
    cache: Any
    douts: Sequence[Any] = ()
    layer: Any = None  # whose methods forward and backward are, if they are


class Arguments(NamedTuple):
    """Of a call of backward."""

    positional: Sequence[Any]
    named: Mapping[str, Any] = {}


Split = Callable[[tuple[Any, ...]], tuple[Sequence[Any], Any]]  # forward's result -> outputs and cache
Parameters = Sequence[inspect.Parameter]


class Convention(NamedTuple):
    """Its words, what forward's result is, how backward is called (None if it cannot be), the order of the gradients."""

    said: str
    split: Split
    arguments: Callable[[Run, Parameters], Arguments | None]
    is_slope: bool = False  # backward takes no upstream gradient: what it returns is multiplied with it
    learned: Sequence[str] = ()  # the inputs that get a gradient
    order: Sequence[str] = ()  # of the gradients


def by_name(run: Run, parameters: Parameters) -> Arguments | None:
    """What has an input's name is that input; the others are the upstream gradients and the cache, in this order."""
    waiting = [*run.douts, *([] if run.cache is NOTHING else [run.cache])]
    found: dict[str, Any] = {}
    for p in parameters:
        if p.name in run.inputs or waiting and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            found[p.name] = run.inputs[p.name] if p.name in run.inputs else waiting.pop(0)
    if waiting or run.cache is NOTHING and not found.keys() & run.inputs.keys():
        return None
    by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    return Arguments([found.pop(name) for name in by_place if name in found], found)


def unpacked(run: Run, _: Parameters) -> Arguments | None:
    if isinstance(run.cache, dict):
        return Arguments(run.douts, run.cache)
    return Arguments([*run.douts, *run.cache]) if isinstance(run.cache, (tuple, list)) else None


def whole(result: tuple[Any, ...]) -> tuple[Sequence[Any], Any]:
    return result, NOTHING


SPLITS: dict[str, Split] = {  # with a cache
    "(out, cache)": lambda result: (result[:-1], result[-1]),
    "(out, cache, ...)": lambda result: (result[:1], result[1]),
    "(out, ..., cache)": lambda result: (result[:1], result[-1]),
}
PLAIN = "backward(dout, inputs)", "backward(dout, cache) after forward returns (out, cache)"  # which a report leaves unsaid
ALONE = Convention("backward(dout) after forward", whole, lambda run, _: Arguments(run.douts))
TABLE = [
    Convention(PLAIN[0], whole, by_name),
    Convention(PLAIN[0], whole, lambda run, _: Arguments([*run.douts, *run.inputs.values()])),
    *(Convention(f"{called} after forward returns {returned}", split, arguments) for returned, split in SPLITS.items()
      for called, arguments in (
          ("backward(dout, cache)", by_name),
          ("backward(dout, cache)", lambda run, _: Arguments([*run.douts, run.cache])),
          ("backward(dout, *cache)", unpacked),
          ("backward(cache, dout)", lambda run, _: Arguments([run.cache, *run.douts])))),
    ALONE,
    Convention("backward(inputs, dout)", whole, lambda run, _: Arguments([*run.inputs.values(), *run.douts])),
    Convention("backward(dout, out)", whole, lambda run, _: Arguments([*run.douts, *run.outputs])),
    Convention("backward(inputs), multiplied with the upstream gradient", whole,
               lambda run, _: Arguments([*run.inputs.values()]), is_slope=True),
]
OF_LAYERS = [ALONE, *(row for row in TABLE if row is not ALONE)]
WITH_VALUE = [Convention(
    "(value, gradients), which are multiplied with the upstream gradient", lambda result: (result[:1], result[1:]),
    lambda run, _: Arguments([run.cache]), is_slope=True)]


def bound(convention: Convention, run: Run, backward: Callable[..., Any]) -> Arguments | None:
    """How the convention calls backward. None if it cannot, or gives something else to what has the name of an input."""
    try:
        signature = inspect.signature(backward)
    except (TypeError, ValueError):  # built-in functions may have none
        return None if convention.arguments is by_name else convention.arguments(run, [])
    arguments = convention.arguments(run, list(signature.parameters.values()))
    try:
        given = signature.bind(*arguments.positional, **arguments.named).arguments if arguments else {}
    except TypeError:
        return None
    is_other = run.cache is NOTHING and any(given[name] is not x for name, x in run.inputs.items() if name in given)
    return None if is_other else arguments


def bare(name: str) -> str:
    """What something is the gradient of, by its name; "" if the name does not say.

    >>> [bare(name) for name in ("dx", "grad_x", "dL_dx", "x_grad", "grad", "x")]
    ['x', 'x', 'x', 'x', '', '']
    """
    found = MARK.sub("", name)
    return found if found != name else ""


def names_returned(function: Callable[..., Any]) -> list[str]:
    """What the last `return dw, self.dx` names the gradients of: ["w", "x"], with "" for what is none; [] if unknown."""
    try:
        code = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    values = [node.value for node in ast.walk(code) if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    return [bare(getattr(item, "id", getattr(item, "attr", ""))) for item in values[-1].elts] if values else []


def listed(found: Any, convention: Convention) -> list[Any]:
    """The gradients of what is learned, in order: of a dict by its keys, of anything else as they came."""
    while isinstance(found, (tuple, list)) and len(found) == 1:
        found = found[0]
    if isinstance(found, dict):
        by_input = {bare(str(name)) or str(name): gradient for name, gradient in found.items()}
        return [by_input[name] for name in convention.learned if name in by_input]
    gradients = items_of(found)
    if len(convention.order) != len(gradients):
        return gradients
    return [gradients[list(convention.order).index(name)] for name in convention.learned]
