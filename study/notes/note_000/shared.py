"""Shared by the parts of note 000: a small model."""
from models import CausalTransformer, TransformerConfig
from study.notes.helpers import scrambled


def small_model() -> CausalTransformer:
    """With matrices large enough for tokens to influence each other."""
    return scrambled(CausalTransformer(TransformerConfig(vocabulary_size=11, context=12, layers=2, heads=2, width=16)), 0.3)
