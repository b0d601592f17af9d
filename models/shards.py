"""A prepared text: a folder with token ids in shards, which training maps into memory, and an index.

    index.json             the tokenizer, the sources, and each shard's size and hash
    train-00000.bin        token ids, little-endian, and nothing else
    validation-00000.bin

Opening the folder checks the sizes; `check_content`, which `minigrad train` calls first, reads everything and checks the
hashes.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import reprlib
import stat
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.serialization import replacing
from models.data import Corpus, dtype_for
from models.extras import one_line, quoted
from models.tokenizers import Tokenizer, tokenizer_of

INDEX, FORMAT = "index.json", "minigrad tokens 1"
SPLITS = "train", "validation"
DTYPES: dict[str, np.dtype] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
CHECKED_AT_ONCE = 1 << 22  # token ids


class ShardError(Exception):
    """A text cannot be prepared, or a prepared one is damaged; the message says what to do, in one line."""


# ---- the index ----

def is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 60


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def check_fields(record: Any, tests: dict[str, Callable[[Any], bool]]) -> None:
    """ValueError names the first field that fails its test."""
    for name, is_right in tests.items():
        value = getattr(record, name)
        if not is_right(value):
            raise ValueError(f"its {type(record).__name__} has {name} {reprlib.repr(value)}")


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file with tokens of a split."""

    tokens: int
    bytes: int  # of their text in UTF-8
    pieces: int  # of the sources, read until it was full
    sha256: str  # of the file

    def __post_init__(self) -> None:
        check_fields(self, {"tokens": is_count, "bytes": is_count, "pieces": is_count, "sha256": is_hash})


@dataclasses.dataclass(frozen=True)
class SourceText:
    """A source, as it was when it was read."""

    path: str
    field: str | None  # with the documents of .jsonl
    bytes: int  # of its content, uncompressed
    sha256: str  # of its content

    def __post_init__(self) -> None:
        check_fields(self, {"path": lambda path: isinstance(path, str), "bytes": is_count, "sha256": is_hash,
                            "field": lambda field: field is None or isinstance(field, str)})


@dataclasses.dataclass
class Index:
    """What is in the folder, and what it was made from; ValueError if that makes no sense."""

    asked: dict[str, Any]  # the flags that the tokens depend on
    tokenizer: dict[str, Any]  # its state
    dtype: str  # of the token ids
    sources: list[SourceText]
    shards: dict[str, list[Shard]]  # of each split
    is_whole: bool  # have all sources been tokenized?

    def __post_init__(self) -> None:
        check_fields(self, {"asked": lambda asked: isinstance(asked, dict), "is_whole": lambda whole: type(whole) is bool,
                            "shards": lambda shards: list(shards) == list(SPLITS)})
        size = len(tokenizer_of(self.tokenizer))
        if self.dtype != dtype_for(size):
            raise ValueError(f"its ids are {reprlib.repr(self.dtype)}, but those of {size:,} tokens are {dtype_for(size)}")

    def tokens(self, split: str) -> int:
        return sum(shard.tokens for shard in self.shards[split])

    def bytes(self, split: str) -> int:
        return sum(shard.bytes for shard in self.shards[split])

    def sha256(self) -> str:
        """The hash of everything that training sees: the tokenizer and the tokens."""
        content = {split: [(shard.tokens, shard.sha256) for shard in shards] for split, shards in self.shards.items()}
        return hashlib.sha256(json.dumps([self.tokenizer, self.dtype, content], sort_keys=True).encode()).hexdigest()

    def paths(self, folder: str | os.PathLike[str], split: str) -> list[tuple[pathlib.Path, Shard]]:
        """(path, shard) for each shard of a split."""
        return [(shard_path(folder, split, number), shard) for number, shard in enumerate(self.shards[split])]

    def write(self, folder: str | os.PathLike[str]) -> None:
        with replacing(pathlib.Path(folder) / INDEX) as file:
            file.write(json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1).encode())

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> "Index":
        """The index of a folder. ShardError if it is damaged or shards have other sizes; ValueError if there is none,
        OSError if it cannot be read."""
        path = pathlib.Path(folder) / INDEX
        if not path.exists():
            raise ValueError(f"{folder} holds no {INDEX}; write one with `minigrad prepare FILES --to {quoted(folder)}`")
        if not path.is_file():
            raise ValueError(f"{path} is a folder, pipe, socket or device, not a file")
        try:
            index = cls._of(json.loads(path.read_bytes()))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ShardError(f"{path} is damaged, or of another version ({one_line(error)}); {AGAIN}") from None
        for split in SPLITS:
            for file, shard in index.paths(folder, split):
                check_size(file, shard.tokens * DTYPES[index.dtype].itemsize)
        return index

    @classmethod
    def _of(cls, values: dict[str, Any]) -> "Index":
        if values.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        values["sources"] = [SourceText(**source) for source in values["sources"]]
        values["shards"] = {split: [Shard(**shard) for shard in shards] for split, shards in values["shards"].items()}
        return cls(**values)


AGAIN = "remove the folder, and prepare the text again"


def shard_path(folder: str | os.PathLike[str], split: str, number: int) -> pathlib.Path:
    return pathlib.Path(folder) / f"{split}-{number:05}.bin"


def check_size(path: pathlib.Path, size: int) -> None:
    """ShardError unless this is a file of the given size."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise ShardError(f"{path} is missing; {AGAIN}") from None
    if not stat.S_ISREG(found.st_mode) or found.st_size != size:
        raise ShardError(f"{path} is damaged: it has {found.st_size:,} bytes, expected {size:,}; {AGAIN}")


# ---- its tokens ----

class MappedTokens:
    """The shards of a split as one array of token ids that stays on disk.

    ShardError if an id is not in the vocabulary.
    """

    def __init__(self, index: Index, folder: str | os.PathLike[str], split: str):
        self._paths = [path for path, _ in index.paths(folder, split)]
        self._arrays = [np.memmap(path, DTYPES[index.dtype], mode="r") for path in self._paths]
        self._starts = np.cumsum([0, *map(len, self._arrays)])
        self._vocabulary_size = len(tokenizer_of(index.tokenizer))
        self.dtype: np.dtype = np.dtype(index.dtype)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        """The ids at an array of places, of any shape, or at a slice."""
        places = np.arange(*places.indices(len(self))) if isinstance(places, slice) else places
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        found = np.empty(places.shape, self.dtype)
        for number in np.unique(numbers):
            is_here = numbers == number
            found[is_here] = self._arrays[number][places[is_here] - self._starts[number]]
            if found[is_here].max() >= self._vocabulary_size:
                raise ShardError(f"{self._paths[number]} is damaged: it holds token {found[is_here].max()}, but there are "
                                 f"{self._vocabulary_size}; {AGAIN}")
        return found


def load_shards(folder: str | os.PathLike[str], context: int = 1, tokenizer: Tokenizer | None = None) -> Corpus:
    """The corpus of a prepared text. Its tokens stay on disk; windows run across shards, so all are equally likely.

    ValueError if the folder is unfinished, too short for the context, or made with a tokenizer other than the given one;
    ShardError if sizes are wrong, OSError if it cannot be read. `check_content` compares the tokens as well.
    """
    index = Index.read(folder)
    if not index.is_whole:
        raise ValueError(f"{folder} is unfinished: resume it with the same `minigrad prepare` command")
    if tokenizer is not None and tokenizer.state() != index.tokenizer:
        raise ValueError(f"{folder} was not prepared with the tokenizer of the model; prepare the text with --tokenizer "
                         "RUN, the model's run, into another folder")
    for split in SPLITS:
        if index.tokens(split) < context + 1:
            raise ValueError(f"{folder} is too short: it has {index.tokens(split):,} tokens in split {split!r}, and needs "
                             f"context + 1 = {context + 1}; prepare a longer text, or give a smaller context")
    train, validation = (MappedTokens(index, folder, split) for split in SPLITS)
    return Corpus(str(pathlib.Path(folder).absolute()), tokenizer_of(index.tokenizer), train, validation, index.sha256(),
                  index.bytes("validation"))


Show = Callable[[str, int, int], None]  # show(what is being done, bytes done, bytes in all)


def no_show(what: str, done: int, total: int) -> None:
    """Show nothing."""


def check_content(index: Index, folder: str | os.PathLike[str], show: Show = no_show, part: slice = slice(None)) -> None:
    """Compare all shards, or a part of them, with the index; ShardError names the first damaged one."""
    files = [file for split in SPLITS for file in index.paths(folder, split)][part]
    dtype, size = DTYPES[index.dtype], len(tokenizer_of(index.tokenizer))
    total, done = sum(shard.tokens for _, shard in files) * dtype.itemsize, 0
    for path, shard in files:
        digest = hashlib.sha256()
        try:
            with open(path, "rb") as file:
                while block := file.read(CHECKED_AT_ONCE * dtype.itemsize):
                    digest.update(block)
                    done += len(block)
                    show("checking", done, total)
                    if np.frombuffer(block, dtype).max() >= size:
                        raise ShardError(f"{path} is damaged: it holds ids of {size} or more, which are no tokens; {AGAIN}")
        except OSError as error:
            raise ShardError(f"{path} cannot be read ({error.strerror}); {AGAIN}") from None
        if digest.hexdigest() != shard.sha256:
            raise ShardError(f"{path} is damaged: its content is not what was written; {AGAIN}")
