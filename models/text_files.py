"""Texts larger than memory, read piece by piece: plain UTF-8 files and .jsonl, either also as .gz."""
import contextlib
import dataclasses
import gzip
import json
import re
import reprlib
import zlib
from collections.abc import Generator, Iterator
from typing import Any

from models.data import check_has_bytes, decode_text, with_unix_lines

PIECE_BYTES = 1 << 20  # read at once
LONGEST = 64 << 20  # bytes of a piece without a place to cut, and of a line of .jsonl
TAIL_BYTES = 1 << 12  # where a place to cut is first searched for
DOCUMENT_END = "\n\n"  # follows each document of .jsonl

# With GPT-2's and Llama 3's patterns, byte-level BPE never joins a letter or digit to a blank or line end after it.
LAST_CUT = re.compile(r".*[^\W_](?=[ \n])", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file with text, by its name: .jsonl has a document in a field of each line; .gz is compressed."""

    path: str
    field: str | None  # with the documents; None for a plain text

    @classmethod
    def of(cls, path: str, field: str) -> "TextFile":
        """The source at a path; OSError or ValueError if it cannot be read or is empty."""
        check_has_bytes(path)
        return cls(path, field if path.removesuffix(".gz").endswith(".jsonl") else None)

    def pieces(self) -> Iterator["Piece"]:
        """All of its bytes, in pieces of whole .jsonl lines, or of text cut between words.

        ValueError if a .gz is damaged, or a line too long; OSError if the file cannot be read.
        """
        rest, offset, line = b"", 0, 1
        with contextlib.closing(self._blocks()) as blocks:
            for block, position in blocks:
                content = rest + block
                end = content.rfind(b"\n") + 1 if self.field else last_cut(content)
                if not end and len(content) > LONGEST:
                    end = self._cut_anywhere(content, line)
                content, rest = content[:end], content[end:]
                if content:
                    yield Piece(self, content, offset, line, position)
                    offset += len(content)
                    line += content.count(b"\n") if self.field else 0
        if rest:
            yield Piece(self, rest, offset, line, position)

    def _blocks(self) -> Generator[tuple[bytes, int], None, None]:
        """(Bytes, the position in the file on disk after reading them)."""
        with open(self.path, "rb") as file:
            stream: Any = gzip.GzipFile(fileobj=file) if self.path.endswith(".gz") else file
            try:
                while block := stream.read(PIECE_BYTES):
                    yield block, file.tell()
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                reason = str(error).rstrip(".")
                raise ValueError(f"{self.path} is damaged, or not a .gz file ({reason}); compress it again") from None

    def _cut_anywhere(self, content: bytes, line: int) -> int:
        if self.field:
            raise ValueError(f"{self.path}, line {line} is longer than {LONGEST >> 20} MB; write one document per line")
        end = len(content) - 1
        while end > len(content) - 5 and (content[end] & 0xC0 == 0x80 or content[end - 1:end + 1] == b"\r\n"):
            end -= 1  # back to the first byte of a character
        return end


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive bytes of a source, with what another process needs to decode them."""

    source: TextFile
    content: bytes
    offset: int  # of its first byte, in the text
    line: int  # the number of its first line, in .jsonl
    position: int  # in the file on disk, after reading it

    @property
    def place(self) -> str:
        """Where it starts, for errors."""
        return f"{self.source.path}, from " + (f"line {self.line}" if self.source.field else f"byte {self.offset}")

    def texts(self) -> list[str]:
        """The text, or each document's; ValueError names the problem, and its byte or line."""
        if self.source.field is None:
            return [decode_text(self.content, self.source.path, self.offset)]
        texts, offset = [], self.offset
        for number, line in enumerate(self.content.split(b"\n"), self.line):
            text = decode_text(line, self.source.path, offset)
            if text.strip():
                texts.append(document(text, self.source.field, f"{self.source.path}, line {number}"))
            offset += len(line) + 1
        return texts


def last_cut(content: bytes) -> int:
    """The last boundary between a letter or digit and a blank or line end; 0 if there is none.

    >>> last_cut(b"to be, or not"), last_cut(b"to be, "), last_cut(b"to,"), last_cut("così è".encode())
    (9, 2, 0, 5)
    """
    for size in (TAIL_BYTES, 2 * PIECE_BYTES):
        tail = content[-size:].decode("utf-8", errors="surrogateescape")
        found = LAST_CUT.match(tail)
        if found:
            return len(content) - len(tail[found.end():].encode("utf-8", errors="surrogateescape"))
    return 0


def document(line: str, field: str, place: str) -> str:
    """The text in a line of .jsonl, with DOCUMENT_END; ValueError names the place and the problem."""
    try:
        row = json.loads(line)
    except RecursionError:
        raise ValueError(f"{place} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{place} is not JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place} is {reprlib.repr(row)}, expected an object with the field {field!r}")
    if field not in row:
        raise ValueError(f"{place} has no field {field!r}, only {reprlib.repr(list(row))}; name the field of the text with "
                         "--field")
    text = row[field]
    if not isinstance(text, str):
        raise ValueError(f"{place}: its field {field!r} is {reprlib.repr(text)}, expected a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: its field {field!r} has a lone surrogate (\\u{ord(text[error.start]):04x})") from None
    return with_unix_lines(text) + DOCUMENT_END
