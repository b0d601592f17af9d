"""Tensors in safetensors files: found in a folder, read one at a time, and written one after the other.

A file is the length of a header (8 bytes), the header (JSON: dtype, shape and place of each tensor), and the numbers.
"""
import contextlib
import json
import math
import operator
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from minigrad.extend import to_bfloat16
from minigrad.serialization import replacing
from models.checkpoint import CheckpointError, widened
from models.extras import one_line

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # {name in the file: NumPy's}
NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
LONGEST = 10_000_000  # bytes of a header, enough for 100,000 tensors, or of a JSON file


class Stored(NamedTuple):
    """Where a tensor is."""

    path: pathlib.Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def read(self) -> np.ndarray:
        """The tensor, in float32 if it is stored in two bytes."""
        with reading(self.path, "is not what its header said"):
            numbers = np.fromfile(self.path, DTYPES[self.dtype], math.prod(self.shape), offset=self.offset)
            return widened(numbers.reshape(self.shape))


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
    """The tensors of a file, which fill it one after the other; CheckpointError if they do not."""
    with reading(path, "is damaged, or not a safetensors file; download it again"), open(path, "rb") as file:
        size, length = path.stat().st_size, int.from_bytes(file.read(8), "little")
        if length > min(LONGEST, size - 8):
            raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        places = sorted(entry["data_offsets"] for entry in header.values())
        if [0, *(stop for _, stop in places)] != [*(start for start, _ in places), size - 8 - length]:
            raise ValueError("its tensors do not lie side by side, or do not fill it")
        tensors = {name: Stored(path, entry["dtype"], tuple(map(operator.index, entry["shape"])),
                                8 + length + entry["data_offsets"][0]) for name, entry in header.items()}
        for name, (_, dtype, shape, _) in tensors.items():
            start, stop = header[name]["data_offsets"]
            if dtype in DTYPES and stop - start != np.dtype(DTYPES[dtype]).itemsize * math.prod(shape):
                raise ValueError(f"{name} is {dtype} {shape} in {stop - start} bytes")
        return tensors


def write(path: pathlib.Path, tensors: Mapping[str, tuple[tuple[int, ...], np.ndarray]], dtype: str) -> None:
    """Write {name: (shape, numbers)} into a file, rounded to a dtype; CheckpointError if a number is too large for it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # transformers requires it
    end = 0
    for name, (shape, _) in tensors.items():
        start, end = end, end + np.dtype(DTYPES[NAMES[dtype]]).itemsize * math.prod(shape)
        header[name] = {"dtype": NAMES[dtype], "shape": shape, "data_offsets": [start, end]}
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)  # so that the numbers are aligned
    with replacing(path) as file:
        file.write(len(content).to_bytes(8, "little") + content)
        for name, (_, numbers) in tensors.items():
            with np.errstate(over="ignore"):
                stored = to_bfloat16(numbers.astype("f4")) if dtype == "bfloat16" else numbers.astype(dtype)
            if not np.isfinite(widened(stored)).all():
                raise CheckpointError(f"{name} has numbers up to {np.abs(numbers).max():.3g}, too large for {dtype}; "
                                      "choose another --dtype")
            file.write(stored.tobytes())


def read_json(path: pathlib.Path, longest: int = LONGEST) -> dict[str, Any]:
    """The object in a JSON file; CheckpointError if it has none."""
    with reading(path, "does not hold a JSON object"):
        if path.stat().st_size > longest:
            raise ValueError(f"it has {path.stat().st_size:,} bytes; at most {longest:,} are read")
        return {**json.loads(path.read_bytes())}


def write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(content, indent=2).encode() + b"\n")
