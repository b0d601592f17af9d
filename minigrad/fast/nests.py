"""Nested tuples, lists and dicts, as steps and layers return them."""
import collections
from collections.abc import Callable
from typing import Any


def each(nest: Any, function: Callable[[Any], Any]) -> Any:
    """Apply the function to everything in nested tuples, named tuples, lists and dicts, keeping the structure."""
    if type(nest) in (dict, collections.OrderedDict):
        return type(nest)((key, each(value, function)) for key, value in nest.items())
    if type(nest) in (tuple, list):
        return type(nest)(each(value, function) for value in nest)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*[each(value, function) for value in nest])
    return function(nest)
