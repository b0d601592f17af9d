"""Judges of exercises that do not return gradients: a checker, a mask that leaks.

An answer gets functions to call, and its calls show how it works: which upstream gradient it uses, which entries it moves
and how far. So a weakness is named because it was observed, and never guessed.
"""
from .base import Finding

__all__ = ["Finding"]
