"""Transformer layers and stacks of them, with PyTorch's arguments and parameter names, so that its state dicts load.

    encoder layer:  x = x + self_attn(x);                                x = x + linear2(activation(linear1(x)))
    decoder layer:  x = x + self_attn(x);  x = x + multihead_attn(x, memory);  x = x + linear2(activation(linear1(x)))

Each sum is a sublayer: dropout acts on what is added, and a norm on the sum (Vaswani et al., arXiv:1706.03762), or with
norm_first on the sublayer's input (arXiv:2002.04745). `models` has faster blocks, with more placements of the norm.

Tensors are (T, B, C), or (B, T, C) if batch_first, or (T, C) if unbatched. Masks are those of `MultiheadAttention`: True
forbids attention, floats are added to the scores, and is_causal is a hint that the mask, which must be given, is causal.
(In PyTorch an encoder in eval ignores a hint without a mask.)
"""
import copy
import math
from collections.abc import Callable
from typing import Any

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import one_of, positive_int, probability
from nn.container import ModuleList
from nn.dropout import Dropout
from nn.layer_norm import LayerNorm
from nn.linear import Linear
from nn.module import Module
from nn.multi_head_attention import MultiheadAttention


class _Layer(Module):
    """Base of encoder and decoder layers."""

    has_memory = False  # True for layers that attend to an encoder's output

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = F.relu, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None):
        super().__init__()
        name = type(self).__name__
        positive_int(name, "d_model", d_model)
        positive_int(name, "nhead", nhead)
        positive_int(name, "dim_feedforward", dim_feedforward)
        probability(name, "dropout", dropout)
        self.activation: Callable[[Tensor], Tensor] = (
            activation if callable(activation) else F.ACTIVATIONS[one_of(name, "activation", activation, F.ACTIVATIONS)])
        self.batch_first = batch_first
        self.norm_first = norm_first
        self.self_attn: MultiheadAttention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        if self.has_memory:
            self.multihead_attn: MultiheadAttention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias)
        sublayers = range(1, 4 if self.has_memory else 3)
        for i in sublayers:
            self.add_module(f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias))
        for i in sublayers:
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.to(device, dtype)

    def _add(self, x: Tensor, norm: LayerNorm, dropout: Dropout, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def extra_repr(self) -> str:
        activation = getattr(self.activation, "__name__", repr(self.activation))
        return f"activation={activation}, batch_first={self.batch_first}, norm_first={self.norm_first}"


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, d_model -> dim_feedforward -> d_model, each with dropout and a norm.

        x = norm1(x + dropout1(self_attn(x)))
        x = norm2(x + dropout2(linear2(dropout(activation(linear1(x))))))

    and with norm_first the norms act on the inputs of self_attn and linear1. `activation` is a function, or one of
    F.ACTIVATIONS. src -> the same form.

    >>> import minigrad as mg
    >>> layer = TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(mg.randn(3, 5, 8), src_key_padding_mask=mg.zeros(3, 5, dtype=mg.bool)).shape
    (3, 5, 8)
    """

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:
        """Masks are (T, T) or (B * nhead, T, T), and (B, T) or (T,)."""
        x = self._add(src, self.norm1, self.dropout1, lambda x: self.self_attn(
            x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0])
        return self._add(x, self.norm2, self.dropout2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory (the encoder's output), and a feed-forward network.

        x = norm1(x + dropout1(self_attn(x)))
        x = norm2(x + dropout2(multihead_attn(x, memory)))
        x = norm3(x + dropout3(linear2(dropout(activation(linear1(x))))))

    and with norm_first the norms act on the inputs of the sublayers. Arguments are those of TransformerEncoderLayer.
    tgt (T, B, C) and memory (S, B, C), or (B, T, C) and (B, S, C) if batch_first, or unbatched -> the form of tgt.

    >>> import minigrad as mg
    >>> layer = TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(mg.randn(5, 3, 8), mg.randn(7, 3, 8)).shape
    (5, 3, 8)
    """

    has_memory = True

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:
        """tgt_mask (T, T) and tgt_key_padding_mask (B, T) are for self_attn, memory_mask (T, S) and
        memory_key_padding_mask (B, S) for multihead_attn."""
        x = self._add(tgt, self.norm1, self.dropout1, lambda x: self.self_attn(
            x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0])
        x = self._add(x, self.norm2, self.dropout2, lambda x: self.multihead_attn(
            x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal)[0])
        return self._add(x, self.norm3, self.dropout3, self._feed_forward)


class _Stack(Module):
    """Copies of a layer, one after the other, and perhaps a norm."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None):
        super().__init__()
        self.num_layers: int = positive_int(type(self).__name__, "num_layers", num_layers)
        self.layers: ModuleList = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.norm = norm

    def _through(self, x: Tensor, call: Callable[[Module, Tensor], Tensor]) -> Tensor:
        for layer in self.layers:
            x = call(layer, x)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """num_layers copies of a layer, with the same initial parameters, one after the other, then `norm`, if given.

    `enable_nested_tensor` and `mask_check` are there for code written for PyTorch, and change nothing.

    >>> import minigrad as mg
    >>> layer = TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> TransformerEncoder(layer, num_layers=2, norm=LayerNorm(8))(mg.randn(5, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:
        """Masks go to each layer."""
        return self._through(src, lambda layer, x: layer(x, mask, src_key_padding_mask, bool(is_causal)))


class TransformerDecoder(_Stack):
    """num_layers copies of a layer, with the same initial parameters, one after the other, then `norm`, if given.

    >>> import minigrad as mg
    >>> layer = TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> TransformerDecoder(layer, num_layers=2)(mg.randn(5, 3, 8), mg.randn(7, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        """The memory and the masks go to each layer."""
        return self._through(tgt, lambda layer, x: layer(
            x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, bool(tgt_is_causal),
            memory_is_causal))


class Transformer(Module):
    """An encoder and a decoder that attends to its output, each with a final LayerNorm; matrices start as xavier_uniform_.

        y = decoder(tgt, memory=encoder(src))

    src (S, B, C) and tgt (T, B, C), or (B, S, C) and (B, T, C) if batch_first -> the form of tgt. A custom encoder or
    decoder replaces these.

    >>> import minigrad as mg
    >>> model = Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(mg.randn(7, 3, 8), mg.randn(5, 3, 8), tgt_mask=model.generate_square_subsequent_mask(5)).shape
    (5, 3, 8)
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = F.relu,
                 custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None):
        super().__init__()
        options = dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder: Module = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, *options), num_encoder_layers, norm())
        self.decoder: Module = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(d_model, nhead, *options), num_decoder_layers, norm())
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:
        """Masks are those of the encoder and the decoder."""
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A causal mask (sz, sz): 0 on and below the diagonal, -inf above."""
        return mg.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
