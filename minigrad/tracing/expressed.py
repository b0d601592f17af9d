"""A trace as expressions: what each of its numbers is made of, for a page that evaluates them and writes them out."""
from __future__ import annotations

import inspect
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .. import ops
from .expressions import Expressions, Table
from .rerun import Backward, Rerun
from .steps import Step, TracedTensor, is_traced

OPS = str(pathlib.Path(ops.__file__).parent)
UNKNOWN = AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError  # of an op that runs on arrays only
Place = tuple[str, str | int]  # a step, and an option of it or the number of a constant input


class Expressed(Rerun):
    """The values and gradients of a trace as Expressions in one `table`, in which each comes after what it is made of.

    `others` are backwards that a page can choose, {choice: {step: backward}}: each holds where the number of its choice is
    1. `switched` are the options and constant inputs that a page can change.
    """

    def __init__(self, steps: list[Step], tensors: list[TracedTensor],
                 others: Mapping[str, Mapping[str, Backward]] | None = None, switched: Iterable[Place] = ()) -> None:
        self.table, self.others = Table(), others or {}
        self.problems: dict[Step, str] = {}
        self.named: dict[Step, dict[tuple[str, str], Expressions]] = {}  # variables of a step's op: (kind, name)
        self.choices = {name: self.table.named(f"choice {name}", 0.0) for name in self.others}
        self.changing: dict[Place, Expressions] = {}
        made = {step.output.name: step for step in steps}
        for name, what in switched:
            value = made[name].inputs[what] if isinstance(what, int) else made[name].options[what]
            self.changing[name, what] = self.table.named(f"{name} {what}", value)
        super().__init__(steps, tensors, options={
            step: {what: x for (name, what), x in self.changing.items() if name == step and isinstance(what, str)}
            for step in made})

    def cells(self, tensor: TracedTensor, kind: str, content: Any) -> Expressions:
        """A node of its own for each number of a tensor, of what it is made of."""
        if not isinstance(content, Expressions):
            return self.table.named(f"{kind} {tensor.name}", content)
        nodes = [self.table.node("cell", node, kind, tensor.name, place)
                 for place, node in enumerate(content.nodes.ravel().tolist())]
        traced = tensor.value if kind == "value" else tensor.gradient  # so that each step is compared by itself
        return Expressions(self.table, np.array(nodes, int).reshape(content.shape), np.asarray(traced))

    def constant(self, step: Step, i: int, value: Any) -> Any:
        return self.changing.get((step.output.name, i), value)

    def run(self, step: Step) -> Any:
        try:
            out = self.watched(step, "value", super().run, step)
            if self.is_close(step, out.reshape(step.output.shape), step.output.value):
                return out
        except UNKNOWN:
            self.problems[step] = f"the page does not know the op {step.op}"
        self.problems.setdefault(step, f"the page computes a different {step.op}")
        return step.output.value

    def sends(self, step: Step, dout: Any) -> list[Any]:
        try:
            if step not in self.problems:
                sent = self.watched(step, "gradient", super().sends, step, dout)
                if all(x is None or self.is_close(step, x, y) for x, y in zip(sent, step.gradients)):
                    return sent
        except UNKNOWN:
            self.problems[step] = f"the page does not know the gradient of {step.op}"
        self.problems.setdefault(step, f"the page computes a different gradient of {step.op}")
        return [sent if sent is None else self.table.named(f"{step.output.name} to {i}", sent)
                for i, sent in enumerate(step.gradients)]

    def chosen(self, step: Step, dout: Any, right: list[Any]) -> list[Any]:
        own = self.named[step]
        for choice, backwards in self.others.items():
            if step.output.name not in backwards:
                continue
            backward = backwards[step.output.name]
            other = self.watched(step, "gradient", self.replaced, step, backward, dout, right, code=backward.__code__)
            is_chosen = self.choices[choice]
            right = [x if x is None else np.where(is_chosen, y, x) for x, y in zip(right, other)]
            where: Any = np.where
            own |= {key: where(is_chosen, x, own[key]) for key, x in self.named[step].items() if key in own}
        self.named[step] = own
        return right

    def watched(self, step: Step, kind: str, function: Callable[..., Any], *given: Any, code: Any = None) -> Any:
        """function(*given), noting the variables of the op's code, or of this one, that hold expressions."""
        self.named[step] = {key: x for key, x in self.named.get(step, {}).items() if key[0] != kind}
        before = sys.getprofile()

        def look(frame: Any, event: str, result: Any) -> None:
            running = frame.f_code
            if event == "return" and (running is code or running.co_filename.startswith(OPS)):
                for name in running.co_varnames[running.co_argcount + running.co_kwonlyargcount:]:
                    if isinstance(value := frame.f_locals.get(name), Expressions):
                        self.named[step][kind, name] = value

        sys.setprofile(look)
        try:
            return function(*given)
        finally:
            sys.setprofile(before)


    def is_close(self, step: Step, found: Expressions, traced: Any) -> bool:
        """Are these the numbers of the trace, but for their rounding, and that of what went into them?"""
        arrays = [traced, step.output.value, step.output.gradient, *(x.value for x in step.inputs if is_traced(x))]
        sizes = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in arrays if x is not None and x.dtype.kind == "f"]
        rounding = 1e-4 if any(x is not None and x.dtype == np.float32 for x in arrays) else 1e-8
        with np.errstate(all="ignore"):
            values = found.values.astype(traced.dtype)  # large numbers overflow in float32
        return np.allclose(values, traced, rtol=rounding, atol=rounding * float(max(sizes, default=0)), equal_nan=True)

    # ------------------------------------------------------------------------------------------------ for a page

    def as_dict(self, derives: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """What a page evaluates, as JSON can hold it. `derives` are variables of steps' ops that are tensors there,
        {step: {variable: tensor}}; the gradient of x is the variable dx."""
        steps = []
        for step in self.steps:
            own = self.named.get(step, {})
            derived = []
            for name, tensor in derives.get(step.output.name, {}).items():
                found = {kind: own.pop((kind, key)) for kind, key in (
                    ("value", name), ("gradient", name), ("gradient", f"d{name}")) if (kind, key) in own}
                derived += [{"name": tensor, "shape": x.shape, **found} for x in list(found.values())[:1]]
            sent = self.sent.get(step, [None] * len(step.inputs))
            known = {x.nodes.tobytes() for x in (*(x for x in sent if x is not None), self.values[step.output.name])}
            named = [{"name": name, "shape": x.shape, "ids": x} for (_, name), x in own.items()
                     if x.nodes.tobytes() not in known]
            steps.append({"names": names_of(step), "sent": sent, "derived": derived, "named": named,
                          "problem": self.problems.get(step)})
        tensors = {tensor.name: {"value": self.values[tensor.name], "gradient": self.gradients.get(tensor.name)}
                   for tensor in self.tensors}
        changing = [(step, what, x) for (step, what), x in self.changing.items()]
        return self.table.as_dict({"tensors": tensors, "steps": steps, "changing": changing, "choices": self.choices})


def names_of(step: Step) -> list[str]:
    """What the op's formulas call its inputs."""
    given = inspect.signature(step.kind.forward).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in given):
        return re.findall(r"\bd(\w+) = ", step.backward)
    return [one.name for one in given if one.kind is one.POSITIONAL_OR_KEYWORD][1:]
