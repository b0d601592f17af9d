"""A whole block of a transformer, attention and MLP, as plain steps in float64, with any placement of norms and residuals.

It is `models.transformer.Block` without biases and dropout, its fused parts spelled out. Matrices multiply x from the
right, so each is the transpose of a Linear's weight.
"""
import dataclasses
import math
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn.functional as F
from minigrad import Tensor
from models.transformer import PLACEMENTS
from study.page.attention import Inputs

T, C, HIDDEN = 3, 4, 6  # of the block on the page
SUBLAYERS = "attention", "mlp"


@dataclasses.dataclass(frozen=True)
class BlockInputs(Inputs):
    """The inputs of a block: x (T, C), w_q, w_k, w_v, w_o (C, C), w_in (C, hidden), w_out (hidden, C), and gain_attention
    and gain_mlp (C) of the norms that it has; and the upstream gradient of its output (T, C)."""

    placement: str = "pre"  # a key of PLACEMENTS
    heads: int = 1


def draw(placement: str, heads: int = 1, causal: bool = True, seed: int = 1) -> BlockInputs:
    """A block with random numbers of one decimal, which are easy to read."""
    generator = np.random.default_rng(seed)
    shapes = {"x": (T, C), "w_q": (C, C), "w_k": (C, C), "w_v": (C, C), "w_o": (C, C), "w_in": (C, HIDDEN),
              "w_out": (HIDDEN, C)}
    inputs = {name: generator.normal(size=shape, scale=1.0 if name == "x" else 0.5).round(1)
              for name, shape in shapes.items()}
    for name, sublayer in zip(SUBLAYERS, PLACEMENTS[placement]):
        if sublayer.norm_before or sublayer.norm_after:
            inputs[f"gain_{name}"] = generator.uniform(0.5, 1.5, size=C).round(1)
    return BlockInputs(inputs, generator.normal(size=(T, C)).round(1), causal, placement, heads)


def block(numbers: BlockInputs, inputs: dict[str, Tensor]) -> Tensor:
    """The loss sum(output * upstream) of a block with these Tensors as its inputs."""
    attended = sublayer(0, numbers, inputs, inputs["x"], lambda inner: attend(numbers, inputs, inner))
    output = sublayer(1, numbers, inputs, attended, lambda inner: mlp(inputs, inner))
    output.name = "output"
    upstream = mg.tensor(numbers.upstream, dtype=mg.float64)
    read_out = output * upstream
    loss = read_out.sum()
    return loss


def sublayer(which: int, numbers: BlockInputs, inputs: dict[str, Tensor], x: Tensor, function: Callable[[Tensor], Tensor]
             ) -> Tensor:
    """A sublayer of `models.transformer.Block`: its norm before or after, and its residual connection."""
    name, rule = SUBLAYERS[which], PLACEMENTS[numbers.placement][which]

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (x.shape[-1],), inputs[f"gain_{name}"])

    inner = named(f"{name}_input", norm(x)) if rule.norm_before else x
    out = named(name, function(inner))
    if rule.residual is not None:
        out = named(f"{name}_sum", (x if rule.residual == "x" else inner) + out)
    return named(f"{name}_output", norm(out)) if rule.norm_after else out


def attend(numbers: BlockInputs, inputs: dict[str, Tensor], x: Tensor) -> Tensor:
    """Multi-head attention with its output projection."""
    T, C, H = *x.shape, numbers.heads

    def split(x: Tensor) -> Tensor:
        return x if H == 1 else x.reshape(T, H, C // H).transpose(0, 1)

    q = x @ inputs["w_q"]
    k = x @ inputs["w_k"]
    v = x @ inputs["w_v"]
    q_heads, k_heads, v_heads = split(q), split(k), split(v)
    k_transposed = k_heads.mT
    products = q_heads @ k_transposed
    scores = products * math.sqrt(H / C)
    masked_scores = mg.where(mg.tensor(numbers.mask), scores, -math.inf)
    weights = masked_scores.softmax(-1)
    attended = weights @ v_heads
    merged = attended if H == 1 else attended.transpose(0, 1).reshape(T, C)
    return merged @ inputs["w_o"]


def mlp(inputs: dict[str, Tensor], x: Tensor) -> Tensor:
    """gelu(x @ w_in) @ w_out"""
    hidden = x @ inputs["w_in"]
    activated = hidden.gelu()
    return activated @ inputs["w_out"]


def named(name: str, tensor: Tensor) -> Tensor:
    tensor.name = name
    return tensor
