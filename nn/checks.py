"""Checks of constructor arguments that several layers share."""
import operator


def positive_int(layer: str, name: str, value: int) -> int:
    """The value as an int; a ValueError if it is none, or not positive.

    >>> positive_int("Linear", "in_features", 0)
    Traceback (most recent call last):
    ...
    ValueError: Linear: in_features must be a positive integer, got 0
    """
    try:
        if operator.index(value) > 0:
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{layer}: {name} must be a positive integer, got {value!r}")


def probability(layer: str, name: str, value: float) -> float:
    """The value, if it is a number from 0 to 1."""
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{layer}: {name} must be a probability, from 0 to 1, got {value!r}")
    return value
