"""Where a model looks: the weights of all its attention layers, as it reads an input."""
import copy
import inspect
from typing import Any

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor

EVERY_HEAD = {"need_weights": True, "average_attn_weights": False}
NEEDS = {  # {layer that attends: the arguments with which it returns its weights}
    nn.MultiHeadAttention: EVERY_HEAD,
    nn.Attention: {"need_weights": True},
    nn.AdditiveAttention: {},
}
MAY_HOLD_MODULES = nn.Module, list, dict, tuple, set  # the kinds of attributes that a model of its own needs anew


def has_attention(model: nn.Module) -> bool:
    """Has the model an attention layer?"""
    return any(isinstance(module, tuple(NEEDS)) for module in model.modules())


def attention_maps(model: nn.Module, *inputs: Any) -> dict[str, np.ndarray]:
    """{path of the layer: its weights}, in the order in which the layers are called by model(*inputs).

    Inputs are what the model takes, as tensors, arrays or lists: tokens (B, T), and of a Seq2Seq a source and the decoder's
    inputs. Weights are (B, H, Tq, Tk): how much each query takes from each key, so that rows sum to 1; or (H, Tq, Tk) if
    the inputs are the token ids of one sequence, without B. A layer that is called again has the further calls as
    "path, call 2"; but those of a recurrent decoder, one query each, are the rows of one map, the first of them from the
    first state.

    The model is in evaluation mode for this, without dropout; itself it stays as it is, with its mode, its gradients and
    its hooks, for other threads, too. ValueError if it calls no attention layer: MultiHeadAttention, Attention or
    AdditiveAttention of `nn`.

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
    maps = {name: weights for path, found in calls.items() for name, weights in _named(path, found)}
    return maps if is_batched else {name: weights[0] for name, weights in maps.items()}


def _twin(model: nn.Module) -> nn.Module:
    """Another model with the same tensors, and whatever else is no module: in its own mode, and with its own hooks."""
    attributes = (value for module in model.modules() for value in vars(module).values())
    return copy.deepcopy(model, {id(value): value for value in attributes if not isinstance(value, MAY_HOLD_MODULES)})


def _watch(module: nn.Module, needed: dict[str, bool], calls: dict[str, list[np.ndarray]], path: str) -> None:
    """After each call of the layer, compute its weights from the same arguments."""
    signature = inspect.signature(module.forward)

    def look(module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        arguments = signature.bind(*args, **kwargs).arguments | needed
        weights = module.forward(**arguments)[1].array
        if getattr(module, "layout", "rows") == "columns":
            weights = weights.swapaxes(-1, -2)
        if isinstance(module, nn.AdditiveAttention):  # (B, Tq, Tk): it has one head
            weights = weights[:, None]
        calls.setdefault(path, []).append(weights if weights.ndim == 4 else weights[None])

    module.register_forward_hook(look, with_kwargs=True)


def _named(path: str, found: list[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """The maps of a layer's calls."""
    if all(weights.shape[2] == 1 for weights in found):
        return [(path, np.concatenate(found, axis=2))]
    return [(path if i == 1 else f"{path}, call {i}", weights) for i, weights in enumerate(found, 1)]
