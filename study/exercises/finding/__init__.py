"""Judges of exercises that are not judged by numbers: a checker, a mask that leaks, the right backward among wrong ones.

Such an exercise gets functions to call, and what it calls them with says how it works: which upstream gradient, which
entries it moves and how far. So a weakness is named because it was seen, never because it was guessed.
"""
from .base import Finding, Watched, Weakness, weaknesses

__all__ = ["Finding", "Watched", "Weakness", "weaknesses"]
