"""The causal transformer (a GPT), top to bottom: its blocks, the model, and a cache with which it writes text.

Letters: B batch, T time, C width, H heads, V vocabulary, L layers.
"""
import dataclasses
import math
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from minigrad import Tensor
from minigrad.extend import compute
from minigrad.ops.attention import turned
from models.config import ATTENTION_POSITIONS, ENDLESS_POSITIONS, GATED, PLACEMENTS, Sublayer, TransformerConfig
from nn.position import BASE, FIXED, rotary_table

INITIAL_STD = 0.02  # of every weight matrix, as in GPT-2
FEWEST_SLOTS = 64  # of a cache, at first; most texts need far fewer than the context has (75 MB in GPT-2)


def make_norm(config: TransformerConfig) -> nn.LayerNorm | nn.RMSNorm:
    """A norm over the width."""
    if config.norm == "rms_norm":
        return nn.RMSNorm(config.width, eps=config.norm_eps)
    return nn.LayerNorm(config.width, eps=config.norm_eps, bias=config.bias)


class MLP(nn.Module):
    """Two linear layers with an activation between, and 4 C hidden units by default:

        mlp(x) = project(gelu(expand(x)))
        mlp(x) = project(silu(gate(x)) * expand(x))    with a gate, as "swiglu" (Shazeer, arXiv:2002.05202)

    Unless a layer has hooks, it runs as one fused operation; with a gate, only silu and the product are fused.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        hidden, gated = config.hidden_width, GATED.get(config.activation)
        self.gate: nn.Linear | None = nn.Linear(config.width, hidden, bias=config.bias, activation=gated) if gated else None
        self.expand: nn.Linear = nn.Linear(config.width, hidden, bias=config.bias,
                                           activation=None if gated else config.activation)
        self.project: nn.Linear = nn.Linear(hidden, config.width, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        gate, expand, project = self.gate, self.expand, self.project
        if gate is not None:
            if gate.has_hooks or gate.activation != "silu":
                return project(gate(x) * expand(x))
            return project(F.swiglu(F.linear(x, gate.weight, gate.bias), expand(x)))
        if expand.has_hooks or project.has_hooks:
            return project(expand(x))
        return F.mlp(x, expand.weight, expand.bias, project.weight, project.bias, expand.activation)


def attention_options(config: TransformerConfig, is_causal: bool) -> dict[str, Any]:
    """Those of MultiHeadAttention; where it is causal, tokens see the last `context` tokens."""
    return dict(
        key_value_heads=config.key_value_heads, head_size=config.head_size, window=config.context if is_causal else None,
        positions=config.positions if config.positions in ATTENTION_POSITIONS else "none", max_distance=config.context,
        rotary_base=config.rotary_base, rotary_scaling=config.rotary_scaling)


def make_attention(config: TransformerConfig, is_causal: bool) -> nn.MultiHeadAttention:
    """The attention of a config."""
    return nn.MultiHeadAttention(config.width, config.heads, config.dropout, config.bias,
                                 **attention_options(config, is_causal))


class Past(NamedTuple):
    """What a block keeps of the tokens before a new one, and where that stands: see `Cache`."""

    keys: Tensor  # (B, G, slots, D), rotated by their positions
    values: Tensor
    slots: Tensor  # (T,), where the keys and values of T new tokens go
    mask: Tensor  # (slots,), added to the scores: -inf hides a slot that is empty
    distances: Tensor  # (slots,), from the token in a slot to the new one
    rotation: Tensor  # (D, D), by the position of the new token: x @ rotation

    def keep(self, keys: Tensor, values: Tensor) -> None:
        """Put the last keys and values of new tokens (B, G, T, D) into their slots."""
        count = len(self.slots)
        compute(_write, self.keys, self.values, keys[:, :, -count:], values[:, :, -count:], self.slots)

    def attend(self, attention: nn.MultiHeadAttention, x: Tensor) -> Tensor:
        """Attention of one new token of each text, x (B, 1, C), to itself and to those before it."""
        (B, G, slots, D), H = self.keys.shape, attention.num_heads
        heads = F.linear(x, attention.in_proj_weight, attention.in_proj_bias).reshape(B, H + 2 * G, D)  # of q, k and v
        turned = heads[:, : H + G]
        if attention.positions == "rotary":
            turned = turned @ self.rotation
        self.keep(turned[:, H:, None], heads[:, H + G :, None])
        mask = self.mask
        if attention.positions == "relative":
            bias = attention.relative_bias.index_select(1, self.distances + attention.max_distance)  # (H, slots)
            mask = mask + bias.reshape(G, -1, slots)
        q = turned[:, :H].reshape(B, G, -1, D)  # the queries that share a head of keys are the rows of one product
        out = F.scaled_dot_product_attention(q, self.keys, self.values, mask)
        return attention.out_proj(out.reshape(B, 1, -1))


def _write(keys: np.ndarray, values: np.ndarray, new_keys: np.ndarray, new_values: np.ndarray,
           slots: np.ndarray) -> np.ndarray:
    keys[:, :, slots], values[:, :, slots] = new_keys, new_values
    return keys


class Block(nn.Module):
    """A transformer block, (B, T, C) to (B, T, C). Pre-norm: x = x + attention(ln_1(x)), then x + mlp(ln_2(x)); see
    PLACEMENTS.

    In a causal block, tokens see the last `context` tokens. A decoder's block also attends to a memory, the encoder's
    output, before the MLP. With `attends=False` only the MLP is left, which processes each token by itself.
    """

    def __init__(self, config: TransformerConfig, is_causal: bool = True, has_memory: bool = False,
                 attends: bool = True):
        super().__init__()
        self.is_causal = is_causal
        self.attends = attends
        self.placement: tuple[Sublayer, Sublayer] = PLACEMENTS[config.placement]
        if attends:
            self.ln_1: nn.Module | Any = self._norm(config, 0)
            self.attention: nn.MultiHeadAttention = make_attention(config, is_causal)
        if has_memory:
            self.ln_context: nn.Module | Any = self._norm(config, 0)
            self.cross_attention: nn.MultiHeadAttention = make_attention(dataclasses.replace(
                config, positions="none", rotary_base=BASE, rotary_scaling="none"), is_causal=False)
        self.ln_2: nn.Module | Any = self._norm(config, 1)
        self.mlp: MLP = MLP(config)
        self.dropout: nn.Dropout = nn.Dropout(config.dropout)

    def _norm(self, config: TransformerConfig, which: int) -> Any:
        sublayer = self.placement[which]
        return make_norm(config) if sublayer.norm_before or sublayer.norm_after else None

    def forward(self, x: Tensor, padding: Tensor | None = None, memory: Tensor | None = None,
                memory_padding: Tensor | None = None, past: Past | None = None) -> Tensor:
        """x (B, T, C), memory (B, S, C); `padding` (B, T) and `memory_padding` (B, S) are True at padding. With a `past`,
        x are the first tokens of texts, or one more of each."""
        if self.attends:
            x = self._add(0, self.ln_1, x, lambda inner: self._attend(inner, padding, past))
        if memory is not None:
            x = self._add(0, self.ln_context, x, lambda inner: self.cross_attention(
                inner, memory, key_padding_mask=memory_padding))
        return self._add(1, self.ln_2, x, self.mlp)

    def _add(self, which: int, norm: Any, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a sublayer with its norm and residual connection."""
        sublayer = self.placement[which]
        inner = norm(x) if sublayer.norm_before else x
        out = function(inner)
        if sublayer.residual is not None:
            out = self._add_dropped((x if sublayer.residual == "x" else inner), out)
        else:
            out = self.dropout(out)
        return norm(out) if sublayer.norm_after else out

    def _add_dropped(self, x: Tensor, out: Tensor) -> Tensor:
        dropout = self.dropout
        if type(dropout) is nn.Dropout and not dropout.has_hooks:
            return F.add_dropped(x, out, dropout.p, dropout.training)
        return x + dropout(out)

    def _attend(self, x: Tensor, padding: Tensor | None, past: Past | None) -> Tensor:
        if past is not None and x.shape[1] == 1:
            return past.attend(self.attention, x)
        if past is not None:
            _, k, v = self.attention.project(x, x, x)
            past.keep(self.attention.rotated(k), v)
        return self.attention(x, key_padding_mask=padding, is_causal=self.is_causal)


def initialise(model: nn.Module, layers: int, std: float = INITIAL_STD) -> None:
    """Like GPT-2: normal matrices with standard deviation 0.02, zero biases, gains of one; matrices that write to the
    residual stream are smaller by sqrt(2 L), so that the sum of their 2 L outputs keeps its size."""
    for name, parameter in model.named_parameters():
        if parameter.ndim >= 2:
            adds_to_residual = name.endswith(("attention.out_proj.weight", "mlp.project.weight"))
            nn.init.normal_(parameter, std=std / math.sqrt(2 * max(layers, 1)) if adds_to_residual else std)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


class Model(nn.Module):
    """A network made from a config, which it and its parts hold."""

    config: TransformerConfig

    def to(self, *target: Any, **options: Any) -> Self:
        """As for every module; the config follows."""
        super().to(*target, **options)
        dtype, before = str(next(self.parameters()).dtype), self.config
        if dtype != before.dtype:
            config = dataclasses.replace(before, dtype=dtype)
            for module in self.modules():
                if getattr(module, "config", None) is before:
                    module.config = config
        return self


def scale_of_tokens(config: TransformerConfig) -> float:
    """The factor of token embeddings: sqrt(C) before a fixed table of positions is added, whose entries are larger
    (Vaswani et al.), else 1."""
    return math.sqrt(config.width) if config.positions in FIXED else 1.0


class Stack(Model):
    """What all transformers have: token embeddings with positions, blocks, and a final norm."""

    def __init__(self, config: TransformerConfig, **options: bool):
        super().__init__()
        self.config = config
        self.token_embedding: nn.Embedding = nn.Embedding(config.vocabulary_size, config.width)
        if config.positions == "learned":
            self.position_embedding: nn.Embedding = nn.Embedding(config.context, config.width)
        self.dropout: nn.Dropout = nn.Dropout(config.dropout)
        self.blocks: nn.ModuleList = nn.ModuleList([Block(config, **options) for _ in range(config.layers)])
        self.ln_f: nn.LayerNorm | nn.RMSNorm | nn.Identity = make_norm(config) if config.final_norm else nn.Identity()

    def positions(self, T: int, start: int = 0) -> Tensor | None:
        """The vectors (T or more, C) of the positions from `start` on, if they are in a table."""
        config = self.config
        if config.positions == "learned":
            return self.position_embedding.weight[start : start + T] if start else self.position_embedding.weight
        if config.positions not in FIXED:
            return None
        return Tensor(FIXED[config.positions](T, config.width, start=start), dtype=self.token_embedding.weight.dtype)

    def embed(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """The input (B, T, C) of the first block, from token ids (B, T) or vectors (B, T, C), and the vectors of positions,
        by default of those from 0 on."""
        positions = self.positions(tokens.shape[1]) if positions is None else positions
        is_fixed, are_ids = self.config.positions in FIXED, tokens.dtype.kind == "i"
        if are_ids and not is_fixed:
            return self.dropout(self.token_embedding(tokens, positions))
        x = self.token_embedding(tokens) if are_ids else tokens
        x = x * scale_of_tokens(self.config) if is_fixed else x
        return self.dropout(x if positions is None else x + positions[: x.shape[1]])

    def run(self, tokens: Tensor, **inputs: Tensor | None) -> Tensor:
        """The output (B, T, C) of the last block, normalised; `inputs` are further ones of each block."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, **inputs)
        return self.ln_f(x)


class CausalTransformer(Stack):
    """A decoder-only transformer: it predicts each token from those before it.

    >>> import minigrad as mg
    >>> model = CausalTransformer(TransformerConfig(layers=2, heads=2, width=32))
    >>> logits, loss = model(mg.zeros(2, 5, dtype=mg.int64))
    >>> logits.shape, loss
    ((2, 5, 96), None)
    """

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.read_out: nn.Linear | None = (
            None if config.tied else nn.Linear(config.width, config.vocabulary_size, bias=False))
        self.to(config.dtype)
        initialise(self, config.layers)

    def forward(self, tokens: Tensor, targets: Tensor | None = None,
                label_smoothing: float = 0.0) -> tuple[Tensor, Tensor | Any]:
        """Logits (B, T, V) of the token after each of `tokens` (B, T), and with `targets` (B, T) the mean
        cross-entropy over those that are not -100.

        Without a table of positions (rotary, relative, none), T may exceed the context: each token sees the last `context`
        ones in each block, as in Mistral's sliding windows (arXiv:2310.06825). Otherwise that is a ValueError. IndexError
        if a token id is not in the vocabulary.
        """
        context, is_endless = self.config.context, self.config.positions in ENDLESS_POSITIONS
        if tokens.ndim != 2 or tokens.shape[1] < 1 or tokens.shape[1] > context and not is_endless:
            most = "" if is_endless else f" <= {context} (the model's context)"
            raise ValueError(f"expected tokens (B, T) with 1 <= T{most}, got {tuple(tokens.shape)}; crop the sequence, or "
                             "build the model with a larger context")
        logits = self.logits(self.run(tokens))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, self.config.vocabulary_size), targets.reshape(-1),
                                       label_smoothing=label_smoothing)

    def logits(self, x: Tensor) -> Tensor:
        """(B, T, V), from the normalised output (B, T, C) of the last block."""
        return F.linear(x, self.token_embedding.weight) if self.read_out is None else self.read_out(x)


class Cache:
    """The keys and values that a CausalTransformer has computed for B texts: with them, one more token costs one token.

    A token sees the last `context` ones, so each block keeps the keys and values of as many, in a ring: token t is in slot
    t % context. While texts are short there are fewer slots. `read` begins with new texts, `append` adds a token to each;
    both give the logits (B, V) after the last token, those of model(tokens) up to rounding. The model must be alive, in
    evaluation mode, and unchanged since `read`.

    >>> model = CausalTransformer(TransformerConfig(layers=2, heads=2, width=32))
    >>> cache, text = Cache(model, batch_size=1), np.array([[1, 2, 3, 4]])
    >>> _ = cache.read(text[:, :3])
    >>> np.allclose(cache.append(text[:, 3]), model(mg.tensor(text))[0].array[:, -1], atol=1e-6)
    True
    """

    def __init__(self, model: CausalTransformer, batch_size: int):
        self._model = weakref.ref(model)  # a text's cache, kept for the next text, should not keep the model
        self.config: TransformerConfig = model.config
        self.batch_size: int = batch_size
        self.count: int = 0  # tokens of each text
        self.steps: int = 0  # calls of `append`
        self.slots: int = 0
        self.layers: list[tuple[Tensor, Tensor]] = []  # keys and values (B, G, slots, D) of each block
        self.compiled: Callable[..., Tensor] = mg.compile(self.step)

    @property
    def model(self) -> CausalTransformer | Any:
        return self._model()

    @staticmethod
    def serves(model: nn.Module) -> bool:
        """Has the model only the parts that CausalTransformer makes, without hooks, so that no token sees a later one?"""
        if type(model) is not CausalTransformer or any(type(block) is not Block for block in model.blocks):
            return False
        parts, options = list(model.modules()), attention_options(model.config, is_causal=True)
        return (all(type(part) in PLAIN and not part.has_hooks and part.training == model.training for part in parts)
                and all(block.is_causal and block.attends for block in model.blocks)
                and all(getattr(part, name) == value for part in parts if isinstance(part, nn.MultiHeadAttention)
                        for name, value in options.items()))

    def fits(self, model: CausalTransformer, batch_size: int) -> bool:
        """Can it be filled with other texts, although the model may have changed?"""
        return (self.config, len(self.layers), self.batch_size) == (model.config, len(model.blocks), batch_size)

    @mg.no_grad()
    def read(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) after the first tokens (B, T) of the texts."""
        self.count, T = 0, tokens.shape[1]
        self._make_room(T)
        for kept in sum(self.layers, ()):
            kept.array[...] = 0.0  # another text may have left NaN, which no mask hides
        logits = self._run(mg.tensor(tokens), None, self._place(T))
        self.count = T
        return logits.array[:, 0]

    @mg.no_grad()
    def append(self, chosen: np.ndarray, compiled: bool = False) -> np.ndarray:
        """Logits (B, V) after one more token of each text, `chosen` (B,). Compiling the step pays after tens of tokens."""
        self._make_room(1)
        positions = self.model.positions(1, self.count)
        own = self._tensor(np.zeros((1, self.config.width))) if positions is None else positions
        logits = (self.compiled if compiled else self.step)(mg.tensor(chosen[:, None]), own, *self._place(1))
        self.count, self.steps = self.count + 1, self.steps + 1
        return logits.array[:, 0]

    def step(self, tokens: Tensor, position: Tensor, *place: Tensor) -> Tensor:
        """Logits (B, 1, V) of a token of each text, (B, 1), with its position (1, C)."""
        return self._run(tokens, position, place)

    def _run(self, tokens: Tensor, positions: Tensor | None, place: Iterable[Tensor]) -> Tensor:
        """Logits (B, 1, V) after the last of these tokens."""
        x = self.model.embed(tokens, positions)
        for block, (keys, values) in zip(self.model.blocks, self.layers):
            x = block(x, past=Past(keys, values, *place))
        return self.model.logits(self.model.ln_f(x[:, -1:]))

    def _place(self, T: int) -> tuple[Tensor, ...]:
        """Of T new tokens, the fields of a Past that all blocks share."""
        config, count, slots = self.config, self.count, self.slots
        new = np.arange(count + max(0, T - slots), count + T)  # those that later ones see
        distances = (count - np.arange(slots)) % slots
        rotation = np.eye(config.head_size)
        if config.positions == "rotary":
            angles = rotary_table(count, 1, config.head_size, config.rotary_base, config.rotary_scaling, float)
            rotation = turned(rotation[:, None], angles)[:, 0]
        mask = np.where(distances <= count, 0.0, -np.inf)
        return mg.tensor(new % slots), self._tensor(mask), mg.tensor(distances), self._tensor(rotation)

    def _make_room(self, T: int) -> None:
        """Double the slots if T more tokens need it."""
        needed, before, old = min(self.count + T, self.config.context), self.slots, self.layers
        if needed > before:
            self.slots = min(max(2 * before, needed, FEWEST_SLOTS), self.config.context)
            shape = self.batch_size, self.config.key_value_heads, self.slots, self.config.head_size
            self.layers = [(self._tensor(np.zeros(shape)), self._tensor(np.zeros(shape))) for _ in self.model.blocks]
            for new, known in zip(sum(self.layers, ()), sum(old, ())):
                new.array[:, :, :before] = known.array

    def _tensor(self, array: np.ndarray) -> Tensor:
        return mg.tensor(array, dtype=self.config.dtype)


PLAIN: set[type] = {
    CausalTransformer, Block, MLP, nn.MultiHeadAttention, nn.ModuleList, nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm,
    nn.Identity, nn.Dropout,
}  # what a Cache serves
