"""Leaves out the reshapes that a product only needs because it takes matrices: `w @ x[i]` is one step."""
import dataclasses
from collections import defaultdict
from typing import Any

import numpy as np

from .steps import Step, TracedTensor

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
            products[step] = dataclasses.replace(step, inputs=inputs, output=output, gradients=sent)
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
