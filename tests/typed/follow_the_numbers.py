"""Attention by hand: its gradients, and each step of its computation."""
import minigrad as mg
from minigrad import Tensor

later = mg.ones(4, 4, dtype=mg.bool).triu(1)
upstream = mg.randn(4, 2)


def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.T / 2**0.5
    weights = scores.masked_fill(later, -float("inf")).softmax(-1)
    output = weights @ v
    return (output * upstream).sum()


q, k, v = (mg.randn(4, 2, requires_grad=True) for _ in range(3))
loss(q, k, v).backward()
assert q.grad is not None
rows: list[float] = q.grad.sum(axis=1, keepdims=True).squeeze().tolist()
largest: Tensor = q.grad.abs().max(0).values

trace = mg.trace(loss, q, k, v)
print(trace["scores"].gradient.round(2))
for step in trace.steps[4:6]:
    print(step.output.name, "|", step.formula, "|", step.backward)
trace.save("attention.html")
print(trace.table(), len(rows), largest.shape)
