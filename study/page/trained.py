"""A head of a trained transformer on a text: q, k and v as the model computes them, and the gradient that its own loss
sends to the head's output, converted to float64.
"""
import os

import numpy as np

import minigrad as mg
from models import CausalTransformer, loading
from models.checkpoint import find
from models.data import IGNORED
from study.page.attention import Head

TEXT_LENGTH = 16  # tokens of a text of the model's own: more make small numbers on the page
VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}  # characters that are invisible in a label


def head_of_run(run: str | os.PathLike, text: str, layer: int, head: int, count: int = 1) -> Head:
    """`count` heads on a text, from this one on; layers and heads count from 1. CheckpointError for a run that cannot be
    loaded; ValueError for another kind of model, a layer or head that does not exist, or a text that does not fit."""
    model = text_model(run)
    config = model.config
    for flag, value, last in (("layer", layer, config.layers), ("head", head, config.heads)):
        if not 1 <= value <= last:
            known = f"{flag}s 1 to {last}" if last > 1 else f"{flag} 1 only" if last else f"no {flag}"
            raise ValueError(f"--{flag} {value} does not exist: {run} has {known}")
    if head + count - 1 > config.heads:
        raise ValueError(f"--heads {count} from --head {head} on are too many: {run} has heads 1 to {config.heads}")
    tokens, unit = model.tokenizer.encode(text), model.tokenizer.unit
    if not 2 <= len(tokens) <= config.context:
        raise ValueError(f"the text has {len(tokens)} {unit if len(tokens) != 1 else unit[:-1]}; give at least 2, so that "
                         f"there is a next one, and at most {config.context}, the model's context")
    labels = tuple("".join(VISIBLE.get(letter, letter) for letter in name) for name in model.tokenizer.names(tokens))
    return head_of_model(model, tokens, layer, head, count, labels)


def text_model(run: str | os.PathLike) -> CausalTransformer:
    """The model of a run on a text; ValueError for another kind of model."""
    model = loading.load(find(run))
    if not isinstance(model, CausalTransformer):
        raise ValueError(f"{run} was trained on task {model.tokenizer.name!r}; give a causal transformer trained on text, "
                         "such as `minigrad train` makes")
    return model


def own_text(run: str | os.PathLike) -> str:
    """A short text that the model of a run knows."""
    model = text_model(run)
    return model.tokenizer.own_text(model, TEXT_LENGTH)


def head_of_model(model: CausalTransformer, tokens: np.ndarray, layer: int, head: int, count: int = 1,
                  labels: tuple[str, ...] = ()) -> Head:
    """`count` heads on tokens (T,), from this one on; layers and heads count from 1. The loss is the model's, the mean
    cross-entropy of the next tokens; the last token has none."""
    attention = model.blocks[layer - 1].attention
    seen = {}
    handles = [attention.register_forward_pre_hook(lambda module, inputs: seen.update(x=inputs[0])),
               attention.out_proj.register_forward_pre_hook(
                   lambda module, inputs: seen.update(heads=inputs[0]))]  # (1, T, C): all heads side by side
    try:
        targets = np.append(tokens[1:], IGNORED)
        _, loss = model(mg.tensor(tokens[None]), mg.tensor(targets[None]))
    finally:
        for handle in handles:
            handle.remove()
    x, (dheads,) = seen["x"], mg.grad(loss, [seen["heads"]])
    q, k, v = (attention.for_each_query(part) for part in attention.project(x, x, x))  # (1, H, T, D)
    q, k = attention.rotated(q), attention.rotated(k)
    T, chosen = len(tokens), slice(head - 1, head - 1 + count)
    parts = {"q": q[0], "k": k[0], "v": v[0], "upstream": dheads[0].reshape(T, model.config.heads, -1).transpose(0, 1)}
    arrays = {name: as_float64(part[chosen].transpose(0, 1).reshape(T, -1)) for name, part in parts.items()}
    upstream = arrays.pop("upstream")
    bias = None
    if attention.positions == "relative":
        bias = as_float64(attention.position_bias(T, T)[chosen if count > 1 else head - 1])
    return Head(arrays, upstream, heads=count, labels=labels, bias=bias)


def as_float64(tensor: mg.Tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)
