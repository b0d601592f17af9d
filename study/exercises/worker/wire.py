"""Messages between the judge and the worker: a header of JSON, then the arrays as raw bytes. Nothing is unpickled.

    4 bytes  length of the header
    8 bytes  length of the arrays
    header, arrays

The reader checks every length, dtype and shape. Uses only NumPy: the worker imports it as well.
"""
import json
import re
import struct

from numpy import dtype, empty, frombuffer, generic, ndarray

PREFIX = struct.Struct(">IQ")
LARGEST_HEADER = 2**20
LARGEST_BODY = 2**26
DTYPE = re.compile(r"[<>|=]?[biufc][0-9]{1,2}")
DEPTH = 32

_loads, _dumps = json.loads, json.JSONEncoder(ensure_ascii=True).encode


class Garbage(ValueError):
    """Received something that is not a message."""


class Unsendable(TypeError):
    """Not made of arrays and numbers, or too large to send; the message says what it is."""


def pack(header, tree, callables=None):
    """A message's bytes: the header (a dict of JSON), and a tree of arrays, numbers, lists, tuples, dicts and callables.

    Callables are appended to the list `callables`, and sent as their index. TypeError says what cannot be sent.
    """
    arrays = []
    text = _dumps({**header, "tree": _node(tree, arrays, callables, DEPTH)}).encode("ascii")
    size = sum(array.nbytes for array in arrays)
    if len(text) > LARGEST_HEADER or size > LARGEST_BODY:
        raise Unsendable(f"{max(len(text), size) / 2**20:.0f} MB")
    return b"".join([PREFIX.pack(len(text), size), text, *map(ndarray.tobytes, arrays)])


def _node(tree, arrays, callables, depth):
    if depth == 0:
        raise Unsendable("lists in lists in lists")
    if tree is None or isinstance(tree, (bool, int, float, str)) and not isinstance(tree, generic):
        return ["value", tree]
    if isinstance(tree, (ndarray, generic)):
        array = ndarray.view(tree, ndarray) if isinstance(tree, ndarray) else generic.__array__(tree)
        if not DTYPE.fullmatch(array.dtype.str) or array.nbytes > LARGEST_BODY:
            raise Unsendable(f"an array of {array.dtype} and shape {array.shape}")
        arrays.append(array)
        return ["array" if isinstance(tree, ndarray) else "number", array.dtype.str, list(array.shape)]
    if isinstance(tree, (list, tuple)):
        return ["list" if isinstance(tree, list) else "tuple", [_node(item, arrays, callables, depth - 1) for item in tree]]
    if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
        return ["dict", [[key, _node(item, arrays, callables, depth - 1)] for key, item in tree.items()]]
    if callable(tree) and callables is not None:
        callables.append(tree)
        return ["callable", len(callables) - 1]
    raise Unsendable(f"a {type(tree).__name__}")


def lengths(prefix):
    """(length of the header, length of the arrays) from the first `PREFIX.size` bytes."""
    header, body = PREFIX.unpack(prefix)
    if header > LARGEST_HEADER or body > LARGEST_BODY:
        raise Garbage("no message")
    return header, body


def unpack(header, body, proxy=None):
    """(header, tree) of a message. `proxy(i)` makes a callable for the i-th callable of the other side."""
    try:
        fields = _loads(header)
        reader = _Reader(body, proxy)
        tree = reader.read(fields.pop("tree"), DEPTH)
        if reader.position != len(body):
            raise Garbage("bytes that belong to no array")
        return fields, tree
    except Garbage:
        raise
    except Exception as error:  # noqa: BLE001  whatever is wrong with it
        raise Garbage(f"no message: {type(error).__name__}") from None


class _Reader:
    def __init__(self, body, proxy):
        self.body, self.proxy, self.position = body, proxy, 0

    def read(self, node, depth):
        kind, value, *shape = node
        if depth == 0:
            raise Garbage("lists in lists in lists")
        if kind == "value" and (value is None or isinstance(value, (bool, int, float, str))):
            return value
        if kind in ("array", "number"):
            array = self.array(value, *shape)
            return array if kind == "array" else array[()]
        if kind in ("list", "tuple") and isinstance(value, list):
            return (list if kind == "list" else tuple)([self.read(item, depth - 1) for item in value])
        if kind == "dict":
            return {str(key): self.read(item, depth - 1) for key, item in value}
        if kind == "callable" and self.proxy is not None and type(value) is int and value >= 0:
            return self.proxy(value)
        raise Garbage("no message")

    def array(self, name, shape):
        if not DTYPE.fullmatch(name) or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
            raise Garbage("no array")
        kind, count = dtype(name), 1
        for n in shape:
            count *= n
        end = self.position + count * kind.itemsize
        if end > len(self.body):
            raise Garbage("an array that did not come")
        array = empty(shape, kind)
        if count:
            array[...] = frombuffer(self.body, kind, count, self.position).reshape(shape)
        self.position = end
        return array
