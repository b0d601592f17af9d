"""A gradient of one's own, and its check."""
from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.gradcheck import gradcheck_report


class Square(mg.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return dout * x * 2.0


def cube(x: Tensor) -> Tensor:
    return x**3


x = mg.tensor([1.0, 2.0, 3.0], dtype=mg.float64, requires_grad=True)
assert mg.gradcheck(Square.apply, x) and mg.gradgradcheck(cube, x)
report = gradcheck_report(Square.apply, x)
verdict: str = report.verdict
if report.diagnosis is not None:
    print(report.diagnosis.facts)
print(verdict, report)
