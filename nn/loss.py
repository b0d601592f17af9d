"""Losses as modules: loss = module(prediction, target).

Each is a function of `nn.functional`, and has its docstring. Weights are buffers: they are saved with the model, and
converted by `to`.

>>> import minigrad as mg
>>> import nn
>>> nn.MSELoss(reduction="sum")(mg.tensor([1.0, 2.0]), mg.tensor([0.0, 0.0])).item()
5.0
>>> loss = nn.CrossEntropyLoss(ignore_index=0)(mg.zeros(3, 4), mg.tensor([1, 2, 0]))
>>> round(loss.item(), 4)  # log 4
1.3863
"""
from dataclasses import KW_ONLY

from minigrad import Tensor
from nn import functional as F
from nn.function_module import FunctionModule


class _Loss(FunctionModule):
    _: KW_ONLY
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of the input, as in PyTorch: a prediction, logits, or log-probabilities."""
        return super().forward(input, target)


class MSELoss(_Loss, function=F.mse_loss): """(input - target)^2"""
class L1Loss(_Loss, function=F.l1_loss): """|input - target|, with gradient 0 where they are equal"""


class _Weighted(_Loss):
    weight: Tensor | None = None


class CrossEntropyLoss(_Weighted, function=F.cross_entropy):
    """log(sum of e^input) - input[target], for logits (V,), (N, V) or (N, V, d1, ...) and targets without V."""

    _: KW_ONLY
    ignore_index: int = -100
    label_smoothing: float = 0.0


class NLLLoss(_Weighted, function=F.nll_loss):
    """-input[target], for log-probabilities (V,), (N, V) or (N, V, d1, ...), as log_softmax gives them."""

    _: KW_ONLY
    ignore_index: int = -100


class BCELoss(_Weighted, function=F.binary_cross_entropy):
    """-(target log p + (1 - target) log(1 - p)) for probabilities p, the input, with logarithms of at least -100"""


class BCEWithLogitsLoss(_Weighted, function=F.binary_cross_entropy_with_logits):
    """-(target log p + (1 - target) log(1 - p)), p = sigmoid(input); `pos_weight` multiplies the first term"""

    _: KW_ONLY
    pos_weight: Tensor | None = None
