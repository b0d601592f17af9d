"""An op's formula and those of its gradients, read from its docstring."""
import inspect
import re

from ..tape import Op


def formula(op: type[Op]) -> tuple[str, str]:
    """The formulas of the output and of the gradients, from the first paragraph of the docstring; empty if it has none.

    >>> from minigrad.ops.arithmetic import Mul
    >>> formula(Mul)
    ('out = a * b', 'da = dout * b,  db = dout * a')
    """
    for base in op.__mro__:  # a docstring is inherited
        paragraph = inspect.cleandoc(base.__doc__ or "").partition("\n\n")[0]
        forward, _, backward = re.sub(r"\n\s*", "  ", paragraph).partition(":  ")
        if backward:
            return forward, backward
    return "", ""
