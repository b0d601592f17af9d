"""What the files below Tensor know of it."""
from typing import Any


def is_tensor(value: Any) -> bool:
    """Is it a Tensor? It is what can apply operations."""
    return hasattr(value, "apply_op")
