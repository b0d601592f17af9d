"""Next-token logits of a CausalTransformer by one kernel call per token, with a cache of keys and values.

A model is translated into the steps of a `Program`, in the order of its forward. Unknown parts, subclasses and hooks cannot
be translated; `generate` then calls the whole forward.
"""
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad as mg
import nn
from minigrad.extend import ACTIVATIONS, Program, changes, latest_write
from models.transformer import ENDLESS_POSITIONS, MLP, Block, CausalTransformer, Sublayer, scale_of_tokens, with_positions
from nn.checks import class_ids
from nn.position import rotary_table

FEW = 16  # tokens: checking them one by one takes a sixth of the time of `class_ids`
FEWEST_ANGLES = 256  # of rotary positions, computed at a time
FEWEST_SLOTS = 256  # for keys and values, at first; most texts need far fewer than the context has (75 MB in GPT-2)


class CannotDecode(ValueError):
    """A model has an unknown part; the message names it."""


def is_endless(model: CausalTransformer) -> bool:
    """Can a text have any length, because no table of positions ends?"""
    return model.config.positions in ENDLESS_POSITIONS


def reach(model: CausalTransformer) -> int:
    """How many of the last tokens the next one depends on in an endless text: each block adds a window."""
    return len(model.blocks) * (model.config.context - 1) + 1


def most_slots(model: CausalTransformer) -> int:
    """The most slots for keys and values ever needed; in an endless text, half of them are freed when all are full."""
    return (2 if is_endless(model) else 1) * model.config.context


def seen_of_prompt(model: CausalTransformer, tokens: np.ndarray) -> np.ndarray:
    """The tokens of a prompt (B, T) to show to the model: all that the next token can depend on."""
    return tokens[:, -(reach(model) if is_endless(model) else model.config.context):]


def seen_after_one_more(model: CausalTransformer, tokens: np.ndarray) -> np.ndarray:
    """The tokens to show to the model, of tokens (B, T) whose last is new.

    In an endless text, those that the next token depends on. With a table of positions, all while there is room; then the
    window restarts with its last half, at the start of the table, and fills up again.
    """
    context = model.config.context
    if is_endless(model):
        return tokens[:, -reach(model):]
    return tokens if tokens.shape[1] <= context else tokens[:, -(context // 2 + 1):]


class CachedDecoder:
    """Next-token logits of B sequences, with a cache of their keys and values.

    logits(tokens) is model(tokens)[0][:, -1] in evaluation mode, without autocast. It reuses the cache for the tokens that
    equal those of the previous call, unless a tensor was written to or a module changed since. next_logits(chosen) adds one
    token to each sequence, see `seen_after_one_more`:

    - Without a table of positions, cached keys and values stay valid while the window slides over them, so a token takes as
      long past the context as within it. The cache has 2 * context slots; when they are full, the last ones move to the
      front.
    - With a table, all positions would shift with the window, so half of it is recomputed at once when it is full.

    CannotDecode, a ValueError, names the unknown part of a model.

    >>> import minigrad as mg
    >>> from models import TransformerConfig
    >>> model = CausalTransformer(TransformerConfig(activation="silu", positions="rotary", context=2))
    >>> decoder = CachedDecoder(model, batch_size=1)
    >>> for logits, tokens in (decoder.logits([[1, 2, 3]]), [[1, 2, 3]]), (decoder.next_logits([4]), [[1, 2, 3, 4]]):
    ...     print(np.allclose(logits, model(mg.tensor(tokens))[0].array[:, -1], atol=1e-5))
    True
    True
    """

    def __init__(self, model: CausalTransformer, batch_size: int):
        if Program is None:
            raise CannotDecode("there are no kernels for it")
        self.model = model
        self.batch_size = batch_size
        self._translate()

    @property
    def tokens(self) -> np.ndarray:
        """At least the last tokens (B, T) that the next one can depend on."""
        return self._text[:, : self._end - self._begin]

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) of the token after these (B, T).

        ValueError if T exceeds the context of a model with a table of positions; IndexError if a token is not in the
        vocabulary.
        """
        if self._has_changed():
            self._translate()
        tokens = self._checked(tokens)
        start = self._count_known(tokens)
        if start == 0:
            start = max(0, tokens.shape[1] - self._reach) if self._is_endless else 0
            self._start_at(start)
        self._end = start
        return self._read(tokens[:, start:])

    def next_logits(self, chosen: np.ndarray) -> np.ndarray:
        """Logits (B, V) after one more token, chosen (B,), of each sequence."""
        chosen = self._checked(np.asarray(chosen)[:, None])
        if (self._is_endless or self._end < self.program.context) and not self._has_changed():
            return self._read(chosen)
        return self.logits(seen_after_one_more(self.model, np.concatenate((self.tokens, chosen), axis=1)))

    def _checked(self, tokens: np.ndarray) -> np.ndarray:
        tokens, vocabulary_size = np.asarray(tokens), len(self.model.token_embedding.weight)
        is_known = tokens.dtype == np.int64 and tokens.size <= FEW and all(
            0 <= token < vocabulary_size for token in tokens.ravel().tolist())
        if not is_known:
            tokens = class_ids("tokens", tokens, vocabulary_size)
        most = tokens.shape[-1] if self._is_endless else self.program.context
        if tokens.ndim != 2 or len(tokens) != self.batch_size or not 1 <= tokens.shape[1] <= most:
            limit = "" if self._is_endless else f" <= {most} (the model's context)"
            raise ValueError(f"expected tokens ({self.batch_size}, T) with 1 <= T{limit}, got {tokens.shape}; crop the "
                             "sequences")
        return tokens

    def _has_changed(self) -> bool:
        """Has any tensor been written to, or any attribute or hook of a module been set?"""
        return self._clocks != (latest_write(), changes())

    def _translate(self) -> None:
        """Translate the model as it is now, with an empty cache."""
        try:
            self._allocate(FEWEST_SLOTS)
        except ValueError as error:
            raise CannotDecode(str(error)) from None
        self._is_endless, self._reach = is_endless(self.model), reach(self.model)
        self._text = np.empty((self.batch_size, 0), np.int64)
        self._start_at(0)
        self._clocks = latest_write(), changes()

    def _allocate(self, slots: int) -> None:
        """A program and a cache with at most this many slots."""
        translation = _Translation(self.model, slots)
        self.program: Any = translation.program
        self._rotations = translation.rotations
        self.keys: Any
        self.values: Any
        self.keys, self.values = self.program.caches(self.batch_size)

    def _start_at(self, position: int) -> None:
        """Forget all tokens; the next one has this position."""
        self._begin = self._end = position  # _text has the tokens from _begin to _end
        self._move_to(position)

    def _move_to(self, position: int) -> None:
        """Let the cache start at this position."""
        self._first, self._turned = position, 0

    def _turn(self, slots: int) -> None:
        """Compute the rotary angles of this many slots."""
        if slots <= self._turned:
            return
        known, slots = self._turned, min(max(slots, 2 * self._turned, FEWEST_ANGLES), self.program.slots)
        for rotation, base, scaling in self._rotations:
            new = rotation[known:slots]
            T, D = new.shape
            new[...] = rotary_table(self._first + known, T, D, base, scaling, new.dtype)
        self._turned = slots

    def _count_known(self, tokens: np.ndarray) -> int:
        """How many of the tokens are cached, without the last one, whose logits are needed.

        Zero also if part of what the next one sees has left the cache, or was computed without everything before it.
        """
        end = min(self._end, tokens.shape[1] - 1)
        if end <= self._begin:
            return 0
        same = (self._text[:, : end - self._begin] == tokens[:, self._begin : end]).all(axis=0)
        count = end if same.all() else self._begin + int(same.argmin())
        is_whole = self._begin == 0 or count >= self._begin + self._reach - 1
        return count if is_whole and self._first <= max(0, count - self.program.context + 1) else 0

    def _read(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) after appending these tokens."""
        self._note(tokens)
        read, count = 0, tokens.shape[1]
        while read < count:
            slot = self._end - self._first
            if slot == self.program.slots:
                slot = self._make_room()
            new = tokens[:, read : read + self.program.slots - slot]
            self._turn(slot + new.shape[1])
            logits = self.program.run(new, slot, self.keys, self.values)
            self._end += new.shape[1]
            read += new.shape[1]
        return logits

    def _make_room(self) -> int:
        """The first free slot, after doubling the cache, or after moving the keys and values still seen to its front."""
        slots, kept = self.program.slots, self.program.context - 1
        if slots < most_slots(self.model):
            before = self.keys, self.values
            self._allocate(2 * slots)
            for cache, known in zip((self.keys, self.values), before):
                cache[..., :slots, :] = known
            self._move_to(self._first)  # the new arrays have no angles yet
            return slots
        for cache in (self.keys, self.values):
            cache[..., :kept, :] = cache[..., slots - kept :, :]
        self._move_to(self._end - kept)
        return kept

    def _note(self, tokens: np.ndarray) -> None:
        """Append tokens to _text; when it is full, drop those that no token depends on any more."""
        count, T = self._end - self._begin, tokens.shape[1]
        if count + T > self._text.shape[1]:
            kept = min(count, self._reach - 1) if self._is_endless else count
            text = np.empty((self.batch_size, 2 * (kept + T)), np.int64)
            text[:, :kept] = self._text[:, count - kept : count]
            self._text, self._begin, count = text, self._end - kept, kept
        self._text[:, count : count + T] = tokens


class _Translation:
    """The program of a CausalTransformer: a method for each kind of part adds its steps.

    The residual stream x is in one of two registers, the other is free; a sublayer uses two more.
    """

    def __init__(self, model: CausalTransformer, slots: int):
        _expect(model, CausalTransformer)
        _expect(model.token_embedding, nn.Embedding)
        _expect(model.blocks, nn.ModuleList)
        for block in model.blocks:
            _expect(block, Block)
            _expect(block.mlp, MLP)
            _expect(block.mlp.expand, nn.Linear)
        config, vocabulary = model.config, _array(model.token_embedding.weight)
        C, heads, groups, size = config.width, config.heads, config.groups, config.head_width
        hidden = [len(block.mlp.expand.weight) for block in model.blocks]
        self.program = Program(vocabulary.dtype, heads, C, config.context, groups, size, min(slots, most_slots(model)))
        self.rotations: list[tuple[np.ndarray, float, str]] = []  # (array to fill, base, scaling)
        self.streams = self.program.register(C), self.program.register(C)
        packed = (heads + 2 * groups) * size  # q, k, v side by side
        self.wide = self.program.register(max(packed, *hidden, 0))  # or the MLP before its activation
        self.mixed = self.program.register(max(heads * size, *hidden, 0))  # the heads side by side, or the activated MLP
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
        config, tokens, positions = model.config, model.token_embedding, None
        _expect(model.dropout, nn.Dropout)
        if config.positions == "learned":
            _expect(model.position_embedding, nn.Embedding)
            positions = _array(model.position_embedding.weight)
        elif not is_endless(model):
            zeros = mg.zeros(1, self.program.slots, config.width, dtype=self.program.dtype)
            positions = with_positions(zeros, config)[0].array
        self.program.embed(_array(tokens.weight), positions, scale_of_tokens(config), self.streams[0])
        return self.streams[0]

    def block(self, block: Any, x: int) -> int:
        _expect(block.dropout, nn.Dropout)
        if not (block.is_causal and block.attends):
            raise ValueError("there is a block that is not causal, or that has no attention")
        x = self.sublayer(block.placement[0], block.ln_1, x, self.attention, block.attention)
        return self.sublayer(block.placement[1], block.ln_2, x, self.mlp, block.mlp)

    def sublayer(self, sublayer: Sublayer, norm: Any, x: int, function: Callable[..., Any], module: nn.Module) -> int:
        """function(module, inner, out, accumulate) adds steps from one stream to another or the same."""
        inner = self.norm(norm, x) if sublayer.norm_before else x
        out = inner if sublayer.residual == "inner" else x
        function(module, inner, out, sublayer.residual is not None)
        return self.norm(norm, out) if sublayer.norm_after else out

    def norm(self, norm: Any, x: int) -> int:
        _expect(norm, nn.LayerNorm, nn.RMSNorm)
        if norm.normalized_shape != (self.program.width,):
            raise ValueError("there is a norm over other axes")
        weight, out = _array(norm.weight), self.other(x)
        if type(norm) is nn.RMSNorm:
            eps = float(np.finfo(self.program.dtype).eps) if norm.eps is None else norm.eps
            self.program.rms_norm(x, weight, eps, out)
        elif norm.eps_at != "inside" or norm.unbiased:
            raise ValueError("there is a layer norm with another denominator")
        else:
            self.program.norm(x, weight, _array(norm.bias), norm.eps, out)
        return out

    def linear(self, layer: nn.Linear, x: int, out: int, accumulate: bool = False, known: tuple[str | None, ...] = (None,),
               then: str | None = None, activated: int = 0) -> None:
        """A layer with one of the known activations, or followed by `then`; see `Program.linear`."""
        _expect(layer, nn.Linear)
        if layer.activation not in known:
            raise ValueError(f"there is a linear layer with the activation {layer.activation!r}")
        then = layer.activation if then is None else then
        self.program.linear(x, _array(layer.weight), _array(layer.bias), out, accumulate, then, activated)

    def mlp(self, mlp: MLP, x: int, out: int, accumulate: bool) -> None:
        self.linear(mlp.expand if mlp.gate is None else mlp.gate, x, self.wide, known=ACTIVATIONS, activated=self.mixed)
        if mlp.gate is not None:
            self.linear(mlp.expand, x, self.wide, then="product", activated=self.mixed)
        self.linear(mlp.project, self.mixed, out, accumulate)

    def attention(self, attention: Any, x: int, out: int, accumulate: bool) -> None:
        _expect(attention, nn.MultiHeadAttention)
        program = self.program
        expected = dict(num_heads=program.heads, key_value_heads=program.groups, head_size=program.head_size,
                        window=program.context, is_packed=True)
        if any(getattr(attention, name) != value for name, value in expected.items()):
            raise ValueError("there is an attention layer with other options")
        program.linear(x, _array(attention.in_proj_weight), _array(attention.in_proj_bias), self.wide)
        by_distance = _array(attention.relative_bias) if attention.positions == "relative" else None
        program.attend(self.wide, self.mixed, 1 / math.sqrt(program.head_size), self.rotation(attention), by_distance)
        self.linear(attention.out_proj, self.mixed, out, accumulate)

    def rotation(self, attention: nn.MultiHeadAttention) -> np.ndarray | None:
        """The array of alternating cosines and sines for all slots, shared by layers with the same rotation."""
        if attention.positions != "rotary":
            return None
        kind = attention.rotary_base, attention.rotary_scaling
        for array, *known in self.rotations:
            if kind == tuple(known):
                return array
        array = np.empty((self.program.slots, self.program.head_size), self.program.dtype)
        self.rotations.append((array, *kind))
        return array


def _expect(module: nn.Module, *kinds: type[Any]) -> None:
    """ValueError if the module is a subclass or has hooks, and so may compute something else."""
    if type(module) not in kinds or module.has_hooks:
        hooks = " with hooks" if module.has_hooks else ""
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"there is a {type(module).__name__}{hooks}, not a plain {expected}")


def _array(parameter: nn.Parameter | None) -> Any:
    return None if parameter is None else parameter.array
