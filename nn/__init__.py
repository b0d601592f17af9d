"""Layers, their initialisation and their optimisers, with PyTorch's names.

>>> import minigrad as mg
>>> import nn
>>> mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
>>> mlp(mg.zeros(4, 8)).shape
(4, 8)
"""
from minigrad.extend import say_what_is_left_out as _say_what_is_left_out
from . import functional, init, optim, utils
from .activation import GELU, Identity, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from .additive_attention import AdditiveAttention
from .container import ModuleDict, ModuleList, Sequential
from .dropout import Dropout
from .embedding import Embedding
from .flatten import Flatten
from .layer_norm import LayerNorm
from .linear import Linear
from .loss import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from .module import Module, Parameter
from .multi_head_attention import MultiHeadAttention, MultiheadAttention
from .patches import PatchEmbedding, patchify, unpatchify
from .position import PositionEncoding
from .pytorchs_names import INSTEAD as _INSTEAD
from .recurrent import GRU, LSTM, RNN
from .rms_norm import RMSNorm
from .transformer import (
    Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
)

for _module in ("nn", "nn.functional", "nn.optim", "nn.optim.lr_scheduler", "nn.utils.rnn"):
    _say_what_is_left_out(_module, _INSTEAD)
__all__ = [
    "GELU", "GRU", "LSTM", "RNN", "AdditiveAttention", "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "Dropout",
    "Embedding", "Flatten", "Identity", "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "Module",
    "ModuleDict", "ModuleList", "MSELoss", "MultiHeadAttention", "MultiheadAttention", "NLLLoss", "Parameter",
    "PatchEmbedding", "PositionEncoding", "ReLU", "RMSNorm", "Sequential", "Sigmoid", "SiLU", "Softmax", "Softplus",
    "Tanh", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "functional", "init", "optim", "patchify", "unpatchify", "utils",
]
