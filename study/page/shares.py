"""The paths by which the gradient of x arrives: through q, k and v, and in a block also through residual connections.

A path is a step and the input that it uses, which may be a norm of x: what the step sends to that input goes on to x.
"""
import functools
import math

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from minigrad.tracing import Trace
from models.config import PLACEMENTS, TransformerConfig
from models.transformer import Block, initialise
from study.page.attention import FROM_Q_K_V
from study.page.formulas import SYMBOLS

Paths = dict[tuple[str, str], str]  # {(step, input): label}


def paths_to_x() -> dict[str, Paths]:
    """The paths to x in a head that starts from it."""
    return {"x": {(name, "x"): SYMBOLS[name] for name in FROM_Q_K_V}}


def paths_in_block(trace: Trace, placement: str) -> dict[str, Paths]:
    """The paths to x and to the input of the MLP's sublayer, by that tensor's name."""
    found, x = {}, "x"
    for name, rule, takers in zip(("attention", "mlp"), PLACEMENTS[placement], (FROM_Q_K_V, ("hidden",))):
        inner = f"{name}_input" if rule.norm_before else x
        after = " and the norm" if rule.norm_before else ""
        found[x] = {}
        if rule.residual is not None:
            kept = x if rule.residual == "x" else inner
            found[x][adder(trace, kept, name), kept] = "the residual" + (after if rule.residual == "inner" else "")
        for taker in takers:
            found[x][taker, inner] = ("the MLP" if name == "mlp" else SYMBOLS[taker]) + after
        x = f"{name}_output" if rule.norm_after else f"{name}_sum" if rule.residual is not None else name
    return found


def adder(trace: Trace, kept: str, added: str) -> str:
    """The step that adds a sublayer's result to the residual."""
    terms = [trace[kept], trace[added]]
    return next(step.output.name for step in trace.steps
                if step.op == "Add" and [value for value in step.inputs if value in terms] == terms)


# ---- in words ----

IN_WORDS = (
    "A share is how much of a gradient one part of it makes up: the part's length along the gradient, divided by the "
    "gradient's length. Shares add up to 100%. If one part points against the gradient, its share is negative, and the "
    "others together exceed 100%.")
OF_A_STACK = {  # what the residual connections of a stack carry down, by what stands on them
    "nothing": "Along this block's residual connections, the gradient of the output reaches `X` unchanged, and so it does "
               "through any number of such blocks. A small share means that the other parts are large, not that this one "
               "is weak.",
    "norms": "Even along its residual connections the gradient has to pass this block's norms. If attention and MLP write "
             "as much as they read, about two thirds of its length are left per block, whatever its share is here.",
    "gaps": "Not every sublayer of this block has a residual connection, so no part of the gradient gets around them all.",
}


def in_words(placement: str) -> list[str]:
    """What the shares of a block say, and what they do not.

    >>> in_words("pre")[1].split(",")[0]
    "Along this block's residual connections"
    """
    rules = PLACEMENTS[placement]
    if any(rule.residual is None for rule in rules):
        return [IN_WORDS, OF_A_STACK["gaps"]]
    is_free = all(rule.residual == "x" and not rule.norm_after for rule in rules)
    return [IN_WORDS, OF_A_STACK["nothing" if is_free else "norms"]]


# ---- over depth ----

INITIALISATIONS = {  # {name: standard deviation of the tokens' features}
    "1/sqrt(inputs)": 1.0,  # of each matrix, so that products neither grow nor shrink
    "GPT-2": 0.02 * math.sqrt(2),  # an embedding and a position, of 0.02 as all matrices but those that add to the residual
}


def stack(placement: str, layers: int, seed: int, initialisation: str = "1/sqrt(inputs)", width: int = 128
          ) -> tuple[nn.ModuleList, Tensor, Tensor]:
    """Causal blocks with 4 heads at initialisation, 16 random tokens, and an upstream gradient of length 1."""
    generator = np.random.default_rng(seed)
    mg.manual_seed(seed)
    config = TransformerConfig(context=16, layers=layers, heads=4, width=width, placement=placement, dtype="float64")
    blocks = nn.ModuleList([Block(config) for _ in range(layers)]).double()
    initialise(blocks, layers)
    if initialisation == "1/sqrt(inputs)":
        for parameter in blocks.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[1]))
    x, upstream = generator.standard_normal((2, 1, 16, width))
    return blocks, mg.tensor(INITIALISATIONS[initialisation] * x), mg.tensor(upstream / np.linalg.norm(upstream))


def down(blocks: nn.ModuleList, x: Tensor, upstream: Tensor) -> tuple[float, float, list[float]]:
    """How the gradient of the blocks' output comes down to x: its length there; the length of what came along residual
    connections alone, past every attention and MLP; and for each block the share of its own residual connections."""
    xs = [x.detach().requires_grad_(True)]
    for block in blocks:
        xs.append(block(xs[-1]))
    gradients = mg.grad(xs[-1], xs, upstream)
    for block in blocks:  # from here on nothing comes back through attention and MLPs
        for sublayer in (block.attention, block.mlp):
            sublayer.register_forward_hook(lambda module, inputs, out: out.detach())
    skip, shares = upstream, []
    for i in reversed(range(len(blocks))):
        past = functools.partial(mg.vjp, blocks[i], xs[i].detach())
        skip = past(skip)[1]
        shares.insert(0, share(past(gradients[i + 1])[1].numpy(), gradients[i].numpy()))
    return float(np.linalg.norm(gradients[0].numpy())), float(np.linalg.norm(skip.numpy())), shares


def share(part: np.ndarray, whole: np.ndarray) -> float:
    """(part · whole) / (whole · whole)"""
    return float((part * whole).sum() / (whole * whole).sum())
