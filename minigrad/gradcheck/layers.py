"""A layer: an object that keeps its own parameters, cache and gradients, in attributes, dicts and lists."""
import copy
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .conventions import bare

Path = tuple[Any, ...]  # of attributes, keys and indices
GRADIENTS = {"grad", "grads", "gradient", "gradients"}
VALUES = {"param", "params", "parameters", "val", "value", "data"}
CLOSED = (type, types.ModuleType, types.FunctionType, types.MethodType, np.generic)


def held(value: Any) -> dict[Any, Any]:
    """What an object, a dict or a list holds; for an object and a dict, itself: what is written to it stays."""
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else {} if isinstance(value, CLOSED) else getattr(value, "__dict__", {})


def arrays_in(value: Any, path: Path = (), seen: tuple[int, ...] = ()) -> Iterator[tuple[Path, np.ndarray]]:
    """All arrays of floats, by their paths."""
    for key, item in held(value).items() if id(value) not in seen else ():
        if isinstance(item, np.ndarray) and item.dtype.kind == "f":
            yield (*path, key), item
        else:
            yield from arrays_in(item, (*path, key), (*seen, id(value)))


def get(layer: Any, path: Path) -> Any:
    for key in path:
        layer = held(layer).get(key)
    return layer


def put(layer: Any, path: Path, array: np.ndarray) -> None:
    owner = get(layer, path[:-1])
    (owner if isinstance(owner, list) else held(owner))[path[-1]] = array


def copied(layer: Any) -> Any:
    """A copy, so that a call leaves nothing behind; the layer itself if it cannot be copied."""
    try:
        return copy.deepcopy(layer)
    except Exception:  # noqa: BLE001  it holds a file, say
        return layer


def is_gradient_of(path: Path, other: Path) -> bool:
    """By their names: dW, grads["W"], grads["dW"], W.grad and W["grad"] are that of W, params["W"], W.data or W["val"].

    >>> is_gradient_of(("grads", "dW"), ("params", "W")), is_gradient_of(("dW",), ("b",))
    (True, False)
    """
    parts = [str(key) for key in path if str(key) not in GRADIENTS]
    wanted = [str(key) for key in other if str(key) not in VALUES]
    readings = [parts] if len(parts) < len(path) else []
    readings += [[*parts[:i], bare(part), *parts[i + 1:]] for i, part in enumerate(parts) if bare(part)]
    return wanted in readings
