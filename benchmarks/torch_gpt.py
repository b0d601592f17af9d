"""The same transformer in PyTorch, for comparison; needs the extra `bench`."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A pre-norm block; packed projection, fused attention."""

    def __init__(self, config):
        super().__init__()
        C, bias = config.width, config.bias
        self.heads, self.dropout = config.heads, config.dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(C, bias=bias), nn.LayerNorm(C, bias=bias)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)
        self.expand, self.project = nn.Linear(C, 4 * C, bias=bias), nn.Linear(4 * C, C, bias=bias)

    def forward(self, x):
        attended = self.out(packed_attention(self.qkv(self.ln_1(x)), self.heads, self.dropout if self.training else 0.0))
        x = x + F.dropout(attended, self.dropout, self.training)
        return x + F.dropout(self.project(F.gelu(self.expand(self.ln_2(x)))), self.dropout, self.training)


def packed_attention(packed: torch.Tensor, heads: int, dropout: float = 0.0) -> torch.Tensor:
    """Causal attention on packed = [q | k | v] (B, T, 3C): (B, T, C)."""
    B, T, C = packed.shape[0], packed.shape[1], packed.shape[2] // 3
    q, k, v = (part.view(B, T, heads, -1).transpose(1, 2) for part in packed.split(C, dim=2))
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    return y.transpose(1, 2).reshape(B, T, C)


class TorchGPT(nn.Module):
    """The same function as models.CausalTransformer, for any config with the same fields."""

    def __init__(self, config):
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocabulary_size, config.width)
        self.position_embedding = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f, self.dropout = nn.LayerNorm(config.width, bias=config.bias), config.dropout
        self.to(getattr(torch, config.dtype))

    def forward(self, tokens, targets=None):
        """Logits and loss; without targets, logits of the last position only."""
        x = self.token_embedding(tokens) + self.position_embedding.weight[:tokens.shape[1]]
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        if targets is None:
            return F.linear(self.ln_f(x[:, -1]), self.token_embedding.weight), None
        logits = F.linear(self.ln_f(x), self.token_embedding.weight)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def copy_parameters(self, parameters: dict[str, np.ndarray]) -> None:
        """Copy the parameters of a models.CausalTransformer by name."""
        self.load_state_dict({torch_name(name): torch.tensor(array) for name, array in parameters.items()})


def torch_name(name: str) -> str:
    """The name here of a parameter of models.CausalTransformer."""
    for ours, theirs in (("attention.in_proj_", "qkv."), ("attention.out_proj", "out"), ("mlp.", "")):
        name = name.replace(ours, theirs)
    return name
