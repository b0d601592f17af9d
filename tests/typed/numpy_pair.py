"""A forward and a backward in NumPy, checked as a pair."""
import numpy as np

from minigrad.gradcheck import gradcheck_report


def layer(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    z = x @ weight.T + bias
    return np.where(z > 0, z, 0.0)


def layer_backward(
    dout: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dz = dout * (x @ weight.T + bias > 0)
    return dz @ weight, dz.T @ x, dz.sum(axis=0)


rng = np.random.default_rng(0)
inputs = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), rng.normal(size=3)
report = gradcheck_report((layer, layer_backward), inputs)
assert report.verdict == "pass", str(report)
