"""A teacher's own exercise: a file with a forward, shapes and a statement is enough (docs/exercises.md).

    new(name, folder)   writes such a file to begin with
    load(path)          the exercise in it; ValueError, a line that says what is to be mended, if it cannot be one

The file is trusted: it runs in the process of the judge.
"""
from .load import load
from .template import new

__all__ = ["load", "new"]
