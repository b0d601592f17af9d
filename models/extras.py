"""Optional libraries, imported when they are needed; errors in one line, and paths for the next command."""
import importlib
import os
import pathlib
import shlex
import textwrap
import types


class MissingExtra(ImportError):
    """A library of an extra is not installed; the message says how to install it, in one line."""


def one_line(error: BaseException, most: int = 160) -> str:
    """An error's message in one line of at most so many characters."""
    return textwrap.shorten(str(error), most, placeholder=" ...") or type(error).__name__


def quoted(path: str | os.PathLike[str]) -> str:
    """A path as a shell takes it.

    >>> quoted("runs/nano"), quoted("my run")
    ('runs/nano', "'my run'")
    """
    return shlex.quote(pathlib.Path(path).as_posix())


def extra(name: str, library: str) -> types.ModuleType:
    """A library that the extra `name` of this package installs; MissingExtra if it cannot be imported.

    >>> extra("hub", "no_such_library")
    Traceback (most recent call last):
    ...
    models.extras.MissingExtra: this needs no_such_library, which is not installed: pip install "minigrad-transformers[hub]"
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        is_there = not isinstance(error, ModuleNotFoundError)
        problem = f"which cannot be loaded ({error})" if is_there else "which is not installed"
        raise MissingExtra(f'this needs {library}, {problem}: pip install "minigrad-transformers[{name}]"') from None
