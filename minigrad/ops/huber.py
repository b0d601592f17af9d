"""Huber's loss of a difference: a square near 0, and its tangent further out."""
import numpy as np

from .elementary import elementary


def huber(x, delta):
    return np.where(np.abs(x) <= delta, 0.5 * x * x, delta * (np.abs(x) - 0.5 * delta))


Huber = elementary("out = x^2 / 2 where |x| <= delta, else delta * (|x| - delta / 2):  "
                   "dx = dout * min(max(x, -delta), delta)",
                   huber, lambda dout, x, delta: dout * np.clip(x, -delta, delta), name="huber", delta=1.0)
