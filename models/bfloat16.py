"""bfloat16, which NumPy lacks, as uint16: the upper half of a float32."""
import numpy as np


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The bits (uint16) of float32 numbers, rounded to nearest, ties to even.

    >>> to_bfloat16(np.float32([1.0, -2.0, 3.1415])).tolist()
    [16256, 49152, 16457]
    """
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 numbers of these bits, without rounding.

    >>> from_bfloat16(np.uint16([16256, 49152, 16457])).tolist()
    [1.0, -2.0, 3.140625]
    """
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)
