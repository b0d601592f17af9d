"""An error in someone's code, in a sentence with the line that raised it."""
import os
import traceback

import numpy as np

OURS: list[str] = ["<frozen "]  # how files begin that are never to blame: folders, and Python's own importer


def spare(file: str) -> None:
    """Never blame the files in this file's folder: they only call someone's code."""
    OURS.append(os.path.join(os.path.dirname(file), ""))


spare(os.path.dirname(__file__))
spare(np.__file__)


def told(error: Exception) -> str:
    """The first line of what was raised, and in which line of the user's code, if any is in the traceback.

    >>> try:
    ...     np.ones(2) @ np.ones(3)
    ... except ValueError as error:
    ...     print(told(error))
    ValueError: matmul: Input operand 1 has a mismatch ... in line 2 of ...: np.ones(2) @ np.ones(3)
    """
    said = next(iter(str(error).splitlines()), "")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(tuple(OURS))]
    if not frames:
        is_plain = isinstance(error, RuntimeError) or said.startswith("gradcheck: ")
        return said if is_plain else f"{type(error).__name__}: {said}"
    innermost = frames[-1]
    code = f": {innermost.line}" if innermost.line else ""
    return f"{type(error).__name__}: {said}, in line {innermost.lineno} of {os.path.basename(innermost.filename)}{code}"
