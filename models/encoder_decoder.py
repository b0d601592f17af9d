"""Transformers with an encoder: the encoder-decoder, for sequence to sequence, and the classifier.

Sources and targets are rows of token ids, padded with PAD at the end. A target follows START and ends with STOP.
"""
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from models.attention_maps import attention_maps, has_attention
from models.config import TransformerConfig, refuse
from models.transformer import Model, Stack, initialise

PAD, START, STOP = 0, 1, 2  # token ids; symbols follow


class Encoder(Stack):
    """Tokens (B, T), or vectors (B, T, C), to (B, T, C): blocks without a causal mask, so each token sees all others.

    With `attends=False` the blocks have no attention and process each token by itself.
    """

    def __init__(self, config: TransformerConfig, attends: bool = True):
        super().__init__(config, is_causal=False, attends=attends)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.run(tokens, padding=padding)


class Decoder(Stack):
    """Tokens (B, T) and a memory (B, S, C) to (B, T, C): causal blocks with cross-attention to the memory."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config, has_memory=True)

    def forward(self, tokens: Tensor, memory: Tensor, memory_padding: Tensor | None = None) -> Tensor:
        return self.run(tokens, memory=memory, memory_padding=memory_padding)


def looks_at_source(name: str) -> bool:
    """Is this name of a Seq2Seq's attention map one from the decoder to the source?"""
    return name == "attention" or name.endswith(".cross_attention")


class Seq2Seq(Model):
    """Base class of models from sequence to sequence.

    Subclasses define encode(source), which returns a memory, and decode(memory, padding, inputs), which returns the logits
    (B, T, V) of the token after each of the inputs (B, T).
    """

    def encode(self, source: Tensor) -> Any:
        """The memory of a source (B, S): a Tensor, or several."""
        raise NotImplementedError(f"{type(self).__name__} has no encode()")

    def decode(self, memory: Any, padding: Tensor, inputs: Tensor) -> Tensor:
        """Logits (B, T, V) of the token after each of the inputs (B, T); padding (B, S) is True there."""
        raise NotImplementedError(f"{type(self).__name__} has no decode()")

    def forward(self, source: Tensor, inputs: Tensor, targets: Tensor | None = None,
                label_smoothing: float = 0.0) -> tuple[Tensor, Tensor | Any]:
        """Logits (B, T, V) of the token after each of `inputs` (B, T), given `source` (B, S); with `targets` (B, T) also
        the mean cross-entropy over those that are not padding."""
        logits = self.decode(self.encode(source), source == PAD, inputs)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=PAD,
                                       label_smoothing=label_smoothing)

    def attention_map(self, source: Tensor, inputs: Tensor) -> np.ndarray | None:
        """The weights (B, T, S) with which each step looks at the source: the last layer's, averaged over heads. None for a
        model without such attention."""
        maps = attention_maps(self, source, inputs) if has_attention(self) else {}
        to_source = [weights for name, weights in maps.items() if looks_at_source(name)]
        return to_source[-1].mean(axis=1)[:, -inputs.shape[1] :] if to_source else None


class EncoderDecoder(Seq2Seq):
    """The transformer of Vaswani et al. (arXiv:1706.03762): an encoder, and a causal decoder that attends to its output.

    >>> import minigrad as mg
    >>> model = EncoderDecoder(TransformerConfig(vocabulary_size=13, context=8, layers=1, heads=2, width=16))
    >>> logits, loss = model(mg.full((2, 5), 3, dtype=mg.int64), mg.full((2, 4), 3, dtype=mg.int64))
    >>> logits.shape
    (2, 4, 13)
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.encoder: Encoder = Encoder(config)
        self.decoder: Decoder = Decoder(config)
        self.read_out: nn.Linear | None = (
            None if config.tied else nn.Linear(config.width, config.vocabulary_size, bias=False))
        self.to(config.dtype)
        initialise(self, config.layers, std=1 / math.sqrt(config.width))  # tiny models learn sooner than from 0.02

    def encode(self, source: Tensor) -> Tensor:
        return self.encoder(source, source == PAD)

    def decode(self, memory: Any, padding: Tensor, inputs: Tensor) -> Tensor:
        x = self.decoder(inputs, memory, padding)
        return F.linear(x, self.decoder.token_embedding.weight) if self.read_out is None else self.read_out(x)


class Classifier(Model):
    """An encoder with a linear head: logits (B, classes) from the mean over the tokens, or the last one (pooling="last"),
    without padding.

    `make_tokens` turns other inputs, such as images, into vectors (B, T, C) first.

    >>> import minigrad as mg
    >>> model = Classifier(TransformerConfig(vocabulary_size=13, context=8, layers=1, heads=2, width=16), classes=2)
    >>> model(mg.full((3, 5), 3, dtype=mg.int64))[0].shape
    (3, 2)
    """

    def __init__(self, config: TransformerConfig, classes: int, pooling: str = "mean", attends: bool = True,
                 make_tokens: Callable[[Tensor], Tensor] | None = None):
        super().__init__()
        if pooling not in ("mean", "last"):
            raise ValueError(f"pooling must be 'mean' or 'last', got {pooling!r}")
        refuse(config, "a classifier", "tied")  # it has a head instead of a read-out
        if not attends:
            refuse(config, "a model without attention", "key_value_heads", "head_size", "rotary_base", "rotary_scaling")
        self.config = config
        self.pooling = pooling
        self.make_tokens = make_tokens
        self.encoder: Encoder = Encoder(config, attends)
        self.head: nn.Linear = nn.Linear(config.width, classes)
        self.to(config.dtype)
        initialise(self, config.layers, std=1 / math.sqrt(config.width))  # tiny models learn sooner than from 0.02

    def forward(self, inputs: Tensor, labels: Tensor | None = None,
                label_smoothing: float = 0.0) -> tuple[Tensor, Tensor | Any]:
        """Logits, and with `labels` (B,) the mean cross-entropy."""
        padding = inputs == PAD if self.make_tokens is None else None
        x = self.encoder(inputs, padding) if self.make_tokens is None else self.encoder(self.make_tokens(inputs))
        if padding is None:
            x = x[:, -1] if self.pooling == "last" else x.mean(1)
        elif self.pooling == "last":
            x = x[mg.arange(len(x)), (~padding * mg.arange(x.shape[1])).argmax(1)]
        else:
            is_real = (~padding).to(x.dtype)[..., None]
            x = (x * is_real).sum(1) / is_real.sum(1)
        logits = self.head(x)
        if labels is None:
            return logits, None
        return logits, F.cross_entropy(logits, labels, label_smoothing=label_smoothing)
