"""Next-token logits of a CausalTransformer by one kernel call a token, with a cache of keys and values.

A model's parts are translated into the steps of a `Program`, in the order of its forward. For a part that is not known
here, that a subclass has changed or that has a hook, there are no steps: `generate` then calls the whole forward.
"""
import math
from collections.abc import Callable

import numpy as np

import nn
from minigrad import Tensor
from minigrad.extend import ACTIVATIONS, Program, changes, latest_write
from models.transformer import ENDLESS_POSITIONS, MLP, Block, CausalTransformer, Sublayer, scale_of_tokens, with_positions
from nn.functional import class_ids
from nn.position import rotary_table

FEW = 16  # tokens: to look at them one by one takes a sixth of the time that `class_ids` needs
FEWEST_ANGLES = 256  # of rotary positions, that are computed at a time
FEWEST_SLOTS = 4096  # for keys and values, at first: a long context has many more than most texts need


class CannotDecode(ValueError):
    """A model has a part that is not known here; the message names it."""


def is_endless(model: CausalTransformer) -> bool:
    """Can a text be of any length, as no table of positions ends?"""
    return model.config.positions in ENDLESS_POSITIONS


def reach(model: CausalTransformer) -> int:
    """How many of the last tokens the next one depends on in an endless text: in each block, those of the window before."""
    return len(model.blocks) * (model.config.context - 1) + 1


def most_slots(model: CausalTransformer) -> int:
    """How many slots for keys and values are ever needed; past the context, a half of them is free when all are full."""
    return (2 if is_endless(model) else 1) * model.config.context


def seen_of_prompt(model: CausalTransformer, tokens: np.ndarray) -> np.ndarray:
    """Of a prompt's tokens (B, T), those that are shown to the model: all that the next token can depend on."""
    return tokens[:, -(reach(model) if is_endless(model) else model.config.context):]


def seen_after_one_more(model: CausalTransformer, tokens: np.ndarray) -> np.ndarray:
    """Of tokens (B, T), the last of which is new, those that are shown to the model.

    Of an endless text, those that the next token depends on. Where positions are in a table, all while there is room;
    then the window starts anew with half of it, at the table's beginning, and fills up again.
    """
    context = model.config.context
    if is_endless(model):
        return tokens[:, -reach(model):]
    return tokens if tokens.shape[1] <= context else tokens[:, -(context // 2 + 1):]


class CachedDecoder:
    """Next-token logits of B sequences, with the keys and values of their tokens kept: only what is new is computed.

    logits(tokens) is model(tokens)[0][:, -1] in evaluation mode, whatever was asked before: the cache serves as far as
    the tokens are those of the call before, and nothing has been written to since, as training does, nor set in a module.
    next_logits(chosen) is what follows when a token is added to each sequence, `seen_after_one_more`:

    - Without a table of positions, the keys and values stay in the cache as they are, and the window moves on over them:
      past the context, a token takes as long as inside it. In 2 * context slots they move to the front, all at once, when
      the last slot is taken.
    - With one, all positions would shift with the window. So half of it is computed anew when it is full, in one go.

    CannotDecode, a ValueError, names the part of a model that is not known.

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
        self.model, self.batch_size = model, batch_size
        self._translate()

    @property
    def tokens(self) -> np.ndarray:
        """Those of the last tokens (B, T) that the next one can depend on, and perhaps some before them."""
        return self._text[:, : self._end - self._begin]

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) of the token after these, (B, T).

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
        """Logits (B, V) of what follows when one token, chosen (B,), is added to each sequence."""
        chosen = self._checked(np.asarray(chosen)[:, None])
        if (self._is_endless or self._end < self.program.context) and not self._has_changed():
            return self._read(chosen)
        return self.logits(seen_after_one_more(self.model, np.concatenate((self.tokens, chosen), axis=1)))

    def _checked(self, tokens: np.ndarray) -> np.ndarray:
        tokens, vocabulary_size = np.asarray(tokens), self.model.token_embedding.num_embeddings
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
        """Look where the parameters are, and forget what was computed with them before."""
        try:
            self._allocate(FEWEST_SLOTS)
        except ValueError as error:
            raise CannotDecode(str(error)) from None
        self._is_endless, self._reach = is_endless(self.model), reach(self.model)
        self._text = np.empty((self.batch_size, 0), np.int64)
        self._start_at(0)
        self._clocks = latest_write(), changes()

    def _allocate(self, slots: int) -> None:
        """A program and a cache of so many slots, if there can be so many."""
        translation = _Translation(self.model, slots)
        self.program, self._rotations = translation.program, translation.rotations
        self.keys, self.values = self.program.caches(self.batch_size)

    def _start_at(self, position: int) -> None:
        """Forget all tokens; the next one has this position."""
        self._begin = self._end = position  # of the tokens in _text: the first one's position, and the last one's plus 1
        self._move_to(position)

    def _move_to(self, position: int) -> None:
        """Let the first slot of the cache stand for this position."""
        self._first, self._turned = position, 0

    def _turn(self, slots: int) -> None:
        """Know the angles of so many slots."""
        if slots <= self._turned:
            return
        known, slots = self._turned, min(max(slots, 2 * self._turned, FEWEST_ANGLES), self.program.slots)
        for rotation, base, scaling in self._rotations:
            new = rotation[known:slots]
            new[...] = rotary_table(self._first + known, *new.shape, base, scaling, new.dtype)
        self._turned = slots

    def _count_known(self, tokens: np.ndarray) -> int:
        """How many of the tokens are cached; the last one does not count, as its logits are asked for.

        Zero also where what the next one sees has left the cache, or has been computed without all that came before.
        """
        end = min(self._end, tokens.shape[1] - 1)
        if end <= self._begin:
            return 0
        same = (self._text[:, : end - self._begin] == tokens[:, self._begin : end]).all(axis=0)
        count = end if same.all() else self._begin + int(same.argmin())
        is_whole = self._begin == 0 or count >= self._begin + self._reach - 1
        return count if is_whole and self._first <= max(0, count - self.program.context + 1) else 0

    def _read(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) after these tokens, which come after those so far."""
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
        """The first free slot, of twice as many; or if no more are needed, behind those still seen, moved to the front."""
        slots, kept = self.program.slots, self.program.context - 1
        if slots < most_slots(self.model):
            before = self.keys, self.values
            self._allocate(2 * slots)
            for cache, known in zip((self.keys, self.values), before):
                cache[..., :slots, :] = known
            self._move_to(self._first)  # the text may go back to where angles were known
            return slots
        for cache in (self.keys, self.values):
            cache[..., :kept, :] = cache[..., slots - kept :, :]
        self._move_to(self._end - kept)
        return kept

    def _note(self, tokens: np.ndarray) -> None:
        """Add tokens to _text. When it is full, what no token depends on any more goes."""
        count, T = self._end - self._begin, tokens.shape[1]
        if count + T > self._text.shape[1]:
            kept = min(count, self._reach - 1) if self._is_endless else count
            text = np.empty((self.batch_size, 2 * (kept + T)), np.int64)
            text[:, :kept] = self._text[:, count - kept : count]
            self._text, self._begin, count = text, self._end - kept, kept
        self._text[:, count : count + T] = tokens


class _Translation:
    """The program of a CausalTransformer: a method for each kind of part adds its steps.

    The residual stream x is in one of two registers, and the other one is free; within a sublayer there are two more.
    """

    def __init__(self, model: CausalTransformer, slots: int):
        _expect(model, CausalTransformer)
        _expect(model.token_embedding, nn.Embedding)
        _expect(model.blocks, nn.ModuleList)
        for block in model.blocks:
            _expect(block, Block)
            _expect(block.mlp, MLP)
            _expect(block.mlp.expand, nn.Linear)
        config, vocabulary = model.config, model.token_embedding.weight.array
        C, heads, groups, size = config.width, config.heads, config.groups, config.head_width
        hidden = [len(block.mlp.expand.weight) for block in model.blocks]
        self.program = Program(vocabulary.dtype, heads, C, config.context, groups, size, min(slots, most_slots(model)))
        self.rotations: list[tuple[np.ndarray, float, str]] = []  # arrays to be filled; their base and scaling
        self.streams = self.program.register(C), self.program.register(C)
        packed = (heads + 2 * groups) * size  # q, k, v side by side
        self.wide = self.program.register(max(packed, *hidden, 0))  # also for the MLP before its activation
        self.mixed = self.program.register(max(heads * size, *hidden, 0))  # the heads side by side; the MLP after it
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
            positions = model.position_embedding.weight.array
        elif not is_endless(model):
            zeros = Tensor(np.zeros((1, self.program.slots, config.width), tokens.weight.dtype))
            positions = with_positions(zeros, config)[0].array
        self.program.embed(tokens.weight.array, positions, scale_of_tokens(config), self.streams[0])
        return self.streams[0]

    def block(self, block: Block, x: int) -> int:
        _expect(block.dropout, nn.Dropout)
        if not (block.is_causal and block.attends) or block.context != self.program.context:
            raise ValueError("there is a block that is not causal, has no attention, or a window of its own")
        x = self.sublayer(block.placement[0], block.ln_1, x, self.attention, block.attention)
        return self.sublayer(block.placement[1], block.ln_2, x, self.mlp, block.mlp)

    def sublayer(self, sublayer: Sublayer, norm: nn.Module | None, x: int, function: Callable, module: nn.Module) -> int:
        """function(module, inner, out, accumulate) adds the steps from one stream to another, which may be the same."""
        inner = self.norm(norm, x) if sublayer.norm_before else x
        out = inner if sublayer.residual == "inner" else x
        function(module, inner, out, sublayer.residual is not None)
        return self.norm(norm, out) if sublayer.norm_after else out

    def norm(self, norm: nn.LayerNorm | nn.RMSNorm, x: int) -> int:
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
        """A layer with one of the known activations, or with what is to be done then; see `Program.linear`."""
        _expect(layer, nn.Linear)
        if layer.activation not in known:
            raise ValueError(f"there is a linear layer with the activation {layer.activation!r}")
        then = layer.activation if then is None else then
        self.program.linear(x, layer.weight.array, _array(layer.bias), out, accumulate, then, activated)

    def mlp(self, mlp: MLP, x: int, out: int, accumulate: bool) -> None:
        self.linear(mlp.expand if mlp.gate is None else mlp.gate, x, self.wide, known=ACTIVATIONS, activated=self.mixed)
        if mlp.gate is not None:
            self.linear(mlp.expand, x, self.wide, then="product", activated=self.mixed)
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
        heads = self.program.heads
        if not attention.is_packed or attention.num_heads != heads or self.program.groups != heads:
            raise ValueError("there is an attention with sizes of its own")
        self.program.linear(x, attention.in_proj_weight.array, _array(attention.in_proj_bias), self.wide)
        self.program.attend(self.wide, self.mixed, 1 / math.sqrt(self.program.head_size), self.rotation(attention))

    def general_heads(self, attention: nn.Attention, x: int) -> None:
        _expect(attention, nn.Attention)
        program = self.program
        expected = dict(heads=program.heads, key_value_heads=program.groups, key_size=program.head_size,
                        value_size=program.head_size, window=program.context, causal="mask", query_key="separate",
                        projects_value=True, output_projection="concat", layout="rows", residual=False)
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
        program.linear(x, weight, bias, self.wide)
        by_distance = attention.relative_bias.array if attention.positions == "relative" else None
        program.attend(self.wide, self.mixed, attention.factor, self.rotation(attention), by_distance)

    def rotation(self, attention: nn.Attention | nn.MultiHeadAttention) -> np.ndarray | None:
        """An array for cosines and sines, in turn, of the positions in all slots: one for all layers that turn alike."""
        if attention.positions != "rotary":
            return None
        kind = attention.rotary_base, attention.rotary_scaling
        for array, *known in self.rotations:
            if kind == tuple(known):
                return array
        array = np.empty((self.program.slots, self.program.head_size), self.program.dtype)
        self.rotations.append((array, *kind))
        return array


def _expect(module: nn.Module, *kinds: type) -> None:
    """ValueError if the module may compute what its type says in another way: in a subclass, or with a hook."""
    if type(module) not in kinds or module.has_hooks:
        hooks = " with hooks" if module.has_hooks else ""
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"there is a {type(module).__name__}{hooks}, not a plain {expected}")


def _array(parameter: nn.Parameter | None) -> np.ndarray | None:
    return None if parameter is None else parameter.array
