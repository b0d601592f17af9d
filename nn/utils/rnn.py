"""pad_sequence: a batch of sequences of unequal lengths. There are no packed sequences: layers take padded ones."""
from collections.abc import Sequence

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn.checks import check_same_dtype, one_of

__all__ = ["pad_sequence"]


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """The sequences (T_i, ...) as one tensor (T, B, ...), or (B, T, ...) if batch_first, with T the greatest length.

    Shorter ones are filled with padding_value, on the "right", after their end, or on the "left".

    >>> pad_sequence([mg.tensor([1, 2, 3]), mg.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    one_of("pad_sequence", "padding_side", padding_side, ("right", "left"))
    longest = max(map(len, sequences), default=0)
    padded = []
    for sequence in sequences:
        check_same_dtype("pad_sequence", sequences[0], sequence)
        missing = longest - len(sequence)
        before_and_after = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(F.pad(sequence, [*[0, 0] * (sequence.ndim - 1), *before_and_after], value=padding_value))
    return mg.stack(padded, 0 if batch_first else 1)
