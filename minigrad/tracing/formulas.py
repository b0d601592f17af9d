"""The formulas of an op, from the first line of its docstring: "out = ...:  dx = ..."."""
import re

from ..tape import Op


def formula(op: type[Op]) -> tuple[str, str]:
    """(the formula of forward, that of backward); empty where the docstring has none.

    >>> from minigrad.ops.softmax import Softmax
    >>> formula(Softmax)
    ('out = e^x / sum of e^x along dim', 'dx = out * (dout - sum of dout * out)')
    """
    first = (op.__doc__ or "").strip().split("\n")[0]
    forward, *rest = re.split(r"[.:;,]?\s\s+(?=d\w+ =)", first, maxsplit=1)
    return (forward, *rest) if rest else (forward, "")
