"""State dicts in files: an `.npz` without pickle, written so that a crash leaves the old file or the new one, never half.

A file holds arrays and a JSON header, which lists the arrays, so that a missing one is noticed, and has everything else.
Each member of the zip has a CRC.
"""
import contextlib
import errno
import io
import json
import os
import pathlib
import stat
import textwrap
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from .arrays.devices import device
from .arrays.dtypes import from_bfloat16
from .creation import tensor
from .tensor import Tensor

FORMAT = "minigrad state 1"
HEADER = "header"  # the member that holds, as JSON, everything but the arrays


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write nested dicts, lists and tuples of tensors, arrays, numbers, strings, None and bools to a file.

    `load` returns what `model.state_dict()` and `optimizer.state_dict()` returned, bit for bit. TypeError names what
    cannot be stored; OSError if the file cannot be written, and then the previous file stays.

    >>> import os, tempfile
    >>> import minigrad as mg
    >>> path = os.path.join(tempfile.mkdtemp(), "state.npz")
    >>> mg.save({"weight": mg.ones(2), "step": 3}, path)
    >>> mg.load(path)
    {'weight': tensor([1., 1.]), 'step': 3}
    >>> mg.save({"step": {3}}, path)
    Traceback (most recent call last):
    ...
    TypeError: mg.save cannot store obj['step'], a set; expected dicts, lists, tensors, arrays, numbers, strings or None
    """
    arrays: list[np.ndarray] = []
    value = _encode(obj, arrays, "obj")
    with replacing(path) as file:
        write_archive(file, {"format": FORMAT, "value": value}, {str(i): array for i, array in enumerate(arrays)})


def load(path: str | os.PathLike[str], map_location: Any = None, *, weights_only: bool = True) -> Any:
    """Read what `save` wrote: tensors become Tensors that do not require gradients, arrays stay arrays.

    `map_location` may be the only device, "cpu"; `weights_only` changes nothing, as no file holds code. ValueError, which
    names the file, if it is damaged or of another format; OSError if it cannot be read.
    """
    if map_location is not None:
        device(map_location)
    path = os.fspath(path)
    try:
        header, arrays = read_archive(path, FORMAT)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, f"no such file to load; the current folder is {os.getcwd()}", path) from None
    try:
        return _decode(header["value"], arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its header makes no sense ({error})") from None


# In JSON, a list stays a list; what JSON lacks becomes a dict with one entry, whose key names the type.

def _encode(value: Any, arrays: list[np.ndarray], place: str) -> Any:
    """The value as JSON; its arrays are appended to `arrays`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    try:
        if isinstance(value, dict):
            for key in value:
                if type(key) not in (str, int):
                    raise TypeError(f"mg.save cannot store {place} with the key {key!r}; expected strings or ints as keys")
            return {"dict": [[key, _encode(item, arrays, f"{place}[{key!r}]")] for key, item in value.items()]}
        if type(value) in (list, tuple):
            items = [_encode(item, arrays, f"{place}[{i}]") for i, item in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
    except RecursionError:
        raise ValueError("mg.save cannot store obj: it is nested too deeply, or contains itself") from None
    kind = "tensor" if isinstance(value, Tensor) else "scalar" if isinstance(value, np.generic) else "array"
    if kind == "array" and not isinstance(value, np.ndarray) or value.dtype.hasobject:
        raise TypeError(f"mg.save cannot store {place}, a {type(value).__name__}; expected dicts, lists, tensors, arrays, "
                        "numbers, strings or None")
    arrays.append(value.array if kind == "tensor" else np.asarray(value))
    return {kind: str(len(arrays) - 1)}


def _decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    decoders = {
        "dict": lambda: {key: _decode(item, arrays) for key, item in content},
        "tuple": lambda: tuple(_decode(content, arrays)),
        "tensor": lambda: tensor(arrays[content]),
        "bfloat16": lambda: tensor(from_bfloat16(arrays[content].astype(np.uint16, casting="equiv"))),  # older files
        "array": lambda: arrays[content],
        "scalar": lambda: arrays[content][()],
    }
    return decoders[kind]()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], previous: pathlib.Path | None = None) -> Iterator[BinaryIO]:
    """A file to write, which replaces the one at `path` once it is complete and on disk; if anything fails, the old one
    stays. With `previous`, the old one moves to that path.

    OSError if writing fails, or if `path` is a folder, pipe, socket or device, which would be lost.
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "is a folder, pipe, socket or device, not a file", str(path))
    temporary = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _flush_folder(folder: pathlib.Path) -> None:
    """Make the renames themselves survive a power cut; Windows cannot open folders, and need not."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_archive(file: BinaryIO, header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """The layout of np.savez, with a header that also lists the arrays."""
    content = json.dumps({**header, "arrays": list(arrays)}).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {HEADER: np.frombuffer(content, dtype=np.uint8), **arrays}.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


class OtherFormat(ValueError):
    """The file is intact, but of another format."""


def read_archive(path: str | os.PathLike[str], format: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and arrays of a file in this format; ValueError if it is damaged, OSError if it cannot be read."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ValueError(f"{path} is a pipe, socket or device, not a file")
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is not an .npz file, or only part of one")
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(archive, format)
        except OtherFormat as error:
            raise OtherFormat(f"{path} {error}") from None
        except Exception as error:  # noqa: BLE001  a damaged zip raises many kinds: BadZipFile, zlib.error, OSError, ...
            reason = textwrap.shorten(str(error) or type(error).__name__, 160, placeholder=" ...")
            raise ValueError(f"{path} is damaged ({reason})") from None


def _read(archive: zipfile.ZipFile, format: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if any(name.endswith("data.pkl") for name in archive.namelist()):
        raise OtherFormat("was written by PyTorch as a pickle, which may hold code; load it there, and save its tensors "
                          "with safetensors or np.savez")
    header = json.loads(_read_array(archive, HEADER).tobytes())
    found = header.pop("format", None) if isinstance(header, dict) else None
    if found != format:
        raise OtherFormat(f"is from another version: its format is {found!r:.40}, not {format!r}")
    members, listed = [name.removesuffix(".npy") for name in archive.namelist()], header.pop("arrays", None)
    if not isinstance(listed, list) or members != [HEADER, *listed]:
        raise ValueError("its arrays are not those that its header lists")
    return header, {name: _read_array(archive, name) for name in listed}


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """One array. The whole member is read first, because zipfile compares its CRC at the end only."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed")
    return np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)
