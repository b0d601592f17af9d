"""The records of a trace: tensors and steps, their text, formulas and values in JSON, and reshapes that are no steps."""
import inspect
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..drawing.html import html_of_arrays, html_of_formula
from ..tape import Node, Op


@dataclass(eq=False)
class TracedTensor:
    """A copy of a tensor's value when it was used, and of its gradient."""

    value: np.ndarray
    kind: str  # "result" of a step, "input" (an argument, or what requires a gradient), "constant"
    node: Node | None  # on the tape
    name: str = ""
    gradient: np.ndarray | Any = None  # None until one arrives

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the value."""
        return self.value.shape

    def __repr__(self) -> str:
        return f"<{self.name or 'unnamed'} {self.shape} {self.value.dtype}, {self.kind}>"

    def _repr_html_(self) -> str:
        return html_of_arrays([(f"{self.name} {self.shape} {self.value.dtype}", self.value), ("gradient", self.gradient)])


@dataclass(eq=False)
class Step:
    """An operation that ran. `gradients` holds what its backward sent to each input, in the input's shape."""

    op: str
    formula: str
    backward: str
    inputs: list[Any]  # TracedTensors, scalars, arrays, None
    options: dict[str, Any]
    output: TracedTensor
    gradients: list[np.ndarray | None] = field(default_factory=list)  # empty if no backward ran
    kind: type[Op] = Op  # what ran
    shapes: tuple[tuple[int, ...], ...] = ()  # of what it ran on; a product may have taken over reshapes
    shape: tuple[int, ...] = ()  # of what it returned

    def __repr__(self) -> str:
        return f"<{self.output.name} = {_call(self)}>"

    def _repr_html_(self) -> str:
        """The formulas forward and backward, each above the numbers that it reads and writes."""
        read = {value.name: value.value for value in self.inputs if isinstance(value, TracedTensor)}
        name, output = self.output.name, self.output
        shown = html_of_formula(f"{name} = {_call(self)}    {self.formula}")
        shown += html_of_arrays([*read.items(), (name, output.value)])
        if self.gradients:
            sent = [(f"to {_short(value)}", gradient) for value, gradient in zip(self.inputs, self.gradients)]
            shown += html_of_formula(self.backward) + html_of_arrays([(f"d{name}", output.gradient), *sent])
        return shown


class Text(str):
    """Text that an interactive session prints without quotes."""

    def __repr__(self) -> str: return str(self)


def as_table(tensors: list[TracedTensor], steps: list[Step]) -> str:
    """The inputs, then each step forward with its output, and backward with the gradients that it sends."""
    forward = [_call(step) for step in steps]
    inputs = [tensor for tensor in tensors if tensor.kind != "result"]
    parts = ["inputs", *(_numbers(tensor.name, tensor.value) for tensor in inputs), "", "forward"]
    for i, (step, call) in enumerate(zip(steps, forward), 1):
        parts += [f"{i}. {step.output.name} = {call}    {step.formula}".rstrip(),
                  _numbers(step.output.name, step.output.value)]
    parts += ["", "backward"]
    ran = [(i, step) for i, step in enumerate(steps, 1) if step.gradients]
    if not ran:
        parts.append("  has not run: call backward() in the block, or pass trace a gradient to start with")
    for i, step in reversed(ran):
        parts.append(f"{i}. {forward[i - 1]}    {step.backward}".rstrip())
        sent_to = [(value.name, sent) for value, sent in zip(step.inputs, step.gradients) if sent is not None]
        parts += [_numbers(f"to {name}", sent) for name, sent in sent_to]
    totals = [(tensor.name, tensor.gradient) for tensor in inputs if tensor.gradient is not None]
    if totals:
        parts += ["", "gradients", *(_numbers(f"d{name}", gradient) for name, gradient in totals)]
    return "\n".join(parts)


def _call(step: Step) -> str:
    """Softmax(scores, dim=-1)"""
    inputs = [_short(value) for value in step.inputs]
    options = [f"{name}={_short(value)}" for name, value in step.options.items()]
    return f"{step.op}({', '.join(inputs + options)})"


def _short(value: Any) -> str:
    if isinstance(value, TracedTensor):
        return value.name
    if isinstance(value, np.ndarray) and value.size > 1:
        return f"array{value.shape}"
    return str(value)


def _numbers(name: str, array: np.ndarray) -> str:
    """    name [[ 0.1  0.2]
            [ 0.3  0.4]]"""
    start = f"   {name} "
    text = np.array2string(array, precision=4, suppress_small=True, threshold=200)
    return start + text.replace("\n", "\n" + " " * len(start))


def formula(op: type[Op]) -> tuple[str, str]:
    """The formulas of the output and of the gradients, from the first paragraph of the docstring; empty if it has none.

    >>> from minigrad.ops.arithmetic import Mul
    >>> formula(Mul)
    ('out = a * b', 'da = dout * b,  db = dout * a')
    """
    for base in op.__mro__:  # a docstring is inherited
        paragraph = inspect.cleandoc(base.__doc__ or "").partition("\n\n")[0]
        forward, _, backward = re.sub(r"\n\s*", "  ", paragraph).partition(":  ")
        if backward:
            return forward, backward
    return "", ""


def plain(value: Any) -> Any:
    """The value as lists, numbers and strings. Numbers that are not finite become "NaN", "Infinity", "-Infinity"; integers
    of more than 53 bits, which JavaScript would round, become text.

    >>> plain({"index": (slice(None), 1), "mask": np.array([True, False]), "fill": -np.inf})
    {'index': [{'slice': [None, None, None]}, 1], 'mask': [True, False], 'fill': '-Infinity'}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.astype(float).tolist() if value.dtype.kind == "f" else value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, slice):
        return {"slice": plain([value.start, value.stop, value.step])}
    if value is Ellipsis:
        return "..."
    return getattr(value, "__name__", str(value))


# Reshapes that a product only needs because it takes matrices are left out: `w @ x[i]` is one step.

Shape = tuple[int, ...]


def of_product(a: Shape, b: Shape) -> Shape:
    """The shape of a @ b."""
    return max(a[:-2], b[:-2], key=len) + a[-2:-1] + (b[-1:] if len(b) > 1 else ())


def folded(steps: list[Step], calls: dict[Step, int]) -> list[Step]:
    """The steps, where a product takes over the reshapes around it that only add or drop axes of length 1.

    `calls` numbers the user's calls: only reshapes of the product's own call are folded, not what the user wrote.
    """
    uses, made_by = defaultdict(list), {step.output: step for step in steps}
    for step in steps:
        for value in filter(is_traced, step.inputs):
            uses[value].append(step)
    products, gone = {}, set()

    def serves(step: Step, product: Step) -> bool:
        return calls[step] == calls[product] and step not in gone and _only_adds_or_drops_axes(step)

    for step in steps:
        if step.op != "MatMul":
            continue
        before = [made_by[value] if is_traced(value) and value in made_by and len(uses[value]) == 1 else step
                  for value in step.inputs]
        inputs = [maker.inputs[0] if serves(maker, step) else value for maker, value in zip(before, step.inputs)]
        after = [user for user in uses[step.output] if len(uses[step.output]) == 1 and serves(user, step)]
        output = after[0].output if after else step.output
        if of_product(*(x.shape if is_traced(x) else np.shape(x) for x in inputs)) == output.shape:
            sent = [x if x is None else x.reshape(value.shape) for x, value in zip(step.gradients, inputs)]
            products[step] = replace(step, inputs=inputs, output=output, gradients=sent)
            gone |= {*after, *(maker for maker in before if serves(maker, step))}
    return [products.get(step, step) for step in steps if step not in gone]


def is_traced(value: Any) -> bool:
    return isinstance(value, TracedTensor)


def _only_adds_or_drops_axes(step: Step) -> bool:
    """Is it a reshape that adds or drops axes of length 1 in front, or one of the last two?"""
    if step.op != "Reshape":
        return False
    short, long = sorted((step.inputs[0].shape, step.output.shape), key=len)
    return long in ((1,) * (len(long) - len(short)) + short, short + (1,), (*short[:-1], 1, *short[-1:]))
