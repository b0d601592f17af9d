"""What a student's function returned, as plain arrays and words. Uses only NumPy: the worker imports it as well.

None of the student's code runs here: no method of an object that was returned, not even `__iter__`.
"""
from numpy import array, asarray, float64, generic, ma, matrix, ndarray

NUMERIC = "biufc"
LARGEST = 2**24  # bytes of one result
MOST = 1000  # results
DEPTH = 32  # of lists in lists
PLAIN = {generic: generic.__array__, bool: bool, int: int.__pos__, float: float.__pos__, complex: complex.__pos__}


def unwrap(found):
    """(container, each result in words, results): see `Answer`.

    >>> import numpy as np
    >>> unwrap((np.ones(2), [[1.0], [2.0]], None))[:2]
    ('tuple', ['an array', 'a list', 'None'])
    >>> unwrap([[1.0, 2.0], [3.0, 4.0]])
    ('list', ['a list', 'a list'], [array([1., 2.]), array([3., 4.])])
    """
    if isinstance(found, tuple):
        container, items = "tuple", list(tuple.__iter__(found))
    elif isinstance(found, list):
        container, items = "list", list(list.__iter__(found))
    elif isinstance(found, (ndarray, generic, bool, int, float, complex)):
        container, items = "array", [found]
    else:
        return name_of(type(found)), [], []
    pairs = [described(item) for item in items[:MOST]]
    return container, [words for words, _ in pairs], [plain for _, plain in pairs]


def described(item):
    """One result in words, and as a plain array, or None if it cannot be one."""
    if item is None:
        return "None", None
    if isinstance(item, ndarray):
        return described_array(item)
    if isinstance(item, (bool, int, float, complex, generic)):
        return described_number(item)
    if isinstance(item, (list, tuple)):
        return ("a list" if isinstance(item, list) else "a tuple"), numbers_of(item)
    if isinstance(item, (str, bytes)):
        return "a string", None
    name = name_of(type(item))
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}", None


def described_array(item):
    plain = ndarray.view(item, ndarray)  # of np.matrix, a masked array or a class of the student's
    kind = plain.dtype.kind
    if kind == "O":
        return "an array of objects", None
    if kind not in NUMERIC:
        return f"an array of {plain.dtype.name}", None
    if plain.nbytes > LARGEST:
        return f"an array of shape {plain.shape}, which is too large", None
    words = "a masked array" if isinstance(item, ma.MaskedArray) else "a matrix" if isinstance(item, matrix) else "an array"
    return words, array(plain, order="C", copy=True)


def described_number(item):
    try:
        plain = asarray(plain_number(item))
        if plain.dtype.kind == "O":  # an integer of more than 64 bits
            plain = asarray(float64(plain_number(item)))
    except OverflowError:
        return "a number too large for float64", None
    return ("a number", plain) if plain.dtype.kind in NUMERIC else (f"a {plain.dtype.name}", None)


def plain_number(item):
    """Of a built-in type, not of a subclass of the student's."""
    for kind, plain in PLAIN.items():
        if isinstance(item, kind):
            return plain(item)
    raise TypeError


def numbers_of(items):
    """Nested lists of numbers as an array; None if they are ragged, or not numbers."""
    shape, level = [], [items]
    while level and isinstance(level[0], (list, tuple)) and len(shape) < DEPTH:
        if not all(isinstance(row, (list, tuple)) and len(row) == len(level[0]) for row in level):
            return None
        shape.append(len(level[0]))
        level = [number for row in level for number in row]
    try:
        plain = array([plain_number(item) for item in level] or (), dtype=None if level else float64)
    except (OverflowError, TypeError, ValueError):
        return None
    return plain.reshape(shape) if plain.dtype.kind in NUMERIC else None


def name_of(kind):
    """A type's name, whatever its metaclass says."""
    return str(type.__dict__["__name__"].__get__(kind))[:80]


def copy_of(tree):
    """The same with copies of all arrays, including those in lists, tuples and dicts."""
    if isinstance(tree, ndarray):
        return tree.copy()
    if isinstance(tree, (list, tuple)):
        return type(tree)([copy_of(item) for item in tree])
    if isinstance(tree, dict):
        return {key: copy_of(item) for key, item in tree.items()}
    return tree
