"""Each op's docstring has its formula and those of its gradients in one form; where they can be evaluated, they are right."""
import inspect
import math
import re

import numpy as np
import pytest

import minigrad
from cases import ELEMENTARY
from minigrad.autograd.function import Function, _FunctionOp
from minigrad.ops import (
    activations, arithmetic, attention, layer_norm, losses, matmul, softmax,
)
from minigrad.implementations import textbooks
from minigrad.ops.kinds import Fused, View
from minigrad.tape import Op
from minigrad.tracing.steps import formula

NO_FORMULA = {Op, Fused, View}
NO_GRADIENT = {(attention.ScaledDotProductAttention, "mask"), (attention.ScaledDotProductAttention, "rotation"),
               (attention.PackedAttention, "rotation")}


def below(cls: type) -> set[type]:
    return {cls} | {leaf for child in cls.__subclasses__() for leaf in below(child)}


OPS = sorted((op for op in below(Op) - NO_FORMULA
              if op.__module__.startswith("minigrad.") and "gradcheck" not in op.__module__ and op not in textbooks
              and op.__bases__ != (_FunctionOp,)), key=lambda op: op.__name__)


def inputs_of(op: type) -> list[str]:
    """Names of the arrays that forward takes, or that an elementwise op's gradients take; "x" for any number of them."""
    takes, *_ = getattr(op, "gradients", (op.forward,))
    parameters = list(inspect.signature(takes).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return ["x"]
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def test_every_op_has_formulas_of_its_output_and_of_each_inputs_gradient():
    for op in OPS:
        forward, backward = formula(op)
        assert re.match(r"out(\S*|\[.*?\]) = \S", forward), op
        for name in inputs_of(op):
            if (op, name) not in NO_GRADIENT:
                assert re.search(rf"(^|, ) *d{name}(_\w+|\[.*?\])? = \S", backward), (op, name, backward)


def test_a_subclass_without_a_docstring_inherits_the_formula():
    class Larger(arithmetic.Add):
        pass

    assert formula(Larger) == formula(arithmetic.Add)


def test_a_docstring_of_another_form_has_no_formula():
    class Other(Op):
        """Something else: it says."""

    assert formula(Other) == formula(Op) == ("", "")


def test_a_users_function_has_the_formula_of_its_docstring():
    class Square(Function):
        """out = x^2:  dx = 2 x dout"""

        @staticmethod
        def forward(ctx, x):
            return x * x

    class Silent(Square):
        pass

    x = minigrad.ones(2, requires_grad=True)
    assert formula(type(Square.apply(x).grad_fn)) == ("out = x^2", "dx = 2 x dout")
    assert formula(type(Silent.apply(x).grad_fn))[0] == "out = forward(x)"


# -------------------------------------------------------------------------------------- formulas, computed

READ = [  # the docstrings' notation, and Python's
    (r", sums along dim$", ""),
    (r"\^T", ".mT"),
    (r"\^", "**"),
    (r"gelu'", "gelu_slope"),
    (r"Phi'", "density"),
    (r"\|(\w+)\|", r"abs(\1)"),
    (r"\b(log|sqrt|erf|sin|cos|tanh) (\w+)", r"\1(\2)"),
]
FUNCTIONS = {name: getattr(np, name) for name in (
    "log", "sqrt", "sin", "cos", "tanh", "abs",
)} | {
    "e": math.e,
    "pi": math.pi,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * FUNCTIONS["Phi"](x),
    "gelu_slope": lambda x: FUNCTIONS["Phi"](x) + x * FUNCTIONS["density"](x),
    "Phi": lambda x: np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2,
    "density": lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "sum": lambda x: x.sum(-1, keepdims=True),
    "rowsum": lambda x: x.sum(-1, keepdims=True),
    "columnsum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(-1, keepdims=True),
    "variance": lambda x: x.var(-1, keepdims=True),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
}

random = np.random.default_rng(0)


def normal(*shape):
    return random.standard_normal(shape)


A, B, TARGETS = normal(3, 4), normal(3, 4), np.array([2, 0, 3])
COMPUTED = {  # op: inputs, options
    arithmetic.Add: ((A, B), {}),
    arithmetic.Sub: ((A, B), {}),
    arithmetic.Mul: ((A, B), {}),
    arithmetic.Div: ((A, B), {}),
    arithmetic.Neg: ((A,), {}),
    activations.Gelu: ((A,), {}),
    activations.SwiGLU: ((A, B), {}),
    softmax.Softmax: ((A,), {"dim": -1}),
    softmax.LogSoftmax: ((A,), {"dim": -1}),
    matmul.MatMul: ((normal(2, 3, 4), normal(2, 4, 5)), {}),
    matmul.Linear: ((A, normal(2, 4), normal(2)), {}),
    matmul.MLP: ((A, normal(5, 4), normal(5), normal(2, 5), normal(2)), {}),
    layer_norm.RMSNorm: ((A, normal(4)), {"eps": 0.1}),
    layer_norm.Normalize: ((A,), {"dim": -1, "eps": 1e-12}),
    layer_norm.LayerNorm: ((A, normal(4), normal(4)), {"eps": 0.1}),
    losses.CrossEntropy: ((A,), {"targets": TARGETS}),
    attention.ScaledDotProductAttention: (
        (normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 4), normal(1, 2, 3, 5), None), {"scale": 0.7}),
} | {
    op: ((random.uniform(0.1, 0.9, (3, 4)),), {})
    for op in [*ELEMENTARY, activations.Logsigmoid]
}


def definitions(text: str) -> list[tuple[str, str]]:
    """The (name, expression) of "a = ..., b = ..." """
    for pattern, replacement in READ:
        text = re.sub(pattern, replacement, text)
    return [tuple(part.split(" = ", 1)) for part in re.split(r", +(?=[\w']+(?:\(x\))? = )", text)]


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.__name__)
def test_formula_is_what_the_op_computes(op):
    arrays, options = COMPUTED[op]
    tensors = [array if array is None else minigrad.tensor(array, requires_grad=(op, name) not in NO_GRADIENT)
               for name, array in zip(inputs_of(op), arrays)]
    out = tensors[0].apply_op(op, *tensors, **options)
    dout = normal(*out.shape)
    out.backward(minigrad.tensor(dout))

    forward, backward = map(definitions, formula(op))
    of_cross_entropy = {"N": len(TARGETS), "q": np.eye(4)[TARGETS]}
    known = FUNCTIONS | of_cross_entropy | options | dict(zip(inputs_of(op), arrays)) | {"dout": dout}
    for name, expression in [*forward[::-1], *backward]:  # later definitions are used by earlier ones
        if "(" not in name:  # Phi(x) = ... is in FUNCTIONS
            known[name] = eval(expression, {}, known)
    np.testing.assert_allclose(known["out"], out.array, rtol=1e-9)
    for name, tensor in zip(inputs_of(op), tensors):
        if tensor is not None and tensor.requires_grad:
            np.testing.assert_allclose(known[f"d{name}"], tensor.grad.array, rtol=1e-9, atol=1e-12)
