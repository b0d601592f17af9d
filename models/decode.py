"""Next-token logits of a CausalTransformer by one kernel call a token, with a cache of keys and values."""
import numpy as np

import nn
from minigrad import versions
from minigrad.kernels.adamw import address
from minigrad.kernels.decode import decode
from minigrad.kernels.jit import ready
from models.transformer import MLP, Block, CausalTransformer, TransformerConfig
from nn.losses import class_ids

PARTS_BEFORE, PARTS_AFTER = [CausalTransformer, nn.Embedding, nn.Embedding, nn.Dropout, nn.ModuleList], [nn.LayerNorm]
PARTS_OF_BLOCK = [Block, nn.LayerNorm, nn.MultiHeadAttention, nn.Linear, nn.LayerNorm, MLP, nn.Linear,
                  nn.Linear, nn.Dropout]


def kernel_parameters(model: CausalTransformer) -> list[nn.Parameter | None]:
    """The parameters in the kernel's order: those at the ends, then twelve of each block; None for an absent bias."""
    ends = [model.token_embedding.weight, model.position_embedding.weight, model.ln_f.weight, model.ln_f.bias]
    return ends + [parameter for block in model.blocks for parameter in (
        block.ln_1.weight, block.ln_1.bias, block.attention.in_proj_weight, block.attention.in_proj_bias,
        block.attention.out_proj.weight, block.attention.out_proj.bias, block.ln_2.weight, block.ln_2.bias,
        block.mlp.expand.weight, block.mlp.expand.bias, block.mlp.project.weight, block.mlp.project.bias,
    )]


def kernel_shapes(config: TransformerConfig) -> list[tuple[int, ...] | None]:
    """The shapes of `kernel_parameters`."""
    C = config.width

    def weight_and_bias(*shape):
        return shape, shape[:1] if config.bias else None

    ends = [(config.vocabulary_size, C), (config.context, C), *weight_and_bias(C)]
    layers = [(C,), (3 * C, C), (C, C), (C,), (4 * C, C), (C, 4 * C)]
    return ends + [shape for layer in layers for shape in weight_and_bias(*layer)] * config.layers


def can_decode(model: nn.Module) -> bool:
    """Does the kernel compute what this model does? Yes for a CausalTransformer in one dtype, unless a part of it has
    been replaced, or a hook waits for what the kernel does not make."""
    if type(model) is not CausalTransformer:
        return False
    modules, config = list(model.modules()), model.config
    if config.placement != "pre" or config.positions != "learned":
        return False
    if [type(module) for module in modules] != PARTS_BEFORE + PARTS_OF_BLOCK * config.layers + PARTS_AFTER:
        return False
    parameters = kernel_parameters(model)
    return (
        [None if parameter is None else parameter.shape for parameter in parameters] == kernel_shapes(config)
        and len({parameter.dtype for parameter in parameters if parameter is not None}) == 1
        and not any(module.has_hooks for module in modules)
        and all(block.mlp.expand.activation == "gelu" for block in model.blocks)
    )


class Decoder:
    """Next-token logits of B sequences, by a kernel that keeps keys and values: only what is new is computed.

    logits(tokens) is model(tokens)[0][:, -1] in evaluation mode, whatever was asked before: the cache serves as far as
    the tokens are those of the call before, and no tensor has been written to since, as training does. When a full
    window moves on, the positions of all its tokens shift, and all are computed again.

    >>> import minigrad as mg
    >>> model = CausalTransformer(TransformerConfig())
    >>> decoder = Decoder(model, batch_size=1)
    >>> for tokens in [[1, 2, 3]], [[1, 2, 3, 4]]:
    ...     logits, _ = model(mg.tensor(tokens))
    ...     print(np.allclose(decoder.logits(tokens), logits.array[:, -1], atol=1e-5))
    True
    True
    """

    def __init__(self, model: CausalTransformer, batch_size: int):
        self.model, self.config = model, model.config
        shape = (self.config.layers, batch_size, self.config.heads, self.config.context,
                 self.config.width // self.config.heads)
        self.keys, self.values = np.empty((2, *shape), model.token_embedding.weight.dtype)
        self._look_up()

    def _look_up(self) -> None:
        """Note where the parameters are, and forget what was computed with them before."""
        model = self.model
        zeros = np.zeros(4 * self.config.width, self.keys.dtype)  # for biases that do not exist
        self.arrays = [zeros if parameter is None else ready(parameter.array)
                       for parameter in kernel_parameters(model)]  # their addresses hold as long as they live
        addresses = np.array([address(array) for array in self.arrays])
        self.ends, self.blocks = addresses[:4], addresses[4:].reshape(self.config.layers, 12)
        norms = [norm for block in model.blocks for norm in (block.ln_1, block.ln_2)] + [model.ln_f]
        self.eps = np.array([norm.eps for norm in norms])
        self.latest_write = versions.latest
        self.cached = np.empty((self.keys.shape[1], 0), np.int64)  # the tokens (B, T) whose keys and values are kept

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) of the token after these, (B, T).

        ValueError if T exceeds the context; IndexError if a token is not in the vocabulary.
        """
        tokens = class_ids("tokens", tokens, self.config.vocabulary_size)
        batch_size, context = self.keys.shape[1], self.config.context
        if tokens.ndim != 2 or len(tokens) != batch_size or not 1 <= tokens.shape[1] <= context:
            raise ValueError(f"expected tokens ({batch_size}, T) with 1 <= T <= {context} (the model's context), got "
                             f"{tokens.shape}; crop the sequences")
        if self.latest_write != versions.latest:
            self._look_up()
        start = self._count_known(tokens)
        logits = decode(tokens[:, start:], start, self.config.vocabulary_size, self.ends, self.blocks, self.eps,
                        self.keys, self.values)
        self.cached = tokens
        return logits

    def _count_known(self, tokens: np.ndarray) -> int:
        """How many of the tokens are cached; the last one does not count, as its logits are asked for."""
        count = min(self.cached.shape[1], tokens.shape[1] - 1)
        same = self.cached[:, :count] == tokens[:, :count]
        return count if same.all() else int(same.all(axis=0).argmin())
