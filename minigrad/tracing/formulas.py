"""What an op computes and what its gradients are, as its docstring says."""
import inspect
import re

from ..tape import Op


def formula(op: type[Op]) -> tuple[str, str]:
    """The first paragraph of an op's docstring, in two: what out is, and what goes back. Empty if it is not written so.

    >>> from minigrad.ops.arithmetic import Mul
    >>> formula(Mul)
    ('out = a * b', 'da = dout * b,  db = dout * a')
    """
    for base in op.__mro__:  # an op without a docstring is like the one that it is made from
        paragraph = inspect.cleandoc(base.__doc__ or "").partition("\n\n")[0]
        forward, _, backward = re.sub(r"\n\s*", "  ", paragraph).partition(":  ")
        if backward:
            return forward, backward
    return "", ""
