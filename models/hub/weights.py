"""Tensors in safetensors files: found in a folder, read one at a time, and written one after the other.

A file is the length of a header (8 bytes), the header (JSON: dtype, shape and place of each tensor), and the numbers. The
library `safetensors` checks the header; the numbers are read here, so that bfloat16 works, which NumPy lacks, and only one
tensor at a time is in memory besides the model, in the model's dtype.
"""
import dataclasses
import json
import math
import os
import pathlib
import reprlib
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.extend import from_bfloat16, to_bfloat16
from models.checkpoint import CheckpointError
from models.extras import extra, one_line

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = "*.bin", "*.pt", "*.pth", "*.ckpt"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # {name in the file: NumPy's}
NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
PIECE = 1 << 20  # numbers that are read or checked at once
LONGEST_HEADER = 10_000_000  # bytes: of 100,000 tensors
LONGEST_JSON = 10_000_000
MOST_NAMES = 200  # in an error


@dataclasses.dataclass(frozen=True)
class Stored:
    """Where a tensor is."""

    path: pathlib.Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def read(self, dtype: Any) -> Tensor:
        """The tensor in this dtype, converted piece by piece."""
        tensor = mg.empty(self.shape, dtype=dtype)
        numbers, count = tensor.array.reshape(-1), math.prod(self.shape)
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            for start in range(0, count, PIECE):
                piece = np.fromfile(file, DTYPES[self.dtype], min(PIECE, count - start))
                if piece.size != min(PIECE, count - start):
                    raise CheckpointError(f"{self.path} was truncated while it was read")
                numbers[start : start + PIECE] = from_bfloat16(piece) if self.dtype == "BF16" else piece
        return tensor


def find(folder: pathlib.Path) -> dict[str, Stored]:
    """The tensors of a folder by name; CheckpointError if there are none, or files are missing or damaged."""
    if (folder / FILE).exists():
        return read_header(folder / FILE)
    if (folder / INDEX).exists():
        return _find_in_shards(folder)
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        raise CheckpointError(f"{folder} has its weights in {pickles[0]}, a pickle, and reading it would run its code; if "
                              "you trust it, convert it with transformers: "
                              f"AutoModelForCausalLM.from_pretrained({str(folder)!r}).save_pretrained(NEW_FOLDER)")
    raise CheckpointError(f"{folder} has a config.json, but neither {FILE} nor {INDEX}; is the download complete?")


def _find_in_shards(folder: pathlib.Path) -> dict[str, Stored]:
    """The tensors in the shards; CheckpointError if the index says otherwise."""
    path = folder / INDEX
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f'{path} has no "weight_map" of tensors and their files')
    names = sorted(set(places.values()))
    for name in names:
        if not name.endswith(".safetensors") or set(name) & set("/\\:\0"):
            raise CheckpointError(f"{path} names {reprlib.repr(name)}, which is not a .safetensors file in this folder")
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise CheckpointError(f"{folder} lacks {shortened(missing)}, which {INDEX} names; is the download complete?")
    tensors: dict[str, Stored] = {}
    for name in names:
        found = read_header(folder / name)
        twice = tensors.keys() & found.keys()
        if twice:
            raise CheckpointError(f"{folder} holds {shortened(sorted(twice))} in two files, {name} and another")
        tensors |= found
    wrong = [name for name, file in places.items() if name in tensors and tensors[name].path.name != file]
    if wrong or places.keys() - tensors.keys():
        wrong += sorted(places.keys() - tensors.keys())
        said = shortened([f"{name} is in {places[name]}" for name in wrong])
        raise CheckpointError(f"{path} says that {said}, which is wrong")
    return tensors


def read_header(path: pathlib.Path) -> dict[str, Stored]:
    """The tensors of a file; CheckpointError if it is incomplete or invalid."""
    safetensors = extra("hub", "safetensors")
    try:
        check_is_file(path)
        with open(path, "rb") as file:
            start = file.read(8)
            length: Any = struct.unpack("<Q", start)[0] if len(start) == 8 else math.inf
            if length > min(LONGEST_HEADER, path.stat().st_size):
                raise ValueError(f"a header of {length:,} bytes in a file of {path.stat().st_size:,}")
            with safetensors.safe_open(path, framework="numpy") as tensors:
                names = list(tensors.keys())
            header = json.loads(file.read(length), object_pairs_hook=_each_once)
        header.pop("__metadata__", None)
        if header.keys() != set(names):
            raise ValueError("names that can be read in two ways")
        return {name: Stored(path, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
                for name, entry in header.items()}
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged, or not a safetensors file ({one_line(error)}); download it again"
                              ) from None


def check_is_file(path: pathlib.Path) -> None:
    if not path.is_file():
        raise CheckpointError(f"{path} is a folder, pipe, socket or device, not a file")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of these pairs; ValueError if a name occurs twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that occurs twice")
    return found


def write(folder: pathlib.Path, names: Iterable[str], make: Callable[[str], np.ndarray], dtype: str,
          shard_size: int) -> None:
    """Write tensors into a folder: one file, or several of at most `shard_size` bytes (or one larger tensor) and an index.
    `make(name)` is called twice, for the shape and for the numbers."""
    itemsize = np.dtype(DTYPES[NAMES[dtype]]).itemsize
    shards: list[dict[str, tuple[int, ...]]] = [{}]
    filled = total = 0
    for name in names:
        shape = make(name).shape
        size = itemsize * math.prod(shape)
        if shards[-1] and filled + size > shard_size:
            shards.append({})
            filled = 0
        shards[-1][name] = shape
        filled, total = filled + size, total + size
    if len(shards) == 1:
        _write_file(folder / FILE, shards[0], make, dtype)
        return
    places: dict[str, str] = {}
    for i, shard in enumerate(shards, start=1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        _write_file(folder / file, shard, make, dtype)
        places |= dict.fromkeys(shard, file)
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": places})


def _write_file(path: pathlib.Path, shapes: Mapping[str, tuple[int, ...]], make: Callable[[str], np.ndarray],
                dtype: str) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # transformers requires it
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + np.dtype(DTYPES[NAMES[dtype]]).itemsize * math.prod(shape)
        header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)  # so that the numbers are aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(content)) + content)
        for name in shapes:
            file.write(as_stored(name, make(name), dtype).tobytes())
        file.flush()
        os.fsync(file.fileno())


def as_stored(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in a dtype of a file, rounded to nearest, for bfloat16 from float32; CheckpointError if a number is too
    large for it."""
    target = np.float32 if dtype == "bfloat16" else np.dtype(dtype)
    with np.errstate(over="ignore"):
        stored = array.astype(target)
        if dtype == "bfloat16":
            stored = to_bfloat16(stored)
    if not is_finite(stored):
        raise CheckpointError(f"{name} has numbers up to {np.abs(array).max():.3g}, too large for {dtype}; choose another "
                              "--dtype")
    return stored


def is_finite(numbers: np.ndarray) -> bool:
    """Are all numbers in an array of floats, or of bfloat16's bits, finite? Piece by piece, to take no memory."""
    numbers = numbers.ravel(order="K")
    pieces = (numbers[i : i + PIECE] for i in range(0, numbers.size, PIECE))
    return all(((piece & 0x7F80) != 0x7F80 if piece.dtype == np.uint16 else np.isfinite(piece)).all() for piece in pieces)


def read_json(path: pathlib.Path, longest: int = LONGEST_JSON) -> dict[str, Any]:
    """The object in a JSON file; CheckpointError if it has none."""
    try:
        check_is_file(path)
        if path.stat().st_size > longest:
            raise CheckpointError(f"{path} has {path.stat().st_size:,} bytes; at most {longest:,} are read")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON ({one_line(error)})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} does not hold a JSON object")
    return content


def write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def shortened(names: list[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown
