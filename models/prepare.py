"""From large texts to shards of tokens: two passes over the sources, in pieces, by several processes, in little memory.

The first pass only reads: it reports errors in a source, and counts and collects its characters. The second tokenizes.
Results are joined in the order of the pieces, so tokens do not depend on the number of processes. The index is written
after every shard, so that preparing can be resumed after a kill.
"""
import array
import bisect
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from minigrad.serialization import replacing
from models.data import dtype_for, new_tokenizer
from models.extras import extra
from models.processes import ProcessLost, in_order
from models.run import locked
from models.shards import DTYPES, INDEX, SPLITS, Index, Shard, ShardError, Show, SourceText, no_show, shard_path
from models.text_files import Piece, TextFile
from models.tokenizers import BytePairs, Tokenizer, tokenizer_of
from models.tokenizers.byte_pairs import DEFAULT_SIZE
from models.tokenizers.characters import code_points
from models.transformer import check_number, check_whole

SHARD_TOKENS = 1 << 24  # per shard, which also gets the rest of the piece that fills it
LEARNT_FROM = 1 << 25  # characters
LEFTOVER = re.compile(r"\.(index\.json|(train|validation)-\d+\.bin)-\d+\.tmp")  # from a killed process


@dataclasses.dataclass(frozen=True)
class Request:
    """What to prepare, and how; ValueError if that makes no sense."""

    sources: tuple[TextFile, ...]
    tokenizer: Tokenizer | str = "characters"  # or the kind of a new one: characters, bytes or bpe
    vocabulary_size: int | None = None
    validation: float = 0.1  # the fraction of each source, at its end, that is for validation
    shard_tokens: int = SHARD_TOKENS

    def __post_init__(self) -> None:
        check_number("validation", self.validation, "(0, 1)")
        check_whole("shard_tokens", self.shard_tokens)

    def asked(self) -> dict[str, Any]:
        """What the tokens depend on, apart from the sources and the tokenizer's state."""
        kind = self.tokenizer if isinstance(self.tokenizer, str) else f"of {self.tokenizer.kind} that is given"
        size = DEFAULT_SIZE if kind == BytePairs.kind and self.vocabulary_size is None else self.vocabulary_size
        return {"tokenizer": kind, "vocabulary_size": size, "validation": self.validation,
                "shard_tokens": self.shard_tokens}


@dataclasses.dataclass
class Examined:
    """A source after the first pass."""

    source: TextFile
    characters: "array.array[int]" = dataclasses.field(default_factory=lambda: array.array("Q"))  # of each piece
    checksums: "array.array[int]" = dataclasses.field(default_factory=lambda: array.array("L"))  # of each piece
    bytes: int = 0
    digest: Any = dataclasses.field(default_factory=hashlib.sha256)

    def text(self) -> SourceText:
        return SourceText(os.path.abspath(self.source.path), self.source.field, self.bytes, self.digest.hexdigest())


def prepare(request: Request, folder: str | os.PathLike[str], workers: int = 1, show: Show = no_show) -> Index:
    """Write the tokens of all sources into a folder, or those that are still missing.

    workers: processes; with more than one, a script that calls this needs `if __name__ == "__main__":`.

    ValueError if a source is unusable, or the folder holds something else; OSError if a file cannot be read or written;
    ShardError if a process was killed. What has been written stays, and the same call resumes.
    """
    folder = pathlib.Path(folder)
    check_folder(folder)
    if request.tokenizer == BytePairs.kind:
        extra("hub", "tokenizers")  # now, and not after the first pass
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder, "is preparing a text"):
            return prepare_in(folder, request, workers, show)
    except ProcessLost as error:
        raise ShardError(f"{error}; what has been written is intact: give the same command again, with fewer --workers if "
                         "memory was short") from None
    finally:
        if is_new and not os.listdir(folder):
            folder.rmdir()


def prepare_in(folder: pathlib.Path, request: Request, workers: int, show: Show) -> Index:
    """`prepare`, in a locked folder."""
    for name in filter(LEFTOVER.fullmatch, os.listdir(folder)):
        (folder / name).unlink()
    with tempfile.TemporaryFile(dir=folder):  # can it be written to?
        pass
    examined, symbols = examine_all(request.sources, workers, show)
    index = start_or_resume(request, folder, examined, symbols, show)
    if not index.is_whole:
        write_shards(request, folder, index, examined, workers, show)
    return index


def check_folder(folder: pathlib.Path) -> None:
    """ValueError if it is a file, or holds something else."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; name another with --to")
    if folder.exists() and not (folder / INDEX).exists():
        if others := [name for name in os.listdir(folder) if not LEFTOVER.fullmatch(name)]:
            raise ValueError(f"{folder} holds {min(others)}, and no {INDEX}; name a new or empty folder with --to")


def start_or_resume(request: Request, folder: pathlib.Path, examined: list[Examined], symbols: str, show: Show) -> Index:
    """The index in the folder, or a new one without shards; ValueError if the existing one does not match."""
    texts, asked, given = [seen.text() for seen in examined], request.asked(), request.tokenizer
    if (folder / INDEX).exists():
        index = Index.read(folder)
        check_same(index, asked, texts, folder)
        if isinstance(given, Tokenizer) and given.state() != index.tokenizer:
            raise ValueError(f"{folder} was started with another tokenizer; {SAME}")
        return index
    tokenizer = given if isinstance(given, Tokenizer) else learn(request, examined, symbols, show)
    if request.vocabulary_size not in (None, len(tokenizer)):
        raise ValueError(f"vocabulary_size is {request.vocabulary_size}, but the tokenizer has {len(tokenizer)} tokens; "
                         "leave it out")
    index = Index(asked, tokenizer.state(), dtype_for(len(tokenizer)), texts, {split: [] for split in SPLITS}, False)
    index.write(folder)
    return index


SAME = "give the same, or choose another --to"


def check_same(index: Index, asked: dict[str, Any], texts: list[SourceText], folder: pathlib.Path) -> None:
    """ValueError names the first difference from what the folder was started with."""
    for name, value in asked.items():
        if index.asked.get(name) != value:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{folder} was started with {flag} {index.asked.get(name)}, not {value}; {SAME}")
    if len(index.sources) != len(texts):
        raise ValueError(f"{folder} was started with {len(index.sources)} sources, not {len(texts)}; {SAME}")
    for old, new in zip(index.sources, texts):
        if (old.field, old.sha256) != (new.field, new.sha256):
            raise ValueError(f"{folder} was started with another text or --field than that of {new.path}; {SAME}")


def learn(request: Request, examined: list[Examined], symbols: str, show: Show) -> Tokenizer:
    """A new tokenizer. Byte pairs are learnt from at most LEARNT_FROM characters of the training text, evenly spread."""
    sample: list[str] = []
    kind: Any = request.tokenizer
    if kind == BytePairs.kind:
        training = sum(training_characters(seen, request.validation) for seen in examined)
        part, total = LEARNT_FROM / max(training, LEARNT_FROM), sum(seen.bytes for seen in examined)
        title = f"learning byte pairs from {part * training / 1e6:.0f} MB of"
        for (number, done), arguments in pieces_to_tokenise(examined, request.validation, skip=0):
            if int((number + 1) * part) > int(number * part):
                sample += split_texts(*arguments)[0]
            show(title, done, total)
    return new_tokenizer(kind, symbols, "".join(sample), request.vocabulary_size)


# ---- the first pass ----

def examine_all(sources: Iterable[TextFile], workers: int, show: Show) -> tuple[list[Examined], str]:
    """(The examined sources, all their characters in ascending order)."""
    found = [Examined(source) for source in sources]
    sizes = [0, *itertools.accumulate(os.path.getsize(seen.source.path) for seen in found)]
    symbols = set()

    def jobs() -> Iterator[tuple[Any, tuple[Any, ...]]]:
        for seen, before in zip(found, sizes):
            for piece in seen.source.pieces():
                seen.digest.update(piece.content)
                seen.bytes += len(piece.content)
                yield (seen, before + piece.position), (piece,)

    for (seen, position), (characters, checksum, new) in in_order(examine, jobs(), workers):
        seen.characters.append(characters)
        seen.checksums.append(checksum)
        symbols.update(new)
        show("reading", position, sizes[-1])
    for seen in found:
        if not any(seen.characters):
            raise ValueError(f"{seen.source.path} holds no text; leave it out")
    return found, "".join(sorted(symbols))


def examine(piece: Piece) -> tuple[int, int, str]:
    """(How many characters a piece has, its checksum, its distinct characters)."""
    text = "".join(piece.texts())
    is_there = np.zeros(sys.maxunicode + 1, bool)
    is_there[code_points(text)] = True
    return len(text), zlib.crc32(piece.content), "".join(map(chr, np.flatnonzero(is_there)))


# ---- the second pass ----

def write_shards(request: Request, folder: pathlib.Path, index: Index, examined: list[Examined], workers: int,
                 show: Show) -> None:
    """Write all shards that the index does not have yet."""
    writers = [ShardWriter(folder, index, split, request.shard_tokens) for split in SPLITS]
    jobs = pieces_to_tokenise(examined, request.validation, skip=min(writer.pieces for writer in writers))
    total = sum(seen.bytes for seen in examined)
    function = functools.partial(tokenise, tokenizer_of(index.tokenizer))
    for (number, done), parts in in_order(function, jobs, workers):
        for writer, (ids, size) in zip(writers, parts):
            writer.add(number, ids, size)
        show("writing", done, total)
    for writer in writers:
        writer.write(sum(len(seen.characters) for seen in examined))
    index.is_whole = True
    index.write(folder)


def pieces_to_tokenise(examined: list[Examined], validation: float, skip: int
                       ) -> Iterator[tuple[tuple[int, int], tuple[Piece, int, int]]]:
    """((its number, bytes read so far), the arguments of `tokenise`) for each piece after the first `skip`."""
    number = read = 0
    for seen in examined:
        left = training_characters(seen, validation)
        pieces = seen.source.pieces()
        for characters, checksum in zip(seen.characters, seen.checksums):
            piece = next(pieces, None) or changed(seen.source)
            read += len(piece.content)
            if number >= skip:
                yield (number, read), (piece, checksum, left)
            left = max(left - characters, 0)
            number += 1
        if next(pieces, None):
            changed(seen.source)


def training_characters(seen: Examined, validation: float) -> int:
    return int((1 - validation) * sum(seen.characters))


def changed(source: TextFile) -> NoReturn:
    raise ShardError(f"{source.path} changed while it was read; give the command again when nothing writes to the file")


def tokenise(tokenizer: Tokenizer, piece: Piece, checksum: int, training: int) -> list[tuple[np.ndarray, int]]:
    """(Token ids, bytes of their text) of a piece for each split. Each document of .jsonl is tokenized by itself."""
    try:
        return [(encode(tokenizer, texts), sum(len(text.encode()) for text in texts))
                for texts in split_texts(piece, checksum, training)]
    except ValueError as error:
        raise ValueError(f"{piece.place} on: {error}") from None


def split_texts(piece: Piece, checksum: int, training: int) -> tuple[list[str], list[str]]:
    """The texts of a piece for each split: its first `training` characters, and the rest. A document of .jsonl belongs to
    the split in which it starts."""
    if zlib.crc32(piece.content) != checksum:
        changed(piece.source)
    texts = piece.texts()
    if piece.source.field is None:
        (text,) = texts
        return [text[:training]], [text[training:]]
    count = bisect.bisect_left([0, *itertools.accumulate(map(len, texts))], training)
    return texts[:count], texts[count:]


def encode(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """The concatenated ids of texts, in the dtype of shards; ValueError if the tokenizer gives an id out of range."""
    size = len(tokenizer)
    dtype = DTYPES[dtype_for(size)]
    found = [np.zeros(0, dtype)]
    for text in filter(None, texts):
        ids = tokenizer.encode(text)
        if ids.size and not 0 <= ids.min() <= ids.max() < size:
            raise ValueError(f"the tokenizer of {size} tokens gives the ids {ids.min()} to {ids.max()}")
        found.append(ids.astype(dtype))
    return np.concatenate(found)


class ShardWriter:
    """Collects the tokens of a split, and writes a shard whenever there are enough."""

    def __init__(self, folder: pathlib.Path, index: Index, split: str, shard_tokens: int):
        self._folder, self._index, self._split, self._shard_tokens = folder, index, split, shard_tokens
        self._shards = index.shards[split]
        self._parts: list[np.ndarray] = []
        self._bytes = 0
        self.pieces: int = self._shards[-1].pieces if self._shards else 0  # already in shards

    def add(self, number: int, ids: np.ndarray, size: int) -> None:
        """Add the tokens of a piece of this many bytes."""
        if number < self.pieces or not len(ids):
            return
        self._parts.append(ids)
        self._bytes += size
        if sum(map(len, self._parts)) >= self._shard_tokens:
            self.write(number + 1)

    def write(self, pieces: int) -> None:
        """Write the pending tokens, of all pieces before number `pieces`, as a shard; and the index."""
        if not self._parts:
            return
        digest, tokens = hashlib.sha256(), sum(map(len, self._parts))
        with replacing(shard_path(self._folder, self._split, len(self._shards))) as file:
            for part in self._parts:
                digest.update(part.data)
                file.write(part.data)
        self._shards.append(Shard(tokens, self._bytes, pieces, digest.hexdigest()))
        self._index.write(self._folder)
        self._parts, self._bytes = [], 0
        self.pieces = pieces
