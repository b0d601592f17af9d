"""Calls of layers and models, with the type that each has to type checkers, and mistakes that they find."""
from collections.abc import Iterator
from typing import Any, assert_type

import minigrad as mg
import models
import nn
from minigrad import Tensor
from nn import functional as F

x = mg.randn(2, 4)
assert_type(nn.Linear(4, 3)(x), Tensor)
assert_type(nn.Linear(4, 3).bias, nn.Parameter | None)
assert_type(nn.LayerNorm(4).train().double()(x.double()), Tensor)
assert_type(nn.GELU("tanh")(x), Tensor)
assert_type(nn.LeakyReLU(0.1).negative_slope, float)
assert_type(nn.MSELoss(reduction="sum")(x, target=x), Tensor)
assert_type(nn.Sequential(nn.Linear(4, 4), nn.ReLU())[:1], nn.Sequential)
assert_type(nn.RNN(4, 3)(x), tuple[Tensor, Tensor])
assert_type(nn.MultiHeadAttention(4, 1)(x[None]), Tensor | Any)
assert_type(nn.ModuleDict({"up": nn.Linear(2, 3)})["up"], nn.Module)
assert_type(F.silu(x), Tensor)
assert_type(list(nn.Embedding(5, 4).named_parameters()), list[tuple[str, nn.Parameter]])
assert_type(nn.optim.SGD([nn.Parameter(x)]).state_dict(), dict[str, Any])
model = models.CausalTransformer(models.TransformerConfig(vocabulary_size=7, layers=1, heads=1, width=4))
assert_type(model(mg.zeros(1, 3, dtype=mg.int64)), tuple[Tensor, Tensor | Any])
assert_type(models.generate(model, [1], 2), Iterator[int])


def is_refused() -> None:
    """Mistakes that type checkers find: each comment is an error if nothing is wrong."""
    nn.Linear(4, 3)("text")  # type: ignore[arg-type]
    nn.Linear(4, 3)(x, x)  # type: ignore[call-arg]
    nn.Linear(4)  # type: ignore[call-arg]
    nn.LeakyReLU(slope=0.1)  # type: ignore[call-arg]
    nn.ModuleList([x])  # type: ignore[list-item]
    nn.Conv2d(3, 3, 3)  # type: ignore[attr-defined]
    nn.functional.conv2d(x)  # type: ignore[attr-defined]
    nn.optim.AdamW(nn.Linear(4, 3).parameters(), rate=0.1)  # type: ignore[call-arg]
    models.TransformerConfig(depth=3)  # type: ignore[call-arg]
