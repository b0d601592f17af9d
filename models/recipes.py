"""Presets, the sizes of a model and its batch; and recipes, how a model of a text is built and trained, under one name.
docs/training.md says what each part of a recipe is worth."""
import dataclasses
from collections.abc import Mapping
from typing import Any

from models.config import TransformerConfig, derived_sizes


@dataclasses.dataclass(frozen=True)
class Preset:
    """A model's config, and the batch size to train it with."""

    config: TransformerConfig
    batch_size: int


SIZES = "layers", "heads", "width", "context"  # set by a preset
PRESETS = {
    "micro": Preset(TransformerConfig(layers=2, heads=2, width=32, context=32), batch_size=4),
    "nano": Preset(TransformerConfig(layers=4, heads=4, width=128, context=64), batch_size=12),
    "small": Preset(TransformerConfig(layers=4, heads=4, width=256, context=128), batch_size=16),
    "long": Preset(TransformerConfig(layers=2, heads=4, width=128, context=1024), batch_size=2),
    "baby": Preset(TransformerConfig(layers=6, heads=6, width=384, context=256), batch_size=16),
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Fields of a TransformerConfig and of a TrainingConfig that differ from the defaults; sizes come from a preset.

    >>> RECIPES["muon"].model["positions"], RECIPES["nanogpt"].model["positions"]
    ('rotary', 'learned')
    """

    description: str
    model: Mapping[str, Any]
    training: Mapping[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of both configs."""
        return {**self.model, **self.training}


RECIPES = {  # the first is the default of `minigrad train`
    "muon": Recipe(
        "a small Llama, trained with Muon",
        dict(positions="rotary", norm="rms_norm", activation="swiglu", mlp_ratio=2, bias=False, tied=False),
        dict(optimizer="muon", muon_lr=0.02, muon_momentum=0.85, lr=0.016, final_lr=0.0, annealing="linear",
             warmup_steps=20, weight_decay=0.0, steps=300, eval_every=100, precision="auto")),
    "nanogpt": Recipe(  # the same fields with their default values
        "nanoGPT's for a CPU: GPT-2, trained with AdamW",
        dict(positions="learned", norm="layer_norm", activation="gelu", mlp_ratio=4, bias=True, tied=True),
        dict(optimizer="adamw", muon_lr=0.02, muon_momentum=0.95, lr=1e-3, final_lr=0.1, annealing="cosine",
             warmup_steps=100, weight_decay=0.1, steps=2000, eval_every=250, precision="float32")),
}
DEFAULT = next(iter(RECIPES))


def given_fields(config: TransformerConfig) -> dict[str, Any]:
    """The fields of a config as one gives them: None for sizes that follow from others, and mlp_ratio for a hidden_width
    that is a multiple of the width."""
    fields, (ratio, rest) = dataclasses.asdict(config), divmod(config.hidden_width, config.width)
    fields |= {name: None for name, size in derived_sizes(config, ratio).items() if fields[name] == size}
    return fields | {"mlp_ratio": None if rest else ratio}


def nearest(settings: Mapping[str, Any]) -> str:
    """The recipe from which the fewest of these settings, fields of both configs, differ.

    >>> nearest(RECIPES["nanogpt"].fields | {"lr": 0.5})
    'nanogpt'
    """
    return min(RECIPES, key=lambda name: sum(settings.get(field) != value for field, value in RECIPES[name].fields.items()))
