"""The configuration of a transformer: its sizes and options, and which make sense together.

Letters: C width, H heads, V vocabulary, L layers, T time.
"""
import dataclasses
import math
import numbers
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import nn.functional as F
from nn.position import BASE, parse_scaling

MOST_LAYERS = 10_000  # take seconds to build


def check_whole(name: str, value: int, least: int = 1, most: int = 10 ** 9) -> None:
    """ValueError unless the value is a whole number from `least` to `most`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")


def check_number(name: str, value: float, interval: str) -> None:
    """ValueError unless the value is a number in an interval.

    >>> check_number("lr", 2.0, "(0, 1]")
    Traceback (most recent call last):
    ...
    ValueError: lr must be more than 0 and at most 1, got 2.0
    """
    least, most = map(float, interval[1:-1].split(","))
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and least <= value <= min(most, sys.float_info.max) and not (value == least and interval[0] == "(")
            and not (value == most and interval[-1] == ")")):
        low, high = {"(": "more than", "[": "at least"}[interval[0]], {")": "less than", "]": "at most"}[interval[-1]]
        upper = "finite" if most == math.inf else f"{high} {most:g}"
        raise ValueError(f"{name} must be {low} {least:g} and {upper}, got {value!r}")


def check_fields(config: Any, whole: Mapping[str, tuple[int, int]], intervals: Mapping[str, str],
                 choices: Mapping[str, Iterable[str]]) -> None:
    """ValueError names the first field of a config that is not a whole number from least to most, in its interval, one of
    its choices, or a bool. Optional fields may be None."""
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        if value is None and field.default is None:
            continue
        if name in whole:
            check_whole(name, value, *whole[name])
        elif name in intervals:
            check_number(name, value, intervals[name])
        elif name in choices and value not in choices[name]:
            raise ValueError(f"{name} must be one of {', '.join(choices[name])}, got {value!r}")
        elif field.type is bool and not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")


@dataclasses.dataclass(frozen=True)
class Sublayer:
    """The places of the norm and the residual connection around f, attention or MLP:

        inner = norm(x) or x,    out = [x or inner +] f(inner),    then norm(out) or out
    """

    norm_before: bool
    residual: str | None  # what is added: "x", "inner" or nothing
    norm_after: bool


PLACEMENTS = {  # of the two sublayers of a block: attention, then the MLP
    "pre": (Sublayer(True, "x", False), Sublayer(True, "x", False)),
    "post": (Sublayer(False, "x", True), Sublayer(False, "x", True)),
    "residual": (Sublayer(False, "x", False), Sublayer(False, "x", False)),
    "none": (Sublayer(False, None, False), Sublayer(False, None, False)),
    "inner": (Sublayer(True, "inner", False), Sublayer(True, "inner", False)),  # adds to the normalised input
    "mixed": (Sublayer(True, "inner", False), Sublayer(True, "x", False)),
    "post_attention_only": (Sublayer(False, "x", True), Sublayer(False, None, True)),  # no residual around the MLP
}
TABLE_POSITIONS = "learned", "none", "sinusoidal", "sine_only", "integer"  # added to the tokens
ATTENTION_POSITIONS = "rotary", "relative"  # within attention
ENDLESS_POSITIONS = "none", *ATTENTION_POSITIONS  # only distances between tokens matter, so texts can have any length
NORMS = "layer_norm", "rms_norm"
GATED = {"swiglu": "silu"}  # {activation of an MLP with a gate: that of the gate} (Shazeer, arXiv:2002.05202)
WHOLE = dict.fromkeys(("vocabulary_size", "context", "heads", "width", "mlp_ratio", "key_value_heads", "head_size",
                       "hidden_width"), (1, 10 ** 9)) | {"layers": (0, MOST_LAYERS)}
INTERVALS = {"norm_eps": "(0, 1)", "rotary_base": "(0, 1e12)", "dropout": "[0, 1)"}
CHOICES: dict[str, Collection[str]] = {
    "placement": PLACEMENTS, "activation": (*F.ACTIVATIONS, *GATED), "norm": NORMS, "dtype": ("float32", "float64"),
    "positions": TABLE_POSITIONS + ATTENTION_POSITIONS,
}


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The sizes and options of a transformer; ValueError names an invalid field.

    >>> TransformerConfig(width=128, heads=5)
    Traceback (most recent call last):
    ...
    ValueError: heads must divide width, got heads 5 and width 128; change one of them, or give head_size
    """

    vocabulary_size: int = 96  # V, the number of different tokens; set by the corpus
    context: int = 64  # how many tokens one sees, including itself; the longest T, if positions are in a table
    layers: int = 4  # L, the number of blocks
    heads: int = 4  # H, attention heads per block
    width: int = 128  # C, the size of a token's vector
    dropout: float = 0.0  # the fraction of values zeroed in training, for larger models on small texts
    bias: bool = True  # do linear layers and layer norms have a bias?
    dtype: str = "float32"  # dtype of parameters and activations: float32 or float64
    placement: str = "pre"  # of norms and residuals: pre, post, residual, none, inner, mixed, post_attention_only
    final_norm: bool = True  # is there a norm before the output projection?
    activation: str = "gelu"  # activation of an MLP: gelu, gelu_tanh, relu, tanh, sigmoid, silu or, with a gate, swiglu
    mlp_ratio: int = 4  # the hidden width of an MLP, in multiples of C
    positions: str = "learned"  # learned, none, sinusoidal, sine_only, integer, rotary or relative
    norm: str = "layer_norm"  # layer_norm or rms_norm
    norm_eps: float = 1e-5  # added to the variance, or to the mean square, in a norm
    key_value_heads: int | None = None  # heads of keys and values, each shared by a group of query heads; by default all
    head_size: int | None = None  # the width of a head; by default width / heads
    hidden_width: int | None = None  # the hidden width of an MLP; by default mlp_ratio * width
    tied: bool = True  # do logits use the token embedding, or a matrix of their own?
    rotary_base: float = BASE  # the longest wavelength of rotary positions over 2 pi
    rotary_scaling: str = "none"  # scaling of rotary positions: none, linear:FACTOR or llama3:FACTOR:FEWEST:MOST:CONTEXT

    def __post_init__(self) -> None:
        check_fields(self, WHOLE, INTERVALS, CHOICES)
        if self.heads % self.groups:
            raise ValueError(f"key_value_heads must divide heads, got {self.groups} and {self.heads}; change one of them")
        if self.head_size is None and self.width % self.heads:
            raise ValueError(f"heads must divide width, got heads {self.heads} and width {self.width}; "
                             "change one of them, or give head_size")
        parse_scaling(self.rotary_scaling)
        for name in ("rotary_base", "rotary_scaling"):
            if self.positions != "rotary" and is_given(self, name):
                raise ValueError(f"{name} needs positions 'rotary', got positions {self.positions!r}; leave {name} out")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError("positions 'rotary' rotates pairs of features, so width / heads (or head_size, if given) must "
                             f"be even, got {self.head_width}; change it, or choose positions 'relative'")

    @property
    def groups(self) -> int:
        """The number of key and value heads."""
        return self.heads if self.key_value_heads is None else self.key_value_heads

    @property
    def head_width(self) -> int:
        """The width of a head, D."""
        return self.width // self.heads if self.head_size is None else self.head_size

    @property
    def hidden(self) -> int:
        """The number of hidden units of an MLP."""
        return self.mlp_ratio * self.width if self.hidden_width is None else self.hidden_width

    def parameter_count(self) -> int:
        """The number of parameters of a CausalTransformer: by default (V + T) C in embeddings and 12 C^2 per block, without
        biases and gains."""
        C, D, hidden, bias = self.width, self.head_width, self.hidden, int(self.bias)
        norm = C * (1 + (bias and self.norm == "layer_norm"))
        norms = sum(sublayer.norm_before or sublayer.norm_after for sublayer in PLACEMENTS[self.placement])
        inputs = (self.heads + 2 * self.groups) * D  # of attention: queries, keys and values
        attention = (C + bias) * inputs + (self.heads * D + bias) * C
        mlp = (C + bias) * hidden * (1 + (self.activation in GATED)) + (hidden + bias) * C
        block = attention + mlp + norms * norm
        if self.positions == "relative":
            block += self.heads * (2 * self.context + 1)
        table = self.context * C if self.positions == "learned" else 0
        tokens = self.vocabulary_size * C * (1 if self.tied else 2)
        return tokens + table + self.layers * block + norm * self.final_norm

    def training_bytes(self, batch_size: int) -> int:
        """Roughly the memory of training: parameters, gradients, AdamW's moments, and activations."""
        of_attention = (2 * self.heads + 2 * self.groups) * self.head_width
        of_mlp = self.hidden * (4 if self.activation in GATED else 1)
        per_token = self.layers * (8 * self.width + of_attention + of_mlp) + 2 * self.vocabulary_size
        itemsize = 4 if self.dtype == "float32" else 8
        return itemsize * (4 * self.parameter_count() + batch_size * self.context * per_token)


def is_given(config: TransformerConfig, name: str) -> bool:
    """Does a field of the config differ from its default?"""
    return getattr(config, name) != TransformerConfig.__dataclass_fields__[name].default


def canonical(config: TransformerConfig) -> TransformerConfig:
    """The same model, without redundant fields."""
    ratio, rest = divmod(config.hidden, config.width)
    is_plain = config.head_width * config.heads == config.width
    scaling, numbers = parse_scaling(config.rotary_scaling)
    return dataclasses.replace(
        config, mlp_ratio=TransformerConfig.mlp_ratio if rest else ratio, hidden_width=config.hidden if rest else None,
        key_value_heads=None if config.groups == config.heads else config.groups,
        head_size=None if is_plain else config.head_width,
        rotary_scaling=":".join(map(str, [scaling, *numbers])))


def differences(config: TransformerConfig, asked: TransformerConfig) -> list[str]:
    """Where the model asked for differs from that of the first config, whose parameters it would get. Dropout and context
    may differ.

    >>> differences(TransformerConfig(norm="rms_norm"), TransformerConfig(dropout=0.1))
    ["norm 'rms_norm', not 'layer_norm'"]
    """
    config, asked = canonical(config), canonical(asked)
    names = [field.name for field in dataclasses.fields(config) if field.name not in ("dropout", "context")]
    return [f"{name} {getattr(config, name)!r}, not {getattr(asked, name)!r}" for name in names
            if getattr(config, name) != getattr(asked, name)]


def refuse(config: TransformerConfig, model: str, *names: str) -> None:
    """ValueError if a field is given that a kind of model does not use."""
    for name in names:
        if is_given(config, name):
            raise ValueError(f"{name} makes no sense for {model}, got {getattr(config, name)!r}; leave {name} out")
