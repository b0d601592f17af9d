"""Exercises in backpropagation that grade themselves and name the mistake: `minigrad exercises`.

In a notebook, `check(fn, "softmax")` judges a function and returns a report that renders itself; `check_file("softmax.py")`
judges a file.
"""
from .course import COURSE
from .exercise import Argument, Exercise
from .files import check, check_file
from .report import Report

__all__ = ["COURSE", "Argument", "Exercise", "Report", "check", "check_file"]
