"""Layers, their initialisation and their optimisers, with PyTorch's names.

>>> import minigrad as mg
>>> import nn
>>> mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
>>> mlp(mg.zeros(4, 8)).shape
(4, 8)
"""
from . import functional, init, optim
from .activation import GELU, Identity, ReLU, Sigmoid, Softmax, Tanh
from .attention import MultiHeadAttention, MultiheadAttention
from .attention_family import AdditiveAttention, Attention
from .container import ModuleDict, ModuleList, Sequential
from .dropout import Dropout
from .embedding import Embedding
from .layer_norm import LayerNorm
from .linear import Linear
from .module import Module, Parameter
from .patches import PatchEmbedding, patchify, unpatchify
from .position import PositionEncoding
from .recurrent import RNN

__all__ = [
    "functional", "init", "optim", "Module", "Parameter", "Sequential", "ModuleList", "ModuleDict", "Linear",
    "Embedding", "LayerNorm", "Dropout", "GELU", "Identity", "ReLU", "Sigmoid", "Softmax", "Tanh",
    "MultiHeadAttention", "MultiheadAttention", "Attention", "AdditiveAttention", "PositionEncoding", "RNN",
    "PatchEmbedding", "patchify", "unpatchify",
]
