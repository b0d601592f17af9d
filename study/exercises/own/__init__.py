"""A teacher's own exercise: a file with a forward, shapes and a statement is enough (docs/exercises.md).

    new(name, folder)   writes a template
    load(path)          the exercise in a file; ValueError, one line that says what to fix, if it is not one

The file is trusted: it runs in the judge's process.
"""
from .load import load
from .template import new

__all__ = ["load", "new"]
