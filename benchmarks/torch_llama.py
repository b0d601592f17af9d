"""The model of recipe muon in PyTorch, for comparison; needs the extra `bench`."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A pre-norm block with RMS norm, rotary positions and SwiGLU, without biases; packed projection, fused attention."""

    def __init__(self, config):
        super().__init__()
        C, hidden = config.width, 2 * config.width
        self.heads = config.heads
        self.ln_1, self.ln_2 = nn.RMSNorm(C, eps=1e-5), nn.RMSNorm(C, eps=1e-5)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C, bias=False)
        self.gate, self.expand = nn.Linear(C, hidden, bias=False), nn.Linear(C, hidden, bias=False)
        self.project = nn.Linear(hidden, C, bias=False)

    def forward(self, x, turns):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(B, T, 3, self.heads, -1).unbind(2)  # each (B, T, H, D)
        y = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (rotate(q, turns), rotate(k, turns), v)),
                                           is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        inner = self.ln_2(x)
        return x + self.project(F.silu(self.gate(inner)) * self.expand(inner))


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """x (B, T, H, D) with each pair of features, as a complex number, times `turns` (T, 1, D / 2)."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


class TorchLlama(nn.Module):
    """The same function as models.CausalTransformer with recipe muon, for any config with the same sizes."""

    def __init__(self, config):
        super().__init__()
        self.head_width = D = config.width // config.heads
        self.token_embedding = nn.Embedding(config.vocabulary_size, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.RMSNorm(config.width, eps=1e-5)
        self.read_out = nn.Linear(config.width, config.vocabulary_size, bias=False)
        angles = torch.outer(torch.arange(config.context), 10_000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles)[:, None].to(torch.complex64), False)

    def forward(self, tokens, targets):
        """Logits and loss."""
        x = self.token_embedding(tokens)
        for block in self.blocks:
            x = block(x, self.turns[:tokens.shape[1]])
        logits = self.read_out(self.ln_f(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
