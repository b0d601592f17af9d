"""A tiny vision transformer: it cuts digits into patches of 3 x 3 pixels, which are its tokens, and reads them.

    python examples/vit.py
"""
import numpy as np

import minigrad as mg
import nn
from digits import SIZE, as_text, digits
from nn import functional as F

PATCH, WIDTH, HEADS, LAYERS = 3, 64, 4, 2
PATCHES = (SIZE // PATCH) ** 2


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
        y = self.norm_1(x)
        attended, weights = self.attention(y, y, y)
        x = x + attended
        return x + self.mlp(self.norm_2(x)), weights


class ViT(nn.Module):
    """The class token's last state says which digit it is."""

    def __init__(self):
        super().__init__()
        self.patches = nn.PatchEmbedding(PATCH, channels=1, embed_dim=WIDTH)
        self.positions = nn.Parameter(0.02 * mg.randn(1 + PATCHES, WIDTH))
        self.class_token = nn.Parameter(mg.zeros(1, 1, WIDTH))
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10))

    def forward(self, images: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
        """Logits (B, 10), and the last block's attention weights (B, tokens, tokens)."""
        x = mg.cat([self.class_token.expand(len(images), 1, WIDTH), self.patches(images)], dim=1) + self.positions
        for block in self.blocks:
            x, weights = block(x)
        return self.head(x[:, 0]), weights


def main(steps: int = 600, batch_size: int = 64) -> float:
    mg.manual_seed(0)
    images, labels = map(mg.from_numpy, digits(5000, seed=0))
    model = ViT()
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        rows = mg.randint(0, len(images), (batch_size,))
        loss = F.cross_entropy(model(images[rows])[0], labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step:3}: loss {loss.item():.3f}")

    images, labels = map(mg.from_numpy, digits(1000, seed=1))
    with mg.no_grad():
        logits, weights = model(images)
    accuracy = (logits.argmax(-1) == labels).float().mean().item()
    side = SIZE // PATCH
    looked = weights[:4, 0, 1:].numpy().reshape(4, side, side)  # by the class token, at each patch
    looked = np.kron(looked / looked.max((1, 2), keepdims=True), np.ones((PATCH, PATCH)))
    print(f"{accuracy:.1%} of 1,000 new digits are read rightly. Four of them, and below where the class token looks:\n")
    print(f"{as_text(images[:4, 0].numpy())}\n\n{as_text(looked)}\n\nread as {logits[:4].argmax(-1).tolist()}")
    return accuracy


if __name__ == "__main__":
    main()
