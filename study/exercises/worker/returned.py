"""What a student's function returned, as plain arrays and words. Uses only NumPy: the worker imports it as well."""
import numpy as np

NUMERIC = "biufc"
MOST, LARGEST = 1000, 2**24  # results, bytes of one


def unwrap(found):
    """(container, each result in words, results): see `Answer`.

    >>> import numpy as np
    >>> unwrap((np.ones(2), [[1.0], [2.0]], None))[:2]
    ('tuple', ['an array', 'a list', 'None'])
    >>> unwrap([[1.0, 2.0], [3.0, 4.0]])
    ('list', ['a list', 'a list'], [array([1., 2.]), array([3., 4.])])
    """
    if isinstance(found, (tuple, list)):
        container, items = ("tuple" if isinstance(found, tuple) else "list"), found[:MOST]
    elif isinstance(found, (np.ndarray, np.generic, bool, int, float, complex)):
        container, items = "array", [found]
    else:
        return type(found).__name__, [], []
    pairs = [described(item) for item in items]
    return container, [words for words, _ in pairs], [plain for _, plain in pairs]


def described(item):
    """One result in words, and as a plain array, or None if it cannot be one."""
    if item is None:
        return "None", None
    if isinstance(item, np.ndarray):
        return described_array(item)
    if isinstance(item, (bool, int, float, complex, np.generic)):
        return described_number(item)
    if isinstance(item, (list, tuple)):
        return ("a list" if isinstance(item, list) else "a tuple"), numbers_of(item)
    if isinstance(item, (str, bytes)):
        return "a string", None
    name = type(item).__name__
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}", None


def described_array(item):
    plain = item.view(np.ndarray)  # of np.matrix or a masked array
    if plain.dtype.kind not in NUMERIC:
        return f"an array of {'objects' if plain.dtype.kind == 'O' else plain.dtype.name}", None
    if plain.nbytes > LARGEST:
        return f"an array of shape {plain.shape}, which is too large", None
    words = "an array"
    if isinstance(item, (np.ma.MaskedArray, np.matrix)):
        words = "a matrix" if isinstance(item, np.matrix) else "a masked array"
    return words, plain.copy()


def described_number(item):
    try:
        plain = np.asarray(item)
        plain = np.asarray(float(item)) if plain.dtype.kind == "O" else plain  # an integer of more than 64 bits
    except OverflowError:
        return "a number too large for float64", None
    return ("a number", plain) if plain.dtype.kind in NUMERIC else (f"a {plain.dtype.name}", None)


def numbers_of(items):
    """Nested lists of numbers as an array; None if they are ragged, or not numbers."""
    try:
        plain = np.array(items)
    except (ValueError, OverflowError, RecursionError):
        return None
    return plain if plain.dtype.kind in NUMERIC else None


def copy_of(tree):
    """The same with copies of all arrays, including those in lists and tuples."""
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if isinstance(tree, (list, tuple)):
        return type(tree)([copy_of(item) for item in tree])
    return tree
