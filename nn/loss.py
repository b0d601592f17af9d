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


class MSELoss(_Loss, function=F.mse_loss): ...
class L1Loss(_Loss, function=F.l1_loss): ...


class HuberLoss(_Loss, function=F.huber_loss):
    reduction: str = "mean"
    delta: float = 1.0


class SmoothL1Loss(_Loss, function=F.smooth_l1_loss):
    _: KW_ONLY
    beta: float = 1.0


class _Weighted(_Loss):
    weight: Tensor | None = None


class CrossEntropyLoss(_Weighted, function=F.cross_entropy):
    _: KW_ONLY
    ignore_index: int = -100
    label_smoothing: float = 0.0


class NLLLoss(_Weighted, function=F.nll_loss):
    _: KW_ONLY
    ignore_index: int = -100


class BCELoss(_Weighted, function=F.binary_cross_entropy): ...


class BCEWithLogitsLoss(_Weighted, function=F.binary_cross_entropy_with_logits):
    _: KW_ONLY
    pos_weight: Tensor | None = None


class KLDivLoss(_Loss, function=F.kl_div):
    _: KW_ONLY
    log_target: bool = False
