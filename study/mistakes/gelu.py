"""Mistakes in gelu, x P(Z <= x) for a standard normal Z, and in its approximation with tanh."""
import math

import numpy as np

from .base import family, replaced, same
from .elementwise import sigmoid, upstream_mistakes

erf = np.vectorize(math.erf)
ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def below(x):
    """P(Z <= x) for a standard normal Z."""
    return 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_backward(
    dout, x, *, upstream=same, switch=below, bell=density, through=lambda x, bell: x * bell,
    combine=lambda dout, switch, through, x: dout * (switch + through), finish=same,
):
    return finish(combine(upstream(dout), switch(x), through(x, bell(x)), x))


def other_function(name, slope):
    """The derivative of another function, for the part `combine` of gelu's backward."""
    return f"the derivative of {name} replaces gelu's", lambda dout, switch, through, x: dout * slope(x)


def quick_gelu_slope(x):
    gate = sigmoid(1.702 * x)
    return gate + 1.702 * x * gate * (1 - gate)


def silu_slope(x):
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


SUMS = replaced("combine", {  # how the two terms are combined, in both forms of gelu
    "minus": ("the second term is subtracted: the product rule adds",
              lambda dout, switch, through, x: dout * (switch - through)),
    "terms multiplied": ("the two terms of the product rule are multiplied: they add",
                         lambda dout, switch, through, x: dout * switch * through),
    "x times both": ("the first term has a factor x: the derivative of x is 1",
                     lambda dout, switch, through, x: dout * (x * switch + through)),
    "dout in the first term only": ("dout multiplies the first term only: brackets are missing around the sum",
                                    lambda dout, switch, through, x: dout * switch + through),
    "dout in the second term only": ("dout multiplies the second term only: brackets are missing around the sum",
                                     lambda dout, switch, through, x: switch + dout * through),
    "output": ("gelu itself replaces its derivative", lambda dout, switch, through, x: dout * x * switch),
    "times x": ("the whole derivative is multiplied by x as well",
                lambda dout, switch, through, x: dout * x * (switch + through)),
    "upstream added": ("dout is added to the derivative; the chain rule multiplies",
                       lambda dout, switch, through, x: dout + switch + through),
    "divided": ("dout is divided by the derivative instead of multiplied by it",
                lambda dout, switch, through, x: dout / (switch + through)),
    "sigmoid's": other_function("the sigmoid form, x sigmoid(1.702 x),", quick_gelu_slope),
    "silu's": other_function("silu, x sigmoid(x),", silu_slope),
    "relu's": other_function("relu", lambda x: x > 0),
    "tanh's alone": other_function("tanh(x)", lambda x: 1 - np.tanh(x) ** 2),
})
UPSTREAM = {name: mistake for name, mistake in upstream_mistakes("the derivative").items() if "combine" not in mistake[1]}

family("gelu", lambda x: x * below(x), gelu_backward, lambda r: [1.5 * r.normal(size=(3, 4))], {
    **UPSTREAM,
    "no density": ("the term through Phi is missing: x Phi(x) is a product, and both of its factors depend on x",
                   dict(through=lambda x, bell: 0.0)),
    "no x": ("the density is not multiplied by x: the product rule gives Phi(x) + x Phi'(x)",
             dict(through=lambda x, bell: bell)),
    **replaced("bell", {
        "no sqrt(2 pi)": ("the density is not normalised: it is e^(-x^2 / 2) / sqrt(2 pi)", lambda x: np.exp(-x * x / 2)),
        "no half": ("e^(-x^2) replaces e^(-x^2 / 2): erf's derivative is taken at x, not at x / sqrt(2)",
                    lambda x: np.exp(-x * x) / math.sqrt(2 * math.pi)),
        "erf's derivative at x": ("e^(-x^2) / sqrt(pi): the argument of erf is x / sqrt(2), in the exponent and as a "
                                  "factor",
                                  lambda x: np.exp(-x * x) / math.sqrt(math.pi)),
        "no inner": ("the factor 1 / sqrt(2), the derivative of erf's argument, is missing in the density",
                     lambda x: density(x) * math.sqrt(2)),
        "inner twice": ("1 / sqrt(2) is twice in the density", lambda x: density(x) / math.sqrt(2)),
        "density twice": ("the density is twice too large: it is e^(-x^2 / 2) / sqrt(2 pi), the 0.5 of Phi included",
                          lambda x: 2 * density(x)),
        "density halved": ("the density is half of what it should be: e^(-x^2 / 2) / sqrt(2 pi) includes the 0.5 of Phi",
                           lambda x: density(x) / 2),
        "erf's derivative": ("2 / sqrt(pi) e^(-x^2 / 2) is erf's derivative: the 0.5 of Phi and the inner derivative "
                             "1 / sqrt(2) are missing", lambda x: np.exp(-x * x / 2) * 2 / math.sqrt(math.pi)),
        "erf's derivative, inner 1": ("2 / sqrt(pi) e^(-x^2) is erf's derivative at x: its argument is x / sqrt(2)",
                                      lambda x: np.exp(-x * x) * 2 / math.sqrt(math.pi)),
        "no root of 2 pi": ("the density is divided by 2 pi instead of its root",
                            lambda x: np.exp(-x * x / 2) / (2 * math.pi)),
        "times pi": ("the density is divided by sqrt(2) and multiplied by pi: / sqrt(2) * pi lacks its brackets, and pi "
                     "belongs under the root", lambda x: np.exp(-x * x / 2) / math.sqrt(2) * math.pi),
        "pi outside the root": ("the density is divided by sqrt(2) pi instead of sqrt(2 pi)",
                                lambda x: np.exp(-x * x / 2) / (math.sqrt(2) * math.pi)),
        "times sqrt(2 pi)": ("the density is multiplied by sqrt(2 pi) instead of divided by it",
                             lambda x: np.exp(-x * x / 2) * math.sqrt(2 * math.pi)),
        "exponent's sign": ("e^(x^2 / 2): the minus is missing in the density's exponent",
                            lambda x: np.exp(x * x / 2) / math.sqrt(2 * math.pi)),
        "x not squared": ("e^(-x / 2): the square is missing in the density's exponent",
                          lambda x: np.exp(-x / 2) / math.sqrt(2 * math.pi)),
        "wide": ("e^(-x^2 / 4): the density is taken at x / sqrt(2); that is the argument of erf, not of the density",
                 lambda x: density(x / math.sqrt(2))),
        "narrow": ("e^(-2 x^2): the density's exponent is -x^2 / 2", lambda x: np.exp(-2 * x * x) / math.sqrt(2 * math.pi)),
        "density derived": ("-x e^(-x^2 / 2) / sqrt(2 pi) is the derivative of the density; Phi' is the density itself",
                            lambda x: -x * density(x)),
        "P for its derivative": ("Phi replaces its own derivative, the density", below),
    }),
    **replaced("switch", {
        "no P": ("the first term is missing: Phi(x) itself, from the factor x", lambda x: 0.0),
        "P without sqrt(2)": ("Phi is 0.5 (1 + erf(x)); its argument is x / sqrt(2)", lambda x: 0.5 * (1 + erf(x))),
        "one half for P": ("0.5 replaces Phi(x) in the first term: erf is missing in it", lambda x: 0.5),
        "P at x / 2": ("Phi is 0.5 (1 + erf(x / 2)); its argument is x / sqrt(2)", lambda x: 0.5 * (1 + erf(x / 2))),
        "P at x sqrt(2)": ("Phi is 0.5 (1 + erf(x sqrt(2))); its argument is x / sqrt(2)",
                           lambda x: 0.5 * (1 + erf(x * math.sqrt(2)))),
        "P without half": ("P is 1 + erf(x / sqrt(2)): its factor 0.5 is missing", lambda x: 2 * below(x)),
        "P without 1": ("P is 0.5 erf(x / sqrt(2)): the 1 is missing", lambda x: below(x) - 0.5),
        "erf for P": ("erf(x / sqrt(2)) replaces Phi = 0.5 (1 + erf(x / sqrt(2)))", lambda x: 2 * below(x) - 1),
        "half of erf": ("0.5 + erf(x / sqrt(2)): the 0.5 multiplies erf too", lambda x: 2 * below(x) - 0.5),
        "upper tail": ("Phi is 0.5 (1 - erf(x / sqrt(2))), the probability of more than x instead of less",
                       lambda x: 1 - below(x)),
        "sigmoid for P": ("sigmoid(1.702 x) replaces Phi, an approximation", lambda x: sigmoid(1.702 * x)),
        "tanh for P": ("P is the approximation with tanh", lambda x: 0.5 * (1 + np.tanh(ROOT * (x + CUBIC * x**3)))),
        "relu's step": ("1 for positive x replaces Phi", lambda x: x > 0),
        "density for P": ("the density replaces Phi in the first term", density),
    }),
    **replaced("through", {
        "x squared": ("the density is multiplied by x^2: one x is right", lambda x, bell: x * x * bell),
        "out times the density": ("the density is multiplied by gelu(x) instead of x", lambda x, bell: x * below(x) * bell),
        "x added": ("x is added to the density instead of multiplied by it", lambda x, bell: x + bell),
        "absolute value": ("the density is multiplied by the absolute value of x", lambda x, bell: np.abs(x) * bell),
    }),
    **SUMS,
    "x in the wrong term": ("x multiplies Phi and not the density: it should be Phi(x) + x Phi'(x)",
                            dict(through=lambda x, bell: bell,
                                 combine=lambda dout, switch, through, x: dout * (x * switch + through))),
    "tanh's": ("the derivative of the tanh form replaces that of the exact one",
               dict(combine=lambda dout, switch, through, x: gelu_tanh_backward(dout, x))),
})


def gelu_tanh_backward(
    dout, x, *, upstream=same, root=ROOT, cubic=CUBIC, argument=lambda x, root, cubic: root * (x + cubic * x**3),
    first=lambda t: 0.5 * (1 + t), squash=lambda t, u: 1 - t * t,
    inner=lambda x, root, cubic: root * (1 + 3 * cubic * x * x), through=lambda x, slope: 0.5 * x * slope,
    combine=lambda dout, switch, through, x: dout * (switch + through), finish=same,
):
    u = argument(x, root, cubic)
    t = np.tanh(u)
    slope = squash(t, u) * inner(x, root, cubic)  # of t
    return finish(combine(upstream(dout), first(t), through(x, slope), x))


family("gelu_tanh", lambda x: 0.5 * x * (1 + np.tanh(ROOT * (x + CUBIC * x**3))), gelu_tanh_backward,
       lambda r: [1.5 * r.normal(size=(3, 4))], {
    **UPSTREAM,
    "erf's": ("the derivative of the exact form replaces that of the tanh form",
              dict(combine=lambda dout, switch, through, x: gelu_backward(dout, x))),
    **replaced("inner", {
        "no inner": ("the derivative of tanh's argument is missing: the chain rule multiplies by it",
                     lambda x, root, cubic: 1.0),
        "cubic not derived": ("x^2 lacks its factor 3 in the derivative of tanh's argument: (x^3)' = 3 x^2",
                              lambda x, root, cubic: root * (1 + cubic * x * x)),
        "argument linear": ("the cubic term is missing in the derivative of tanh's argument", lambda x, root, cubic: root),
        "no root": ("sqrt(2 / pi) is missing in the derivative of tanh's argument",
                    lambda x, root, cubic: 1 + 3 * cubic * x * x),
        **{f"{wrong} in the derivative": (f"{wrong} replaces 0.044715 in the derivative of tanh's argument",
                                          lambda x, root, cubic, wrong=wrong: root * (1 + 3 * wrong * x * x))
           for wrong in (0.44715, 0.0044715)},
        **{str(digits): (f"{digits} replaces 3 * 0.044715 = 0.134145: too few digits",
                         lambda x, root, cubic, digits=digits: root * (1 + digits * x * x))
           for digits in (0.134, 0.1341, 0.13414)},
        "factor 2": ("x^3 is differentiated to 2 x^2; it is 3 x^2", lambda x, root, cubic: root * (1 + 2 * cubic * x * x)),
        "exponent stays": ("x^3 is differentiated to 3 x^3; it is 3 x^2",
                           lambda x, root, cubic: root * (1 + 3 * cubic * x**3)),
        "exponent 1": ("x^3 is differentiated to 3 x; it is 3 x^2", lambda x, root, cubic: root * (1 + 3 * cubic * x)),
        "x not derived": ("x stays x in the derivative of tanh's argument; it becomes 1",
                          lambda x, root, cubic: root * (x + 3 * cubic * x * x)),
        "no 1": ("the 1 is missing in the derivative of tanh's argument: x' = 1",
                 lambda x, root, cubic: root * 3 * cubic * x * x),
        "no coefficient": ("the coefficient of x^3 is missing in the derivative of tanh's argument",
                           lambda x, root, cubic: root * (1 + 3 * x * x)),
        "argument for its derivative": ("tanh's argument replaces its derivative",
                                        lambda x, root, cubic: root * (x + cubic * x**3)),
        "root on the 1 only": ("sqrt(2 / pi) multiplies the 1 only, not the term of x^3, in the derivative of the argument",
                               lambda x, root, cubic: root + 3 * cubic * x * x),
        "root on the cubic only": ("sqrt(2 / pi) multiplies the term of x^3 only, not the 1, in the derivative of the "
                                   "argument",
                                   lambda x, root, cubic: 1 + root * 3 * cubic * x * x),
        "cubic subtracted": ("the term of x^3 is subtracted in the derivative of tanh's argument",
                             lambda x, root, cubic: root * (1 - 3 * cubic * x * x)),
        "root squared": ("sqrt(2 / pi) is twice in the derivative of tanh's argument",
                         lambda x, root, cubic: root**2 * (1 + 3 * cubic * x * x)),
    }),
    **replaced("squash", {
        "no square": ("1 - tanh replaces 1 - tanh^2, the derivative of tanh", lambda t, u: 1 - t),
        "no squash": ("the derivative of tanh is missing: 1 - tanh^2", lambda t, u: 1.0),
        "square alone": ("tanh^2 replaces 1 - tanh^2, the derivative of tanh", lambda t, u: t * t),
        "plus": ("1 + tanh^2 replaces 1 - tanh^2, the derivative of tanh", lambda t, u: 1 + t * t),
        "tanh for its derivative": ("tanh replaces its own derivative, 1 - tanh^2", lambda t, u: t),
        "of the argument": ("1 - u^2 replaces 1 - tanh(u)^2: the input of tanh for its output", lambda t, u: 1 - u * u),
        "tanh again": ("1 - tanh(tanh(u))^2: tanh is taken twice", lambda t, u: 1 - np.tanh(t) ** 2),
        "cosh not squared": ("1 / cosh(u) replaces 1 / cosh(u)^2, the derivative of tanh", lambda t, u: 1 / np.cosh(u)),
        "sigmoid's slope": ("t (1 - t) is the form of sigmoid's derivative; tanh's is 1 - t^2", lambda t, u: t * (1 - t)),
    }),
    **replaced("first", {
        "no first": ("the first term is missing: 0.5 (1 + tanh), from the factor x", lambda t: 0.0),
        "first without half": ("the first term lacks its 0.5: it is 0.5 (1 + tanh)", lambda t: 1 + t),
        "first without 1": ("the first term is 0.5 tanh: the 1 is missing", lambda t: 0.5 * t),
        "first subtracts": ("the first term is 0.5 (1 - tanh): it is 0.5 (1 + tanh)", lambda t: 0.5 * (1 - t)),
        "first is tanh": ("the first term is tanh alone: it is 0.5 (1 + tanh)", lambda t: t),
        "half of tanh": ("the first term is 0.5 + tanh: the 0.5 multiplies tanh too", lambda t: 0.5 + t),
        "brackets in the first": ("the first term is 0.5 * 1 + 0.25 tanh: half of tanh is right", lambda t: 0.5 + 0.25 * t),
        "first is one half": ("the first term is 0.5: tanh is missing in it", lambda t: 0.5 + 0 * t),
    }),
    **replaced("through", {
        "tanh is constant": ("the term through tanh is missing: both factors of 0.5 x and 1 + tanh depend on x",
                             lambda x, slope: 0 * x),
        "second without half": ("the second term lacks its 0.5: it is 0.5 x times the derivative of tanh",
                                lambda x, slope: x * slope),
        "second without x": ("the second term lacks its x: it is 0.5 x times the derivative of tanh",
                             lambda x, slope: 0.5 * slope),
        "second without 0.5 x": ("the second term lacks its factor 0.5 x", lambda x, slope: slope),
        "half squared": ("the second term has 0.5 twice", lambda x, slope: 0.25 * x * slope),
        "x squared": ("the second term has x twice", lambda x, slope: 0.5 * x * x * slope),
    }),
    **replaced("cubic", {
        **{f"coefficient {wrong}": (f"the coefficient of x^3 is {wrong}; it is 0.044715", wrong)
           for wrong in (0.44715, 0.0044715)},
        "coefficient 0.44175": ("the coefficient of x^3 is 0.044175; two digits of 0.044715 are exchanged", 0.044175),
        "coefficient 0.04715": ("the coefficient of x^3 is 0.04715; it is 0.044715", 0.04715),
        **{f"coefficient {digits}": (f"the coefficient of x^3 is {digits}: 0.044715 has more digits", digits)
           for digits in (0.0447, 0.04471, 0.04472, 0.045)},
        "coefficient 1": ("the coefficient of x^3, 0.044715, is missing", 1.0),
        "coefficient 0": ("the term of x^3 is missing, in tanh's argument and in its derivative", 0.0),
        "coefficient's sign": ("the term of x^3 is subtracted; it is added", -CUBIC),
    }),
    **replaced("root", {
        "root of pi / 2": ("sqrt(pi / 2) replaces sqrt(2 / pi)", math.sqrt(math.pi / 2)),
        "2 / pi": ("2 / pi replaces its root, sqrt(2 / pi)", 2 / math.pi),
        "sqrt(2) / pi": ("sqrt(2) / pi replaces sqrt(2 / pi): pi belongs under the root", math.sqrt(2) / math.pi),
        "root of 2 pi": ("sqrt(2 pi) replaces sqrt(2 / pi)", math.sqrt(2 * math.pi)),
        "1 / root of 2 pi": ("1 / sqrt(2 pi) replaces sqrt(2 / pi)", 1 / math.sqrt(2 * math.pi)),
        "root of 2": ("sqrt(2) replaces sqrt(2 / pi)", math.sqrt(2)),
        "1 / root of 2": ("1 / sqrt(2), from the argument of erf, replaces sqrt(2 / pi)", 1 / math.sqrt(2)),
        "root 1": ("sqrt(2 / pi) is missing, in tanh's argument and in its derivative", 1.0),
        **{f"root {digits}": (f"{digits} replaces sqrt(2 / pi): too few digits", digits)
           for digits in (0.8, 0.798, 0.7979, 0.79788, 0.797885)},
    }),
    **replaced("argument", {
        **{f"{wrong} in tanh": (f"{wrong} replaces 0.044715 in tanh's argument",
                                lambda x, root, cubic, wrong=wrong: root * (x + wrong * x**3))
           for wrong in (0.44715, 0.0044715)},
        "root missing in tanh": ("tanh's argument lacks sqrt(2 / pi)", lambda x, root, cubic: x + cubic * x**3),
        "cubic missing in tanh": ("tanh's argument lacks the term of x^3", lambda x, root, cubic: root * x),
        "square in tanh": ("tanh's argument has x^2 for x^3", lambda x, root, cubic: root * (x + cubic * x**2)),
        "root on x only": ("sqrt(2 / pi) multiplies x only, not the term of x^3, in tanh's argument",
                           lambda x, root, cubic: root * x + cubic * x**3),
        "tanh of x": ("tanh(x) replaces tanh(sqrt(2 / pi) (x + 0.044715 x^3))", lambda x, root, cubic: x),
        "tanh of the derivative": ("tanh is taken of its argument's derivative",
                                   lambda x, root, cubic: root * (1 + 3 * cubic * x * x)),
        "cubic subtracted in tanh": ("the term of x^3 is subtracted in tanh's argument",
                                     lambda x, root, cubic: root * (x - cubic * x**3)),
    }),
    **SUMS,
})
