"""Where a model looks: the weights of all its attention layers for a given input."""
import copy
import inspect
from typing import Any

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor

NEEDS: dict[type[nn.Module], dict[str, bool]] = {  # {attention layer: the arguments that make it return its weights}
    nn.MultiHeadAttention: {"need_weights": True, "average_attn_weights": False},
    nn.AdditiveAttention: {},
}
MAY_HOLD_MODULES = nn.Module, list, dict, tuple, set  # the types of attributes that a twin needs its own copies of


def has_attention(model: nn.Module) -> bool:
    return any(isinstance(module, tuple(NEEDS)) for module in model.modules())


def attention_maps(model: nn.Module, *inputs: Any) -> dict[str, np.ndarray]:
    """{path of the layer: its weights}, in the order in which model(*inputs) calls the layers.

    Inputs are tensors, arrays or lists: tokens (B, T), or for a Seq2Seq a source and the decoder's inputs. Weights are
    (B, H, Tq, Tk), how much each query takes from each key (rows sum to 1), or (H, Tq, Tk) if the inputs are the token ids
    of one sequence, without B. Repeated calls of a layer appear as "path, call 2"; a recurrent decoder's calls, one query
    each, become the rows of one map, starting with the first state's.

    Weights are those of evaluation mode, without dropout; the model itself, its mode, gradients and hooks stay untouched,
    also for other threads. ValueError if it calls neither MultiHeadAttention nor AdditiveAttention of `nn`.

    >>> from models import PRESETS, CausalTransformer
    >>> maps = attention_maps(CausalTransformer(PRESETS["micro"].config), [3, 1, 4])
    >>> [(name, weights.shape) for name, weights in maps.items()]
    [('blocks.0.attention', (2, 3, 3)), ('blocks.1.attention', (2, 3, 3))]
    >>> maps["blocks.0.attention"][0, 0]  # the first token sees itself alone
    array([1., 0., 0.], dtype=float32)
    """
    tensors = [value if isinstance(value, Tensor) else mg.tensor(np.asarray(value)) for value in inputs]
    is_batched = not all(x.ndim == 1 and x.dtype.kind == "i" for x in tensors)
    calls: dict[str, list[np.ndarray]] = {}  # the weights of each call, (B, H, Tq, Tk)
    twin = _twin(model).eval()
    for path, module in twin.named_modules():
        for kind, needed in NEEDS.items():
            if isinstance(module, kind):
                _watch(module, needed, calls, path or kind.__name__)
    with mg.no_grad():
        twin(*tensors if is_batched else [x[None] for x in tensors])
    if not calls:
        raise ValueError(f"attention_maps: {type(model).__name__} calls no attention layer, so it has no weights to show; "
                         f"expected a model with one of {', '.join(f'nn.{kind.__name__}' for kind in NEEDS)}")
    maps: dict[str, np.ndarray] = {}
    for path, found in calls.items():
        if all(weights.shape[2] == 1 for weights in found):  # of a recurrent decoder
            found = [np.concatenate(found, axis=2)]
        maps |= {path if i == 1 else f"{path}, call {i}": weights for i, weights in enumerate(found, 1)}
    return maps if is_batched else {name: weights[0] for name, weights in maps.items()}


def _twin(model: nn.Module) -> nn.Module:
    """A model that shares all tensors, but has its own modules, and so its own mode and hooks."""
    attributes = (value for module in model.modules() for value in vars(module).values())
    return copy.deepcopy(model, {id(value): value for value in attributes if not isinstance(value, MAY_HOLD_MODULES)})


def _watch(module: nn.Module, needed: dict[str, bool], calls: dict[str, list[np.ndarray]], path: str) -> None:
    """After each call of the layer, compute its weights from the same arguments."""
    signature = inspect.signature(module.forward)

    def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        arguments = signature.bind(*args, **kwargs).arguments | needed
        weights = module.forward(**arguments)[1].array
        if isinstance(module, nn.AdditiveAttention):  # (B, Tq, Tk): it has one head
            weights = weights[:, None]
        calls.setdefault(path, []).append(weights if weights.ndim == 4 else weights[None])

    module.register_forward_hook(look, with_kwargs=True)
