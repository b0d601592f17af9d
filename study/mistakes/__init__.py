"""Wrong backwards to test a gradient check, or a student, with; also available as `minigrad.gradcheck.mutants`.

>>> from minigrad.gradcheck import gradcheck, mutants
>>> print(mutants.FUNCTIONS["attention"])
attention(q, k, v): out = softmax(q k^T / sqrt(D)) v on (B, H, T, D), causal: query t sees the keys 0 to t
  drawn as q (2, 2, 4, 4), k (2, 2, 4, 4), v (2, 2, 4, 4)
>>> wrong = mutants.MUTANTS["attention: no rowsum"]
>>> wrong.mistake
"softmax's sum over the row is missing: every output depends on every input of its row"
>>> gradcheck(wrong, wrong.draw(seed=0), raise_exception=False)
False
>>> gradcheck(wrong.right, wrong.draw(seed=0))
True
"""
from . import (  # in the order of FUNCTIONS
    attention, heads, tiles, broadcast, contract, elementwise, gelu, lookup, moves, norms, products, reductions, rotary,
    softmax,
)
from .base import FUNCTIONS, MUTANTS, Differentiable, Mutant
from .diagnose import diagnose, with_backward
from .grade import grade_checker

__all__ = ["FUNCTIONS", "MUTANTS", "Differentiable", "Mutant", "diagnose", "grade_checker", "with_backward"]
