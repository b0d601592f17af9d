"""Wrong backwards to test a gradient check, or a student, with; also available as `minigrad.gradcheck.mutants`.

>>> from minigrad.gradcheck import gradcheck, mutants
>>> print(mutants.FUNCTIONS["attention"])
attention(q, k, v): out = softmax(q k^T / sqrt(d)) v, causal: query t sees the keys 0 to t
  drawn as q (2, 2, 4, 4), k (2, 2, 4, 4), v (2, 2, 4, 4)
>>> wrong = mutants.MUTANTS["attention: no scale in dq"]
>>> wrong.mistake
'the scale 1 / sqrt(d) is missing in dq'
>>> gradcheck(wrong, wrong.draw(seed=0), raise_exception=False)
False
>>> gradcheck(wrong.right, wrong.draw(seed=0))
True
"""
from .base import FUNCTIONS, Differentiable, Mutant
from .diagnose import diagnose, with_backward
from .grade import grade_checker
from .mutants import MUTANTS

__all__ = ["FUNCTIONS", "MUTANTS", "Differentiable", "Mutant", "diagnose", "grade_checker", "with_backward"]
