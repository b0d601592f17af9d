"""Files written for PyTorch, such as those in tests/for_pytorch, run with only their import lines changed."""
import builtins
import pathlib
import re
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
    return re.sub(f"^({'|'.join(map(re.escape, IMPORTS))})", lambda match: IMPORTS[match[0]], source, flags=re.MULTILINE)


def loaded(source: str, name: str, is_fused: bool = True) -> types.ModuleType:
    """The module that the source defines. If not `is_fused`, it finds no fused attention, and spells it out."""
    module = types.ModuleType(name)
    sys.modules[name] = module  # a dataclass looks it up
    if not is_fused:
        module.hasattr = lambda owner, name: name != "scaled_dot_product_attention" and builtins.hasattr(owner, name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def ours(name: str, is_fused: bool = True) -> types.ModuleType:
    """A file of the folder, run with this library."""
    return loaded(with_our_imports((FOLDER / name).read_text(encoding="utf-8")), f"ours_{name}", is_fused)
