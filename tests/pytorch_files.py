"""Files written for PyTorch, such as those in tests/for_pytorch, run with their import lines changed and nothing else."""
import builtins
import pathlib
import sys
import types

FOLDER = pathlib.Path(__file__).parent / "for_pytorch"
IMPORTS = {  # the start of a line in a file written for PyTorch, and here
    "import torch.nn.functional as F": "from nn import functional as F",
    "import torch.nn as nn": "import nn",
    "import torch": "import minigrad as torch",
    "from torch.utils.data import": "from nn.utils.data import",
    "from torch.nn import": "from nn import",
    "from torch import nn": "import nn",
}


def with_our_imports(source: str) -> str:
    return "\n".join(map(_with_our_import, source.split("\n")))


def _with_our_import(line: str) -> str:
    for theirs, ours in IMPORTS.items():
        if line.startswith(theirs):
            return ours + line.removeprefix(theirs)
    return line


def loaded(source: str, name: str, is_fused: bool = True) -> types.ModuleType:
    """The module that the source defines. If not `is_fused`, it does not find fused attention, and spells it out."""
    module = types.ModuleType(name)
    sys.modules[name] = module  # a dataclass asks for it
    if not is_fused:
        module.hasattr = lambda owner, name: name != "scaled_dot_product_attention" and builtins.hasattr(owner, name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def ours(name: str, is_fused: bool = True) -> types.ModuleType:
    """A file of the folder, running here."""
    return loaded(with_our_imports((FOLDER / name).read_text(encoding="utf-8")), f"ours_{name}", is_fused)
