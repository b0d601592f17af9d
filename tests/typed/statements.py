"""Single statements, with the type that each expression has to type checkers, and mistakes that they find."""
from typing import assert_type

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from minigrad.gradcheck import GradcheckReport, gradcheck_report


def cubes(values: Tensor) -> Tensor:
    return (values**3).sum()


# new tensors
x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=mg.float32, requires_grad=True)
assert_type(x, Tensor)
assert_type(mg.zeros(2, 3), Tensor)
assert_type(mg.randn((2, 3), generator=mg.Generator(), requires_grad=True), Tensor)
assert_type(mg.zeros_like(x, dtype=mg.float64), Tensor)
assert_type(mg.arange(3), Tensor)
assert_type(mg.from_numpy(np.ones(2)), Tensor)

# operators and methods
assert_type(x + 1, Tensor)
assert_type(1 - x, Tensor)
assert_type(np.float32(2) * x[0], Tensor)
assert_type(x @ x.T, Tensor)
assert_type(x == 1, Tensor)
assert_type(x < x.mT, Tensor)
assert_type(~(x > 0) & (x != 2), Tensor)
assert_type(x.softmax(-1), Tensor)
assert_type(x.softmax(axis=-1), Tensor)
assert_type(x.exp().view(-1).clamp(min=0.5), Tensor)
assert_type(x.sum(axis=0, keepdims=True), Tensor)
assert_type(x.sum(0, keepdim=True), Tensor)
assert_type(x.var(axis=(0, 1), correction=0), Tensor)
assert_type(x.max(), Tensor)
assert_type(x.max(0).values, Tensor)
assert_type(x.max(axis=0).indices, Tensor)
assert_type(x.max(x), Tensor)
assert_type(x.topk(1).indices, Tensor)
assert_type(x.split(1), tuple[Tensor, ...])
assert_type(x.nonzero(), Tensor)
assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
assert_type(x.detach().clone().add_(x.detach(), alpha=2.0), Tensor)
assert_type(x.to(mg.float64).to("cpu").astype(x.dtype), Tensor)
assert_type(x.shape, tuple[int, ...])
assert_type(x.size(0), int)
assert_type([row.sum() for row in x], list[Tensor])
assert_type(len(x) + x.numel() + x.ndim, int)

# functions
assert_type(mg.exp(x), Tensor)
assert_type(mg.sum(x, axis=1), Tensor)
assert_type(mg.min(x, 1).values, Tensor)
assert_type(mg.max(x.array, 1).indices, Tensor)
assert_type(nn.functional.gelu(input=x), Tensor)
assert_type(mg.where(x > 0, x, 0.0), Tensor)
assert_type(mg.cat([x, x], dim=1), Tensor)
assert_type(mg.einsum("ij,jk->ik", x, x), Tensor)

# gradients
x.square().sum().backward()
assert_type(x.grad, Tensor | None)
assert_type(mg.grad(x.exp().sum(), x), tuple[Tensor, ...])
assert_type(mg.grad(x.exp().sum(), [x], allow_unused=True), tuple[Tensor | None, ...])
assert_type(mg.hessian(cubes, x.detach()[0]), Tensor)
assert_type(mg.hvp(cubes, x.detach()[0], mg.ones(2)), tuple[Tensor, Tensor])
with mg.no_grad():
    x -= 0.1 * x
assert_type(x, Tensor)


# tools
@mg.no_grad()
def evaluate(values: Tensor, scale: float) -> float:
    return (values * scale).mean().item()


@mg.compile
def step(values: Tensor) -> Tensor:
    return (values * 2.0).sum()


assert_type(evaluate(x, 2.0), float)
assert_type(step(mg.ones(3)), Tensor)
double = mg.ones(2, dtype=mg.float64, requires_grad=True)
assert_type(mg.gradcheck(cubes, double), bool)
assert_type(mg.gradcheck.gradcheck_report(cubes, double), GradcheckReport)
assert_type(gradcheck_report(mg.exp, double).verdict, str)
assert_type(mg.trace(mg.exp, double).table(), str)
assert_type(mg.graph(x.exp()).mermaid(), str)
with mg.count_flops() as count:
    product = x @ x
assert_type(count.total, int)
linear = nn.Linear(2, 3)
optimizer = nn.optim.AdamW(linear.parameters())


def is_refused() -> None:
    """Mistakes that type checkers find: each comment is an error if nothing is wrong."""
    x.sofmax(-1)  # type: ignore[attr-defined]
    mg.sofmax(x)  # type: ignore[attr-defined]
    x.sum(dims=0)  # type: ignore[call-arg]
    x.add_(1.0, beta=2.0)  # type: ignore[call-arg]
    x.sum(axis="rows")  # type: ignore[arg-type]
    mg.zeros(2, required_grad=True)  # type: ignore[call-arg]
    step("text")  # type: ignore[arg-type]
