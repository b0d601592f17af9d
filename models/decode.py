"""Next-token logits of a CausalTransformer by one kernel call a token, with a cache of keys and values.

A model's parts are translated into the steps of a `Program`, in the order of its forward. For a part that is not known
here, that a subclass has changed or that has a hook, there are no steps: `generate` then calls the whole forward.
"""
import math
from collections.abc import Callable

import numpy as np

import nn
from minigrad import Tensor
from minigrad.extend import ACTIVATIONS, Program, latest_write
from models.transformer import MLP, Block, CausalTransformer, Sublayer, scale_of_tokens, with_positions
from nn.functional import class_ids
from nn.position import rotate


class CachedDecoder:
    """Next-token logits of B sequences, with the keys and values of their tokens kept: only what is new is computed.

    logits(tokens) is model(tokens)[0][:, -1] in evaluation mode, whatever was asked before: the cache serves as far as
    the tokens are those of the call before, and no tensor has been written to since, as training does. When a full
    window moves on, the positions of all its tokens shift, and all are computed again.

    ValueError names the part of a model that it does not know.

    >>> import minigrad as mg
    >>> from models import TransformerConfig
    >>> model = CausalTransformer(TransformerConfig(activation="silu", positions="rotary"))
    >>> decoder = CachedDecoder(model, batch_size=1)
    >>> for tokens in [[1, 2, 3]], [[1, 2, 3, 4]]:
    ...     logits, _ = model(mg.tensor(tokens))
    ...     print(np.allclose(decoder.logits(tokens), logits.array[:, -1], atol=1e-5))
    True
    True
    """

    def __init__(self, model: CausalTransformer, batch_size: int):
        self.model, self.batch_size = model, batch_size
        self._translate()

    def _translate(self) -> None:
        """Look where the parameters are, and forget what was computed with them before."""
        self.program = _Translation(self.model).program
        self.keys, self.values = self.program.caches(self.batch_size)
        self.cached = np.empty((self.batch_size, 0), np.int64)  # the tokens (B, T) whose keys and values are kept
        self.latest_write = latest_write()

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) of the token after these, (B, T).

        ValueError if T exceeds the context; IndexError if a token is not in the vocabulary.
        """
        tokens = class_ids("tokens", tokens, self.model.token_embedding.num_embeddings)
        context = self.program.context
        if tokens.ndim != 2 or len(tokens) != self.batch_size or not 1 <= tokens.shape[1] <= context:
            raise ValueError(f"expected tokens ({self.batch_size}, T) with 1 <= T <= {context} (the model's context), got "
                             f"{tokens.shape}; crop the sequences")
        if self.latest_write != latest_write():
            self._translate()
        start = self._count_known(tokens)
        logits = self.program.run(tokens[:, start:], start, self.keys, self.values)
        self.cached = tokens
        return logits

    def _count_known(self, tokens: np.ndarray) -> int:
        """How many of the tokens are cached; the last one does not count, as its logits are asked for."""
        count = min(self.cached.shape[1], tokens.shape[1] - 1)
        same = self.cached[:, :count] == tokens[:, :count]
        return count if same.all() else int(same.all(axis=0).argmin())


class _Translation:
    """The program of a CausalTransformer: a method for each kind of part adds its steps.

    The residual stream x is in one of two registers, and the other one is free; within a sublayer there are two more.
    """

    def __init__(self, model: CausalTransformer):
        _expect(model, CausalTransformer)
        _expect(model.token_embedding, nn.Embedding)
        _expect(model.blocks, nn.ModuleList)
        for block in model.blocks:
            _expect(block, Block)
            _expect(block.mlp, MLP)
            _expect(block.mlp.expand, nn.Linear)
        C, vocabulary = model.config.width, model.token_embedding.weight.array
        hidden = [len(block.mlp.expand.weight) for block in model.blocks]
        self.program = Program(vocabulary.dtype, model.config.heads, C, model.config.context)
        self.streams = self.program.register(C), self.program.register(C)
        self.wide = self.program.register(max(3 * C, *hidden, 0))  # q, k, v side by side; the MLP before its activation
        self.mixed = self.program.register(max(C, *hidden, 0))  # the heads side by side; the MLP after its activation
        x = self.embedding(model)
        for block in model.blocks:
            x = self.block(block, x)
        last = self.other(x)
        self.program.last(x, last)
        if model.config.final_norm:
            last = self.norm(model.ln_f, last)
        else:
            _expect(model.ln_f, nn.Identity)
        if model.read_out is None:
            self.program.linear(last, vocabulary, None, self.program.register(len(vocabulary)))
        else:
            self.linear(model.read_out, last, self.program.register(len(model.read_out.weight)))

    def other(self, stream: int) -> int:
        return self.streams[1 - self.streams.index(stream)]

    def embedding(self, model: CausalTransformer) -> int:
        config, tokens, scale = model.config, model.token_embedding, 1.0
        _expect(model.dropout, nn.Dropout)
        if config.positions == "learned":
            _expect(model.position_embedding, nn.Embedding)
            positions = model.position_embedding.weight
        else:
            zeros = Tensor(np.zeros((1, config.context, config.width), tokens.weight.dtype))
            positions, scale = with_positions(zeros, config)[0], scale_of_tokens(config)
        self.program.embed(tokens.weight.array, positions.array, scale, self.streams[0])
        return self.streams[0]

    def block(self, block: Block, x: int) -> int:
        _expect(block.dropout, nn.Dropout)
        if not (block.is_causal and block.attends):
            raise ValueError("there is a block that is not causal, or has no attention")
        x = self.sublayer(block.placement[0], block.ln_1, x, self.attention, block.attention)
        return self.sublayer(block.placement[1], block.ln_2, x, self.mlp, block.mlp)

    def sublayer(self, sublayer: Sublayer, norm: nn.LayerNorm | None, x: int, function: Callable, module: nn.Module) -> int:
        """function(module, inner, out, accumulate) adds the steps from one stream to another, which may be the same."""
        inner = self.norm(norm, x) if sublayer.norm_before else x
        out = inner if sublayer.residual == "inner" else x
        function(module, inner, out, sublayer.residual is not None)
        return self.norm(norm, out) if sublayer.norm_after else out

    def norm(self, norm: nn.LayerNorm, x: int) -> int:
        _expect(norm, nn.LayerNorm)
        if norm.eps_at != "inside" or norm.unbiased:
            raise ValueError("there is a layer norm with another denominator")
        self.program.norm(x, _array(norm.weight), _array(norm.bias), norm.eps, self.other(x))
        return self.other(x)

    def linear(self, layer: nn.Linear, x: int, out: int, accumulate: bool = False, activated: int | None = None) -> None:
        _expect(layer, nn.Linear)
        if layer.activation not in ((None,) if activated is None else ACTIVATIONS):
            raise ValueError(f"there is a linear layer with the activation {layer.activation!r}")
        self.program.linear(x, layer.weight.array, _array(layer.bias), out, accumulate, layer.activation, activated or 0)

    def mlp(self, mlp: MLP, x: int, out: int, accumulate: bool) -> None:
        if mlp.gate is not None:
            raise ValueError("there is an MLP with a gate")
        self.linear(mlp.expand, x, self.wide, activated=self.mixed)
        self.linear(mlp.project, self.mixed, out, accumulate)

    def attention(self, attention: nn.Module, x: int, out: int, accumulate: bool) -> None:
        if type(attention) is nn.Attention:
            self.general_heads(attention, x)
            self.linear(attention.out, self.mixed, out, accumulate)
        else:
            self.packed_heads(attention, x)
            self.linear(attention.out_proj, self.mixed, out, accumulate)

    def packed_heads(self, attention: nn.MultiHeadAttention, x: int) -> None:
        _expect(attention, nn.MultiHeadAttention)
        if not attention.is_packed or attention.num_heads != self.program.heads:
            raise ValueError("there is an attention with sizes of its own")
        self.program.linear(x, attention.in_proj_weight.array, _array(attention.in_proj_bias), self.wide)
        self.program.attend(self.wide, self.mixed)

    def general_heads(self, attention: nn.Attention, x: int) -> None:
        _expect(attention, nn.Attention)
        size = self.program.width // self.program.heads
        expected = dict(heads=self.program.heads, key_size=size, value_size=size, factor=1 / math.sqrt(size), causal="mask",
                        query_key="separate", projects_value=True, output_projection="concat", layout="rows",
                        key_value_heads=self.program.heads, residual=False)
        if any(getattr(attention, name) != value for name, value in expected.items()):
            raise ValueError("there is an attention with switches of its own")
        projections = attention.query, attention.key, attention.value
        for projection in projections:
            _expect(projection, nn.Linear)
        kinds = {(projection.activation, projection.bias is not None) for projection in projections}
        has_bias = (None, True) in kinds
        if kinds != {(None, has_bias)}:
            raise ValueError("there is an attention with projections of its own")
        weight = np.concatenate([projection.weight.array for projection in projections])
        bias = np.concatenate([projection.bias.array for projection in projections]) if has_bias else None
        self.program.linear(x, weight, bias, self.wide)
        rotation = by_distance = None
        if attention.positions == "rotary":  # pairs (1, 0) turn into the pairs (cosine, sine)
            rotation = rotate(Tensor(np.tile([1.0, 0.0], (self.program.context, size // 2)), dtype=weight.dtype),
                              base=attention.rotary_base, scaling=attention.rotary_scaling).array
        if attention.positions == "relative":
            by_distance = attention.relative_bias.array
        self.program.attend(self.wide, self.mixed, rotation, by_distance)


def _expect(module: nn.Module, kind: type) -> None:
    """ValueError if the module may compute what its type says in another way: in a subclass, or with a hook."""
    if type(module) is not kind or module.has_hooks:
        hooks = " with hooks" if module.has_hooks else ""
        raise ValueError(f"there is a {type(module).__name__}{hooks}, not a plain {kind.__name__}")


def _array(parameter: nn.Parameter | None) -> np.ndarray | None:
    return None if parameter is None else parameter.array
