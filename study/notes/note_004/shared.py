"""Shared by the parts of note 004: places in the code, random numbers."""
import minigrad as mg
from minigrad import Tensor
from study.notes.helpers import normal

ATTENTION, POSITIONS, RNN = "study/notes/attention.py:Attention", "nn/position.py:PositionEncoding", "nn/recurrent.py:RNN"
BLOCK, SEQ2SEQ = "models/transformer.py:Block", "models/recurrent.py:RecurrentSeq2Seq"


def randn(*shape: int, seed: int = 0) -> Tensor:
    """In float64."""
    return mg.tensor(normal(seed, *shape))
