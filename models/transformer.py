"""The causal transformer (a GPT), top to bottom: its sizes, its blocks, the model, and the presets.

Letters: B batch, T time, C width, H heads, V vocabulary, L layers.
"""
import dataclasses
import math
import numbers

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor

INITIAL_STD = 0.02  # of every weight matrix, as in GPT-2


def check_whole(name: str, value: int, least: int = 1, most: int = 10 ** 9) -> None:
    """ValueError unless the value is a whole number in the range."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a causal transformer; ValueError names the field that makes no sense.

    >>> TransformerConfig(width=128, heads=5)
    Traceback (most recent call last):
    ...
    ValueError: heads must divide width, got heads 5 and width 128; change one of them
    """

    vocabulary_size: int = 96  # V, how many different tokens there are; the corpus decides
    context: int = 64  # the longest T, how many tokens a prediction sees
    layers: int = 4  # L, how many blocks
    heads: int = 4  # H, attention heads in a block, each width / heads wide
    width: int = 128  # C, the size of the vector that stands for a token
    dropout: float = 0.0  # the share of values zeroed while training, for larger models on small texts
    bias: bool = True  # have linear layers and layer norms a bias?
    dtype: str = "float32"  # of the parameters and of all that is computed: float32 or float64

    def __post_init__(self):
        for name in ("vocabulary_size", "context", "layers", "heads", "width"):
            check_whole(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError(f"heads must divide width, got heads {self.heads} and width {self.width}; "
                             "change one of them")
        if not isinstance(self.dropout, numbers.Real) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {self.dropout!r}")
        if not isinstance(self.bias, bool):
            raise ValueError(f"bias must be True or False, got {self.bias!r}")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")

    def parameter_count(self) -> int:
        """How many numbers the model learns: (V + T) C for embeddings, and 12 C^2 a block, biases and gains aside."""
        C, bias = self.width, int(self.bias)
        norm = C * (1 + bias)
        block = 12 * C * C + 9 * C * bias + 2 * norm
        return (self.vocabulary_size + self.context) * C + self.layers * block + norm

    def training_bytes(self, batch_size: int) -> int:
        """About how much memory a training step takes: parameters, gradients, AdamW's moments, and activations."""
        per_token = self.layers * 16 * self.width + 2 * self.vocabulary_size
        itemsize = 4 if self.dtype == "float32" else 8
        return itemsize * (4 * self.parameter_count() + batch_size * self.context * per_token)


class MLP(nn.Module):
    """Two linear layers with a GELU between: mlp(x) = project(gelu(expand(x))), 4 C wide inside.

    One operation computes all of it, unless a hook waits at one of the two layers.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.expand = nn.Linear(config.width, 4 * config.width, bias=config.bias, activation="gelu")
        self.project = nn.Linear(4 * config.width, config.width, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        expand, project = self.expand, self.project
        if expand.has_hooks or project.has_hooks:
            return project(expand(x))
        return F.mlp(x, expand.weight, expand.bias, project.weight, project.bias, expand.activation)


class Block(nn.Module):
    """A pre-norm transformer block: x + attention(ln_1(x)), and to that + mlp(ln_2(.)). (B, T, C) to (B, T, C)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, bias=config.bias)
        self.attention = nn.MultiHeadAttention(config.width, config.heads, dropout=config.dropout, bias=config.bias)
        self.ln_2 = nn.LayerNorm(config.width, bias=config.bias)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.ln_1(x), is_causal=True))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class CausalTransformer(nn.Module):
    """A decoder-only transformer: it predicts each token from those before it.

    >>> model = CausalTransformer(PRESETS["micro"].config)
    >>> logits, loss = model(mg.zeros(2, 5, dtype=mg.int64))
    >>> logits.shape, loss
    ((2, 5, 96), None)
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocabulary_size, config.width)
        self.position_embedding = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width, bias=config.bias)
        self.to(config.dtype)
        self._initialise()

    def _initialise(self) -> None:
        """GPT-2's: matrices normal with deviation 0.02, biases zero, gains one; what is added to the residual stream
        is smaller by sqrt(2 L), so that the sum of its 2 L additions keeps its size."""
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                adds_to_residual = name.endswith(("attention.out_proj.weight", "mlp.project.weight"))
                std = INITIAL_STD / math.sqrt(2 * self.config.layers) if adds_to_residual else INITIAL_STD
                nn.init.normal_(parameter, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits (B, T, V) of the token after each of `tokens` (B, T), and with `targets` (B, T) the mean
        cross-entropy over those that are not -100.

        ValueError if T exceeds the context; IndexError if a token id is not in the vocabulary.
        """
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= self.config.context:
            raise ValueError(f"expected tokens (B, T) with 1 <= T <= {self.config.context} (the model's context), "
                             f"got {tuple(tokens.shape)}; crop the sequence, or build the model with a larger context")
        x = self.dropout(self.token_embedding(tokens, self.position_embedding.weight))  # (B, T, C)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.token_embedding.weight)  # (B, T, V): the read-out is tied to the embedding
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, self.config.vocabulary_size), targets.reshape(-1))


@dataclasses.dataclass(frozen=True)
class Preset:
    """A model and the batch size that it is trained with."""

    config: TransformerConfig
    batch_size: int


PRESETS = {
    "micro": Preset(TransformerConfig(layers=2, heads=2, width=32, context=32), batch_size=4),
    "nano": Preset(TransformerConfig(layers=4, heads=4, width=128, context=64), batch_size=12),
    "small": Preset(TransformerConfig(layers=4, heads=4, width=256, context=128), batch_size=16),
    "long": Preset(TransformerConfig(layers=2, heads=4, width=128, context=1024), batch_size=2),
    "baby": Preset(TransformerConfig(layers=6, heads=6, width=384, context=256), batch_size=16),
}
