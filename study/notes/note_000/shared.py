"""Shared by the parts of note 000: a small model."""
import minigrad as mg
import nn
from models import CausalTransformer, TransformerConfig

ATTENTION, TRANSFORMER = "study/notes/attention.py:Attention", "models/transformer.py"  # where most of it stands


def small_model(std: float = 0.3, dtype: str = "float64") -> CausalTransformer:
    """With matrices large enough for tokens to influence each other."""
    mg.manual_seed(0)
    model = CausalTransformer(TransformerConfig(vocabulary_size=11, context=12, layers=2, heads=2, width=16, dtype=dtype))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=std)
    return model
