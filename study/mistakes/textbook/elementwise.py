"""Functions of each number."""
import math

import numpy as np

from ..base import normal
from ..known import function


def tanh_backward(dout, x):
    out = np.tanh(x)
    return dout * (1 - out**2)


def by_cosh(dout, x):
    return dout / np.cosh(x) ** 2


function("tanh", np.tanh, tanh_backward, normal((3, 4)), statement="out = tanh(x)", forms=(by_cosh,), own={
    "sigmoid's": ("out (1 - out) is the derivative of sigmoid: tanh's is 1 - out^2", "return dout * out * (1 - out)"),
})


def dropout(x, mask, p):
    return x * mask / (1 - p)


def dropout_backward(dout, x, mask, p):
    return dout * mask / (1 - p)


function("dropout", dropout, dropout_backward, lambda r: [r.normal(size=(4, 5)),
                                                          r.permuted(np.arange(20) < 11).reshape(4, 5)],
         constants=("mask",), statement="out = x * mask / (1 - p); the mask is the boolean one that was drawn", p=0.4, own={
    "mask of x": ("the mask is where x is not 0: it is given", "return dout * (x != 0) / (1 - p)"),
    "scaled where dropped": ("what is dropped is scaled, and what is kept is not",
                             "return np.where(mask, dout, dout / (1 - p))"),
})


def gelu(x):
    return x * (1 + np.vectorize(math.erf, otypes=[float])(x / np.sqrt(2))) / 2


def gelu_backward(dout, x):
    erf = np.vectorize(math.erf, otypes=[float])
    below = (1 + erf(x / np.sqrt(2))) / 2  # Phi: the probability of a number below x
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)  # the density: Phi's own derivative
    return dout * (below + x * density)


def gelu_by_erf(dout, x):
    erf = np.vectorize(math.erf, otypes=[float])
    return dout * (0.5 * (1 + erf(x / np.sqrt(2))) + x * np.exp(-x**2 / 2) / np.sqrt(2 * np.pi))


function("gelu", gelu, gelu_backward, lambda r: [1.5 * r.normal(size=(3, 4))], forms=(gelu_by_erf,),
         statement="out = x P(Z <= x) for a standard normal Z: the exact form, with erf", own={
    "sigmoid's": ("the derivative of x sigmoid(1.702 x), an approximation, replaces gelu's",
                  "s = 1 / (1 + np.exp(-1.702 * x)); return dout * (s + 1.702 * x * s * (1 - s))"),
    "tanh's": ("the derivative of the approximation with tanh replaces that of the exact form",
               "t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)); "
               "return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2))"),
    "Phi (1 - Phi)": ("Phi (1 - Phi) replaces Phi's derivative, the density: that is how sigmoid is differentiated",
                      "density = below * (1 - below)"),
    "the bell's slope": ("the density is differentiated once more: it is itself Phi's derivative",
                         "density = -x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)"),
    "silu's": ("the derivative of x sigmoid(x) replaces gelu's",
               "s = 1 / (1 + np.exp(-x)); return dout * (s + x * s * (1 - s))"),
})


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_tanh_backward(dout, x):
    root = np.sqrt(2 / np.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    du = root * (1 + 3 * 0.044715 * x**2)  # du: the derivative of what is inside of tanh
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * du)


CUBIC = "t = np.tanh(root * (x + {0} * x**3)); du = root * (1 + 3 * {0} * x**2)"
function("gelu_tanh", gelu_tanh, gelu_tanh_backward, lambda r: [1.5 * r.normal(size=(3, 4))],
         statement="out = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))", own={
    **{f"coefficient {wrong}": (f"the coefficient is {wrong}: it should be 0.044715", CUBIC.format(wrong))
       for wrong in ("0.44715", "0.0447", "0.004715", "0.04715")},
    "exact": ("the derivative of the exact gelu, with erf, replaces that of the approximation",
              "erf = np.vectorize(math.erf, otypes=[float]); "
              "return dout * ((1 + erf(x / np.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))"),
    "root is 2 / pi": ("the root is missing: 2 / pi replaces sqrt(2 / pi)", "root = 2 / np.pi"),
})
