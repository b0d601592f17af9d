"""Note 001, "Minimal Self-attention architecture"."""
import numpy as np

import minigrad as mg
import nn
from models import CausalTransformer, TransformerConfig
from study.notes.claims import claims_of, require
from study.notes.helpers import Spread, mhsa, require_equal
from study.notes.training import after_fit

claim = claims_of("001")

SYMBOLS, LENGTH, STEPS = 5, 8, 400
MINIMAL = TransformerConfig(vocabulary_size=SYMBOLS, context=LENGTH, layers=1, heads=1, width=24, placement="none",
                            final_norm=False, activation="relu", mlp_ratio=5)


def minimal_model(without: str = "") -> CausalTransformer:
    """Positions, masked attention of one head and a feed-forward network; or without one of the three."""
    positions = "none" if without == "positions" else "learned"
    model = CausalTransformer(TransformerConfig(**{**vars(MINIMAL), "positions": positions}))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    for block in model.blocks:
        block.is_causal = without != "mask"
        block.mlp = nn.Identity() if without == "feed-forward" else block.mlp
    return model


def recurrences(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences x_t = x_{t-1} + 2 x_{t-2} (mod 5): each depends on two tokens, on their order, and not linearly."""
    x = generator.integers(0, SYMBOLS, (count, LENGTH + 1))
    for t in range(2, LENGTH + 1):
        x[:, t] = (x[:, t - 1] + 2 * x[:, t - 2]) % SYMBOLS
    targets = x[:, 1:].copy()
    targets[:, 0] = -100
    return x[:, :-1], targets


def predicted(without: str) -> Spread:
    """The accuracy of the model for the next token, which it does not see, after training."""

    def measure(model: CausalTransformer, generator: np.random.Generator) -> float:
        for block in model.blocks:
            block.is_causal = True
        tokens, targets = recurrences(generator, 300)
        return float((model(mg.tensor(tokens))[0].array.argmax(-1) == targets)[:, 1:].mean())

    return after_fit(lambda: minimal_model(without), lambda generator: recurrences(generator, 32), measure, STEPS, lr=5e-3,
                     loss=lambda model, *batch: model(*batch)[1])


@claim("G21", "Minimal Self-attention architecture", formula="(a picture)",
       ours='TransformerConfig(placement="none", heads=1, final_norm=False, activation="relu")',
       code="models/transformer.py:CausalTransformer")
def attention_needs_positions_a_nonlinearity_and_a_mask():
    """Self-attention becomes a building block with three additions: positions for the order of the sequence, a
    feed-forward network for nonlinearity, and a mask over the future."""
    mg.manual_seed(0)
    model = minimal_model().double()
    tokens = recurrences(np.random.default_rng(0), 1)[0]
    block, E = model.blocks[0], model.token_embedding.weight.array
    y = mhsa(block.attention, E[tokens[0]] + model.position_embedding.weight.array, is_causal=True)
    inner = np.maximum(y @ block.mlp.expand.weight.array.T + block.mlp.expand.bias.array, 0)
    logits = (inner @ block.mlp.project.weight.array.T + block.mlp.project.bias.array) @ E.T
    difference = require_equal(model(mg.tensor(tokens))[0][0], logits)

    right = {without: predicted(without) for without in ("", "positions", "feed-forward", "mask")}
    whole = right.pop("")
    require(whole.median > 0.99, f"the whole architecture is right about {whole:.0%}")
    require(all(part.median < 0.96 for part in right.values()), f"parts left out: {right}")
    return dict(difference=difference, right=whole, **{f"without_{part}": share for part, share in right.items()})
