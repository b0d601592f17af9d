"""A function with a backward of its own, and its check: in minigrad, and in PyTorch if it is installed.

    python examples/custom_function.py

The function is SwiGLU, silu(gate) * value. A backward that forgets part of silu's derivative is checked, too.
"""
import importlib.util

import minigrad as mg
from minigrad.gradcheck import gradcheck_report


def swiglu_of(Function: type) -> type:
    """The same class for both libraries: their Function and their Tensors have the same methods."""

    class SwiGLU(Function):
        """out = gate * sigmoid(gate) * value

        dvalue = dout * gate * sigmoid(gate);  dgate = dout * value * (s + gate * s * (1 - s)) with s = sigmoid(gate)
        """

        @staticmethod
        def forward(ctx, gate, value):
            ctx.save_for_backward(gate, value)
            return gate * gate.sigmoid() * value

        @staticmethod
        def backward(ctx, dout):
            gate, value = ctx.saved_tensors
            s = gate.sigmoid()
            return dout * value * (s + gate * s * (1 - s)), dout * gate * s

    return SwiGLU


def without_the_product_rule(SwiGLU: type) -> type:
    class WrongSwiGLU(SwiGLU):
        @staticmethod
        def backward(ctx, dout):
            gate, value = ctx.saved_tensors
            s = gate.sigmoid()
            return dout * value * s, dout * gate * s  # as if sigmoid(gate) were constant

    return WrongSwiGLU


def main() -> dict[str, list[str]]:
    """The verdicts on the right and on the wrong one, by library."""
    libraries = {"minigrad": (mg, mg.Function)}
    if importlib.util.find_spec("torch"):
        import torch
        libraries["PyTorch"] = torch, torch.autograd.Function
    verdicts = {}
    for name, (library, function) in libraries.items():
        library.manual_seed(0)
        gate, value = (library.randn(3, 4, dtype=library.float64, requires_grad=True) for _ in range(2))
        right = swiglu_of(function)
        reports = [gradcheck_report(fn.apply, (gate, value)) for fn in (right, without_the_product_rule(right))]
        print(f"---- {name}", *reports, sep="\n\n", end="\n\n")
        verdicts[name] = [report.verdict for report in reports]
    return verdicts


if __name__ == "__main__":
    main()
