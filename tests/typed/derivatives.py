"""Derivatives of any order, hooks, and the switches of the tape."""
import numpy as np

import minigrad as mg
from minigrad import Tensor


def energy(x: Tensor) -> Tensor:
    return (x**3).sum()


x = mg.tensor([1.0, 2.0], requires_grad=True)
curvature: Tensor = mg.hessian(energy, x)
value, slope = mg.jvp(energy, x, mg.ones(2))
(gradient,) = mg.grad(energy(x), [x], create_graph=True)
handle = x.register_hook(lambda g: g * 2)
gradient.sum().backward()
handle.remove()
with mg.no_grad(), mg.detect_anomaly():
    far = mg.where(x > 1, x, mg.zeros_like(x)).clamp(min=0.5)
array: np.ndarray = far.numpy()
best = mg.topk(mg.cat([x, far]), 2)
print(curvature.shape, value.item(), slope.item(), array, best.values, mg.einsum("i,j->ij", x, x), mg.graph(energy(x)))
