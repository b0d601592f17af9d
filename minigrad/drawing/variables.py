"""Which variables of running code hold tensors."""
import re
import types
from collections.abc import Iterator
from typing import Any

from ..backend import is_tensor

OF_NOTEBOOKS = re.compile(r"_+\d*")  # _, _12: what cells returned


def tensors_in(frame: types.FrameType, has_names: bool = True) -> Iterator[tuple[str, Any]]:
    """(name, Tensor) of the variables that the code can see: locals, those of enclosing functions, globals that it uses;
    and of modules their parameters, by path. Without `has_names`, of the parameters only."""
    used = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    for name, value in {**used, **frame.f_locals}.items():
        if isinstance(value, type) or OF_NOTEBOOKS.fullmatch(name):
            continue
        if is_tensor(value):
            if has_names:
                yield name, value
        elif hasattr(value, "named_parameters"):
            yield from value.named_parameters()
