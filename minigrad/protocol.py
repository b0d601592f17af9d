"""What the files below tensor.py know of a Tensor."""
from typing import Any


def is_tensor(value: Any) -> bool:
    """Is it a Tensor? All that the files below know of one is that it can apply ops."""
    return hasattr(type(value), "apply_op")  # of the class: an object's own __getattr__ is not asked
