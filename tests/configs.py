"""Configs of transformers, drawn at random."""
import numpy as np

from models import TransformerConfig
from models.config import ATTENTION_POSITIONS, PLACEMENTS, TABLE_POSITIONS
from nn.functional import ACTIVATIONS


def random_config(random: np.random.Generator, **chosen) -> TransformerConfig:
    """A config whose fields are random, except for the chosen ones."""
    def draw(*choices):
        return choices[random.integers(len(choices))]

    heads, head_size = draw(1, 2, 4, 6), draw(None, 2, 6)
    positions = chosen.get("positions", draw(*TABLE_POSITIONS, *ATTENTION_POSITIONS))
    rotary = dict(rotary_base=draw(10_000.0, 30.0), rotary_scaling=draw("none", "linear:4", "llama3:8:1:4:12"))
    drawn = dict(
        vocabulary_size=draw(5, 11), context=draw(1, 2, 5, 8), layers=draw(0, 1, 2), heads=heads,
        width=draw(2, 4, 10) * heads if head_size is None else draw(5, 12), head_size=head_size,
        key_value_heads=draw(None, *(n for n in range(1, heads + 1) if heads % n == 0)), hidden_width=draw(None, 7, 20),
        bias=draw(True, False), placement=draw(*PLACEMENTS), final_norm=draw(True, False),
        activation=draw(*ACTIVATIONS, "swiglu"), positions=positions, norm=draw("layer_norm", "rms_norm"),
        norm_eps=draw(1e-5, 0.1), tied=draw(True, False), dtype=draw("float32", "float64"), dropout=draw(0.0, 0.5),
    )
    return TransformerConfig(**drawn | (rotary if positions == "rotary" else {}) | chosen)
