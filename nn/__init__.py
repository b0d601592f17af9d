"""Layers, their initialisation and their optimisers, with PyTorch's names.

>>> import minigrad as mg
>>> import nn
>>> mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
>>> mlp(mg.zeros(4, 8)).shape
(4, 8)
"""
from minigrad.extend import say_what_is_left_out as _say_what_is_left_out
from . import functional, init, optim, utils
from .activation import (
    CELU, ELU, GELU, GLU, SELU, Hardsigmoid, Hardswish, Hardtanh, Identity, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU,
    ReLU, ReLU6, Sigmoid, SiLU, Softmax, Softmin, Softplus, Softsign, Tanh, Tanhshrink,
)
from .additive_attention import AdditiveAttention
from .container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .dropout import Dropout
from .embedding import Embedding
from .flatten import Flatten, Unflatten
from .group_norm import GroupNorm
from .layer_norm import LayerNorm
from .linear import Linear
from .loss import (
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss,
)
from .module import Module, Parameter
from .multi_head_attention import MultiHeadAttention, MultiheadAttention
from .patches import PatchEmbedding, patchify, unpatchify
from .position import PositionEncoding
from .recurrent import GRU, LSTM, RNN
from .rms_norm import RMSNorm
from .transformer import (
    Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
)

for _module in ("nn", "nn.functional", "nn.optim", "nn.optim.lr_scheduler", "nn.utils.rnn"):
    _say_what_is_left_out(_module)
__all__ = [
    "CELU", "ELU", "GELU", "GLU", "GRU", "LSTM", "RNN", "SELU", "AdditiveAttention", "BCELoss",
    "BCEWithLogitsLoss", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "GroupNorm", "Hardsigmoid", "Hardswish",
    "Hardtanh", "HuberLoss", "Identity", "KLDivLoss", "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid",
    "LogSoftmax", "Mish", "Module", "ModuleDict", "ModuleList", "MSELoss", "MultiHeadAttention", "MultiheadAttention",
    "NLLLoss", "Parameter", "ParameterDict", "ParameterList", "PatchEmbedding", "PositionEncoding", "PReLU", "ReLU",
    "ReLU6", "RMSNorm", "Sequential", "Sigmoid", "SiLU", "SmoothL1Loss", "Softmax", "Softmin", "Softplus", "Softsign",
    "Tanh", "Tanhshrink", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "Unflatten", "functional", "init", "optim", "patchify", "unpatchify", "utils",
]
