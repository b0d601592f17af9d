"""A whole block of a transformer, attention and MLP, as plain steps in float64, with any placement of norms and residuals.

It is `models.transformer.Block` without biases and dropout, its fused parts spelled out. Matrices multiply x from the
right, so each is the transpose of a Linear's weight.
"""
import dataclasses
import math
from collections.abc import Callable

import numpy as np

import nn.functional as F
from minigrad import Tensor
from models.config import PLACEMENTS
from study.page.attention import AXES_FROM_X, FROM_X, C, T, Inputs, drawn, loss_of, named, projected, shapes_from_x

HIDDEN = 6  # the width of the MLP on the page
SUBLAYERS = "attention", "mlp"


@dataclasses.dataclass(frozen=True)
class BlockInputs(Inputs):
    """The inputs of a block: x (T, C), w_q, w_k, w_v, w_o (C, C), w_in (C, hidden), w_out (hidden, C), and gain_attention
    and gain_mlp (C) of the norms that it has; and the upstream gradient of its output (T, C)."""

    placement: str = "pre"  # a key of PLACEMENTS
    norm: str = "layer_norm"  # or rms_norm

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        found = AXES_FROM_X | {"w_o": ("HV", "C"), "w_in": ("C", "M"), "w_out": ("M", "C"), "w_u": ("C", "N"),
                               "gain_attention": ("C",), "gain_mlp": ("C",), "upstream": ("T", "C")}
        return {name: axes for name, axes in found.items() if name in self.inputs or name == "upstream"}


def names(placement: str) -> tuple[str, ...]:
    """The inputs of a block."""
    gains = (f"gain_{name}" for name, rule in zip(SUBLAYERS, PLACEMENTS[placement]) if rule.norm_before or rule.norm_after)
    return *FROM_X, "w_in", "w_out", *gains


def draw(placement: str, heads: int = 1, causal: bool = True, seed: int = 1, key_value_heads: int | None = None, **changes
         ) -> BlockInputs:
    """A block with random numbers of one decimal, which are easy to read."""
    generator = np.random.default_rng(seed + 1)
    inputs = drawn(shapes_from_x(heads, key_value_heads) | {"w_in": (C, HIDDEN), "w_out": (HIDDEN, C)}, seed)
    inputs |= {name: generator.uniform(0.5, 1.5, size=C).round(1) for name in names(placement) if name not in inputs}
    return BlockInputs(inputs, generator.normal(size=(T, C)).round(1), causal, placement, heads=heads,
                       key_value_heads=key_value_heads, **changes)


def block(numbers: BlockInputs, inputs: dict[str, Tensor]) -> Tensor:
    """The loss of a block with these Tensors as its inputs."""
    factor = 1 / math.sqrt(numbers.size)
    attended = sublayer(0, numbers, inputs, inputs["x"], lambda inner: projected(numbers, inputs, inner, factor))
    output = sublayer(1, numbers, inputs, attended, lambda inner: mlp(inputs, inner))
    return loss_of(numbers, inputs, named("output", output))


def sublayer(which: int, numbers: BlockInputs, inputs: dict[str, Tensor], x: Tensor, function: Callable[[Tensor], Tensor]
             ) -> Tensor:
    """A sublayer of `models.transformer.Block`: its norm before or after, and its residual connection."""
    name, rule = SUBLAYERS[which], PLACEMENTS[numbers.placement][which]

    def norm(x: Tensor) -> Tensor:
        return getattr(F, numbers.norm)(x, (x.shape[-1],), inputs[f"gain_{name}"], eps=1e-5)

    inner = named(f"{name}_input", norm(x)) if rule.norm_before else x
    out = named(name, function(inner))
    if rule.residual is not None:
        out = named(f"{name}_sum", (x if rule.residual == "x" else inner) + out)
    return named(f"{name}_output", norm(out)) if rule.norm_after else out


def mlp(inputs: dict[str, Tensor], x: Tensor) -> Tensor:
    """gelu(x @ w_in) @ w_out"""
    hidden = x @ inputs["w_in"]
    activated = hidden.gelu()
    return activated @ inputs["w_out"]

