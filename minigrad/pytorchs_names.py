"""Names of PyTorch's that people often type and that this library leaves out, with what to use instead.

All others raise Python's own errors. docs/pytorch.md lists these and the keywords that are taken and change nothing.
"""
import functools
import sys
from opcode import opmap
from types import FrameType
from typing import NoReturn

IMAGES = "use nn.PatchEmbedding for images, and nn.Linear of x[..., starts[:, None] + mg.arange(size)] for other windows"
NORMS = "use nn.LayerNorm or nn.RMSNorm"
NUMPYS = "use NumPy's on x.numpy(), and mg.from_numpy; mg.Function gives it a gradient"
OPTIMIZERS = "use nn.optim.AdamW, nn.optim.SGD or nn.optim.Muon"
PACKED = "layers take no packed sequences; use nn.utils.rnn.pad_sequence"
RANKS = "use `mpiexec -n 4 minigrad train`"
RATES = "use nn.optim.LambdaLR, whose factor is any function of the step, or nn.optim.warmup_annealing"

INSTEAD = {
    "Conv1d": IMAGES, "Conv2d": IMAGES, "ConvTranspose2d": IMAGES, "MaxPool2d": IMAGES, "AvgPool2d": IMAGES,
    "AdaptiveAvgPool2d": IMAGES, "conv2d": IMAGES, "max_pool2d": IMAGES,
    "Attention": "use nn.MultiHeadAttention",
    "BatchNorm1d": NORMS, "BatchNorm2d": NORMS,
    "LSTMCell": "use nn.RNN, nn.GRU or nn.LSTM, on sequences of one element too",
    "gumbel_softmax": "use (x - mg.rand_like(x).log().neg().log()).softmax(-1)",
    "pack_padded_sequence": PACKED, "pad_packed_sequence": PACKED,
    "RMSprop": OPTIMIZERS, "Adagrad": OPTIMIZERS, "LBFGS": OPTIMIZERS,
    "ReduceLROnPlateau": RATES, "OneCycleLR": RATES,
    "DataParallel": RANKS, "distributed": RANKS,
    "linalg": NUMPYS, "fft": NUMPYS,
    "cdist": "use (a[:, None] - b[None]).norm(dim=-1)",
    "vmap": "use an axis for the batch, along which operations broadcast",
}


def say_what_is_left_out(module: str) -> None:
    """Give a module its `__getattr__`. Were it written there, type checkers would accept any name."""
    vars(sys.modules[module])["__getattr__"] = functools.partial(left_out, module)


def left_out(module: str, name: str) -> NoReturn:
    """What a module's `__getattr__` does: an AttributeError, with what to use instead."""
    message = f"module {module!r} has no attribute {name!r}"
    if name in INSTEAD:
        message += f": left out; {INSTEAD[name]}"
        if _is_from_import(sys._getframe(1)):
            raise ImportError(message, name=module)
    raise AttributeError(message, name=name, obj=sys.modules[module])


def _is_from_import(frame: FrameType | None) -> bool:
    """Is a module's `__getattr__` called for `from module import name`? Python then drops an AttributeError's message."""
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
