"""Reading einsum's subscripts."""
import numpy as np

from .. import ops
from .operands import is_tensor

LABELS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(equation: str, *operands):
    """Products of the operands, summed over each label that the output does not have.

    An ellipsis stands for any further axes, broadcast; a label twice in one operand takes its diagonal. Without "->",
    the output has the labels that occur once, in alphabetical order, after the axes of the ellipsis.

    >>> from minigrad import tensor
    >>> einsum("ij,j->i", tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, -1.0])).tolist()
    [-1.0, -1.0]
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    tensor = next((x for x in operands if is_tensor(x)), None)
    if tensor is None:
        raise TypeError("einsum: expected a Tensor among the operands; for arrays there is np.einsum")
    operands = [x if is_tensor(x) else tensor.constant(np.asarray, x) for x in operands]
    if len({x.dtype for x in operands}) > 1:
        raise TypeError(f"einsum: expected one dtype, got {[str(x.dtype) for x in operands]}; convert with .to(dtype)")
    inputs, output = without_ellipsis(equation.replace(" ", ""), operands)
    for i, labels in enumerate(inputs):
        operands[i], inputs[i] = diagonals(operands[i], labels)
    try:
        return tensor.apply_op(ops.Einsum, *operands, subscripts=f"{','.join(inputs)}->{output}")
    except ValueError as error:
        raise ValueError(f"einsum: {equation!r} does not fit shapes {[x.shape for x in operands]}: {error}") from None


def without_ellipsis(equation: str, operands: list) -> tuple[list[str], str]:
    """One label for each axis of each operand, and the output's labels."""
    left, arrow, output = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ValueError(f"einsum: {equation!r} is for {len(inputs)} operands, got {len(operands)}")
    free = "".join(label for label in LABELS if label not in equation)
    longest = ""
    for i, (labels, x) in enumerate(zip(inputs, operands)):
        rest = x.ndim - len(labels.replace("...", ""))
        if rest < 0 or rest > 0 and "..." not in labels:
            raise ValueError(f"einsum: operand {i} has shape {x.shape}, which does not fit its subscripts {labels!r}")
        inputs[i] = labels.replace("...", free[:rest][::-1])  # counted from the last, as broadcasting does
        longest = max(longest, free[:rest][::-1] if "..." in labels else "", key=len)
    if not arrow:
        named = left.replace(",", "").replace(".", "")
        output = "..." + "".join(sorted(label for label in set(named) if named.count(label) == 1))
    return inputs, output.replace("...", longest)


def diagonals(x, labels: str):
    """The operand and its labels with no label twice: x_ii becomes the vector of its diagonal."""
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(f"einsum: label {label!r} stands for two lengths in an operand of shape {x.shape}")
            x = x.diagonal(0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return x, labels
