"""Tensors in safetensors files: found in a folder and read one at a time, and written as one file, by the library
`safetensors`. It has no bfloat16 for NumPy, so it checks a file's header, and the numbers are read from where that says."""
import contextlib
import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from minigrad.extend import to_bfloat16
from minigrad.serialization import replacing
from models.checkpoint import CheckpointError, widened
from models.extras import extra, one_line

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # {name in the file: the usual one}


class Stored(NamedTuple):
    """Where a tensor is."""

    path: pathlib.Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def read(self) -> np.ndarray:
        """The tensor, in float32 if it is stored in two bytes."""
        with reading(self.path, "is not what its header said"):
            dtype = "uint16" if self.dtype == "BF16" else DTYPES[self.dtype]
            return widened(np.fromfile(self.path, dtype, math.prod(self.shape), offset=self.offset).reshape(self.shape))


@contextlib.contextmanager
def reading(path: pathlib.Path, problem: str) -> Iterator[None]:
    """What a file that cannot be read, or is not what it should be, raises becomes a CheckpointError."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("a folder, pipe, socket or device, not a file")
        yield
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} {problem} ({one_line(error)})") from None


def find(folder: pathlib.Path) -> dict[str, Stored]:
    """The tensors of a folder by name, in one file or in several with an index; CheckpointError if there are none, or files
    are missing or damaged."""
    if (folder / FILE).exists():
        return read_header(folder / FILE)
    if not (folder / INDEX).exists():
        raise CheckpointError(f"{folder} has neither {FILE} nor {INDEX}; is the download complete? A pickle, such as "
                              "pytorch_model.bin, can run code when it is read; if you trust it, transformers converts "
                              f"it: AutoModelForCausalLM.from_pretrained({str(folder)!r}).save_pretrained(NEW)")
    places = read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise CheckpointError(f'{folder / INDEX} has no "weight_map" of tensors and their files')
    tensors: dict[str, Stored] = {}
    for file in sorted(set(places.values())):
        if not file.endswith(".safetensors") or set(file) & set("/\\:\0"):
            raise CheckpointError(f"{folder / INDEX} names {file!r:.99}, which is not a .safetensors file in this folder")
        tensors |= read_header(folder / file)
    for name, file in places.items():
        if name not in tensors or tensors[name].path.name != file:
            raise CheckpointError(f"{folder / INDEX} says that {name} is in {file}, which is wrong")
    return tensors


def read_header(path: pathlib.Path) -> dict[str, Stored]:
    """The tensors of a file; CheckpointError if it is damaged."""
    safetensors = extra("hub", "safetensors")
    with reading(path, "is damaged, or not a safetensors file; download it again"), open(path, "rb") as file:
        try:
            safetensors.safe_open(path, "numpy")
        except safetensors.SafetensorError as error:
            raise ValueError(error) from None
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        return {name: Stored(path, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
                for name, entry in header.items()}


def write(path: pathlib.Path, tensors: Mapping[str, np.ndarray], dtype: str) -> None:
    """Write tensors into a file, rounded to a dtype; CheckpointError if a number is too large for it."""
    safetensors = extra("hub", "safetensors")
    rounded: dict[str, np.ndarray] = {}
    for name, numbers in tensors.items():
        with np.errstate(over="ignore"):
            stored = to_bfloat16(numbers.astype("f4")) if dtype == "bfloat16" else numbers.astype(dtype, copy=False)
        if not np.isfinite(widened(stored)).all():
            raise CheckpointError(f"{name} has numbers up to {np.abs(numbers).max():.3g}, too large for {dtype}; "
                                  "choose another --dtype")
        rounded[name] = np.ascontiguousarray(stored)
    specs = {name: safetensors.TensorSpec(dtype=dtype, shape=stored.shape, data_ptr=stored.ctypes.data,
                                          data_len=stored.nbytes) for name, stored in rounded.items()}
    try:
        safetensors.serialize_file(specs, path, metadata={"format": "pt"})  # which transformers requires
    except safetensors.SafetensorError as error:
        raise OSError(None, one_line(error)) from None


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The object in a JSON file; CheckpointError if it has none."""
    with reading(path, "does not hold a JSON object"):
        return {**json.loads(path.read_bytes())}


def write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(content, indent=2).encode() + b"\n")
