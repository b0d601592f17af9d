"""The configuration of a transformer: its sizes and options, and which make sense together.

Letters: C width, H heads, V vocabulary, L layers, T time.
"""
import dataclasses
import math
import numbers
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

import nn.functional as F
from nn.position import BASE, parse_scaling

MLP_RATIO = 4  # of the hidden width of an MLP to the width, if neither is given
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
WHOLE = dict.fromkeys(("vocabulary_size", "context", "heads", "width", "key_value_heads", "head_size"), (1, 10 ** 9)) | {
    "layers": (0, MOST_LAYERS), "hidden_width": (1, 10 ** 18)}
INTERVALS = {"norm_eps": "(0, 1)", "rotary_base": "(0, 1e12)", "dropout": "[0, 1)"}
CHOICES: dict[str, Collection[str]] = {
    "placement": PLACEMENTS, "activation": (*F.ACTIVATIONS, *GATED), "norm": NORMS, "dtype": ("float32", "float64"),
    "positions": TABLE_POSITIONS + ATTENTION_POSITIONS,
}


class Derived(int):
    """A size that follows from others, and does so again when dataclasses.replace changes these."""

    ratio: int  # of a hidden width to the width

    def __new__(cls, size: int = 0, ratio: int = MLP_RATIO) -> Self:
        derived = super().__new__(cls, size)
        derived.ratio = ratio
        return derived


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
    positions: str = "learned"  # learned, none, sinusoidal, sine_only, integer, rotary or relative
    norm: str = "layer_norm"  # layer_norm or rms_norm
    norm_eps: float = 1e-5  # added to the variance, or to the mean square, in a norm
    key_value_heads: int = Derived()  # G, heads of keys and values, each shared by H / G query heads; by default H
    head_size: int = Derived()  # D, the width of a head; by default C / H
    hidden_width: int = Derived()  # the hidden width of an MLP; by default 4 C
    tied: bool = True  # do logits use the token embedding, or a matrix of their own?
    rotary_base: float = BASE  # the longest wavelength of rotary positions over 2 pi
    rotary_scaling: str = "none"  # scaling of rotary positions: none, linear:FACTOR or llama3:FACTOR:FEWEST:MOST:CONTEXT
    mlp_ratio: dataclasses.InitVar[int | None] = None  # hidden_width, in multiples of C

    def __post_init__(self, mlp_ratio: int | None) -> None:
        self._derive(mlp_ratio)
        if isinstance(self.head_size, Derived) and self.width % self.heads:
            raise ValueError(f"heads must divide width, got heads {self.heads} and width {self.width}; "
                             "change one of them, or give head_size")
        check_fields(self, WHOLE, INTERVALS, CHOICES)
        if self.heads % self.key_value_heads:
            raise ValueError(f"key_value_heads must divide heads, got {self.key_value_heads} and {self.heads}; change one "
                             "of them")
        kind, scales = parse_scaling(self.rotary_scaling)
        object.__setattr__(self, "rotary_scaling", ":".join([kind, *(f"{scale:.15g}" for scale in scales)]))
        for name in ("rotary_base", "rotary_scaling"):
            if self.positions != "rotary" and getattr(self, name) != getattr(TransformerConfig, name):
                raise ValueError(f"{name} needs positions 'rotary', got positions {self.positions!r}; leave {name} out")
        if self.positions == "rotary" and self.head_size % 2:
            raise ValueError("positions 'rotary' rotates pairs of features, so width / heads (or head_size, if given) must "
                             f"be even, got {self.head_size}; change it, or choose positions 'relative'")

    def _derive(self, mlp_ratio: int | None) -> None:
        """Set the sizes that are not given, or were derived from others before."""
        ratio = getattr(self.hidden_width, "ratio", MLP_RATIO) if mlp_ratio is None else mlp_ratio
        for name, value in (("heads", self.heads), ("width", self.width), ("mlp_ratio", ratio)):
            check_whole(name, value)
        for name, size in derived_sizes(self, ratio).items():
            if getattr(self, name) is None or isinstance(getattr(self, name), Derived):
                object.__setattr__(self, name, Derived(size, ratio))
        if mlp_ratio is not None and self.hidden_width != mlp_ratio * self.width:
            raise ValueError(f"mlp_ratio {mlp_ratio} makes hidden_width {mlp_ratio * self.width}, got {self.hidden_width}; "
                             "leave one of them out")

    def parameter_count(self) -> int:
        """The number of parameters of a CausalTransformer: by default (V + T) C in embeddings and 12 C^2 per block, without
        biases and gains."""
        C, D, hidden, bias = self.width, self.head_size, self.hidden_width, int(self.bias)
        norm = C * (1 + (bias and self.norm == "layer_norm"))
        norms = sum(sublayer.norm_before or sublayer.norm_after for sublayer in PLACEMENTS[self.placement])
        inputs = (self.heads + 2 * self.key_value_heads) * D  # of attention: queries, keys and values
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
        of_attention = (2 * self.heads + 2 * self.key_value_heads) * self.head_size
        of_mlp = self.hidden_width * (4 if self.activation in GATED else 1)
        per_token = self.layers * (8 * self.width + of_attention + of_mlp) + 2 * self.vocabulary_size
        itemsize = 4 if self.dtype == "float32" else 8
        return itemsize * (4 * self.parameter_count() + batch_size * self.context * per_token)


def derived_sizes(config: TransformerConfig, mlp_ratio: int = MLP_RATIO) -> dict[str, int]:
    """The sizes that follow from others if they are not given."""
    return {"key_value_heads": config.heads, "head_size": config.width // config.heads,
            "hidden_width": mlp_ratio * config.width}


def differences(config: TransformerConfig, asked: TransformerConfig) -> list[str]:
    """Where the model asked for differs from that of the first config, whose parameters it would get. Dropout and context
    may differ.

    >>> differences(TransformerConfig(norm="rms_norm"), TransformerConfig(dropout=0.1))
    ["norm 'rms_norm', not 'layer_norm'"]
    """
    names = [field.name for field in dataclasses.fields(config) if field.name not in ("dropout", "context")]
    return [f"{name} {getattr(config, name)!r}, not {getattr(asked, name)!r}" for name in names
            if getattr(config, name) != getattr(asked, name)]


def refuse(config: TransformerConfig, model: str, *names: str) -> None:
    """ValueError if a field is given that a kind of model does not use."""
    usual = {field.name: field.default for field in dataclasses.fields(config)} | derived_sizes(config)
    for name in names:
        if getattr(config, name) != usual[name]:
            raise ValueError(f"{name} makes no sense for {model}, got {getattr(config, name)!r}; leave {name} out")
