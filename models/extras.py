"""Libraries of others that only some commands need, imported when they are."""
import importlib
import types


class MissingExtra(ImportError):
    """A library of an extra is not installed; the message says how to install it, in one line."""


def extra(name: str, library: str) -> types.ModuleType:
    """A library of an extra of this package; MissingExtra if it cannot be imported.

    >>> extra("hub", "no_such_library")
    Traceback (most recent call last):
    ...
    models.extras.MissingExtra: this needs no_such_library, which is not installed: pip install "minigrad[hub]"
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        is_there = not isinstance(error, ModuleNotFoundError)
        problem = f"which cannot be loaded ({error})" if is_there else "which is not installed"
        raise MissingExtra(f'this needs {library}, {problem}: pip install "minigrad[{name}]"') from None
