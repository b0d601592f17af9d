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
from minigrad import Tensor
from nn import functional as F
from nn.function_module import FunctionModule


class MSELoss(FunctionModule, function=F.mse_loss):
    def __init__(self, *, reduction: str = "mean"):
        super().__init__(reduction=reduction)


class L1Loss(FunctionModule, function=F.l1_loss):
    def __init__(self, *, reduction: str = "mean"):
        super().__init__(reduction=reduction)


class HuberLoss(FunctionModule, function=F.huber_loss):
    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction=reduction, delta=delta)


class SmoothL1Loss(FunctionModule, function=F.smooth_l1_loss):
    def __init__(self, *, reduction: str = "mean", beta: float = 1.0):
        super().__init__(reduction=reduction, beta=beta)


class CrossEntropyLoss(FunctionModule, function=F.cross_entropy, tensors=("weight",)):
    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean",
                 label_smoothing: float = 0.0):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)


class NLLLoss(FunctionModule, function=F.nll_loss, tensors=("weight",)):
    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class BCELoss(FunctionModule, function=F.binary_cross_entropy, tensors=("weight",)):
    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean"):
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(FunctionModule, function=F.binary_cross_entropy_with_logits, tensors=("weight", "pos_weight")):
    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None):
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class KLDivLoss(FunctionModule, function=F.kl_div):
    def __init__(self, *, reduction: str = "mean", log_target: bool = False):
        super().__init__(reduction=reduction, log_target=log_target)
