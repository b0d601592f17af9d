"""What the parts of note 000 share: its formulas, slowly, in NumPy, and small layers, models and tasks."""
import dataclasses
import math

import numpy as np

import minigrad as mg
import nn
from models.task import Task
from models.tasks import TASKS
from models.transformer import MLP, Block, CausalTransformer, TransformerConfig
from study.notes.helpers import normal

ATTENTION, TRANSFORMER = "nn/attention.py:Attention", "models/transformer.py"  # where most of it stands
HEADS = 2  # of the blocks below

# ---------------------------------------------------------------- the note's formulas, slowly, in NumPy


def attend(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, is_causal: bool = False) -> np.ndarray:
    """Row t: the sum of exp(q_t . k_s) v_s over s, divided by the sum of exp(q_t . k_s); s ends at t if causal."""
    rows = []
    for t, query in enumerate(queries):
        seen = range(t + 1 if is_causal else len(keys))
        weights = [math.exp(sum(a * b for a, b in zip(query, keys[s]))) for s in seen]
        rows.append(sum(weights[s] * values[s] for s in seen) / sum(weights))
    return np.array(rows)


def mhsa(layer: nn.MultiHeadAttention, x: np.ndarray) -> np.ndarray:
    """What the layer computes, head by head; the factor 1/sqrt(head size) is the note's U_q's to have."""
    weights, biases = (np.split(p.array, 3) for p in (layer.in_proj_weight, layer.in_proj_bias))
    q, k, v = (x @ weight.T + bias for weight, bias in zip(weights, biases))
    size = x.shape[1] // HEADS
    heads = [slice(h * size, (h + 1) * size) for h in range(HEADS)]
    outputs = [attend(q[:, own] / math.sqrt(size), k[:, own], v[:, own]) for own in heads]
    return np.hstack(outputs) @ layer.out_proj.weight.array.T + layer.out_proj.bias.array


def mlp(layer: MLP, x: np.ndarray) -> np.ndarray:
    hidden = x @ layer.expand.weight.array.T + layer.expand.bias.array
    gelu = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return gelu @ layer.project.weight.array.T + layer.project.bias.array


# ---------------------------------------------------------------- layers and tasks for this note


def make_block(placement: str) -> Block:
    """A small bidirectional block in float64, none of whose parameters is zero or one."""
    block = Block(TransformerConfig(context=8, heads=HEADS, width=4, placement=placement), is_causal=False).double()
    for seed, parameter in enumerate(block.parameters()):
        parameter.data[...] = 0.5 * normal(seed, *parameter.shape)
    return block


def on_rows(block: Block):
    """The block as a function of a single sequence (T, C)."""
    return lambda x: block(x[None])[0]


def of_one_length(name: str, length: int) -> Task:
    return dataclasses.replace(TASKS[name], lengths=(length, length))


def small_model(std: float = 0.3, dtype: str = "float64") -> CausalTransformer:
    """With matrices large enough that tokens matter to each other."""
    mg.manual_seed(0)
    model = CausalTransformer(TransformerConfig(vocabulary_size=11, context=12, layers=2, heads=2, width=16, dtype=dtype))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=std)
    return model
