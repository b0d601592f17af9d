"""Texts of any size: read in pieces, and tokenized once into a file that is then mapped into memory.

The file is in the cache folder, and is made again when the text or the tokenizer has changed. It holds

    the token ids of the training part, then those of the validation part, uint16 or uint32
    a header in JSON: the hashes of text and tokenizer, and the sizes of the parts
    the size of the header, in 8 bytes
"""
import dataclasses
import hashlib
import json
import mmap
import os
import pathlib
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minigrad.serialization import replacing
from models.progress import Progress
from models.tokenizers import Tokenizer, Vocabulary

PIECE = 1 << 20  # characters that are read and tokenized at once
TAIL = 1 << 12  # characters at its end, in which it is cut between words
CUT = re.compile(r".*[^\W_](?=[ \n])", re.DOTALL)  # the words of GPT-2 and Llama 3 end here, whatever follows


@dataclasses.dataclass(frozen=True)
class Text:
    """The text of some files, one after the other, as found by reading them once."""

    paths: Sequence[str]
    sha256: str  # in UTF-8
    characters: int
    symbols: str  # the different characters

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Text":
        """ValueError and OSError as for `pieces`."""
        digest, characters, symbols = hashlib.sha256(), 0, set[str]()
        for piece in pieces(paths, "reading"):
            content, known = piece.encode(), "".join(filter(str.isascii, symbols)).encode()
            digest.update(content)
            characters += len(piece)
            symbols.update(content.translate(None, known).decode())  # few are left, so this is fast
        return cls(paths, digest.hexdigest(), characters, "".join(sorted(symbols)))


def read_text(path: str) -> str:
    """The whole text of a file; ValueError and OSError as for `pieces`."""
    return "".join(pieces([path], "reading"))


def pieces(paths: Sequence[str], what: str) -> Iterator[str]:
    """The text of the files in pieces, cut between words; line ends become "\\n". ValueError if a file is a pipe or device,
    which might never end, empty, binary, or not in UTF-8."""
    for path in paths:
        if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
            raise ValueError(f"{path} is a pipe, socket or device; write its text into a file, and give that")
        if not os.path.getsize(path):
            raise ValueError(f"{path} is empty; give a file with text")
    total, before = sum(map(os.path.getsize, paths)), 0
    layout = f"{what} {{percentage:3.0f}}% |{{bar}}| {{n_fmt}}B/{{total_fmt}}B [{{remaining}} left, {{rate_fmt}}]"
    with Progress(total, 0, layout, unit="B", unit_scale=True, delay=1) as progress:
        for path in paths:
            file: Any
            with open(path, encoding="utf-8-sig") as file:
                rest = ""
                while new := _read(file, path):
                    text = rest + new
                    cut = CUT.match(text, max(0, len(text) - TAIL)) if len(new) == PIECE else None
                    end = cut.end() if cut else len(text)
                    yield text[:end]
                    rest = text[end:]
                    done = before + file.buffer.tell()
                    progress.show(done, "", f"{what}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB")
                if rest:
                    yield rest
            before += os.path.getsize(path)


def _read(file: Any, path: str) -> str:
    try:
        text = file.read(PIECE)
        is_binary = "\0" in text
    except UnicodeDecodeError as error:
        is_binary, at = b"\0" in error.object, file.buffer.tell() - len(error.object) + error.start
        problem = f"{path} is not UTF-8 (byte {at} is {error.object[error.start]:#04x}); convert it with iconv"
        if not is_binary:
            raise ValueError(problem) from None
    if is_binary:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(b"\0")
        raise ValueError(f"{path} is binary (byte {at} is NUL); give a text file in UTF-8")
    return text


# ---- tokens ----

class MappedTokens:
    """The token ids of a part of a text, which stay on disk."""

    def __init__(self, memory: mmap.mmap, ids: np.ndarray):
        self._memory, self._ids = memory, ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        found = np.array(self._ids[places])
        if hasattr(mmap, "MADV_DONTNEED"):  # pages that have been read would count as memory of this process
            self._memory.madvise(mmap.MADV_DONTNEED)
        return found


def dtype_for(vocabulary_size: int) -> str:
    """The smallest dtype that holds every token id.

    >>> dtype_for(65_536), dtype_for(65_537)
    ('uint16', 'uint32')
    """
    return "uint16" if vocabulary_size <= 1 << 16 else "uint32"


def tokens_of(text: Text, tokenizer: Tokenizer, boundary: int) -> tuple[MappedTokens, MappedTokens, int]:
    """(The tokens of the text before a character, those from it on, the bytes of the latter's text); ValueError if the text
    has changed since `text` was made, or has characters without a token."""
    state, dtype = tokenizer.state(), dtype_for(len(tokenizer))
    kind = {"kind": Vocabulary.kind} if isinstance(tokenizer, Vocabulary) else state  # whose symbols change with the text
    name = _hash([[os.path.abspath(path) for path in text.paths], kind])[:32]
    header = {"text": text.sha256, "tokenizer": _hash(state), "dtype": dtype, "boundary": boundary}
    path = cache_folder() / f"{name}.tokens"
    if (found := _mapped(path, header)) is not None:
        return found
    if _is_writable(path.parent):
        return _made(path, text, tokenizer, header)
    with tempfile.TemporaryDirectory() as folder:  # every process makes the file, which disappears with it
        return _made(pathlib.Path(folder, path.name), text, tokenizer, header)


def cache_folder() -> pathlib.Path:
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home, "minigrad", "texts")


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _is_writable(folder: pathlib.Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _made(path: pathlib.Path, text: Text, tokenizer: Tokenizer, header: dict[str, Any]) -> Any:
    """What `_mapped` returns, of a file that is written whole or not at all."""
    digest, counts, size, left = hashlib.sha256(), [0, 0], 0, header["boundary"]
    with replacing(path) as file:
        for piece in pieces(text.paths, "tokenizing"):
            digest.update(piece.encode())
            for part, words in enumerate((piece[:left], piece[left:])):
                if words:
                    ids = tokenizer.encode(words).astype(header["dtype"])
                    file.write(ids.data)
                    counts[part] += len(ids)
                    size += part * len(words.encode())
            left = max(0, left - len(piece))
        if digest.hexdigest() != text.sha256:
            raise ValueError(f"{' or '.join(text.paths)} changed while it was read; try again when nothing writes to it")
        content = json.dumps(header | {"counts": counts, "validation_bytes": size}).encode()
        file.write(content + len(content).to_bytes(8, "little"))
    return _mapped(path, header)


def _mapped(path: pathlib.Path, header: dict[str, Any]) -> tuple[MappedTokens, MappedTokens, int] | None:
    """What a file holds; None if there is none with this header, or it is damaged."""
    try:
        with open(path, "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        end = len(memory) - 8
        start = end - int.from_bytes(memory[end:], "little")
        found = json.loads(memory[start:end])
        train, validation = found["counts"]
        if found != header | {"counts": [train, validation], "validation_bytes": found["validation_bytes"]}:
            return None
        ids = np.frombuffer(memory, header["dtype"], train + validation)
        if ids.nbytes != start:
            return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    if hasattr(mmap, "MADV_RANDOM"):
        memory.madvise(mmap.MADV_RANDOM)
    return MappedTokens(memory, ids[:train]), MappedTokens(memory, ids[train:]), found["validation_bytes"]
